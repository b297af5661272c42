"""Pictures for notebooks and slides. No other module imports matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.types import BoolVector, FloatVector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DARK = "0.15"
# A light and a dark color, which differ for people with any color vision. Hatches make the bars
# differ in black and white too.
GOOD = "#8ecae6"
BAD = "#c1440e"


def _labeled_axes(ax: Axes | None, x_label: str, y_label: str) -> Axes:
    """The axes, or those of a new figure for None, with labels and without a frame."""
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError("Plots need matplotlib: pip install 'nearworth[plot]'.") from error
        _, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    ax.set_xlabel(x_label, size=12)
    ax.set_ylabel(y_label, size=12)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_values(values: FloatVector, label: str, ax: Axes | None = None, bins: int = 50) -> Axes:
    """Histogram of values, hatched below zero, with `label` on the axis of values."""
    ax = _labeled_axes(ax, label, "training rows")
    low = min(float(values.min()), 0.0)
    high = max(float(values.max()), 0.0)
    width = (high - low) / bins or 1.0
    # One edge is at zero, so that no bar has values of both signs.
    edges = width * np.arange(np.floor(low / width), np.ceil(high / width) + 1.5)
    _histogram(ax, values, edges, 0.0, ("below zero", "zero or above"))
    return ax


def plot_audit(quality: FloatVector, limit: float, ax: Axes | None = None, bins: int = 40) -> Axes:
    """Histogram of the probability that a label is right, hatched below the limit.

    The counts are logarithmic.
    """
    ax = _labeled_axes(ax, "probability that the given label is right", "rows (logarithmic)")
    edges = np.linspace(0.0, 1.0, 2 * max(1, bins // 2) + 1)
    _histogram(ax, quality, edges, limit, ("more likely wrong", "more likely right"))
    ax.set(yscale="log", xlim=(0, 1))
    return ax


def _histogram(
    ax: Axes, values: FloatVector, edges: FloatVector, limit: float, names: tuple[str, str]
) -> None:
    """Bars hatched below the limit and plain above it.

    Parameters
    ----------
    ax : matplotlib axes
    values : array of shape (N,)
    edges : array of shape (bars + 1,)
    limit : float
    names : (str, str)
        What values below the limit are called in the legend, and those from it on.
    """
    _bars(ax, values, values < limit, edges, names[0], {"facecolor": BAD, "hatch": "////"})
    _bars(ax, values, values >= limit, edges, names[1], {"facecolor": GOOD})
    ax.axvline(limit, color=DARK, linewidth=1.2)
    ax.legend(frameon=False)


def _bars(
    ax: Axes,
    values: FloatVector,
    mask: BoolVector,
    edges: FloatVector,
    name: str,
    style: dict[str, Any],
) -> None:
    """Bars of the values in the mask, and how many they are. Nothing without such values."""
    count = int(mask.sum())
    if not count:
        return
    rows = "row" if count == 1 else "rows"
    label = f"{name}: {count:,} {rows}"
    ax.hist(values[mask], bins=edges.tolist(), label=label, edgecolor=DARK, linewidth=0.6, **style)
