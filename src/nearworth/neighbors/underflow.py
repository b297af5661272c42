"""Squared differences that vanish, and the power of two at which they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from nearworth._common.types import BoolVector
from nearworth.neighbors.duplicates import digests
from nearworth.neighbors.rows import blocks

TINY = 2.0**-430
TOP = 480  # binary exponent of the largest number after scaling; 2**60 such squares can be added


class Underflow:
    """Which queries need scaled differences.

    Differences below 1e-154 vanish when they are squared. A difference of two floats is 0 or at least about 2**-53
    times the larger of them, so this happens only between numbers below TINY. A query needs scaling if some training
    row differs from it, but in such numbers alone. Two differences are still told apart if they are 1e-289 times the
    largest number.
    """

    def __init__(self, X: Any) -> None:
        self.largest, self._has_tiny = _magnitudes(X)
        self._groups: dict[bytes, bytes] = {}
        if self._has_tiny:
            for _, rows in blocks(X):
                self._group(rows)

    def exponents(self, queries: Any, *, any_missing: bool = False) -> npt.NDArray[np.int32]:
        """Binary exponent by which to scale the differences of each query, 0 where that is not needed.

        With `any_missing`, a comparison may leave out columns, so that hashes of rows do not tell.
        """
        if not self._has_tiny:
            return np.zeros(queries.shape[0], dtype=np.int32)
        needed = True if any_missing else self.concerns(queries)
        own = np.frexp(np.fmax(self.largest, _largest_entries(queries)))[1]
        return np.where(needed, TOP - own, 0).astype(np.int32)

    def concerns(self, queries: Any) -> BoolVector:
        """Whether some training row differs from the query, but only in tiny numbers."""
        if not self._has_tiny:
            return np.zeros(queries.shape[0], dtype=bool)
        pairs = zip(digests(_without_tiny(queries)), digests(queries), strict=True)
        return np.array([self._groups.get(rounded, exact) != exact for rounded, exact in pairs], dtype=bool)

    def _group(self, rows: Any) -> None:
        """Remember for each row without its tiny numbers which row it was; nothing if there are several."""
        for rounded, exact in zip(digests(_without_tiny(rows)), digests(rows), strict=True):
            if self._groups.setdefault(rounded, exact) != exact:
                self._groups[rounded] = b""


def _magnitudes(X: Any) -> tuple[float, bool]:
    """The largest magnitude, and whether there are tiny numbers other than 0."""
    if X.dtype.kind != "f" or X.dtype.itemsize < 8:
        return max(float(X.max()), -float(X.min())), False
    largest, has_tiny = 0.0, False
    for numbers in [X.data] if scipy.sparse.issparse(X) else (rows for _, rows in blocks(X)):
        sizes = np.abs(numbers)
        largest = max(largest, float(np.fmax.reduce(sizes, axis=None, initial=0.0)))
        has_tiny |= bool(((sizes > 0.0) & (sizes < TINY)).any())
    return largest, has_tiny


def _largest_entries(rows: Any) -> npt.NDArray[Any]:
    if scipy.sparse.issparse(rows):
        return np.asarray(abs(rows).max(axis=1).toarray()).ravel()
    return np.asarray(np.fmax.reduce(np.abs(rows), axis=1))


def _without_tiny(rows: Any) -> Any:
    if not scipy.sparse.issparse(rows):
        return np.where(np.abs(rows) < TINY, 0.0, rows)
    data = np.where(np.abs(rows.data) < TINY, 0.0, rows.data)
    kept = scipy.sparse.csr_array((data, rows.indices.copy(), rows.indptr.copy()), rows.shape)
    kept.eliminate_zeros()
    return kept
