"""Training rows as kernels read them, which of them are identical, and distances and inner products
of pairs.

The term of column j is added to sum number j mod 8, in 64 bits, and the eight sums are added as a
tree (native/distances.c, and in numpy here), whatever the type of the points and wherever the pair
stands. So a few pairs agree to the bit with all pairs, sparse rows with dense ones, and the numpy
forms with the compiled ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common import native
from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix32, IntVector, IntVector32
from nearworth.inputs.features import hash_blocks, is_sparse
from nearworth.inputs.file_rows import FileRows

EXTREME = 300  # binary exponents whose squares come near the limits of floats
BLOCK = 2**16  # numbers in a block of rows: half a megabyte
CONVERTED = 2**14  # numbers converted at a time, so that the copies this takes stay in a cache
LANES = 8  # sums per pair
COLUMNS_TRIED = 64


class Converted:
    """Rows made from others whenever they are read, so that there is never a converted copy of all
    of them.
    """

    def __init__(self, X: Rows, convert: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> None:
        self._X, self._convert = X, convert
        self.shape: tuple[int, int] = (X.shape[0], X.shape[1])
        self.dtype = convert(X[:0]).dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
        """Converted some at a time, because conversions need a few copies."""
        wanted = range(len(self))[rows] if isinstance(rows, slice) else rows
        out = np.empty((len(wanted), self.shape[1]), dtype=self.dtype)
        step = max(4, CONVERTED // max(1, self.shape[1]))
        for start in range(0, len(wanted), step):
            some = wanted[start : start + step]
            source = slice(some.start, some.stop, some.step) if isinstance(some, range) else some
            out[start : start + step] = self._convert(self._X[source])
        return out


Rows: TypeAlias = npt.NDArray[Any] | FileRows | Converted


def streamed(rows: Any) -> bool:
    """Whether the rows come from a file whenever they are read."""
    return streamed(rows._X) if isinstance(rows, Converted) else isinstance(rows, FileRows)


def readable(X: Any) -> Any:
    """Rows of a type and layout that compiled code knows; others are converted: 16-bit floats,
    foreign byte orders.
    """
    if X.dtype == np.float16:
        return Converted(X, lambda rows: rows.astype(np.float32, order="C"))
    plain = not isinstance(X, np.ndarray) or (X.flags.c_contiguous and X.flags.aligned)
    if plain and X.dtype.isnative:
        return X
    return Converted(X, lambda rows: rows.astype(X.dtype.newbyteorder("="), order="C"))


def blocks(points: Any) -> Iterator[tuple[int, Any]]:
    """All rows, some at a time, each block with the number of its first row; sparse rows are one
    block.
    """
    step = points.shape[0] if is_sparse(points) else max(4, BLOCK // max(1, points.shape[1]))
    for start in range(0, points.shape[0], step):
        yield start, points[start : start + step]


def first_duplicates(*parts: Any) -> IntVector:
    """For each row of all parts, the number of the first row equal to it (its own where there is
    none).
    """
    return first_equal(*np.concatenate([_hash_rows(part) for part in parts]).T)


def count_copied(points: Any, queries: Any) -> int:
    """How many queries are rows among the points, told apart by one column first; 0 where none
    tells half apart.
    """
    ordered = np.sort(queries[:, :COLUMNS_TRIED], axis=0)
    distinct = 1 + (ordered[1:] != ordered[:-1]).sum(axis=0)
    best = int(np.argmax(distinct))
    if 2 * distinct[best] < len(queries):
        return 0
    known, column, mark = np.unique(queries[:, best]), points[:, best], np.zeros(2**16, dtype=bool)
    mark[_scattered(known)] = True
    some = np.flatnonzero(mark[_scattered(column)])  # a few, which are then looked for
    near = points[some[known[np.searchsorted(known[:-1], column[some])] == column[some]]]
    return int((first_duplicates(near, queries)[len(near) :] < len(near)).sum())


def _scattered(numbers: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Hashes of 16 bits, the same for equal numbers of all types."""
    words = (numbers.astype(np.float64) + 0.0).view(np.uint64)  # -0.0 is 0.0
    return (words * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(48)


def first_equal(*columns: npt.NDArray[Any]) -> IntVector:
    """For each position, the first one with the same entries in all columns."""
    order = np.lexsort(columns)  # keeps equal ones in their order
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.logical_or.reduce([column[order][1:] != column[order][:-1] for column in columns])
    first = np.empty(len(order), dtype=np.intp)
    first[order] = order[np.flatnonzero(new)][np.cumsum(new) - 1]
    return first


def _hash_rows(X: Any) -> npt.NDArray[np.uint64]:
    """128 bits for each row, the same for all numeric types; sparse rows have other hashes than
    dense ones.
    """
    if not is_sparse(X):
        return hash_blocks(X, X.shape[1])
    columns = X.indices.astype(np.int64, copy=False)
    rows = (columns[a:b].tobytes() + X.data[a:b].tobytes() for a, b in pairwise(X.indptr.tolist()))
    return np.frombuffer(
        b"".join(blake2b(row, digest_size=16).digest() for row in rows), np.uint64
    ).reshape(-1, 2)


def squared_distances(queries: Any, points: Any) -> FloatMatrix:
    """Squared distances of every query and point, (Q, N), both dense or both sparse."""
    if is_sparse(points):
        return sparse_distances(queries, points, 2)
    return all_pairs(queries, points)


def enlarged_squares(queries: Any, points: Any, rows: IntVector, factor: float) -> FloatVector:
    """Squared distances of each query and the point in its row, from differences times a power
    of two.
    """
    differences = points[rows] - queries
    if is_sparse(differences):
        return _sums_of_rows(
            differences, np.square(differences.data * factor), differences.indices % LANES
        )
    differences *= factor
    return np.asarray(all_pairs(np.zeros((1, differences.shape[1])), differences)[0])


def pairs_with(
    query: FloatVector, points: Rows, rows: IntVector32, *, product: bool = False
) -> FloatVector:
    """Squared distances or inner products of one query with the points in these rows."""
    return np.asarray(listed_pairs(query[None], points, rows[None], product=product)[0])


def sparse_distances(queries: Any, points: Any, power: int) -> FloatMatrix:
    """Sums of |difference|^power of all pairs of sparse rows, (Q, N); with power 1 in the order
    that scipy adds in.
    """
    out = np.empty((queries.shape[0], points.shape[0]))
    if not native.available() or points.shape[1] >= 2**31:
        for query, distances in zip(range(len(out)), out, strict=True):
            _sparse_row(queries[[query]], points, power, distances)
        return out
    sides = [
        (
            X.indptr.astype(np.int64),
            X.indices.astype(np.int32, copy=False),
            X.data.astype(np.float64, copy=False),
        )
        for X in (queries, points)
    ]
    native.call("sparse_distances", out, *sides[0], *sides[1], power)
    return out


def all_pairs(queries: FloatMatrix, points: Rows, *, product: bool = False) -> FloatMatrix:
    """Squared distances or inner products of every query and point; rows that are no plain array,
    some at a time.
    """
    queries, out = np.ascontiguousarray(queries), np.empty((len(queries), len(points)))
    if native.available():
        for start, rows in [(0, points)] if isinstance(points, np.ndarray) else blocks(points):
            native.call("all_pairs", queries, np.ascontiguousarray(rows), start, product, out)
        return out
    for start, rows in blocks(points):
        for query, sums in zip(queries, out, strict=True):
            with np.errstate(over="ignore", invalid="ignore"):
                sums[start : start + len(rows)] = _sum_columns(
                    rows * query if product else np.square(rows - query)
                )
    return out


def listed_pairs(
    queries: FloatMatrix, points: Rows, lists: IntMatrix32, *, product: bool = False
) -> FloatMatrix:
    """The same of each query with its own list of rows."""
    out = np.empty(lists.shape)
    if native.available() and isinstance(points, np.ndarray):
        native.call("listed_pairs", queries, points, lists, product, out)
        return out
    step = max(1, BLOCK // max(1, points.shape[1]))
    for query, rows, sums in zip(queries, lists, out, strict=True):
        for start in range(0, len(rows), step):
            some = points[rows[start : start + step]]
            sums[start : start + step] = all_pairs(query[None], some, product=product)[0]
    return out


def _sum_columns(terms: npt.NDArray[Any]) -> FloatVector:
    """The sum of each row: column j to sum number j mod 8, then the tree."""
    sums = np.zeros((len(terms), LANES))
    for start in range(0, terms.shape[1], LANES):
        some = terms[:, start : start + LANES]
        sums[:, : some.shape[1]] += some
    return _tree(sums)


def _tree(sums: FloatMatrix) -> FloatVector:
    while sums.shape[1] > 1:
        sums = sums[:, ::2] + sums[:, 1::2]
    return sums[:, 0]


def _sparse_row(query: Any, points: Any, power: int, out: FloatVector) -> None:
    step = max(1, BLOCK // max(1, query.nnz))
    for start in range(0, len(out), step):
        some = points[start : start + step]
        differences = some - query[np.zeros(some.shape[0], dtype=int)]
        terms = np.abs(differences.data) if power == 1 else np.square(differences.data)
        lanes = np.zeros_like(differences.indices) if power == 1 else differences.indices % LANES
        out[start : start + step] = _sums_of_rows(differences, terms, lanes)


def _sums_of_rows(differences: Any, terms: FloatVector, lanes: npt.NDArray[Any]) -> FloatVector:
    """The sums of the terms in each row of a sparse matrix, each added to the sum of its lane, then
    the tree.
    """
    n_rows = differences.shape[0]
    row = np.repeat(np.arange(n_rows), np.diff(differences.indptr))
    # bincount adds in the order of its input, which is that of the columns
    sums = np.bincount(LANES * row + lanes, weights=terms, minlength=LANES * n_rows)
    return _tree(sums.reshape(-1, LANES).astype(np.float64))
