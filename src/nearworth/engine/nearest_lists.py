"""The nearest training points of every query, collected while the queries are valued.

A valuation makes the keys of every pair anyway, so the nearest points need no second search: the quantised keys of a
query tell which few may be among them, and exact distances which are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatVector
from nearworth.neighbors.exact import nearly_nearest
from nearworth.neighbors.products import Judge
from nearworth.neighbors.searchers import MISSING

BYTES = 12  # per query and neighbour
MIX_ROW, MIX_QUERY = 0x9E3779B1, 0x85EBCA77  # large odd numbers: hashes that look random


class NearestLists:
    """The `size` nearest of each query with their keys, nearest first; -1 and infinity where there are fewer.

    Only points that take part in a game are listed, so never the query itself. Where the list has room for only some of
    the points equally far, it ends before them. If it would then be shorter than `least`, a hash of query and row
    decides which of them are in: the same in every run, and unrelated to the order of the rows.
    """

    def __init__(self, n_queries: int, size: int, least: int = 1) -> None:
        self.size, self.least = size, least
        self.points = np.full((n_queries, size), MISSING, dtype=np.int32)
        self.keys = np.full((n_queries, size), np.inf)

    def note(self, query: int, qkeys: npt.NDArray[np.int32], tolerance: Any, judge: Judge, self_index: int) -> None:
        """Take the nearest of one query from its quantised keys, which must still be whole."""
        near = nearly_nearest(qkeys, min(self.size + 1, len(qkeys)), int(max(tolerance.near, tolerance.far)))
        near = near[near != self_index].astype(np.int32)
        self.keep(query, near, judge(near))

    def keep(self, query: int, points: npt.NDArray[Any], keys: FloatVector) -> None:
        """Take the nearest of points whose keys are known."""
        rows = points.astype(np.uint64)
        hashes = (rows * np.uint64(MIX_ROW) ^ np.uint64((query * MIX_QUERY) % 2**32)) % np.uint64(2**32)
        order = np.lexsort((hashes, keys))
        if len(order) > self.size and keys[order[self.size]] == keys[order[self.size - 1]]:
            before = int(np.count_nonzero(keys < keys[order[self.size]]))
            order = order[:before] if before >= self.least else order
        order = order[: self.size]
        self.points[query, : len(order)] = points[order]
        self.keys[query, : len(order)] = keys[order]
