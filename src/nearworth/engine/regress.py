"""How validation points are valued in regression: exact keys, full ranks, then the closed form from
far to near.

The whole order matters, so every key is made exactly: after a product of single precision more than
half of 10^5 points would have to be compared by exact distances. `native/order.c` sorts them and
`native/regression.c` values a block of queries in one call. Without the library, `RankRule`
(rules.py) does the same by numpy.
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
from nearworth.engine.run import Request
from nearworth.results.sums import Leaf

GOOD_BLOCK = 16  # queries from which on distances of all pairs are efficient
KEYS_AT_ONCE = 2**21  # keys that stay in a large cache until they are sorted


class RegressionEvaluator:
    """Values of validation points; see Evaluator in run.py. One per thread."""

    def __init__(self, problem: Problem, batch: int = 1) -> None:
        n_train = problem.n_train
        self._problem, self._block = problem, interruptible_batch(problem, batch)
        if not problem.keys.streamed:
            self._block = min(self._block, max(GOOD_BLOCK, KEYS_AT_ONCE // n_train))
        numbers = (problem.labels, problem.query_labels, problem.weights)
        floats = (np.ascontiguousarray(each, dtype=np.float64) for each in numbers)
        self._targets, self._query_targets, self._weights = floats
        self._values = np.zeros(n_train)
        self._order, self._first = (
            np.empty(n_train, dtype=np.int32),
            np.empty(n_train, dtype=np.uint8),
        )
        self._items, self._spare = (
            np.empty(n_train, dtype=np.uint64),
            np.empty(n_train, dtype=np.uint64),
        )

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        for a in range(start, stop, self._block):
            yield from self._add_block(leaf, a, min(a + self._block, stop), request)

    def _add_block(self, leaf: Leaf, a: int, b: int, request: Request) -> Iterator[int]:
        """Queries whose keys are made together, and are gone before the next are made."""
        problem, weights = self._problem, self._weights
        keys = np.ascontiguousarray(problem.keys(problem.queries[a:b]))
        for start, stop, excluded in problem.runs(a, b):
            run = keys[start - a : stop - a]
            np.put_along_axis(run, excluded, np.nan, axis=1)
            if not request.needs_every_value and request.nearest is None:
                self._value(start, run, excluded.shape[1], weights[start:stop], leaf.total)
                leaf.count(weights[start:stop])
                yield len(run)
                continue
            for query, row in enumerate(run, start=start):
                self._values.fill(0.0)
                self._value(query, row[None, :], excluded.shape[1], np.ones(1), self._values)
                if request.nearest is not None:  # to the end of the ties at the end of the list
                    n_players = problem.n_train - excluded.shape[1]
                    later = np.flatnonzero(self._first[request.nearest.size : n_players])
                    near = self._order[
                        : request.nearest.size + int(later[0]) if len(later) else n_players
                    ]
                    request.nearest.keep(query, near, row[near])
                request.add(leaf, query, float(weights[query]), self._values)
                yield 1

    def _value(
        self,
        start: int,
        keys: FloatMatrix,
        n_excluded: int,
        weights: FloatVector,
        total: FloatVector,
    ) -> None:
        """Add the values of the queries from `start` on to `total`."""
        problem, game = self._problem, self._problem.game_without(n_excluded)
        correction = None if game.correction is None else np.array(astuple(game.correction))
        block = slice(start, start + len(keys))
        native.call(
            "value_regression",
            keys,
            self._targets,
            self._query_targets[block],
            weights,
            problem.ties == "index",
            game.single.worth,
            game.single.loss,
            game.pair.worth,
            game.pair.loss,
            game.votes,
            correction,
            total,
            self._items,
            self._spare,
            self._order,
            self._first,
        )

    @staticmethod
    def memory(n_train: int) -> Memory:
        """Bytes of one evaluator; per query its keys, which exist twice where a metric makes and
        converts them.
        """
        return Memory(per_thread=(3 * 8 + 4 + 1) * n_train + 2**12, per_query=(8 + 8) * n_train)
