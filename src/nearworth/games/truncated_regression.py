"""Regression when only the k nearest points of a query are ranked: the mean estimator and its interval.

With residuals z = y - y_test, either utility's value is a quadratic in y_i that knows nothing of distances, minus

    (1/V) sum_{l>i} d_l (z_i^2 - z_l^2)  +  (2/V^2) sum_{l>i} f_l (z_i - z_l) P_l,

V the votes, P_l the sum of the residuals nearer than l, that of i left out (Abel summation of Theorems D and E; the
residuals may stand for the targets of the original utility because f_l (l-2) = V (V-1) d_l). Of the unranked points
their number, sum, sum of squares and range are known. The values are means over all orders of the far points. The
intervals are valid for every order and semivalue, but not sharp as those of classification are: every sum over far
ranks is bounded by itself. A far point's value is a quadratic in its own target, so that queries can be added up as
coefficients and far points cost nothing per pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolMatrix, FloatMatrix, FloatVector
from nearworth.games.blocks import Blocks, Interval
from nearworth.games.classification import linear_values
from nearworth.games.coefficients import RankWeights
from nearworth.games.far_residuals import FarResiduals, PairSums, Range
from nearworth.games.regression import RegressionGame, pair_values
from nearworth.games.ties import TieBlocks


@dataclass(frozen=True)
class TruncatedRegressionRows:
    """Values of Q queries: of the near points in rank order (Q, k), and of any far point by its target.

    `far` holds coefficients (Q, 3) of 1, w, w^2, where w is the far point's target minus `center`; they may be added
    up over queries before a point's w is put in (see `evaluate`).
    """

    near: Interval
    far: Interval
    center: float


def evaluate(coefficients: npt.NDArray[Any], w: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The quadratic with coefficients (..., 3) at w."""
    c = coefficients
    return np.asarray(c[..., 0] + w * (c[..., 1] + w * c[..., 2]))


class TruncatedRegression:
    """One game seen through k ranked neighbours per query; k may change from call to call.

    `targets` are those of all training points: the players, and a left-out point where every query leaves one out.
    """

    def __init__(self, game: RegressionGame, targets: npt.NDArray[Any]) -> None:
        self.game = game
        self.center = float(np.mean(targets))
        w = np.asarray(targets, dtype=np.float64) - self.center
        self._count, self._total, self._squares = len(w), float(w.sum()), float((w * w).sum())
        self._low, self._high = float(w.min()), float(w.max())
        self._single = Blocks(game.single)
        self._pair = PairSums(game.pair)

    def rows(
        self,
        targets: FloatMatrix,
        first: BoolMatrix | None,
        target: FloatVector,
        left_out: FloatVector | None = None,
    ) -> TruncatedRegressionRows:
        """Values and intervals of Q queries.

        Parameters
        ----------
        targets : (Q, k) float
            Targets at the k nearest ranks.
        first : (Q, k) bool or None
            Where a block of tied ranks begins; None without ties. No block may reach beyond rank k.
        target : (Q,) float
            The queries' own targets.
        left_out : (Q,) float or None
            Target of the training point that is no player for this query, if there is one.
        """
        self._check(targets.shape[1], left_out)
        z, t = targets - target[:, None], target - self.center
        total, squares = self._all_residuals(t, left_out)
        far = self._far_residuals(z, t, total, squares)
        free = self._free(target, total, squares)
        ties = TieBlocks(np.ones(z.shape, dtype=bool) if first is None else first)
        near = self._near(z, ties, free, far)
        of_far = self._far(z.sum(axis=1), z.shape[1], free, far)
        return TruncatedRegressionRows(near, Interval(*(_shifted(c, t) for c in of_far)), self.center)

    def _check(self, k: int, left_out: FloatVector | None) -> None:
        expected = self._count - (left_out is not None)
        if self.game.n_players != expected or k > expected:
            raise ValueError(
                f"targets must be those of all training points; found {self._count} of them, {k} ranked, for a game of "
                f"{self.game.n_players} players{' and one left out' if left_out is not None else ''}."
            )

    def _all_residuals(self, t: FloatVector, left_out: FloatVector | None) -> tuple[FloatVector, FloatVector]:
        """Sum, and sum of squares, of all players' residuals."""
        total = self._total - self._count * t
        squares = self._squares - 2.0 * self._total * t + self._count * t**2
        if left_out is None:
            return total, squares
        z = left_out - self.center - t
        return total - z, squares - z * z

    def _far_residuals(self, z: FloatMatrix, t: FloatVector, total: FloatVector, squares: FloatVector) -> FarResiduals:
        count = self.game.n_players - z.shape[1]
        far, far_squares = total - z.sum(axis=1), np.maximum(squares - (z * z).sum(axis=1), 0.0)
        if count == 0:
            return FarResiduals(0, *(np.zeros_like(t) for _ in range(4)))
        if count == 1:
            return FarResiduals(1, far, far * far, far, far)
        return FarResiduals(count, far, far_squares, self._low - t, self._high - t)

    def _free(self, target: FloatVector, total: FloatVector, squares: FloatVector) -> FloatMatrix:
        """Coefficients in z_i of what does not depend on the order."""
        votes, a = self.game.votes, self.game.correction
        last, last_pair = self.game.single.worth[-1] / votes, self.game.pair.worth[-1] * 2.0 / votes**2
        if a is None:
            linear = 2.0 * target * last * votes - last_pair * (total + self.game.n_players * target)
            return _shifted(_coefficients(0.0 * total, linear, last_pair - last), -target)
        return _coefficients(
            a.empty * target**2 - a.others * squares - a.pairs * (total**2 - squares),
            (2.0 * (a.pairs - a.cross) - last_pair) * total,
            last_pair - last - a.own + 2.0 * a.cross + a.others - 2.0 * a.pairs,
        )

    def _near(self, z: FloatMatrix, ties: TieBlocks, free: FloatMatrix, far: FarResiduals) -> Interval:
        k, n, votes = z.shape[1], self.game.n_players, self.game.votes
        value = evaluate(free[:, None, :], z) - self._by_order(z, ties, far)
        if k in (0, n):
            return Interval(value, value, value)
        losses = self._single.windows
        squares = Range(*losses.range_of_weighted_sum(far.squares, *far.square_range, k, n))
        mean = losses.total(k, n) * far.squares / far.count
        pairs = self._pair.near_range(k, z, z.sum(axis=1), far).times(-2.0 / votes**2)
        spread = Range(*((end - mean)[:, None] / votes for end in squares)).plus(pairs)
        return Interval(value, value + spread.low, value + spread.high).around(value)

    def _by_order(self, z: FloatMatrix, ties: TieBlocks, far: FarResiduals) -> FloatMatrix:
        """What a near point loses by order: exactly among the near, on average to the far."""
        k, n, votes, pair = z.shape[1], self.game.n_players, self.game.votes, self._pair
        near, mean = z.sum(axis=1, keepdims=True), far.mean[:, None]
        squares = linear_values(z * z, _first(k, self.game.single), ties) - self.game.single.worth[-1] * z * z
        products = pair_values(z, _first(k, self.game.pair), ties) - self.game.pair.worth[-1] * z * (near - z)
        squares -= (self._single.windows.total(k, n) * far.squares / max(far.count, 1))[:, None]
        products += mean * (z * pair.twice[max(k - 1, 0)] - near * pair.once[k])
        products -= (pair.twice[k] * far.pairs / max(far.count * (far.count - 1), 1))[:, None]
        return np.asarray(squares / votes + products * (2.0 / votes**2))

    def _far(self, near_sum: FloatVector, k: int, free: FloatMatrix, far: FarResiduals) -> Interval:
        """Coefficients in z of a far point's value and of the ends of its interval."""
        if far.count == 0:
            return Interval(free, free, free)
        least, most = self._far_range(near_sum, k, far)
        return Interval(free - self._far_mean(near_sum, k, far), free - most, free - least)

    def _far_mean(self, near_sum: FloatVector, k: int, far: FarResiduals) -> FloatMatrix:
        """Mean over all orders of what a far point loses by order."""
        n, scale = far.count, 2.0 / self.game.votes**2
        single = self._single.mean_loss(k, self.game.n_players) / self.game.votes
        once = scale * self._pair.twice[k] * near_sum / max(n * (n - 1), 1)
        twice = scale * 2.0 * self._pair.thrice[k] / max(n * (n - 1) * (n - 2), 1)
        return _coefficients(
            -single * far.squares - once * far.total - twice * far.pairs,
            n * (once + twice * far.total),
            n * (single - twice),
        )

    def _far_range(self, near_sum: FloatVector, k: int, far: FarResiduals) -> tuple[FloatMatrix, FloatMatrix]:
        """Least and most that a far point can lose by order."""
        scale = 2.0 / self.game.votes**2
        single = self._single.windows.total(k + 1, self.game.n_players) / self.game.votes
        positive = scale * self._pair.positive_part(k + 1, near_sum, far.high)
        negative = scale * self._pair.positive_part(k + 1, -near_sum, -far.low)
        least_square, largest_square = far.square_range
        least = far.low * negative - far.high * positive - single * largest_square
        most = far.high * negative - far.low * positive - single * least_square
        slope = positive - negative
        return _coefficients(least, slope, single), _coefficients(most, slope, single)


def _first(k: int, weights: RankWeights) -> RankWeights:
    return RankWeights(weights.worth[:k], weights.loss[:k])


def _coefficients(constant: Any, linear: Any, quadratic: Any) -> FloatMatrix:
    return np.stack(np.broadcast_arrays(constant, linear, quadratic), axis=-1)


def _shifted(coefficients: FloatMatrix, by: FloatVector) -> FloatMatrix:
    """Coefficients in w of a quadratic in w - by."""
    a, b, c = np.moveaxis(coefficients, -1, 0)
    return _coefficients(a - b * by + c * by**2, b - 2.0 * c * by, c)
