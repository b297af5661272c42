"""From rank keys to ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearworth._common.types import BoolMatrix, FloatMatrix, IntMatrix, IntVector, Ties


@dataclass(frozen=True)
class Ranking:
    """Training points nearest first (Q, N), and whether a new block of tied points begins at each rank."""

    order: IntMatrix
    first: BoolMatrix


def rank(keys: FloatMatrix, ties: Ties, leave_out: IntVector | None = None) -> Ranking:
    """Order each row of keys; `leave_out` names one training point per query that takes no part.

    Overwrites the keys of the points left out.
    """
    if leave_out is not None:
        keys[np.arange(len(keys)), leave_out] = np.nan  # sorts behind everything, infinity included
    order = np.argsort(keys, axis=1, kind="stable" if ties == "index" else None)
    if leave_out is not None:
        order = order[:, :-1]
    first = np.ones(order.shape, dtype=bool)
    if ties == "average":
        ranked = np.take_along_axis(keys, order, axis=1)
        np.not_equal(ranked[:, 1:], ranked[:, :-1], out=first[:, 1:])
    return Ranking(order, first)
