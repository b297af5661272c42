"""Cosine distances: squared distances between directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.inputs.file_rows import FileRows
from nearworth.neighbors.base import Keys
from nearworth.neighbors.distances import squared_distances
from nearworth.neighbors.products import Products, RoughBatch
from nearworth.neighbors.rows import Converted, blocks, streamed
from nearworth.neighbors.sparse import sparse_distances

Mask = npt.NDArray[np.bool_]


class CosineKeys(Keys):
    """Squared distances between directions: twice the cosine distance, without its cancellation.

    Whole numbers (counts) often have equal cosines, which rounded directions would tell apart. Where all products
    are exact, the key is minus the signed square of the cosine instead: one division, and equal fractions round alike.
    With `centred` rows, this is the correlation distance.
    """

    def __init__(self, X: npt.NDArray[Any] | FileRows, *, centred: bool = False) -> None:
        self._rows = Converted(X, lambda rows: _scaled_rows(rows, centred))
        self._directions = Converted(X, lambda rows: _directions(_scaled_rows(rows, centred), centred)[0])
        self._centred = centred
        self._nowhere = np.zeros(len(X), dtype=bool)
        self._largest_square, whole = 0.0, True
        for start, rows in blocks(self._rows):
            self._nowhere[start : start + len(rows)] = _directions(rows, centred)[1]
            whole &= bool(_whole(rows).all())
            self._largest_square = max(self._largest_square, float(_squares(rows).max()))
        self._whole = whole

    @property
    def width(self) -> int:
        """See Keys."""
        return self._rows.shape[1]

    @property
    def streamed(self) -> bool:
        """See Keys."""
        return streamed(self._rows)

    @property
    def has_products(self) -> bool:
        """See Keys; rows without direction are at distance 1 of everything, which no product says."""
        return not self._nowhere.any()

    def products(self, *, narrow: bool) -> Products:
        """See Keys."""
        return CosineProducts(self, self._directions, narrow)

    def __call__(self, queries: Any) -> FloatMatrix:
        """See Keys."""
        rows = _scaled_rows(np.asarray(queries), self._centred)
        directions, nowhere = _directions(rows, self._centred)
        keys = squared_distances(directions, self._directions)
        keys[:, self._nowhere] = 2.0  # a point without direction is at cosine distance 1 of everything
        keys[nowhere, :] = 2.0
        exact = self._exactly_comparable(rows)
        if exact.any():
            keys[exact] = self._fractions(rows[exact])
        return keys

    def queries(self, queries: Any) -> tuple[FloatMatrix, Mask]:
        """Directions of queries, and for which of them these alone decide."""
        rows = _scaled_rows(np.asarray(queries), self._centred)
        directions, nowhere = _directions(rows, self._centred)
        return directions, ~nowhere & ~self._exactly_comparable(rows)

    def _exactly_comparable(self, rows: FloatMatrix) -> Mask:
        """Queries whose cosines with all training rows are fractions of whole numbers that floats can tell apart."""
        if not self._whole:
            return np.zeros(rows.shape[0], dtype=bool)
        with np.errstate(over="ignore"):
            return np.asarray(_whole(rows) & (self._largest_square**2 * _squares(rows) < 2.0**52))

    def _fractions(self, queries: FloatMatrix) -> FloatMatrix:
        keys = np.empty((len(queries), len(self._rows)))
        for start, rows in blocks(self._rows):
            keys[:, start : start + len(rows)] = _signed_squares(queries @ rows.T, _squares(rows))
        return keys


class CosineProducts(Products):
    """Rough distances between directions."""

    def __init__(self, keys: CosineKeys, directions: Converted, narrow: bool) -> None:
        super().__init__(directions, narrow=narrow)
        self._keys = keys

    def __call__(self, queries: FloatMatrix, *, narrow: bool) -> RoughBatch:
        """Rough distances of a batch of queries, unless directions do not decide."""
        directions, ordinary = self._keys.queries(queries)
        batch = super().__call__(directions, narrow=narrow)
        batch.ordinary &= ordinary
        return batch


class SparseCosineKeys(Keys):
    """The same for sparse rows."""

    def __init__(self, X: scipy.sparse.csr_array) -> None:
        self._directions, self._nowhere = _sparse_directions(X)
        self._rows = X if _whole(X).all() else None
        self._squares = _squares(X)

    def __call__(self, queries: Any) -> FloatMatrix:
        """See Keys."""
        directions, nowhere = _sparse_directions(queries)
        keys = sparse_distances(directions, self._directions, 2)
        keys[:, self._nowhere] = 2.0
        keys[nowhere, :] = 2.0
        with np.errstate(over="ignore"):
            small = self._squares.max() ** 2 * _squares(queries) < 2.0**52
        exact = _whole(queries) & small
        if self._rows is not None and exact.any():
            dots = (queries[exact] @ self._rows.T).toarray()
            keys[exact] = _signed_squares(dots, self._squares)
        return keys


def _scaled_rows(X: npt.NDArray[Any], centred: bool) -> FloatMatrix:
    """Rows scaled by powers of two, which rounds nothing, and centred without a division if asked for.

    Whole rows stay whole.
    """
    rows = np.array(X, dtype=np.float64, order="C")
    exponents = np.where(_whole(rows), 0, -np.frexp(np.abs(rows).max(axis=1))[1])
    rows = np.ldexp(rows, exponents[:, None])
    return rows * rows.shape[1] - rows.sum(axis=1, keepdims=True) if centred else rows


def _directions(rows: FloatMatrix, centred: bool) -> tuple[FloatMatrix, Mask]:
    """Rows of length one, and which rows have no direction (for centred rows: nothing but rounding is left)."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    nowhere = largest <= (4e-16 * rows.shape[1] ** 2 if centred else 0.0)
    scaled = rows / np.where(nowhere, 1.0, largest)
    length = np.sqrt(_squares(scaled))[:, None]
    return scaled / np.where(nowhere, 1.0, length), nowhere[:, 0]


def _sparse_directions(rows: scipy.sparse.csr_array) -> tuple[scipy.sparse.csr_array, Mask]:
    entries = np.diff(rows.indptr)
    largest = abs(rows).max(axis=1).toarray().ravel()
    scaled = scipy.sparse.csr_array((rows.data / np.repeat(largest, entries), rows.indices, rows.indptr), rows.shape)
    data = scaled.data / np.repeat(np.sqrt(_squares(scaled)), entries)
    return scipy.sparse.csr_array((data, rows.indices, rows.indptr), rows.shape), entries == 0


def _signed_squares(dots: FloatMatrix, squares: FloatVector) -> FloatMatrix:
    return np.asarray(-dots * np.abs(dots) / np.where(squares > 0, squares, 1.0))


def _squares(rows: Any) -> FloatVector:
    with np.errstate(over="ignore"):
        return np.asarray((rows * rows).sum(axis=1)).ravel()


def _whole(rows: Any) -> Mask:
    if scipy.sparse.issparse(rows):
        fractional = scipy.sparse.csr_array((rows.data != np.trunc(rows.data), rows.indices, rows.indptr), rows.shape)
        return np.asarray(fractional.sum(axis=1) == 0).ravel()
    return np.asarray((rows == np.trunc(rows)).all(axis=1))
