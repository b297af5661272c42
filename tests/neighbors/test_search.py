"""The contract of searchers: what is refused, and true order."""

from __future__ import annotations

import numpy as np
import pytest

from nearworth.neighbors.exact import PRODUCT_POINTS, ExactSearch, NearestKeys
from nearworth.neighbors.metrics import make_keys
from nearworth.neighbors.search import Searcher, TrueDistances, check_answer, drop_self


def brute_force(X, Q, k):
    """The definition, in an arithmetic of its own."""
    squares = ((np.asarray(Q, dtype=np.longdouble)[:, None] - X[None]) ** 2).sum(axis=2)
    order = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return order, np.sqrt(np.take_along_axis(squares, order, axis=1)).astype(np.float64)


GOOD = np.array([[4, 2, 0], [1, 3, -1]]), np.array([[0.0, 0.0, 2.5], [1.0, 1.5, np.inf]])


def test_a_good_answer_passes():
    indices, distances = check_answer(GOOD[0].astype(np.int32), GOOD[1].astype(np.float32), 5, 3, n_queries=2)
    np.testing.assert_array_equal(indices, GOOD[0])
    np.testing.assert_array_equal(distances, GOOD[1])
    assert indices.dtype == np.intp
    assert distances.dtype == np.float64


def test_whatever_stands_beside_missing_neighbours_becomes_infinity():
    distances = GOOD[1].copy()
    distances[1, 2] = np.nan
    assert check_answer(GOOD[0], distances, 5, 3)[1][1, 2] == np.inf


def changed(place, index=None, distance=None):
    indices, distances = GOOD[0].copy(), GOOD[1].copy()
    if index is not None:
        indices[place] = index
    if distance is not None:
        distances[place] = distance
    return indices, distances


WRONG = {
    "shape": (*(a[:, :2] for a in GOOD),),
    "instead of \\(2, 3\\)": (GOOD[0], GOOD[1][:, :2]),
    "whole numbers": (GOOD[0].astype(float), GOOD[1]),
    "real numbers": (GOOD[0], GOOD[1].astype(complex)),
    "outside 0..4": changed((0, 1), index=5),
    "outside 0\\.\\.4.*-2": changed((0, 1), index=-2),
    "after -1": changed((0, 1), index=-1),
    "not finite": changed((0, 2), distance=np.nan),
    "finite": changed((0, 2), distance=np.inf),
    "farther point before": changed((0, 1), distance=3.0),
    "twice": changed((0, 1), index=4),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_answers_are_refused_by_name(what):
    with pytest.raises(ValueError, match=f"ShinyIndex.search returned .*{what}"):
        check_answer(*WRONG[what], 5, 3, n_queries=2, searcher=type("ShinyIndex", (), {})())


def test_number_of_rows_is_checked():
    with pytest.raises(ValueError, match=r"\(2, 3\) instead of \(7, 3\)"):
        check_answer(*GOOD, 5, 3, n_queries=7)


def test_drop_self():
    indices, distances = np.array([[5, 6, 7], [1, 0, 2], [3, 4, -1]]), np.array([[0, 1, 2], [0, 0, 3], [1, 2, np.inf]])
    found, far = drop_self(indices, distances, np.array([5, 0, 9]))
    assert found.tolist() == [[6, 7], [1, 2], [3, 4]]
    assert far.tolist() == [[1, 2], [0, 3], [1, 2]]


@pytest.mark.parametrize("scale", [1.0, 2.0**400, 2.0**-400, 2.0**-1000])
def test_true_distances_order_whatever_order_comes(rng, scale):
    X, Q = rng.integers(-3, 4, (60, 2)) * scale, rng.integers(-3, 4, (9, 2)) * scale
    exact, far = brute_force(X, Q, 60)
    truth = TrueDistances(X)
    found, keys = truth.order(Q, rng.permuted(exact, axis=1))
    np.testing.assert_array_equal(found, exact)
    np.testing.assert_allclose(truth.unsquared(Q, keys), far, rtol=1e-15)


def test_true_distances_leave_missing_ones_at_the_end(rng):
    X = rng.normal(size=(9, 3))
    found, keys = TrueDistances(X).order(X[:2], np.array([[3, 0, -1], [-1, -1, -1]]))
    assert found.tolist() == [[0, 3, -1], [-1, -1, -1]]
    assert np.isinf(keys[found < 0]).all()
    assert keys[0, 0] == 0


@pytest.mark.parametrize("n_train", [1, 7, 500, PRODUCT_POINTS + 100])
@pytest.mark.parametrize("kind", ["floats", "grid", "far away", "identical"])
def test_exact_search_is_exact(rng, n_train, kind):
    X, Q = {
        "floats": lambda: (rng.normal(size=(n_train, 5)), rng.normal(size=(30, 5))),
        "grid": lambda: (rng.integers(0, 3, (n_train, 3)), rng.integers(0, 3, (30, 3))),
        "far away": lambda: (rng.normal(size=(n_train, 4)) + 1e6, rng.normal(size=(30, 4)) + 1e6),
        "identical": lambda: (np.ones((n_train, 2)), np.ones((3, 2))),
    }[kind]()
    for k in (1, 20, n_train + 2):
        exact, far = brute_force(X, Q, k)
        indices, distances = ExactSearch().fit(X).search(Q, k)
        check_answer(indices, distances, n_train, k, n_queries=len(Q))
        np.testing.assert_array_equal(indices[:, :n_train], exact)
        np.testing.assert_allclose(distances[:, :n_train], far, rtol=1e-14, atol=0)
        assert (indices[:, n_train:] == -1).all()


def test_one_strange_query_does_not_spoil_the_others(rng):
    X, Q = rng.normal(size=(PRODUCT_POINTS, 3)), rng.normal(size=(4, 3))
    Q[1] *= 1e140
    np.testing.assert_array_equal(ExactSearch().fit(X).search(Q, 5)[0], brute_force(X, Q, 5)[0])


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product", "manhattan"])
@pytest.mark.parametrize("n_train", [50, PRODUCT_POINTS + 700])
def test_nearest_of_any_metric(rng, metric, n_train):
    X, Q = rng.normal(size=(n_train, 5)), rng.normal(size=(70, 5))
    keys = make_keys(X, metric, None)
    every = keys(Q)
    for k in (3, 60):
        indices, found = NearestKeys(keys, n_train).ranked(Q, k)
        order = np.argsort(every, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(indices[:, : order.shape[1]], order)
        np.testing.assert_array_equal(found[:, : order.shape[1]], np.take_along_axis(every, order, axis=1))


def test_more_twins_than_there_is_room_for(rng):
    """Rough keys cannot tell them apart, so all exact keys are asked."""
    X = np.concatenate([rng.normal(size=(100, 3)), np.ones((20_000, 3))])
    indices, _ = ExactSearch().fit(X).search(np.ones((2, 3)), 5)
    assert indices.tolist() == [[100, 101, 102, 103, 104]] * 2


def test_a_broken_promise_is_noticed(rng, monkeypatch):
    """Rough keys that err more than they say are not believed."""
    X, Q = rng.normal(size=(PRODUCT_POINTS, 3)), rng.normal(size=(5, 3))
    searcher = ExactSearch().fit(X)
    products = searcher._nearest._products
    monkeypatch.setattr(products, "_norms", products._norms + rng.normal(size=len(X)))
    np.testing.assert_array_equal(searcher.search(Q, 9)[0], brute_force(X, Q, 9)[0])


@pytest.mark.parametrize("dtype", [np.float16, ">f8", np.int8, bool])
def test_any_type_of_points(rng, dtype):
    X = (3 * rng.normal(size=(PRODUCT_POINTS + 5, 6))).astype(dtype)
    indices, _ = ExactSearch().fit(X).search(X[:9], 20)
    np.testing.assert_array_equal(indices, brute_force(X.astype(float), X[:9], 20)[0])


def test_searcher_is_a_protocol():
    assert isinstance(ExactSearch(), Searcher)
    assert not isinstance(object(), Searcher)
