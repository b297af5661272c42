"""Rank keys of every metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.spatial.distance import cdist

from nearworth._typing import FloatMatrix
from nearworth._validation.parameters import did_you_mean

EUCLIDEAN = ("euclidean", "l2", "sqeuclidean")
SPARSE = (*EUCLIDEAN, "cosine", "manhattan", "l1", "cityblock")
BOOLEAN = ("dice", "jaccard", "rogerstanimoto", "russellrao", "sokalmichener", "sokalsneath", "yule")


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
    if scipy.sparse.issparse(X):
        return _sparse_keys(X, metric)
    if metric in EUCLIDEAN or (metric == "nan_euclidean" and not np.isnan(X).any()):
        return EuclideanKeys(X)
    if metric == "nan_euclidean":
        return NanEuclideanKeys(X)
    if metric == "cosine":
        return ProductCosineKeys(X) if _is_whole(X) else CosineKeys(X)
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
    if params and metric in (*EUCLIDEAN, "cosine", "correlation", "nan_euclidean"):
        raise ValueError(f"metric_params={dict(params)!r} has no meaning for metric={metric!r}, which takes none.")


class GivenKeys:
    """Distances that the user brings: one row per validation point, one column per training point."""

    def __call__(self, queries: Any) -> FloatMatrix:
        return np.array(queries, dtype=np.float64)


class EuclideanKeys:
    """Squared distances from differences."""

    def __init__(self, X: npt.NDArray[Any]) -> None:
        self._points = np.ascontiguousarray(X, dtype=np.float64)
        self._largest = _largest(self._points)

    def __call__(self, queries: Any) -> FloatMatrix:
        rows = np.ascontiguousarray(queries, dtype=np.float64)
        # Tiny numbers would vanish when squared. A power of two changes no rounding and no rank.
        exponent = -int(np.frexp(max(self._largest, _largest(rows)))[1])
        if abs(exponent) < 300:
            return _squared_distances(rows, self._points)
        return _squared_distances(np.ldexp(rows, exponent), np.ldexp(self._points, exponent))


class NanEuclideanKeys:
    """scikit-learn's nan_euclidean: squared differences where both are present, scaled up for the absent ones."""

    def __init__(self, X: npt.NDArray[Any]) -> None:
        self._points = np.asarray(X, dtype=np.float64)

    def __call__(self, queries: Any) -> FloatMatrix:
        keys = np.empty((len(queries), len(self._points)))
        for row, query in zip(keys, np.asarray(queries, dtype=np.float64), strict=True):
            squares = (self._points - query) ** 2
            present = np.count_nonzero(~np.isnan(squares), axis=1)
            with np.errstate(invalid="ignore"):
                row[:] = np.nansum(squares, axis=1) * (squares.shape[1] / np.where(present, present, np.nan))
        return _refuse_nan(keys, "nan_euclidean")


class CosineKeys:
    """Squared distances between directions, which is twice the cosine distance without its cancellation."""

    def __init__(self, X: npt.NDArray[Any], *, centred: bool = False) -> None:
        self._centred = centred
        self._directions, self._nowhere = self._direct(X)

    def __call__(self, queries: Any) -> FloatMatrix:
        directions, nowhere = self._direct(queries)
        keys = _squared_distances(directions, self._directions)
        keys[:, self._nowhere] = 2.0  # a point without direction is at cosine distance 1 of everything
        keys[nowhere, :] = 2.0
        return keys

    def _direct(self, X: Any) -> tuple[FloatMatrix, npt.NDArray[np.bool_]]:
        rows = np.array(X, dtype=np.float64)
        largest = np.abs(rows).max(axis=1, keepdims=True)
        rows /= np.where(largest > 0, largest, 1.0)
        if self._centred:
            rows -= rows.mean(axis=1, keepdims=True)
        length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        nowhere = length <= (1e-15 * rows.shape[1] if self._centred else 0.0)
        rows /= np.where(nowhere, 1.0, length)
        return rows, nowhere[:, 0]


class ProductCosineKeys:
    """The square of the cosine with its sign, from products: equal cosines of whole numbers stay equal.

    Products of whole numbers are exact, so only the final division rounds, and equal fractions round alike.
    Rows of zeros have cosine 0 with everything.
    """

    def __init__(self, X: Any) -> None:
        rows = _scaled_rows(X)
        self._columns = rows.T.tocsr() if scipy.sparse.issparse(rows) else np.ascontiguousarray(rows.T)
        squares = np.asarray((rows * rows).sum(axis=1)).ravel()
        self._squares = np.where(squares > 0, squares, 1.0)

    def __call__(self, queries: Any) -> FloatMatrix:
        products = _scaled_rows(queries) @ self._columns
        dots = products.toarray() if scipy.sparse.issparse(products) else products
        return np.asarray(-dots * np.abs(dots) / self._squares)


class PairwiseKeys:
    """Any other metric, through scikit-learn."""

    def __init__(self, X: npt.NDArray[Any], metric: Any, params: dict[str, Any]) -> None:
        self._metric = metric
        self._points = self._convert(X, "X")
        # What scipy would otherwise estimate anew from each batch of queries belongs to the training set.
        if metric == "seuclidean" and "V" not in params:
            params["V"] = np.var(self._points, axis=0, ddof=1)
        if metric == "mahalanobis" and not params.keys() & {"V", "VI"}:
            params["VI"] = np.linalg.inv(np.atleast_2d(np.cov(self._points.T))).T
        self._params = params
        self(self._points[:1])  # a metric that cannot work should say so in fit

    def __call__(self, queries: Any) -> FloatMatrix:
        from sklearn.metrics import pairwise_distances

        rows = self._convert(queries, "X_val")
        try:
            keys = pairwise_distances(rows, self._points, metric=self._metric, **self._params)
        except (TypeError, ValueError) as error:
            raise ValueError(f"metric={self._metric!r} does not work on these data: {error}") from error
        return _refuse_nan(np.asarray(keys, dtype=np.float64), self._metric)

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


def _sparse_keys(X: scipy.sparse.csr_array, metric: Any) -> Keys:
    if metric in EUCLIDEAN:
        return SparseEuclideanKeys(X)
    if metric == "cosine":
        return ProductCosineKeys(X)
    if metric in SPARSE:
        return SparseManhattanKeys(X)
    raise ValueError(
        f"metric={metric!r} does not work on sparse data. Use one of {', '.join(map(repr, SPARSE))}, or X.toarray()."
    )


class SparseEuclideanKeys:
    """|x|^2 - 2 x.t, the one form that stays sparse; exact where the products are, as for counts."""

    def __init__(self, X: scipy.sparse.csr_array) -> None:
        self._columns = X.T.tocsr()
        self._norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()

    def __call__(self, queries: Any) -> FloatMatrix:
        return np.asarray(self._norms - 2.0 * (queries @ self._columns).toarray())


class SparseManhattanKeys:
    """Sums of absolute differences, through scikit-learn."""

    def __init__(self, X: scipy.sparse.csr_array) -> None:
        self._points = X

    def __call__(self, queries: Any) -> FloatMatrix:
        from sklearn.metrics.pairwise import manhattan_distances

        return np.asarray(manhattan_distances(queries, self._points))


def _is_whole(X: npt.NDArray[Any]) -> bool:
    return X.dtype.kind in "biu" or bool((np.trunc(X) == X).all())


def _scaled_rows(X: Any) -> Any:
    """Rows scaled by powers of two to a largest entry of about one: no rounding, no overflow of products."""
    if scipy.sparse.issparse(X):
        exponents = np.frexp(abs(X).max(axis=1).toarray().ravel())[1]
        data = np.ldexp(X.data, -np.repeat(exponents, np.diff(X.indptr)))
        return scipy.sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
    rows = np.asarray(X, dtype=np.float64)
    return np.ldexp(rows, -np.frexp(np.abs(rows).max(axis=1, keepdims=True))[1])


def _squared_distances(queries: FloatMatrix, points: FloatMatrix) -> FloatMatrix:
    """From differences, each pair added up in the same order wherever it stands in its batch."""
    return np.asarray(cdist(queries, points, "sqeuclidean"))


def _largest(rows: npt.NDArray[Any]) -> float:
    return float(max(rows.max(initial=0.0), -rows.min(initial=0.0)))


def _refuse_nan(keys: FloatMatrix, metric: Any) -> FloatMatrix:
    if np.isnan(keys).any():
        query, point = map(int, np.argwhere(np.isnan(keys))[0])
        raise ValueError(
            f"metric={metric!r} gives NaN, for example between training row {point} and query {query} of its batch. "
            "Points without a distance cannot be ranked: change the metric or these rows."
        )
    return keys
