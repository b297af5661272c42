"""Speed on this machine, as ratios within one run: `nearworth bench speed`.

Machines are noisy and differ, so every row compares two things measured one after the other, several times, in CPU
time (wall time where threads are the point), and takes the best of each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from nearworth.engine.plan import usable_threads
from nearworth.estimators import KNNShapley

Clock = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """One line of the table: what was compared, both times in nanoseconds per pair, and their ratio."""

    what: str
    ours: float
    theirs: float
    ratio: float
    aim: str


@dataclass(frozen=True)
class Data:
    """Gaussian classes that overlap: nearest neighbours are right about nine times in ten."""

    X: npt.NDArray[Any]
    y: npt.NDArray[Any]
    X_val: npt.NDArray[Any]
    y_val: npt.NDArray[Any]

    @classmethod
    def make(cls, n: int, n_val: int, d: int, n_classes: int = 10, seed: int = 0) -> Data:
        """Points and labels, the validation set drawn like the training set."""
        rng = np.random.default_rng(seed)
        centres = rng.normal(size=(n_classes, d)) * (4.0 / np.sqrt(d))
        y = rng.integers(0, n_classes, n + n_val)
        X = centres[y] + rng.normal(size=(n + n_val, d))
        return cls(X[:n], y[:n], X[n:], y[n:])

    @property
    def pairs(self) -> int:
        """Number of (validation, training) pairs."""
        return len(self.X) * len(self.X_val)


def speed(quick: bool = False) -> Iterator[Row]:
    """The rows of the table, one after the other as they are measured."""
    n, n_val = (20_000, 256) if quick else (100_000, 512)
    data = Data.make(n, n_val, 64)
    ours = best(lambda: valued(data, n_jobs=1), time.process_time)
    product = best(lambda: multiplied(data), time.process_time)
    yield _row(
        f"exact, N = {n:,}, d = 64, one thread / 32-bit product of the same blocks",
        ours,
        product,
        data,
        "below 4, aim 1.8",
    )
    user = best(lambda: strong_user(_some(data, 64)), time.process_time) * n_val / 64
    yield _row("matrix product, argsort, vectorised recursion / exact", user, ours, data, "8 times, aim 20")
    two = best(lambda: valued(data, n_jobs=2), time.perf_counter)
    one = best(lambda: valued(data, n_jobs=1), time.perf_counter)
    yield _row("one thread / two threads (wall)", one, two, data, "1.7, aim 1.95")
    regression = best(lambda: valued(_some(data, 64), n_jobs=1, task="regression"), time.process_time) * n_val / 64
    yield _row("regression / classification", regression, ours, data, "below 6, aim 3")
    errors = best(lambda: valued(data, n_jobs=1, standard_errors=True), time.process_time)
    yield _row("with standard errors / without", errors, ours, data, "below 1.5")
    wide = Data.make(*((10_000, 256) if quick else (50_000, 1_000)), 64)
    packed = best(lambda: packed_sort(wide), time.perf_counter, repeats=2)
    exact = best(lambda: valued(wide), time.perf_counter)
    yield _row(
        f"threaded sort of packed keys / exact, {len(wide.X):,} x {len(wide.X_val):,}, all cores (wall)",
        packed,
        exact,
        wide,
        "4 times, aim 8",
    )
    yield _growth(quick)


def _growth(quick: bool) -> Row:
    small, large = Data.make(10_000, 256, 64), Data.make(100_000 if quick else 1_000_000, 64, 64)
    t_small = best(lambda: valued(small, n_jobs=1), time.process_time) / small.pairs
    t_large = best(lambda: valued(large, n_jobs=1), time.process_time, repeats=2) / large.pairs
    exponent = 1.0 + np.log(t_large / t_small) / np.log(len(large.X) / len(small.X))
    return Row(
        f"growth exponent, N = 10^4 to {len(large.X):,}", t_large * 1e9, t_small * 1e9, float(exponent), "below 1.1"
    )


def _row(what: str, first: float, second: float, data: Data, aim: str) -> Row:
    return Row(what, first / data.pairs * 1e9, second / data.pairs * 1e9, first / second, aim)


def _some(data: Data, n_val: int) -> Data:
    return Data(data.X, data.y, data.X_val[:n_val], data.y_val[:n_val])


def best(work: Callable[[], object], clock: Clock, repeats: int = 3) -> float:
    """Shortest time of a few runs, after one that compiles and warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def valued(data: Data, **parameters: Any) -> npt.NDArray[Any]:
    """The values, by us."""
    return KNNShapley(5, **parameters).fit(data.X, data.y).value(data.X_val, data.y_val).values


def multiplied(data: Data) -> None:
    """The 32-bit product alone, in blocks of 64 validation points, on one thread."""
    X, X_val = data.X.astype(np.float32), data.X_val.astype(np.float32)
    out = np.empty((64, len(X)), dtype=np.float32)
    with threadpool_limits(1, user_api="blas"):
        for start in range(0, len(X_val), 64):
            block = X_val[start : start + 64]
            np.matmul(block, X.T, out=out[: len(block)])


def strong_user(data: Data, k: int = 5) -> npt.NDArray[Any]:
    """What a good numpy user writes: blocked 32-bit distances, argsort, and Theorem 1 as one cumulative sum."""
    X, X_val = data.X.astype(np.float32), data.X_val.astype(np.float32)
    n = len(X)
    norms = (X * X).sum(axis=1)
    rank = np.arange(1, n + 1)
    step = np.minimum(k, rank[:-1]) / rank[:-1] / k
    values = np.zeros(n)
    with threadpool_limits(1, user_api="blas"):
        for start in range(0, len(X_val), 32):
            block = X_val[start : start + 32]
            order = np.argsort(norms - 2.0 * block @ X.T, axis=1)
            match = (data.y[order] == data.y_val[start : start + 32, None]).astype(np.float64)
            phi = np.empty_like(match)
            phi[:, -1] = match[:, -1] / max(n, k)
            phi[:, :-1] = phi[:, -1:] + np.cumsum(((match[:, :-1] - match[:, 1:]) * step)[:, ::-1], axis=1)[:, ::-1]
            for row, values_of_row in zip(order, phi, strict=True):
                values[row] += values_of_row
    return values / len(X_val)


def packed_sort(data: Data, k: int = 5) -> npt.NDArray[Any]:
    """The strongest baseline we know: keys and indices packed into 64-bit integers, sorted in threads."""
    X, X_val = data.X.astype(np.float32), data.X_val.astype(np.float32)
    n = len(X)
    norms = (X * X).sum(axis=1)
    rank = np.arange(1, n + 1)
    step = np.minimum(k, rank[:-1]) / rank[:-1] / k
    index = np.arange(n, dtype=np.uint64)

    def part(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        values = np.zeros(n)
        for start in range(0, len(rows), 16):
            some = rows[start : start + 16]
            keys = norms - 2.0 * X_val[some] @ X.T
            keys -= keys.min(axis=1, keepdims=True)  # positive floats sort like their bits
            packed = (keys.view(np.uint32).astype(np.uint64) << np.uint64(32)) | index
            packed.sort(axis=1)
            order = (packed & np.uint64(0xFFFFFFFF)).astype(np.intp)
            for row, label in zip(order, data.y_val[some], strict=True):
                match = (data.y[row] == label).astype(np.float64)
                phi = np.empty(n)
                phi[-1] = match[-1] / max(n, k)
                phi[:-1] = phi[-1] + np.cumsum(((match[:-1] - match[1:]) * step)[::-1])[::-1]
                values[row] += phi
        return values

    threads = usable_threads(None)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        return np.asarray(sum(pool.map(part, np.array_split(np.arange(len(X_val)), threads)))) / len(X_val)
