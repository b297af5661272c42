"""The plots of docs/gallery.md and docs/value.md: python benchmarks/gallery.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from sklearn.linear_model import LogisticRegression

import nearworth as nw
from nearworth.datasets import noisy_digits

mpl.use("Agg")
IMAGES = Path(__file__).parents[1] / "docs" / "images"


def plot_removal(
    values: np.ndarray, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> Axes:
    """Accuracy as rows are removed by value or at random; the band is one standard deviation of
    random removal.
    """
    shares, rng = np.arange(0, 0.55, 0.05), np.random.default_rng(0)

    def accuracy(order: np.ndarray) -> np.ndarray:
        kept = [order[round(share * len(order)) :] for share in shares]
        models = [LogisticRegression(max_iter=300).fit(X[rows], y[rows]) for rows in kept]
        return 100 * np.array([model.score(X_test, y_test) for model in models])

    at_random = np.array([accuracy(rng.permutation(len(y))) for _ in range(5)])
    mean, spread = at_random.mean(axis=0), at_random.std(axis=0, ddof=1)
    _, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    ax.set(xlabel="training rows removed (%)", ylabel="accuracy (%)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.fill_between(100 * shares, mean - spread, mean + spread, color="0.85", linewidth=0)
    ax.plot(100 * shares, mean, ":", color="0.15", label="at random (mean and standard deviation)")
    line = {"linewidth": 2, "markersize": 6, "markerfacecolor": "white"}
    ax.plot(
        100 * shares,
        accuracy(np.argsort(values)),
        "o-",
        color="#1d6f98",
        label="lowest value first",
        **line,
    )
    ax.plot(
        100 * shares,
        accuracy(np.argsort(-values)),
        "s--",
        color="#c1440e",
        label="highest value first",
        **line,
    )
    ax.legend(frameon=False)
    return ax


def main() -> None:
    X, y, X_val, y_val, _ = noisy_digits()
    est = nw.KNNShapley(n_neighbors=5).fit(X, y)
    v, half = est.value(X_val, y_val), est.value(X_val[:300], y_val[:300])
    held_out = X_val[300:] / 16, y_val[300:]
    plots = {
        "values": v.plot,
        "quality": nw.audit_labels(X, y).plot,
        "removal": lambda: plot_removal(half.values, X / 16, y, *held_out),
    }
    for name, draw in plots.items():
        draw().figure.savefig(IMAGES / f"{name}.png", dpi=110)
        plt.close("all")


if __name__ == "__main__":
    main()
