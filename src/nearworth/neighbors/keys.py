"""Rank keys: what they are, and those of every metric but the angles in `cosine.py`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolVector, FloatMatrix, FloatVector, IntMatrix
from nearworth.inputs.features import is_sparse
from nearworth.inputs.file_rows import FileRows
from nearworth.inputs.parameters import did_you_mean
from nearworth.neighbors.distances import (
    EXTREME,
    Converted,
    ExactDistances,
    Rows,
    blocks,
    distances_of_lists,
    first_duplicates,
    largest_magnitude,
    minus_inner_products,
    readable,
    scaled,
    sparse_distances,
    squared_distances,
    streamed,
)
from nearworth.neighbors.quantised import DistanceProducts, ExactKeys, InnerProducts, Products, scale_queries
from nearworth.neighbors.searchers import Neighbours

Stored: TypeAlias = npt.NDArray[Any] | FileRows
TINY = 2.0**-430
TOP = 480  # binary exponent of the largest number after scaling; 2**60 such squares can be added

EUCLIDEAN = ("euclidean", "l2", "sqeuclidean")
MANHATTAN = ("manhattan", "l1", "cityblock")
INNER = "inner_product"
BOOLEAN = ("dice", "jaccard", "rogerstanimoto", "russellrao", "sokalmichener", "sokalsneath", "yule")
WITHOUT_PARAMETERS = (*EUCLIDEAN, INNER, "cosine", "correlation", "nan_euclidean")
SCALES = {"seuclidean": "{'V': X.var(axis=0, ddof=1)}", "mahalanobis": "{'VI': np.linalg.inv(np.cov(X.T))}"}
SPARSE = (*EUCLIDEAN, *MANHATTAN, "cosine")


def make_keys(X: Any, metric: Any, metric_params: Mapping[str, Any] | None) -> Keys:
    """The keys of a metric on a checked training matrix (None where the user brings distances)."""
    params = dict(metric_params or {})
    if metric == "precomputed":
        return GivenKeys()
    _check_metric(metric, params, sparse=is_sparse(X))
    if metric in EUCLIDEAN:
        return EuclideanKeys(X, is_squared=metric == "sqeuclidean")
    if metric in ("cosine", "correlation"):
        from nearworth.neighbors.cosine import CosineKeys

        return CosineKeys(X, centred=metric == "correlation")
    if is_sparse(X):
        return SparseManhattanKeys(X)
    if metric == INNER:
        return InnerProductKeys(X)
    if metric == "nan_euclidean":
        return NanEuclideanKeys(X)
    return PairwiseKeys(X, metric, params)


def _check_metric(metric: Any, params: Mapping[str, Any], *, sparse: bool) -> None:
    if metric in WITHOUT_PARAMETERS:
        if params:
            raise ValueError(f"metric_params={dict(params)!r} has no meaning for metric={metric!r}, which takes none.")
    elif not callable(metric):
        from sklearn.neighbors import VALID_METRICS

        known = sorted({*VALID_METRICS["brute"], *WITHOUT_PARAMETERS, *BOOLEAN, "precomputed"})
        if metric not in known:
            raise ValueError(f"metric={metric!r} is not known. {did_you_mean(metric, known)}")
        if metric in SCALES and not params.keys() & {"V", "VI"}:  # scipy would take one from each batch of queries
            raise ValueError(f"metric={metric!r} needs a scale, such as metric_params={SCALES[metric]}.")
    if sparse and metric not in SPARSE:
        allowed = ", ".join(map(repr, SPARSE))
        raise ValueError(f"metric={metric!r} does not work on sparse data. Use one of {allowed}, or X.toarray().")


class Keys:
    """Rank keys of a metric: `keys(queries)` gives a number for each query and training point, (Q, N) in C order.

    Smaller is nearer, equal is a tie. A key need not be a distance: any increasing function of it ranks alike, and the
    keys of one query may be scaled as it suits that query. The keys of a query depend on it and on the training set
    alone: to the bit the same whatever else is in its batch, and whether the numbers are stored dense or sparse, in
    memory or in a file, in 32 bits or in 64.

    Where `has_products`, a matrix product gives approximate keys much faster (quantised.py). They never decide: points
    that they cannot tell apart are compared by exact keys of the pair, which rank as those of `keys(queries)`.
    """

    has_products = False
    uses_blas = False  # for exact keys; products are our own
    data: Any = None  # dense training rows, if nearest neighbours are those of a searcher: by Euclidean distance

    def __init__(self, points: Any = None) -> None:
        self._points = points  # training rows as they are compared; None if queries are distances

    def __call__(self, queries: Any) -> FloatMatrix:
        """Exact keys of a batch of queries."""
        raise NotImplementedError

    def as_distances(self, keys: FloatMatrix, queries: Any) -> FloatMatrix:  # noqa: ARG002
        """Distances of the metric, from exact keys of these queries."""
        return keys

    def products(self, *, single: bool) -> Products:
        """Approximate keys; in single precision if `single` and it serves."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Numbers in a dense query, of which a few copies are made; 0 for others."""
        return 0 if self._points is None or is_sparse(self._points) else int(self._points.shape[1])

    @property
    def streamed(self) -> bool:
        """Whether every pass over the training points reads a file."""
        return streamed(self._points)

    @property
    def converted(self) -> bool:
        """Whether every pass over the training points converts them."""
        return isinstance(self._points, Converted)


class GivenKeys(Keys):
    """Distances that the user brings: one row per validation point, one column per training point."""

    def __call__(self, queries: Any) -> FloatMatrix:
        return np.array(queries, dtype=np.float64, order="C")


class EuclideanKeys(Keys):
    """Squared distances from differences, to the bit the same of dense and of sparse rows.

    Differences below 1e-154 vanish when they are squared. A difference of two floats is 0 or at least about 2**-53 of
    the larger of them, so this happens only between numbers below TINY, and matters only where training rows differ in
    such numbers alone. If there are such rows, all differences are scaled, for queries not larger than the training
    points. They are still told apart if they are 1e-289 times the largest number of the training set.
    """

    def __init__(self, X: Any, *, is_squared: bool = False) -> None:
        super().__init__(readable(X))
        self.is_squared = is_squared  # the distances that users mean
        self._largest, has_tiny = _magnitudes(X)
        self.exponent = int(np.frexp(self._largest)[1])  # of the largest number
        self._factor = 1.0  # a power of two
        if has_tiny:
            rounded = _without_tiny(X) if is_sparse(X) else Converted(X, _without_tiny)
            if (first_duplicates(X) != first_duplicates(rounded)).any():
                self._factor = 2.0 ** (TOP - max(self.exponent, int(np.frexp(TINY)[1])))
        if not is_sparse(X):
            self.data = X
            self.has_products = TINY <= self._largest < 2.0**EXTREME

    def __call__(self, queries: Any) -> FloatMatrix:
        rows = queries if is_sparse(queries) else np.ascontiguousarray(queries, dtype=np.float64)
        keys, small = squared_distances(rows, self._points), self._small(rows)
        if small.any():
            keys[small] = squared_distances(rows[small] * self._factor, scaled(self._points, self._factor))
        return keys

    def listed(self, queries: Any, rows: IntMatrix) -> FloatMatrix:
        """Keys of each query and its own list of training points, infinity for -1; the same as those of all pairs."""
        queries = np.ascontiguousarray(queries, dtype=np.float64)
        keys, small = distances_of_lists(queries, self._points, rows), self._small(queries)
        if small.any():
            points = scaled(self._points, self._factor)
            keys[small] = distances_of_lists(queries[small] * self._factor, points, rows[small])
        return keys

    def order(self, queries: Any, rows: IntMatrix) -> Neighbours:
        """Points that were found for each query, nearest first, equal ones by index."""
        keys = self.listed(queries, rows)
        order = np.argsort(keys, axis=1)
        ordered = np.take_along_axis(keys, order, axis=1)
        tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if len(tied):  # rare, and the slower of the two sorts
            order[tied] = np.lexsort((rows[tied], keys[tied]), axis=1)
        return Neighbours(np.take_along_axis(rows, order, axis=1).astype(np.intp), ordered)

    def as_distances(self, keys: FloatMatrix, queries: Any) -> FloatMatrix:
        distances = np.sqrt(keys) / np.where(self._small(queries), self._factor, 1.0)[:, None]
        return distances**2 if self.is_squared else distances

    def products(self, *, single: bool) -> Products:
        exact = ExactDistances if self._factor == 1.0 else self._exact
        return DistanceProducts(self._points, lambda rows: (rows, np.ones(len(rows), bool)), single=single, exact=exact)

    def _exact(self, query: FloatVector, points: Rows) -> ExactKeys:
        if not self._small(query[None])[0]:
            return ExactDistances(query, points)
        return ExactDistances(query * self._factor, scaled(points, self._factor))

    def _small(self, queries: Any) -> BoolVector:
        """Queries whose differences are scaled."""
        if self._factor == 1.0:
            return np.zeros(queries.shape[0], dtype=bool)
        largest = abs(queries).max(axis=1)
        return np.asarray(largest.toarray().ravel() if is_sparse(queries) else largest) <= self._largest


def _magnitudes(X: Any) -> tuple[float, bool]:
    """The largest magnitude, and whether there are tiny numbers other than 0."""
    if X.dtype.kind != "f" or X.dtype.itemsize < 8:
        return largest_magnitude(X), False
    largest, has_tiny = 0.0, False
    for _, rows in blocks(X):
        sizes = np.abs(rows.data if is_sparse(rows) else rows)
        largest = max(largest, float(np.fmax.reduce(sizes, axis=None, initial=0.0)))
        has_tiny |= bool(((sizes > 0.0) & (sizes < TINY)).any())
    return largest, has_tiny


def _without_tiny(rows: Any) -> Any:
    return rows * (abs(rows) >= TINY)


class SparseManhattanKeys(Keys):
    """Sums of absolute differences of sparse rows."""

    def __call__(self, queries: Any) -> FloatMatrix:
        return sparse_distances(queries, self._points, 1)


class NanEuclideanKeys(Keys):
    """scikit-learn's nan_euclidean: squared differences where both are present, scaled up for the absent ones."""

    def __init__(self, X: Stored) -> None:
        super().__init__(readable(X))
        self._largest, self._has_tiny = _magnitudes(X)

    def __call__(self, queries: Any) -> FloatMatrix:
        queries = np.asarray(queries, dtype=np.float64)
        keys = np.empty((len(queries), len(self._points)))
        exponents = np.zeros(len(queries), dtype=np.int32)
        if self._has_tiny:  # columns may be left out of a comparison, so any query may need scaled differences
            exponents = TOP - np.frexp(np.fmax(self._largest, np.fmax.reduce(np.abs(queries), axis=1)))[1]
        for start, rows in blocks(self._points):
            for key, query, exponent in zip(keys, queries, exponents, strict=True):
                differences = rows - query
                squares = (np.ldexp(differences, exponent) if exponent else differences) ** 2
                present = np.count_nonzero(~np.isnan(squares), axis=1)
                with np.errstate(invalid="ignore"):
                    share = squares.shape[1] / np.where(present, present, np.nan)
                    key[start : start + len(rows)] = np.nansum(squares, axis=1) * share
        return _refuse_undefined(keys, "nan_euclidean")

    def as_distances(self, keys: FloatMatrix, queries: Any) -> FloatMatrix:  # noqa: ARG002
        if self._has_tiny:
            raise ValueError("metric='nan_euclidean' has no distances for numbers below 1e-129. Rescale the features.")
        return np.sqrt(keys)


class InnerProductKeys(Keys):
    """Minus the inner product: the most similar point is the nearest."""

    has_products = True

    def __init__(self, X: Stored) -> None:
        super().__init__(readable(X))
        self._exponent = int(np.frexp(largest_magnitude(X))[1])

    def __call__(self, queries: Any) -> FloatMatrix:
        rows, _ = scale_queries(np.asarray(queries, dtype=np.float64), self._exponent)
        return minus_inner_products(rows, self._points)

    def as_distances(self, keys: FloatMatrix, queries: Any) -> FloatMatrix:  # noqa: ARG002
        raise ValueError("metric='inner_product' has no distances, which radius and weights need. Use 'cosine'.")

    def products(self, *, single: bool) -> Products:  # noqa: ARG002 - single precision would not serve here
        return InnerProducts(self._points, self._exponent)


class PairwiseKeys(Keys):
    """Any other metric, through scikit-learn."""

    uses_blas = True

    def __init__(self, X: Stored, metric: Any, params: dict[str, Any]) -> None:
        self._metric = metric
        super().__init__(Converted(X, partial(self._convert, name="X")))
        self._params = params
        if metric in BOOLEAN:
            for _ in blocks(self._points):  # all other numbers are refused here
                pass
        self(self._points[:1])  # a metric that cannot work should say so in fit

    def __call__(self, queries: Any) -> FloatMatrix:
        from sklearn.metrics import pairwise_distances

        rows = self._convert(queries, "X_val")
        keys = np.empty((len(rows), len(self._points)))
        try:
            for start, points in blocks(self._points):
                some = pairwise_distances(rows, points, metric=self._metric, **self._params)
                keys[:, start : start + len(points)] = some
        except (TypeError, ValueError) as error:
            reason = str(error).splitlines()[0][:200]
            raise ValueError(f"metric={self._metric!r} does not work on these data: {reason}") from error
        return _refuse_undefined(keys, self._metric)

    def _convert(self, X: Any, name: str) -> npt.NDArray[Any]:
        if self._metric not in BOOLEAN:
            return np.ascontiguousarray(X, dtype=np.float64)
        rows = np.asarray(X)
        if rows.dtype != bool and not np.isin(rows, (0, 1)).all():
            raise ValueError(
                f"metric={self._metric!r} compares truths, but {name} holds other numbers than 0 and 1. "
                f"Use {name} != 0."
            )
        return np.ascontiguousarray(rows, dtype=bool)


def _refuse_undefined(keys: FloatMatrix, metric: Any) -> FloatMatrix:
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
