"""Regression: compiled order and closed form against numpy, on keys that are hard to order."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import nearworth as nw
from helpers.variants import run_variant, variants_here
from nearworth._common import native
from nearworth.engine.evaluators import evaluators_of
from nearworth.engine.plan import Method
from nearworth.engine.regress import RegressionEvaluator
from nearworth.engine.run import NearestLists, Request
from nearworth.games.regression import RegressionGame
from nearworth.games.ties import TieBlocks
from nearworth.results.sums import Leaf

N = 700
needs_library = pytest.mark.skipif(not native.available(), reason="the C library is not built")


def random(rng, shape):
    return rng.random(shape)


def one_cell(rng, shape):
    """All but two keys differ by less than any cell is wide."""
    keys = 1.0 + 1e-13 * rng.integers(0, 500, shape)
    keys[:, :2] = 1e-140, 1e140
    return keys


KEYS = {
    "random": random,
    "all equal": lambda rng, shape: np.ones(shape),
    "all zero": lambda rng, shape: np.zeros(shape),
    "few values": lambda rng, shape: rng.integers(0, 4, shape).astype(float),
    "pairs": lambda rng, shape: rng.integers(0, shape[1], shape).astype(float),
    "both zeros": lambda rng, shape: rng.choice([-0.0, 0.0, 5e-324], shape),  # with a cell for each
    "ascending": lambda rng, shape: np.sort(rng.random(shape), axis=1),
    "descending": lambda rng, shape: -np.sort(-rng.random(shape), axis=1),
    "one cell": one_cell,
    "any size": lambda rng, shape: 2.0 ** rng.uniform(-1000, 450, shape),
    "one far": lambda rng, shape: np.where(np.arange(shape[1]) == 3, 1e140, rng.random(shape)),
    "subnormal": lambda rng, shape: 5e-324 * rng.integers(0, 1000, shape),
    "neighbouring floats": lambda rng, shape: 1.0 + 2.0**-52 * rng.integers(0, 300, shape),
    "negative": lambda rng, shape: -rng.random(shape),
    "both signs": lambda rng, shape: rng.normal(size=shape).round(2),
}


def reference(keys, y, y_val, ties, *parameters):
    """Values of each query, (Q, N), by numpy alone."""
    rows = np.broadcast_to(np.arange(keys.shape[1]), keys.shape)
    order = np.lexsort((rows, keys))
    ranked = np.take_along_axis(keys, order, axis=1)
    first = np.ones(keys.shape, dtype=bool)
    if ties == "average":
        first[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    by_rank = RegressionGame(keys.shape[1], *parameters).values(y[order], y_val, TieBlocks(first))
    values = np.empty(keys.shape)
    np.put_along_axis(values, order, by_rank, axis=1)
    return values


def close(values, expected):
    np.testing.assert_allclose(
        values, expected, rtol=0, atol=1e-13 * max(1.0, np.abs(expected).max())
    )


def estimator(k=5, **parameters):
    return nw.KNNShapley(k, "regression", metric="precomputed", **parameters)


@pytest.fixture(params=["compiled", "numpy"])
def form(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(native, "library", lambda: None)
    elif not native.available():
        pytest.skip("the C library is not built")


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("ties", ["average", "index"])
@pytest.mark.parametrize("utility", ["soft", "original"])
@pytest.mark.parametrize("keys", KEYS)
def test_hostile_keys(keys, utility, ties, rng):
    D = KEYS[keys](rng, (5, N))
    y = rng.normal(size=N) + 2
    y_val = rng.normal(size=5) + 1
    est = estimator(utility=utility, ties=ties).fit(None, y)
    v = est.value(D, y_val, contributions=range(N))
    expected = reference(D, y, y_val, ties, 5, utility)
    close(v.contributions, expected)
    close(v.values, expected.mean(axis=0))
    np.testing.assert_array_equal(est.value(D, y_val).values, v.values)  # in blocks of queries


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("utility", ["soft", "original"])
@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", ("beta", 4, 1), "loo"])
@pytest.mark.parametrize(
    ("n", "k"), [(1, 1), (1, 5), (2, 1), (2, 5), (3, 2), (24, 30), (25, 3), (60, 60)]
)
def test_few_points(n, k, semivalue, utility, rng):
    y = rng.normal(size=n)
    y_val = rng.normal(size=40)
    D = rng.integers(0, 1 + n // 2, (40, n)).astype(float)
    v = estimator(k, utility=utility, semivalue=semivalue).fit(None, y).value(D, y_val)
    close(v.values, reference(D, y, y_val, "average", k, utility, semivalue).mean(axis=0))


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("ties", ["average", "index"])
@pytest.mark.parametrize("keys", ["random", "all equal", "few values", "one cell"])
def test_a_point_takes_no_part_in_its_own_game(keys, ties, rng):
    n = 60
    D = KEYS[keys](rng, (n, n))
    y = rng.normal(size=n)
    np.fill_diagonal(D, 0.0 if keys == "random" else np.diag(D))
    v = estimator(ties=ties).fit(D, y).value(contributions=range(n))
    expected = np.zeros((n, n))
    for t in range(n):
        others = np.arange(n) != t
        expected[t, others] = reference(D[t : t + 1, others], y[others], y[t : t + 1], ties, 5)[0]
    close(v.contributions, expected)
    close(v.values, expected.mean(axis=0))
    assert not np.diag(v.contributions).any()
    np.testing.assert_array_equal(
        estimator(ties=ties).fit(D, y).value().values, v.values
    )  # in blocks of queries


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("offset", [0, 1e4])
def test_distances_far_from_the_origin(offset, dtype, rng):
    X = (rng.normal(scale=30, size=(N, 3)).round(1) + offset).astype(dtype)
    X[::5] = X[3]
    y = rng.normal(size=N)
    X_val = X[:9] + dtype(1)
    y_val = rng.normal(size=9)
    X64 = X.astype(float)
    V64 = X_val.astype(float)
    keys = ((V64[:, None] - X64[None]) ** 2).sum(axis=2)
    v = nw.KNNShapley(4, "regression").fit(X, y).value(X_val, y_val)
    close(v.values, reference(keys, y, y_val, "average", 4).mean(axis=0))


@needs_library
@pytest.mark.parametrize("keys", ["random", "few values", "one cell"])
@pytest.mark.parametrize("utility", ["soft", "original"])
def test_blocks_of_queries_do_not_show(keys, utility, rng):
    """Sums made in compiled code, for blocks of any size, have the bits of sums over single
    queries.
    """
    D = KEYS[keys](rng, (70, N))
    y = rng.normal(size=N)
    y_val = rng.normal(size=70)
    weights = rng.random(70)
    est = estimator(utility=utility).fit(None, y)
    expected = est.value(D, y_val, weights).values
    spread = estimator(utility=utility, standard_errors=True).fit(None, y).value(D, y_val, weights)
    np.testing.assert_array_equal(spread.values, expected)
    problem = est.training_set_.problem(D, y_val, weights, est.get_params())
    for batch in (1, 3, 64):
        leaf = Leaf(N, spread=False)
        done = list(RegressionEvaluator(problem, batch).add(leaf, 0, 64, Request()))
        done += list(RegressionEvaluator(problem, batch).add(leaf, 64, 70, Request()))
        assert sum(done) == 70 == leaf.numbers[0]
        first = leaf.moments()
        one = Leaf(N, spread=True)
        list(RegressionEvaluator(problem, batch).add(one, 0, 70, Request(spread=True)))
        np.testing.assert_array_equal(first.total, one.moments().total)


def test_variants_give_the_same_bits(tmp_path):
    code = """
import nearworth as nw
rng = np.random.default_rng(0)
X, y = rng.integers(-4, 5, (3000, 5)) / 3, rng.normal(size=3000)
Z, X_val, y_val = rng.normal(size=(3000, 20)), rng.normal(size=(80, 20)), rng.normal(size=80)
for utility in ("soft", "original"):
    est = nw.KNNShapley(5, "regression", utility=utility)
    results[f"ties, {utility}"] = est.fit(X, y).value(X[:80] + 1, y_val).values
    results[f"no ties, {utility}"] = est.fit(Z, y).value(X_val, y_val).values
    results[f"itself, {utility}"] = est.fit(X[:300], y[:300]).value().values
"""
    readable, *compiled = [run_variant(name, code, tmp_path) for name in variants_here()]
    assert len(readable) == 6
    for found in compiled:
        for name, values in readable.items():
            np.testing.assert_array_equal(found[name], compiled[0][name])
            close(found[name], values)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("keys", ["random", "all equal", "few values", "pairs"])
def test_nearest_lists(keys, rng):
    D = KEYS[keys](rng, (6, 80))
    y = rng.normal(size=80)
    est = estimator().fit(None, y)
    problem = est.training_set_.problem(D, np.zeros(6), None, est.get_params())
    lists = NearestLists(6, 7)
    evaluator = evaluators_of(Method(), problem, est.plan(6))()
    assert list(evaluator.add(Leaf(80, spread=False), 0, 6, Request(nearest=lists))) == [1] * 6
    for row, found, found_keys in zip(D, lists.found.rows, lists.found.keys, strict=True):
        order = np.lexsort((np.arange(80), row))
        size = 7 if row[order[6]] < row[order[7]] else np.count_nonzero(row < row[order[7]])
        if size:
            assert set(found[:size].tolist()) == set(order[:size].tolist())
        np.testing.assert_array_equal(found_keys[:size], row[order[:size]])
        np.testing.assert_array_equal(row[found[found >= 0]], found_keys[found >= 0])


@pytest.mark.usefixtures("form")
@pytest.mark.filterwarnings("ignore:X_val. 45 of 45 rows are training rows")
def test_arrays_of_any_layout(rng):
    table = rng.normal(size=(90, 6))
    X = table[::-1, 1:5:2]
    y = table[:, 0]
    weights = np.abs(table[:, 5])
    plain = [np.ascontiguousarray(part) for part in (X, y, weights)]
    for metric in ("euclidean", "manhattan", lambda a, b: abs(a - b).max()):
        est = nw.KNNShapley(3, "regression", metric=metric)
        v = est.fit(X, y).value(X[::2], y[::2], weights[::2])
        expected = est.fit(*plain[:2]).value(*(part[::2].copy() for part in plain))
        np.testing.assert_array_equal(v.values, expected.values)


@needs_library
def test_a_leaf_continued_elsewhere(rng):
    """Sums over a few queries, continued by another evaluator, are those over all."""
    D = rng.random((130, 50))
    y = rng.normal(size=50)
    y_val = rng.normal(size=130)
    whole = estimator().fit(None, y).value(D, y_val)
    part = estimator().fit(None, y).value(D[:70], y_val[:70])
    more = estimator().fit(None, y).value(D[70:], y_val[70:], continue_from=part)
    np.testing.assert_array_equal(more.values, whole.values)


def allocated(make):
    """Bytes that stay of what is made, and the peak meanwhile."""
    tracemalloc.start()
    try:
        made = make()
        return (*tracemalloc.get_traced_memory(), made)[:2]
    finally:
        tracemalloc.stop()


@needs_library
def test_memory_is_stated(rng):
    n = 50_000
    D = rng.random((20, n))
    y = rng.normal(size=n)
    est = estimator().fit(None, y)
    problem = est.training_set_.problem(D, np.zeros(20), None, est.get_params())
    stated = RegressionEvaluator.memory(n)
    stays, _ = allocated(lambda: RegressionEvaluator(problem, 20))
    assert stays <= stated.per_thread + 10_000
    assert stated.per_thread <= 1.1 * stays
    leaf = Leaf(n, spread=False)
    evaluator = RegressionEvaluator(problem, 20)
    _, peak = allocated(lambda: list(evaluator.add(leaf, 0, 20, Request())))
    assert peak <= 20 * stated.per_query + 10_000


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("standard_errors", [False, True])
def test_the_plan_is_an_upper_bound(standard_errors, rng):
    n = 50_000
    X = rng.normal(size=(n, 3))
    y = rng.normal(size=n)
    X_val = rng.normal(size=(12, 3))
    y_val = rng.normal(size=12)
    est = nw.KNNShapley(
        5, "regression", n_jobs=1, standard_errors=standard_errors, max_memory="80MB"
    ).fit(X, y)
    est.value(X_val[:2], y_val[:2])
    planned = est.plan(12).working_bytes
    _, peak = allocated(lambda: est.value(X_val, y_val))
    assert peak <= planned <= 80_000_000
    assert planned <= 4 * peak
