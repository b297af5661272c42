"""How one validation point is valued in regression: full ranks, then the closed form from far to near.

The formulas are those of `games/regression.py`, block of ties by block of ties, in O(N) and without temporaries.
"""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nearworth._common.compile import compiled
from nearworth._common.memory import Memory
from nearworth._common.types import FloatVector
from nearworth.engine.problem import Problem
from nearworth.engine.run import Request
from nearworth.neighbors.searchers import Neighbours
from nearworth.results.sums import Leaf


class RegressionEvaluator:
    """Values of validation points; see Evaluator in run.py. One per thread."""

    def __init__(self, problem: Problem, batch: int = 1) -> None:
        self._problem, self._game, self._batch = problem, problem.game, batch
        self._targets = np.asarray(problem.labels, dtype=np.float64)
        self._identity = np.arange(problem.n_train, dtype=np.int32)
        self._values = np.empty(problem.n_train)
        self._linear, self._squared, self._ranked = (np.empty(problem.game.n_players) for _ in range(3))

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        problem = self._problem
        for query, keys in problem.exact_keys(start, stop, self._batch):
            if problem.leave_one_out:
                keys[query] = np.nan  # sorts behind everything, infinity included
            order = np.argsort(keys, kind="stable" if problem.ties == "index" else None)[: self._game.n_players]
            first = Neighbours(order[None, :], keys[None, order]).starts(problem.ties)[0]
            if request.nearest is not None:
                near = order[: _end_of_ties(first, request.nearest.size)]
                request.nearest.keep(query, near, keys[near])
            self._value(self._targets[order], first, float(problem.query_labels[query]))
            scatter(order, self._ranked, self._values)
            request.add(leaf, query, float(problem.weights[query]), self._values)
            yield 1

    def _value(self, targets: FloatVector, first: npt.NDArray[np.bool_], target: float) -> None:
        """Values in rank order, into `_ranked`."""
        game, correction = self._game, self._game.correction
        x = targets if correction is None else targets - target
        squared_sum_row(
            x, first, game.single.worth, game.single.loss, game.pair.worth, game.pair.loss,
            float(game.votes), self._linear, self._squared,
        )  # fmt: skip
        if correction is None:
            np.subtract(2.0 * target * self._linear, self._squared, out=self._ranked)
        else:
            small = (correction.own, correction.cross, correction.others, correction.pairs, correction.empty)
            soft_row(x, target, self._squared, *small, self._ranked)

    @staticmethod
    def memory(n_train: int) -> Memory:
        """Bytes of one evaluator with its ranking (order, ranked keys, first, targets in order); per query its keys."""
        return Memory(per_thread=(6 * 8 + 4 + 5 * 8 + 1) * n_train, per_query=(8 + 8) * n_train)


def _end_of_ties(first: npt.NDArray[np.bool_], size: int) -> int:
    """Where the block of ties ends that holds rank `size`."""
    later = np.flatnonzero(first[size:])
    return size + int(later[0]) if len(later) else len(first)


@compiled
def squared_sum_row(x, first, worth, loss, pair_worth, pair_loss, votes, linear, squared):
    """Values, by rank, of the games (1/K) sum x and ((1/K) sum x)^2 over the K nearest.

    `first[l]` says whether a block of tied ranks begins at rank l; `worth` and `loss` are c and d, `pair_worth` and
    `pair_loss` e and f. The results go to `linear` and `squared`.
    """
    n = x.shape[0]
    before = np.empty(n + 1)
    before[0] = 0.0
    for i in range(n):
        before[i + 1] = before[i] + x[i]
    later_x = later_xx = later_pair = evicted = 0.0
    end = n
    while end > 0:
        start = end - 1
        while not first[start]:
            start -= 1
        size, nearer = end - start, before[start]
        sum_x = sum_xx = 0.0
        c = d = dd = e = oe = f = of = oof = ef = 0.0
        for i in range(start, end):
            offset = i - start
            sum_x += x[i]
            sum_xx += x[i] * x[i]
            c += worth[i]
            d += loss[i]
            dd += offset * loss[i]
            e += pair_worth[i]
            ef += pair_worth[i] + pair_loss[i]
            oe += offset * (2.0 * pair_worth[i] + pair_loss[i])
            f += pair_loss[i]
            of += offset * pair_loss[i]
            oof += offset * (offset - 1.0) * pair_loss[i]
        rest, rest_pairs = max(size - 1.0, 1.0), max((size - 1.0) * (size - 2.0), 1.0)
        for i in range(start, end):
            v = x[i]
            other = (sum_x - v) / rest
            other_square = (sum_xx - v * v) / rest
            other_pair = ((sum_x - v) ** 2 - (sum_xx - v * v)) / rest_pairs
            linear[i] = (v * c - other * dd) / size - later_x
            single = (v * v * c - other_square * dd) / size - later_xx
            inside = v * other * oe - other * (nearer + v) * of - other_pair * oof
            pair = v * later_pair - evicted + (v * nearer * e + inside) / size
            squared[i] = single / votes + pair * (2.0 / (votes * votes))
        later_x += sum_x / size * d
        later_xx += sum_xx / size * d
        later_pair += sum_x / size * ef
        pair_mean = (sum_x * sum_x - sum_xx) / max(size * (size - 1.0), 1.0)
        evicted += sum_x / size * nearer * f + pair_mean * of
        end = start


@compiled
def soft_row(z, target, squared, own, cross, others, pairs, empty, values):
    """Values of the soft utility by rank, from those of the squared sum of residuals z."""
    total = squares = 0.0
    for i in range(z.shape[0]):
        total += z[i]
        squares += z[i] * z[i]
    for i in range(z.shape[0]):
        rest, rest_squares = total - z[i], squares - z[i] * z[i]
        small = own * z[i] * z[i] + 2.0 * cross * z[i] * rest + others * rest_squares
        small += pairs * (rest * rest - rest_squares)
        values[i] = empty * target * target - squared[i] - small


@compiled
def scatter(order, ranked, values):
    """From rank order to point order; points that are not ranked get nothing."""
    values[:] = 0.0
    for i in range(order.shape[0]):
        values[order[i]] = ranked[i]
