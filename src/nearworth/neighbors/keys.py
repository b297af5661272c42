"""What rank keys are, and those of distances and inner products."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

from nearworth._common.types import FloatMatrix
from nearworth.inputs.file_rows import FileRows
from nearworth.neighbors.distances import minus_inner_products, sparse_distances, squared_distances
from nearworth.neighbors.products import DistanceProducts, InnerProducts, Products, scale_queries
from nearworth.neighbors.rows import blocks, readable, scaled, streamed
from nearworth.neighbors.underflow import TINY, Underflow

Stored: TypeAlias = npt.NDArray[Any] | FileRows
EXTREME = 300  # binary exponents whose squares come near the limits of floats


class Keys:
    """Rank keys of a metric: `keys(queries)` gives one number for each query and training point, (Q, N).

    Smaller is nearer, equal is a tie. A key need not be a distance: any increasing function of it ranks alike, and the
    keys of one query may be scaled as it suits that query. The keys of a query depend on it and on the training set
    alone: to the bit the same whatever else is in its batch, and whether the numbers are stored dense or sparse, in
    memory or in a file, in 32 bits or in 64.

    Where `has_products`, a matrix product gives approximate keys much faster (`products.py`). They never decide: points
    that they cannot tell apart are compared by exact keys of the pair, which rank as those of `keys(queries)`.
    """

    has_products = False

    def __init__(self, points: Any = None) -> None:
        self._points = points  # training rows as they are compared; None if queries are distances

    def __call__(self, queries: Any) -> FloatMatrix:
        """Exact keys of a batch of queries."""
        raise NotImplementedError

    def products(self, *, single: bool) -> Products:
        """Approximate keys; from a copy of the training points in single precision if `single` and it serves."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Numbers in a dense query, of which a few copies are made; 0 for others."""
        return 0 if self._points is None or scipy.sparse.issparse(self._points) else int(self._points.shape[1])

    @property
    def streamed(self) -> bool:
        """Whether every pass over the training points reads a file."""
        return streamed(self._points)


class GivenKeys(Keys):
    """Distances that the user brings: one row per validation point, one column per training point."""

    def __call__(self, queries: Any) -> FloatMatrix:
        return np.array(queries, dtype=np.float64)


class EuclideanKeys(Keys):
    """Squared distances from differences, of dense rows."""

    def __init__(self, X: Stored) -> None:
        super().__init__(readable(X))
        self.data = X
        self._underflow = Underflow(X)
        self.has_products = TINY <= self._underflow.largest < 2.0**EXTREME

    def __call__(self, queries: Any) -> FloatMatrix:
        return _squared_keys(np.ascontiguousarray(queries, dtype=np.float64), self._points, self._underflow)

    def scales(self, queries: FloatMatrix) -> npt.NDArray[np.int32]:
        """Binary exponents by which each query and the points are scaled before squaring, nearly always 0."""
        return self._underflow.exponents(queries)

    def products(self, *, single: bool) -> Products:
        return DistanceProducts(self._points, self._underflow, single=single)


class SparseEuclideanKeys(Keys):
    """The same bits from sparse rows."""

    def __init__(self, X: scipy.sparse.csr_array) -> None:
        super().__init__(X)
        self._underflow = Underflow(X)

    def __call__(self, queries: Any) -> FloatMatrix:
        return _squared_keys(queries, self._points, self._underflow)


class SparseManhattanKeys(Keys):
    """Sums of absolute differences of sparse rows."""

    def __call__(self, queries: Any) -> FloatMatrix:
        return sparse_distances(queries, self._points, 1)


class NanEuclideanKeys(Keys):
    """scikit-learn's nan_euclidean: squared differences where both are present, scaled up for the absent ones."""

    def __init__(self, X: Stored) -> None:
        super().__init__(readable(X))
        self._underflow = Underflow(X, missing=True)

    def __call__(self, queries: Any) -> FloatMatrix:
        queries = np.asarray(queries, dtype=np.float64)
        keys = np.empty((len(queries), len(self._points)))
        exponents = self._underflow.exponents(queries)
        for start, rows in blocks(self._points):
            for key, query, exponent in zip(keys, queries, exponents, strict=True):
                differences = rows - query
                squares = (np.ldexp(differences, exponent) if exponent else differences) ** 2
                present = np.count_nonzero(~np.isnan(squares), axis=1)
                with np.errstate(invalid="ignore"):
                    share = squares.shape[1] / np.where(present, present, np.nan)
                    key[start : start + len(rows)] = np.nansum(squares, axis=1) * share
        return refuse_undefined(keys, "nan_euclidean")


class InnerProductKeys(Keys):
    """Minus the inner product: the most similar point is the nearest."""

    has_products = True

    def __init__(self, X: Stored) -> None:
        super().__init__(readable(X))
        self._exponent = int(np.frexp(max(float(X.max()), -float(X.min())))[1])

    def __call__(self, queries: Any) -> FloatMatrix:
        rows, _ = scale_queries(np.asarray(queries, dtype=np.float64), self._exponent)
        return minus_inner_products(rows, self._points)

    def products(self, *, single: bool) -> Products:  # noqa: ARG002 - single precision would not serve here
        return InnerProducts(self._points, self._exponent)


def _squared_keys(queries: Any, points: Any, underflow: Underflow) -> FloatMatrix:
    exponents = underflow.exponents(queries)
    if not exponents.any():
        return squared_distances(queries, points)
    keys = np.empty((queries.shape[0], points.shape[0]))
    for exponent in np.unique(exponents).tolist():
        some = exponents == exponent
        keys[some] = squared_distances(scaled(queries[some], exponent)[:], scaled(points, exponent))
    return keys


def refuse_undefined(keys: FloatMatrix, metric: Any) -> FloatMatrix:
    """NaN ranks nowhere; infinity from a named metric is an overflow that would tie what is not tied."""
    strange = np.isnan(keys) if callable(metric) else ~np.isfinite(keys)
    if strange.any():
        query, point = map(int, np.argwhere(strange)[0])
        found = "NaN" if np.isnan(keys[query, point]) else "infinity"
        raise ValueError(
            f"metric={metric!r} gives {found}, for example between training row {point} and query {query} of its "
            "batch. Such points cannot be ranked: change the metric, rescale the features or drop these rows."
        )
    return keys
