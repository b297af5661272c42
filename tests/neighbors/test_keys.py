"""The same data in another guise gives the same values."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
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


@pytest.fixture
def grid(rng):
    """Whole numbers: most points are tied."""
    return (
        rng.integers(0, 4, (300, 3)),
        rng.integers(0, 3, 300),
        rng.integers(0, 4, (40, 3)),
        rng.integers(0, 3, 40),
    )


def transformed(data, change):
    X, y, X_val, y_val = data
    return change(X), y, change(X_val), y_val


CHANGES = {
    "moved 10^6": lambda X: X + 1e6,
    "moved -10^9": lambda X: X - 2.0**30,
    "scaled 10^-6": lambda X: X * 1e-6,
    "scaled 10^6": lambda X: X * 1e6,
    "scaled 2^-400": lambda X: X * 2.0**-400,
    "scaled 2^400": lambda X: X * 2.0**400,
    "scaled 2^-1000": lambda X: X * 2.0**-1000,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_moved_and_scaled(data, change, task):
    values = nw.knn_shapley(*data, task=task)
    np.testing.assert_allclose(
        nw.knn_shapley(*transformed(data, CHANGES[change]), task=task), values, atol=1e-15
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X + 10**6,
        lambda X: X * 2.0**-20,
        lambda X: X.astype(np.float32),
        lambda X: X.astype(np.float16),
        lambda X: X.astype(np.int8),
        lambda X: X.astype(np.uint16),
        lambda X: X.astype(np.longdouble),
        lambda X: np.asfortranarray(X),
        lambda X: X[:, ::-1],
        lambda X: X.tolist(),
        lambda X: X.astype(object),
        lambda X: scipy.sparse.csr_array(X),
        lambda X: scipy.sparse.coo_matrix(X),
    ],
)
def test_ties_survive_any_container_that_holds_the_same_numbers(grid, change):
    np.testing.assert_array_equal(nw.knn_shapley(*transformed(grid, change)), nw.knn_shapley(*grid))


def test_float32_in_is_float32_meant(data):
    """Distances of float32 data are those of the same numbers in float64."""
    narrow = transformed(data, lambda X: X.astype(np.float32))
    wide = transformed(narrow, lambda X: X.astype(np.float64))
    np.testing.assert_array_equal(nw.knn_shapley(*narrow), nw.knn_shapley(*wide))


def test_tied_means_equal_in_the_data_not_after_rounding():
    """Two distances that float32 cannot tell apart are not tied; two equal ones far from the origin
    are.
    """
    X = np.array([[1.0 + 2.0**-40], [1.0]])
    assert nw.knn_shapley(X, [1, 0], [[0.0]], [1], n_neighbors=1, utility="original").tolist() == [
        0.5,
        -0.5,
    ]
    X = np.array([[1e8 + 0.5], [1e8 + 0.25]])
    assert nw.knn_shapley(X, [1, 0], [[1e8]], [1], n_neighbors=1, utility="original").tolist() == [
        0.5,
        -0.5,
    ]
    X = np.array([[1e8 + 0.5], [1e8 - 0.5]])
    assert nw.knn_shapley(X, [1, 0], [[1e8]], [1], n_neighbors=1, utility="original").tolist() == [
        0.75,
        -0.25,
    ]


def test_duplicating_the_training_set_shares_the_value(rng):
    """A copy of every point, with K doubled: copies tie, so each of a pair has the same value."""
    X = rng.normal(size=(50, 2))
    y = rng.integers(0, 2, 50)
    X_val = rng.normal(size=(9, 2))
    y_val = rng.integers(0, 2, 9)
    values = nw.knn_shapley(np.vstack([X, X]), np.concatenate([y, y]), X_val, y_val, n_neighbors=6)
    np.testing.assert_array_equal(values[:50], values[50:])


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_sparse_equals_dense(rng, metric):
    X, X_val = (rng.poisson(0.4, (n, 30)).astype(float) for n in (200, 25))
    y = rng.integers(0, 3, 200)
    y_val = rng.integers(0, 3, 25)
    dense = nw.knn_shapley(X, y, X_val, y_val, metric=metric)
    sparse = nw.knn_shapley(
        scipy.sparse.csr_array(X), y, scipy.sparse.csc_matrix(X_val), y_val, metric=metric
    )
    np.testing.assert_array_equal(sparse, dense)


def test_nan_euclidean_with_missing_entries(data):
    X, y, X_val, y_val = (a.copy() for a in data)
    X[::5, 1] = np.nan
    X_val[3, 2] = np.nan
    D = pairwise_distances(X_val, X, metric="nan_euclidean")
    expected = nw.knn_shapley(None, y, D, y_val, metric="precomputed")
    np.testing.assert_allclose(
        nw.knn_shapley(X, y, X_val, y_val, metric="nan_euclidean"), expected, atol=1e-15
    )
    X[7] = np.nan
    with pytest.raises(
        ValueError, match="metric='nan_euclidean' gives NaN, for example between training row 7"
    ):
        nw.knn_shapley(X, y, X_val, y_val, metric="nan_euclidean")


@pytest.mark.parametrize(
    "metric", ["euclidean", "cosine", "correlation", "nan_euclidean", "manhattan"]
)
def test_memory_layout_does_not_matter(rng, metric):
    X = rng.integers(0, 4, (200, 5)) / 10
    X_val = rng.integers(0, 4, (70, 5)) / 10
    y = rng.integers(0, 2, 200)
    y_val = rng.integers(0, 2, 70)
    X = X + 0.05
    X_val = X_val + 0.05
    values = nw.knn_shapley(X, y, X_val, y_val, metric=metric)
    fortran = nw.knn_shapley(
        np.asfortranarray(X), y, np.asfortranarray(X_val), y_val, metric=metric
    )
    np.testing.assert_array_equal(fortran, values)
    one_by_one = nw.knn_shapley(X, y, X_val, y_val, metric=metric, max_memory=8 * 200 * 80)
    np.testing.assert_array_equal(one_by_one, values)


def test_missing_entries_in_the_queries_alone():
    D = pairwise_distances(
        [[np.nan, 1.0]], [[5.0, 9.0], [2.0, 3.0], [0.0, 1.0]], metric="nan_euclidean"
    )
    expected = nw.knn_shapley(None, [1, 1, 0], D, [0], n_neighbors=1, metric="precomputed")
    X = [[5.0, 9.0], [2.0, 3.0], [0.0, 1.0]]
    np.testing.assert_array_equal(
        nw.knn_shapley(X, [1, 1, 0], [[np.nan, 1.0]], [0], n_neighbors=1, metric="nan_euclidean"),
        expected,
    )


def test_sparse_far_from_the_origin_and_on_a_grid(rng):
    X = np.array([[1e8 + 0.001], [1e8 + 0.002], [1e8 + 0.003]])
    values = nw.knn_shapley(
        scipy.sparse.csr_array(X), [0, 1, 0], scipy.sparse.csr_array([[1e8]]), [0], n_neighbors=1
    )
    np.testing.assert_allclose(values, [2 / 3, -1 / 3, 1 / 6], atol=1e-15)
    X = rng.integers(0, 3, (200, 6)) * 0.1
    X_val = rng.integers(0, 3, (9, 6)) * 0.1
    y = rng.integers(0, 2, 200)
    y_val = rng.integers(0, 2, 9)
    for metric in ("euclidean", "manhattan"):
        sparse = nw.knn_shapley(
            scipy.sparse.csr_array(X), y, scipy.sparse.csr_array(X_val), y_val, metric=metric
        )
        np.testing.assert_array_equal(sparse, nw.knn_shapley(X, y, X_val, y_val, metric=metric))


def test_sparse_rows_without_entries():
    X = scipy.sparse.csr_array((3, 4))
    values = nw.knn_shapley(X, [0, 1, 1], scipy.sparse.csr_array((1, 4)), [1], n_neighbors=1)
    assert values[1] == values[2] > values[0]
