"""Pictures for notebooks and slides: the one place that knows matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearworth._common.types import FloatVector

DARK = "0.15"
GOOD, BAD = (
    "#8ecae6",
    "#c1440e",
)  # light and dark for every kind of eye; hatches too, for black-and-white printers


def _make_axes(ax: Any, x: str, y: str) -> Any:
    """The axes given, or those of a new figure, with their labels and without a frame."""
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError("Plots need matplotlib: pip install 'nearworth[plot]'.") from error
        ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
    ax.set_xlabel(x, size=12)
    ax.set_ylabel(y, size=12)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_values(values: FloatVector, what: str, ax: Any = None, bins: int = 50) -> Any:
    """Histogram of values: hatched where rows hurt (below zero), plain where they help."""
    ax = _make_axes(ax, what, "training rows")
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    width = (high - low) / bins or 1.0
    edges = width * np.arange(
        np.floor(low / width), np.ceil(high / width) + 1.5
    )  # one at zero: no bar mixes two signs
    _histogram(ax, values, edges, 0.0, ("below zero", "zero or above"))
    return ax


def plot_audit(quality: FloatVector, limit: float, ax: Any = None, bins: int = 40) -> Any:
    """Histogram of the probability that a label is right: hatched below the limit. The counts are
    logarithmic.
    """
    ax = _make_axes(ax, "probability that the given label is right", "rows (logarithmic)")
    edges = np.linspace(0.0, 1.0, 2 * max(1, bins // 2) + 1)
    _histogram(ax, quality, edges, limit, ("more likely wrong", "more likely right"))
    ax.set(yscale="log", xlim=(0, 1))
    return ax


def _histogram(
    ax: Any, values: FloatVector, edges: FloatVector, limit: float, names: tuple[str, str]
) -> None:
    """Bars hatched below the limit and plain above it, with the number of rows on either side."""
    sides = (
        (values < limit, {"facecolor": BAD, "hatch": "////"}),
        (values >= limit, {"facecolor": GOOD}),
    )
    for name, (side, style) in zip(names, sides, strict=True):
        if count := int(side.sum()):
            label = f"{name}: {count:,} row{'s' * (count != 1)}"
            ax.hist(values[side], bins=edges, label=label, edgecolor=DARK, linewidth=0.6, **style)
    ax.axvline(limit, color=DARK, linewidth=1.2)
    ax.legend(frameon=False)
