"""Inline SVG. Points of one kind are one path of zero-length lines with round ends: thousands cost next to nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from nearworth._common.types import FloatMatrix, FloatVector

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 76, 22, 14, 46
BINS = 40
LEVELS = 5  # of quality, worst first
FEW = 1_000  # points that may be drawn larger


@dataclass(frozen=True)
class Axis:
    """From numbers to positions in the picture."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, values: FloatVector | float) -> FloatVector:
        """The positions of numbers."""
        span = self.high - self.low or 1.0
        return np.asarray(self.start + (np.asarray(values) - self.low) / span * (self.stop - self.start))

    def ticks(self, wanted: int = 5) -> list[float]:
        """A few round numbers."""
        span = self.high - self.low
        if span <= 0 or not math.isfinite(span):
            return [self.low]
        step = 10 ** math.floor(math.log10(span / wanted))
        step *= next(m for m in (1, 2, 5, 10) if span / (step * m) <= wanted)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def axis_of(values: FloatVector, start: float, stop: float, include: Sequence[float] = ()) -> Axis:
    """An axis that shows all values with a little room."""
    low, high = float(min([values.min(), *include])), float(max([values.max(), *include]))
    room = 0.03 * (high - low) or 0.5
    return Axis(low - room, high + room, start, stop)


def histogram(quality: FloatVector, threshold: float | None) -> Markup:
    """How many rows have which quality, on a scale that shows few as well as many; suspects are hatched."""
    counts, edges = np.histogram(quality, bins=BINS, range=(0.0, 1.0))
    x = Axis(0.0, 1.0, LEFT, WIDTH - RIGHT)
    y = Axis(0.0, float(np.log1p(counts.max())), HEIGHT - BOTTOM, TOP)
    bars = []
    for count, low, high in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        top, left, right = float(y(math.log1p(count))), float(x(low)), float(x(high))
        kind = "bar suspect" if threshold is not None and (low < threshold or low == threshold == 0.0) else "bar"
        bars.append(
            f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{right - left - 1:.1f}" '
            f'height="{HEIGHT - BOTTOM - top:.1f}"><title>{count:,} rows from {low:.0%} to {high:.0%}</title></rect>'
        )
    marks = [10**p for p in range(int(math.log10(max(counts.max(), 1))) + 1)]
    lines = [_y_tick(float(y(math.log1p(m))), f"{m:,}") for m in marks]
    lines += [_x_tick(float(x(t)), f"{t:.0%}") for t in x.ticks()]
    if threshold is not None:
        at = float(x(threshold))
        side, shift = ("start", 5) if threshold < 0.7 else ("end", -5)
        lines.append(f'<line class="threshold" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        lines.append(
            f'<text class="note" x="{at + shift:.1f}" y="{TOP + 10}" text-anchor="{side}">suspects end here</text>'
        )
    return _svg(
        "Quality of the labels", f"Histogram of the probability that a label is right, {len(quality):,} rows.",
        [*bars, *lines], "probability that the label is right", "rows (log scale)",
    )  # fmt: skip


def boxes(groups: Sequence[tuple[str, FloatVector, FloatVector]]) -> Markup:
    """Values by class: a box from the first to the third quartile, a line from 5 to 95 %, suspects as ticks below."""
    every = np.concatenate([values for _, values, _ in groups])
    margin, row = 120, 30 if len(groups) > 5 else 56
    height = row * len(groups) + 56
    low, high = np.percentile(every, [0.5, 99.5])
    x = axis_of(np.array([low, high]), margin, WIDTH - RIGHT, include=(0.0,))
    parts = [f'<line class="zero" x1="{float(x(0.0)):.1f}" x2="{float(x(0.0)):.1f}" y1="4" y2="{height - 46}"/>']
    for number, (name, values, suspects) in enumerate(groups):
        middle = row * number + row // 2 - 1
        five, first, median, third, ninety = np.clip(x(np.percentile(values, [5, 25, 50, 75, 95])), margin, WIDTH)
        shown = name if len(name) <= 16 else f"{name[:15]}…"
        parts.append(
            f'<text class="label" x="{margin - 8}" y="{middle + 4}" text-anchor="end">{escape(shown)}</text>'
            f'<line class="whisker" x1="{five:.1f}" x2="{ninety:.1f}" y1="{middle}" y2="{middle}"/>'
            f'<rect class="box" x="{first:.1f}" y="{middle - 7}" width="{max(third - first, 1):.1f}" height="14">'
            f"<title>{escape(name)}: median {np.median(values):.3g}, {len(values):,} rows</title></rect>"
            f'<line class="median" x1="{median:.1f}" x2="{median:.1f}" y1="{middle - 8}" y2="{middle + 8}"/>'
        )
        if len(suspects):
            ticks = "".join(f"M{at:.1f} {middle + 9}v6" for at in np.clip(x(suspects), margin, WIDTH - 2))
            parts.append(f'<path class="ticks" d="{ticks}"/>')
    parts += [_x_tick(float(x(t)), f"{t:.3g}", height - 46) for t in x.ticks()]
    return _svg(
        "Values by class", "Box per class: quartiles and 5 to 95 %; ticks below are suspects; the line is zero.",
        parts, "value (below zero: the row hurts)", "", height,
    )  # fmt: skip


def scatter(
    points: FloatMatrix, quality: FloatVector, suspect: npt.NDArray[np.bool_], *, title: str, description: str, x: str,
    y: str, ticks: bool = True,
) -> tuple[Markup, FloatMatrix]:  # fmt: skip
    """Points coloured by quality, suspects as crosses; also the position of each point in the picture."""
    x_axis = axis_of(points[:, 0], LEFT, WIDTH - RIGHT)
    y_axis = axis_of(points[:, 1], HEIGHT - BOTTOM, TOP)
    positions = np.column_stack([x_axis(points[:, 0]), y_axis(points[:, 1])])
    level = np.minimum((quality * LEVELS).astype(int), LEVELS - 1)
    parts = []
    for step in range(LEVELS - 1, -1, -1):
        some = positions[(level == step) & ~suspect]
        if len(some):
            parts.append(f'<path class="dots q{step}" d="{"".join(f"M{a:.1f} {b:.1f}h0" for a, b in some)}"/>')
    marks = "".join(f"M{a - 3:.1f} {b - 3:.1f}l6 6m0-6l-6 6" for a, b in positions[suspect])
    parts.append(f'<path class="crosses" d="{marks}"/>')
    if ticks:
        parts += [_x_tick(float(x_axis(t)), f"{t:.3g}") for t in x_axis.ticks()]
        parts += [_y_tick(float(y_axis(t)), f"{t:.3g}") for t in y_axis.ticks()]
    kind = ' class="few"' if len(points) < FEW else ""
    return _svg(title, description, parts, x, y, kind=kind), positions


def _x_tick(at: float, text: str, base: float = HEIGHT - BOTTOM) -> str:
    return (
        f'<line class="tick" x1="{at:.1f}" x2="{at:.1f}" y1="{base}" y2="{base + 4}"/>'
        f'<text class="tick" x="{at:.1f}" y="{base + 17}" text-anchor="middle">{escape(text)}</text>'
    )


def _y_tick(at: float, text: str) -> str:
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        f'<text class="tick" x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{escape(text)}</text>'
    )


def _svg(
    title: str, description: str, parts: Sequence[str], x: str, y: str, height: int = HEIGHT, kind: str = ""
) -> Markup:
    names = f'<text class="axis" x="{(LEFT + WIDTH) / 2}" y="{height - 6}" text-anchor="middle">{escape(x)}</text>'
    if y:
        turned = f'transform="rotate(-90)" x="{-height / 2}" y="13" text-anchor="middle"'
        names += f'<text class="axis" {turned}>{escape(y)}</text>'
    frame = (
        f'<line class="base" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height - BOTTOM}" y2="{height - BOTTOM}"/>'
        if y
        else ""
    )
    return Markup(  # every text above went through escape; the rest are numbers of ours
        f'<svg{kind} viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}. {escape(description)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}{frame}{names}</svg>"
    )
