"""Differences whose squares vanish still rank."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import nearworth as nw
from nearworth.neighbors.exact import ExactSearch
from nearworth.neighbors.keys import make_keys


def test_huge_and_tiny_together():
    X = np.array([[1e-170], [3e-170], [0.0]])
    assert (
        nw.knn_shapley(X, [1, 0, 0], [[0.9e-170]], [1], n_neighbors=1, utility="original").argmax()
        == 0
    )


def test_tiny_numbers_beside_a_large_query():
    X = np.array([[1e-170], [2e-170], [3e-170]])
    y = [0, 1, 0]
    est = nw.KNNShapley(1).fit(X, y)
    together = est.value([[0.0], [1.0]], [0, 0]).values
    alone = (est.value([[0.0]], [0]).values + est.value([[1.0]], [0]).values) / 2
    np.testing.assert_allclose(together, alone, atol=1e-15)


def points(rng, metric, n):
    X = rng.integers(-3, 4, (n, 4)) + rng.choice([0.0, 0.25], (n, 4))
    X[:, 0] = np.abs(X[:, 0]) + 1.0
    if metric == "nan_euclidean":
        X[::7, 1] = np.nan
    return X


def wrapped(metric, X):
    return scipy.sparse.csr_array(X) if metric == "sparse" else X


METRICS = {"euclidean": {}, "sparse": {}, "nan_euclidean": {"metric": "nan_euclidean"}}
SHAPES = [(40, 9), (3_000, 20)]


@pytest.mark.parametrize("metric", [*METRICS, "inner_product", "manhattan"])
@pytest.mark.parametrize("exponent", [-1000, -564, -440, -300, 300, 490])
@pytest.mark.parametrize(("n", "n_val"), SHAPES)
def test_a_power_of_two_changes_nothing(rng, metric, exponent, n, n_val):
    X = points(rng, metric, n)
    T = points(rng, metric, n_val)
    y = rng.integers(0, 3, n)
    y_val = rng.integers(0, 3, n_val)
    parameters = METRICS.get(metric, {"metric": metric})
    values = nw.knn_shapley(wrapped(metric, X), y, wrapped(metric, T), y_val, **parameters)
    small = (wrapped(metric, np.ldexp(Z, exponent)) for Z in (X, T))
    np.testing.assert_array_equal(
        nw.knn_shapley(next(small), y, next(small), y_val, **parameters), values
    )


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("exponent", [-950, -564, -500])
@pytest.mark.parametrize(("n", "n_val"), SHAPES)
def test_tiny_rows_beside_large_ones(rng, metric, exponent, n, n_val):
    """Large rows come last, by their own distances; the tiny ones are ranked as if they were
    alone.
    """
    X = points(rng, metric, n)
    T = points(rng, metric, n_val)
    y = rng.integers(0, 3, n + 3)
    y_val = rng.integers(0, 3, n_val)
    keys = make_keys(wrapped(metric, X), METRICS[metric].get("metric", "euclidean"), None)
    D = np.hstack([keys(wrapped(metric, T)), np.tile([1e6, 1e6, 1e7], (n_val, 1))])
    expected = nw.knn_shapley(None, y, D, y_val, metric="precomputed")
    large = np.vstack([np.ldexp(X, exponent), [[1.0, 0, 0, 0], [0, 0, -1.0, 0], [0, 0, 0, 1.5]]])
    queries = np.ldexp(T, exponent)
    values = nw.knn_shapley(
        wrapped(metric, large), y, wrapped(metric, queries), y_val, **METRICS[metric]
    )
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-15)


def test_numbers_as_near_as_floats_can_be():
    """Neighbouring floats at 2**-500 differ by 2**-552, whose square is 0."""
    X = np.ldexp(1.0 + np.spacing(1.0) * np.array([[3.0], [1.0], [2.0]]), -500)
    keys = make_keys(np.vstack([X, [[1.0]]]), "euclidean", None)(np.array([[2.0**-500]]))[0]
    assert np.argsort(keys).tolist() == [1, 2, 0, 3]
    assert len(set(keys)) == 4


@pytest.mark.parametrize("container", [np.array, scipy.sparse.csr_array])
def test_rows_that_differ_in_tiny_numbers_alone(container):
    """Beside equal large ones; with and without a row equal to the query."""
    X = container([[5.0, 3e-170], [5.0, 1e-170], [5.0, 0.0], [4.0, 1e-170]])
    keys = make_keys(X, "euclidean", None)(
        container([[5.0, 1.2e-170], [5.0, 1e-170], [4.0, 0.0], [4.0, 1e-170]])
    )
    assert np.argsort(keys, axis=1).tolist() == [
        [1, 2, 0, 3],
        [1, 2, 0, 3],
        [3, 0, 1, 2],
        [3, 0, 1, 2],
    ]
    assert [len(set(row)) for row in keys.tolist()] == [4, 4, 2, 2]


@pytest.mark.parametrize("container", [np.array, scipy.sparse.csr_array])
def test_queries_far_beyond_such_rows_are_not_scaled(container):
    """Their scaled differences would overflow, and tie what is not tied."""
    keys = make_keys(
        container([[0.25, 0.0], [1.0, 3e-170], [0.5, 0.0], [1.0, 1e-170]]), "euclidean", None
    )
    found = keys(container([[2.0**40, 0.0], [1.0, 0.0]]))
    assert np.isfinite(found).all()
    assert found[0, 1] == found[0, 3] < found[0, 2] < found[0, 0]
    assert found[1, 3] < found[1, 1] < found[1, 2] < found[1, 0]


def test_tiny_differences_beside_missing_numbers():
    X = np.array([[np.nan, 3e-170], [np.nan, 1e-170], [np.nan, 2e-170], [1.0, np.nan]])
    keys = make_keys(X, "nan_euclidean", None)(np.array([[5.0, 0.9e-170]]))[0]
    assert np.argsort(keys).tolist() == [1, 2, 0, 3]
    assert len(set(keys)) == 4


def test_inner_products_of_tiny_and_large_numbers():
    X = np.array([[1e-170, 0.0], [3e-170, 0.0], [2e-170, 0.0], [0.0, 1.0]])
    for query in ([1e-160, 0.0], [1e-300, 0.0], [1.0, 1e-200], [1e-200, 1.0], [1e140, 0.0]):
        keys = make_keys(X, "inner_product", None)(np.array([query]))[0]
        assert keys[1] < keys[2] < keys[0]
        assert np.isfinite(keys).all()


def usable(keys, queries):
    every = np.arange(3_000, dtype=np.int32)
    space = np.empty((len(queries), 3_000), np.int32)
    return keys.products(single=True)(queries, every, every, space, single=True).usable


def test_tiny_numbers_in_ordinary_data_leave_the_matrix_product_alone(rng):
    """Probabilities hold such numbers, but no two rows that differ in nothing else."""
    X = np.exp(-(rng.exponential(size=(3_000, 5)) ** 2) * 200)
    X[:, 0] = rng.random(3_000)
    assert ((X > 0) & (X < 1e-150)).any()
    keys = make_keys(X, "euclidean", None)
    assert keys.has_products
    T = np.vstack([X[:30], rng.random((10, 5)), X[5:6] * [1, 1, 1, 1, 1]])
    assert usable(keys, T).all()
    X[100], X[101] = X[5], X[6]
    X[101, 1] = 3e-170
    X[6, 1] = 1e-170
    keys = make_keys(X, "euclidean", None)
    some = X[[5, 6, 7, 100, 101]]
    assert usable(keys, some).all()
    nearest = ExactSearch(keys, 3_000).nearest(some, 2).rows
    assert nearest.tolist()[1] == [6, 101]  # they differ in tiny numbers alone
    assert nearest.tolist()[4] == [101, 6]
