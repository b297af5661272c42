"""Training rows as kernels read them, which of them are identical, and distances of pairs.

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

# Squares of numbers with binary exponents beyond it come near the limits of floats.
EXTREME = 300
# Numbers in a block of rows: half a megabyte.
BLOCK = 2**16
# Numbers converted at a time, so that the copies this takes stay in a cache.
CONVERTED_AT_ONCE = 2**14
# Rows in a block or a conversion, at least, however many columns they have.
MIN_ROWS_AT_ONCE = 4
# Sums per pair.
LANES = 8
# Columns in which `count_copied` looks for many distinct numbers.
MAX_COLUMNS_TRIED = 64


class Converted:
    """Rows made from others whenever they are read; a converted copy of all is never kept.

    Attributes
    ----------
    source : array, FileRows or Converted of shape (N, d)
        The rows before they are converted.
    shape : (N, d)
    dtype : dtype of the converted rows
    """

    def __init__(self, X: Rows, convert: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> None:
        self.source = X
        self._convert = convert
        self.shape: tuple[int, int] = (X.shape[0], X.shape[1])
        self.dtype = convert(X[:0]).dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
        """These rows, converted in small batches, because conversions need a few copies."""
        row_numbers = range(len(self))[rows] if isinstance(rows, slice) else rows
        out = np.empty((len(row_numbers), self.shape[1]), dtype=self.dtype)
        step = max(MIN_ROWS_AT_ONCE, CONVERTED_AT_ONCE // max(1, self.shape[1]))
        for start in range(0, len(row_numbers), step):
            batch = row_numbers[start : start + step]
            index = (
                slice(batch.start, batch.stop, batch.step) if isinstance(batch, range) else batch
            )
            out[start : start + step] = self._convert(self.source[index])
        return out


Rows: TypeAlias = npt.NDArray[Any] | FileRows | Converted


def streamed(rows: Any) -> bool:
    """Whether the rows come from a file whenever they are read."""
    if isinstance(rows, Converted):
        return streamed(rows.source)
    return isinstance(rows, FileRows)


def readable(X: Any) -> Any:
    """Rows of a type and layout that compiled code knows.

    Others are converted when they are read: 16-bit floats, foreign byte orders, other layouts.
    """
    if X.dtype == np.float16:
        return Converted(X, lambda rows: rows.astype(np.float32, order="C"))
    has_good_layout = not isinstance(X, np.ndarray) or (X.flags.c_contiguous and X.flags.aligned)
    if has_good_layout and X.dtype.isnative:
        return X
    return Converted(X, lambda rows: rows.astype(X.dtype.newbyteorder("="), order="C"))


def blocks(points: Any) -> Iterator[tuple[int, Any]]:
    """All rows in blocks, each with the number of its first row; sparse rows are one block."""
    n_rows, n_columns = points.shape
    step = n_rows if is_sparse(points) else max(MIN_ROWS_AT_ONCE, BLOCK // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield start, points[start : start + step]


def first_duplicates(*parts: Any) -> IntVector:
    """For each row of all parts, the number of the first row equal to it, which may be its own."""
    hashes = np.concatenate([_hash_rows(part) for part in parts])
    return first_equal(*hashes.T)


def count_copied(points: Any, queries: Any) -> int:
    """Number of queries that are exact copies of a point, for a warning that values are biased.

    It is also 0 if none of the first columns has at least half as many distinct numbers as there
    are queries. Shapes are (N, D) and (Q, D).
    """
    sorted_columns = np.sort(queries[:, :MAX_COLUMNS_TRIED], axis=0)
    n_distinct = 1 + (sorted_columns[1:] != sorted_columns[:-1]).sum(axis=0)
    best = int(np.argmax(n_distinct))
    if 2 * n_distinct[best] < len(queries):
        return 0

    # In that column, few points share a hash with some query, and fewer still share the number.
    # Only those are compared as whole rows.
    query_numbers = np.unique(queries[:, best])
    point_numbers = points[:, best]
    is_hash_of_query = np.zeros(2**16, dtype=bool)
    is_hash_of_query[_hash_numbers(query_numbers)] = True
    candidates = np.flatnonzero(is_hash_of_query[_hash_numbers(point_numbers)])
    # Without the last number, positions stay within the array.
    positions = np.searchsorted(query_numbers[:-1], point_numbers[candidates])
    is_equal = query_numbers[positions] == point_numbers[candidates]
    similar = points[candidates[is_equal]]
    first_of_query = first_duplicates(similar, queries)[len(similar) :]
    return int((first_of_query < len(similar)).sum())


def _hash_numbers(numbers: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Hashes of 16 bits, the same for equal numbers of all types."""
    # Adding 0.0 makes 0.0 of -0.0.
    words = (numbers.astype(np.float64) + 0.0).view(np.uint64)
    return (words * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(48)


def first_equal(*columns: npt.NDArray[Any]) -> IntVector:
    """For each position, the first one with the same entries in all columns."""
    # This sort keeps equal entries in their order.
    order = np.lexsort(columns)
    differences = [column[order][1:] != column[order][:-1] for column in columns]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = np.logical_or.reduce(differences)
    first = np.empty(len(order), dtype=np.intp)
    first[order] = order[np.flatnonzero(is_first)][np.cumsum(is_first) - 1]
    return first


def _hash_rows(X: Any) -> npt.NDArray[np.uint64]:
    """128 bits for each row, shape (N, 2), the same for all numeric types.

    Sparse rows have other hashes than dense ones.
    """
    if not is_sparse(X):
        return hash_blocks(X, X.shape[1])
    columns = X.indices.astype(np.int64, copy=False)
    digests = []
    for start, stop in pairwise(X.indptr.tolist()):
        row = columns[start:stop].tobytes() + X.data[start:stop].tobytes()
        digests.append(blake2b(row, digest_size=16).digest())
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)


def squared_distances(queries: Any, points: Any) -> FloatMatrix:
    """Squared distances of every query and point, (Q, N), both dense or both sparse."""
    if is_sparse(points):
        return sparse_distances(queries, points, 2)
    return all_pairs(queries, points)


def enlarged_squares(queries: Any, points: Any, rows: IntVector, factor: float) -> FloatVector:
    """Squared distance of each query and one point, from the difference times a power of two.

    Parameters
    ----------
    queries : array or sparse matrix of shape (Q, d)
    points : rows or sparse matrix of shape (N, d)
    rows : array of shape (Q,)
        The row number of the point for each query.
    factor : float
        A power of two, so that the product does not round.
    """
    differences = points[rows] - queries
    if is_sparse(differences):
        squares = np.square(differences.data * factor)
        return _sums_of_rows(differences, squares, differences.indices % LANES)
    differences *= factor
    return np.asarray(all_pairs(np.zeros((1, differences.shape[1])), differences)[0])


def pairs_with(
    query: FloatVector, points: Rows, rows: IntVector32, *, product: bool = False
) -> FloatVector:
    """Squared distances or inner products of one query with the points in these rows."""
    return np.asarray(listed_pairs(query[None], points, rows[None], product=product)[0])


def sparse_distances(queries: Any, points: Any, power: int) -> FloatMatrix:
    """Sums of |difference|^power of all pairs of sparse rows, (Q, N).

    With power 1 they are added in the order of scipy.
    """
    out = np.empty((queries.shape[0], points.shape[0]))
    if native.available() and points.shape[1] < 2**31:
        native.call("sparse_distances", out, *_csr_arrays(queries), *_csr_arrays(points), power)
        return out
    for number, distances in enumerate(out):
        _sparse_row(queries[[number]], points, power, distances)
    return out


def _csr_arrays(X: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Row starts, columns and entries of a CSR matrix, in the types of compiled code."""
    starts = X.indptr.astype(np.int64)
    columns = X.indices.astype(np.int32, copy=False)
    entries = X.data.astype(np.float64, copy=False)
    return starts, columns, entries


def all_pairs(queries: FloatMatrix, points: Rows, *, product: bool = False) -> FloatMatrix:
    """Squared distances or inner products of every query and point, (Q, N).

    Points that are no plain array are read in blocks.
    """
    queries = np.ascontiguousarray(queries)
    out = np.empty((len(queries), len(points)))
    if native.available():
        batches = [(0, points)] if isinstance(points, np.ndarray) else blocks(points)
        for start, rows in batches:
            native.call("all_pairs", queries, np.ascontiguousarray(rows), start, product, out)
        return out
    for start, rows in blocks(points):
        for query, sums in zip(queries, out, strict=True):
            with np.errstate(over="ignore", invalid="ignore"):
                terms = rows * query if product else np.square(rows - query)
                sums[start : start + len(rows)] = _sum_columns(terms)
    return out


def listed_pairs(
    queries: FloatMatrix, points: Rows, lists: IntMatrix32, *, product: bool = False
) -> FloatMatrix:
    """Squared distances or inner products of each query with its own list of rows.

    Parameters
    ----------
    queries : array of shape (Q, d)
    points : rows of shape (N, d)
    lists : array of shape (Q, k)
        Row numbers of points.
    product : bool
        Inner products instead of squared distances.

    Returns
    -------
    array of shape (Q, k)
    """
    out = np.empty(lists.shape)
    if native.available() and isinstance(points, np.ndarray):
        native.call("listed_pairs", queries, points, lists, product, out)
        return out
    step = max(1, BLOCK // max(1, points.shape[1]))
    for query, rows, sums in zip(queries, lists, out, strict=True):
        for start in range(0, len(rows), step):
            block = points[rows[start : start + step]]
            sums[start : start + step] = all_pairs(query[None], block, product=product)[0]
    return out


def _sum_columns(terms: npt.NDArray[Any]) -> FloatVector:
    """The sum of each row: column j to sum number j mod 8, then the tree."""
    sums = np.zeros((len(terms), LANES))
    for start in range(0, terms.shape[1], LANES):
        columns = terms[:, start : start + LANES]
        sums[:, : columns.shape[1]] += columns
    return _tree_sum(sums)


def _tree_sum(sums: FloatMatrix) -> FloatVector:
    """The sum of each row, of neighboring pairs first."""
    while sums.shape[1] > 1:
        sums = sums[:, ::2] + sums[:, 1::2]
    return sums[:, 0]


def _sparse_row(query: Any, points: Any, power: int, out: FloatVector) -> None:
    """Fill `out` with the distances of one sparse query to all sparse points."""
    step = max(1, BLOCK // max(1, query.nnz))
    for start in range(0, len(out), step):
        block = points[start : start + step]
        differences = block - query[np.zeros(block.shape[0], dtype=int)]
        if power == 1:
            terms = np.abs(differences.data)
            lanes = np.zeros_like(differences.indices)
        else:
            terms = np.square(differences.data)
            lanes = differences.indices % LANES
        out[start : start + step] = _sums_of_rows(differences, terms, lanes)


def _sums_of_rows(differences: Any, terms: FloatVector, lanes: npt.NDArray[Any]) -> FloatVector:
    """The sums of the terms in each row of a sparse matrix.

    Each term is added to the sum of its lane. The sums are then added as a tree.
    """
    n_rows = differences.shape[0]
    row_of_term = np.repeat(np.arange(n_rows), np.diff(differences.indptr))
    # bincount adds in the order of its input, which is that of the columns.
    sums = np.bincount(LANES * row_of_term + lanes, weights=terms, minlength=LANES * n_rows)
    return _tree_sum(sums.reshape(-1, LANES).astype(np.float64))
