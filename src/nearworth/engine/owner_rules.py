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

# Exact values of so many owners take about a second for each validation point.
MAX_EXACT_OWNERS = 5_000

# Random orders for each validation point, if owners are more.
DEFAULT_ORDERS = 32

# A run can be stopped between two calls of the compiled code, which value queries until owners
# times numbers of scratch reach this.
MAX_OPERATIONS_PER_CALL = 2**20


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnerRule(Rule):
    """Owners as players.

    Attributes
    ----------
    n_values : int
        How many owners there are.
    codes : array of shape (N,)
        The owner of each training row.
    nodes : Nodes
        They integrate over the presence of owners.
    n_neighbors : int
        K.
    n_counted : int
        K, or the number of rows if these are fewer: their K nearest are all of them.
    added : callable, optional
        From a query and its excluded rows, what the soft utility adds to the values of owners. It
        belongs to a problem, and is set when the evaluators are made.
    """

    n_values: int
    codes: IntVector
    nodes: Nodes
    n_neighbors: int
    n_counted: int
    added: Any = None

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
        training = shared or SharedTraining(problem.keys, problem.labels)
        binomial = self.nodes.binomial(self.n_counted)
        return lambda: OwnersEvaluator(
            problem,
            training,
            rule,
            binomial,
            batch=plan.batch,
            products=plan.products,
            single=plan.single,
        )

    def values(
        self, problem: Problem, query: int, rows: IntVector, keys: FloatVector
    ) -> tuple[Any, FloatVector]:
        """The same without compiled code."""
        ranked, _, is_first = by_rank(problem, rows, keys)
        gains = (problem.labels[ranked] == problem.query_labels[query]).astype(np.float64)
        values = owner_values(self.codes[ranked], gains, is_first[0], self.n_counted, self.nodes)
        added = self.added(query, problem.excluded(query))
        return slice(None), np.asarray(values * (self.n_counted / self.n_neighbors) + added)

    def memory(self, n_train: int, *, by_product: bool) -> Memory:
        if not native.available():
            return super().memory(n_train, by_product=by_product)
        n_nodes = len(self.nodes.t)
        space = native.call("owners_space", self.n_counted, self.n_values, n_nodes)
        binomial = 8 * (self.n_values + 1) * self.n_counted * n_nodes
        own = Memory(
            shared=binomial + 12 * n_train,
            per_thread=8 * space + 12 * n_train,
            per_query=8 * self.n_values,
        )
        return ClassificationEvaluator.memory(n_train, by_product=by_product) + own


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledOwnerRule(Rule):
    """Very many owners as players, by random orders of them.

    Attributes
    ----------
    n_values : int
        How many owners there are.
    codes : array of shape (N,)
        The owner of each training row.
    n_orders : int
        Random orders for each query.
    seed : int
    """

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
        ranked, _, is_first = by_rank(problem, rows, keys)
        gains = (problem.labels[ranked] == problem.query_labels[query]).astype(np.float64)
        parameters = problem.parameters
        n_classes = None
        if parameters["utility"] == "soft":
            n_classes = problem.training.n_classes(parameters["n_classes"])
        values = sampled_values(
            self.codes[ranked],
            gains,
            is_first[0],
            n_owners=self.n_values,
            n_neighbors=int(parameters["n_neighbors"]),
            n_classes=n_classes,
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
    if n_orders is None and n_owners > MAX_EXACT_OWNERS:
        n_orders = DEFAULT_ORDERS
        too_many = (
            f"{n_owners:,} owners are too many for exact values (the most are {MAX_EXACT_OWNERS:,})"
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
    max_error = parameters["max_error"]
    quadrature_error = QUADRATURE_ERROR if max_error is None else float(max_error)
    k = int(parameters["n_neighbors"])
    return OwnerRule(
        n_values=n_owners,
        codes=codes,
        nodes=Nodes.of(Presence.of(semivalue), n_owners, quadrature_error),
        n_neighbors=k,
        n_counted=min(k, len(codes)),
    )


def _added_by_small(
    problem: Problem, rule: OwnerRule
) -> Callable[[int, IntVector], FloatVector | float]:
    """A function that gives what the soft utility adds to the values of owners, shape (n_owners,),
    from a query and the rows that take no part in its game.
    """
    if problem.parameters["utility"] != "soft":
        return lambda _query, _excluded: 0.0
    n_classes = problem.training.n_classes(problem.parameters["n_classes"])
    small_coalitions = SmallCoalitions(rule.n_neighbors, n_classes, rule.nodes)

    # Rows of each label and owner. The last row is that of label -1, which no training point has.
    n_owners = rule.n_values
    shape = (int(problem.labels.max()) + 2, n_owners)
    cells = problem.labels * n_owners + rule.codes
    rows_by_label = np.bincount(cells, minlength=shape[0] * n_owners).reshape(shape)
    n_rows = rows_by_label.sum(axis=0)

    def added(query: int, excluded: IntVector) -> FloatVector:
        label = int(problem.query_labels[query])
        excluded_matches = excluded[problem.labels[excluded] == label]
        n_excluded = np.bincount(rule.codes[excluded], minlength=n_owners)
        n_excluded_matches = np.bincount(rule.codes[excluded_matches], minlength=n_owners)
        return small_coalitions(n_rows - n_excluded, rows_by_label[label] - n_excluded_matches)

    return added


class OwnersEvaluator(ClassificationEvaluator):
    """Values of owners; see Evaluator in run.py. One per thread.

    `binomial` is P(j of m owners are present) by node, shape (n_owners + 1, K, nodes).
    """

    def __init__(
        self,
        problem: Problem,
        shared: SharedTraining,
        rule: OwnerRule,
        binomial: FloatMatrix,
        *,
        batch: int,
        products: bool,
        single: bool,
    ) -> None:
        super().__init__(problem, shared, batch=batch, products=products, single=single)
        # Keys are made as for classes, with points in the order of their owners instead.
        self._classes = ClassOrder(rule.codes)
        self._probing = False

        self._rule = rule
        self._binomial = binomial
        self._owner_of = rule.codes.astype(np.int32)
        self._class_of = problem.labels.astype(np.int32)

        # Scratch of the compiled code: candidates of a query and their exact keys, and laws.
        self._candidates = np.empty(problem.n_train, dtype=np.int32)
        self._exact_keys = np.empty(problem.n_train)
        n_numbers = native.call("owners_space", rule.n_counted, rule.n_values, len(rule.nodes.t))
        self._space = np.empty(n_numbers)

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        """Add the values of the queries start..stop-1 to a leaf, in pieces.

        It yields the number of queries of each piece. A valuation can be interrupted between two
        pieces. The queries within one of `Problem.runs` have equally many excluded rows.
        """
        operations_per_query = self._rule.n_values * self._space.size
        step = max(1, MAX_OPERATIONS_PER_CALL // operations_per_query)
        while start < stop:
            block = self._next_block(start, min(start + self._batch, stop))
            end = start + len(block.qkeys)
            for first, last, excluded in self._problem.runs(start, end):
                for begin in range(first, last, step):
                    piece_end = min(begin + step, last)
                    run = block.some(begin - start, piece_end - start)
                    own_excluded = excluded[begin - first : piece_end - first]
                    self._add_run(leaf, run, begin, own_excluded, request)
                    yield piece_end - begin
            start = end

    def _add_run(
        self, leaf: Leaf, run: QuantisedKeys, start: int, excluded: IntMatrix, request: Request
    ) -> None:
        """Add the queries from `start` on, each with as many `excluded` rows."""
        run_values = self._run_values(run, start, excluded)
        for q, values in enumerate(run_values):
            query = start + q
            added = self._rule.added(query, excluded[q])
            request.add(leaf, query, float(self._problem.weights[query]), values + added)

    def _run_values(self, run: QuantisedKeys, start: int, excluded: IntMatrix) -> FloatMatrix:
        """Values without what the soft utility adds, shape (queries, owners)."""
        problem, rule, owners = self._problem, self._rule, self._classes
        n_queries = len(run.qkeys)
        values = np.empty((n_queries, rule.n_values))
        queries, points, given, ask = run.source
        native.call(
            "value_owners",
            qkeys=run.qkeys,
            tolerances=run.tolerance,
            labels=problem.query_labels[start : start + n_queries].astype(np.int32),
            excluded=owners.positions[excluded],
            starts=owners.starts,
            row_of=owners.order,
            owner_of=self._owner_of,
            class_of=self._class_of,
            queries=queries,
            points=points,
            given=given,
            ask=ask,
            by_index=problem.ties == "index",
            k=rule.n_counted,
            t=rule.nodes.t,
            weights=rule.nodes.weights,
            binomial=self._binomial,
            values=values,
            near=self._candidates,
            exact=self._exact_keys,
            space=self._space,
        )
        return values * (rule.n_counted / rule.n_neighbors)
