"""Owners as players, batches for those who own rows already, votes within a radius, and documents
of a corpus.

    python benchmarks/markets.py [ROW ...]      rows: owners copies ties owned radius retrieval

CPU time of one thread. Owned rows are compared with finding the K nearest neighbours of the same
points (`n_candidates=K`), votes within a radius with the exact ranking, each in the same run, best
of three.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import sys
import tempfile
from pathlib import Path

import numpy as np
from kernel import gaussian, seconds

import nearworth as nw
from nearworth._common import native
from nearworth.datasets import noisy_digits


def best(*works, rounds=3):
    """The least CPU time of each, taken in turn."""
    return np.min([[seconds(work) for work in works] for _ in range(rounds)], axis=0)


def owners():
    X, y, X_val, y_val = gaussian(10_000, 64, 10, 200)
    est = nw.KNNShapley(5, n_jobs=1).fit(X, y)
    for n_owners in (10, 50, 200):
        of_row = np.random.default_rng(n_owners).integers(n_owners, size=len(y))
        (time,) = best(lambda: est.value_owners(of_row, X_val, y_val))
        print(
            f"{n_owners:>4} owners of 10,000 rows, K = 5: {1e3 * time / len(X_val):.2f} ms per"
            " validation point"
        )


def copies():
    X, y, X_val, y_val, flipped = noisy_digits()
    seller = np.array(["north", "south", "east", "west"])[
        np.random.default_rng(0).integers(4, size=len(y))
    ]
    seller[flipped[:60]] = "west"
    mine = np.flatnonzero(seller == "north")
    for times in (1, 20):
        rows = np.concatenate([np.arange(len(y)), *[mine] * (times - 1)])
        est = nw.KNNShapley(5, n_jobs=1).fit(X[rows], y[rows])
        by_rows = est.value(X_val, y_val).sum_by(seller[rows])["north"].share
        by_owners = est.value_owners(seller[rows], X_val, y_val)["north"].share
        print(
            f"{times:>3} x the rows of one of four: {by_rows:.1%} by rows, {by_owners:.1%} by"
            " owners"
        )


def ties(n_rows=10_000, n_owners=10, n_more=100_000, n_val=5):
    """All rows at one point: owners as players, then candidates given half of the rows."""
    rng = np.random.default_rng(0)
    X_val, y_val = np.zeros((n_val, 1)), rng.integers(2, size=n_val)
    of_row, y = rng.integers(n_owners, size=n_rows), rng.integers(2, size=n_rows)
    est = nw.KNNShapley(5, n_jobs=1).fit(np.zeros((n_rows, 1)), y)
    (time,) = best(lambda: est.value_owners(of_row, X_val, y_val))
    print(
        f"{n_rows:,} tied rows of {n_owners} owners: {1e3 * time / n_val:.0f} ms per validation"
        " point"
    )

    mask = np.arange(n_more) < n_more // 2
    est = nw.KNNShapley(5, n_jobs=1).fit(np.zeros((n_more, 1)), rng.integers(2, size=n_more))
    (time,) = best(lambda: est.value(X_val[:1], y_val[:1], owned=mask))
    print(f"{n_more:,} tied rows, half of them owned: {1e3 * time:.0f} ms for one validation point")


def owned(n_owned=1_000_000, n_candidates=1_000, n_val=1_000):
    X, y, X_val, y_val = gaussian(n_owned + n_candidates, 32, 10, n_val)
    mask = np.arange(len(y)) < n_owned
    est = nw.KNNShapley(5, n_jobs=1).fit(X, y)
    search = nw.KNNShapley(5, n_jobs=1, n_candidates=5).fit(X, y)
    time, of_search = best(
        lambda: est.value(X_val, y_val, owned=mask), lambda: search.value(X_val, y_val)
    )
    print(
        f"{n_candidates:,} candidates given {n_owned:,} owned rows, {n_val:,} validation points: "
        f"{time:.1f} s, finding K neighbours {of_search:.1f} s, ratio {time / of_search:.2f}"
    )


def radius():
    X, y, X_val, y_val = gaussian(100_000, 64, 10, 256)
    exact = nw.KNNShapley(5, n_jobs=1).fit(X, y)
    distances = np.linalg.norm(X[::10] - X_val[0], axis=1)
    for share in (0.01, 0.1, 0.3):
        est = nw.KNNShapley(radius=float(np.quantile(distances, share)), n_jobs=1).fit(X, y)
        time, of_ranking = best(lambda: est.value(X_val, y_val), lambda: exact.value(X_val, y_val))
        print(
            f"within a radius, about {share:.0%} of 100,000 rows: {time / of_ranking:.2f} of the"
            " exact ranking"
        )


def retrieval(n_documents=1_000_000, n_queries=10_000, n_ranked=100):
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        run, qrels = Path(folder, "run.trec"), Path(folder, "qrels.txt")
        with run.open("w") as lists, qrels.open("w") as judged:
            for q in range(n_queries):
                ranked = rng.choice(n_documents, n_ranked, replace=False)
                lists.writelines(f"q{q} Q0 d{d} {i + 1} {-i} x\n" for i, d in enumerate(ranked))
                judged.writelines(f"q{q} 0 d{d} 1\n" for d in ranked[rng.random(n_ranked) < 0.1])
        time = seconds(lambda: nw.value_retrieval(run, qrels))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{n_documents:,} documents, {n_queries:,} queries, {n_ranked} ranked each: {time:.1f} s,"
        f" {peak:.2f} GB"
    )


ROWS = {work.__name__: work for work in (owners, copies, ties, radius, owned, retrieval)}

if __name__ == "__main__":
    print(f"instruction set: {native.variant()}")
    for name in sys.argv[1:] or ROWS:
        ROWS[name]()
