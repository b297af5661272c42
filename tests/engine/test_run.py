"""Memory, batches, progress."""

from __future__ import annotations

import signal
import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

import nearworth as nw
from nearworth.engine import plan
from nearworth.engine.classify import ClassificationEvaluator


@pytest.fixture
def problem(rng):
    return (
        rng.integers(0, 9, (500, 3)),
        rng.integers(0, 3, 500),
        rng.integers(0, 9, (200, 3)),
        rng.integers(0, 3, 200),
    )


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize(
    "metric", ["euclidean", "cosine", "correlation", "manhattan", "mahalanobis"]
)
def test_the_budget_never_shows_in_the_values(problem, task, metric):
    X, y, X_val, y_val = problem
    params = {"VI": np.linalg.inv(np.cov(X.T))} if metric == "mahalanobis" else None
    est = nw.KNNShapley(
        5, task=task, metric=metric, metric_params=params, standard_errors=True
    ).fit(X, y)
    expected = est.value(X_val, y_val)
    batches = set()
    for budget in ("320kB", "450kB", "700kB", "1MB", "1GB"):
        est.set_params(max_memory=budget)
        batches.add(est.plan(200).batch)
        v = est.value(X_val, y_val)
        np.testing.assert_array_equal(v.values, expected.values)
        np.testing.assert_array_equal(v.standard_errors, expected.standard_errors)
    assert len(batches) >= 3


@pytest.mark.parametrize("standard_errors", [False, True])
@pytest.mark.parametrize("semivalue", ["shapley", ("beta", 4, 1)])
@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    ("n", "budget"), [(20_000, 20_000_000), (3_000, 60_000_000), (60_000, 60_000_000)]
)
def test_max_memory_is_kept(rng, task, semivalue, standard_errors, tied, n, budget):
    X = rng.normal(size=(n, 2))
    X_val = rng.normal(size=(150, 2))
    if tied:
        X = np.round(X)
        X_val = np.round(X_val)
    est = nw.KNNShapley(
        5, task=task, semivalue=semivalue, standard_errors=standard_errors, max_memory=budget
    )
    est.fit(X, rng.integers(0, 3, n))
    y_val = rng.integers(0, 3, 150)
    est.value(X_val[:10], y_val[:10])  # imports and compilation are not our work
    tracemalloc.start()
    try:
        est.value(X_val[: 150 if n < 50_000 else 5], y_val[: 150 if n < 50_000 else 5])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < budget


@pytest.mark.parametrize(
    "parameters", [{}, {"task": "regression"}, {"n_candidates": 9}, {"metric": "cosine"}]
)
@pytest.mark.parametrize("standard_errors", [False, True])
def test_small_problems_start_no_thread_and_have_the_same_bits(
    rng, monkeypatch, parameters, standard_errors
):
    X = rng.integers(0, 5, (40, 3))
    y = rng.integers(0, 3, 40)
    est = nw.KNNShapley(5, standard_errors=standard_errors, **parameters).fit(X, y)
    T = rng.integers(0, 5, (300, 3))
    t = rng.integers(0, 3, 300)
    asked = [(T, t), ()]
    with monkeypatch.context() as patch:
        patch.setattr("nearworth.engine.plan.MIN_THREAD_OPERATIONS", 0)
        patch.setattr("nearworth.engine.run.has_quick_leaves", lambda _problem: False)
        threaded = [est.set_params(n_jobs=jobs).value(*each) for each in asked for jobs in (1, 3)]
    monkeypatch.setattr(
        "threading.Thread.start", lambda _thread: pytest.fail("a thread was started")
    )
    here = [est.set_params(n_jobs=None).value(*each) for each in asked for _ in range(2)]
    for one, other in zip(here, threaded, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.standard_errors, other.standard_errors)


def test_an_error_in_a_leaf_is_raised_with_and_without_threads(rng, monkeypatch):
    def metric(a, b):
        return np.nan if 7.0 in (a[0], b[0]) else 1.0

    X = rng.integers(0, 5, (40, 3))
    y = rng.integers(0, 2, 40)
    est = nw.KNNShapley(metric=metric).fit(X, y)
    T = np.vstack([X, [[7, 0, 0]]])
    for quick in (True, False):
        monkeypatch.setattr(
            "nearworth.engine.run.has_quick_leaves", lambda _problem, quick=quick: quick
        )
        with pytest.raises(ValueError, match="gives NaN"):
            est.value(T, np.zeros(41, dtype=int))


def test_progress_function(problem):
    X, y, X_val, y_val = problem
    steps = []
    nw.KNNShapley(progress=lambda done, total: steps.append((done, total))).fit(X, y).value(
        X_val, y_val
    )
    assert steps[-1] == (200, 200)
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})


def test_progress_bar_on_request_and_silence_otherwise(problem, capfd):
    X, y, X_val, y_val = problem
    nw.KNNShapley().fit(X, y).value(X_val, y_val)
    nw.KNNShapley(progress=False).fit(X, y).value(X_val, y_val)
    assert capfd.readouterr() == ("", "")
    nw.KNNShapley(progress=True).fit(X, y).value(X_val, y_val)
    out, err = capfd.readouterr()
    assert out == ""
    assert "200/200" in err


def test_plan_prints_itself(problem):
    X, y, _, _ = problem
    text = str(nw.KNNShapley(max_memory="1MB").fit(X, y).plan(1_000))
    assert "1,000 validation points against 500 training points" in text
    assert "MB beyond the inputs at most" in text


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GB", 2 * 10**9), ("1.5 MiB", 3 * 2**19), ("500kb", 500_000), ("700", 700), (4096, 4096)],
)
def test_sizes(text, size):
    from nearworth.inputs.parameters import parse_bytes

    assert parse_bytes("max_memory", text) == size


LONG_RUN = """
import numpy as np, nearworth as nw
rng = np.random.default_rng(0)
X, y = rng.normal(size=(100_000, 16)), rng.integers(0, 5, 100_000)
est = nw.KNNShapley(5, progress=lambda done, total: print(done, flush=True)).fit(X, y)
est.value(X[:20_000], y[:20_000])
"""


def test_control_c_stops_soon():
    """Most of twenty thousand queries are never valued after an interruption."""
    process = subprocess.Popen(
        [sys.executable, "-c", LONG_RUN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()  # the first batch is done, the threads are at work
    process.send_signal(signal.SIGINT)
    done, errors = process.communicate()
    assert "KeyboardInterrupt" in errors
    assert max(map(int, done.split()), default=0) < 20_000 / 2


RESIDENT = """
import resource, sys
import numpy as np, nearworth as nw
rng = np.random.default_rng(0)
X, y = rng.normal(size=(200_000, 32)), rng.integers(0, 5, 200_000)
X_val, y_val = rng.normal(size=(256, 32)), rng.integers(0, 5, 256)
est = nw.KNNShapley(5, max_memory="200MB", task=sys.argv[1], standard_errors=True).fit(X, y)
small = nw.KNNShapley(5, task=sys.argv[1], standard_errors=True).fit(X[:5_000], y[:5_000])
small.value(X_val, y_val)  # imports
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
est.value(X_val, y_val)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_resident_memory_stays_within_the_budget(task):
    done = subprocess.run(
        [sys.executable, "-c", RESIDENT, task], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) < 200_000_000


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32, ">f8"])
@pytest.mark.parametrize(
    "metric", ["euclidean", "cosine", "inner_product", "manhattan", "nan_euclidean"]
)
def test_inputs_are_read_in_blocks_and_never_copied(rng, tmp_path, dtype, metric):
    """Conversions of type and geometry are part of the promise, here on a file that is mapped into
    memory.
    """
    n = 40_000
    width = 96
    budget = 24_000_000
    X = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=dtype, shape=(n, width))
    X[:] = (10 * rng.normal(size=(n, width))).astype(dtype)
    y = rng.integers(0, 3, n)
    X_val = np.asarray(X[:10], dtype=np.float64) + 0.5
    y_val = rng.integers(0, 3, 10)
    nw.knn_shapley(X[:2_500], y[:2_500], X_val, y_val, metric=metric)  # imports
    tracemalloc.start()
    try:
        nw.KNNShapley(5, metric=metric, max_memory=budget, n_jobs=1).fit(X, y).value(X_val, y_val)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < budget < 8 * n * width


@pytest.mark.parametrize("scale", [1e-180, 1e140])
def test_extreme_numbers_keep_the_promise(rng, scale):
    X = scale * rng.normal(size=(20_000, 64))
    y = rng.integers(0, 3, 20_000)
    X_val = rng.normal(size=(5, 64))
    y_val = [0] * 5
    est = nw.KNNShapley(5, max_memory=9_000_000, n_jobs=1).fit(X, y)
    est.value(scale * X_val, y_val)
    tracemalloc.start()
    try:
        est.value(scale * X_val, y_val)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 9_000_000


def test_very_wide_rows(rng):
    """A few copies of the queries are part of the work."""
    X = rng.normal(size=(40, 100_000)).astype(np.float32)
    y = rng.integers(0, 2, 40)
    est = nw.KNNShapley(3, max_memory="60MB", n_jobs=1).fit(X, y)
    expected = nw.KNNShapley(3).fit(X, y).value(X[:20], y[:20]).values
    tracemalloc.start()
    try:
        values = est.value(X[:20], y[:20]).values
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60_000_000
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize(
    "of_pair", [1e-9, 1e-5]
)  # seconds; of the latter the trial takes only a few
def test_the_predicted_time_is_in_proportion_to_the_pairs(rng, monkeypatch, of_pair):
    """By a clock that goes on with every pair of a query and a row, and stands still otherwise."""
    valued = 0
    add = ClassificationEvaluator.add

    def counted(*arguments):
        nonlocal valued
        for n_queries in add(*arguments):
            valued += n_queries
            yield n_queries

    monkeypatch.setattr(ClassificationEvaluator, "add", counted)
    monkeypatch.setattr(
        plan, "time", SimpleNamespace(perf_counter=lambda: valued * 2_000 * of_pair)
    )
    X = rng.normal(size=(2_000, 16))
    y = rng.integers(0, 4, 2_000)
    est = nw.KNNShapley(5, n_jobs=1).fit(X, y)
    assert est.plan(1_024).seconds == pytest.approx(2_000 * 1_024 * of_pair)
    assert est.plan(10**6).seconds == pytest.approx(2_000 * 10**6 * of_pair)
    assert est.plan(1_024, n_train=10**6).seconds == pytest.approx(10**6 * 1_024 * of_pair)
    assert valued <= 3 * (64 + 2)  # the trials, each with two queries to warm up
    assert "second" in str(est.plan(1))


@pytest.mark.parametrize(
    "parameters", [{"metric": "precomputed"}, {"task": "regression"}, {"metric": "manhattan"}]
)
def test_every_kind_of_question_has_a_plan(rng, parameters):
    X = rng.random((50, 50))
    y = rng.integers(0, 4, 50)
    assert nw.KNNShapley(5, **parameters).fit(X, y).plan(100).seconds > 0
    assert nw.KNNShapley(5, metric="precomputed").fit(None, y).plan(100).seconds > 0
