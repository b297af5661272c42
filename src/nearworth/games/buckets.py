"""All points, but sorted into buckets only (FORMULAS: Theorem H).

Ranks are cut into consecutive buckets, of which only the size and the number of matches are known; a bucket of one is
a rank known exactly. Every point gets its mean over the orders inside the buckets, and an interval: its own bucket may
be in any order, and so may each later one. A bucket that is pure, or one tie, costs nothing at all.

How wide may buckets be for an error of at most eps, whatever the labels? With t the most that a bucket's loss can
differ from its mean (the sum of what its losses exceed their mean by), a point of bucket (a, b] is wrong by at most

    max( c_{a+1} - m + t(a+1, b),  m - c_b )  +  sum of t over the later buckets,      m the mean of c over the bucket.

`bucket_edges` fills that from the far end, for every semivalue. `BucketRule` is for buckets that come from somewhere
else, such as a histogram: it says which may stay as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import ceil, inf, log, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._typing import BoolMatrix, FloatVector, IntVector
from nearworth.games.blocks import Blocks, Interval
from nearworth.games.classification import ClassificationGame
from nearworth.games.coefficients import sum_after


class BucketedRows(NamedTuple):
    """Value and interval of a match, and of a non-match, in each bucket of each query (Q, B)."""

    match: Interval
    other: Interval


class BucketedClassification:
    """One game seen through counts per bucket; the buckets may change from query to query."""

    def __init__(self, game: ClassificationGame) -> None:
        self.game = game
        self.blocks = Blocks(game.weights)

    def rows(self, sizes: npt.NDArray[Any], matches: npt.NDArray[Any], tied: BoolMatrix | None = None) -> BucketedRows:
        """Values of Q queries from the counts of their B buckets, nearest first.

        Parameters
        ----------
        sizes, matches : (Q, B) int
            How many points each bucket holds, and how many of them match. Empty buckets are allowed.
        tied : (Q, B) bool or None
            Buckets whose points are all at one distance: their mean is the truth. No tie may span two buckets.
        """
        sizes, matches = np.asarray(sizes, dtype=np.intp), np.asarray(matches, dtype=np.intp)
        self._check(sizes, matches)
        last = np.cumsum(sizes, axis=1)
        after = last - sizes
        sure = np.zeros(sizes.shape, dtype=bool) if tied is None else tied
        lost = self.blocks.lost(after, last, matches).settled(sure)
        later = Interval(*(sum_after(part) for part in lost))
        of_match, of_other = self.game.added(matches.sum(axis=1, keepdims=True).astype(np.float64))
        return BucketedRows(
            self.blocks.match(after, last, matches).settled(sure).minus(later).plus(of_match),
            self.blocks.other(after, last, matches).settled(sure).minus(later).plus(of_other),
        )

    def _check(self, sizes: IntVector, matches: IntVector) -> None:
        if sizes.min(initial=0) < 0 or (sizes.sum(axis=1) != self.game.n_players).any():
            raise ValueError(
                f"sizes must count each of the {self.game.n_players} players once; "
                f"found {sizes.sum(axis=1).tolist()} in all."
            )
        if (matches < 0).any() or (matches > sizes).any():
            raise ValueError("matches must lie between 0 and sizes in every bucket; count matches per bucket.")


def bucket_edges(game: ClassificationGame, max_error: float) -> IntVector:
    """Ranks at which buckets may end, so that no value is wrong by more than `max_error`, whatever the labels.

    The first edge is the number of ranks that must be known one by one (0: none), the last is N; between, bucket j is
    ranks edges[j]+1..edges[j+1]. Wide buckets far out, narrow ones near: about max_error^(-1/2) in all.
    """
    _check_error(max_error)
    n, losses, blocks = game.n_players, game.weights.loss, Blocks(game.weights)
    # For the Shapley value equal errors inside all buckets need the fewest, and then this share of the whole is best.
    most_inside = max_error / (1.0 + 0.5 * log(max(n * sqrt(max_error), 1.0)))
    edges, later, size = [n], 0.0, n
    while edges[-1] > 0:
        size = _widest_bucket(blocks, losses, edges[-1], 2 * size, most_inside, max_error - later)
        if size == 1:
            break
        later += _largest_deviation(losses[edges[-1] - size : edges[-1]])
        edges.append(edges[-1] - size)
    return np.array(edges[::-1], dtype=np.intp)


def _widest_bucket(
    blocks: Blocks, losses: FloatVector, last: int, most: int, most_inside: float, remaining: float
) -> int:
    """How many ranks up to `last` may share a bucket: it may move its own points, and those nearer, by so much."""

    def too_wide(size: int) -> bool:
        after = last - size
        mean = blocks.mean_worth(after, last)
        above = blocks.worth[after + 1] - mean + _largest_deviation(losses[after + 1 : last])
        inside = max(above, mean - blocks.worth[last])
        return bool(inside > min(most_inside, remaining) or _largest_deviation(losses[after:last]) > remaining)

    return 1 + bisect_left(range(2, min(most, last) + 1), True, key=too_wide)


def _largest_deviation(losses: FloatVector) -> float:
    """How much the losses of some of these ranks can differ from as many mean losses."""
    return float(np.maximum(losses - losses.mean(), 0.0).sum())


@dataclass(frozen=True)
class BucketRule:
    """Which buckets need no sorting for the Shapley value: any cut of the ranks that keeps the rule has error <= eps.

    A bucket of ranks after+1..after+n may stay if it is pure, or one tie, or n <= `widest(after)` = 1 + theta after^2
    with after >= prefix, prefix >= theta^(-1/2) and K. Then a point's own bucket moves it by at most theta/2. The later
    ones move it by t <= n^2/(4 a^2 b) <= (n/b)(theta + 1/a^2)/4 each; sum n/b <= log(N/prefix) and
    sum n/(a^2 b) <= theta/2 + theta/prefix, so theta (5/8 + 1/(4 prefix) + log(N/prefix)/4) = eps is enough.
    """

    theta: float
    prefix: int

    @classmethod
    def of(cls, n_players: int, n_neighbors: int, max_error: float) -> BucketRule:
        """The rule for N players, K neighbours and an error of `max_error`."""
        _check_error(max_error)
        if max_error == 0.0:
            return cls(0.0, n_players)
        prefix = 1.0
        for _ in range(50):  # theta falls with the logarithm of prefix: this settles in a few rounds
            theta = max_error / cls._cost(n_players, prefix)
            prefix = min(max(n_neighbors, ceil(1.0 / sqrt(theta))), n_players)
        return cls(max_error / cls._cost(n_players, prefix), int(prefix))

    def widest(self, after: Any) -> Any:
        """How many points a bucket may hold that begins behind rank `after`."""
        a = np.asarray(after, dtype=np.float64)
        return np.where(a >= self.prefix, 1 + np.floor(self.theta * a * a), 1).astype(np.intp)

    @staticmethod
    def _cost(n_players: int, prefix: float) -> float:
        return 0.625 + 0.25 / prefix + 0.25 * log(n_players / prefix)


def _check_error(max_error: float) -> None:
    if not 0.0 <= max_error < inf:
        raise ValueError(f"max_error must be a finite number of at least 0; got {max_error!r}.")
