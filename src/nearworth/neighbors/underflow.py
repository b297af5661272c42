"""Squared differences that vanish, and the power of two at which they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from nearworth._common.types import BoolVector
from nearworth.neighbors.duplicates import digests, first_duplicates
from nearworth.neighbors.rows import Converted, blocks

TINY = 2.0**-430
TOP = 480  # binary exponent of the largest number after scaling; 2**60 such squares can be added


class Underflow:
    """Which queries need scaled differences, and by which power of two.

    Differences below 1e-154 vanish when they are squared. A difference of two floats is 0 or at least about 2**-53
    times the larger of them, so this happens only between numbers below TINY. It matters where training rows differ
    from each other in such numbers alone, and the query from them: then all its differences are scaled. They are still
    told apart if they are 1e-289 times the largest number.

    With `missing`, columns may be left out of a comparison, so all queries count as such if X holds tiny numbers.
    """

    def __init__(self, X: Any, *, missing: bool = False) -> None:
        self.largest, has_tiny = _magnitudes(X)
        self._all = missing and has_tiny
        self._mixed: set[bytes] = set()  # rows without their tiny numbers, if these made them different rows
        if has_tiny and not missing:
            rounded = _without_tiny(X) if scipy.sparse.issparse(X) else Converted(X, _without_tiny)
            first, group = first_duplicates(X), first_duplicates(rounded)
            self._mixed = set(digests(rounded[np.unique(group[first != first[group]])]))

    def concerns(self, queries: Any) -> BoolVector:
        """Which queries need scaled differences."""
        if not self._mixed:
            return np.full(queries.shape[0], self._all)
        return np.array([digest in self._mixed for digest in digests(_without_tiny(queries))], dtype=bool)

    def exponents(self, queries: Any) -> npt.NDArray[np.int32]:
        """Binary exponent by which to scale the differences of each query, 0 where that is not needed."""
        concerned = self.concerns(queries)
        if not concerned.any():
            return np.zeros(len(concerned), dtype=np.int32)
        own = np.frexp(np.fmax(self.largest, _largest_entries(queries)))[1]
        return np.where(concerned, TOP - own, 0).astype(np.int32)


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
    rounded = scipy.sparse.csr_array((data, rows.indices.copy(), rows.indptr.copy()), rows.shape)
    rounded.eliminate_zeros()
    return rounded
