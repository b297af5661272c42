"""The nearest training points of every query, collected while the queries are valued.

A valuation makes the keys of every pair anyway, so the nearest points need no second search: the quantised keys of a
query tell which few may be among them, and exact distances which are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatVector
from nearworth.neighbors.quantised import QuantisedKeys
from nearworth.neighbors.searchers import MISSING, Neighbours

IntVector32 = npt.NDArray[np.int32]
BYTES = 12  # per query and neighbour
MIX_ROW, MIX_QUERY = 0x9E3779B1, 0x85EBCA77  # large odd numbers: hashes that look random


class NearestLists:
    """The `size` nearest of each query, in `found`.

    Only points that take part in a game are listed, so never the query itself. Where the list has room for only some of
    the points equally far, it ends before them. If it would then be shorter than `least`, a hash of query and row
    decides which of them are in: the same in every run, and unrelated to the order of the rows.
    """

    def __init__(self, n_queries: int, size: int, least: int = 1) -> None:
        self.size, self.least = size, least
        self.found = Neighbours.empty(n_queries, size, dtype=np.int32)

    def note(self, start: int, block: QuantisedKeys, order: IntVector32, excluded: npt.NDArray[np.int32]) -> None:
        """Take the nearest of some queries but for their excluded positions; order[i] is the row at position i."""
        part = slice(start, start + len(block.qkeys))
        block.nearest(order, excluded, self.found.part(part), least=self.least, first=start)

    def keep(self, query: int, rows: npt.NDArray[Any], keys: FloatVector) -> None:
        """Take the nearest of points whose keys are known."""
        mixed = rows.astype(np.uint64) * np.uint64(MIX_ROW) ^ np.uint64((query * MIX_QUERY) % 2**32)
        order = np.lexsort((mixed % np.uint64(2**32), keys))
        if len(order) > self.size and keys[order[self.size]] == keys[order[self.size - 1]]:
            before = int(np.count_nonzero(keys < keys[order[self.size]]))
            order = order[:before] if before >= self.least else order
        order = order[: self.size]
        self.found.rows[query], self.found.keys[query] = MISSING, np.inf  # a row may be recorded again
        self.found.rows[query, : len(order)] = rows[order]
        self.found.keys[query, : len(order)] = keys[order]
