"""Identical rows."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from nearworth._common.types import IntVector
from nearworth.neighbors.distances import blocks

SIZE = 16  # bytes of a hash, enough never to collide


def first_duplicates(X: Any) -> IntVector:
    """For each row, the number of the first row equal to it (its own where there is none)."""
    hashes = np.empty((X.shape[0], SIZE // 8), dtype=np.uint64)
    for row, digest in zip(hashes, digests(X), strict=True):
        row[:] = np.frombuffer(digest, dtype=np.uint64)
    return first_equal(*hashes.T)


def first_equal(*columns: npt.NDArray[Any]) -> IntVector:
    """For each position, the first one with the same entries in all columns."""
    order = np.lexsort(columns)  # keeps equal ones in their order
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.logical_or.reduce([column[order][1:] != column[order][:-1] for column in columns])
    first = np.empty(len(order), dtype=np.intp)
    first[order] = order[np.flatnonzero(new)][np.cumsum(new) - 1]
    return first


def digests(X: Any) -> Iterator[bytes]:
    """A hash of each row, the same for all numeric types; sparse rows have other hashes than dense ones."""
    if scipy.sparse.issparse(X):
        columns = X.indices.astype(np.int64, copy=False)
        for a, b in pairwise(X.indptr.tolist()):
            yield blake2b(columns[a:b].tobytes() + X.data[a:b].tobytes(), digest_size=SIZE).digest()
    else:
        for _, rows in blocks(X):
            for row in rows.astype(np.float64) + 0.0:  # turns -0.0, which equals 0.0, into it
                yield blake2b(row.tobytes(), digest_size=SIZE).digest()
