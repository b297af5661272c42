"""A checked question, complete, and who answers it query by query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatVector, Ties
from nearworth.engine import regress
from nearworth.engine.classify import ClassifierRows, MarkedRow, Marker, Members
from nearworth.engine.nearest_lists import NearestLists
from nearworth.engine.plan import Plan
from nearworth.games.classification import ClassificationGame
from nearworth.games.regression import RegressionGame
from nearworth.neighbors.keys import Keys
from nearworth.neighbors.products import ExactKeys, Products
from nearworth.neighbors.ranking import rank
from nearworth.results.moments import Leaf

PROMPT = 2**28  # differences after which it is time to look whether to stop
MOST_IN_DOUBT = 0.02  # share of points to settle beyond which 64-bit products are cheaper


@dataclass(frozen=True)
class Problem:
    """Validation points against training points.

    With `leave_out`, the validation points are the training points themselves and each takes no part in
    its own game.
    """

    keys: Keys
    game: ClassificationGame | RegressionGame
    labels: npt.NDArray[Any]
    queries: Any
    query_labels: npt.NDArray[Any]
    weights: FloatVector
    ties: Ties
    leave_out: bool = False

    @property
    def n_train(self) -> int:
        """Number of training points."""
        return len(self.labels)

    @property
    def n_val(self) -> int:
        """Number of validation points."""
        return len(self.query_labels)


class ClassificationEvaluator:
    """By pivots (see `kernels`): from a matrix product where there is one, else from exact keys."""

    def __init__(
        self,
        problem: Problem,
        members: Members,
        products: Products | None,
        nearest: NearestLists | None = None,
        batch: int = 1,
    ) -> None:
        assert isinstance(problem.game, ClassificationGame)
        self._batch = batch
        self._problem = problem
        self._nearest = nearest
        self._products = products
        self._narrow = products is not None and products.single_precision
        self._marker = Marker(problem.n_train)
        self._rows = ClassifierRows(problem.game, members, problem.n_train, problem.ties == "index")
        self._most_in_doubt = MOST_IN_DOUBT * problem.n_train

    def add(self, leaf: Leaf, start: int, stop: int, request: Any) -> Iterator[int]:
        """See Evaluator."""
        find = self._from_keys if self._products is None else self._from_products
        weights = self._problem.weights
        for a in range(start, stop, self._batch):
            b = min(a + self._batch, stop)
            for query, _ in enumerate(find(a, b), start=a):
                request.add(leaf, query, float(weights[query]), self._rows.table, self._rows.place)
                yield b - a if query == b - 1 else 0

    def _from_keys(self, start: int, stop: int) -> Iterator[None]:
        for query, keys in _key_rows(self._problem, start, stop):
            self._value(query, self._marker.exact(keys), keys.__getitem__)
            yield

    def _from_products(self, start: int, stop: int) -> Iterator[None]:
        """Narrow products as long as they leave few points in doubt; the values are the same either way."""
        assert self._products is not None
        while start < stop:
            narrow = self._narrow
            points = np.ascontiguousarray(self._problem.queries[start:stop], dtype=np.float64)
            batch = self._products(points, single=narrow)
            for query, row in enumerate(self._marker.rough(batch)):
                settled, kept = 0, False
                if batch.usable[query]:
                    settled, kept = self._value(start, row, batch.exact[query])
                    self._narrow &= kept and settled <= self._most_in_doubt
                if kept:
                    yield
                else:
                    yield from self._from_keys(start, start + 1)
                start += 1
                if narrow != self._narrow:
                    break  # the others in 64 bits

    def _value(self, query: int, row: MarkedRow, judge: ExactKeys) -> tuple[int, bool]:
        left_out = query if self._problem.leave_out else -1
        if self._nearest is not None:  # first, because valuing uses the marks up
            self._nearest.note(query, row.marks, row.reach, judge, left_out)
        return self._rows(row, judge, int(self._problem.query_labels[query]), left_out)


class RegressionEvaluator:
    """By full ranks and the closed form, query after query."""

    def __init__(self, problem: Problem, nearest: NearestLists | None = None) -> None:
        assert isinstance(problem.game, RegressionGame)
        self._problem = problem
        self._nearest = nearest
        self._game = problem.game
        self._targets = np.asarray(problem.labels, dtype=np.float64)
        self._identity = np.arange(problem.n_train, dtype=np.int32)
        self._values = np.empty(problem.n_train)
        self._linear, self._squared, self._ranked = (np.empty(problem.game.n_players) for _ in range(3))

    def add(self, leaf: Leaf, start: int, stop: int, request: Any) -> Iterator[int]:
        """See Evaluator."""
        problem = self._problem
        for query, keys in _key_rows(problem, start, stop):
            left_out = np.array([query]) if problem.leave_out else None
            ranking = rank(keys[None, :], problem.ties, left_out)
            if self._nearest is not None:
                near = ranking.order[0][: _with_ties(ranking.first[0], self._nearest.size)]
                self._nearest.keep(query, near, keys[near])
            self._value(self._targets[ranking.order[0]], ranking.first[0], float(problem.query_labels[query]))
            regress.scatter(ranking.order[0], self._ranked, self._values)
            request.add(leaf, query, float(problem.weights[query]), self._values, self._identity)
            yield 1

    def _value(self, targets: FloatVector, first: npt.NDArray[np.bool_], target: float) -> None:
        """Values in rank order, into `_ranked`."""
        game, added = self._game, self._game.correction
        x = targets if added is None else targets - target
        regress.squared_sum_row(
            x, first, game.single.worth, game.single.loss, game.pair.worth, game.pair.loss,
            float(game.votes), self._linear, self._squared,
        )  # fmt: skip
        if added is None:
            np.subtract(2.0 * target * self._linear, self._squared, out=self._ranked)
        else:
            small = (added.own, added.cross, added.others, added.pairs, added.empty)
            regress.soft_row(x, target, self._squared, *small, self._ranked)


def _key_rows(problem: Problem, start: int, stop: int) -> Iterator[tuple[int, FloatVector]]:
    """Exact keys of the queries one after the other, made a few at a time so that nobody waits long for the next."""
    step = max(1, PROMPT // (problem.n_train * problem.queries.shape[1]))
    if problem.keys.streamed:  # or else a pass over the file for each
        step = stop - start
    for a in range(start, stop, step):
        yield from enumerate(problem.keys(problem.queries[a : min(a + step, stop)]), start=a)


def _with_ties(first: npt.NDArray[np.bool_], size: int) -> int:
    """How many come before the end of the block of equals that holds rank `size`."""
    later = np.flatnonzero(first[size:])
    return size + int(later[0]) if len(later) else len(first)


def make_evaluators(problem: Problem, plan: Plan, nearest: NearestLists | None = None) -> Callable[[], Any]:
    """A maker of evaluators, one for each thread, and what they share; they fill `nearest` on the way if given."""
    if isinstance(problem.game, RegressionGame):
        return lambda: RegressionEvaluator(problem, nearest)
    members = Members(problem.labels)
    products = problem.keys.products(single=plan.narrow) if plan.products else None
    return lambda: ClassificationEvaluator(problem, members, products, nearest, plan.batch)
