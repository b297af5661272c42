"""Equal angles tie, and small ones are told apart."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import pairwise_distances

import nearworth as nw
from nearworth.neighbors.keys import GRID, make_keys


def test_cosine_ties_multiples_of_a_row_and_directionless_points():
    X = np.array([[1.0, 3.0], [3.0, 9.0], [5.0, 15.0], [0.0, 0.0], [-2.0, 1.0]])
    for scale, container in ((1, np.array), (1, scipy.sparse.csr_array), (0.5, np.array)):
        rows = container(X * scale)
        query = container([[7.0, 1.0]])
        values = nw.knn_shapley(rows, [1, 1, 1, 0, 0], query, [1], n_neighbors=2, metric="cosine")
        assert values[0] == values[1] == values[2]
        # cosine distance of nothing is 1, as in scikit-learn; the point across lies beyond it
        assert values[3] >= values[4]
    D = pairwise_distances([[7.0, 1.0], [0.0, 0.0]], X, metric="cosine").round(12)
    expected = nw.knn_shapley(None, [1, 1, 1, 0, 0], D, [1, 0], n_neighbors=2, metric="precomputed")
    values = nw.knn_shapley(
        X, [1, 1, 1, 0, 0], [[7.0, 1.0], [0.0, 0.0]], [1, 0], n_neighbors=2, metric="cosine"
    )
    np.testing.assert_allclose(values, expected, atol=1e-15)


def test_correlation_of_constant_rows_is_undefined_and_counts_as_none():
    X = np.array([[0.1, 0.1, 0.1], [1.0, 2.0, 3.1], [3.0, 2.0, 1.0]])
    values = nw.knn_shapley(
        X,
        [0, 1, 0],
        [[1.0, 2.0, 3.0]],
        [1],
        n_neighbors=1,
        metric="correlation",
        utility="original",
    )
    assert values.argmax() == 1


@pytest.mark.parametrize("scale", [1, 10**8])
def test_cosine_of_whole_numbers_against_any_queries(rng, scale):
    """Identical rows tie and the budget does not show, whether or not products are exact."""
    X = np.repeat(rng.integers(-5, 6, (1, 64)), 33, axis=0) * scale
    y = rng.integers(0, 2, 33)
    y_val = np.zeros(64, dtype=int)
    for Q in (rng.normal(size=(64, 64)), rng.integers(-5, 6, (64, 64)) * scale):
        values = nw.knn_shapley(X, y, Q, y_val, n_neighbors=1, metric="cosine")
        assert np.ptp(values[y == 0]) == np.ptp(values[y == 1]) == 0
        again = nw.knn_shapley(
            X, y, Q, y_val, n_neighbors=1, metric="cosine", max_memory=8 * 33 * 200
        )
        np.testing.assert_array_equal(values, again)


@pytest.mark.parametrize("container", [np.array, scipy.sparse.csr_array])
@pytest.mark.parametrize("scale", [1, 10, 1 / 3])
def test_cosine_tells_small_angles_apart(container, scale):
    X = container(np.array([[1e9, 1], [1e9, 2], [1e9, 3]]) * scale)
    values = nw.knn_shapley(
        X, [0, 1, 0], container([[1e9 * scale, 0]]), [0], n_neighbors=1, metric="cosine"
    )
    np.testing.assert_allclose(values, [2 / 3, -1 / 3, 1 / 6], atol=1e-15)


def test_correlation_ignores_offsets_of_whole_numbers(rng):
    X = rng.integers(0, 3, (200, 4))
    X_val = rng.integers(0, 3, (9, 4))
    y = rng.integers(0, 2, 200)
    y_val = rng.integers(0, 2, 9)
    values = nw.knn_shapley(X, y, X_val, y_val, metric="correlation")
    np.testing.assert_array_equal(
        nw.knn_shapley(X + 5, y, X_val + 7, y_val, metric="correlation"), values
    )


ORTHOGONAL = [[0, 0.8, 0.6, 0], [0, 0, 0.5, 0.3]], [1, 0], [[0.3, 0, 0, 0]], [1], 1


def text_vectors(rng, n):
    """Word weights of short texts: most pairs have no word in common."""
    X = rng.exponential(size=(n, 400)) * (rng.random((n, 400)) < 0.01)
    X[np.arange(n), rng.integers(0, 400, n)] = 1.0  # no text is empty
    return X / np.sqrt((X**2).sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    "container", [np.array, scipy.sparse.csr_array, lambda X: np.array(X, dtype=np.float32)]
)
def test_rows_at_right_angles_to_the_query_tie(container):
    X, y, query, label, k = ORTHOGONAL
    values = nw.knn_shapley(
        container(X), y, container(query), label, n_neighbors=k, utility="original", metric="cosine"
    )
    assert values.tolist() == [0.75, -0.25]


@pytest.mark.parametrize("n_train", [300, 3_000])
def test_text_vectors_are_valued_as_by_their_cosines(rng, n_train):
    """Dense or sparse, pair by pair or through a matrix product: all texts without a common word
    share.
    """
    X = text_vectors(rng, n_train)
    T = text_vectors(rng, 40)
    y = rng.integers(0, 3, n_train)
    y_val = rng.integers(0, 3, 40)
    D = 1.0 - T @ X.T
    assert (D == 1.0).mean() > 0.9
    expected = nw.knn_shapley(None, y, D.round(10), y_val, metric="precomputed")
    values = nw.knn_shapley(X, y, T, y_val, metric="cosine")
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-14)
    sparse = nw.knn_shapley(
        scipy.sparse.csr_array(X), y, scipy.sparse.csr_array(T), y_val, metric="cosine"
    )
    np.testing.assert_array_equal(sparse, values)


def test_rows_without_a_direction_tie_with_right_angles():
    X = [[0.0, 0.7, 0.1], [0.0, 0.0, 0.0], [0.0, 0.3, 0.7]]
    keys = make_keys(np.array(X), "cosine", None)(np.array([[0.1, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    assert len(np.unique(keys)) == 1


def test_sums_that_cancel_are_right_angles(rng):
    """Not only where all products are zero."""
    T, U = rng.normal(size=(2, 50, 7))
    U -= T * (T * U).sum(axis=1, keepdims=True) / (T * T).sum(axis=1, keepdims=True)
    keys = np.array(
        [make_keys(u[None], "cosine", None)(t[None])[0, 0] for t, u in zip(T, U, strict=True)]
    )
    assert (keys == keys[0]).all()
    centred = rng.normal(size=(50, 4)) * [1, 0, 0, 0] + [0, 1, 2, 3]
    centred[:, 1:] *= rng.uniform(1, 9, (50, 1))
    centred[:, 0] = centred[:, 1:].mean(axis=1)
    keys = make_keys(centred, "correlation", None)(np.array([[3.0, 0.4, 0.4, 0.4]]))
    assert (keys == keys[0, 0]).all()


def test_multiples_of_a_row_nearly_always_tie(rng):
    X = rng.normal(size=(40, 1, 9))
    T = rng.normal(size=(50, 9))
    multiples = (X * np.array([1.0, 3.0, 1 / 3, 0.7, 1e-5, 1e100, 1e-170])[:, None]).reshape(-1, 9)
    keys = make_keys(multiples, "cosine", None)(T).reshape(50, 40, 7)
    assert (keys == keys[:, :, :1]).mean() > 0.995
    keys = make_keys(multiples, "cosine", None)(np.vstack([X[:, 0], -X[:, 0]])).reshape(
        2, 40, 40, 7
    )
    assert (keys[0, np.arange(40), np.arange(40)] == 0.0).all()
    assert (keys[1, np.arange(40), np.arange(40)] == 4.0).all()


def test_angles_beyond_the_grid_are_told_apart_and_within_it_tie():
    steps = np.array([0.0, 0.4, 1.0, 2.0, 3.0]) * GRID
    keys = make_keys(np.column_stack([np.ones(5), steps]), "cosine", None)(np.array([[1.0, 0.0]]))[
        0
    ]
    assert keys.tolist() == sorted(keys)
    assert (np.diff(keys) > 0).tolist() == [False, True, True, True]


def test_angles_that_differ_by_a_hundred_billionth_do_not_tie():
    """Be they small, or nearly right."""
    steps = 1e-11 * np.arange(1, 6)
    for X in (np.column_stack([np.ones(5), steps]), np.column_stack([-steps, np.ones(5)])):
        keys = make_keys(X, "cosine", None)(np.array([[1.0, 0.0]]))[0]
        assert (np.diff(keys) > 0).all()


def test_keys_are_twice_the_cosine_distance(rng):
    X = rng.normal(size=(60, 5))
    T = rng.normal(size=(9, 5))
    for metric in ("cosine", "correlation"):
        D = pairwise_distances(T, X, metric=metric)
        np.testing.assert_allclose(make_keys(X, metric, None)(T), 2.0 * D, rtol=0, atol=4 * GRID)


@pytest.mark.parametrize("metric", ["cosine", "correlation"])
@pytest.mark.parametrize("single", [False, True])
def test_approximate_keys_stay_within_their_tolerance(rng, metric, single):
    X = rng.normal(size=(3_000, 3))
    T = rng.normal(size=(20, 3))
    keys = make_keys(X, metric, None)
    every = np.arange(3_000, dtype=np.int32)
    batch = keys.products(single=True)(
        T, every, every, np.empty((20, 3_000), np.int32), single=single
    )
    for qkeys, exact, tolerance in zip(batch.qkeys, keys(T), batch.tolerance, strict=True):
        ordered = qkeys[np.argsort(exact, kind="stable")]
        assert (np.maximum.accumulate(ordered) - ordered).max() <= tolerance < 1e-4 * 2**30
    rows = np.arange(3_000, dtype=np.int32)[::-1].copy()
    np.testing.assert_array_equal(batch.exact[3](rows), keys(T[3:4])[0, ::-1])


def test_a_product_does_not_stand_for_fractions_of_whole_numbers(rng):
    X = rng.integers(1, 5, (50, 3)).astype(float)
    queries = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.5], [0.0, 0.0, 0.0], [1e9, 1.0, 1.0]])
    products = make_keys(X, "cosine", None).products(single=True)
    every = np.arange(50, dtype=np.int32)
    batch = products(queries, every, every, np.empty((4, 50), np.int32), single=False)
    assert batch.usable.tolist() == [False, True, False, True]


@pytest.mark.parametrize("metric", ["cosine", "correlation"])
@pytest.mark.parametrize("size", [1e60, 1e78, 1e149])
def test_large_whole_numbers(rng, metric, size):
    X = rng.normal(size=(60, 4))
    X_val = rng.normal(size=(9, 4))
    y = rng.integers(0, 2, 60)
    y_val = rng.integers(0, 2, 9)
    values = nw.knn_shapley(X * size, y, X_val * size, y_val, metric=metric)
    np.testing.assert_allclose(
        values, nw.knn_shapley(X, y, X_val, y_val, metric=metric), rtol=0, atol=1e-15
    )


def test_cosines_of_whole_numbers_are_compared_exactly():
    """These two squared cosines differ by 2e-16, as fractions of whole numbers."""
    X = np.array([[5759, 5757, 107, 8], [5758, 5757, 0, 0]])
    for container in (np.array, scipy.sparse.csr_array):
        keys = make_keys(container(X.astype(float)), "cosine", None)(container([[1.0, 0, 0, 0]]))[0]
        assert keys[0] < keys[1]


def test_large_whole_queries_are_compared_exactly_too():
    """22619537^2 = 2 * 15994428^2 + 1, so the second cosine is larger, by 1e-15."""
    X = np.array([[1.0, 0.0], [1.0, 1.0]])
    query = np.array([[15994428.0, 22619537.0 - 15994428.0]])
    keys = make_keys(X, "cosine", None)(query)[0]
    assert keys[1] < keys[0]


def test_products_too_long_for_floats_still_tie_multiples():
    X = np.array([[0.0, 0, 1, 1], [0, 0, 3, 3]])
    keys = make_keys(X, "cosine", None)(np.array([[-5761181.0, -1621462, -16076074, -16151845]]))[0]
    assert keys[0] == keys[1]


@pytest.mark.parametrize("size", [0.3, 1.0, 1e20, 1e-200])
def test_rows_that_are_constant_but_for_rounding_have_no_correlation(size):
    constant = np.array([size, np.nextafter(size, 0), size, np.nextafter(size, 1e300), size])
    slope = size * np.array([1.0, 1.0 + 1e-13, 1.0 + 2e-13, 1.0 + 3e-13, 1.0 + 4e-13])
    keys = make_keys(np.array([constant, np.full(5, 7 * size), slope]), "correlation", None)(
        np.array([np.arange(5.0)])
    )
    right_angle = make_keys(np.array([[0.1, 0.0]]), "cosine", None)(np.array([[0.0, 0.1]]))[0, 0]
    assert keys[0, 0] == keys[0, 1] == right_angle
    assert keys[0, 2] < 0.1
