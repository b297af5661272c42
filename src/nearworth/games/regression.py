"""Values of a K-nearest-neighbour regressor, from targets in rank order.

The utility is minus a squared error. Writing x_l for what is summed over the K nearest (z_l = y_l -
y_test for the soft utility, y_l itself for the original one),

    (sum_{top K} x)^2 = sum_{top K} x_l^2  +  2 sum of pairs x_l x_k, both in the top K,

a linear game in x^2 and a game on pairs. With P_i = x_1 + ... + x_i (docs/mathematics.md) the pairs
give

    x_i P_{i-1} e_i + x_i sum_{l>i} e_{l-1} x_l - sum_{l>i} f_l x_l P_{l-1},

averaged here over the orders inside each tie block. O(N) per query after ranking.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, Semivalue, Utility
from nearworth.games.classification import linear_values
from nearworth.games.coefficients import (
    Presence,
    pair_weights,
    rank_weights,
    regression_correction,
    sum_after,
)
from nearworth.games.ties import TieBlocks


class RegressionGame:
    """Everything about N, K, the utility and the semivalue, computed once; then values per batch of
    queries.
    """

    TASK = "regression"
    FLOATS_PER_PLAYER = (10, 4)  # while it is made, and afterwards: for the memory plan

    def __init__(
        self,
        n_players: int,
        n_neighbors: int,
        utility: Utility = "soft",
        semivalue: Semivalue = "shapley",
    ) -> None:
        presence = Presence.of(semivalue)
        soft = utility == "soft"
        self.n_players = n_players
        self.votes = min(n_neighbors, n_players) if soft else n_neighbors
        self.single = rank_weights(presence, n_players, self.votes)
        self.pair = pair_weights(presence, n_players, self.votes)
        self.correction = regression_correction(presence, n_players, n_neighbors) if soft else None

    def values(
        self, targets: npt.NDArray[Any], target: npt.NDArray[Any], ties: TieBlocks
    ) -> FloatMatrix:
        """Values in rank order (Q, N), from training targets in rank order (Q, N) and validation
        targets (Q,).
        """
        t = target[:, None]
        if self.correction is None:
            return 2.0 * t * linear_values(targets, self.single, ties) - self._squared_sum(
                targets, ties
            )
        residuals = targets - t
        return (
            self.correction.empty * t**2
            - self._squared_sum(residuals, ties)
            - self._small_coalitions(residuals)
        )

    def _squared_sum(self, x: FloatMatrix, ties: TieBlocks) -> FloatMatrix:
        """Values of the game ((1/K) * (sum of x over the K nearest))^2."""
        k = self.votes
        single = linear_values(x * x, self.single, ties) / k
        return np.asarray(single + self._pair_values(x, ties) * (2.0 / k**2))

    def _pair_values(self, x: FloatMatrix, ties: TieBlocks) -> FloatMatrix:
        """Values of the game sum_{l<k} x_l x_k over pairs that are both among the K nearest."""
        e, f = self.pair.worth[None, :], self.pair.loss[None, :]
        n, offset = ties.size, ties.offset
        in_block, squares = ties.total(x), ties.total(x * x)
        nearer = ties.at_start(
            np.pad(np.cumsum(x[:, :-1], axis=1), ((0, 0), (1, 0)))
        )  # P at the block's start

        # Later blocks, as anyone before them sees them: the mean of x, and of x times what precedes
        # it.
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

        # The point's own block: it sits at each rank equally often, the others are exchangeable
        # around it.
        others = in_block - x
        other_pairs = others**2 - (squares - x * x)
        mean_other = others / np.maximum(n - 1, 1)
        mean_pair = other_pairs / np.maximum((n - 1) * (n - 2), 1)
        values += x * mean_other * ties.total(offset * (2.0 * e + f)) / n
        values -= mean_other * (nearer + x) * ties.total(offset * f) / n
        values -= mean_pair * ties.total(offset * (offset - 1) * f) / n
        return np.asarray(values)

    def _small_coalitions(self, z: FloatMatrix) -> FloatMatrix:
        a = self.correction
        assert a is not None
        rest = z.sum(axis=1, keepdims=True) - z
        rest_squares = (z * z).sum(axis=1, keepdims=True) - z * z
        pairs = rest**2 - rest_squares
        return np.asarray(
            a.own * z * z + 2.0 * a.cross * z * rest + a.others * rest_squares + a.pairs * pairs
        )
