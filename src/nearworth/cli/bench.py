"""nearworth bench: the speed of this machine as ratios within one run, and the paper's table.

Machines are noisy and differ, so every row compares two things measured one after the other, several times, in CPU
time (wall time where threads are the point), and takes the best of each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

import nearworth as nw
from nearworth._common.memory import usable_threads

Clock = Callable[[], float]
K = 5  # neighbours, throughout


@dataclass(frozen=True)
class Blobs:
    """Gaussian classes that overlap: nearest neighbours are right about nine times in ten."""

    X: npt.NDArray[Any]
    y: npt.NDArray[Any]
    X_val: npt.NDArray[Any]
    y_val: npt.NDArray[Any]

    @classmethod
    def make(cls, n: int, n_val: int, d: int, n_classes: int = 10, seed: int = 0) -> Blobs:
        """Points and labels, the validation set drawn like the training set."""
        rng = np.random.default_rng(seed)
        centres = rng.normal(size=(n_classes, d)) * (4.0 / np.sqrt(d))
        y = rng.integers(0, n_classes, n + n_val)
        X = centres[y] + rng.normal(size=(n + n_val, d))
        return cls(X[:n], y[:n], X[n:], y[n:])

    def first(self, n_val: int) -> Blobs:
        """The same with fewer validation points."""
        return replace(self, X_val=self.X_val[:n_val], y_val=self.y_val[:n_val])

    @property
    def pairs(self) -> int:
        """Number of (validation, training) pairs."""
        return len(self.X) * len(self.X_val)


def print_paper(data: str | None, protocol: str, json_file: str | None) -> None:
    """Print Table 1 of the paper, each row as soon as it is there."""
    from nearworth.paper import HEADER, LEGEND, agreement, table1, write_json

    if json_file is not None and not Path(json_file).absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder for {json_file!r}.", param_hint="--json")
    click.echo(HEADER)
    rows = []
    for row in table1(data, protocol):  # type: ignore[arg-type]
        rows.append(row)
        click.echo(str(row))
    click.echo(f"\n{LEGEND}\n{agreement(rows)}")
    if json_file is not None:
        write_json(rows, json_file)
    if not any(row.scores for row in rows):
        raise ValueError("None of the datasets could be had.")


def print_speed(quick: bool) -> None:
    """Print the table of speeds, each row as soon as it is measured."""
    click.echo(f"{'first / second':<78} {'first':>8} {'second':>8} {'ratio':>7}   wanted")
    n, n_val = (20_000, 256) if quick else (100_000, 512)
    data = Blobs.make(n, n_val, 64)
    few = data.first(64)
    cpu, wall = time.process_time, time.perf_counter

    ours = best(valuing(data, n_jobs=1), cpu) / data.pairs
    product = best(lambda: multiplied(data), cpu) / data.pairs
    _print_row(f"exact, N = {n:,}, d = 64, one thread / 32-bit product alone", ours, product, "below 4, aim 1.8")
    user = best(lambda: strong_user(few), cpu) / few.pairs
    _print_row("product, argsort, vectorised recursion / exact", user, ours, "8 times, aim 20")
    one, two = (best(valuing(data, n_jobs=n_jobs), wall) / data.pairs for n_jobs in (1, 2))
    _print_row("one thread / two threads (wall time)", one, two, "1.7, aim 1.95")
    regression = best(valuing(few, n_jobs=1, task="regression"), cpu) / few.pairs
    _print_row("regression / classification", regression, ours, "below 6, aim 3")
    errors = best(valuing(data, n_jobs=1, standard_errors=True), cpu) / data.pairs
    _print_row("with standard errors / without", errors, ours, "below 1.5")
    within = best(valuing(data, n_jobs=1, max_error=0.1 / n), cpu) / data.pairs
    _print_row("within an error of 0.1/N / exact", within, ours, "below 1, aim 0.7")

    wide = Blobs.make(*((10_000, 256) if quick else (50_000, 1_000)), 64)
    packed = best(lambda: packed_sort(wide), wall, repeats=2) / wide.pairs
    exact = best(valuing(wide), wall) / wide.pairs
    sizes = f"{len(wide.X):,} x {len(wide.X_val):,}"
    _print_row(f"threaded sort of packed keys / exact, {sizes}, all cores (wall)", packed, exact, "4 times, aim 8")

    small, large = Blobs.make(10_000, 512, 64), Blobs.make(100_000 if quick else 1_000_000, 256, 64)
    t_small = best(valuing(small, n_jobs=1), cpu) / small.pairs
    t_large = best(valuing(large, n_jobs=1), cpu, repeats=2) / large.pairs
    exponent = 1.0 + float(np.log(t_large / t_small) / np.log(len(large.X) / len(small.X)))
    what = f"growth exponent of the time, N = {len(small.X):,} to {len(large.X):,}"
    _print_row(what, t_large, t_small, "below 1.1", exponent)


def _print_row(what: str, first: float, second: float, aim: str, exponent: float | None = None) -> None:
    """Two times in seconds per pair, and their ratio or what is printed in its place."""
    ratio = first / second if exponent is None else exponent
    click.echo(f"{what:<78} {first * 1e9:8.2f} {second * 1e9:8.2f} {ratio:7.2f}   {aim}")


def best(work: Callable[[], object], clock: Clock, repeats: int = 3) -> float:
    """Shortest time of a few runs, after one that compiles and warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def valuing(data: Blobs, **parameters: Any) -> Callable[[], Any]:
    """The valuation of a fitted estimator, ready to be timed."""
    est = nw.KNNShapley(K, **parameters).fit(data.X, data.y)
    return lambda: est.value(data.X_val, data.y_val)


def multiplied(data: Blobs) -> None:
    """The 32-bit product alone, in blocks of 64 validation points, on one thread."""
    X, X_val = data.X.astype(np.float32), data.X_val.astype(np.float32)
    out = np.empty((64, len(X)), dtype=np.float32)
    with threadpool_limits(1, user_api="blas"):
        for start in range(0, len(X_val), 64):
            block = X_val[start : start + 64]
            np.matmul(block, X.T, out=out[: len(block)])


def strong_user(data: Blobs) -> npt.NDArray[Any]:
    """What a good numpy user writes: blocked 32-bit distances, argsort, and Theorem 1 as one cumulative sum."""
    X, X_val = data.X.astype(np.float32), data.X_val.astype(np.float32)
    norms = (X * X).sum(axis=1)
    values = np.zeros(len(X))
    with threadpool_limits(1, user_api="blas"):
        for start in range(0, len(X_val), 32):
            order = np.argsort(norms - 2.0 * X_val[start : start + 32] @ X.T, axis=1)
            _add(values, order, data.y, data.y_val[start : start + 32])
    return values / len(X_val)


def packed_sort(data: Blobs) -> npt.NDArray[Any]:
    """The strongest known baseline: keys and indices packed into 64-bit integers, sorted in threads."""
    X, X_val = data.X.astype(np.float32), data.X_val.astype(np.float32)
    norms = (X * X).sum(axis=1)
    index = np.arange(len(X), dtype=np.uint64)

    def part(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        values = np.zeros(len(X))
        for start in range(0, len(rows), 16):
            some = rows[start : start + 16]
            keys = norms - 2.0 * X_val[some] @ X.T
            keys -= keys.min(axis=1, keepdims=True)  # positive floats sort like their bits
            packed = (keys.view(np.uint32).astype(np.uint64) << np.uint64(32)) | index
            packed.sort(axis=1)
            _add(values, (packed & np.uint64(0xFFFFFFFF)).astype(np.intp), data.y, data.y_val[some])
        return values

    threads = usable_threads(None)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        return np.asarray(sum(pool.map(part, np.array_split(np.arange(len(X_val)), threads)))) / len(X_val)


def _add(values: npt.NDArray[Any], order: npt.NDArray[Any], y: npt.NDArray[Any], y_val: npt.NDArray[Any]) -> None:
    """Add the values of the original utility for queries whose training points are ranked."""
    rank = np.arange(1, order.shape[1] + 1)
    step = np.minimum(K, rank[:-1]) / rank[:-1] / K
    for row, label in zip(order, y_val, strict=True):
        match = (y[row] == label).astype(np.float64)
        phi = np.empty_like(match)
        phi[-1] = match[-1] / max(len(row), K)
        phi[:-1] = phi[-1] + np.cumsum(((match[:-1] - match[1:]) * step)[::-1])[::-1]
        values[row] += phi
