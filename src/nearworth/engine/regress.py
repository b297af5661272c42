"""How validation points are valued in regression: exact keys, full ranks, then the closed form from far to near.

Points are ordered by their exact keys, whatever the metric. A product of single precision would leave half of them to
be compared by exact distances (N = 10^5, d = 32), which are cheaper when made for all in the order of the rows.
`native/order.c` sorts and `native/regression.c` values a block of queries in one call; without the library numpy does,
by the formulas of `games/regression.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple

import numpy as np
import numpy.typing as npt

from nearworth._common import native
from nearworth._common.memory import Memory
from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.engine.problem import Problem
from nearworth.engine.run import Request
from nearworth.games.ties import TieBlocks
from nearworth.neighbors.searchers import Neighbours
from nearworth.results.sums import Leaf

GOOD_BLOCK = 16  # queries from which on all pairs of them and a panel of points are efficient
KEYS_AT_ONCE = 2**21  # keys that memory in use before and a large cache can hold; more of them are slower


class RegressionEvaluator:
    """Values of validation points; see Evaluator in run.py. One per thread."""

    def __init__(self, problem: Problem, batch: int = 1) -> None:
        n_train, game = problem.n_train, problem.game
        self._problem, self._game = problem, game
        self._batch = batch if problem.keys.streamed else min(batch, max(GOOD_BLOCK, KEYS_AT_ONCE // n_train))
        self._targets = np.asarray(problem.labels, dtype=np.float64)
        self._correction = None if game.correction is None else np.array(astuple(game.correction))
        self._identity = np.arange(n_train, dtype=np.int32)
        self._values = np.empty((1, n_train))
        self._order, self._first = np.empty(n_train, dtype=np.int32), np.empty(n_train, dtype=np.uint8)
        self._items, self._spare = np.empty(n_train, dtype=np.uint64), np.empty(n_train, dtype=np.uint64)

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        weights = self._problem.weights
        one_by_one = request.needs_every_value or request.nearest is not None or not native.available()
        for a, keys in self._problem.exact_key_blocks(start, stop, self._batch):
            if not one_by_one:
                self._compiled(a, keys, total=leaf.total)
                leaf.count(weights[a : a + len(keys)])
                yield len(keys)
                continue
            for query, row in enumerate(keys, start=a):
                (self._compiled if native.available() else self._readable)(query, row[None, :])
                if request.nearest is not None:
                    near = self._order[: _end_of_ties(self._first[: self._game.n_players], request.nearest.size)]
                    request.nearest.keep(query, near, row[near])
                request.add(leaf, query, float(weights[query]), self._values[0], self._identity)
                yield 1

    def _compiled(self, query: int, keys: FloatMatrix, total: FloatVector | None = None) -> None:
        """Add the values of queries from `query` on to `total`; without it, those of one query go to `_values`."""
        problem, game, block = self._problem, self._game, slice(query, query + len(keys))
        native.call(
            "value_regression", keys, self._targets, problem.query_labels[block], problem.weights[block],
            problem.self_index(query), problem.ties == "index",
            game.single.worth, game.single.loss, game.pair.worth, game.pair.loss, float(game.votes), self._correction,
            total, self._values if total is None else None, self._items, self._spare, self._order, self._first,
        )  # fmt: skip

    def _readable(self, query: int, keys: FloatMatrix) -> None:
        """The values of one query, its order and its ties by numpy."""
        problem, n_players = self._problem, self._game.n_players
        if problem.leave_one_out:
            keys[:, query] = np.nan  # sorts behind everything, infinity included
        order = np.argsort(keys[0], kind="stable")[None, :n_players]
        first = Neighbours(order, np.take_along_axis(keys, order, axis=1)).starts(problem.ties)
        target = np.asarray(problem.query_labels[query : query + 1], dtype=np.float64)
        self._values[:] = 0.0
        self._values[0, order[0]] = self._game.values(self._targets[order], target, TieBlocks(first))[0]
        self._order[:n_players], self._first[:n_players] = order[0], first[0]

    @staticmethod
    def memory(n_train: int) -> Memory:
        """Bytes of one evaluator; per query its keys, which exist twice where a metric makes and converts them."""
        return Memory(per_thread=(3 * 8 + 2 * 4 + 1 + 8) * n_train, per_query=(8 + 8) * n_train)


def _end_of_ties(first: npt.NDArray[np.uint8], size: int) -> int:
    """Where the block of ties ends that holds rank `size`."""
    later = np.flatnonzero(first[size:])
    return size + int(later[0]) if len(later) else len(first)
