"""Keys of the metrics that scikit-learn computes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix
from nearworth.neighbors.distances import Converted, blocks
from nearworth.neighbors.keys import BOOLEAN, Keys, Stored, refuse_undefined


class PairwiseKeys(Keys):
    """Any other metric, through scikit-learn."""

    def __init__(self, X: Stored, metric: Any, params: dict[str, Any]) -> None:
        self._metric = metric
        super().__init__(Converted(X, partial(self._convert, name="X")))
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
        return refuse_undefined(keys, self._metric)

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
