"""The fast engine against the plain formulas, on data made to trip it."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from nearworth.engine import plan as planning
from nearworth.engine import problem
from nearworth.games.ties import TieBlocks
from nearworth.neighbors import products as rough
from nearworth.neighbors.ranking import rank

N, N_VAL, D = 3_000, 12, 6


def _clusters(rng, n):
    return rng.normal(size=(n, D)) + 30 * rng.integers(0, 4, (n, 1))


DATA = {
    "random": lambda rng, n: rng.normal(size=(n, D)),
    "clustered": _clusters,
    "grid": lambda rng, n: rng.integers(0, 4, (n, D)).astype(float),
    "standardised grid": lambda rng, n: (rng.integers(0, 3, (n, D)) - 1.1) / 0.817,
    "few distinct rows": lambda rng, n: rng.normal(size=(7, D))[rng.integers(0, 7, n)],
    "constant": lambda rng, n: np.full((n, D), 0.1),
    "nearly equal": lambda rng, n: 1.0 + 1e-15 * rng.integers(0, 50, (n, D)),
    "one float apart": lambda rng, n: np.cumsum(np.full((n, D), np.spacing(1.0)), axis=0)[rng.permutation(n)] + 1.0,
    "huge range": lambda rng, n: np.exp(rng.uniform(-40, 40, (n, D))),
    "one outlier": lambda rng, n: np.where(np.arange(n)[:, None] == 5, 1e9, rng.normal(size=(n, D))),
    "far from the origin": lambda rng, n: rng.normal(size=(n, D)) + 1e7,
    "along a line": lambda rng, n: np.outer(rng.normal(size=n), np.ones(D)),
    "duplicated": lambda rng, n: np.repeat(rng.normal(size=(n // 2, D)), 2, axis=0),
    "float32": lambda rng, n: rng.normal(size=(n, D)).astype(np.float32),
    "bytes": lambda rng, n: rng.integers(0, 255, (n, D)).astype(np.uint8),
}
LABELS = {
    "ten classes": lambda rng, n: rng.integers(0, 10, n),
    "two classes": lambda rng, n: rng.integers(0, 2, n),
    "rare class": lambda rng, n: (rng.random(n) < 0.02).astype(int),
    "one class": lambda rng, n: np.zeros(n, dtype=int),
}


def make(rng, data, labels):
    X = DATA[data](rng, N + N_VAL)
    y = LABELS[labels](rng, N + N_VAL)
    y[:10] = y.max()
    return X[:N], y[:N], X[N:], np.minimum(y[N:], y[:N].max())


def plain(est, X_val, y_val, k, utility="soft", semivalue="shapley", ties="average"):
    """The closed form on fully sorted exact distances."""
    training = est._training
    parameters = {"n_neighbors": k, "utility": utility, "semivalue": semivalue, "n_classes": None}
    ranking = rank(training.keys(np.asarray(X_val, dtype=float)), ties)
    codes, _ = training.classes.encode(y_val, "y_val", len(y_val))
    game = training.game(parameters, training.n_rows)
    ranked = game.values(training.labels[ranking.order], codes, TieBlocks(ranking.first))
    values = np.empty_like(ranked)
    np.put_along_axis(values, ranking.order, ranked, axis=1)
    return values.mean(axis=0)


@pytest.mark.filterwarnings("ignore:y_val has")
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("data", DATA)
def test_products_and_differences_agree_to_the_bit_and_with_the_formula(data, labels, rng, monkeypatch):
    X, y, X_val, y_val = make(rng, data, labels)
    est = nw.KNNShapley(5, standard_errors=True).fit(X, y)
    assert est.plan(N_VAL).products
    fast = est.value(X_val, y_val)
    monkeypatch.setattr(planning, "PRODUCT_POINTS", 10**9)
    assert not est.plan(N_VAL).products
    slow = est.value(X_val, y_val)
    np.testing.assert_array_equal(fast.values, slow.values)
    np.testing.assert_array_equal(fast.standard_errors, slow.standard_errors)
    expected = plain(est, X_val, y_val, 5)
    np.testing.assert_allclose(fast.values, expected, rtol=0, atol=1e-14 * np.abs(expected).max() + 1e-17)


@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", "loo", ("beta", 4, 1), ("beta", 1, 4)])
@pytest.mark.parametrize("ties", ["average", "index"])
@pytest.mark.parametrize("utility", ["soft", "original"])
@pytest.mark.parametrize("data", ["random", "standardised grid", "duplicated"])
def test_every_game(data, utility, ties, semivalue, rng):
    X, y, X_val, y_val = make(rng, data, "two classes")
    est = nw.KNNShapley(7, utility=utility, ties=ties, semivalue=semivalue).fit(X, y)
    values = est.value(X_val, y_val).values
    expected = plain(est, X_val, y_val, 7, utility, semivalue, ties)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-14 * np.abs(expected).max() + 1e-17)


@pytest.mark.parametrize("n", [1, 2, 3, 50, 2_047, 2_048, 40_000, 300_000])
def test_sizes(n, rng):
    X, y = rng.normal(size=(n, 3)), rng.integers(0, 4, n)
    X_val, y_val = rng.normal(size=(9, 3)), rng.choice(y, 9)
    est = nw.KNNShapley(5).fit(X, y)
    expected = plain(est, X_val, y_val, 5)
    np.testing.assert_allclose(
        est.value(X_val, y_val).values, expected, rtol=0, atol=1e-14 * np.abs(expected).max() + 1e-17
    )


@pytest.mark.parametrize("most_in_doubt", [-1.0, 0.001, 0.02, 1.0])
@pytest.mark.parametrize("data", DATA)
def test_both_precisions_of_the_product(data, most_in_doubt, rng, monkeypatch):
    """Narrow throughout, wide after the first query, or anything between: the same bits."""
    X, y, X_val, y_val = make(rng, data, "two classes")
    est = nw.KNNShapley(5).fit(X, y)
    expected = est.value(X_val, y_val).values
    monkeypatch.setattr(problem, "MOST_IN_DOUBT", most_in_doubt)
    np.testing.assert_array_equal(est.value(X_val, y_val).values, expected)


def test_a_broken_promise_is_noticed(rng, monkeypatch):
    """Errors beyond the promised ones send a query to exact distances."""
    X, y, X_val, y_val = make(rng, "random", "ten classes")
    est = nw.KNNShapley(5).fit(X, y)
    expected = est.value(X_val, y_val).values
    product = rough.Products._multiply

    def noisy(self, queries, points, buffer):
        products = product(self, queries, points, buffer)
        return products + rng.normal(size=products.shape).astype(products.dtype)

    monkeypatch.setattr(rough.Products, "_multiply", noisy)
    np.testing.assert_array_equal(est.value(X_val, y_val).values, expected)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_threads_and_budgets_do_not_show(task, rng):
    X, y = rng.normal(size=(2_500, 5)), rng.integers(0, 3, 2_500)
    X_val, y_val = rng.normal(size=(300, 5)), rng.integers(0, 3, 300)
    est = nw.KNNShapley(5, task=task, standard_errors=True, n_jobs=1).fit(X, y)
    expected = est.value(X_val, y_val)
    plans = set()
    for n_jobs in (1, 2, 5, -1, None):
        for budget in ("3MB", "5MB", "8MB", "40MB", None):
            est.set_params(n_jobs=n_jobs, max_memory=budget)
            plans.add(est.plan(300))
            v = est.value(X_val, y_val)
            np.testing.assert_array_equal(v.values, expected.values)
            np.testing.assert_array_equal(v.standard_errors, expected.standard_errors)
    assert len(plans) >= 6


@pytest.mark.parametrize("data", ["random", "grid", "duplicated"])
def test_self_valuation_of_many(data, rng):
    X, y, _, _ = make(rng, data, "two classes")
    est = nw.KNNShapley(5).fit(X, y)
    v = est.value(contributions=[0, 17, N - 1])
    for t in (0, 1_500):
        keep = np.arange(N) != t
        alone = nw.knn_shapley(X[keep], y[keep], X[t : t + 1], y[t : t + 1], 5)
        of_chosen = np.array([0.0 if r == t else alone[r - (r > t)] for r in v.contribution_rows])
        np.testing.assert_allclose(v.contributions[t], of_chosen, rtol=1e-12, atol=1e-16)


def test_a_worker_that_fails_tells_the_user(rng):
    def breaks(a, b):
        if a[0] > 5:
            raise RuntimeError("no such distance")
        return abs(a - b).sum()

    est = nw.KNNShapley(metric=breaks).fit(rng.uniform(size=(20, 1)), rng.integers(0, 2, 20))
    with pytest.raises(RuntimeError, match="no such distance"):
        est.value([[0.5], [9.0]], [0, 1])


def test_from_several_threads_at_once(rng):
    from concurrent.futures import ThreadPoolExecutor

    X, y, X_val, y_val = make(rng, "random", "ten classes")
    est = nw.KNNShapley(5).fit(X, y)
    expected = est.value(X_val, y_val).values
    with ThreadPoolExecutor(4) as pool:
        for v in pool.map(lambda _: est.value(X_val, y_val), range(8)):
            np.testing.assert_array_equal(v.values, expected)


@pytest.mark.parametrize("utility", ["soft", "original"])
@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", ("beta", 4, 1), "loo"])
@pytest.mark.parametrize("data", DATA)
def test_regression_loops_against_the_vectorised_formula(data, utility, semivalue, rng):
    X, X_val = np.split(DATA[data](rng, N + N_VAL), [N])
    y, y_val = rng.normal(size=N) + 3, rng.normal(size=N_VAL) + 3
    est = nw.KNNShapley(6, task="regression", utility=utility, semivalue=semivalue).fit(X, y)
    training = est._training
    ranking = rank(training.keys(np.asarray(X_val, dtype=float)), "average")
    parameters = {"n_neighbors": 6, "utility": utility, "semivalue": semivalue, "n_classes": None}
    ranked = training.game(parameters, N).values(y[ranking.order], y_val, TieBlocks(ranking.first))
    values = np.empty_like(ranked)
    np.put_along_axis(values, ranking.order, ranked, axis=1)
    expected = values.mean(axis=0)
    scale = max(np.abs(expected).max(), np.abs(values).max() * 1e-3)
    np.testing.assert_allclose(est.value(X_val, y_val).values, expected, rtol=0, atol=1e-12 * scale)
