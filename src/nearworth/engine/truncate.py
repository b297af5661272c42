"""Values when only the nearest points of each query are ranked.

A near point has a value of its own rank. A far point has one value if it is of the query's class and another if not, so
the sums over queries need one number per class, not one step per far point.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np

from nearworth._common.memory import Memory
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.engine.nearest import Source
from nearworth.engine.problem import Problem
from nearworth.engine.run import Request
from nearworth.games.classification import ClassificationGame
from nearworth.games.truncation import Tail, TruncatedClassification
from nearworth.neighbors.searchers import Neighbours
from nearworth.results.sums import Leaf

ENDS = 3  # value, lower end, upper end: the leading axis of every array here


class QueryValues(NamedTuple):
    """Values of one query: of its near points (3, k), and of any far point that matches or does not (3,)."""

    query: int
    label: int
    near_rows: IntVector
    near: FloatMatrix
    match: FloatVector
    other: FloatVector

    def far(self, labels: IntVector) -> FloatMatrix:
        """What points with these labels are worth if they are far, (3, len(labels))."""
        return np.where(labels == self.label, self.match[:, None], self.other[:, None])


class TruncatedEvaluator:
    """Values and certified intervals from the nearest points that a source finds."""

    def __init__(self, problem: Problem, source: Source, tail: Tail) -> None:
        assert isinstance(problem.game, ClassificationGame)
        self._problem, self._source = problem, source
        self._game = TruncatedClassification(problem.game, tail)
        self._class_sizes = np.bincount(problem.labels)
        self._identity = np.arange(problem.n_train, dtype=np.int32)

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        """See Evaluator. Far points cost time only if single values, groups or standard errors are wanted."""
        weights, rows = self._problem.weights, list(self._rows(start, stop))
        if request.excess is not None:
            request.excess[:, start:stop] = self._excess(rows)
        if request.needs_every_value:
            for row in rows:
                request.add(leaf, row.query, float(weights[row.query]), self._all_values(row), self._identity)
                yield 0
        else:
            leaf.count(weights[start:stop])
        if request.groups is None:
            self._add_sums(rows, leaf)
        yield stop - start

    @staticmethod
    def memory(n_train: int, *, by_product: bool) -> Memory:
        """Bytes of the sums of one leaf and what it takes to continue them; per query its exact keys."""
        thread = 18 * 8 * n_train
        if by_product:
            return Memory(per_thread=thread)
        return Memory(per_thread=thread + 24 * n_train, per_query=20 * n_train)

    def _rows(self, start: int, stop: int) -> Iterator[QueryValues]:
        """Queries with equally many near points are valued together."""
        found = self._source(start, stop)
        sizes = found.sizes.tolist()
        for size, group in groupby(range(start, stop), key=lambda query: sizes[query - start]):
            queries = list(group)
            part = slice(queries[0] - start, queries[-1] - start + 1)
            yield from self._valued(queries, Neighbours(found.rows[part, :size], found.keys[part, :size]))

    def _valued(self, queries: list[int], near: Neighbours) -> Iterator[QueryValues]:
        problem = self._problem
        labels = problem.query_labels[queries]
        matches = problem.labels[near.rows] == labels[:, None]
        n_matches = np.where(labels >= 0, self._class_sizes[labels], 0) - problem.leave_one_out
        values = self._game.rows(matches, near.starts(problem.ties), n_matches)
        by_query = zip(*(np.stack(interval, axis=1) for interval in values), strict=True)  # value and both ends
        for query, label, near_rows, row in zip(queries, labels.tolist(), near.rows, by_query, strict=True):
            yield QueryValues(query, label, near_rows, *row)

    def _add_sums(self, rows: list[QueryValues], leaf: Leaf) -> None:
        """Add the values of queries, and both ends, to the sums of a leaf.

        `near` holds what near points have beyond a far point's value; of `far`, column 0 counts for every point and
        column c + 1 also for those of class c.
        """
        problem, labels = self._problem, self._problem.labels
        near = leaf.arrays.setdefault("near", np.zeros((ENDS, problem.n_train)))
        far = leaf.arrays.setdefault("far", np.zeros((ENDS, len(self._class_sizes) + 1)))
        for row in rows:
            weight = float(problem.weights[row.query])
            far[:, 0] += weight * row.other
            if row.label >= 0:
                far[:, row.label + 1] += weight * (row.match - row.other)
            near[:, row.near_rows] += weight * (row.near - row.far(labels[row.near_rows]))
            if problem.leave_one_out:
                itself = problem.self_rows(row.query)
                near[:, itself] -= weight * row.far(labels[[itself]])[:, 0]
        leaf.arrays["sums"] = near + (far[:, :1] + far[:, 1:])[:, labels]

    def _all_values(self, row: QueryValues) -> FloatVector:
        values: FloatVector = row.far(self._problem.labels)[0]
        values[row.near_rows] = row.near[0]
        if self._problem.leave_one_out:
            values[self._problem.self_rows(row.query)] = 0.0
        return values

    def _excess(self, rows: list[QueryValues]) -> FloatMatrix:
        """How much farther each query's ends would be if it knew no rank at all: below and above, (2, queries)."""
        nothing = Neighbours(np.zeros((len(rows), 0), dtype=np.intp), np.zeros((len(rows), 0)))
        blind = self._valued([row.query for row in rows], nothing)
        return np.array([self._farther(*pair) for pair in zip(rows, blind, strict=True)]).T

    def _farther(self, row: QueryValues, blind: QueryValues) -> FloatVector:
        known = np.column_stack([row.near, row.match, row.other])
        unknown = np.column_stack([blind.far(self._problem.labels[row.near_rows]), blind.match, blind.other])
        return np.maximum([(known[1] - unknown[1]).max(), (unknown[2] - known[2]).max()], 0.0)
