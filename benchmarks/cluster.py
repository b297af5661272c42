"""A Dask cluster of two local workers against one process with two threads, start-up excluded.

    python benchmarks/cluster.py                 N = 200,000, 4,000 validation points, d = 64
    python benchmarks/cluster.py --rounds 5

Each round runs both, one after the other, so that a busy machine burdens both alike; the medians
are compared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import dask.config
import numpy as np
from distributed import Client

import nearworth as nw

# Dask returns memory to the system above 64 kB and samples its workers' stacks, which costs half as
# much CPU again.
QUICK = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    "distributed.worker.profile.enabled": False,
}


def timed(
    est: nw.KNNShapley, X_val: np.ndarray, y_val: np.ndarray, **where: object
) -> tuple[float, nw.Valuation]:
    begin = time.perf_counter()
    valuation = est.value(X_val, y_val, **where)
    return time.perf_counter() - begin, valuation


def compare(n_train: int, n_val: int, columns: int, rounds: int) -> float:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_train, columns)).astype(np.float32), rng.integers(0, 10, n_train)
    X_val, y_val = rng.normal(size=(n_val, columns)).astype(np.float32), rng.integers(0, 10, n_val)
    est = nw.KNNShapley(5, n_jobs=2).fit(X, y)
    there = nw.KNNShapley(5).fit(X, y)
    seconds: dict[str, list[float]] = {"one process": [], "cluster": []}
    with dask.config.set(QUICK):
        cluster = Client(n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=None)
    with cluster as client:
        est.value(X_val[:128], y_val[:128])
        there.value(
            X_val[:512], y_val[:512], executor=client
        )  # imports, compiled code, the training set in its place
        for _ in range(rounds):
            taken, one = timed(est, X_val, y_val)
            seconds["one process"].append(taken)
            taken, other = timed(there, X_val, y_val, executor=client)
            seconds["cluster"].append(taken)
            assert np.array_equal(one.values, other.values)
            print(
                f"one process {seconds['one process'][-1]:.1f} s, cluster"
                f" {seconds['cluster'][-1]:.1f} s",
                flush=True,
            )
    one, two = (statistics.median(times) for times in seconds.values())
    print(
        f"medians {one:.1f} s and {two:.1f} s: the cluster has {one / two:.2f} of the speed (0.8 is"
        f" wanted); load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    return one / two


if __name__ == "__main__":
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--n-train", type=int, default=200_000)
    options.add_argument("--n-val", type=int, default=4_000)
    options.add_argument("--columns", type=int, default=64)
    options.add_argument("--rounds", type=int, default=3)
    compare(**vars(options.parse_args()))
