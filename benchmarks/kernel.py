"""The engine against the float32 product of the same blocks, 64 queries at a time: CPU time of one
thread unless said.

    python benchmarks/kernel.py [ROW ...] rows: exact certified random two wide million self threads
    regression ties audit first plan hostile packed

Ten Gaussian classes, as in `nearworth bench speed`; `overlap` is the share of the 5 nearest of a
query that have another label. Ratios are of the best of five, both in turn, so compare ratios
rather than nanoseconds.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import nearworth as nw
from nearworth._common import native


def gaussian(n, width, classes, n_val, *, random_labels=False, seed=1):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((classes, width))
    y = rng.integers(0, classes, n + n_val)
    X = (centres[y] + rng.standard_normal((n + n_val, width))).astype(np.float32)
    y = rng.integers(0, classes, n + n_val) if random_labels else y
    return X[:n], y[:n], X[n:], y[n:]


def overlap(X, y, X_val, y_val):
    some = slice(0, 64)
    distances = (X**2).sum(axis=1) - 2.0 * X_val[some] @ X.T
    near = np.argpartition(distances, 5, axis=1)[:, :5]
    return float((y[near] != y_val[some, None]).mean())


def product(X, X_val):
    out = np.empty((64, len(X)), np.float32)
    for start in range(0, len(X_val), 64):
        some = X_val[start : start + 64]
        np.dot(some, X.T, out=out[: len(some)])


def seconds(work, clock=time.process_time):
    start = clock()
    work()
    return clock() - start


def compare(name, data, work, rounds=5):
    """Print one line: the work and the product, nanoseconds per pair and their ratio."""
    X, _, X_val, _ = data
    ours = products = np.inf
    for _ in range(rounds):
        products = min(products, seconds(lambda: product(X, X_val)))
        ours = min(ours, seconds(work))
    ns = 1e9 / (len(X) * len(X_val))
    print(
        f"{name:<44} product {products * ns:6.2f}  here {ours * ns:7.2f} ns  ratio"
        f" {ours / products:6.2f}  overlap {overlap(*data):.2f}",
        flush=True,
    )


def fit_and_value(data, **parameters):
    X, y, X_val, y_val = data
    return lambda: nw.KNNShapley(5, n_jobs=1, **parameters).fit(X, y).value(X_val, y_val)


def exact():
    data = gaussian(100_000, 64, 10, 256)
    compare("exact, 10^5 x 64, C = 10, fit + value of 256", data, fit_and_value(data))


def certified():
    data = gaussian(100_000, 64, 10, 256)
    compare("certified, max_error = .1/N, same", data, fit_and_value(data, max_error=1e-6))


def random():
    data = gaussian(100_000, 64, 10, 256, random_labels=True)
    compare("exact, labels random", data, fit_and_value(data))
    compare("certified, labels random", data, fit_and_value(data, max_error=1e-6))


def two():
    data = gaussian(100_000, 64, 2, 256)
    compare("exact, C = 2", data, fit_and_value(data))


def wide():
    data = gaussian(100_000, 768, 100, 64)
    compare("exact, d = 768, C = 100, fit + value of 64", data, fit_and_value(data))


def million():
    data = gaussian(1_000_000, 128, 10, 1_000)
    compare(
        "exact, 10^6 x 128, 1,000, max_memory 1GB",
        data,
        fit_and_value(data, max_memory="1GB"),
        rounds=1,
    )


def self():
    for n in (1_000, 5_000, 10_000):
        X, y, _, _ = gaussian(n, 32, 10, 1)
        est = nw.KNNShapley(5, n_jobs=1).fit(X, y)
        compare(f"self-valuation of {n:,} x 32, value alone", (X, y, X, y), est.value)


def gain(n):
    X, y, X_val, y_val = gaussian(n, 64, 10, 2_000)
    times = {1: np.inf, 2: np.inf}
    for _ in range(3):
        for n_jobs in times:
            est = nw.KNNShapley(5, n_jobs=n_jobs).fit(X, y)
            times[n_jobs] = min(
                times[n_jobs], seconds(lambda: est.value(X_val, y_val), time.perf_counter)
            )
    print(
        f"two threads against one, N = {n:,}, 2,000 queries: {times[1] / times[2]:.2f} times as"
        " fast",
        flush=True,
    )


def threads():
    gain(100_000)
    gain(10_000)


def regression():
    X, _, X_val, _ = gaussian(100_000, 32, 10, 64)
    targets, wanted = X[:, 0].astype(float), X_val[:, 0].astype(float)
    est = nw.KNNShapley(5, "regression", n_jobs=1).fit(X, targets)
    compare(
        "regression, 10^5 x 32, value of 64",
        (X, targets, X_val, wanted),
        lambda: est.value(X_val, wanted),
    )


def ties():
    """How the time of regression grows where keys are tied: 16 times the points, quadratic would be
    256 times.
    """
    rng = np.random.default_rng(0)
    kinds = {
        "all equal": lambda n: np.full((2, n), 7.0),
        "one cell": lambda n: 1.0 + rng.integers(0, 3, (2, n)) * 2.0**-52,
        "few values": lambda n: rng.integers(0, 3, (2, n)).astype(float),
    }
    for name, make in kinds.items():
        times = []
        for n in (10_000, 160_000):
            D = make(n)
            est = nw.KNNShapley(5, "regression", metric="precomputed", n_jobs=1).fit(
                None, rng.normal(size=n)
            )
            times.append(min(seconds(lambda: est.value(D, np.zeros(2))) for _ in range(5)))
        growth = times[1] / times[0]
        print(
            f"regression, ties, {name}: 160,000 points take {growth:.0f} times as long as 10,000",
            flush=True,
        )


def plan():
    """The time that a plan predicts, beside the time that it takes."""
    X, y, X_val, y_val = gaussian(20_000, 16, 4, 1_024)
    est = nw.KNNShapley(5, n_jobs=1).fit(X, y)
    est.value(X_val[:64], y_val[:64])  # imports
    predicted = est.plan(len(X_val)).seconds
    taken = seconds(lambda: est.value(X_val, y_val), time.perf_counter)
    print(f"plan, 20,000 x 1,024: predicted {predicted:.3f} s, taken {taken:.3f} s", flush=True)


def packed():
    """Against the strongest sort we know: keys and indices packed into 64 bits, sorted in all
    threads; wall time.
    """
    X, y, X_val, y_val = gaussian(50_000, 64, 10, 1_000)
    index, norms, rank = (
        np.arange(len(X), dtype=np.uint64),
        (X * X).sum(axis=1),
        np.arange(1, len(X)),
    )
    step = np.minimum(5, rank) / rank / 5

    def part(queries):
        values = np.zeros(len(X))
        for some in np.split(queries, range(16, len(queries), 16)):
            keys = norms - 2.0 * X_val[some] @ X.T
            keys -= keys.min(axis=1, keepdims=True)  # positive floats sort like their bits
            items = (keys.view(np.uint32).astype(np.uint64) << np.uint64(32)) | index
            items.sort(axis=1)
            for order, label in zip(
                (items & np.uint64(0xFFFFFFFF)).astype(np.intp), y_val[some], strict=True
            ):
                match = (y[order] == label).astype(float)
                steps = np.cumsum(((match[:-1] - match[1:]) * step)[::-1])[::-1]
                values[order] += match[-1] / len(X) + np.append(steps, 0.0)
        return values

    def sort():
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return sum(pool.map(part, np.array_split(np.arange(len(X_val)), os.cpu_count()))) / len(
                X_val
            )

    exact = lambda: nw.knn_shapley(X, y, X_val, y_val, n_neighbors=5, utility="original")  # noqa: E731
    assert np.abs(sort() - exact()).max() < 1e-3 * np.abs(exact()).max()
    times = np.min(
        [[seconds(work, time.perf_counter) for work in (sort, exact)] for _ in range(3)], axis=0
    )
    print(
        "threaded sort of packed keys / exact, 50,000 x 1,000, all cores:"
        f" {times[0] / times[1]:.1f}",
        flush=True,
    )


def by_recursion(X, y, X_val, y_val, k):
    """Values of the original utility as Jia et al. (2019) print them, from a sort of all distances:
    far to near.
    """
    n, total = len(X), np.zeros(len(X))
    ranks = np.arange(1, n)
    for query, label in zip(X_val, y_val, strict=True):
        order = np.argsort(((X - query) ** 2).sum(axis=1), kind="stable")
        match = (y[order] == label).astype(float)
        steps = (match[:-1] - match[1:]) / k * np.minimum(k, ranks) / ranks
        last = match[-1] * min(k, n) / (n * k)
        total[order] += last + np.append(np.cumsum(steps[::-1])[::-1], 0.0)
    return total / len(X_val)


def hostile():
    """Sizes at the edge, wall time in all threads, and how far values are from the printed
    recursion.
    """
    cases = {
        "N = 10, 10^6 validation points": (10, 8, 3, 1_000_000, 5),
        "N = 10^7, d = 8": (10_000_000, 8, 10, 8, 5),
        "10,000 classes": (100_000, 16, 10_000, 64, 5),
        "K = 10^6": (1_000_000, 8, 10, 8, 1_000_000),
        "d = 10^5": (2_000, 100_000, 10, 100, 5),
    }
    for name, (n, width, classes, n_val, k) in cases.items():
        rng = np.random.default_rng(n)
        X, X_val = rng.standard_normal((n, width)), rng.standard_normal((n_val, width))
        y, y_val = rng.integers(0, classes, n), rng.integers(0, classes, n_val)
        found = []
        time_taken = seconds(
            lambda: found.append(
                nw.knn_shapley(X, y, X_val, y_val, n_neighbors=k, utility="original")
            ),
            time.perf_counter,
        )
        some = slice(0, min(n_val, 20_000 if n == 10 else 8))
        wanted = by_recursion(X, y, X_val[some], y_val[some], k)
        if some.stop < n_val:
            found = [
                nw.knn_shapley(X, y, X_val[some], y_val[some], n_neighbors=k, utility="original")
            ]
        gap = np.abs(found[0] - wanted).max() / np.abs(wanted).max()
        print(f"{name:<32} {time_taken:6.1f} s; off by {gap:.0e} of the largest value", flush=True)


def audit():
    """What an audit takes besides the valuation that it makes, in all threads."""
    for n, width in ((20_000, 32), (50_000, 128)):
        X, y, _, _ = gaussian(n, width, 10, 1)
        y = nw.add_label_noise(y, 0.1, random_state=0)
        works = (
            lambda: nw.KNNShapley(10).fit(X, y).value(),
            lambda: nw.audit_labels(X, y, n_neighbors=10),
        )
        valuation, audited = np.min([[seconds(work) for work in works] for _ in range(2)], axis=0)
        print(
            f"audit / valuation, {n:,} x {width}, 10 % of labels wrong: {audited / valuation:.2f}",
            flush=True,
        )


def first():
    """What the first call in a process takes longer than the second."""
    for call in ("KNNShapley(5).fit(X, y).value()", "audit_labels(X, y)"):
        code = f"""
import time, numpy as np, nearworth as nw
X, y = np.random.default_rng(0).normal(size=(500, 8)), np.arange(500) % 3
times = [time.process_time()]
for _ in range(2):
    nw.{call}
    times.append(time.process_time())
print(2 * times[1] - times[0] - times[2])"""
        extra = min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3))
        print(f"first call beyond a later one, {call}: {extra:.2f} s of CPU time", flush=True)


if __name__ == "__main__":
    print(f"instructions: {native.variant()}")
    for row in sys.argv[1:] or (
        "exact",
        "certified",
        "random",
        "two",
        "wide",
        "self",
        "threads",
        "regression",
        "ties",
        "audit",
        "first",
        "plan",
    ):
        globals()[row]()
