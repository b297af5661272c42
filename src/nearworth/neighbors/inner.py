"""Inner products: every pair or a few exactly, and all of them roughly from one matrix product."""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from nearworth._common.compile import compiled
from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.neighbors.products import LARGEST_64, UNIT_64, RoughBatch
from nearworth.neighbors.rows import Rows, blocks


def minus_inner_products(queries: FloatMatrix, points: Rows) -> FloatMatrix:
    """Minus the inner product of every query and point, (Q, N), each summed in the order of the columns."""
    out = np.empty((len(queries), len(points)))
    for start, rows in blocks(points):
        every = np.arange(len(rows), dtype=np.int32)
        for query, row in zip(np.ascontiguousarray(queries), out, strict=True):
            _some_products(query, rows, every, row[start : start + len(rows)])
    return out


class InnerProducts:
    """Rough inner products in 64 bits; a promise as in `products.Products`, from the longest training point."""

    can_be_narrow = False

    def __init__(self, points: Rows) -> None:
        self._points = points
        squares = (np.einsum("ij,ij->i", *2 * (rows.astype(np.float64),)).max() for _, rows in blocks(points))
        with np.errstate(over="ignore"):
            self._longest = float(np.sqrt(max(squares)))
        self._no_norms = np.zeros(len(points))

    def __call__(self, queries: FloatMatrix, *, narrow: bool) -> RoughBatch:
        """Rough products of a batch of queries; never narrow."""
        assert not narrow
        with np.errstate(over="ignore", invalid="ignore"):
            high = self._longest * np.sqrt((queries * queries).sum(axis=1))
        reach = 2.0 * (2.0 * queries.shape[1] + 4.0) * UNIT_64 * high
        ordinary = np.isfinite(high) & (high < LARGEST_64)
        high, reach = np.where(ordinary, high, 1.0), np.where(ordinary, reach, 1.0)
        return RoughBatch(
            self._no_norms,
            -high,
            high,
            reach,
            reach,
            -high,
            ordinary,
            False,
            [partial(self._keys, query) for query in queries],
            -queries,
            self._points,
        )

    def _keys(self, query: FloatVector, rows: npt.NDArray[np.int32]) -> FloatVector:
        out = np.empty(len(rows))
        if isinstance(self._points, np.ndarray):
            _some_products(query, self._points, rows, out)
        else:
            some = self._points[rows]
            _some_products(query, some, np.arange(len(some), dtype=np.int32), out)
        return out


@compiled
def _some_products(query, points, rows, out):
    for k in range(rows.shape[0]):
        row, total = rows[k], 0.0
        for j in range(query.shape[0]):
            total += points[row, j] * query[j]
        out[k] = -total
