"""Classification when only the k nearest points of a query are ranked (FORMULAS: Theorems 3 and G).

The class histogram tells how many of the others match. So everything about the near points is known except one
number, what the far matches take from them, and it lies in a known interval; the far points have one value for
matches and one for the rest. Whatever `tail` fills in, the interval is the same: the sharp one, for every semivalue
(see `blocks`).

    tail        the near points' loss to the far ones      a far point
    local       expected under a fitted rate curve         expected under the same curve     (see `rate_curve`)
    minimax     midpoint of its interval                   midpoint of its interval
    mean        mean over all orders of the far points     mean over all orders
    paper       makes rank k worth the far constant        (c_N/2 - P(nobody is present)/C), the same for all

The last is Theorem 3 for the soft-label Shapley value, where the constant is (1/2 - 1/C)/N; with the original
utility the constant is 0, as Jia et al. have it. Its value may lie outside the interval, which holds all the same:
the greatest distance from the value to an end bounds the error in any case.

Tied near points are averaged. Far points may be tied in unknown ways: their true value is then a mean over orders, and
a mean of numbers in an interval lies in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolMatrix, FloatMatrix, FloatVector, IntVector
from nearworth.games.blocks import Blocks, Interval
from nearworth.games.classification import ClassificationGame, linear_values
from nearworth.games.coefficients import RankWeights
from nearworth.games.rate_curve import RateCurve
from nearworth.games.ties import TieBlocks

Tail: TypeAlias = Literal["local", "minimax", "mean", "paper"]


@dataclass(frozen=True)
class TruncatedRows:
    """Values of Q queries in rank order, and of any far point of each; (Q, k) and (Q,), or (k,) and () for one query.

    The values of a query's near points are all wrong by the same unknown amount, so two numbers give their interval.
    """

    near: FloatMatrix
    near_below: FloatVector  # how far the true value may lie below
    near_above: FloatVector  # how far above; negative for tail "paper" where its value is certainly too large
    far_match: Interval
    far_other: Interval

    @property
    def near_lower(self) -> FloatMatrix:
        """Lower ends of the near points' intervals."""
        return np.asarray(self.near - self.near_below[..., None])

    @property
    def near_upper(self) -> FloatMatrix:
        """Upper ends of the near points' intervals."""
        return np.asarray(self.near + self.near_above[..., None])

    def query(self, q: int) -> TruncatedRows:
        """One query of the batch."""
        match, other = (Interval(*(x[q] for x in interval)) for interval in (self.far_match, self.far_other))
        return TruncatedRows(self.near[q], self.near_below[q], self.near_above[q], match, other)


class _Unknown(NamedTuple):
    """What is not known of a batch of queries: the near points' loss to far matches, and the value of a far point.

    The values of far points come without what the soft utility adds.
    """

    lost: Interval
    match: Interval
    other: Interval

    def around(self, lost: Any, match: Any, other: Any) -> _Unknown:
        """The same intervals around other values."""
        return _Unknown(self.lost.around(lost), self.match.around(match), self.other.around(other))


class TruncatedClassification:
    """One game seen through k ranked neighbours per query; k may change from call to call."""

    def __init__(self, game: ClassificationGame, tail: Tail = "local") -> None:
        if tail not in get_args(Tail):
            raise ValueError(f"tail must be one of {', '.join(map(repr, get_args(Tail)))}; got {tail!r}.")
        self.game = game
        self.tail = tail
        self.blocks = Blocks(game.weights)
        self._curves: dict[int, RateCurve] = {}

    def row(self, matches: npt.NDArray[Any], first: npt.NDArray[np.bool_] | None, n_matches: int) -> TruncatedRows:
        """One query: `rows` without the leading axis."""
        starts = None if first is None else first[None, :]
        return self.rows(matches[None, :], starts, np.array([n_matches])).query(0)

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
        k, n = u.shape[1], self.game.n_players
        far = self._far_matches(u, n_matches)
        ties = TieBlocks(np.ones(u.shape, dtype=bool) if first is None else first)
        of_match, of_other = self.game.added(np.asarray(n_matches, dtype=np.float64))
        added = np.broadcast_to(of_match, far.shape), np.broadcast_to(of_other, far.shape)
        unknown = _Unknown(self.blocks.lost(k, n, far), self.blocks.match(k, n, far), self.blocks.other(k, n, far))
        if self.tail == "minimax":
            unknown = _Unknown(*(interval.centred() for interval in unknown))
        elif self.tail == "local" and 0 < k < n:
            unknown = self._by_curve(unknown, ties.total(u) / ties.size, far)
        elif self.tail == "paper" and k < n:
            unknown = self._by_constant(unknown, ties.total(u) / ties.size, *added)
        return self._assemble(u, ties, *added, unknown)

    def _far_matches(self, u: FloatMatrix, n_matches: npt.NDArray[Any]) -> IntVector:
        far: IntVector = np.asarray(n_matches).astype(np.intp) - u.sum(axis=1).astype(np.intp)
        n_far = self.game.n_players - u.shape[1]
        if n_far < 0 or far.min(initial=0) < 0 or far.max(initial=0) > n_far:
            raise ValueError(
                f"matches and n_matches must leave 0 to {n_far} matches for the unranked players; "
                f"found {far.tolist()} with {u.shape[1]} of {self.game.n_players} ranked: count all players once."
            )
        return far

    def _by_curve(self, unknown: _Unknown, rates: FloatMatrix, far: IntVector) -> _Unknown:
        k = rates.shape[1]
        if k not in self._curves:
            self._curves[k] = RateCurve(self.blocks, k)
        local = rates[:, k // 2 :]
        return unknown.around(*self._curves[k].expected(local.sum(axis=1), local.shape[1], far))

    def _by_constant(self, unknown: _Unknown, rates: FloatMatrix, of_match: Any, of_other: Any) -> _Unknown:
        constant = far_constant(self.game)
        k = rates.shape[1]
        last = rates[:, -1] if k else np.zeros(len(rates))
        lost = last * (self.blocks.worth[k] + of_match - of_other) + of_other - constant
        values = (lost, constant - of_match, constant - of_other)
        return _Unknown(*(interval._replace(value=x) for interval, x in zip(unknown, values, strict=True)))

    def _assemble(
        self, u: FloatMatrix, ties: TieBlocks, of_match: Any, of_other: Any, unknown: _Unknown
    ) -> TruncatedRows:
        k = u.shape[1]
        weights = RankWeights(self.game.weights.worth[:k], self.game.weights.loss[:k])
        known = linear_values(u, weights, ties) + np.where(u > 0, of_match[:, None], of_other[:, None])
        lost = unknown.lost
        return TruncatedRows(
            near=known - lost.value[:, None],
            near_below=lost.upper - lost.value,
            near_above=lost.value - lost.lower,
            far_match=unknown.match.plus(of_match),
            far_other=unknown.other.plus(of_other),
        )


def far_constant(game: ClassificationGame) -> float:
    """What tail "paper" gives to every far point: (1/2 - 1/C)/N for the soft-label Shapley value."""
    of_match, of_other = game.added(0)
    # The soft utility adds something even where nobody matches; leave-one-out with N > K does not, but c_N = 0 there.
    soft = (of_match, of_other) != (0.0, 0.0)
    return float(of_other + (game.weights.worth[-1] / 2 if soft else 0.0))


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
