"""How validation points are valued in regression: exact keys, full ranks, then the closed form from
far to near.

The whole order matters, so every key is exact. After a product of single precision more than half
of 10^5 points would have to be compared by exact distances. `native/order.c` sorts the keys and
`native/regression.c` values a block of queries in one call. Without the library, `RankRule`
(reference.py) does the same by numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple

import numpy as np

from nearworth._common import native
from nearworth._common.memory import Memory
from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.engine.interruption import interruptible_batch
from nearworth.engine.problem import Problem
from nearworth.engine.run import NearestLists, Request
from nearworth.results.sums import Leaf

# From so many queries on, distances of all pairs are efficient.
MIN_EFFICIENT_QUERIES = 16

# So many keys stay in a large cache until they are sorted.
MAX_KEYS_AT_ONCE = 2**21


class RegressionEvaluator:
    """Values of validation points; see Evaluator in run.py. One per thread."""

    def __init__(self, problem: Problem, batch: int = 1) -> None:
        n_train = problem.n_train
        self._problem = problem
        self._block_size = interruptible_batch(problem, batch)
        if not problem.keys.streamed:
            n_in_cache = max(MIN_EFFICIENT_QUERIES, MAX_KEYS_AT_ONCE // n_train)
            self._block_size = min(self._block_size, n_in_cache)

        # As compiled code reads them.
        self._targets = np.ascontiguousarray(problem.labels, dtype=np.float64)
        self._query_targets = np.ascontiguousarray(problem.query_labels, dtype=np.float64)
        self._weights = np.ascontiguousarray(problem.weights, dtype=np.float64)

        # The values of one query, then what the compiled code needs: after a call, `_order` has the
        # points of its last query by rank, and `_is_first` says where blocks of ties begin.
        self._values = np.zeros(n_train)
        self._order = np.empty(n_train, dtype=np.int32)
        self._is_first = np.empty(n_train, dtype=np.uint8)
        self._items = np.empty(n_train, dtype=np.uint64)
        self._spare = np.empty(n_train, dtype=np.uint64)

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        for first in range(start, stop, self._block_size):
            yield from self._add_block(leaf, first, min(first + self._block_size, stop), request)

    def _add_block(self, leaf: Leaf, first: int, end: int, request: Request) -> Iterator[int]:
        """Add queries whose keys are made together, and are gone before the next are made."""
        problem = self._problem
        keys = np.ascontiguousarray(problem.keys(problem.queries[first:end]))
        for start, stop, excluded in problem.runs(first, end):
            run_keys = keys[start - first : stop - first]
            np.put_along_axis(run_keys, excluded, np.nan, axis=1)
            n_excluded = excluded.shape[1]
            if request.needs_every_value or request.nearest is not None:
                yield from self._add_one_by_one(leaf, start, run_keys, n_excluded, request)
                continue
            weights = self._weights[start:stop]
            self._add_values(start, run_keys, n_excluded, weights, leaf.total)
            leaf.count(weights)
            yield stop - start

    def _add_one_by_one(
        self, leaf: Leaf, start: int, keys: FloatMatrix, n_excluded: int, request: Request
    ) -> Iterator[int]:
        """Add the queries from `start` on, where sums alone are not enough."""
        for query, query_keys in enumerate(keys, start=start):
            self._values.fill(0.0)
            self._add_values(query, query_keys[None, :], n_excluded, np.ones(1), self._values)
            if request.nearest is not None:
                self._keep_nearest(request.nearest, query, query_keys, n_excluded)
            request.add(leaf, query, float(self._weights[query]), self._values)
            yield 1

    def _keep_nearest(
        self, lists: NearestLists, query: int, keys: FloatVector, n_excluded: int
    ) -> None:
        """Record the nearest points of the last query, to the end of the ties at the list's end."""
        n_listed = self._problem.n_train - n_excluded
        later_blocks = np.flatnonzero(self._is_first[lists.size : n_listed])
        if len(later_blocks) > 0:
            n_listed = lists.size + int(later_blocks[0])
        rows = self._order[:n_listed]
        lists.keep(query, rows, keys[rows])

    def _add_values(
        self,
        start: int,
        keys: FloatMatrix,
        n_excluded: int,
        weights: FloatVector,
        total: FloatVector,
    ) -> None:
        """Add weighted values of the queries from `start` on to `total`, shape (N,).

        `keys` has shape (Q, N), and NaN for the `n_excluded` points that take no part.
        """
        problem = self._problem
        game = problem.game_without(n_excluded)
        correction = None if game.correction is None else np.array(astuple(game.correction))
        native.call(
            "value_regression",
            keys=keys,
            targets=self._targets,
            query_targets=self._query_targets[start : start + len(keys)],
            weights=weights,
            by_index=problem.ties == "index",
            worth=game.single.worth,
            loss=game.single.loss,
            pair_worth=game.pair.worth,
            pair_loss=game.pair.loss,
            votes=game.votes,
            correction=correction,
            total=total,
            items=self._items,
            spare=self._spare,
            order=self._order,
            first=self._is_first,
        )

    @staticmethod
    def memory(n_train: int) -> Memory:
        """Bytes of one evaluator; per query its keys, which exist twice where a metric makes and
        converts them.
        """
        return Memory(per_thread=(3 * 8 + 4 + 1) * n_train + 2**12, per_query=(8 + 8) * n_train)
