"""What a searcher is, and how its answers are checked and put in true order.

A searcher knows the training points and names the nearest of them. Whoever built it, two things are never taken on
trust: the form of its answer (`check_answer` refuses what cannot be right) and its distances (`TrueDistances` ranks
the points found anew). That all of the nearest were found is another question, answered by `certify.py`.
"""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from nearworth._common.compile import compiled
from nearworth._common.types import FloatMatrix, IntMatrix, IntVector
from nearworth.inputs.features import check_features
from nearworth.inputs.parameters import as_generator, is_real, whole_number
from nearworth.neighbors.distances import distances_to, some_rows
from nearworth.neighbors.keys import EXTREME
from nearworth.neighbors.rows import readable

MISSING = -1
Answer: TypeAlias = tuple[IntMatrix, FloatMatrix]
generator = as_generator  # the name that searchers import


@runtime_checkable
class Searcher(Protocol):
    """Anything that finds the nearest training points.

    A searcher may also have `prepare(k, queries=None)`, called once between `fit` and the first `search`: the place to
    choose parameters, and to build what depends on k. `queries` is then a sample of the questions to come.

    With `fingerprint()`, a text that is the same whenever a searcher would give the same answers to the bit, its runs
    can be kept in a checkpoint. It is called after `prepare`.
    """

    def fit(self, X: Any) -> Self:
        """Take the training points, (N, d)."""
        ...

    def search(self, Q: Any, k: int) -> tuple[Any, Any]:
        """Indices and distances of the k nearest, both (len(Q), k), nearest first.

        Where fewer were found, the row ends in index -1 and distance infinity. Distances may be any increasing function
        of the true ones.
        """
        ...


def check_answer(
    indices: Any, distances: Any, n_train: int, k: int, *, n_queries: int | None = None, searcher: Any = None
) -> Answer:
    """The answer of a searcher in our types, or a ValueError that says what is wrong with it."""
    name = (
        searcher if isinstance(searcher, str) else type(searcher).__name__ if searcher is not None else "the searcher"
    )
    found, far = np.asarray(indices), np.asarray(distances)
    rows = n_queries if n_queries is not None else len(found) if found.ndim else 0
    for what, array in (("indices", found), ("distances", far)):
        if array.shape != (rows, k):
            raise _refused(name, f"{what} of shape {array.shape} instead of {(rows, k)}")
    if found.dtype.kind not in "iu":
        raise _refused(name, f"indices of type {found.dtype} instead of whole numbers")
    if far.dtype.kind not in "iuf":
        raise _refused(name, f"distances of type {far.dtype} instead of real numbers")
    far = far.astype(np.float64)
    _refuse_first(name, (found < MISSING) | (found >= n_train), f"an index outside 0..{n_train - 1}", found)
    found = found.astype(np.intp)
    missing = found == MISSING
    _refuse_first(name, missing[:, :-1] & ~missing[:, 1:], "a neighbour after -1", found)
    _refuse_first(name, ~missing & ~np.isfinite(far), "a distance that is not finite", far)
    _refuse_first(name, ~missing[:, 1:] & (far[:, 1:] < far[:, :-1]), "a farther point before a nearer one", far)
    ordered = np.sort(found, axis=1)
    _refuse_first(name, (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0), "a neighbour twice", ordered)
    return found, np.where(missing, np.inf, far)


def drop_self(indices: IntMatrix, distances: FloatMatrix, rows: IntVector) -> Answer:
    """Answers to k + 1 without the training point that asked (one per row), or without the last if it is not there."""
    itself = indices == rows[:, None]
    itself[~itself.any(axis=1), -1] = True
    shape = len(indices), indices.shape[1] - 1
    return indices[~itself].reshape(shape), distances[~itself].reshape(shape)


class TrueDistances:
    """Squared distances of chosen pairs, equal to the bit to those of all pairs (`distances.py`)."""

    def __init__(self, X: npt.NDArray[Any]) -> None:
        self.points = X
        self._rows = readable(X)
        self._largest = max(float(X.max()), -float(X.min()))

    def keys(self, queries: Any, indices: IntMatrix) -> FloatMatrix:
        """Squared distances of each query to its own list of points, infinity for -1.

        A query with numbers so extreme that squares would leave the range of floats has its squares scaled by a power
        of two, which changes no rank.
        """
        rows = np.ascontiguousarray(queries, dtype=np.float64)
        keys = np.empty(indices.shape)
        if isinstance(self._rows, np.ndarray):
            _measure(rows, self._rows, indices, keys)
        else:
            for row, found, key in zip(rows, indices, keys, strict=True):
                key[:] = np.where(
                    found < 0, np.inf, distances_to(row, self._rows, np.maximum(found, 0).astype(np.int32))
                )
        scales = self._scales(rows)
        for q in np.flatnonzero(scales):
            there = indices[q] >= 0
            near = np.ldexp(self.points[indices[q][there]].astype(np.float64), scales[q])
            keys[q, there] = distances_to(np.ldexp(rows[q], scales[q]), near, np.arange(len(near), dtype=np.int32))
        return keys

    def order(self, queries: Any, indices: IntMatrix) -> Answer:
        """The points found for each query, by true squared distance and then index; -1 and infinity at the end."""
        ranked, keys = indices.astype(np.intp), self.keys(queries, indices)
        _sort_rows(keys, ranked)
        return ranked, keys

    def unsquared(self, queries: Any, keys: FloatMatrix) -> FloatMatrix:
        """Distances from the keys of `order`."""
        scales = self._scales(np.asarray(queries, dtype=np.float64))
        return np.asarray(np.ldexp(np.sqrt(keys), -scales[:, None]))

    def _scales(self, rows: FloatMatrix) -> npt.NDArray[Any]:
        """Binary exponents by which to scale, 0 for ordinary queries."""
        largest = np.maximum(self._largest, np.abs(rows).max(axis=1, initial=0.0))
        exponents = -np.frexp(largest)[1]
        return np.where(np.abs(exponents) < EXTREME, 0, exponents)


def check_points(X: Any) -> npt.NDArray[Any]:
    """Training points as kernels can read them: dense and finite, no 16-bit floats, no foreign byte order."""
    features = check_features(X, "X")
    if features.is_sparse:
        raise TypeError("X is sparse, which this searcher cannot take. Use X.toarray(), or search='exact'.")
    data = np.asanyarray(features.data)  # searchers hold all points in memory
    if data.dtype == np.float16:
        return np.asarray(data, dtype=np.float32)
    return data if data.dtype.isnative else data.astype(data.dtype.newbyteorder("="))


def check_queries(Q: Any, n_columns: int, k: int) -> FloatMatrix:
    """Queries as kernels take them, or an error that says what they should be."""
    whole_number(1)("k", k)
    queries = np.ascontiguousarray(Q, dtype=np.float64)
    if queries.ndim != 2 or queries.shape[1] != n_columns:
        raise ValueError(f"Q must have shape (queries, {n_columns}), as the training points; got {queries.shape}.")
    if not np.isfinite(queries).all():
        raise ValueError("Q holds numbers that are not finite. Drop these queries or fill them in.")
    return queries


def check_share(name: str, value: Any) -> None:
    """A number between 0 and 1, neither included."""
    if not is_real(value) or not 0.0 < value < 1.0:
        raise ValueError(f"{name} must be a number between 0 and 1, such as 0.95; got {value!r}.")


def ordinary_scale(points: npt.NDArray[Any]) -> int:
    """Binary exponent that brings extreme numbers near 1; 0 for ordinary ones, whose squares floats can hold."""
    exponent = -int(np.frexp(max(float(points.max()), -float(points.min())))[1])
    return exponent if abs(exponent) >= EXTREME else 0


def usable_threads(n_threads: int | None) -> int:
    """As given, or all cores that this process may use."""
    if n_threads is not None:
        return n_threads
    import joblib

    return int(joblib.cpu_count())


def _refused(name: str, what: str) -> ValueError:
    return ValueError(f"{name}.search returned {what}. See nearworth.testing.check_searcher to find out why.")


def _refuse_first(name: str, wrong: npt.NDArray[np.bool_], what: str, values: npt.NDArray[Any]) -> None:
    if wrong.any():
        query, place = map(int, np.argwhere(wrong)[0])
        some = ", ".join(map(str, values[query, place : place + 2].tolist()))
        raise _refused(name, f"{what} for query {query} of its batch, at place {place} ({some})")


@compiled
def _measure(queries, points, indices, keys):
    for q in range(queries.shape[0]):
        some_rows(queries[q], points, np.maximum(indices[q], 0), keys[q])
        for j in range(indices.shape[1]):
            if indices[q, j] < 0:
                keys[q, j] = np.inf


@compiled
def _sort_rows(keys, indices):
    for q in range(keys.shape[0]):
        sort_pairs(keys[q], indices[q])


@compiled
def sort_pairs(keys, indices):
    """Sort both by key, then index, in place: a Shell sort, because most rows arrive nearly in order."""
    count, gap = keys.shape[0], 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            key, index, j = keys[i], indices[i], i
            while j >= gap and (keys[j - gap] > key or (keys[j - gap] == key and indices[j - gap] > index)):
                keys[j], indices[j] = keys[j - gap], indices[j - gap]
                j -= gap
            keys[j], indices[j] = key, index
        gap //= 3
