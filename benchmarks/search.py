"""Searchers measured: python benchmarks/search.py [recall] [hashing] [index] [million] [error]

recall   LSH: predicted against measured hashing  LSH against exact search, the matrix product alone
and the exact engine, on clustered and on overlapping data index    faiss indexes at N = 10^5, build
and query million  the same at N = 10^6, d = 64, 10^4 queries, K* = 100, recall at least 0.95 error
certificate, typical error and true error of the values, on the datasets in $NEARWORTH_DATA

Times are wall times of the best of a few runs, per query in microseconds unless a row says
otherwise.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import paper  # beside this file
from threadpoolctl import threadpool_limits

import nearworth as nw
from nearworth.cli.bench import Blobs
from nearworth.neighbors.exact import ExactSearch
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.neighbors.lsh import collision_probability, found_in_tables

K = 100
SOME = 50  # queries whose candidates are counted


def recall(found: Any, exact: Any) -> float:
    """Share of the exact neighbours that were found, by index; -1 stands for no neighbour and does
    not count.
    """
    hits = sum(len(np.intersect1d(f, e[e >= 0])) for f, e in zip(found, exact, strict=True))
    wanted = int(np.count_nonzero(exact >= 0))
    return hits / wanted if wanted else 1.0


def multiplied(data: Blobs) -> None:
    """The 32-bit product alone, in blocks of 64 validation points, on one thread."""
    X, X_val = data.X.astype(np.float32), data.X_val.astype(np.float32)
    out = np.empty((64, len(X)), dtype=np.float32)
    with threadpool_limits(1, user_api="blas"):
        for start in range(0, len(X_val), 64):
            block = X_val[start : start + 64]
            np.matmul(block, X.T, out=out[: len(block)])


def clustered(
    n: int, n_val: int, d: int, n_clusters: int = 500, spread: float = 0.3, seed: int = 0
) -> Blobs:
    """Many small clusters: the distance to strangers is several times that to the K*-th
    neighbour.
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_clusters, d))
    y = rng.integers(0, n_clusters, n + n_val)
    X = centres[y] + spread * rng.normal(size=(n + n_val, d))
    return Blobs(X[:n], y[:n] % 10, X[n:], y[n:] % 10)


def row(*cells: object) -> None:
    print(
        "| " + " | ".join(f"{c:.4g}" if isinstance(c, float) else str(c) for c in cells) + " |",
        flush=True,
    )


def header(*names: str) -> None:
    row(*names)
    row(*("---" for _ in names))


def timed(work, *arguments) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - start, result


def both_times(work, *arguments) -> tuple[str, Any]:
    """Wall and CPU time: they differ by more than the threads on a machine with other work."""
    cpu = time.process_time()
    wall, result = timed(work, *arguments)
    return f"{wall:.2f} ({time.process_time() - cpu:.2f})", result


def fastest(repeats: int, work, *arguments) -> float:
    """Wall time of the best run, after one that warms up."""
    work(*arguments)
    return min(timed(work, *arguments)[0] for _ in range(repeats))


def exact_search(data: Any) -> ExactSearch:
    return ExactSearch(EuclideanKeys(data.X), len(data.X))


class FourLists(nw.FaissSearch):
    """Looks into four lists only, whatever its recall."""

    def prepare(self, k: int, queries: Any = None) -> FourLists:
        super().prepare(k, queries)
        self.tuning.parameters["nprobe"] = 4
        return self


def measure_recall() -> None:
    header(
        "data",
        "K*",
        "tables",
        "hashes",
        "predicted",
        "measured",
        "difference",
        "candidates",
        "predicted",
    )
    for name, make in (("clustered", clustered), ("overlapping", Blobs.make)):
        for n, d in ((20_000, 8), (20_000, 32), (100_000, 16)):
            data = make(n, 1000, d)
            for k in (10, 100):
                exact, squares = exact_search(data).nearest(data.X_val, k)
                for wanted in (0.8, 0.95):
                    searcher = (
                        nw.LSHSearch(recall=wanted, random_state=0)
                        .fit(data.X)
                        .prepare(k, data.X_val)
                    )
                    found, _ = searcher.search(data.X_val, k)
                    tables, hashes, width = searcher.tuning.parameters.values()
                    together = collision_probability(np.sqrt(squares), width) ** hashes
                    predicted, measured = (
                        found_in_tables(together, tables).mean(),
                        recall(found, exact),
                    )
                    candidates = (
                        searcher.search(data.X_val[:SOME], n).sizes.mean(),
                        searcher.tuning.candidates,
                    )
                    row(
                        f"{name} {n:,} x {d}",
                        k,
                        tables,
                        hashes,
                        predicted,
                        measured,
                        measured - predicted,
                        *candidates,
                    )


def measure_hashing() -> None:
    n, n_val = 100_000, 1000
    header(
        "data",
        "K*",
        "LSH",
        "build, s",
        "candidates",
        "recall",
        "exact search",
        "product alone",
        "exact engine",
    )
    for name, make in (("clustered", clustered), ("overlapping", Blobs.make)):
        for d in (16, 64):
            data = make(n, n_val, d)
            few = data.first(128)
            with threadpool_limits(1, user_api="blas"):
                exact = exact_search(data)
                engine = nw.KNNShapley(5, n_jobs=1).fit(data.X, data.y)
                whole = fastest(2, engine.value, few.X_val, few.y_val) / 128
                product = fastest(3, multiplied, data) / n_val
                for k in (10, K):
                    lsh = nw.LSHSearch(n_threads=1, random_state=0)
                    build, _ = timed(lambda lsh=lsh, k=k, X=data.X: lsh.fit(X).prepare(k))
                    query = fastest(3, lsh.search, data.X_val, k) / n_val
                    scan = fastest(2, exact.nearest, few.X_val, k) / 128
                    share = recall(lsh.search(data.X_val, k)[0], exact.nearest(data.X_val, k)[0])
                    candidates = lsh.search(data.X_val[:SOME], n).sizes.mean()
                    times = (1e6 * t for t in (scan, product, whole))
                    row(f"{name} x {d}", k, 1e6 * query, build, candidates, share, *times)


def measure_index(n: int, n_val: int, factories: tuple[str, ...], d: int = 64) -> None:
    header(
        "index, 2 threads",
        "effort",
        "build, s (CPU)",
        "tuning, s (CPU)",
        f"{n_val:,} queries, s (CPU)",
        "recall",
    )
    data = Blobs.make(n, n_val, d)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(2) as pool:
        build, exact = both_times(exact_search, data)
        exact.nearest(data.X_val[:2], K)
        query, parts = both_times(
            lambda: list(pool.map(lambda half: exact.nearest(half, K), np.split(data.X_val, 2)))
        )
        truth = np.concatenate([indices for indices, _ in parts])
        row("exact search", "", build, "", query, 1.0)
        for factory in factories:
            searcher = nw.FaissSearch(factory, n_threads=2)
            build, _ = both_times(searcher.fit, data.X)
            tuning, _ = both_times(searcher.prepare, K, data.X_val)
            query, (found, _) = both_times(searcher.search, data.X_val, K)
            kind, *effort = (
                f"{name} {value}" for name, value in searcher.tuning.parameters.items()
            )
            row(f"{factory}: {kind}", ", ".join(effort), build, tuning, query, recall(found, truth))


def shared(name: str, n: int, n_val: int) -> tuple[Any, ...]:
    """Training and validation points of a dataset of the paper."""
    found = paper.load(name, balance=False)  # from $NEARWORTH_DATA
    rows = np.random.default_rng(0).permutation(len(found.y))[: n + n_val]
    X, y = found.X[rows].reshape(len(rows), -1).astype(np.float64), found.y[rows]
    return X[:n], y[:n], X[n:], y[n:]


def root_mean_square(numbers: Any) -> float:
    return float(np.sqrt(np.mean(np.square(numbers))))


def measure_error() -> None:
    header(
        "data",
        "search",
        "recall",
        "certain",
        "typical (95 %)",
        "true",
        "values",
        "seconds",
        "exact values, s",
    )
    for name in ("mnist", "fmnist", "pol"):
        X, y, *asked = shared(name, 8_000, 2_000)
        exact_time, exact = timed(nw.KNNShapley(5).fit(X, y).value, *asked)
        searchers = ("exact", nw.LSHSearch(recall=0.9, random_state=0), FourLists("IVF64,Flat"))
        for search in searchers:
            est = nw.KNNShapley(5, n_candidates=K, search=search, random_state=0).fit(X, y)
            spent, v = timed(est.value, *asked)
            low, high = v.typical_error_interval
            row(
                name,
                v.search.searcher if v.search else search,
                v.search.recall if v.search else 1.0,
                v.error_bound,
                f"{v.typical_error:.3g} ({low:.2g} to {high:.2g})",
                root_mean_square(v.values - exact.values),
                root_mean_square(exact.values),
                spent,
                exact_time,
            )


PARTS = {
    "recall": measure_recall,
    "hashing": measure_hashing,
    "index": lambda: measure_index(
        100_000, 10_000, ("auto", "PQ32x4fs", "IVF64,PQ32x4fs", "IVF256,Flat", "HNSW32")
    ),
    "million": lambda: measure_index(1_000_000, 10_000, ("auto", "PQ32x4fs")),
    "error": measure_error,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        print(f"\n## {part}\n")
        PARTS[part]()
