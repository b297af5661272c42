"""Truncation through the estimator: certified intervals hold, whoever finds the neighbours."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from helpers.definition import paper_bound

N = 600
N_VAL = 70
D = 4
TAILS = ["local", "minimax", "mean", "paper"]


def clustered(rng, n):
    return rng.normal(size=(n, D)) + 4 * rng.integers(0, 3, (n, 1))


def gridded(rng, n):
    return rng.integers(0, 3, (n, D)).astype(float)


def duplicated(rng, n):
    return np.repeat(rng.normal(size=(n // 2, D)), 2, axis=0)


@pytest.fixture(params=[clustered, gridded, duplicated])
def data(request, rng):
    X = request.param(rng, N + N_VAL)
    y = (X[:, 0] + rng.normal(size=N + N_VAL) > np.median(X[:, 0])).astype(int) + (
        rng.random(N + N_VAL) < 0.1
    )
    return X[:N], y[:N], X[N:], y[N:]


def assert_covers(v, exact):
    assert (v.lower <= v.values).all()
    assert (v.values <= v.upper).all()
    assert (v.lower <= exact.values + 1e-13).all()
    assert (exact.values <= v.upper + 1e-13).all()
    assert np.abs(v.values - exact.values).max() <= v.error_bound + 1e-13
    assert v.error_bound == np.maximum(v.values - v.lower, v.upper - v.values).max()


@pytest.mark.parametrize("k", [1, 3, 5, 20, 100, N - 1])
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("utility", ["soft", "original"])
def test_intervals_hold_exact_values(data, tail, k, utility):
    X, y, X_val, y_val = data
    exact = nw.KNNShapley(5, utility=utility).fit(X, y).value(X_val, y_val)
    v = nw.KNNShapley(5, utility=utility, n_candidates=k, tail=tail).fit(X, y).value(X_val, y_val)
    assert_covers(v, exact)
    assert v.confidence == 1.0


@pytest.mark.parametrize("semivalue", ["banzhaf", "loo", ("beta", 4, 1), ("beta", 1, 4)])
@pytest.mark.parametrize("ties", ["average", "index"])
def test_every_game(data, semivalue, ties):
    X, y, X_val, y_val = data
    parameters = {"semivalue": semivalue, "ties": ties}
    exact = nw.KNNShapley(4, **parameters).fit(X, y).value(X_val, y_val)
    v = nw.KNNShapley(4, n_candidates=30, **parameters).fit(X, y).value(X_val, y_val)
    assert_covers(v, exact)


def test_self_valuation_weights_and_standard_errors(data, rng):
    X, y, *_ = data
    weights = rng.integers(0, 4, N).astype(float)
    exact = nw.KNNShapley(5, standard_errors=True).fit(X, y)
    truncated = nw.KNNShapley(5, standard_errors=True, n_candidates=N - 2).fit(X, y)
    assert_covers(truncated.value(sample_weight=weights), exact.value(sample_weight=weights))
    # Leaving one point out of N leaves N - 1 ranks: with all but one of them known, errors are
    # those of rank N.
    np.testing.assert_allclose(
        truncated.value(sample_weight=weights).standard_errors,
        exact.value(sample_weight=weights).standard_errors,
        atol=2e-2 * exact.value(sample_weight=weights).standard_errors.max(),
    )


def test_all_neighbours_are_exact(data):
    X, y, X_val, y_val = data
    v = nw.KNNShapley(5, n_candidates=N).fit(X, y).value(X_val, y_val)
    assert v.error_bound == 0.0
    np.testing.assert_array_equal(v.values, nw.KNNShapley(5).fit(X, y).value(X_val, y_val).values)
    np.testing.assert_array_equal(v.lower, v.values)


def test_contributions_and_owners_agree_with_the_values(data):
    X, y, X_val, y_val = data
    est = nw.KNNShapley(5, n_candidates=40, standard_errors=True).fit(X, y)
    v = est.value(X_val, y_val, contributions="all")
    np.testing.assert_allclose(v.contributions.mean(axis=0), v.values, rtol=0, atol=1e-15)
    np.testing.assert_allclose(
        v.standard_errors,
        v.contributions.std(axis=0, ddof=1) / np.sqrt(N_VAL),
        rtol=1e-9,
        atol=1e-15,
    )
    owners = v.sum_by(np.arange(N) % 3)
    assert owners[0].total == pytest.approx(v.values[::3].sum())
    assert owners[0].standard_error == pytest.approx(
        v.contributions[:, ::3].sum(axis=1).std(ddof=1) / np.sqrt(N_VAL), rel=1e-9
    )


def test_threads_do_not_show(data):
    X, y, X_val, y_val = data
    one, two = (
        nw.KNNShapley(5, n_candidates=40, n_jobs=j).fit(X, y).value(X_val, y_val) for j in (1, 2)
    )
    for name in ("values", "lower", "upper"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_intervals_are_half_the_papers_bound(rng):
    X = rng.normal(size=(2_000, 3))
    y = rng.integers(0, 2, 2_000)
    for k in (20, 100, 500):
        v = nw.KNNShapley(5, n_candidates=k, tail="minimax").fit(X, y).value(X[:50] + 0.1, y[:50])
        assert 1.9 * v.error_bound <= paper_bound(2_000, 5, k)


def test_saved_and_added_up(data, tmp_path):
    X, y, X_val, y_val = data
    est = nw.KNNShapley(5, n_candidates=40).fit(X, y)
    v = est.value(X_val, y_val)
    v.save(tmp_path / "v.npz")
    again = nw.Valuation.load(tmp_path / "v.npz")
    np.testing.assert_array_equal(again.lower, v.lower)
    assert again.error_bound == v.error_bound
    both = est.value(X_val[:30], y_val[:30]) + est.value(X_val[30:], y_val[30:])
    np.testing.assert_allclose(both.upper, v.upper, rtol=0, atol=1e-15)
    assert {"lower", "upper"} <= set(v.to_frame("pandas").columns)


@pytest.mark.parametrize("max_error", [0.05, 5e-3, 1e-4])
@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf"])
def test_an_error_that_was_asked_for_is_kept(data, max_error, semivalue):
    X, y, X_val, y_val = data
    est = nw.KNNShapley(5, max_error=max_error, semivalue=semivalue, ties="index").fit(X, y)
    v = est.value(X_val, y_val)
    assert v.error_bound <= max_error
    exact = nw.KNNShapley(5, semivalue=semivalue, ties="index").fit(X, y).value(X_val, y_val)
    assert np.abs(v.values - exact.values).max() <= max_error
    assert "error of" in str(est.plan(N_VAL))


def test_an_error_that_was_asked_for_does_not_destroy_detection(rng):
    X = rng.normal(size=(2_000, 4)) + 3 * rng.integers(0, 2, (2_000, 1))
    y = (X[:, 0] > 1.5).astype(int)
    wrong = rng.choice(1_500, 150, replace=False)
    y[wrong] = 1 - y[wrong]
    found = [
        len(
            np.intersect1d(
                nw.KNNShapley(5, max_error=e)
                .fit(X[:1500], y[:1500])
                .value(X[1500:], y[1500:])
                .bottom(150),
                wrong,
            )
        )
        for e in (None, 1e-3, 1e-2)
    ]
    assert min(found) >= 0.95 * found[0]


class Searching:
    """Exact search with faults on purpose."""

    def __init__(self, fault=None):
        self.fault = fault

    def fit(self, X):
        self.X = np.asarray(X)
        return self

    def search(self, Q, k):
        distances = np.sqrt(((np.asarray(Q)[:, None] - self.X[None]) ** 2).sum(axis=2))
        everybody = np.argsort(distances, axis=1, kind="stable")
        order = everybody[:, : min(k, len(self.X))].copy()
        distances = np.take_along_axis(distances, order, axis=1)
        if self.fault == "misses":  # the nearest point of every fifth query
            order[::5] = np.roll(order[::5], -1, axis=1)
            order[::5, -1], distances[::5] = (
                -1,
                np.append(distances[::5, 1:], np.full((len(order[::5]), 1), np.inf), 1),
            )
        if self.fault == "wrong":
            order[:, 0] = everybody[:, -1]
        if self.fault == "repeats":
            order[:, 1] = order[:, 0]
        if self.fault == "far ones":
            order = everybody[:, -order.shape[1] :]
        return order, distances


@pytest.mark.parametrize("leave_out", [False, True])
def test_an_own_searcher(data, leave_out):
    X, y, X_val, y_val = data
    question = () if leave_out else (X_val, y_val)
    expected = nw.KNNShapley(5, n_candidates=25).fit(X, y).value(*question)
    v = nw.KNNShapley(5, n_candidates=25, search=Searching()).fit(X, y).value(*question)
    np.testing.assert_array_equal(v.values, expected.values)
    assert v.search.recall == 1.0


@pytest.mark.parametrize("fault", ["repeats"])
def test_an_answer_that_cannot_be_right_is_refused(data, fault):
    X, y, X_val, y_val = data
    with pytest.raises(ValueError, match="Searching.search returned"):
        nw.KNNShapley(5, n_candidates=25, search=Searching(fault)).fit(X, y).value(X_val, y_val)


@pytest.mark.parametrize("fault", ["misses", "wrong", "far ones"])
def test_an_answer_that_is_wrong_is_covered(rng, fault):
    X = rng.normal(size=(400, 3))
    y = rng.integers(0, 2, 400)
    X_val = rng.normal(size=(1_000, 3))
    y_val = rng.integers(0, 2, 1_000)
    exact = nw.KNNShapley(5).fit(X, y).value(X_val, y_val)
    v = (
        nw.KNNShapley(5, n_candidates=25, search=Searching(fault), random_state=0)
        .fit(X, y)
        .value(X_val, y_val)
    )
    assert_covers(v, exact)
    assert v.search.recall < 1.0
    assert 0.9 <= v.confidence < 1.0


@pytest.mark.parametrize("on_fail", ["exact", "partial"])
def test_what_happens_where_too_few_are_found(rng, on_fail):
    X = rng.normal(size=(500, 2))
    y = rng.integers(0, 2, 500)
    X_val = np.vstack([rng.normal(size=(300, 2)), rng.normal(size=(300, 2)) + 20])
    y_val = rng.integers(0, 2, 600)
    searcher = nw.LSHSearch(n_tables=2, n_hashes=3, width=1.0, random_state=0)
    searcher.on_fail = on_fail
    est = nw.KNNShapley(5, n_candidates=20, search=searcher, random_state=0).fit(X, y)
    v = est.value(X_val, y_val)
    assert v.search.failed.size > 0
    assert_covers(v, nw.KNNShapley(5).fit(X, y).value(X_val, y_val))


def test_a_certificate_wider_than_asked_for_is_told(rng):
    X = rng.normal(size=(400, 3))
    y = rng.integers(0, 2, 400)
    X_val = rng.normal(size=(1_000, 3))
    y_val = rng.integers(0, 2, 1_000)
    est = nw.KNNShapley(5, max_error=0.01, search=Searching("misses"), random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="max_error=0.01 was asked for, but only"):
        est.value(X_val, y_val)


@pytest.mark.parametrize("search", ["lsh", "faiss"])
def test_a_searcher_needs_to_know_how_far(data, search):
    X, y, X_val, y_val = data
    with pytest.raises(ValueError, match="needs n_candidates or max_error"):
        nw.KNNShapley(5, search=search).fit(X, y).value(X_val, y_val)


def test_a_graph_of_neighbours(data):
    from sklearn.neighbors import NearestNeighbors

    X, y, X_val, y_val = data
    graph = NearestNeighbors(n_neighbors=41).fit(X).kneighbors_graph(X_val, mode="distance")
    v = (
        nw.KNNShapley(5, n_candidates=40, search=nw.GraphSearch.from_csr(graph))
        .fit(X, y)
        .value(X_val, y_val)
    )
    assert_covers(v, nw.KNNShapley(5).fit(X, y).value(X_val, y_val))


def test_searchers_are_euclidean(data):
    X, y, X_val, y_val = data
    with pytest.raises(ValueError, match="Euclidean"):
        nw.KNNShapley(5, metric="manhattan", search="lsh", n_candidates=9).fit(X, y).value(
            X_val, y_val
        )
    v = nw.KNNShapley(5, metric="manhattan", n_candidates=60).fit(X, y).value(X_val, y_val)
    assert_covers(v, nw.KNNShapley(5, metric="manhattan").fit(X, y).value(X_val, y_val))


def test_a_plan_with_hash_tables_tells_what_they_would_do(data):
    X, y = data[:2]
    est = nw.KNNShapley(5, search="lsh", n_candidates=10, random_state=0).fit(X, y)
    plan = est.plan(200)
    assert plan.seconds is None
    for part in (
        "hash tables, n_tables ",
        "recall",
        "predicted",
        "Theorem 4",
        "p1",
        "p2",
        "pmax",
        "vacuous",
    ):
        assert part in str(plan)
    by_hand = (
        nw.KNNShapley(5, search=nw.LSHSearch(3, 2, 1.5, random_state=0), n_candidates=10)
        .fit(X, y)
        .plan(200)
    )
    assert "hash tables, n_tables 3, n_hashes 2, width 1.5" in str(by_hand)


@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", "loo"])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
def test_ties_do_not_break_the_promise_of_an_error(rng, semivalue, metric):
    """Rows of few kinds: every K* cuts a block of ties."""
    X, X_val = (rng.integers(0, 2, size=(n, 5)) + 0.5 for n in (3_000, 20))
    y = rng.integers(0, 3, 3_000)
    y_val = rng.integers(0, 3, 20)
    exact = nw.KNNShapley(5, semivalue=semivalue, metric=metric).fit(X, y)
    est = nw.KNNShapley(5, max_error=0.05, semivalue=semivalue, metric=metric).fit(X, y)
    assert est.plan(20).method.max_error == 0.05
    for args in ((X_val, y_val), ()):
        v = est.value(*args)
        assert v.error_bound <= 0.05
        np.testing.assert_allclose(
            v.values, exact.value(*args).values, atol=v.error_bound + 1e-14, rtol=0
        )


def test_equal_points_are_one_tie():
    est = nw.KNNShapley(1, max_error=0.1).fit(np.ones((1000, 2)), np.arange(1000) % 2)
    assert est.value([[0.0, 0.0]], [1]).error_bound <= 1e-12


def test_regression_ranks_all_neighbours(data):
    X, y, X_val, y_val = data
    for parameters in (
        {"n_candidates": 9},
        {"search": "lsh", "max_error": 0.1},
        {"search": Searching(), "max_error": 1},
    ):
        with pytest.raises(
            ValueError, match="needs task='classification': regression ranks all neighbours"
        ):
            nw.KNNShapley(5, "regression", **parameters).fit(X, y)
    exact = nw.KNNShapley(5, "regression").fit(X, y).value(X_val, y_val)
    v = nw.KNNShapley(5, "regression", max_error=0.01, search="auto").fit(X, y).value(X_val, y_val)
    np.testing.assert_array_equal(v.values, exact.values)
    assert v.error_bound == 0.0
