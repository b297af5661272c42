"""Metrics rank as scikit-learn's do."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

import nearworth as nw


@pytest.fixture
def data(rng):
    return (
        rng.normal(size=(300, 4)),
        rng.integers(0, 3, 300),
        rng.normal(size=(40, 4)),
        rng.integers(0, 3, 40),
    )


METRICS = {
    "manhattan": {},
    "l1": {},
    "cityblock": {},
    "chebyshev": {},
    "canberra": {},
    "braycurtis": {},
    "minkowski": {"p": 3},
    "cosine": {},
    "correlation": {},
    "euclidean": {},
    "l2": {},
    "sqeuclidean": {},
    "hamming": {},
    "nan_euclidean": {},
}


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_rank_as_scikit_learn_does(data, metric):
    X, y, X_val, y_val = data
    params = METRICS[metric]
    D = pairwise_distances(X_val, X, metric=metric, **params)
    expected = nw.knn_shapley(None, y, D, y_val, metric="precomputed")
    values = nw.knn_shapley(X, y, X_val, y_val, metric=metric, metric_params=params or None)
    np.testing.assert_allclose(values, expected, atol=1e-15)


@pytest.mark.parametrize("metric", ["seuclidean", "mahalanobis"])
def test_metrics_with_a_scale_say_what_to_give(data, metric):
    X, y, X_val, y_val = data
    with pytest.raises(
        ValueError, match=f"metric='{metric}' needs a scale, such as metric_params="
    ) as error:
        nw.knn_shapley(X, y, X_val, y_val, metric=metric)
    params = eval(
        str(error.value).partition("metric_params=")[2].removesuffix("."), {"X": X, "np": np}
    )
    D = pairwise_distances(X_val, X, metric=metric, **params)
    expected = nw.knn_shapley(None, y, D, y_val, metric="precomputed")
    est = nw.KNNShapley(metric=metric, metric_params=params).fit(X, y)
    np.testing.assert_allclose(est.value(X_val, y_val).values, expected, atol=1e-15)
    one_by_one = np.mean(
        [est.value(X_val[i : i + 1], y_val[i : i + 1]).values for i in range(40)], axis=0
    )
    np.testing.assert_allclose(one_by_one, expected, atol=1e-15)


@pytest.mark.parametrize("metric", ["jaccard", "dice", "yule", "russellrao"])
def test_metrics_of_truths(rng, metric):
    X = rng.integers(0, 2, (60, 9))
    X_val = rng.integers(0, 2, (7, 9))
    X[:, 0] = X_val[:, 0] = 1
    y = rng.integers(0, 2, 60)
    y_val = rng.integers(0, 2, 7)
    D = pairwise_distances(X_val.astype(bool), X.astype(bool), metric=metric)
    expected = nw.knn_shapley(None, y, D, y_val, metric="precomputed")
    np.testing.assert_array_equal(nw.knn_shapley(X, y, X_val, y_val, metric=metric), expected)
    with pytest.raises(
        ValueError, match="compares truths, not other numbers than 0 and 1. Use X != 0"
    ):
        nw.knn_shapley(X * 2, y, X_val, y_val, metric=metric)


def test_haversine(rng):
    X = rng.uniform(-1, 1, (30, 2))
    X_val = rng.uniform(-1, 1, (5, 2))
    y = rng.integers(0, 2, 30)
    y_val = rng.integers(0, 2, 5)
    D = pairwise_distances(X_val, X, metric="haversine")
    expected = nw.knn_shapley(None, y, D, y_val, metric="precomputed")
    np.testing.assert_array_equal(nw.knn_shapley(X, y, X_val, y_val, metric="haversine"), expected)
    with pytest.raises(ValueError, match="metric='haversine' does not work on these data"):
        nw.KNNShapley(metric="haversine").fit(rng.uniform(size=(9, 3)), np.arange(9) % 2)


def test_callable_metric(data):
    X, y, X_val, y_val = data

    def taxicab(a, b):
        return np.abs(a - b).sum()

    expected = nw.knn_shapley(X, y, X_val, y_val, metric="manhattan")
    np.testing.assert_allclose(
        nw.knn_shapley(X, y, X_val, y_val, metric=taxicab), expected, atol=1e-15
    )
    with pytest.raises(ValueError, match="gives NaN, for example between training row"):
        nw.knn_shapley(X, y, X_val, y_val, metric=lambda a, b: np.nan)


def test_precomputed_self_valuation(rng):
    X = rng.integers(0, 4, (300, 3))
    y = rng.integers(0, 3, 300)
    D = pairwise_distances(X)
    expected = nw.KNNShapley(3).fit(X, y).value().values
    values = nw.KNNShapley(3, metric="precomputed").fit(D, y).value().values
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-16)
