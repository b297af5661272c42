"""Keys of cosine and correlation: squared distances between directions, rounded so that equal angles tie.

The direction of a row is the row divided by its length. The distance c between two directions, from 0 to 2, decides:
c^2 / 2 is the cosine distance, but c also tells small angles apart, where cosines all round to 1. Directions are
rounded, so c is off by some 1e-16, and equal angles would be ordered by rounding. Hence the definition: two training
rows tie if their distances c from the direction of the query are equal after rounding to a multiple of GRID.

Rows of small whole numbers (counts) need no rounding: their cosines are compared as fractions, exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolVector, FloatMatrix, FloatVector
from nearworth.inputs.features import is_sparse
from nearworth.neighbors.distances import Converted, blocks, pairs_with, squared_distances
from nearworth.neighbors.keys import Keys
from nearworth.neighbors.quantised import ExactKeys, Products

# Coarse beside the rounding of directions, so that equal angles nearly always share a multiple (and right angles always
# do: sqrt(2) is a quarter of a step away from where rounding changes), and fine beside any angle that data can mean.
GRID = 2.0**-40
CONSTANT = 2.0**-50  # relative differences within a row that are nothing but rounding
EXACT = 2.0**52  # fractions of whole numbers below it are told apart by floats
LARGEST_WHOLE = 2.0**26  # the square is EXACT
RIGHT_ANGLE = (round(2.0**0.5 / GRID) * GRID) ** 2


class CosineKeys(Keys):
    """Squared distances between directions, of dense or sparse rows; of `centred` rows, the correlation distance."""

    uses_blas = True  # for whole numbers

    def __init__(self, X: Any, *, centred: bool = False) -> None:
        self._convert: Callable[[Any], Any] = partial(_scaled_rows, centred=centred)
        dense = not is_sparse(X)
        super().__init__(Converted(X, self._convert) if dense else self._convert(X))
        self._directions = Converted(self._points, _directions) if dense else _directions(self._points)
        self._zero = np.zeros(X.shape[0], dtype=bool)
        self._whole, self._largest_square = True, 0.0
        for start, rows in blocks(self._points):
            squares = _squares(rows)
            self._zero[start : start + rows.shape[0]] = squares == 0.0
            self._whole &= bool(_whole(rows).all())
            self._largest_square = max(self._largest_square, float(squares.max()))
        self.has_products = dense and not self._zero.any()  # no product says that a zero row is at distance 1

    def __call__(self, queries: Any) -> FloatMatrix:
        rows = self._convert(queries)
        keys = _on_grid(squared_distances(_directions(rows), self._directions))
        keys[:, self._zero] = keys[_squares(rows) == 0.0] = RIGHT_ANGLE
        exact = self._is_exact(rows)
        if exact.any():
            keys[exact] = self._fractions(rows[exact])
        return keys

    def as_distances(self, keys: FloatMatrix, queries: Any) -> FloatMatrix:
        rows = self._convert(queries)
        cosines = -np.sign(keys) * np.sqrt(np.abs(keys) / np.where(self._is_exact(rows), _squares(rows), 1.0)[:, None])
        return np.where(self._is_exact(rows)[:, None], 1.0 - cosines, keys / 2.0)

    def products(self, *, single: bool) -> Products:
        # Rounding to the grid moves a squared distance by up to 2 GRID, two by 4; once more, to be safe.
        rounding = 8.0 * GRID
        return Products(self._directions, self._directions_of, single=single, exact=self._exact, rounding=rounding)

    def _exact(self, query: FloatVector) -> ExactKeys:
        return lambda rows: _on_grid(pairs_with(query, self._directions, rows))

    def _directions_of(self, queries: Any) -> tuple[FloatMatrix, BoolVector]:
        """Directions of queries, and for which of them these decide."""
        rows = self._convert(queries)
        return _directions(rows), (_squares(rows) > 0.0) & ~self._is_exact(rows)

    def _is_exact(self, queries: Any) -> BoolVector:
        """Queries whose cosines with all training rows are fractions of whole numbers that floats tell apart."""
        if not self._whole:
            return np.zeros(queries.shape[0], dtype=bool)
        largest = self._largest_square * self._largest_square
        return _whole(queries) & (largest * _squares(queries) < EXACT)

    def _fractions(self, queries: Any) -> FloatMatrix:
        """Minus the signed squares of the cosines, times |query|^2: one division, so equal fractions round alike."""
        keys = np.empty((queries.shape[0], self._points.shape[0]))
        for start, rows in blocks(self._points):
            dots, squares = queries @ rows.T, _squares(rows)
            dots = dots.toarray() if is_sparse(dots) else dots
            keys[:, start : start + rows.shape[0]] = -dots * np.abs(dots) / np.where(squares > 0.0, squares, 1.0)
        return keys


def _scaled_rows(X: Any, centred: bool) -> Any:
    """Rows scaled by powers of two, which rounds nothing, and centred without a division if `centred`.

    Whole numbers stay whole where they are small.
    """
    if is_sparse(X):
        exponents = np.repeat(_exponents(X), np.diff(X.indptr))
        return type(X)((np.ldexp(X.data, exponents), X.indices, X.indptr), X.shape)
    rows = np.array(X, dtype=np.float64, order="C")
    if centred:
        largest = np.abs(rows).max(axis=1)
        rows -= rows[:, :1].copy()  # an offset drops out unrounded
        rows[np.abs(rows).max(axis=1) <= CONSTANT * largest] = 0.0
    rows = np.ldexp(rows, _exponents(rows)[:, None])
    return rows * rows.shape[1] - rows.sum(axis=1, keepdims=True) if centred else rows


def _exponents(rows: Any) -> npt.NDArray[np.int32]:
    """Binary exponents that bring the largest number of each row near 1; 0 for small whole numbers."""
    largest = abs(rows).max(axis=1)
    largest = largest.toarray().ravel() if is_sparse(rows) else largest
    return np.where(_whole(rows) & (largest < LARGEST_WHOLE), 0, -np.frexp(largest)[1])


def _directions(rows: Any) -> Any:
    """Rows of length 1; rows of zeros stay as they are."""
    squares = _squares(rows)
    lengths = np.sqrt(np.where(squares > 0.0, squares, 1.0))
    if not is_sparse(rows):
        return rows / lengths[:, None]
    data = rows.data / np.repeat(lengths, np.diff(rows.indptr))
    return type(rows)((data, rows.indices, rows.indptr), rows.shape)


def _squares(rows: Any) -> FloatVector:
    """Squared lengths, added in one order: sparse and dense rows have the same."""
    origin = type(rows)((1, rows.shape[1])) if is_sparse(rows) else np.zeros((1, rows.shape[1]))
    return np.asarray(squared_distances(origin, rows)[0])


def _whole(rows: Any) -> BoolVector:
    if is_sparse(rows):
        fractional = type(rows)((rows.data != np.trunc(rows.data), rows.indices, rows.indptr), rows.shape)
        return np.asarray(fractional.sum(axis=1) == 0).ravel()
    return np.asarray((rows == np.trunc(rows)).all(axis=1))


def _on_grid(squares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Squares of the same distances rounded to GRID, in place."""
    for row in np.atleast_2d(squares):
        np.sqrt(row, out=row)
        row /= GRID
        np.rint(row, out=row)
        row *= GRID
        np.square(row, out=row)
    return squares
