"""The pictures of docs/truncation.md: error and certificate against K*, time against error, recall
against tables.

python benchmarks/pictures.py [--quick] [--out docs/images]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib as mpl
import matplotlib.ticker
import numpy as np
from matplotlib import pyplot as plt
from truncation import paper_bound  # beside this file

import nearworth as nw
from nearworth.cli.bench import Blobs
from nearworth.neighbors.exact import Sample
from nearworth.neighbors.lsh import collision_probability

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "nearworth"
STYLES = {"local": "o-", "minimax": "s--", "mean": "^:", "paper": "x-."}
K = 5


def error_against_candidates(data: Blobs, exact: nw.Valuation, out: Path) -> None:
    """Largest and mean error of the values, and what the certificate allows."""
    n, ks = len(data.X), [10, 20, 50, 100, 200, 500, 1_000, 2_000]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), sharex=True)
    for tail, style in STYLES.items():
        runs = [
            nw.KNNShapley(K, n_candidates=k, tail=tail)
            .fit(data.X, data.y)
            .value(data.X_val, data.y_val)
            for k in ks
        ]
        errors = [np.abs(v.values - exact.values) for v in runs]
        left.loglog(
            ks,
            [e.mean() for e in errors],
            style,
            color="black",
            label=tail,
            markersize=4,
            linewidth=1,
        )
        if tail in ("minimax", "local"):
            right.loglog(
                ks,
                [v.error_bound for v in runs],
                style,
                color="black",
                label=f"{tail}: certificate",
                markersize=4,
                linewidth=1,
            )
            right.loglog(
                ks,
                [e.max() for e in errors],
                style,
                color="0.55",
                label=f"{tail}: largest error",
                markersize=4,
                linewidth=1,
            )
    right.loglog(
        ks, [paper_bound(n, K, k) for k in ks], "-", color="black", linewidth=2, label="Theorem 3"
    )
    left.set(xlabel="ranked neighbours K*", ylabel="mean |error| of a value", title="what happens")
    right.set(xlabel="ranked neighbours K*", ylabel="largest |error|", title="what is certain")
    for axes in (left, right):
        axes.legend(fontsize=7, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, out / "truncation-error.svg")


def time_against_error(data: Blobs, exact: nw.Valuation, out: Path) -> None:
    """Each way to get values, by its CPU time and its mean error."""
    ways = {"exact": nw.KNNShapley(K, n_jobs=1)}
    for k in (20, 100, 500):
        ways[f"truncated, K* = {k}"] = nw.KNNShapley(K, n_jobs=1, n_candidates=k)
        lsh = nw.LSHSearch(random_state=0, n_threads=1)
        ways[f"LSH, K* = {k}"] = nw.KNNShapley(
            K, n_jobs=1, n_candidates=k, search=lsh, random_state=0
        )
        index = nw.FaissSearch(n_threads=1)
        ways[f"faiss, K* = {k}"] = nw.KNNShapley(
            K, n_jobs=1, n_candidates=k, search=index, random_state=0
        )
    figure, axes = plt.subplots(figsize=(6, 4))
    markers = {"exact": "D", "truncated": "o", "LSH": "^", "faiss": "s"}
    points: dict[str, list[tuple[float, float]]] = {kind: [] for kind in markers}
    for name, est in ways.items():
        est.fit(data.X, data.y).value(data.X_val[:64], data.y_val[:64])  # warms up
        started = time.process_time()
        v = est.value(data.X_val, data.y_val)
        spent, error = time.process_time() - started, np.abs(v.values - exact.values).mean()
        points[name.split(",")[0]].append((spent, error))
        print(
            f"{name:<22} {spent:8.2f} s CPU   mean error {error:.2e}   certificate"
            f" {v.error_bound:.2e}",
            flush=True,
        )
    for kind, marker in markers.items():
        spent, errors = np.array(points[kind]).T
        named = {"exact": "exact: no error", "truncated": "exact search, K* = 20, 100, 500"}
        label = named.get(kind, f"{kind}, the same K*")
        axes.plot(
            spent,
            errors,
            f"{marker}:",
            color="black",
            fillstyle="none",
            markersize=7,
            linewidth=0.8,
            label=label,
        )
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=1e-9)
    axes.set_ylim(-2e-10, 3e-5)
    axes.set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    axes.legend(fontsize=8, frameon=False, loc="lower left")
    sizes = f"{len(data.X):,} x {len(data.X_val):,}, d = {data.X.shape[1]}"
    axes.set(
        xlabel=f"CPU seconds ({sizes}, one thread, index included)",
        ylabel="mean |error| of a value",
    )
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, out / "time-against-error.svg")


def recall_against_tables(data: Blobs, out: Path) -> None:
    """LSH: what the closed form predicts and what is found."""
    figure, axes = plt.subplots(figsize=(5.2, 3.6))
    sample = Sample(data.X, 10, data.X_val[:200])
    radius = float(np.median(sample.distances[:, -1]))
    counts = [5, 10, 20, 40, 80, 160]
    for n_hashes, style in ((6, "o"), (10, "s"), (14, "^")):
        measured, predicted = [], []
        for n_tables in counts:
            searcher = nw.LSHSearch(n_tables, n_hashes, 3 * radius, random_state=1).fit(data.X)
            measured.append(sample.recall_of(searcher).mean())
            together = collision_probability(sample.distances, 3 * radius) ** n_hashes
            predicted.append((1 - (1 - together) ** n_tables).mean())
        axes.semilogx(counts, predicted, "-", color="0.6", linewidth=1)
        axes.semilogx(
            counts,
            measured,
            style,
            color="black",
            fillstyle="none",
            label=f"M = {n_hashes}",
            markersize=5,
        )
        print(
            f"M = {n_hashes}: largest |predicted - measured|"
            f" {np.abs(np.subtract(predicted, measured)).max():.4f}"
        )
    axes.set(
        xlabel="tables L",
        ylabel="recall of the 10 nearest",
        title="marks measured, lines predicted",
    )
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, out / "lsh-recall.svg")


def save(figure: plt.Figure, path: Path) -> None:
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    print("wrote", path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    given = parser.parse_args()
    data = Blobs.make(5_000 if given.quick else 20_000, 300, 16, n_classes=3)
    exact = nw.KNNShapley(K).fit(data.X, data.y).value(data.X_val, data.y_val)
    error_against_candidates(data, exact, given.out)
    recall_against_tables(data, given.out)
    large = Blobs.make(10_000 if given.quick else 100_000, 2_000, 16)
    time_against_error(
        large, nw.KNNShapley(K).fit(large.X, large.y).value(large.X_val, large.y_val), given.out
    )


if __name__ == "__main__":
    main()
