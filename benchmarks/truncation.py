"""Errors of the truncation tails on the datasets of a folder: python benchmarks/truncation.py
FOLDER [SEED].

The folder holds .npz archives with X and y, or x_train and y_train. For every dataset and K*, the
table has the mean error of the near points under each tail, the factor by which "local" beats the
paper's estimator, and the mean error of the far points; `bound` is Theorem 3's bound over the
largest half-width of an interval. Every interval is checked.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from nearworth.games.classification import ClassificationGame
from nearworth.games.ties import TieBlocks
from nearworth.games.truncation import TruncatedClassification

NAMES = (
    *(
        "2dplanes",
        "apsfail_subset",
        "cifar10_catdog_features",
        "click",
        "cpu",
        "creditcard",
        "fmnist",
        "fraud",
    ),
    *("mnist", "phoneme", "pol", "wind", "wine_quality_white"),
)
TAILS = ("paper", "minimax", "mean", "local")
CANDIDATES = (50, 100, 1000)
N_QUERIES, MOST_POINTS, K = 200, 20_000, 5


def load(path, rng):
    """Features and labels, at most MOST_POINTS rows; tables standardised, images and embeddings as
    they are.
    """
    with np.load(path, allow_pickle=False) as data:
        image = "x_train" in data
        X, y = (data["x_train"], data["y_train"]) if image else (data["X"], data["y"])
    rows = rng.permutation(len(X))[:MOST_POINTS]
    X, y = X[rows].reshape(len(rows), -1).astype(np.float64), y[rows]
    if image:
        return X, y
    scale = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0), y


def ranked_matches(X, y):
    """Whether labels match, for N_QUERIES rows as queries and the others in rank order (Q, N)."""
    queries, points = slice(None, N_QUERIES), slice(N_QUERIES, None)
    keys = (X[points] ** 2).sum(axis=1) - 2.0 * X[queries] @ X[points].T
    order = np.argsort(np.round(keys, 6), axis=1, kind="stable")
    return (y[points][order] == y[queries][:, None]).astype(np.intp), len(np.unique(y))


def errors(game, matches, k, tail):
    """Mean error of the near points, of the far points, and the largest half-width; intervals must
    hold.
    """
    truth = game.values(
        matches, np.ones(len(matches), dtype=np.intp), TieBlocks(np.ones(matches.shape, dtype=bool))
    )
    near, *unranked = TruncatedClassification(game, tail).rows(
        matches[:, :k], None, matches.sum(axis=1)
    )
    far = [
        np.where(matches[:, k:] == 1, match[:, None], other[:, None])
        for match, other in zip(*unranked, strict=True)
    ]
    value, lower, upper = (np.concatenate(pair, axis=1) for pair in zip(near, far, strict=True))
    assert (lower <= truth + 1e-12).all(), "an interval is violated"
    assert (truth <= upper + 1e-12).all(), "an interval is violated"
    error = np.abs(value - truth)
    return error[:, :k].mean(), error[:, k:].mean(), ((upper - lower) / 2).max()


def paper_bound(n_players, n_neighbors, n_candidates):
    """Theorem 3's bound on the error of tail "paper" for the soft-label Shapley value, K* < N and K
    <= N.

    As its proof has it: the printed statement is the same for K >= 2 and larger by 1/(2N) for K =
    1.
    """
    harmonic = sum(1.0 / j for j in range(2, n_neighbors + 1))
    return (harmonic - 0.5) / n_players + 1.0 / max(n_candidates, n_neighbors)


def main(folder, seed):
    factors = {k: [] for k in CANDIDATES}
    print(
        "| data | N | K* | "
        + " | ".join(TAILS)
        + " | paper/local | far "
        + " | far ".join(TAILS)
        + " | bound |"
    )
    print("|" + "---|" * (9 + len(TAILS)))
    for name in NAMES:
        path = folder / f"{name}.npz"
        if not path.exists():
            print(f"{path} is not there: skipped", file=sys.stderr)
            continue
        matches, n_classes = ranked_matches(*load(path, np.random.default_rng(seed)))
        n = matches.shape[1]
        game = ClassificationGame(n, K, n_classes)
        for k in CANDIDATES:
            near, far, half = zip(*(errors(game, matches, k, tail) for tail in TAILS), strict=True)
            factors[k].append(near[0] / near[-1])
            cells = (
                [f"{x:.1e}" for x in near] + [f"{factors[k][-1]:.1f}"] + [f"{x:.1e}" for x in far]
            )
            print(
                f"| {name} | {n} | {k} | "
                + " | ".join(cells)
                + f" | {paper_bound(n, K, k) / max(half):.2f} |"
            )
    for k in CANDIDATES:
        summarise(f"K* = {k}", factors[k])
    summarise("all", [x for row in factors.values() for x in row])


def summarise(what, factors):
    mean = np.exp(np.mean(np.log(factors)))
    print(f"{what}: paper/local {mean:.2f} in the geometric mean, {min(factors):.2f} at least")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
