"""The nearest training points of every query, picked up on the way while the queries are valued.

A valuation makes the rank keys of every pair anyway. Who also wants the nearest points need not search again: one more
look at the marks of a row finds the few that may be among them, and exact distances tell which are.
"""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.compile import compiled
from nearworth._common.types import FloatVector
from nearworth.engine.kernels import Tolerance
from nearworth.neighbors.products import ExactKeys

MISSING = -1
ROOM = 256  # candidates beyond four times k that are kept before the list is cut
BYTES = 12  # per query and neighbour
MIX_ROW, MIX_QUERY = 0x9E3779B1, 0x85EBCA77  # large odd numbers: lots that look random


class NearestLists:
    """The `size` nearest of each query with their keys, nearest first; -1 and infinity where there are fewer.

    Who takes part in a game is listed, so never the query itself where it is left out. Where the list has room for some
    only of the points equally far, it ends before them. If it would then be shorter than `least`, lots decide who of
    them is in: always the same lots, which have nothing to do with the order of the rows.
    """

    def __init__(self, n_queries: int, size: int, least: int = 1) -> None:
        self.size, self.least = size, least
        self.points = np.full((n_queries, size), MISSING, dtype=np.int32)
        self.keys = np.full((n_queries, size), np.inf)

    def note(
        self, query: int, qkeys: npt.NDArray[np.int32], tolerance: Tolerance, judge: ExactKeys, left_out: int
    ) -> None:
        """Take the nearest of one query from its marks, which must still be whole."""
        near = candidates(qkeys, min(self.size + 1, len(qkeys)), int(max(tolerance.near, tolerance.far)))
        near = near[near != left_out]
        self.keep(query, near, judge(near))

    def keep(self, query: int, points: npt.NDArray[Any], keys: FloatVector) -> None:
        """Keep the nearest of points whose keys are known."""
        rows = points.astype(np.uint64)
        lots = (rows * np.uint64(MIX_ROW) ^ np.uint64((query * MIX_QUERY) % 2**32)) % np.uint64(2**32)
        order = np.lexsort((lots, keys))
        if len(order) > self.size and keys[order[self.size]] == keys[order[self.size - 1]]:
            before = int(np.count_nonzero(keys < keys[order[self.size]]))
            order = order[:before] if before >= self.least else order
        order = order[: self.size]
        self.points[query, : len(order)] = points[order]
        self.keys[query, : len(order)] = keys[order]


def candidates(marks: npt.NDArray[np.int32], k: int, slack: int) -> npt.NDArray[np.int32]:
    """All points whose mark is not beyond the k-th lowest by more than the slack, and perhaps a few others."""
    room = 4 * k + ROOM
    kept_marks, kept = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int32)
    count = _sift(marks, k, slack, kept_marks, kept)
    if count < 0:  # more than fit are equally near
        limit = int(np.partition(marks, k - 1)[k - 1]) + slack
        return np.flatnonzero(marks <= limit).astype(np.int32)
    limit = np.partition(kept_marks[:count], k - 1)[k - 1] + slack
    return np.asarray(kept[:count][kept_marks[:count] <= limit])


@compiled
def _sift(marks, k, slack, kept_marks, kept):
    """Fill the list with points that may be near, cutting it when full; -1 if it stays full. Returns their number."""
    limit, count = np.int64(2**62), 0
    for i in range(marks.shape[0]):
        if marks[i] <= limit:
            if count == kept.shape[0]:
                limit = np.partition(kept_marks, k - 1)[k - 1] + slack
                count = 0
                for j in range(kept.shape[0]):
                    if kept_marks[j] <= limit:
                        kept_marks[count], kept[count] = kept_marks[j], kept[j]
                        count += 1
                if 4 * count > 3 * kept.shape[0]:
                    return -1
                if marks[i] > limit:
                    continue
            kept_marks[count], kept[count] = marks[i], i
            count += 1
    return count
