"""Sums over far ranks in regression, when the far residuals' order is unknown: how far from their mean they can be.

Notation as in `truncated_regression`: ranks l > k are far, their residuals z_l = mean + x_l lie in [low, high], and
X_l = x_{k+1} + ... + x_l. With F_j = sum_{l>j} f_l the far order enters a near point's value only through

    sum d_l z_l^2,    sum F_{l-1} x_l,    sum f_l x_l,    sum (l-1-k) f_l x_l,    sum f_l x_l X_{l-1}.

The first three are linear programmes with known solutions. The last is at most (largest |x|)^2 sum (l-1-k) f_l either
way and, where f falls, half of sum (f_l - f_{l+1}) X_l^2 - sum f_l x_l^2, with X_l^2 at most the variance times
(l-k)(N-l).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.games.coefficients import RankWeights, sum_after
from nearworth.games.windows import LossWindows


@dataclass(frozen=True)
class FarResiduals:
    """What is known of the residuals of a query's far points; arrays (Q,)."""

    count: int
    total: FloatVector
    squares: FloatVector
    low: FloatVector
    high: FloatVector

    @property
    def mean(self) -> FloatVector:
        """Their mean; 0 if there are none."""
        return self.total / max(self.count, 1)

    @property
    def variation(self) -> FloatVector:
        """Sum of squared deviations from the mean."""
        return np.maximum(self.squares - self.total * self.mean, 0.0)

    @property
    def pairs(self) -> FloatVector:
        """Sum of the products of two different ones, over ordered pairs."""
        return self.total**2 - self.squares

    @property
    def square_range(self) -> tuple[FloatVector, FloatVector]:
        """Least and greatest possible square."""
        a, b = self.low**2, self.high**2
        return np.where((self.low < 0) & (self.high > 0), 0.0, np.minimum(a, b)), np.maximum(a, b)


class Range(NamedTuple):
    """Two ends; arrays of one shape."""

    low: Any
    high: Any

    def times(self, factor: Any) -> Range:
        """All products with a factor of either sign."""
        a, b = self.low * factor, self.high * factor
        return Range(np.minimum(a, b), np.maximum(a, b))

    def plus(self, other: Range) -> Range:
        """All sums with a member of another range."""
        return Range(self.low + other.low, self.high + other.high)


class PairSums:
    """Sums of the pair losses f over all ranks behind a rank; index = rank, 0..N."""

    def __init__(self, weights: RankWeights) -> None:
        self.windows = LossWindows(weights)
        self.n_players = len(weights.loss)
        self.once = np.append(sum_after(weights.loss) + weights.loss, 0.0)  # sum_{l>j} f_l, index j
        self.twice = sum_after(self.once)  # sum_{l>j} (l-1-j) f_l
        self.thrice = sum_after(self.twice)  # sum_{l>j} (l-1-j)(l-2-j)/2 f_l

    def positive_part(self, after: int, start: FloatVector, slope: FloatVector) -> FloatVector:
        """Sum of f_l max(0, start + (l-1-after) slope) over l > after: a line that changes its sign at most once."""
        steps = np.where(slope * start < 0, -start / np.where(slope == 0, 1.0, slope), 0.0)
        turn = after + np.minimum(np.ceil(steps), self.n_players - after).astype(np.intp)
        behind_turn = self._line(after, turn, start, slope)
        before_turn = self._line(after, after, start, slope) - behind_turn
        same_sign = np.maximum(self._line(after, after, start, slope), 0.0)
        return np.where(slope * start >= 0, same_sign, np.where(slope > 0, behind_turn, before_turn))

    def _line(self, after: int, rank: Any, start: FloatVector, slope: FloatVector) -> FloatVector:
        """Sum of f_l (start + (l-1-after) slope) over l > rank."""
        return np.asarray(self.once[rank] * (start + (rank - after) * slope) + self.twice[rank] * slope)

    def near_range(self, after: int, z: FloatMatrix, near_sum: FloatVector, far: FarResiduals) -> Range:
        """How far sum_{l>k} f_l (z_i - z_l) P_l can be from its mean, for near residuals z (Q, k)."""
        deviation = Range(far.low - far.mean, far.high - far.mean)
        ranks = (after, self.n_players)
        centred = z - far.mean[:, None]
        through = Range(*(x[:, None] for x in self._prefix_range(after, deviation))).times(centred)
        plain = Range(*self.windows.range_of_weighted_sum(0.0, *deviation, *ranks)).times(far.mean - near_sum)
        growing = deviation.times(self.twice[after]).times(-far.mean)
        own = self._own_range(after, deviation, far).times(-1.0)
        rest = plain.plus(growing).plus(own)
        return through.plus(Range(rest.low[:, None], rest.high[:, None]))

    def _prefix_range(self, after: int, deviation: Range) -> Range:
        """Ends of sum_{l>after} F_{l-1} x_l: the weights fall, so the largest x come first, or last."""
        n = self.n_players - after
        spread = deviation.high - deviation.low
        share = np.clip(-deviation.low * n / np.where(spread > 0, spread, 1.0), 0.0, n)
        everything = self.twice[after - 1]
        first = everything - self._behind(after + share)
        last = self._behind(self.n_players - share)
        return Range(*(deviation.low * everything + spread * part for part in (last, first)))

    def _behind(self, rank: FloatVector) -> FloatVector:
        """Sum_{j>=rank} F_j, interpolated between whole ranks: where a share of one rank is taken."""
        whole = np.minimum(rank.astype(np.intp), self.n_players)
        here = self.twice[whole - 1]
        return np.asarray(here - (rank - whole) * self.once[whole])

    def _own_range(self, after: int, deviation: Range, far: FarResiduals) -> Range:
        """How far sum f_l x_l X_{l-1} can be from its mean."""
        n, growth = far.count, self.twice[after]
        largest = np.maximum(-deviation.low, deviation.high) ** 2
        mean = -growth * far.variation / max(n * (n - 1), 1)
        low, high = -largest * growth, largest * growth
        if self.windows.falls_after(after):
            ranks = (after, self.n_players)
            least, most = self.windows.range_of_weighted_sum(far.variation, np.zeros_like(largest), largest, *ranks)
            by_variance = far.variation / n * ((n - 1) * self.once[after] - 2.0 * growth)
            low, high = np.maximum(low, -most / 2), np.minimum(high, (by_variance - least) / 2)
        return Range(low - mean, high - mean)
