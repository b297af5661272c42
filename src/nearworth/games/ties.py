"""Blocks of tied ranks.

Points at equal distance form a block whose inner order means nothing, so values are averaged over
all of its orders. The closed forms then need only sums over blocks. Without a tie every block has
one point.
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolMatrix, FloatMatrix, IntMatrix, IntVector

T = TypeVar("T", bound=np.generic)


class TieBlocks:
    """Blocks of tied ranks of some queries.

    Parameters
    ----------
    first : array of shape (Q, N)
        Whether a block begins at rank l of query q.

    Attributes
    ----------
    untied : bool
        Whether no two points of any query are tied.
    """

    def __init__(self, first: BoolMatrix) -> None:
        self.shape = first.shape
        self._starts: IntVector = np.flatnonzero(first)
        self._sizes: IntVector = np.diff(self._starts, append=first.size)
        self.untied = self._starts.size == first.size

    @cached_property
    def size(self) -> IntMatrix:
        """Number of points in each point's block."""
        return self._spread(self._sizes)

    @cached_property
    def offset(self) -> IntMatrix:
        """How many points of its block precede each point."""
        position = np.arange(self.shape[0] * self.shape[1]).reshape(self.shape)
        return position - self._spread(self._starts)

    def total(self, x: FloatMatrix) -> FloatMatrix:
        """Sum of x over each point's block; x may be one row for all queries."""
        full = np.broadcast_to(x, self.shape)
        if self.untied:
            return full
        return self._spread(np.add.reduceat(full.ravel(), self._starts))

    def at_end(self, x: FloatMatrix) -> FloatMatrix:
        """The entry of x at the last point of each point's block."""
        return x if self.untied else self._spread(x.ravel()[self._starts + self._sizes - 1])

    def at_start(self, x: FloatMatrix) -> FloatMatrix:
        """The entry of x at the first point of each point's block."""
        return x if self.untied else self._spread(x.ravel()[self._starts])

    def _spread(self, per_block: npt.NDArray[T]) -> npt.NDArray[T]:
        """One entry per point from one entry per block."""
        return np.repeat(per_block, self._sizes).reshape(self.shape)
