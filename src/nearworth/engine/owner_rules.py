"""Owners of rows as players (games/owner_game.py).

Keys come as in classify.py, with training points in the order of their owners; then one compiled
call finds the nearest rows of each owner and values a block of queries (native/owners.c). Very many
owners are valued by random orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nearworth._common import native
from nearworth._common.memory import Memory
from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector
from nearworth._common.warnings import warn_user
from nearworth.engine.classify import ClassificationEvaluator, ClassOrder, SharedTraining
from nearworth.engine.problem import Problem
from nearworth.engine.rules import Rule, by_rank, check_rule, query_generator
from nearworth.engine.run import Evaluator, Request
from nearworth.games.coefficients import Presence
from nearworth.games.owner_game import (
    QUADRATURE_ERROR,
    Nodes,
    SmallCoalitions,
    owner_values,
    sampled_values,
)
from nearworth.inputs.features import fingerprint
from nearworth.inputs.parameters import as_generator, whole_number
from nearworth.neighbors.quantised import QuantisedKeys
from nearworth.results.sums import Leaf

if TYPE_CHECKING:
    from nearworth.engine.plan import Plan

MOST_OWNERS, MANY_ORDERS = (
    5_000,
    32,
)  # about a second for each validation point; random orders for more owners
INTERRUPT_EVERY = (
    2**20
)  # owners times numbers of scratch after which a run looks whether it should stop


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnerRule(Rule):
    """Owners as players: the owner of each training row as a code, and the nodes that stand for
    their presence.
    """

    n_values: int
    codes: IntVector
    nodes: Nodes
    n_neighbors: int
    n_counted: (
        int  # K, as far as there are rows to count: the K nearest of fewer rows are all of them
    )
    added: Any = None  # what the soft utility adds to the values of a query; made for a problem

    def identity(self) -> dict[str, Any]:
        return {"owners": fingerprint(self.codes), "nodes": len(self.nodes.t)}

    def __str__(self) -> str:
        error = f"error below {self.nodes.error:.0e}" if self.nodes.error else "no error"
        return (
            f"{self.n_values:,} owners as players; {len(self.nodes.t)} nodes integrate their"
            f" presence with {error}"
        )

    def evaluators(
        self, problem: Problem, plan: Plan, shared: SharedTraining | None
    ) -> Callable[[], Evaluator]:
        rule = replace(self, added=_added_by_small(problem, self))
        if not native.available():
            return Rule.evaluators(rule, problem, plan, shared)
        shared, binomial = (
            shared or SharedTraining(problem.keys, problem.labels),
            self.nodes.binomial(self.n_counted),
        )
        options = {"batch": plan.batch, "products": plan.products, "single": plan.single}
        return lambda: OwnersEvaluator(problem, shared, rule, binomial, **options)

    def values(
        self, problem: Problem, query: int, rows: IntVector, keys: FloatVector
    ) -> tuple[Any, FloatVector]:
        """The same without compiled code."""
        ranked, _, first = by_rank(problem, rows, keys)
        gains = (problem.labels[ranked] == problem.query_labels[query]).astype(np.float64)
        values = owner_values(self.codes[ranked], gains, first[0], self.n_counted, self.nodes)
        added = self.added(query, problem.excluded(query))
        return slice(None), np.asarray(values * (self.n_counted / self.n_neighbors) + added)

    def memory(self, n_train: int, *, by_product: bool) -> Memory:
        if not native.available():
            return super().memory(n_train, by_product=by_product)
        space = native.call("owners_space", self.n_counted, self.n_values, len(self.nodes.t))
        table = Memory(
            shared=8 * (self.n_values + 1) * self.n_counted * len(self.nodes.t) + 12 * n_train
        )
        own = Memory(per_thread=8 * space + 12 * n_train, per_query=8 * self.n_values)
        return ClassificationEvaluator.memory(n_train, by_product=by_product) + table + own


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledOwnerRule(Rule):
    """Very many owners as players, by so many random orders of them for each query."""

    n_values: int
    codes: IntVector
    n_orders: int
    seed: int
    is_exact: ClassVar[bool] = False

    def identity(self) -> dict[str, Any]:
        return {"owners": fingerprint(self.codes), "orders": self.n_orders, "seed": self.seed}

    def __str__(self) -> str:
        orders = f"{self.n_orders} random orders of them for each validation point"
        return (
            f"{self.n_values:,} owners as players; not exact: {orders}, whose error is in the"
            " standard errors"
        )

    def values(
        self, problem: Problem, query: int, rows: IntVector, keys: FloatVector
    ) -> tuple[Any, FloatVector]:
        ranked, _, first = by_rank(problem, rows, keys)
        gains = (problem.labels[ranked] == problem.query_labels[query]).astype(np.float64)
        parameters, training = problem.parameters, problem.training
        soft = parameters["utility"] == "soft"
        values = sampled_values(
            self.codes[ranked],
            gains,
            first[0],
            n_owners=self.n_values,
            n_neighbors=int(parameters["n_neighbors"]),
            n_classes=training.n_classes(parameters["n_classes"]) if soft else None,
            n_orders=self.n_orders,
            rng=query_generator(self.seed, problem, query),
        )
        return slice(None), values


def owner_rule(
    codes: IntVector, n_owners: int, parameters: Mapping[str, Any], n_orders: int | None = None
) -> Rule:
    """The rule for these parameters: exact, or by random orders if that is asked for or owners are
    too many.
    """
    check_rule("value_owners", parameters, "n_candidates", "radius", "weights")
    semivalue = parameters["semivalue"]
    if not isinstance(semivalue, str) and semivalue[0] == "sizes":
        raise ValueError(
            "value_owners: semivalue=('sizes', ...) is a law of rows, not of owners. Use another"
            " one."
        )
    whole_number(1, or_none=True)("n_orders", n_orders)
    if n_orders is None and n_owners > MOST_OWNERS:
        n_orders = MANY_ORDERS
        too_many = (
            f"{n_owners:,} owners are too many for exact values (the most are {MOST_OWNERS:,})"
        )
        instead = f"{n_orders} random orders of them stand for all, for each validation point"
        warn_user(f"{too_many}: {instead}. n_orders=... chooses how many.")
    if n_orders is not None:
        if semivalue != "shapley":
            raise ValueError(
                f"value_owners by random orders needs semivalue='shapley'; got {semivalue!r}."
            )
        state = parameters["random_state"]
        seed = 0 if state is None else int(as_generator(state).integers(2**63))
        return SampledOwnerRule(n_values=n_owners, codes=codes, n_orders=int(n_orders), seed=seed)
    max_error, k = parameters["max_error"], int(parameters["n_neighbors"])
    nodes = Nodes.of(
        Presence.of(semivalue),
        n_owners,
        QUADRATURE_ERROR if max_error is None else float(max_error),
    )
    return OwnerRule(
        n_values=n_owners, codes=codes, nodes=nodes, n_neighbors=k, n_counted=min(k, len(codes))
    )


def _added_by_small(
    problem: Problem, rule: OwnerRule
) -> Callable[[int, IntVector], FloatVector | float]:
    """What the soft utility adds to the values of owners, from a query and the rows that take no
    part in its game.
    """
    if problem.parameters["utility"] != "soft":
        return lambda _query, _excluded: 0.0
    small = SmallCoalitions(
        rule.n_neighbors, problem.training.n_classes(problem.parameters["n_classes"]), rule.nodes
    )
    shape = (
        int(problem.labels.max()) + 2,
        rule.n_values,
    )  # the last row is for labels that no training point has
    by_label = np.bincount(
        problem.labels * shape[1] + rule.codes, minlength=shape[0] * shape[1]
    ).reshape(shape)
    n_rows = by_label.sum(axis=0)

    def added(query: int, excluded: IntVector) -> FloatVector:
        label = int(problem.query_labels[query])
        alike = excluded[problem.labels[excluded] == label]
        gone, of_label = (
            np.bincount(rule.codes[rows], minlength=rule.n_values) for rows in (excluded, alike)
        )
        return small(n_rows - gone, by_label[label] - of_label)

    return added


class OwnersEvaluator(ClassificationEvaluator):
    """Values of owners; see Evaluator in run.py. One per thread."""

    def __init__(
        self,
        problem: Problem,
        shared: SharedTraining,
        rule: OwnerRule,
        chances: Any,
        **options: Any,
    ) -> None:
        super().__init__(problem, shared, **options)
        self._classes, self._probing = ClassOrder(rule.codes), False
        self._rule, self._binomial = rule, chances  # P(j of m owners are present)
        self._owner_of, self._class_of = (
            rule.codes.astype(np.int32),
            problem.labels.astype(np.int32),
        )
        self._near, self._exact = (
            np.empty(problem.n_train, dtype=np.int32),
            np.empty(problem.n_train),
        )
        self._space = np.empty(
            native.call("owners_space", rule.n_counted, rule.n_values, len(rule.nodes.t))
        )

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        problem, step = (
            self._problem,
            max(1, INTERRUPT_EVERY // (self._rule.n_values * self._space.size)),
        )
        while start < stop:
            block = self._next_block(start, min(start + self._batch, stop))
            end = start + len(block.qkeys)
            for first, last, excluded in problem.runs(start, end):
                for a in range(first, last, step):
                    part, left_out = (
                        slice(a, min(a + step, last)),
                        excluded[a - first : a - first + step],
                    )
                    values = self._of_owners(
                        block.some(a - start, part.stop - start), part, left_out
                    )
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
            "value_owners",
            block.qkeys,
            block.tolerance,
            labels,
            classes.positions[excluded],
            classes.starts,
            classes.order,
            self._owner_of,
            self._class_of,
            *block.source,
            problem.ties == "index",
            rule.n_counted,
            rule.nodes.t,
            rule.nodes.weights,
            self._binomial,
            values,
            self._near,
            self._exact,
            self._space,
        )
        return values * (rule.n_counted / rule.n_neighbors)
