"""The same bits on threads, processes and a cluster."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse

import nearworth as nw
from helpers.runs import (
    KINDS,
    InlineExecutor,
    InterruptedByUserError,
    assert_same_valuation,
    bad_metric,
    data,
    interrupt_after,
)
from nearworth.engine import cluster


@pytest.mark.parametrize("kind", KINDS)
def test_any_executor_gives_the_same_bits(kind, rng, tmp_path):
    X, y, X_val, y_val = data(rng, n_val=700)
    weights = rng.uniform(0, 2, len(y_val))
    est = nw.KNNShapley(3, **KINDS[kind]).fit(X, y)
    expected = est.value(X_val, y_val, weights)
    assert_same_valuation(
        est.value(X_val, y_val, weights, executor=InlineExecutor(), scratch=tmp_path), expected
    )
    with ThreadPoolExecutor(2) as threads:
        assert_same_valuation(est.value(X_val, y_val, weights, executor=threads), expected)
        assert_same_valuation(est.value(executor=threads), est.value())
        first = est.value(X_val[:100], y_val[:100], weights[:100], executor=threads)
        more = est.value(
            X_val[100:], y_val[100:], weights[100:], executor=threads, continue_from=first
        )
    assert_same_valuation(more, expected)
    assert sorted(p.name for p in tmp_path.rglob("*.npy")) == ["labels.npy", "points.npy"]


def test_other_kinds_of_training_data(rng, tmp_path):
    X, y, X_val, y_val = data(rng)
    np.save(tmp_path / "X.npy", np.asfortranarray(X.astype(np.float32)))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    distances = np.abs(X_val[:, None, :] - X[None, :, :]).sum(axis=2)
    kinds = [
        ({}, mapped, X_val),
        ({}, mapped[:], X_val),
        ({}, X[::-1].astype(np.float16), X_val),
        ({}, scipy.sparse.csr_array(X), scipy.sparse.csr_array(X_val)),
        ({"metric": "precomputed"}, None, distances),
    ]
    for parameters, training, queries in kinds:
        est = nw.KNNShapley(3, **parameters).fit(training, y)
        executor = InlineExecutor()
        assert_same_valuation(
            est.value(queries, y_val, executor=executor, scratch=tmp_path / "s"),
            est.value(queries, y_val),
        )
        assert len(executor.sent_bytes) == 6  # leaves of 330 points
    folders = {p.parent.name: p.name for p in (tmp_path / "s").rglob("points.npy")}
    assert len(folders) <= 2  # the memory map was read where it lies


def test_parameters_of_a_metric_are_told_apart(rng):
    """Even where their text is not."""
    X, y, X_val, y_val = data(rng)
    X = np.tile(X, 600)
    X_val = np.tile(X_val, 600)
    for start in (20, 1001):
        w = np.ones(1200)
        w[start // 2 : start // 2 + 100] = 50.0
        w[:3] = w[-3:] = 1.0
        est = nw.KNNShapley(3, metric="minkowski", metric_params={"w": w, "p": 2}).fit(X, y)
        assert_same_valuation(
            est.value(X_val[:70], y_val[:70], executor=InlineExecutor()),
            est.value(X_val[:70], y_val[:70]),
        )


def test_large_enough_for_matrix_products(rng):
    X = rng.normal(size=(3000, 5)).astype(np.float32)
    y = rng.integers(0, 3, 3000)
    X_val = rng.normal(size=(200, 5))
    y_val = rng.integers(0, 3, 200)
    est = nw.KNNShapley(3, standard_errors=True).fit(X, y)
    assert est.plan(200).products
    with ThreadPoolExecutor(2) as threads:
        assert_same_valuation(est.value(X_val, y_val, executor=threads), est.value(X_val, y_val))


def test_memory_is_bounded_where_the_work_is(rng, monkeypatch):
    X, y, X_val, y_val = data(rng, n_train=5000, n_val=200)
    plans = []
    make = cluster.make_plan
    monkeypatch.setattr(
        cluster, "make_plan", lambda *a, **k: plans.append(make(*a, **k)) or plans[-1]
    )
    for budget in (2_000_000, 40_000_000):
        plans.clear()
        est = nw.KNNShapley(3, max_memory=budget, n_jobs=2).fit(X, y)
        assert_same_valuation(
            est.value(X_val, y_val, executor=InlineExecutor()), est.value(X_val, y_val)
        )
        assert plans
        assert all(plan.working_bytes <= budget for plan in plans)
    assert (
        max(plan.working_bytes for plan in plans) > 2_000_000
    )  # more is used where more is allowed
    with pytest.raises(ValueError, match="max_memory=1,000 bytes is too little"):
        nw.KNNShapley(3, max_memory=1000).fit(X, y).value(X_val, y_val, executor=InlineExecutor())


def test_processes(rng, tmp_path):
    X, y, X_val, y_val = data(rng, n_val=700)
    est = nw.KNNShapley(3, standard_errors=True).fit(X, y)
    expected = est.value(X_val, y_val)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert_same_valuation(est.value(X_val, y_val, executor=pool), expected)
        est.progress = interrupt_after(300)
        with pytest.raises(InterruptedByUserError):
            est.value(X_val, y_val, executor=pool, checkpoint=tmp_path)
        est.progress = None
        valuation = est.value(X_val, y_val, executor=pool, checkpoint=tmp_path)
        assert 300 <= valuation.resumed < 700
        assert_same_valuation(valuation, expected)
        for process in multiprocessing.active_children():
            process.kill()
        with pytest.raises(RuntimeError, match="BrokenProcessPool|terminated abruptly"):
            est.value(X_val, y_val, executor=pool)
    assert_same_valuation(est.value(X_val, y_val, checkpoint=tmp_path), expected)


def test_a_shard_that_fails_is_named(rng):
    X = np.zeros((5, 1)) + 2
    y = [0, 1, 0, 1, 0]
    X_val = np.zeros((200, 1))
    X_val[150] = 4
    est = nw.KNNShapley(metric=bad_metric).fit(X, y)
    with pytest.raises(
        RuntimeError, match="A worker failed on validation points 128 to 191: ArithmeticError: four"
    ):
        est.value(X_val, np.zeros(200, dtype=int), executor=InlineExecutor())


def test_changed_training_data_are_seen(rng, tmp_path):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3).fit(X, y)
    est.value(X_val, y_val, executor=InlineExecutor(), scratch=tmp_path)
    cluster.last_prepared.clear()  # another worker
    (path,) = tmp_path.rglob("points.npy")
    changed = np.load(path)
    changed[3] += 1
    np.save(path, changed)
    with pytest.raises(RuntimeError, match="are no longer what they were"):
        est.value(X_val, y_val, executor=InlineExecutor(), scratch=tmp_path)


def test_what_is_no_executor_is_refused(rng):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3).fit(X, y)
    with pytest.raises(TypeError, match="executor must have submit"):
        est.value(X_val, y_val, executor=2)
    with pytest.raises(ValueError, match="executor keeps sums, not single values"):
        est.value(X_val, y_val, executor=InlineExecutor(), contributions=[1])
