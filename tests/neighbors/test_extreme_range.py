"""Distances of numbers from the smallest to the largest that are allowed, held against exact
fractions.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse

import nearworth as nw
from helpers.extreme import (
    SMALLEST,
    check_distances,
    check_ranks,
    exact_squares,
    numbers_of_all_sizes,
)
from nearworth.neighbors.keys import make_keys

CONTAINERS = {"dense": np.array, "sparse": scipy.sparse.csr_array}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("seed", range(40))
def test_ranks_are_those_of_exact_fractions(container, seed):
    rng = np.random.default_rng(seed)
    X = numbers_of_all_sizes(rng, (12, 2))
    query = numbers_of_all_sizes(rng, (1, 2))
    query[:, 1] = X[0, 1]
    X[1] = X[0]
    X[2] = query[0]
    convert = CONTAINERS[container]
    keys = make_keys(convert(X), "euclidean", None)(convert(query))[0]
    check_ranks(keys, exact_squares(X, query[0]))
    assert keys[0] == keys[1]


@pytest.mark.parametrize("metric", ["euclidean", "nan_euclidean"])
@pytest.mark.parametrize("seed", range(20))
def test_distances_are_those_of_exact_fractions(metric, seed):
    """Also where training rows hold no tiny number and the query does, or the other way round."""
    rng = np.random.default_rng(seed)
    for tiny in (True, False):
        X = numbers_of_all_sizes(rng, (12, 3))
        if not tiny:
            X[np.abs(X) < 1e-100] = 0.0
        query = numbers_of_all_sizes(rng, (1, 3))
        X[2] = query[0] if tiny else 0.0
        keys = make_keys(X, metric, None)
        found = keys.as_distances(keys(query), query)[0]
        check_distances(found, exact_squares(X, query[0]))


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_farthest_apart_that_numbers_can_be(container):
    convert = CONTAINERS[container]
    X = convert(np.array([[1e149], [1e-150], [0.0], [SMALLEST], [3 * SMALLEST], [1e-300]]))
    keys = make_keys(X, "euclidean", None)
    for query, order in (
        (1e-150, [1, 5, 2, 0]),
        (0.0, [2, 3, 4, 5, 1, 0]),
        (SMALLEST, [3, 2, 4, 5, 1, 0]),
    ):
        found = keys(convert(np.array([[query]])))[0]
        assert (np.diff(found[order]) > 0).all() or query == 1e-150
        assert np.argsort(found, kind="stable").tolist()[0] == order[0]
    assert keys(convert(np.array([[1e-150]])))[0, 1] == -np.inf
    assert keys(convert(np.array([[1e-150]])))[0, 5] <= keys(convert(np.array([[1e-150]])))[0, 2]


def test_a_listed_pair_has_the_key_of_all_pairs():
    rng = np.random.default_rng(3)
    for tiny_training in (True, False):
        X = numbers_of_all_sizes(rng, (40, 3))
        queries = numbers_of_all_sizes(rng, (9, 3))
        if not tiny_training:
            X[np.abs(X) < 1e-100] = 0.0
        queries[0] = X[0]
        keys = make_keys(X, "euclidean", None)
        rows = rng.integers(-1, 40, (9, 17))
        expected = np.where(
            rows < 0, np.inf, np.take_along_axis(keys(queries), np.maximum(rows, 0), axis=1)
        )
        np.testing.assert_array_equal(keys.listed(queries, rows), expected)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-170, 1.0, 1e140])
@pytest.mark.parametrize("beside", [None, SMALLEST, 1e149])
def test_values_do_not_depend_on_the_scale(rng, task, scale, beside):
    """A far row, or a tiny number in it, changes no distance between the others."""
    steps = rng.permutation(30).astype(float)
    y = np.arange(31) % 3
    y_val = np.arange(4) % 3
    queries = np.array([[2.0], [11.0], [17.0], [29.0]])
    X = np.append(steps, 1000.0)[:, None]
    expected = nw.knn_shapley(X, y, queries, y_val, n_neighbors=3, task=task)
    smallest = 2.0 ** math.floor(math.log2(scale))
    scaled = X * smallest
    if beside == 1e149:
        scaled[-1] = max(scaled[-1, 0], beside)
    if beside == SMALLEST and scale >= 1e-170:
        scaled = np.column_stack([scaled, np.zeros(31)])
        queries = np.column_stack([queries, np.zeros(4)])
        scaled[-1, 1] = beside
    found = nw.knn_shapley(scaled, y, queries * smallest, y_val, n_neighbors=3, task=task)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("n_train", [50, 3_000])
def test_identical_and_tiny_rows_in_ordinary_data(rng, n_train):
    """Pair by pair or through a matrix product: the rows nearest to a query differ from it by the
    smallest floats.
    """
    X = rng.normal(size=(n_train, 3))
    y = rng.integers(0, 2, n_train)
    X[:4] = [0.0, 0.0, 1.0]
    X[:4, 0] = [3e-300, 1e-300, SMALLEST, 0.0]
    query = np.tile([0.0, 0.0, 1.0], (40, 1))
    y[:4] = [0, 1, 0, 1]
    D = np.sqrt(((X - query[0]) ** 2).sum(axis=1))
    D[:4] = [3e-9, 2e-9, 1e-9, 0.0]
    expected = nw.knn_shapley(
        None, y, np.tile(D, (40, 1)), np.ones(40, dtype=int), n_neighbors=3, metric="precomputed"
    )
    found = nw.knn_shapley(X, y, query, np.ones(40, dtype=int), n_neighbors=3)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


def test_weights_of_a_subnormal_training_number():
    est = nw.KNNShapley(weights="inverse", utility="original").fit([[0.0], [5e-324]], [1, 0])
    np.testing.assert_allclose(est.value([[1.0]], [1]).values, [0.1, 0.0], atol=1e-16)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "nan_euclidean"])
def test_weights_read_the_distances_of_pairs(metric):
    seen = []

    def remembered(distances):
        seen.append(distances.copy())
        return np.ones_like(distances)

    X = np.array([[1e-200], [3e-310], [0.0], [1e140], [1.0]])
    for query in (0.0, 1e-200, 1.0, 1e140):
        seen.clear()
        nw.KNNShapley(2, weights=remembered, metric=metric).fit(X, [0, 1, 0, 1, 0]).value(
            [[query]], [1]
        )
        np.testing.assert_allclose(seen[0], np.sort(np.abs(X[:, 0] - query)), rtol=1e-15, atol=0)


def test_squared_distances_are_not_rounded_twice():
    """The square of the root of 2 is above 2."""
    found = nw.KNNShapley(radius=2.0, metric="sqeuclidean").fit([[1.0, 1.0], [2.0, 2.0]], [1, 0])
    np.testing.assert_allclose(found.value([[0.0, 0.0]], [1]).values, [0.5, 0.0], atol=1e-15)


@pytest.mark.parametrize(
    ("metric", "parameters"),
    [
        ("minkowski", {"p": 1.5}),
        ("minkowski", {"p": 3}),
        ("minkowski", {"p": 100}),
        ("minkowski", {"p": 3, "w": [1.0, 2.0]}),
        ("seuclidean", {"V": [1.0, 4.0]}),
        ("mahalanobis", {"VI": np.array([[2.0, 0.5], [0.5, 1.0]])}),
        ("chebyshev", {}),
        ("manhattan", {}),
    ],
)
def test_distances_of_other_metrics_do_not_vanish(rng, metric, parameters):
    """They grow in proportion to the differences."""
    X = rng.normal(size=(20, 2))
    query = np.array([[0.5, 0.25]])
    X[3] = query[0]
    expected = make_keys(X, metric, parameters)(query)[0]
    for exponent in (-40, -400, -560, -900):
        found = make_keys(np.ldexp(X, exponent), metric, parameters)(np.ldexp(query, exponent))[0]
        np.testing.assert_allclose(found, np.ldexp(expected, exponent), rtol=1e-13, atol=0)
