"""The plots of docs/gallery.md and docs/value.md: python benchmarks/gallery.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from sklearn.linear_model import LogisticRegression

import nearworth as nw
from nearworth.datasets import noisy_digits

mpl.use("Agg")
IMAGES = Path(__file__).parents[1] / "docs" / "images"


def main() -> None:
    X, y, X_val, y_val, _ = noisy_digits()
    est = nw.KNNShapley(n_neighbors=5).fit(X, y)
    v, half = est.value(X_val, y_val), est.value(X_val[:300], y_val[:300])
    model = LogisticRegression(max_iter=300)
    curve = nw.removal_curve(half, model, X / 16, y, X_val[300:] / 16, y_val[300:], n_repeats=5)
    plots = {
        "values": v.plot,
        "quality": nw.audit_labels(X, y).plot,
        "removal": curve.plot,
    }
    for name, draw in plots.items():
        draw().figure.savefig(IMAGES / f"{name}.png", dpi=110)
        plt.close("all")


if __name__ == "__main__":
    main()
