"""Dask clusters that lose workers, schedulers and clients: the same bits, or a clear word and
nothing lost.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import nearworth as nw
from helpers.runs import InterruptedByUserError, assert_same_valuation, data, interrupt_after
from nearworth.cli import main

dask = pytest.importorskip("distributed")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("dask")]


@pytest.fixture(scope="module")
def cluster():
    with dask.LocalCluster(
        2, threads_per_worker=1, dashboard_address=None, memory_limit=0
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with dask.Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


def slow_estimator(X, y, **parameters):
    """A tenth of a second for every 64 validation points, wherever it is worked."""

    def metric(a, b):
        import time

        time.sleep(2.5e-5)
        return abs(a - b).sum()

    return nw.KNNShapley(3, metric=metric, n_jobs=1, **parameters).fit(X, y)


def pids(client):
    return list(client.run(os.getpid).values())


def at_first(action):
    """A progress callback that acts once, when the first shard is done and others are being
    worked on.
    """
    acted = []

    def progress(done, total):
        if not acted and done < total:
            acted.append(done)
            action()

    progress.acted = acted
    return progress


def stop_for_a_while(pid):
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(1.5, os.kill, (pid, signal.SIGCONT)).start()


ACCIDENTS = {
    "one worker dies": lambda workers: os.kill(workers[0], signal.SIGKILL),
    "all workers die": lambda workers: [os.kill(pid, signal.SIGKILL) for pid in workers],
    "a worker stops for a while": lambda workers: stop_for_a_while(workers[0]),
}


@pytest.mark.long
@pytest.mark.parametrize("accident", ACCIDENTS)
def test_accidents_do_not_show(accident, client, rng):
    X, y, X_val, y_val = data(rng, n_val=1300)
    est = slow_estimator(X, y, standard_errors=True)
    workers = pids(client)
    est.progress = at_first(lambda: ACCIDENTS[accident](workers))
    valuation = est.value(X_val, y_val, executor=client)
    assert est.progress.acted
    assert_same_valuation(
        valuation,
        nw.KNNShapley(3, metric="manhattan", standard_errors=True).fit(X, y).value(X_val, y_val),
    )


@pytest.mark.long
def test_a_shard_that_raises_is_named(client):
    def bad_metric(a, b):
        if a[0] == 4 and b[0] == 2:
            raise ArithmeticError("four and two")
        return abs(a - b).sum()

    X = np.zeros((5, 1)) + 2
    y = [0, 1, 0, 1, 0]
    X_val = np.zeros((200, 1))
    X_val[150] = 4
    est = nw.KNNShapley(metric=bad_metric).fit(X, y)
    with pytest.raises(
        RuntimeError, match="A worker failed on validation points 128 to 191: ArithmeticError: four"
    ):
        est.value(X_val, np.zeros(200, dtype=int), executor=client)


@pytest.mark.long
def test_a_client_that_goes_away(cluster, rng, tmp_path):
    X, y, X_val, y_val = data(rng, n_val=1300)
    with dask.Client(cluster) as client, pytest.raises(InterruptedByUserError):
        slow_estimator(X, y, progress=interrupt_after(64)).value(
            X_val, y_val, executor=client, checkpoint=tmp_path
        )
    with dask.Client(cluster) as client:
        valuation = slow_estimator(X, y).value(X_val, y_val, executor=client, checkpoint=tmp_path)
    assert 64 <= valuation.resumed < 1300
    assert_same_valuation(
        valuation, nw.KNNShapley(3, metric="manhattan").fit(X, y).value(X_val, y_val)
    )


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


@contextmanager
def dask_process(*arguments):
    code = "from dask.__main__ import main; main()"
    environment = os.environ | {"PYTHONPATH": str(Path(nw.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.long
def test_a_scheduler_that_is_restarted(rng, tmp_path):
    X, y, X_val, y_val = data(rng, n_val=1300)
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    scheduler = ("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    worker = ("worker", address, "--nthreads", "2", "--no-nanny", "--no-dashboard")
    with (
        dask_process(*scheduler) as first,
        dask_process(*worker),
        dask.Client(address, timeout=30) as client,
    ):
        est = slow_estimator(X, y, progress=at_first(first.kill))
        with pytest.raises(
            RuntimeError,
            match=r"failed on validation points .*\(a checkpoint keeps what is finished",
        ):
            est.value(X_val, y_val, executor=client, checkpoint=tmp_path, checkpoint_interval=0)
        first.wait()
        client._timeout = 0.1  # nobody will answer
    with (
        dask_process(*scheduler),
        dask_process(*worker),
        dask.Client(address, timeout=30) as client,
    ):
        valuation = slow_estimator(X, y).value(X_val, y_val, executor=client, checkpoint=tmp_path)
    assert 64 <= valuation.resumed < 1300
    assert_same_valuation(
        valuation, nw.KNNShapley(3, metric="manhattan").fit(X, y).value(X_val, y_val)
    )


@pytest.fixture
def files(rng, tmp_path):
    X, y, X_val, y_val = data(rng, n_train=3000, n_val=6400)
    np.savez(tmp_path / "train.npz", X=X, y=y)
    np.savez(tmp_path / "val.npz", X=X_val, y=y_val)
    return [str(tmp_path / "train.npz"), "--validation", str(tmp_path / "val.npz")]


@pytest.mark.long
def test_from_the_command_line(cluster, files, tmp_path):
    here = CliRunner().invoke(main, ["value", *files, "-q"])
    there = CliRunner().invoke(
        main, ["value", *files, "-q", "--cluster", cluster.scheduler_address]
    )
    assert (here.exit_code, there.exit_code) == (0, 0)
    assert here.stdout == there.stdout


def test_what_cannot_be_reached_is_one_line(files, monkeypatch):
    def last_line(*more):
        result = CliRunner().invoke(main, ["value", *files, "-q", *more])
        assert result.exit_code == 2
        return result.stderr.splitlines()[-1]

    monkeypatch.setattr("nearworth.cli.value.MAX_CONNECT_SECONDS", 0.5)
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:9'" in last_line(
        "--cluster", "tcp://127.0.0.1:9"
    )
    assert "no Dask scheduler answers at 'nonsense'" in last_line("--cluster", "nonsense")
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert (
        last_line("--cluster", "tcp://127.0.0.1:9")
        == "nearworth: --cluster needs Dask: pip install 'nearworth[dask]'"
    )
