"""The nearest training points of every query, collected while the queries are valued.

A valuation makes the keys of every pair anyway, so the nearest points need no second search: the quantised keys of a
query tell which few may be among them, and exact distances which are.
"""

from __future__ import annotations

from pathlib import Path
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

    def __init__(self, n_queries: int, size: int, least: int = 1, folder: Path | None = None) -> None:
        self.size, self.least, self.resumed = size, least, False
        self.found = Neighbours.empty(n_queries, size, dtype=np.int32)
        if folder is not None:  # of a checkpoint: the lists are files there, and those of an earlier run go on
            files = [folder / f"nearest-{size}-{name}.npy" for name in ("rows", "keys")]
            self.resumed = all(file.exists() for file in files)
            maps = [_mapped(file, part, self.resumed) for file, part in zip(files, self.found, strict=True)]
            self.found = Neighbours(*maps)

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


def _mapped(path: Path, empty: npt.NDArray[Any], exists: bool) -> npt.NDArray[Any]:
    """An array that lives in a file, empty unless the file exists."""
    if exists:
        mapped = np.lib.format.open_memmap(path, mode="r+")
        if (mapped.shape, mapped.dtype) != (empty.shape, empty.dtype):
            raise ValueError(f"checkpoint: {path} belongs to another run. Use another folder.")
        return np.asarray(mapped)
    path.parent.mkdir(parents=True, exist_ok=True)
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=empty.dtype, shape=empty.shape)
    mapped[...] = empty
    return np.asarray(mapped)
