"""Classification when only the k nearest points of a query are ranked (FORMULAS: Theorems 3 and G).

The class histogram tells how many of the others match. So everything about the near points is known except one
number, what the far matches take from them, and it lies in a known interval; the far points have one value for
matches and one for the rest. Whatever `tail` fills in, the interval is the same: the sharp one, for every semivalue
(see `intervals`).

    tail        the near points' loss to the far ones      a far point
    local       expected under a fitted rate curve         expected under the same curve     (see `rate_curve`)
    minimax     midpoint of its interval                   midpoint of its interval
    mean        mean over all orders of the far points     mean over all orders
    paper       makes rank k worth the far constant        (c_N/2 - P(no player is present)/C), the same for all

The last is Theorem 3 for the soft-label Shapley value, where the constant is (1/2 - 1/C)/N; with the original
utility the constant is 0, as Jia et al. have it. Its value may lie outside the interval, which holds all the same:
the greatest distance from the value to an end bounds the error in any case.

Tied near points are averaged. Far points may be tied in unknown ways: their true value is then a mean over orders, and
a mean of numbers in an interval lies in it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolMatrix, FloatMatrix, IntVector
from nearworth.games.classification import ClassificationGame, linear_values
from nearworth.games.coefficients import RankWeights
from nearworth.games.intervals import FarRanks, Interval
from nearworth.games.rate_curve import RateCurve
from nearworth.games.ties import TieBlocks

Tail: TypeAlias = Literal["local", "minimax", "mean", "paper"]


class TruncatedRows(NamedTuple):
    """Values of Q queries: of the near points in rank order (Q, k), and of any far point of each query (Q,).

    With tail "paper" a value may lie outside its interval.
    """

    near: Interval
    far_match: Interval
    far_other: Interval


class TruncatedClassification:
    """One game seen through k ranked neighbours per query; k may change from call to call."""

    def __init__(self, game: ClassificationGame, tail: Tail = "local") -> None:
        if tail not in get_args(Tail):
            raise ValueError(f"tail must be one of {', '.join(map(repr, get_args(Tail)))}; got {tail!r}.")
        self.game = game
        self.tail = tail
        self._ranks = FarRanks(game.weights)
        self._curves: dict[int, RateCurve] = {}

    def rows(self, matches: npt.NDArray[Any], first: BoolMatrix | None, n_matches: npt.NDArray[Any]) -> TruncatedRows:
        """Values and intervals of Q queries.

        Parameters
        ----------
        matches : (Q, k) bool
            Whether the label at each of the k nearest ranks is the query's.
        first : (Q, k) bool or None
            Where a block of tied ranks begins; None without ties. No block may reach beyond rank k.
        n_matches : (Q,) int
            Matches among all players, near and far.
        """
        u = np.asarray(matches, dtype=np.float64)
        k = u.shape[1]
        far = self._far_matches(u, n_matches)
        ties = TieBlocks(np.ones(u.shape, dtype=bool) if first is None else first)
        of_match, of_other = (
            np.broadcast_to(x, far.shape) for x in self.game.added(np.asarray(n_matches, dtype=np.float64))
        )
        # Not known: the near points' loss to far matches, and a far point's value without what the soft utility adds.
        unknown = (self._ranks.lost(k, far), self._ranks.match(k, far), self._ranks.other(k, far))
        lost, match, other = self._filled_in(unknown, ties.total(u) / ties.size, far, of_match, of_other)
        weights = RankWeights(self.game.weights.worth[:k], self.game.weights.loss[:k])
        known = linear_values(u, weights, ties) + np.where(u > 0, of_match[:, None], of_other[:, None])
        near = known - lost.value[:, None]
        below, above = lost.upper - lost.value, lost.value - lost.lower
        ends = Interval(near, near - below[:, None], near + above[:, None])
        return TruncatedRows(ends, match.plus(of_match), other.plus(of_other))

    def worst_error(self, k: int) -> float:
        """The largest certified error over all label sequences, when k neighbours are ranked.

        So K* can be chosen before any label is seen; the intervals of the actual labels are narrower, often by far.
        Attained for "minimax" and "paper". The values of "local" and "mean" may come close to an end of their
        interval, so for them it is the interval's width, twice the error of "minimax".
        """
        ranks, n = self._ranks, self.game.n_players
        if k >= n:
            return 0.0
        if self.tail == "paper":
            # A lone match at rank k (or 1) lies the farthest above the constant, a lone other there below it.
            rank, constant = max(k, 1), self._far_constant()
            lone_match = ranks.worth[rank] + self.game.added(1)[0]
            lone_other = self.game.added(n - 1)[1] - ranks.total_loss(rank, n)
            return float(max(lone_match - constant, constant - lone_other))
        # The loss is widest when half of the far points match (it is concave in their number), a far point for one.
        half = ranks.lost(k, (n - k) // 2)
        width = max(ranks.total_loss(k + 1, n), half.upper - half.lower if k else 0.0)
        return float(width / 2 if self.tail == "minimax" else width)

    def _far_matches(self, u: FloatMatrix, n_matches: npt.NDArray[Any]) -> IntVector:
        far: IntVector = np.asarray(n_matches).astype(np.intp) - u.sum(axis=1).astype(np.intp)
        n_far = self.game.n_players - u.shape[1]
        if n_far < 0 or far.min(initial=0) < 0 or far.max(initial=0) > n_far:
            raise ValueError(
                f"matches and n_matches must leave 0 to {n_far} matches for the unranked players; "
                f"found {far.tolist()} with {u.shape[1]} of {self.game.n_players} ranked: count all players once."
            )
        return far

    def _filled_in(
        self, unknown: tuple[Interval, ...], rates: FloatMatrix, far: IntVector, of_match: Any, of_other: Any
    ) -> tuple[Interval, ...]:
        """The same intervals around the values that `tail` takes; `rates` are match rates by rank."""
        k = rates.shape[1]
        if self.tail == "minimax":
            return tuple(interval.centred() for interval in unknown)
        if self.tail == "local" and 0 < k < self.game.n_players:
            if k not in self._curves:
                self._curves[k] = RateCurve(self._ranks, k)
            local = rates[:, k // 2 :]
            expected = self._curves[k].expected(local.sum(axis=1), local.shape[1], far)
            return tuple(interval.around(value) for interval, value in zip(unknown, expected, strict=True))
        if self.tail == "paper" and k < self.game.n_players:
            constant = self._far_constant()
            last = rates[:, -1] if k else np.zeros(len(rates))
            lost = last * (self._ranks.worth[k] + of_match - of_other) + of_other - constant
            values = (lost, constant - of_match, constant - of_other)
            return tuple(interval._replace(value=value) for interval, value in zip(unknown, values, strict=True))
        return unknown

    def _far_constant(self) -> float:
        """What tail "paper" gives to every far point: (1/2 - 1/C)/N for the soft-label Shapley value."""
        of_match, of_other = self.game.added(0)
        # The soft utility adds something even without a match; leave-one-out with N > K does not, but c_N = 0 there.
        soft = (of_match, of_other) != (0.0, 0.0)
        return float(of_other + (self.game.weights.worth[-1] / 2 if soft else 0.0))


def candidates_for_error(game: ClassificationGame, max_error: float, tail: Tail = "local") -> int:
    """The smallest number of ranked neighbours, 1 to N, that certifies `max_error` whatever the labels."""
    if not max_error >= 0.0:
        raise ValueError(f"max_error must be a number of at least 0; got {max_error!r}.")
    truncated = TruncatedClassification(game, tail)
    choices = range(1, game.n_players + 1)
    return choices[bisect_left(choices, True, key=lambda k: truncated.worst_error(k) <= max_error)]


def paper_bound(n_players: int, n_neighbors: int, n_candidates: int) -> float:
    """Theorem 3's bound on the error of tail "paper" for the soft-label Shapley value, K* < N and K <= N.

    As its proof has it: the printed statement is the same for K >= 2 and larger by 1/(2N) for K = 1.
    """
    if not 1 <= n_neighbors <= n_players or not 0 <= n_candidates < n_players:
        raise ValueError(
            f"Theorem 3 needs 1 <= n_neighbors <= n_players and n_candidates < n_players; got {n_neighbors=}, "
            f"{n_candidates=}, {n_players=}. Elsewhere use the intervals, which always hold."
        )
    harmonic = sum(1.0 / j for j in range(2, n_neighbors + 1))
    return (harmonic - 0.5) / n_players + 1.0 / max(n_candidates, n_neighbors)
