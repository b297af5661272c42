"""Is `search="auto"` a good choice? Its time against every manual way to the same certified error.

    python benchmarks/choice.py            the grid, some minutes
    python benchmarks/choice.py --large    with a million points

Wall time with all threads, best of two. Ways whose time grows with the validation points alone are
measured on at most 512 of them.
"""

from __future__ import annotations

import sys
import time

from nearworth import KNNShapley
from nearworth.cli.bench import Blobs
from nearworth.games.classification import ClassificationGame
from nearworth.games.truncation import candidates_for_error

ERRORS = (1e-2, 1e-3, 1e-5)
FEW = 512


def seconds(data: Blobs, n_val: int, **parameters) -> float:
    some = data.first(n_val)
    est = KNNShapley(5, random_state=0, **parameters).fit(some.X, some.y)
    est.value(some.X_val[:16], some.y_val[:16])
    times = []
    for _ in range(2):
        start = time.perf_counter()
        est.value(some.X_val, some.y_val)
        times.append(time.perf_counter() - start)
    return min(times)


def scaled(data: Blobs, n_val: int, **parameters) -> float:
    few = min(FEW, n_val)
    return seconds(data, few, **parameters) * n_val / few


def measure(n: int, n_val: int) -> float:
    data = Blobs.make(n, n_val, 64)
    game = ClassificationGame(n, 5, 10)
    worst = 0.0
    exact = scaled(data, n_val)
    for error in ERRORS:
        k = candidates_for_error(game, error)
        ways = {"all ranks": exact, "max_error": scaled(data, n_val, max_error=error)}
        if k <= 2_000:
            ways["K* ranks"] = scaled(data, n_val, n_candidates=k)
        if k <= 1_000 and n >= 100_000:
            ways["faiss"] = seconds(data, n_val, n_candidates=k, search="faiss")
        est = KNNShapley(5, max_error=error, search="auto").fit(data.X, data.y)
        chosen = est.plan(n_val).method
        auto = (
            ways["faiss"]
            if chosen.searcher
            else scaled(data, n_val, max_error=error, search="auto")
        )
        best = min(ways, key=ways.__getitem__)
        ratio = auto / min(*ways.values(), auto)
        worst = max(worst, ratio)
        times = ", ".join(f"{name} {t:.2f}" for name, t in ways.items())
        print(
            f"| {n:,} | {n_val:,} | {error:g} | {auto:.2f} | {best} | {ratio:.2f} | {times} |",
            flush=True,
        )
    return worst


def main() -> None:
    sizes = [(10_000, 1_000), (100_000, 200), (100_000, 4_000), (300_000, 4_000)]
    if "--large" in sys.argv:
        sizes += [(1_000_000, 1_000), (1_000_000, 10_000)]
    print(
        "| N | N_val | error | auto (s) | best manual way | auto / best | all (s)"
        " |\n|---|---|---|---|---|---|---|"
    )
    print(f"\nworst: {max(measure(*size) for size in sizes):.2f} times the best manual choice")


if __name__ == "__main__":
    main()
