"""The recipe for Ray in the documentation; needs Ray."""

from __future__ import annotations

import os
import runpy
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import nearworth as nw
from helpers.runs import (
    KINDS,
    InterruptedByUserError,
    assert_same_valuation,
    bad_metric,
    data,
    interrupt_after,
)

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def executor():
    ray = pytest.importorskip("ray")
    places = os.pathsep.join([str(Path(nw.__file__).parents[1]), str(Path(__file__).parent)])
    environment = {"env_vars": {"PYTHONPATH": places}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    place = Path(__file__).parents[1] / "docs" / "howto" / "ray_executor.py"
    with runpy.run_path(str(place))["RayExecutor"]() as executor:
        yield executor
    ray.shutdown()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits(kind, executor, rng):
    X, y, X_val, y_val = data(rng, n_val=700)
    est = nw.KNNShapley(3, **KINDS[kind]).fit(X, y)
    assert_same_valuation(est.value(X_val, y_val, executor=executor), est.value(X_val, y_val))


def test_interrupted_and_taken_up(executor, rng, tmp_path):
    X, y, X_val, y_val = data(rng, n_val=1500)
    est = nw.KNNShapley(3, progress=interrupt_after(300)).fit(X, y)
    with pytest.raises(InterruptedByUserError):
        est.value(X_val, y_val, executor=executor, checkpoint=tmp_path)
    est.progress = None
    valuation = est.value(X_val, y_val, executor=executor, checkpoint=tmp_path)
    assert 300 <= valuation.resumed < 1500
    assert_same_valuation(valuation, est.value(X_val, y_val))


def test_a_shard_that_fails_is_named(executor):
    X = np.zeros((5, 1)) + 2
    y = [0, 1, 0, 1, 0]
    X_val = np.zeros((200, 1))
    X_val[150] = 4
    est = nw.KNNShapley(metric=bad_metric).fit(X, y)
    with pytest.raises(
        RuntimeError, match="A worker failed on validation points 128 to 191: ArithmeticError: four"
    ):
        est.value(X_val, np.zeros(200, dtype=int), executor=executor)


def slow_metric(a, b):
    time.sleep(2e-5)
    return abs(a - b).sum()


def test_a_killed_worker_is_replaced(executor, rng):
    X, y, X_val, y_val = data(rng, n_val=640)
    est = nw.KNNShapley(3, metric=slow_metric, standard_errors=True).fit(X, y)
    expected = est.value(X_val, y_val)
    doomed = executor.submit(os.getpid).result()
    killed = []

    def kill(done, total):
        if not killed:
            os.kill(doomed, signal.SIGKILL)
            killed.append(done)

    est.progress = kill
    assert_same_valuation(est.value(X_val, y_val, executor=executor), expected)
    assert killed
    assert executor.submit(os.getpid).result() != doomed


def test_what_is_cancelled_does_not_run(executor, tmp_path):
    busy = [executor.submit(time.sleep, 0.5) for _ in range(2)]
    waiting = executor.submit((tmp_path / "done").write_text, "done")
    assert waiting.cancel()
    for future in busy:
        future.result()
    time.sleep(0.2)
    assert not (tmp_path / "done").exists()
