"""Rank keys of every metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse

from nearworth._typing import FloatMatrix, FloatVector
from nearworth._validation.parameters import did_you_mean
from nearworth.neighbors.distances import squared_distances
from nearworth.neighbors.products import Products
from nearworth.neighbors.sparse import sparse_distances

EUCLIDEAN = ("euclidean", "l2", "sqeuclidean")
MANHATTAN = ("manhattan", "l1", "cityblock")
BOOLEAN = ("dice", "jaccard", "rogerstanimoto", "russellrao", "sokalmichener", "sokalsneath", "yule")
EXTREME = 300  # binary exponents whose squares come near the limits of floats
WITHOUT_PARAMETERS = (*EUCLIDEAN, "cosine", "correlation", "nan_euclidean")


class Keys(Protocol):
    """Knows the training points; turns a batch of queries into keys of shape (queries, training points)."""

    def __call__(self, queries: Any) -> FloatMatrix:
        """Smaller is nearer, equal is tied."""
        ...


def make_keys(X: Any, metric: Any, metric_params: Mapping[str, Any] | None) -> Keys:
    """The keys of a metric on a checked training matrix (None where the user brings distances)."""
    params = dict(metric_params or {})
    if metric == "precomputed":
        return GivenKeys()
    _check_metric(metric, params)
    if metric == "cosine":
        return CosineKeys(X)
    if scipy.sparse.issparse(X):
        return SparseKeys(X, metric)
    if metric in EUCLIDEAN:
        return EuclideanKeys(X)
    if metric == "nan_euclidean":
        return NanEuclideanKeys(X)
    if metric == "correlation":
        return CosineKeys(X, centred=True)
    return PairwiseKeys(X, metric, params)


def _check_metric(metric: Any, params: Mapping[str, Any]) -> None:
    if callable(metric):
        return
    from sklearn.neighbors import VALID_METRICS

    known = sorted({*VALID_METRICS["brute"], *EUCLIDEAN, *BOOLEAN, "precomputed"})
    if metric not in known:
        raise ValueError(f"metric={metric!r} is not known. {did_you_mean(metric, known)}")
    if params and metric in WITHOUT_PARAMETERS:
        raise ValueError(f"metric_params={dict(params)!r} has no meaning for metric={metric!r}, which takes none.")


class GivenKeys:
    """Distances that the user brings: one row per validation point, one column per training point."""

    def __call__(self, queries: Any) -> FloatMatrix:
        return np.array(queries, dtype=np.float64)


class EuclideanKeys:
    """Squared distances from differences."""

    def __init__(self, X: npt.NDArray[Any]) -> None:
        if X.dtype == np.float16:  # fits into 32 bits, which kernels read
            X = np.asarray(X, dtype=np.float32)
        self._points = X if X.dtype.isnative else X.astype(X.dtype.newbyteorder("="))
        self._largest = max(float(X.max()), -float(X.min()))

    @property
    def has_products(self) -> bool:
        """Whether squares of these numbers are at home in floats."""
        return abs(int(np.frexp(self._largest)[1])) < EXTREME

    @property
    def product_bytes(self) -> int | None:
        """What rough distances would keep beside the data, a 32-bit copy and some norms; None if there are none."""
        return 4 * self._points.size + 40 * len(self._points) if self.has_products else None

    def products(self) -> Products | None:
        """Rough distances for many queries, unless the numbers are so extreme that they would have to be scaled."""
        return Products(self._points) if self.has_products else None

    def __call__(self, queries: Any) -> FloatMatrix:
        rows = np.ascontiguousarray(queries, dtype=np.float64)
        # Tiny numbers would vanish when squared. A power of two changes no rounding and no rank.
        exponents = -np.frexp(np.maximum(self._largest, np.abs(rows).max(axis=1)))[1]
        if (np.abs(exponents) < EXTREME).all():
            return squared_distances(rows, self._points)
        keys = np.empty((len(rows), len(self._points)))
        for exponent in np.unique(exponents):
            some = exponents == exponent
            points = np.ldexp(self._points.astype(np.float64), exponent)
            keys[some] = squared_distances(np.ldexp(rows[some], exponent), points)
        return keys


class NanEuclideanKeys:
    """scikit-learn's nan_euclidean: squared differences where both are present, scaled up for the absent ones."""

    def __init__(self, X: npt.NDArray[Any]) -> None:
        self._points = np.ascontiguousarray(X, dtype=np.float64)

    def __call__(self, queries: Any) -> FloatMatrix:
        keys = np.empty((len(queries), len(self._points)))
        for row, query in zip(keys, np.asarray(queries, dtype=np.float64), strict=True):
            squares = (self._points - query) ** 2
            present = np.count_nonzero(~np.isnan(squares), axis=1)
            with np.errstate(invalid="ignore"):
                row[:] = np.nansum(squares, axis=1) * (squares.shape[1] / np.where(present, present, np.nan))
        return _refuse_undefined(keys, "nan_euclidean")


class CosineKeys:
    """Squared distances between directions: twice the cosine distance, without its cancellation. Dense or sparse.

    Whole numbers (counts) often have equal cosines, which rounded directions would tell apart. Where all products
    are exact, the key is minus the signed square of the cosine instead: one division, and equal fractions round alike.
    """

    def __init__(self, X: Any, *, centred: bool = False) -> None:
        self._centred = centred
        rows = self._prepare(X)
        self._directions, self._nowhere = _directions(rows, centred)
        self._rows = rows if _whole_rows(rows).all() else None
        self._squares = _row_squares(rows)

    def __call__(self, queries: Any) -> FloatMatrix:
        rows = self._prepare(queries)
        directions, nowhere = _directions(rows, self._centred)
        if scipy.sparse.issparse(rows):
            keys = sparse_distances(directions, self._directions, 2)
        else:
            keys = squared_distances(directions, self._directions)
        keys[:, self._nowhere] = 2.0  # a point without direction is at cosine distance 1 of everything
        keys[nowhere, :] = 2.0
        exact = self._exactly_comparable(rows)
        if exact.any():
            keys[exact] = self._fractions(rows[exact])
        return keys

    def _prepare(self, X: Any) -> Any:
        """Rows scaled by powers of two, which rounds nothing, and centred without a division if asked for."""
        if scipy.sparse.issparse(X):
            return X
        rows = np.array(X, dtype=np.float64, order="C")
        if not _whole_rows(rows).all():
            rows = np.ldexp(rows, -np.frexp(np.abs(rows).max(axis=1, keepdims=True))[1])
        return rows * rows.shape[1] - rows.sum(axis=1, keepdims=True) if self._centred else rows

    def _exactly_comparable(self, rows: Any) -> npt.NDArray[np.bool_]:
        """Queries whose cosines with all training rows are fractions of whole numbers that floats can tell apart."""
        if self._rows is None:
            return np.zeros(rows.shape[0], dtype=bool)
        with np.errstate(over="ignore"):
            return np.asarray(_whole_rows(rows) & (self._squares.max() ** 2 * _row_squares(rows) < 2.0**52))

    def _fractions(self, rows: Any) -> FloatMatrix:
        assert self._rows is not None
        products = rows @ self._rows.T
        dots = products.toarray() if scipy.sparse.issparse(products) else products
        return np.asarray(-dots * np.abs(dots) / np.where(self._squares > 0, self._squares, 1.0))


class SparseKeys:
    """Euclidean and Manhattan keys of sparse rows, from differences."""

    def __init__(self, X: scipy.sparse.csr_array, metric: Any) -> None:
        if metric not in (*EUCLIDEAN, *MANHATTAN):
            allowed = ", ".join(map(repr, (*EUCLIDEAN, *MANHATTAN, "cosine")))
            raise ValueError(f"metric={metric!r} does not work on sparse data. Use one of {allowed}, or X.toarray().")
        self._points = X
        self._power = 1 if metric in MANHATTAN else 2

    def __call__(self, queries: Any) -> FloatMatrix:
        return sparse_distances(queries, self._points, self._power)


class PairwiseKeys:
    """Any other metric, through scikit-learn."""

    def __init__(self, X: npt.NDArray[Any], metric: Any, params: dict[str, Any]) -> None:
        self._metric = metric
        self._points = self._convert(X, "X")
        self._params = params | _scale_of_the_training_set(self._points, metric, params)
        self(self._points[:1])  # a metric that cannot work should say so in fit

    def __call__(self, queries: Any) -> FloatMatrix:
        from sklearn.metrics import pairwise_distances

        rows = self._convert(queries, "X_val")
        try:
            keys = pairwise_distances(rows, self._points, metric=self._metric, **self._params)
        except (TypeError, ValueError) as error:
            reason = str(error).splitlines()[0][:200]
            raise ValueError(f"metric={self._metric!r} does not work on these data: {reason}") from error
        return _refuse_undefined(np.asarray(keys, dtype=np.float64), self._metric)

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


def _scale_of_the_training_set(points: FloatMatrix, metric: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """What scipy would otherwise estimate anew from each batch of queries."""
    if metric not in ("seuclidean", "mahalanobis") or params.keys() & {"V", "VI"}:
        return {}
    if len(points) < 2:
        raise ValueError(f"metric={metric!r} takes its scale from at least 2 training points, or from metric_params.")
    if metric == "seuclidean":
        return {"V": np.var(points, axis=0, ddof=1)}
    try:
        return {"VI": np.linalg.inv(np.atleast_2d(np.cov(points.T))).T}
    except np.linalg.LinAlgError:
        raise ValueError(
            "metric='mahalanobis' cannot invert the covariance of X: some features depend on others. "
            "Drop these, or give metric_params={'VI': ...}."
        ) from None


def _directions(rows: Any, centred: bool) -> tuple[Any, npt.NDArray[np.bool_]]:
    """Rows of length one, and which rows have no direction (for centred rows: nothing but rounding is left)."""
    if scipy.sparse.issparse(rows):
        entries = np.diff(rows.indptr)
        largest = abs(rows).max(axis=1).toarray().ravel()
        scaled = scipy.sparse.csr_array(
            (rows.data / np.repeat(largest, entries), rows.indices, rows.indptr), rows.shape
        )
        length = np.sqrt(_row_squares(scaled))
        data = scaled.data / np.repeat(length, entries)
        return scipy.sparse.csr_array((data, rows.indices, rows.indptr), rows.shape), entries == 0
    largest = np.abs(rows).max(axis=1, keepdims=True)
    noise = 4e-16 * rows.shape[1] ** 2 if centred else 0.0
    nowhere = largest <= noise
    scaled = rows / np.where(nowhere, 1.0, largest)
    length = np.sqrt(_row_squares(scaled))[:, None]
    return scaled / np.where(nowhere, 1.0, length), nowhere[:, 0]


def _row_squares(rows: Any) -> FloatVector:
    with np.errstate(over="ignore"):
        return np.asarray((rows * rows).sum(axis=1)).ravel()


def _whole_rows(rows: Any) -> npt.NDArray[np.bool_]:
    if scipy.sparse.issparse(rows):
        fractional = scipy.sparse.csr_array((rows.data != np.trunc(rows.data), rows.indices, rows.indptr), rows.shape)
        return np.asarray(fractional.sum(axis=1) == 0).ravel()
    return np.asarray((rows == np.trunc(rows)).all(axis=1))


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
