"""A million points in 128 dimensions under max_memory: peak memory beyond the inputs, and time
against the product.

python benchmarks/memory.py [--n-train 1000000] [--n-val 1000] [--features 128] [--max-memory 1GB]
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from threadpoolctl import threadpool_limits

from nearworth import KNNShapley
from nearworth.inputs.parameters import parse_bytes


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def product_seconds(X: np.ndarray, Q: np.ndarray) -> float:
    """CPU time of the 32-bit product of the same blocks: a panel of training rows at a time."""
    with threadpool_limits(1, user_api="blas"):
        started, out = time.process_time(), np.empty((64, 2048), dtype=np.float32)
        for a in range(0, 64 * (len(Q) // 64), 64):
            for b in range(0, len(X) - len(X) % 2048, 2048):
                np.matmul(Q[a : a + 64], X[b : b + 2048].T, out=out)
        return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-train", type=int, default=1_000_000)
    parser.add_argument("--n-val", type=int, default=1_000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--max-memory", default="1GB")
    parser.add_argument("--jobs", type=int, default=None)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((given.n_train, given.features), dtype=np.float32)
    y = rng.integers(0, 10, given.n_train)
    Q, y_val = (
        rng.standard_normal((given.n_val, given.features), dtype=np.float32),
        rng.integers(0, 10, given.n_val),
    )
    KNNShapley(5).fit(X[:5_000], y[:5_000]).value(Q[:100], y_val[:100])  # imports and compilation
    est = KNNShapley(5, max_memory=given.max_memory, n_jobs=given.jobs).fit(X, y)
    print(est.plan(given.n_val))
    before, cpu, wall = peak(), time.process_time(), time.perf_counter()
    est.value(Q, y_val)
    cpu, wall, beyond = time.process_time() - cpu, time.perf_counter() - wall, peak() - before
    product = product_seconds(X, Q)
    pairs = given.n_train * given.n_val
    print(
        f"peak beyond inputs  {beyond / 1e6:,.0f} MB of"
        f" {parse_bytes('max_memory', given.max_memory) / 1e6:,.0f} MB"
    )
    print(
        f"time                {wall:.1f} s wall, {cpu:.1f} s CPU, {cpu / pairs * 1e9:.1f} ns per"
        " pair"
    )
    print(
        f"32-bit product      {product:.1f} s CPU: the valuation takes {cpu / product:.1f} times as"
        " long"
    )


if __name__ == "__main__":
    main()
