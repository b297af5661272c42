"""Values of a K-nearest-neighbor classifier, from labels in rank order.

For one validation point with u_l = 1 where the label at rank l matches and T = sum u
(docs/mathematics.md):

    phi_i = c_i u_i - sum_{l>i} d_l u_l             the original utility
          + own u_i + other (T - u_i) - empty/C     and, for the soft one, this

The first line is linear in u and depends on the order, the second only on counts. With ties, the
first is averaged over the orders inside each block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, Semivalue, Utility
from nearworth.games.coefficients import (
    ClassificationCorrection,
    Presence,
    RankWeights,
    classification_correction,
    rank_weights,
    sum_after,
)
from nearworth.games.ties import TieBlocks


def linear_values(u: FloatMatrix, weights: RankWeights, ties: TieBlocks) -> FloatMatrix:
    """Values of the game (1/K) * (sum of u over the K nearest).

    Parameters
    ----------
    u : array of shape (Q, N)
        In rank order.
    weights : RankWeights
    ties : TieBlocks
    """
    worth = weights.worth[None, :]
    loss = weights.loss[None, :]
    in_block = ties.total(u)
    later = ties.at_end(sum_after(loss * (in_block / ties.size)))
    if ties.untied:
        return np.asarray(u * worth - later)
    # A point sits at each rank of its block equally often; the others fill the ranks behind it.
    others = (in_block - u) / np.maximum(ties.size - 1, 1)
    behind = ties.total(ties.offset * loss)
    return np.asarray((u * ties.total(worth) - others * behind) / ties.size - later)


class ClassificationGame:
    """The game of N players: coefficients once, then values per batch of queries."""

    TASK = "classification"
    # While it is made, and afterwards: for the memory plan.
    FLOATS_PER_PLAYER = (8, 2)

    def __init__(
        self,
        n_players: int,
        n_neighbors: int,
        n_classes: int,
        utility: Utility = "soft",
        semivalue: Semivalue = "shapley",
    ) -> None:
        presence = Presence.of(semivalue)
        is_soft = utility == "soft"
        self.n_players = n_players
        # The soft utility never divides by more votes than there are, so K > N is K = N; the
        # original one does.
        n_votes = min(n_neighbors, n_players) if is_soft else n_neighbors
        self.weights = rank_weights(presence, n_players, n_votes)
        self._n_classes = n_classes
        self._correction: ClassificationCorrection | None = None
        if is_soft:
            self._correction = classification_correction(presence, n_players, n_neighbors)

    def values(
        self, labels: npt.NDArray[Any], label: npt.NDArray[Any], ties: TieBlocks
    ) -> FloatMatrix:
        """Values in rank order.

        Parameters
        ----------
        labels : array of shape (Q, N)
            Training labels in rank order.
        label : array of shape (Q,)
            Validation labels.
        ties : TieBlocks
        """
        return self.gain_values((labels == label[:, None]).astype(np.float64), ties)

    def gain_values(self, gains: FloatMatrix, ties: TieBlocks) -> FloatMatrix:
        """The same for real gains instead of matches, in rank order (Q, N).

        Everything is linear in them.
        """
        values = linear_values(gains, self.weights, ties)
        if self._correction is None:
            return values
        own = self._correction.own
        other = self._correction.other
        empty = self._correction.empty
        gains_of_others = gains.sum(axis=1, keepdims=True) - gains
        return np.asarray(values + own * gains + other * gains_of_others - empty / self._n_classes)

    def added(self, n_matches: Any) -> tuple[Any, Any]:
        """What the soft utility adds to the value of a match, and of a point that is none.

        It depends on the number of matches alone, which may be an array. The original utility adds
        nothing.
        """
        if self._correction is None:
            return 0.0, 0.0
        own = self._correction.own
        other = self._correction.other
        to_other = other * n_matches - self._correction.empty / self._n_classes
        return to_other + (own - other), to_other
