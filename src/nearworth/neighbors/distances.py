"""Training rows as kernels read them, and distances and inner products pair by pair: of all pairs, or of a few.

All kernels add the terms of one pair in the order of the columns, in 64 bits, whatever the type of the points and
wherever the pair stands. So a few pairs agree to the bit with all pairs, and sparse rows with dense ones.
"""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

from nearworth._common.compile import compiled
from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.inputs.file_rows import FileRows

EXTREME = 300  # binary exponents whose squares come near the limits of floats
BLOCK = 2**16  # numbers in a block of rows: half a megabyte
CONVERTED = 2**14  # numbers converted at a time, so that the copies this takes stay in a cache
PANEL = 128  # training points whose columns stay in the first cache, fewer if they are very long
FEW = 24  # pairs up to which plain insertion is the fastest sort


class Converted:
    """Rows made from others whenever they are read, so that there is never a converted copy of all of them."""

    def __init__(self, X: Rows, convert: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> None:
        self._X, self._convert = X, convert
        self.shape: tuple[int, int] = (X.shape[0], X.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
        """Converted some at a time, because conversions need a few copies."""
        wanted = range(len(self))[rows] if isinstance(rows, slice) else rows
        step = max(4, CONVERTED // max(1, self.shape[1]))
        first = self._convert(self._read(wanted[:step]))
        if len(wanted) <= step:
            return first
        out = np.empty((len(wanted), first.shape[1]), dtype=first.dtype)
        out[:step] = first
        for a in range(step, len(wanted), step):
            out[a : a + step] = self._convert(self._read(wanted[a : a + step]))
        return out

    def _read(self, wanted: Any) -> npt.NDArray[Any]:
        if isinstance(wanted, range) and wanted.step == 1:
            return self._X[wanted.start : wanted.stop]
        return self._X[np.asarray(wanted)]


Rows: TypeAlias = npt.NDArray[Any] | FileRows | Converted


def streamed(rows: Any) -> bool:
    """Whether the rows come from a file whenever they are read."""
    return streamed(rows._X) if isinstance(rows, Converted) else isinstance(rows, FileRows)


def readable(X: Any) -> Any:
    """Rows of a type that compiled code knows: 16-bit floats and foreign byte orders are converted."""
    if X.dtype == np.float16:
        return Converted(X, lambda rows: rows.astype(np.float32))
    if not X.dtype.isnative:
        native = X.dtype.newbyteorder("=")
        return Converted(X, lambda rows: rows.astype(native))
    return X


def blocks(points: Any) -> Iterator[tuple[int, Any]]:
    """All rows, some at a time, each block with the number of its first row; sparse rows are one block."""
    step = points.shape[0] if scipy.sparse.issparse(points) else max(4, BLOCK // max(1, points.shape[1]))
    for start in range(0, points.shape[0], step):
        yield start, points[start : start + step]


def scaled(rows: Any, factor: float) -> Any:
    """Rows times a power of two, which rounds nothing; dense ones are scaled when they are read."""
    if scipy.sparse.issparse(rows):
        return rows * factor
    return Converted(rows, lambda some: some.astype(np.float64) * factor)


def largest_magnitude(X: Any) -> float:
    return max(float(X.max()), -float(X.min()))


def squared_distances(queries: Any, points: Any) -> FloatMatrix:
    """Squared distances of every query and point, (Q, N), both dense or both sparse."""
    if scipy.sparse.issparse(points):
        return sparse_distances(queries, points, 2)
    width = points.shape[1]
    out, panel = np.empty((len(queries), len(points))), np.empty((width, max(4, min(PANEL, BLOCK // max(1, width)))))
    for start, rows in blocks(points):
        _all_pairs(queries, panel, rows, start, out)
    return out


def sparse_distances(queries: scipy.sparse.csr_array, points: scipy.sparse.csr_array, power: int) -> FloatMatrix:
    """Sums of |difference|^power, power 1 or 2, of every pair of sparse rows, (Q, N)."""
    q, x, out = queries, points, np.empty((queries.shape[0], points.shape[0]))
    _merge_rows(q.indptr, q.indices, q.data, x.indptr, x.indices, x.data, power, out)
    return out


def minus_inner_products(queries: FloatMatrix, points: Rows) -> FloatMatrix:
    """Minus the inner product of every query and point, (Q, N)."""
    out = np.empty((len(queries), len(points)))
    for start, rows in blocks(points):
        every = np.arange(len(rows), dtype=np.int32)
        for query, row in zip(np.ascontiguousarray(queries), out, strict=True):
            _some_products(query, rows, every, row[start : start + len(rows)])
    return out


def minus_inner_products_with(query: FloatVector, points: Rows, rows: npt.NDArray[np.int32]) -> FloatVector:
    """Minus the inner products of one query with the points in these rows."""
    return _of_rows(_some_products, query, points, rows)


@dataclass(frozen=True)
class ExactDistances:
    """Squared distances of one query to the points in any rows."""

    query: FloatVector
    points: Rows

    def __call__(self, rows: npt.NDArray[np.int32]) -> FloatVector:
        return _of_rows(some_rows, self.query, self.points, rows)


def _of_rows(kernel: Callable[..., Any], query: FloatVector, points: Rows, rows: npt.NDArray[np.int32]) -> FloatVector:
    """Rows that are not in memory as the kernel reads them are fetched some at a time."""
    out = np.empty(len(rows))
    if isinstance(points, np.ndarray):
        kernel(query, points, rows, out)
        return out
    step = max(1, BLOCK // points.shape[1])
    for start in range(0, len(rows), step):
        some = points[rows[start : start + step]]
        kernel(query, some, np.arange(len(some), dtype=np.int32), out[start : start + step])
    return out


@compiled
def _all_pairs(queries, panel, points, first, out):
    """Fill the columns of `out` from `first` on."""
    for start in range(0, points.shape[0], panel.shape[1]):
        size = min(panel.shape[1], points.shape[0] - start)
        for p in range(size):
            for j in range(points.shape[1]):
                panel[j, p] = points[start + p, j]
        for q in range(queries.shape[0]):
            _one_panel(queries[q], panel, out[q, first + start : first + start + size])


@compiled
def _one_panel(query, panel, total):
    """Add column after column, eight at a time to keep the sums in registers."""
    size, width = total.shape[0], panel.shape[0]
    total[:] = 0.0
    j = 0
    while j + 8 <= width:
        t = query[j], query[j + 1], query[j + 2], query[j + 3], query[j + 4], query[j + 5], query[j + 6], query[j + 7]
        eight = panel[j : j + 8]
        for p in range(size):
            s = total[p]
            for c in range(8):  # unrolled by the compiler
                s += (eight[c, p] - t[c]) ** 2
            total[p] = s
        j += 8
    while j < width:
        for p in range(size):
            total[p] += (panel[j, p] - query[j]) ** 2
        j += 1


@compiled
def some_rows(query, points, rows, out):
    """Eight rows side by side, so that neither one sum nor one row from memory need wait for the other."""
    k, count, width = 0, rows.shape[0], points.shape[1]
    while k + 8 <= count:
        a, b, c, d = np.uint64(rows[k]), np.uint64(rows[k + 1]), np.uint64(rows[k + 2]), np.uint64(rows[k + 3])
        e, f, g, h = np.uint64(rows[k + 4]), np.uint64(rows[k + 5]), np.uint64(rows[k + 6]), np.uint64(rows[k + 7])
        sa = sb = sc = sd = se = sf = sg = sh = 0.0
        for j in range(width):
            t = query[j]
            da, db, dc, dd = points[a, j] - t, points[b, j] - t, points[c, j] - t, points[d, j] - t
            de, df, dg, dh = points[e, j] - t, points[f, j] - t, points[g, j] - t, points[h, j] - t
            sa += da * da
            sb += db * db
            sc += dc * dc
            sd += dd * dd
            se += de * de
            sf += df * df
            sg += dg * dg
            sh += dh * dh
        out[k], out[k + 1], out[k + 2], out[k + 3] = sa, sb, sc, sd
        out[k + 4], out[k + 5], out[k + 6], out[k + 7] = se, sf, sg, sh
        k += 8
    while k < count:
        total = 0.0
        for j in range(width):
            total += (points[rows[k], j] - query[j]) ** 2
        out[k] = total
        k += 1


@compiled
def sort_pairs(values, points):
    """Sort both by (value, point) in place: insertion over shrinking gaps, plain insertion for a few."""
    size = values.shape[0]
    gap = 1
    while size > FEW and 9 * gap < 4 * size:
        gap = (9 * gap) // 4 + 1
    while True:
        for j in range(gap, size):
            value, point, k = values[j], points[j], j
            while k >= gap and (values[k - gap] > value or (values[k - gap] == value and points[k - gap] > point)):
                values[k], points[k] = values[k - gap], points[k - gap]
                k -= gap
            values[k], points[k] = value, point
        if gap == 1:
            return
        gap = max(1, (4 * gap) // 9)


@compiled
def _some_products(query, points, rows, out):
    for k in range(rows.shape[0]):
        row, total = rows[k], 0.0
        for j in range(query.shape[0]):
            total += points[row, j] * query[j]
        out[k] = -total


@compiled
def _merge_rows(q_start, q_column, q_value, x_start, x_column, x_value, power, out):
    for a in range(out.shape[0]):
        for b in range(out.shape[1]):
            i, i_end = q_start[a], q_start[a + 1]
            j, j_end = x_start[b], x_start[b + 1]
            total = 0.0
            while i < i_end or j < j_end:
                if j == j_end or (i < i_end and q_column[i] < x_column[j]):
                    difference = q_value[i]
                    i += 1
                elif i == i_end or x_column[j] < q_column[i]:
                    difference = x_value[j]
                    j += 1
                else:
                    difference = q_value[i] - x_value[j]
                    i += 1
                    j += 1
                total += difference * difference if power == 2 else abs(difference)
            out[a, b] = total
