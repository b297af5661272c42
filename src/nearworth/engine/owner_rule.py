"""How validation points are valued if the players are owners: see games/owner_game.py.

The keys come as in classify.py, with training points in the order of their owners. Then one compiled call finds the
nearest rows of each owner and values a block of queries (native/owners.c).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common import native
from nearworth._common.memory import Memory
from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector
from nearworth.engine.classify import ClassificationEvaluator, ClassOrder, SharedTraining
from nearworth.engine.problem import Problem
from nearworth.engine.rules import Rule, by_rank, check_rule
from nearworth.engine.run import Evaluator, Request
from nearworth.games.coefficients import Presence
from nearworth.games.owner_game import QUADRATURE_ERROR, Nodes, SmallCoalitions, owner_values
from nearworth.inputs.features import fingerprint
from nearworth.neighbors.quantised import QuantisedKeys
from nearworth.results.sums import Leaf

if TYPE_CHECKING:
    from nearworth.engine.plan import Plan


MOST_OWNERS = 5_000  # about a second for each validation point
INTERRUPT_EVERY = 2**20  # owners times numbers of scratch after which a run looks whether it should stop


@dataclass(frozen=True, eq=False)
class OwnerRule(Rule):
    """Owners as players: the owner of each training row as a code, and the nodes that stand for their presence."""

    codes: IntVector
    nodes: Nodes
    n_neighbors: int
    added: Any = None  # what the soft utility adds to the values of a query; made for a problem

    @property
    def n_counted(self) -> int:
        """K, as far as there are rows to count: the K nearest of fewer rows are all of them."""
        return min(self.n_neighbors, len(self.codes))

    @property
    def n_values(self) -> int:  # type: ignore[override]
        return self.nodes.n_owners

    @property
    def identity(self) -> dict[str, Any]:
        return {"owners": fingerprint(self.codes), "nodes": len(self.nodes.t)}

    def __str__(self) -> str:
        error = f"error below {self.nodes.error:.0e}" if self.nodes.error else "no error"
        return f"{self.n_values:,} owners as players; {len(self.nodes.t)} nodes integrate their presence with {error}"

    def evaluators(self, problem: Problem, plan: Plan, shared: SharedTraining | None) -> Callable[[], Evaluator]:
        rule = replace(self, added=_AddedBySmall(problem, self))
        if not native.available():
            return Rule.evaluators(rule, problem, plan, shared)
        shared, binomial = shared or SharedTraining(problem.keys, problem.labels), self.nodes.binomial(self.n_counted)
        options = {"batch": plan.batch, "products": plan.products, "single": plan.single}
        return lambda: OwnersEvaluator(problem, shared, rule, binomial, **options)

    def values(self, problem: Problem, query: int, rows: IntVector, keys: FloatVector) -> FloatVector:
        """The same without compiled code."""
        ranked, _, first = by_rank(problem, rows, keys)
        gains = (problem.labels[ranked] == problem.query_labels[query]).astype(np.float64)
        values = owner_values(self.codes[ranked], gains, first[0], self.n_counted, self.nodes)
        added = self.added(query, problem.excluded(query))
        return np.asarray(values * (self.n_counted / self.n_neighbors) + added)

    def memory(self, n_train: int, *, by_product: bool) -> Memory:
        if not native.available():
            return super().memory(n_train, by_product=by_product)
        space = native.call("owners_space", self.n_counted, self.n_values, len(self.nodes.t))
        table = Memory(shared=8 * (self.n_values + 1) * self.n_counted * len(self.nodes.t) + 12 * n_train)
        own = Memory(per_thread=8 * space + 12 * n_train, per_query=8 * self.n_values)
        return ClassificationEvaluator.memory(n_train, by_product=by_product) + table + own


def owner_rule(codes: IntVector, n_owners: int, parameters: Mapping[str, Any]) -> OwnerRule:
    """The rule for these parameters, if they ask for a game of owners that can be solved exactly."""
    check_rule("value_owners", parameters, "n_candidates", "radius", "weights")
    semivalue = parameters["semivalue"]
    if not isinstance(semivalue, str) and semivalue[0] == "sizes":
        raise ValueError("value_owners: semivalue=('sizes', ...) is a law of rows, not of owners. Use another one.")
    if n_owners > MOST_OWNERS:
        raise ValueError(
            f"value_owners is exact, and {n_owners:,} owners are too many for that (the most are {MOST_OWNERS:,}). "
            "Merge small owners, or add up the values of rows with Valuation.sum_by."
        )
    max_error = parameters["max_error"]
    nodes = Nodes.of(Presence.of(semivalue), n_owners, QUADRATURE_ERROR if max_error is None else float(max_error))
    return OwnerRule(codes, nodes, int(parameters["n_neighbors"]))


class _AddedBySmall:
    """What the soft utility adds to the values of owners, for each query."""

    def __init__(self, problem: Problem, rule: OwnerRule) -> None:
        self._problem, self._codes, self._n_owners = problem, rule.codes, rule.n_values
        self._small = None
        if problem.parameters["utility"] == "soft":
            n_classes = problem.training.n_classes(problem.parameters["n_classes"])
            self._small = SmallCoalitions(rule.n_neighbors, n_classes, rule.nodes)
        shape = int(problem.labels.max()) + 2, self._n_owners  # the last row is for labels that no training point has
        self._matches = np.bincount(problem.labels * shape[1] + self._codes, minlength=shape[0] * shape[1])
        self._matches = self._matches.reshape(shape)
        self._rows = self._matches.sum(axis=0)

    def __call__(self, query: int, excluded: IntVector) -> FloatVector | float:
        if self._small is None:
            return 0.0
        label, n_rows = int(self._problem.query_labels[query]), self._rows
        n_matches = self._matches[label]
        if len(excluded):
            alike = excluded[self._problem.labels[excluded] == label]
            n_rows = n_rows - np.bincount(self._codes[excluded], minlength=self._n_owners)
            n_matches = n_matches - np.bincount(self._codes[alike], minlength=self._n_owners)
        return self._small(n_rows, n_matches)


class OwnersEvaluator(ClassificationEvaluator):
    """Values of owners; see Evaluator in run.py. One per thread."""

    def __init__(
        self, problem: Problem, shared: SharedTraining, rule: OwnerRule, binomial: Any, **options: Any
    ) -> None:
        super().__init__(problem, shared, **options)
        self._classes, self._probing = ClassOrder(rule.codes), False
        self._rule, self._binomial = rule, binomial
        self._owner_of, self._class_of = rule.codes.astype(np.int32), problem.labels.astype(np.int32)
        self._near, self._exact = np.empty(problem.n_train, dtype=np.int32), np.empty(problem.n_train)
        self._space = np.empty(native.call("owners_space", rule.n_counted, rule.n_values, len(rule.nodes.t)))

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        problem, step = self._problem, max(1, INTERRUPT_EVERY // (self._rule.n_values * self._space.size))
        while start < stop:
            block = self._next_block(start, min(start + self._batch, stop))
            end = start + len(block.qkeys)
            for first, last, excluded in problem.runs(start, end):
                for a in range(first, last, step):
                    part, left_out = slice(a, min(a + step, last)), excluded[a - first : a - first + step]
                    values = self._of_owners(block.some(a - start, part.stop - start), part, left_out)
                    for query, row, rows in zip(range(a, part.stop), values, left_out, strict=True):
                        weight = float(problem.weights[query])
                        request.add(leaf, query, weight, row + self._rule.added(query, rows))
                    yield len(values)
            start = end

    def _of_owners(self, block: QuantisedKeys, part: slice, excluded: IntMatrix) -> FloatMatrix:
        problem, rule, classes = self._problem, self._rule, self._classes
        values = np.empty((len(block.qkeys), rule.n_values))
        labels = problem.query_labels[part].astype(np.int32)
        native.call(
            "value_owners", block.qkeys, block.tolerance, labels, classes.positions[excluded], classes.starts,
            classes.order, self._owner_of, self._class_of, *block.source, problem.ties == "index", rule.n_counted,
            rule.nodes.t, rule.nodes.weights, self._binomial, values, self._near, self._exact, self._space,
        )  # fmt: skip
        return values * (rule.n_counted / rule.n_neighbors)
