"""A checked question, complete: what the engine needs and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from nearworth._typing import FloatMatrix, FloatVector, IntVector, Ties
from nearworth.games.ties import TieBlocks
from nearworth.neighbors.keys import Keys
from nearworth.neighbors.ranking import rank


class Game(Protocol):
    """Rank space: values from training labels in rank order and validation labels."""

    n_players: int

    def values(self, labels: npt.NDArray[Any], label: npt.NDArray[Any], ties: TieBlocks) -> FloatMatrix:
        """Values in rank order."""
        ...


@dataclass(frozen=True)
class Problem:
    """Validation points against training points.

    With `leave_out`, the validation points are the training points themselves and each takes no part in
    its own game.
    """

    keys: Keys
    game: Game
    labels: npt.NDArray[Any]
    queries: Any
    query_labels: npt.NDArray[Any]
    weights: FloatVector
    ties: Ties
    leave_out: bool = False

    @property
    def n_train(self) -> int:
        """Number of training points."""
        return len(self.labels)

    @property
    def n_val(self) -> int:
        """Number of validation points."""
        return len(self.query_labels)

    def values(self, start: int, stop: int) -> FloatMatrix:
        """Values of all training points for validation points start..stop-1, in point order."""
        left_out: IntVector | None = np.arange(start, stop) if self.leave_out else None
        ranking = rank(self.keys(self.queries[start:stop]), self.ties, left_out)
        ranked = self.game.values(self.labels[ranking.order], self.query_labels[start:stop], TieBlocks(ranking.first))
        values = np.zeros((stop - start, self.n_train))
        np.put_along_axis(values, ranking.order, ranked, axis=1)
        return values
