"""Exact search, exact order of what others found, and their recall."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from helpers.exact_searcher import ExactSearcher
from nearworth.neighbors.exact import (
    PRODUCT_POINTS,
    ExactSearch,
    Sample,
    recall_by_distance,
    upper_limit,
)
from nearworth.neighbors.keys import EuclideanKeys, make_keys
from nearworth.neighbors.searchers import check_answer


def brute_force(X, Q, k):
    """The definition, in an arithmetic of its own."""
    squares = ((np.asarray(Q, dtype=np.longdouble)[:, None] - X[None]) ** 2).sum(axis=2)
    order = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return order, np.sqrt(np.take_along_axis(squares, order, axis=1)).astype(np.float64)


@pytest.mark.parametrize("scale", [1.0, 2.0**400, 2.0**-400, 2.0**-1000])
def test_true_distances_order_whatever_order_comes(variant, rng, scale):
    X = rng.integers(-3, 4, (60, 2)) * scale
    Q = rng.integers(-3, 4, (9, 2)) * scale
    exact, far = brute_force(X, Q, 60)
    truth = EuclideanKeys(X)
    found, keys = truth.order(Q, rng.permuted(exact, axis=1))
    np.testing.assert_array_equal(found, exact)
    np.testing.assert_allclose(truth.as_distances(keys, Q), far, rtol=1e-15)


def test_true_distances_leave_missing_ones_at_the_end(rng):
    X = rng.normal(size=(9, 3))
    found, keys = EuclideanKeys(X).order(X[:2], np.array([[3, 0, -1], [-1, -1, -1]]))
    assert found.tolist() == [[0, 3, -1], [-1, -1, -1]]
    assert np.isinf(keys[found < 0]).all()
    assert keys[0, 0] == 0


@pytest.mark.parametrize("n_train", [1, 7, 500, PRODUCT_POINTS + 100])
@pytest.mark.parametrize("kind", ["floats", "grid", "far away", "identical"])
def test_exact_search_is_exact(variant, rng, n_train, kind):
    X, Q = {
        "floats": lambda: (rng.normal(size=(n_train, 5)), rng.normal(size=(30, 5))),
        "grid": lambda: (rng.integers(0, 3, (n_train, 3)), rng.integers(0, 3, (30, 3))),
        "far away": lambda: (rng.normal(size=(n_train, 4)) + 1e6, rng.normal(size=(30, 4)) + 1e6),
        "identical": lambda: (np.ones((n_train, 2)), np.ones((3, 2))),
    }[kind]()
    for k in (1, 20, n_train + 2):
        exact, far = brute_force(X, Q, k)
        searcher = ExactSearcher().fit(X)
        indices, distances = searcher.search(Q, k)
        check_answer(indices, distances, n_train, k, n_queries=len(Q), searcher=searcher)
        np.testing.assert_array_equal(indices[:, :n_train], exact)
        np.testing.assert_allclose(distances[:, :n_train], far, rtol=1e-14, atol=0)
        assert (indices[:, n_train:] == -1).all()


def test_one_strange_query_does_not_spoil_the_others(rng):
    X = rng.normal(size=(PRODUCT_POINTS, 3))
    Q = rng.normal(size=(4, 3))
    Q[1] *= 1e140
    np.testing.assert_array_equal(ExactSearcher().fit(X).search(Q, 5)[0], brute_force(X, Q, 5)[0])


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product", "manhattan"])
@pytest.mark.parametrize("n_train", [50, PRODUCT_POINTS + 700])
def test_nearest_of_any_metric(variant, rng, metric, n_train):
    X = rng.normal(size=(n_train, 5))
    Q = rng.normal(size=(70, 5))
    keys = make_keys(X, metric, None)
    every = keys(Q)
    for k in (3, 60):
        indices, found = ExactSearch(keys, n_train).nearest(Q, k)
        order = np.argsort(every, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(indices[:, : order.shape[1]], order)
        np.testing.assert_array_equal(
            found[:, : order.shape[1]], np.take_along_axis(every, order, axis=1)
        )


def test_more_duplicates_than_there_is_room_for(rng):
    """Rough keys cannot tell them apart, so all exact keys are asked."""
    X = np.concatenate([rng.normal(size=(100, 3)), np.ones((20_000, 3))])
    indices, _ = ExactSearcher().fit(X).search(np.ones((2, 3)), 5)
    assert indices.tolist() == [[100, 101, 102, 103, 104]] * 2


ORDERS = {
    "random": lambda rng, n: rng.permutation(n),
    "nearest first": lambda rng, n: np.arange(n),
    "nearest last": lambda rng, n: np.arange(n)[::-1],
    "nearest in the middle": lambda rng, n: np.abs(2 * np.arange(n) - n),
    "nearest at the ends": lambda rng, n: -np.abs(2 * np.arange(n) - n),
    "few different ones": lambda rng, n: rng.integers(0, 300, n),
    "zigzag": lambda rng, n: np.arange(n) ^ 1365,
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("k", [1, 5, 400])
def test_no_point_that_may_be_near_drops_out(variant, rng, order, k):
    """One column, so that the order of the keys is what it says."""
    X = np.asarray(ORDERS[order](rng, 4_000), dtype=float)[:, None]
    Q = np.array([[X.min() - 10.0], [X.mean()]])
    np.testing.assert_array_equal(ExactSearcher().fit(X).search(Q, k)[0], brute_force(X, Q, k)[0])


@pytest.mark.parametrize("dtype", [np.float16, ">f8", np.int8, bool])
def test_any_type_of_points(rng, dtype):
    X = (3 * rng.normal(size=(PRODUCT_POINTS + 5, 6))).astype(dtype)
    indices, _ = ExactSearcher().fit(X).search(X[:9], 20)
    np.testing.assert_array_equal(indices, brute_force(X.astype(float), X[:9], 20)[0])


def test_recall_by_distance_takes_ties_as_found():
    exact = np.array([[0.0, 1.0, 1.0], [2.0, 3.0, np.inf]])
    found = np.array([[1.0, 1.0, 1.0], [2.0, 3.5, np.inf]])
    np.testing.assert_allclose(recall_by_distance(found, exact), [1.0, 0.5])
    np.testing.assert_allclose(recall_by_distance(found[:, :1], exact), [1 / 3, 1 / 2])
    np.testing.assert_allclose(
        recall_by_distance(np.full((1, 2), np.inf), np.full((1, 2), np.inf)), [1.0]
    )


@pytest.mark.parametrize("n", [1, 5, 40])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.999])
def test_upper_limit_holds_as_often_as_it_says(n, confidence):
    limits = np.array([upper_limit(misses, n, confidence) for misses in range(n + 1)])
    assert (np.diff(limits) > 0).all()
    assert limits[-1] == 1.0
    for share in np.linspace(0, 1, 201):
        covered = binom.pmf(np.arange(n + 1), n, share)[share <= limits + 1e-12].sum()
        assert covered >= confidence - 1e-9
    # sharp: a share just above the limit would give so few misses too rarely
    np.testing.assert_allclose(binom.cdf(np.arange(n), n, limits[:-1]), 1 - confidence, rtol=1e-8)


class Forgetful(ExactSearcher):
    """Never finds the nearest one."""

    def search(self, Q, k):
        indices, distances = super().search(Q, k + 1)
        return indices[:, 1:], distances[:, 1:]


def test_sample_of_queries_measures_recall(rng):
    X = rng.normal(size=(300, 4))
    Q = rng.normal(size=(50, 4))
    sample = Sample(X, 10, Q)
    assert (sample.recall_of(ExactSearcher().fit(X)) == 1).all()
    np.testing.assert_allclose(sample.recall_of(Forgetful().fit(X)), 0.9)


def test_sample_of_training_points_leaves_them_out(rng):
    X = rng.normal(size=(200, 3))
    sample = Sample(X, 5, rows=np.sort(rng.choice(200, 40, replace=False)))
    assert sample.queries.shape == (40, 3)
    assert not (sample.indices == sample.rows[:, None]).any()
    assert (sample.distances > 0).all()
    assert (sample.recall_of(ExactSearcher().fit(X)) == 1).all()
    assert (sample.recall_of(Forgetful().fit(X)) == 1).all()  # it only forgets the point that asks


def test_sample_of_few_points(rng):
    sample = Sample(rng.normal(size=(3, 2)), 5, rows=np.arange(3))
    assert (np.isfinite(sample.keys).sum(axis=1) == 2).all()


def test_a_wrong_searcher_is_refused(rng):
    class Repeats(ExactSearcher):
        def search(self, Q, k):
            indices, distances = super().search(Q, k)
            return np.repeat(indices[:, :1], k, axis=1), distances

    X = rng.normal(size=(50, 2))
    with pytest.raises(ValueError, match="Repeats.search returned a neighbour twice"):
        Sample(X, 4, X[:5]).recall_of(Repeats().fit(X))
