"""Values of a K-nearest-neighbor regressor, from targets in rank order.

The utility is minus a squared error. Write x_l for what is summed over the K nearest: z_l = y_l -
y_test for the soft utility, y_l itself for the original one. Then

    (sum_{top K} x)^2 = sum_{top K} x_l^2  +  2 sum of pairs x_l x_k, both in the top K,

which is a linear game in x^2 and a game on pairs. With P_i = x_1 + ... + x_i (docs/mathematics.md)
the pairs give

    x_i P_{i-1} e_i + x_i sum_{l>i} e_{l-1} x_l - sum_{l>i} f_l x_l P_{l-1},

averaged here over the orders inside each block of ties. That takes O(N) per query after ranking.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, Semivalue, Utility
from nearworth.games.classification import linear_values
from nearworth.games.coefficients import (
    Presence,
    RegressionCorrection,
    pair_weights,
    rank_weights,
    regression_correction,
    sum_after,
)
from nearworth.games.ties import TieBlocks


class RegressionGame:
    """The game of N players: coefficients once, then values per batch of queries."""

    TASK = "regression"
    # While it is made, and afterwards: for the memory plan.
    FLOATS_PER_PLAYER = (10, 4)

    def __init__(
        self,
        n_players: int,
        n_neighbors: int,
        utility: Utility = "soft",
        semivalue: Semivalue = "shapley",
    ) -> None:
        presence = Presence.of(semivalue)
        is_soft = utility == "soft"
        self.n_players = n_players
        self.votes = min(n_neighbors, n_players) if is_soft else n_neighbors
        self.single = rank_weights(presence, n_players, self.votes)
        self.pair = pair_weights(presence, n_players, self.votes)
        self.correction: RegressionCorrection | None = None
        if is_soft:
            self.correction = regression_correction(presence, n_players, n_neighbors)

    def values(
        self, targets: npt.NDArray[Any], target: npt.NDArray[Any], ties: TieBlocks
    ) -> FloatMatrix:
        """Values in rank order.

        Parameters
        ----------
        targets : array of shape (Q, N)
            Training targets in rank order.
        target : array of shape (Q,)
            Validation targets.
        ties : TieBlocks
        """
        t = target[:, None]
        if self.correction is None:
            linear = 2.0 * t * linear_values(targets, self.single, ties)
            return linear - self._squared_sum(targets, ties)
        residuals = targets - t
        small = self._small_coalitions(residuals, self.correction)
        return self.correction.empty * t**2 - self._squared_sum(residuals, ties) - small

    def _squared_sum(self, x: FloatMatrix, ties: TieBlocks) -> FloatMatrix:
        """Values of the game ((1/K) * (sum of x over the K nearest))^2."""
        k = self.votes
        single = linear_values(x * x, self.single, ties) / k
        return np.asarray(single + self._pair_values(x, ties) * (2.0 / k**2))

    def _pair_values(self, x: FloatMatrix, ties: TieBlocks) -> FloatMatrix:
        """Values of the game sum_{l<k} x_l x_k over pairs that are both among the K nearest."""
        e = self.pair.worth[None, :]
        f = self.pair.loss[None, :]
        n = ties.size
        offset = ties.offset
        in_block = ties.total(x)
        squares = ties.total(x * x)
        # P at the start of the block.
        nearer = ties.at_start(np.pad(np.cumsum(x[:, :-1], axis=1), ((0, 0), (1, 0))))

        # What points of later blocks mean for any point before them: the mean of x, and of x times
        # what precedes it.
        pair_mean = (in_block**2 - squares) / np.maximum(n * (n - 1), 1)
        before = (e + f) * (in_block / n)
        evicted = f * (in_block / n * nearer + offset * pair_mean)
        values = (
            x * ties.at_end(sum_after(before))
            - ties.at_end(sum_after(evicted))
            + x * nearer * (ties.total(e) / n)
        )
        if ties.untied:
            return np.asarray(values)

        # In its own block, a point sits at each rank equally often, and the others are exchangeable
        # around it.
        others = in_block - x
        other_pairs = others**2 - (squares - x * x)
        mean_other = others / np.maximum(n - 1, 1)
        mean_pair = other_pairs / np.maximum((n - 1) * (n - 2), 1)
        values += x * mean_other * ties.total(offset * (2.0 * e + f)) / n
        values -= mean_other * (nearer + x) * ties.total(offset * f) / n
        values -= mean_pair * ties.total(offset * (offset - 1) * f) / n
        return np.asarray(values)

    @staticmethod
    def _small_coalitions(z: FloatMatrix, correction: RegressionCorrection) -> FloatMatrix:
        """What coalitions smaller than K add to the values of the squared error, of residuals z."""
        a = correction
        sum_of_others = z.sum(axis=1, keepdims=True) - z
        squares_of_others = (z * z).sum(axis=1, keepdims=True) - z * z
        pairs = sum_of_others**2 - squares_of_others
        return np.asarray(
            a.own * z * z
            + 2.0 * a.cross * z * sum_of_others
            + a.others * squares_of_others
            + a.pairs * pairs
        )
