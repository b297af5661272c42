"""nearworth bench: the speed of this machine as ratios within one run.

Machines are noisy and differ, so every row compares two things measured one after the other,
several times, in CPU time (wall time where threads are the point), and takes the best of each.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from typing import Any, NamedTuple

import click
import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

import nearworth as nw

# Clocks.
CPU = time.process_time
WALL = time.perf_counter
# Neighbours, throughout.
K = 5
# Validation points of the numpy user, who is slow.
FEW_POINTS = 64


class Blobs(NamedTuple):
    """Gaussian classes that overlap: nearest neighbours are right about nine times in ten."""

    X: npt.NDArray[Any]
    y: npt.NDArray[Any]
    X_val: npt.NDArray[Any]
    y_val: npt.NDArray[Any]

    @classmethod
    def make(cls, n: int, n_val: int, d: int, n_classes: int = 10, seed: int = 0) -> Blobs:
        rng = np.random.default_rng(seed)
        centres = rng.normal(size=(n_classes, d)) * (4.0 / np.sqrt(d))
        y = rng.integers(0, n_classes, n + n_val)
        X = centres[y] + rng.normal(size=(n + n_val, d))
        return cls(X[:n], y[:n], X[n:], y[n:])


def speed(quick: bool) -> None:
    """Print the table of speeds, each row as soon as it is measured."""
    click.echo(f"{'first / second':<78} {'first':>8} {'second':>8} {'ratio':>7}   wanted")
    n, n_val = (20_000, 256) if quick else (100_000, 512)
    data = Blobs.make(n, n_val, 64)
    data_of_user = data._replace(X_val=data.X_val[:FEW_POINTS], y_val=data.y_val[:FEW_POINTS])

    exact = best(valuing(data, n_jobs=1), data)
    user = best(lambda: strong_user(data_of_user), data_of_user)
    pair = f"N = {n:,}, d = 64: product, argsort, vectorised recursion / exact"
    _print_row(pair, user, exact, "8 times, aim 20")
    one_thread = best(valuing(data, n_jobs=1), data, WALL)
    two_threads = best(valuing(data, n_jobs=2), data, WALL)
    pair = "one thread / two threads (wall time)"
    _print_row(pair, one_thread, two_threads, "1.7, aim 1.95")


def _print_row(pair: str, first: float, second: float, aim: str) -> None:
    """Print two times in nanoseconds per pair of points, and their ratio."""
    click.echo(f"{pair:<78} {first:8.2f} {second:8.2f} {first / second:7.2f}   {aim}")


def best(work: Callable[[], object], data: Blobs, clock: Callable[[], float] = CPU) -> float:
    """Shortest time of three runs, after one that warms up, in nanoseconds per pair of points."""
    work()
    seconds = min(timeit.repeat(work, timer=clock, number=1, repeat=3))
    n_pairs = len(data.X) * len(data.X_val)
    return 1e9 * seconds / n_pairs


def valuing(data: Blobs, **parameters: Any) -> Callable[[], Any]:
    """The valuation of a fitted estimator, ready to be timed."""
    estimator = nw.KNNShapley(K, **parameters).fit(data.X, data.y)
    return lambda: estimator.value(data.X_val, data.y_val)


def strong_user(data: Blobs) -> npt.NDArray[Any]:
    """What a good numpy user writes.

    Distances are 32-bit numbers, computed in blocks. Theorem 1 is one cumulative sum.
    """
    X = data.X.astype(np.float32)
    X_val = data.X_val.astype(np.float32)
    norms = (X * X).sum(axis=1)
    values = np.zeros(len(X))
    rank = np.arange(1, len(X))
    step = np.minimum(K, rank) / rank / K
    with threadpool_limits(1, user_api="blas"):
        for start in range(0, len(X_val), 32):
            order = np.argsort(norms - 2.0 * X_val[start : start + 32] @ X.T, axis=1)
            for row, label in zip(order, data.y_val[start : start + 32], strict=True):
                match = (data.y[row] == label).astype(np.float64)
                phi = np.full(len(row), match[-1] / max(len(row), K))
                phi[:-1] += np.cumsum(((match[:-1] - match[1:]) * step)[::-1])[::-1]
                values[row] += phi
    return values / len(X_val)
