"""Inline SVG. Points of one kind are one path of zero-length lines with round ends: thousands cost next to nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from nearworth._common.types import BoolVector, FloatMatrix, FloatVector

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 76, 22, 14, 46
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

    def ticks(self) -> list[float]:
        """Up to five round numbers or so."""
        span = self.high - self.low
        step = 10 ** math.floor(math.log10(span / 5))
        step *= next(m for m in (1, 2, 5, 10) if span / (step * m) <= 5)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def histogram(quality: FloatVector, threshold: float | None) -> Markup:
    """How many rows have which quality, on a scale that shows few as well as many, with the threshold."""
    counts, edges = np.histogram(quality, bins=BINS, range=(0.0, 1.0))
    x = Axis(0.0, 1.0, LEFT, WIDTH - RIGHT)
    y = Axis(0.0, math.log1p(counts.max()), HEIGHT - BOTTOM, TOP)
    parts = []
    for count, low, high in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        kind = "bar suspect" if threshold is not None and (low < threshold or low == threshold == 0.0) else "bar"
        box = _rect(kind, x(low), y(math.log1p(count)), x(high) - x(low) - 1, HEIGHT - BOTTOM - y(math.log1p(count)))
        parts.append(f"{box}<title>{count:,} rows from {low:.0%} to {high:.0%}</title></rect>")
    powers = [10**p for p in range(int(math.log10(counts.max())) + 1)]
    parts += [_y_tick(y(math.log1p(power)), f"{power:,}") for power in powers]
    parts += [_x_tick(x(t), f"{t:.0%}") for t in x.ticks()]
    if threshold is not None:
        parts.append(_line("threshold", x(threshold), x(threshold), TOP, HEIGHT - BOTTOM))
    title = f"Quality of the labels. Histogram of the probability that a label is right, {len(quality):,} rows."
    return _svg(title, parts, "probability that the label is right", "rows (log scale)")


def boxes(groups: Sequence[tuple[str, FloatVector, FloatVector]]) -> Markup:
    """Values by class: a box from the first to the third quartile, a line from 5 to 95 %, suspects as ticks below."""
    left, row = 120, 30 if len(groups) > 5 else 56
    height = row * len(groups) + 56
    ends = np.percentile(np.concatenate([values for _, values, _ in groups]), [0.5, 99.5])
    x = Axis.of(np.append(ends, 0.0), left, WIDTH - RIGHT)
    parts = [_line("zero", x(0.0), x(0.0), 4, height - BOTTOM)]
    for number, (name, values, suspects) in enumerate(groups):
        y = row * number + row // 2 - 1
        five, first, median, third, ninety = np.clip(x(np.percentile(values, [5, 25, 50, 75, 95])), left, WIDTH)
        ticks = "".join(f"M{at:.1f} {y + 9}v6" for at in np.clip(x(suspects), left, WIDTH - 2))
        parts += [
            _text("label", left - 8, y + 4, name if len(name) <= 16 else f"{name[:15]}…", "end"),
            _line("whisker", five, ninety, y, y),
            _rect("box", first, y - 7, max(third - first, 1), 14),
            f"<title>{escape(name)}: median {np.median(values):.3g}, {len(values):,} rows</title></rect>",
            _line("median", median, median, y - 8, y + 8),
            f'<path class="ticks" d="{ticks}"/>',
        ]
    parts += [_x_tick(x(t), f"{t:.3g}", height) for t in x.ticks()]
    title = "Values by class. Box per class: quartiles and 5 to 95 %; ticks below are suspects; the line is zero."
    return _svg(title, parts, "value (below zero: the row hurts)", "", height)


def scatter(
    points: FloatMatrix, quality: FloatVector, suspect: BoolVector, title: str, x: str, y: str
) -> tuple[Markup, FloatMatrix]:
    """Points coloured by quality, suspects as crosses; also the position of each point in the picture."""
    x_axis, y_axis = Axis.of(points[:, 0], LEFT, WIDTH - RIGHT), Axis.of(points[:, 1], HEIGHT - BOTTOM, TOP)
    positions = np.column_stack([x_axis(points[:, 0]), y_axis(points[:, 1])])
    level = np.minimum((quality * LEVELS).astype(int), LEVELS - 1)
    parts = []
    for step in range(LEVELS - 1, -1, -1):
        dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in positions[(level == step) & ~suspect])
        parts.append(f'<path class="dots q{step}" d="{dots}"/>')
    crosses = "".join(f"M{a - 3:.1f} {b - 3:.1f}l6 6m0-6l-6 6" for a, b in positions[suspect])
    parts.append(f'<path class="crosses" d="{crosses}"/>')
    parts += [_x_tick(x_axis(t), f"{t:.3g}") for t in x_axis.ticks()]
    parts += [_y_tick(y_axis(t), f"{t:.3g}") for t in y_axis.ticks()]
    return _svg(f"{title}; suspects are crosses.", parts, x, y), positions


def _x_tick(at: float, text: str, height: float = HEIGHT) -> str:
    base = height - BOTTOM
    return _line("tick", at, at, base, base + 4) + _text("tick", at, base + 17, text)


def _y_tick(at: float, text: str) -> str:
    return _line("grid", LEFT, WIDTH - RIGHT, at, at) + _text("tick", LEFT - 6, at + 4, text, "end")


def _line(kind: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    """A rectangle that is still open: its title follows."""
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">'


def _text(kind: str, x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(title: str, parts: Sequence[str], x: str, y: str, height: int = HEIGHT) -> Markup:
    base = _line("base", LEFT, WIDTH - RIGHT, height - BOTTOM, height - BOTTOM)
    names = _text("axis", (LEFT + WIDTH) / 2, height - 6, x)
    names += f'<g transform="rotate(-90)">{_text("axis", -height / 2, 13, y)}</g>'
    return Markup(  # every text above went through escape; the rest are numbers of ours
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}{base}{names}</svg>"
    )
