"""Geometry of the pictures; the template draws them.

Points of one kind are one path of zero-length lines with round ends: thousands cost next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nearworth._common.types import BoolVector, FloatMatrix, FloatVector

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 76, 538, 14, 294  # edges of the frame
NAMES = 120  # width of the names of classes
BINS = 40
LEVELS = 5  # of quality, worst first


class Axis(NamedTuple):
    """From numbers to positions in the picture."""

    low: float
    high: float
    start: float
    stop: float

    @classmethod
    def of(cls, values: FloatVector, start: float, stop: float) -> Axis:
        """An axis that shows all values with a little room."""
        low, high = float(values.min()), float(values.max())
        room = 0.03 * (high - low) or 0.5
        return cls(low - room, high + room, start, stop)

    def __call__(self, values: Any) -> Any:
        return self.start + (values - self.low) / (self.high - self.low) * (self.stop - self.start)

    def ticks(self, form: str = ".3g") -> list[tuple[float, str]]:
        """Positions and texts of a few round numbers."""
        span = self.high - self.low
        step = 10 ** math.floor(math.log10(span / 5))
        step *= next(m for m in (1, 2, 5, 10) if span / (step * m) <= 5)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(self(i * step), format(i * step, form)) for i in range(first, last + 1)]


def histogram(quality: FloatVector, threshold: float | None) -> dict[str, Any]:
    """How many rows have which quality, on a scale that shows few as well as many, with the threshold."""
    counts, edges = np.histogram(quality, bins=BINS, range=(0.0, 1.0))
    x, y = Axis(0.0, 1.0, LEFT, RIGHT), Axis(0.0, math.log1p(counts.max()), BOTTOM, TOP)
    bars = [
        {
            "kind": "bar suspect" if threshold is not None and (low < threshold or low == threshold == 0.0) else "bar",
            "x": x(low), "width": x(high) - x(low) - 1, "y": y(math.log1p(count)),
            "title": f"{count:,} rows from {low:.0%} to {high:.0%}",
        }
        for count, low, high in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]  # fmt: skip
    powers = [10**p for p in range(int(math.log10(counts.max())) + 1)]
    return {
        "bars": bars,
        "x_ticks": x.ticks(".0%"),
        "y_ticks": [(y(math.log1p(power)), f"{power:,}") for power in powers],
        "threshold": None if threshold is None else x(threshold),
    }


def boxes(groups: Sequence[tuple[str, FloatVector, FloatVector]]) -> dict[str, Any]:
    """Values by class: a box from the first to the third quartile, a line from 5 to 95 %, suspects as ticks below."""
    row = 30 if len(groups) > 5 else 56
    ends = np.percentile(np.concatenate([values for _, values, _ in groups]), [0.5, 99.5])
    x = Axis.of(np.append(ends, 0.0), NAMES, RIGHT)
    lines = []
    for number, (name, values, suspects) in enumerate(groups):
        y = row * number + row // 2 - 1
        ticks = "".join(f"M{at:.1f} {y + 9}v6" for at in np.clip(x(suspects), NAMES, WIDTH - 2))
        quantiles = np.clip(x(np.percentile(values, [5, 25, 50, 75, 95])), NAMES, WIDTH).tolist()
        title = f"{name}: median {np.median(values):.3g}, {len(values):,} rows"
        lines.append({"name": name, "y": y, "quantiles": quantiles, "title": title, "ticks": ticks})
    return {"lines": lines, "bottom": row * len(groups) + 10, "zero": x(0.0), "x_ticks": x.ticks()}


def scatter(points: FloatMatrix, quality: FloatVector, suspect: BoolVector) -> dict[str, Any]:
    """Points coloured by quality, suspects as crosses; and the position of each point in the picture."""
    x, y = Axis.of(points[:, 0], LEFT, RIGHT), Axis.of(points[:, 1], BOTTOM, TOP)
    positions = np.column_stack([x(points[:, 0]), y(points[:, 1])])
    level = np.minimum((quality * LEVELS).astype(int), LEVELS - 1)
    paths = {
        f"dots q{step}": "".join(f"M{a:.1f} {b:.1f}h0" for a, b in positions[(level == step) & ~suspect])
        for step in range(LEVELS - 1, -1, -1)
    }
    paths["crosses"] = "".join(f"M{a - 3:.1f} {b - 3:.1f}l6 6m0-6l-6 6" for a, b in positions[suspect])
    return {"paths": paths, "x_ticks": x.ticks(), "y_ticks": y.ticks(), "positions": positions}
