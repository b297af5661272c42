"""The fast engine against the plain formulas, on data made to trip it."""

from __future__ import annotations

import time

import numpy as np
import pytest

import nearworth as nw
from nearworth._common import native
from nearworth.engine import classify
from nearworth.engine import plan as planning
from nearworth.games.ties import TieBlocks
from nearworth.neighbors.searchers import Neighbours

N = 3_000
N_VAL = 12
D = 6


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
    "one float apart": lambda rng, n: (
        np.cumsum(np.full((n, D), np.spacing(1.0)), axis=0)[rng.permutation(n)] + 1.0
    ),
    "huge range": lambda rng, n: np.exp(rng.uniform(-40, 40, (n, D))),
    "one outlier": lambda rng, n: np.where(
        np.arange(n)[:, None] == 5, 1e9, rng.normal(size=(n, D))
    ),
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


def ranked_points(training, X_val, ties):
    """Training points nearest first, and the blocks of tied ranks."""
    keys = training.keys(np.asarray(X_val, dtype=float))
    order = np.argsort(keys, axis=1, kind="stable")
    return order, TieBlocks(Neighbours(order, np.take_along_axis(keys, order, axis=1)).starts(ties))


def plain(est, X_val, y_val, k, utility="soft", semivalue="shapley", ties="average"):
    """The closed form on fully sorted exact distances."""
    training = est.training_set_
    parameters = {"n_neighbors": k, "utility": utility, "semivalue": semivalue, "n_classes": None}
    order, blocks = ranked_points(training, X_val, ties)
    codes, _ = training.classes.encode(y_val, "y_val", len(y_val))
    game = training.game(parameters, training.n_rows)
    ranked = game.values(training.labels[order], codes, blocks)
    values = np.empty_like(ranked)
    np.put_along_axis(values, order, ranked, axis=1)
    return values.mean(axis=0)


@pytest.mark.filterwarnings("ignore:y_val has")
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("data", DATA)
def test_products_and_differences_agree_to_the_bit_and_with_the_formula(
    data, labels, rng, monkeypatch
):
    X, y, X_val, y_val = make(rng, data, labels)
    est = nw.KNNShapley(5, standard_errors=True).fit(X, y)
    assert est.plan(N_VAL).products
    fast = est.value(X_val, y_val)
    monkeypatch.setattr(planning, "MIN_PRODUCT_POINTS", 10**9)
    assert not est.plan(N_VAL).products
    slow = est.value(X_val, y_val)
    np.testing.assert_array_equal(fast.values, slow.values)
    np.testing.assert_array_equal(fast.standard_errors, slow.standard_errors)
    expected = plain(est, X_val, y_val, 5)
    np.testing.assert_allclose(
        fast.values, expected, rtol=0, atol=1e-14 * np.abs(expected).max() + 1e-17
    )


@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", "loo", ("beta", 4, 1), ("beta", 1, 4)])
@pytest.mark.parametrize("ties", ["average", "index"])
@pytest.mark.parametrize("utility", ["soft", "original"])
@pytest.mark.parametrize("data", ["random", "standardised grid", "duplicated"])
def test_every_game(data, utility, ties, semivalue, rng):
    X, y, X_val, y_val = make(rng, data, "two classes")
    est = nw.KNNShapley(7, utility=utility, ties=ties, semivalue=semivalue).fit(X, y)
    values = est.value(X_val, y_val).values
    expected = plain(est, X_val, y_val, 7, utility, semivalue, ties)
    np.testing.assert_allclose(
        values, expected, rtol=0, atol=1e-14 * np.abs(expected).max() + 1e-17
    )


@pytest.mark.parametrize("n", [1, 2, 3, 50, 2_047, 2_048, 40_000, 300_000])
def test_sizes(n, rng):
    X = rng.normal(size=(n, 3))
    y = rng.integers(0, 4, n)
    X_val = rng.normal(size=(9, 3))
    y_val = rng.choice(y, 9)
    est = nw.KNNShapley(5).fit(X, y)
    expected = plain(est, X_val, y_val, 5)
    np.testing.assert_allclose(
        est.value(X_val, y_val).values,
        expected,
        rtol=0,
        atol=1e-14 * np.abs(expected).max() + 1e-17,
    )


@pytest.mark.parametrize("most_ambiguous", [-1.0, 0.001, 0.02, 1.0])
@pytest.mark.parametrize("data", DATA)
def test_both_precisions_of_the_product(data, most_ambiguous, rng, monkeypatch):
    """Narrow throughout, wide after the first query, or anything between: the same bits."""
    X, y, X_val, y_val = make(rng, data, "two classes")
    est = nw.KNNShapley(5).fit(X, y)
    expected = est.value(X_val, y_val).values
    monkeypatch.setattr(classify, "MAX_AMBIGUOUS_SHARE", most_ambiguous)
    np.testing.assert_array_equal(est.value(X_val, y_val).values, expected)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_threads_and_budgets_do_not_show(task, rng):
    X = rng.normal(size=(2_500, 5))
    y = rng.integers(0, 3, 2_500)
    X_val = rng.normal(size=(300, 5))
    y_val = rng.integers(0, 3, 300)
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
        alone = nw.knn_shapley(X[keep], y[keep], X[t : t + 1], y[t : t + 1], n_neighbors=5)
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
    y = rng.normal(size=N) + 3
    y_val = rng.normal(size=N_VAL) + 3
    est = nw.KNNShapley(6, task="regression", utility=utility, semivalue=semivalue).fit(X, y)
    training = est.training_set_
    order, blocks = ranked_points(training, X_val, "average")
    parameters = {"n_neighbors": 6, "utility": utility, "semivalue": semivalue, "n_classes": None}
    ranked = training.game(parameters, N).values(y[order], y_val, blocks)
    values = np.empty_like(ranked)
    np.put_along_axis(values, order, ranked, axis=1)
    expected = values.mean(axis=0)
    scale = max(np.abs(expected).max(), np.abs(values).max() * 1e-3)
    np.testing.assert_allclose(est.value(X_val, y_val).values, expected, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("scale", [1e-320, 1e-307, 1e-305, 1e-300, 1e-200, 1.0, 1e100, 1e149])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_distances_of_any_size(scale, offset, rng):
    """Given distances from the edge of underflow to the largest allowed."""
    D = scale * (offset + rng.random((8, 60)))
    y = rng.integers(0, 2, 60)
    D[:, ::7] = D[:, :1]
    y_val = rng.integers(0, 2, 8)
    ranks = np.array([np.unique(row, return_inverse=True)[1] for row in D], dtype=float)
    expected = nw.knn_shapley(None, y, ranks, y_val, n_neighbors=3, metric="precomputed")
    np.testing.assert_array_equal(
        nw.knn_shapley(None, y, D, y_val, n_neighbors=3, metric="precomputed"), expected
    )


def test_distances_at_the_edge_of_overflow():
    far = {0.0: 1e308, 1.0: 1.1e308, 2.0: 1.2e308, 3.0: 1.3e308, 4.0: 1.7e308, 5.0: 0.0}
    X = np.arange(6.0)[:, None]
    y = [0, 1, 0, 1, 0, 1]
    ranks = [[1, 2, 3, 4, 5, 0]]
    for label in (0, 1):
        expected = nw.knn_shapley(None, y, ranks, [label], n_neighbors=2, metric="precomputed")
        values = nw.knn_shapley(
            X, y, [[9.0]], [label], n_neighbors=2, metric=lambda a, b: far[min(a[0], b[0])]
        )
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">i8", "<f4", "f2", "i1"])
@pytest.mark.parametrize("n", [50, 3_000])
def test_any_byte_order_and_width(dtype, n, rng):
    X = (
        rng.integers(-50, 50, (n, 3)).astype(dtype)
        if "f8" not in dtype
        else (1e4 + 1e-3 * rng.normal(size=(n, 3))).astype(dtype)
    )
    T = X[:9].astype(float) + 0.25e-3
    y = rng.integers(0, 2, n)
    y_val = rng.integers(0, 2, 9)
    np.testing.assert_array_equal(
        nw.knn_shapley(X, y, T, y_val), nw.knn_shapley(X.astype(np.float64), y, T, y_val)
    )


def test_tiny_numbers_take_the_same_ranks_on_every_path(rng):
    X = rng.normal(size=(3_000, 2)) * 1e-165
    X[0] = 1e-95
    T = rng.normal(size=(16, 2)) * 1e-165
    y = rng.integers(0, 2, 3_000)
    y_val = rng.integers(0, 2, 16)
    est = nw.KNNShapley(5).fit(X, y)
    few_at_a_time = np.average(
        [est.value(T[s], y_val[s]).values for s in (slice(7), slice(7, 14), slice(14, 16))],
        axis=0,
        weights=[7, 7, 2],
    )
    np.testing.assert_allclose(est.value(T, y_val).values, few_at_a_time, rtol=0, atol=1e-17)


def test_overlapping_runs_give_the_blas_its_threads_back(rng):
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_info, threadpool_limits

    def blas_threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    X, y, X_val, y_val = make(rng, "random", "ten classes")
    est = nw.KNNShapley(5).fit(X, y)

    def value_repeated(n_times):
        est.value(np.tile(X_val, (n_times, 1)), np.tile(y_val, n_times))

    # More than one thread, else nothing could be lost.
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(value_repeated, [1, 9, 3, 14, 2, 5]))
        assert blas_threads() == before


def test_a_thread_that_cannot_start_says_so(rng, monkeypatch):
    import threading

    X = rng.normal(size=(500, 2))
    y = rng.integers(0, 2, 500)
    est = nw.KNNShapley(n_jobs=3).fit(X, y)
    real = threading.Thread.start
    started = []

    def start(self):
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(self)
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        est.value(rng.normal(size=(400, 2)), rng.integers(0, 2, 400))
    assert not any(thread.is_alive() for thread in started)


def test_a_slow_listener_does_not_let_work_pile_up(rng, monkeypatch):
    """While somebody thinks about the first report, the workers fill the box of messages and then
    wait.
    """
    from nearworth.engine import run as running

    begin = running.Request.leaf
    begun = []
    seen = []

    def counted(self, n_train):
        begun.append(n_train)
        return begin(self, n_train)

    def slow(done, total):
        if not seen:
            time.sleep(1.0)
            seen.append(len(begun))

    monkeypatch.setattr(running.Request, "leaf", counted)
    X = rng.normal(size=(300, 2))
    y = rng.integers(0, 2, 300)
    est = nw.KNNShapley(n_jobs=2, progress=slow).fit(X, y)
    est.value(rng.normal(size=(6_400, 2)), rng.integers(0, 2, 6_400))
    assert len(begun) == 100
    assert seen[0] <= 12


@pytest.mark.parametrize("metric", ["cosine", "correlation", "inner_product"])
@pytest.mark.parametrize(
    "data", ["random", "grid", "far from the origin", "duplicated", "bytes", "one outlier"]
)
def test_products_of_other_metrics(data, metric, rng, monkeypatch):
    """Through a matrix product or pair by pair: the same bits, with ties where the definition has
    them.
    """
    X, y, X_val, y_val = make(rng, data, "ten classes")
    if metric != "inner_product":
        X = X.astype(float)
        X_val = X_val.astype(float)
        X[:, 0] += 1  # nobody without a direction
        X_val[:, 0] += 1
    est = nw.KNNShapley(5, metric=metric).fit(X, y)
    fast = est.value(X_val, y_val).values
    slow = None
    monkeypatch.setattr(planning, "MIN_PRODUCT_POINTS", 10**9)
    slow = est.value(X_val, y_val).values
    np.testing.assert_array_equal(fast, slow)
    expected = plain(est, X_val, y_val, 5)
    np.testing.assert_allclose(fast, expected, rtol=0, atol=1e-14 * np.abs(expected).max() + 1e-17)


def test_inner_product_ranks_by_similarity(rng):
    X, y, X_val, y_val = make(rng, "random", "two classes")
    values = nw.knn_shapley(X, y, X_val, y_val, n_neighbors=5, metric="inner_product")
    expected = nw.KNNShapley(5, metric="precomputed").fit(None, y).value(-X_val @ X.T, y_val).values
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-16)


def test_the_distances_for_a_tie_grow_with_its_size_not_with_its_square(monkeypatch):
    """All points at one distance: what the kernel says it took, not seconds."""
    call = native.call
    taken = []

    def counted(name, *arguments, **named):
        result = call(name, *arguments, **named)
        if name == "classify_block":
            taken.append(result)
        return result

    monkeypatch.setattr(native, "call", counted)
    for n in (100, 800):
        nw.KNNShapley(2, metric="precomputed", n_jobs=1).fit(None, np.arange(n) % 2).value(
            np.zeros((1, n)), [0]
        )
    assert taken == [100, 800]


CERTIFIED = [
    {},
    {"utility": "original"},
    {"semivalue": "banzhaf"},
    {"semivalue": ("beta", 4, 1)},
    {"ties": "index"},
]


@pytest.mark.filterwarnings("ignore:y_val has")
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("data", DATA)
def test_certified_values(data, labels, rng):
    """No value is farther from the exact one than its certificate says, and that keeps what was
    asked for.
    """
    X, y, X_val, y_val = make(rng, data, labels)
    for parameters in CERTIFIED:
        for asked in (
            ((X_val, y_val), ())
            if not parameters and data in ("random", "grid")
            else ((X_val, y_val),)
        ):
            exact = nw.KNNShapley(5, **parameters).fit(X, y).value(*asked)
            for max_error in (1e-2, 1e-4):
                v = nw.KNNShapley(5, max_error=max_error, **parameters).fit(X, y).value(*asked)
                rounding = 1e-13 * np.abs(exact.values).max()
                assert v.error_bound <= max_error
                assert np.abs(v.values - exact.values).max() <= v.error_bound + rounding
                assert (v.lower - rounding <= exact.values).all()
                assert (exact.values <= v.upper + rounding).all()


def test_certified_values_use_their_freedom_and_are_the_same_for_any_threads(rng):
    X, y, X_val, y_val = make(rng, "random", "ten classes")
    X_val = np.repeat(X_val, 12, axis=0)
    y_val = np.repeat(y_val, 12)
    exact = nw.KNNShapley(5).fit(X, y).value(X_val, y_val).values
    one, two = (
        nw.KNNShapley(5, max_error=1e-3, n_jobs=n).fit(X, y).value(X_val, y_val) for n in (1, 2)
    )
    assert np.abs(one.values - exact).max() > 0
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.upper, two.upper)
    spread = nw.KNNShapley(5, max_error=1e-3, standard_errors=True).fit(X, y).value(X_val, y_val)
    np.testing.assert_array_equal(spread.values, one.values)
    assert spread.error_bound == one.error_bound
