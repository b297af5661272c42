"""Values when only the nearest points of each query are ranked: near points one by one, all far ones at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common.memory import Memory
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.engine.nearest import Near, Source
from nearworth.engine.problem import Problem
from nearworth.games.blocks import Interval
from nearworth.games.classification import ClassificationGame
from nearworth.games.regression import RegressionGame
from nearworth.games.truncated_regression import TruncatedRegression, evaluate
from nearworth.games.truncation import Tail, TruncatedClassification
from nearworth.results.moments import Leaf, Truncated

Valued: TypeAlias = tuple[int, Near, Any]  # a query, its near points, its Row
ENDS = 3  # value, lower end, upper end: the leading axis of every array here


class ClassRow:
    """Far points of the query's class have one value, all others another."""

    def __init__(
        self, near: FloatMatrix, match: FloatVector, other: FloatVector, label: int, labels: IntVector
    ) -> None:
        self.near, self.match, self.other, self.label = near, match, other, label
        self._labels = labels

    def far_of(self, rows: IntVector) -> FloatMatrix:
        """What these training points would be worth if they were far, (3, len(rows))."""
        return np.where(self._labels[rows] == self.label, self.match[:, None], self.other[:, None])

    def excess(self, blind: ClassRow, near: IntVector) -> FloatVector:
        """How much farther the ends may be of a query that knows no rank at all, at most: below, above."""
        known = np.column_stack([self.near, self.match, self.other])
        return _farther(known, np.column_stack([blind.far_of(near), blind.match, blind.other]))


class ClassSum:
    """One number for everybody and one more for each class."""

    def __init__(self, labels: IntVector, state: FloatMatrix | None = None) -> None:
        self._labels = labels
        self.state = np.zeros((ENDS, int(labels.max()) + 2)) if state is None else state
        self._other, self._extra = self.state[:, 0], self.state[:, 1:]

    def add(self, row: ClassRow, weight: float) -> None:
        """Add one query."""
        self._other += weight * row.other
        if row.label >= 0:
            self._extra[:, row.label] += weight * (row.match - row.other)

    def everywhere(self) -> FloatMatrix:
        """What all training points have got so far as if they were far, (3, N)."""
        return np.asarray((self._other[:, None] + self._extra)[:, self._labels])


class TargetRow:
    """The value of a far point is a quadratic in its target."""

    def __init__(self, near: FloatMatrix, far: FloatMatrix, targets: FloatVector) -> None:
        self.near, self.far = near, far
        self._targets = targets

    def far_of(self, rows: IntVector) -> FloatMatrix:
        """What these training points would be worth if they were far, (3, len(rows))."""
        return evaluate(self.far[:, None, :], self._targets[rows])

    def excess(self, blind: TargetRow, near: IntVector) -> FloatVector:
        """See ClassRow: of far points, a quadratic is largest at an end of the targets' range or at its vertex."""
        _, slope, curve = (self.far - blind.far).T
        low, high = self._targets.min(), self._targets.max()
        vertices = np.clip(np.divide(-slope, 2.0 * curve, out=np.zeros(ENDS), where=curve != 0), low, high)
        far = np.array([low, high, *vertices])
        known = np.column_stack([self.near, evaluate(self.far[:, None, :], far)])
        return _farther(known, np.column_stack([blind.far_of(near), evaluate(blind.far[:, None, :], far)]))


class TargetSum:
    """Coefficients of that quadratic."""

    def __init__(self, targets: FloatVector, state: FloatMatrix | None = None) -> None:
        self._targets = targets
        self.state = np.zeros((ENDS, 3)) if state is None else state

    def add(self, row: TargetRow, weight: float) -> None:
        """Add one query."""
        self.state += weight * row.far

    def everywhere(self) -> FloatMatrix:
        """What all training points have got so far as if they were far, (3, N)."""
        return evaluate(self.state[:, None, :], self._targets)


class TruncatedEvaluator:
    """Values and certified intervals from the nearest points that a source finds."""

    def __init__(self, problem: Problem, source: Source, tail: Tail) -> None:
        self._problem, self._source = problem, source
        self._identity = np.arange(problem.n_train, dtype=np.int32)
        self._counts = np.zeros(0, dtype=np.intp)
        if isinstance(problem.game, ClassificationGame):
            self._game: TruncatedClassification | TruncatedRegression = TruncatedClassification(problem.game, tail)
            self._counts = np.bincount(problem.labels)
        else:
            assert isinstance(problem.game, RegressionGame)
            self._game = TruncatedRegression(problem.game, problem.labels)
            self._targets = np.asarray(problem.labels, dtype=np.float64) - self._game.center

    def add(self, leaf: Leaf, start: int, stop: int, request: Any) -> Iterator[int]:
        """See Evaluator. Far points cost nothing unless somebody wants single values, groups or their spread."""
        weights, rows = self._problem.weights, list(self.rows(start, stop))
        if request.excess is not None:
            request.excess[:, start:stop] = self.excess(rows)
        if request.needs_every_value:
            for (query, _, _), places in zip(rows, self.dense(rows), strict=True):
                request.add(leaf, query, float(weights[query]), *places)
                yield 0
        else:
            leaf.count(weights[start:stop])
        if request.groups is None:
            leaf.truncated = self.sums(rows, weights, leaf.truncated)
        yield stop - start

    @staticmethod
    def memory(n_train: int, *, by_product: bool) -> Memory:
        """Bytes of the sums of one leaf and what it takes to continue them; per query its exact keys."""
        thread = 18 * 8 * n_train
        return (
            Memory(per_thread=thread)
            if by_product
            else Memory(per_thread=thread + 24 * n_train, per_query=20 * n_train)
        )

    def sums(self, rows: list[Valued], weights: FloatVector, before: Truncated | None = None) -> Truncated:
        """Sums over some queries of values and both ends, going on from those of others before them."""
        problem = self._problem
        total = np.zeros((ENDS, problem.n_train)) if before is None else before.near.copy()
        state = None if before is None else before.far.copy()
        far = ClassSum(problem.labels, state) if self._counts.size else TargetSum(self._targets, state)
        for query, near, row in rows:
            weight = float(weights[query])
            far.add(row, weight)  # type: ignore[arg-type]
            total[:, near.rows] += weight * (row.near - row.far_of(near.rows))
            if problem.leave_one_out:
                total[:, query] -= weight * row.far_of(np.array([query]))[:, 0]
        return Truncated(total + far.everywhere(), total, far.state)

    def dense(self, rows: list[Valued]) -> Iterator[tuple[FloatVector, npt.NDArray[np.int32]]]:
        """Every point's value, near or far, one query after the other."""
        everybody = np.arange(self._problem.n_train)
        for query, near, row in rows:
            values = row.far_of(everybody)[0]
            values[near.rows] = row.near[0]
            if self._problem.leave_one_out:
                values[query] = 0.0
            yield values, self._identity

    def excess(self, rows: list[Valued]) -> FloatMatrix:
        """How much farther the ends of each query's intervals would be if nothing were ranked at all, (2, queries)."""
        nothing = Near(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=bool))
        blind = self._values([query for query, _, _ in rows], [nothing] * len(rows))
        return np.array([row.excess(b, near.rows) for (_, near, row), b in zip(rows, blind, strict=True)]).T

    def rows(self, start: int, stop: int) -> Iterator[Valued]:
        """Each query with its near points and values; queries with equally many near points are valued together."""
        found = self._source(start, stop)
        for _, group in groupby(range(start, stop), key=lambda query: len(found[query - start].rows)):
            queries = list(group)
            near = [found[query - start] for query in queries]
            yield from zip(queries, near, self._values(queries, near), strict=True)

    def _values(self, queries: Any, near: list[Near]) -> Iterator[Any]:
        """Rows of queries with equally many near points."""
        problem = self._problem
        numbers = np.asarray(list(queries))
        ranked = problem.labels[np.array([n.rows for n in near], dtype=np.intp).reshape(len(near), -1)]
        first = np.array([n.first for n in near], dtype=bool).reshape(ranked.shape)
        labels = problem.query_labels[numbers]
        if isinstance(self._game, TruncatedClassification):
            matches = ranked == labels[:, None]
            n_matches = np.where(labels >= 0, self._counts[labels], 0) - problem.leave_one_out
            values = self._game.rows(matches, first, n_matches)
            ends = np.stack([values.near, values.near_lower, values.near_upper], axis=1)
            match, other = (_by_query(interval) for interval in (values.far_match, values.far_other))
            for q, label in enumerate(labels.tolist()):
                yield ClassRow(ends[q], match[q], other[q], label, problem.labels)
            return
        left_out = problem.labels[numbers].astype(np.float64) if problem.leave_one_out else None
        answers = self._game.rows(ranked.astype(np.float64), first, labels.astype(np.float64), left_out)
        near_ends, far = _by_query(answers.near), _by_query(answers.far)
        for q in range(len(near)):
            yield TargetRow(near_ends[q], far[q], self._targets)


def _farther(known: FloatMatrix, unknown: FloatMatrix) -> FloatVector:
    """How far at most the ends of one interval lie beyond those of the other: below, above."""
    return np.maximum([(known[1] - unknown[1]).max(), (unknown[2] - known[2]).max()], 0.0)


def _by_query(interval: Interval) -> npt.NDArray[Any]:
    """Value and both ends of each query, (Q, 3, ...)."""
    return np.stack([np.asarray(part) for part in interval], axis=1)
