"""Rank keys of every metric."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

from nearworth._common.types import FloatMatrix
from nearworth.inputs.filerows import FileRows
from nearworth.inputs.parameters import did_you_mean
from nearworth.neighbors.base import Keys, Rough
from nearworth.neighbors.cosine import CosineKeys, SparseCosineKeys
from nearworth.neighbors.distances import squared_distances
from nearworth.neighbors.inner import InnerProducts, minus_inner_products
from nearworth.neighbors.products import Products
from nearworth.neighbors.rows import Converted, Rows, blocks, readable, streamed
from nearworth.neighbors.sparse import sparse_distances

EUCLIDEAN = ("euclidean", "l2", "sqeuclidean")
MANHATTAN = ("manhattan", "l1", "cityblock")
BOOLEAN = ("dice", "jaccard", "rogerstanimoto", "russellrao", "sokalmichener", "sokalsneath", "yule")
EXTREME = 300  # binary exponents whose squares come near the limits of floats
Stored: TypeAlias = npt.NDArray[Any] | FileRows
INNER = "inner_product"
WITHOUT_PARAMETERS = (*EUCLIDEAN, INNER, "cosine", "correlation", "nan_euclidean")


def make_keys(X: Any, metric: Any, metric_params: Mapping[str, Any] | None) -> Keys:
    """The keys of a metric on a checked training matrix (None where the user brings distances)."""
    params = dict(metric_params or {})
    if metric == "precomputed":
        return GivenKeys()
    _check_metric(metric, params)
    if metric == "cosine":
        return SparseCosineKeys(X) if scipy.sparse.issparse(X) else CosineKeys(X)
    if scipy.sparse.issparse(X):
        return SparseKeys(X, metric)
    if metric in EUCLIDEAN:
        return EuclideanKeys(X)
    if metric == INNER:
        return InnerProductKeys(X)
    if metric == "nan_euclidean":
        return NanEuclideanKeys(X)
    if metric == "correlation":
        return CosineKeys(X, centred=True)
    return PairwiseKeys(X, metric, params)


def _check_metric(metric: Any, params: Mapping[str, Any]) -> None:
    if callable(metric):
        return
    from sklearn.neighbors import VALID_METRICS

    known = sorted({*VALID_METRICS["brute"], *EUCLIDEAN, *BOOLEAN, INNER, "precomputed"})
    if metric not in known:
        raise ValueError(f"metric={metric!r} is not known. {did_you_mean(metric, known)}")
    if params and metric in WITHOUT_PARAMETERS:
        raise ValueError(f"metric_params={dict(params)!r} has no meaning for metric={metric!r}, which takes none.")


class GivenKeys(Keys):
    """Distances that the user brings: one row per validation point, one column per training point."""

    def __call__(self, queries: Any) -> FloatMatrix:
        return np.array(queries, dtype=np.float64)


class EuclideanKeys(Keys):
    """Squared distances from differences."""

    def __init__(self, X: Stored) -> None:
        self.data = X
        self._points = readable(X)
        self._largest = max(float(X.max()), -float(X.min()))

    @property
    def width(self) -> int:
        return int(self._points.shape[1])

    @property
    def streamed(self) -> bool:
        return streamed(self._points)

    @property
    def has_products(self) -> bool:
        return abs(int(np.frexp(self._largest)[1])) < EXTREME  # else squares would have to be scaled

    def products(self, *, narrow: bool) -> Rough:
        return Products(self._points, narrow=narrow)

    def __call__(self, queries: Any) -> FloatMatrix:
        rows = np.ascontiguousarray(queries, dtype=np.float64)
        scales = self.scales(rows)
        if not scales.any():
            return squared_distances(rows, self._points)
        keys = np.empty((len(rows), len(self._points)))
        for scale in np.unique(scales):
            some = scales == scale
            keys[some] = squared_distances(np.ldexp(rows[some], scale), _scaled(self._points, int(scale)))
        return keys

    def scales(self, queries: FloatMatrix) -> npt.NDArray[Any]:
        """Binary exponents by which queries and points are scaled before squaring, 0 for all but extreme numbers.

        Tiny numbers would vanish when squared, huge ones overflow. A power of two changes no rounding and no rank.
        """
        exponents = -np.frexp(np.maximum(self._largest, np.abs(queries).max(axis=1, initial=0.0)))[1]
        return np.where(np.abs(exponents) < EXTREME, 0, exponents)


def _scaled(points: Rows, exponent: int) -> Converted:
    return Converted(points, lambda rows: np.ldexp(rows.astype(np.float64), exponent))


class InnerProductKeys(Keys):
    """Minus the inner product: the most similar point is the nearest."""

    def __init__(self, X: Stored) -> None:
        self._points = readable(X)

    @property
    def width(self) -> int:
        return int(self._points.shape[1])

    @property
    def streamed(self) -> bool:
        return streamed(self._points)

    @property
    def has_products(self) -> bool:
        return True

    def products(self, *, narrow: bool) -> Rough:  # noqa: ARG002 - there is no such copy here
        return InnerProducts(self._points)

    def __call__(self, queries: Any) -> FloatMatrix:
        return _refuse_undefined(minus_inner_products(np.asarray(queries, dtype=np.float64), self._points), INNER)


class NanEuclideanKeys(Keys):
    """scikit-learn's nan_euclidean: squared differences where both are present, scaled up for the absent ones."""

    def __init__(self, X: Stored) -> None:
        self._points = readable(X)

    @property
    def width(self) -> int:
        return int(self._points.shape[1])

    @property
    def streamed(self) -> bool:
        return streamed(self._points)

    def __call__(self, queries: Any) -> FloatMatrix:
        keys = np.empty((len(queries), len(self._points)))
        for start, rows in blocks(self._points):
            for key, query in zip(keys, np.asarray(queries, dtype=np.float64), strict=True):
                squares = (rows - query) ** 2
                present = np.count_nonzero(~np.isnan(squares), axis=1)
                with np.errstate(invalid="ignore"):
                    share = squares.shape[1] / np.where(present, present, np.nan)
                    key[start : start + len(rows)] = np.nansum(squares, axis=1) * share
        return _refuse_undefined(keys, "nan_euclidean")


class SparseKeys(Keys):
    """Euclidean and Manhattan keys of sparse rows, from differences."""

    def __init__(self, X: scipy.sparse.csr_array, metric: Any) -> None:
        if metric not in (*EUCLIDEAN, *MANHATTAN):
            allowed = ", ".join(map(repr, (*EUCLIDEAN, *MANHATTAN, "cosine")))
            raise ValueError(f"metric={metric!r} does not work on sparse data. Use one of {allowed}, or X.toarray().")
        self._points = X
        self._power = 1 if metric in MANHATTAN else 2

    def __call__(self, queries: Any) -> FloatMatrix:
        return sparse_distances(queries, self._points, self._power)


class PairwiseKeys(Keys):
    """Any other metric, through scikit-learn."""

    def __init__(self, X: Stored, metric: Any, params: dict[str, Any]) -> None:
        self._metric = metric
        self._points = Converted(X, partial(self._convert, name="X"))
        self._params = params | _scale_of_the_training_set(self._points, metric, params)
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

    @property
    def width(self) -> int:
        return int(self._points.shape[1])

    @property
    def streamed(self) -> bool:
        return streamed(self._points)

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


def _scale_of_the_training_set(points: Converted, metric: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """What scipy would otherwise estimate anew from each batch of queries."""
    if metric not in ("seuclidean", "mahalanobis") or params.keys() & {"V", "VI"}:
        return {}
    if len(points) < 2:
        raise ValueError(f"metric={metric!r} takes its scale from at least 2 training points, or from metric_params.")
    if metric == "seuclidean":
        return {"V": np.diag(_covariance(points)).copy()}
    try:
        return {"VI": np.linalg.inv(_covariance(points)).T}
    except np.linalg.LinAlgError:
        raise ValueError(
            "metric='mahalanobis' cannot invert the covariance of X: some features depend on others. "
            "Drop these, or give metric_params={'VI': ...}."
        ) from None


def _covariance(points: Converted) -> FloatMatrix:
    """Of all columns with each other, some rows at a time."""
    mean, total = np.zeros(points.shape[1]), np.zeros(2 * (points.shape[1],))
    for _, rows in blocks(points):
        mean += rows.sum(axis=0) / len(points)
    for _, rows in blocks(points):
        total += (rows - mean).T @ (rows - mean)
    return total / (len(points) - 1)


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
