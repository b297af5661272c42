"""What was measured: rows of peers, their ratios to nearworth on the same game, and the table of
them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

US = "nearworth"


@dataclass(frozen=True)
class Timing:
    """Seconds for all validation points; `measured_on` is how many of them were really run."""

    wall: float
    cpu: float
    runs: int
    peak_mb: float
    measured_on: int | None = None

    @classmethod
    def scaled(cls, report: dict[str, Any], n_val: int) -> Timing:
        """From the report of the harness, in proportion where only some validation points were
        run.
        """
        done = report["n_val"] or n_val
        scale = n_val / done
        measured_on = None if done == n_val else done
        return cls(
            report["wall"] * scale,
            report["cpu"] * scale,
            report["runs"],
            report["peak_mb"],
            measured_on,
        )

    def improved_by(self, new: Timing) -> Timing:
        """The shorter of both times, wall and CPU each by itself, unless not measured alike."""
        if self.measured_on != new.measured_on:
            return new
        return replace(
            new,
            wall=min(self.wall, new.wall),
            cpu=min(self.cpu, new.cpu),
            runs=self.runs + new.runs,
        )


@dataclass(frozen=True)
class Agreement:
    """How far values are from ours: largest difference, also as part of our largest value, and up
    to a constant.
    """

    largest: float
    difference: float
    relative: float
    relative_up_to_constant: float
    rank_correlation: float

    @classmethod
    def of(cls, values: npt.NDArray[Any], ours: npt.NDArray[Any]) -> Agreement:
        """The comparison of two lists of values for the same training points."""
        if values.shape != ours.shape:
            raise ValueError(
                f"values has shape {values.shape}, nearworth's {ours.shape}: not the same training"
                " points"
            )
        gap = values - ours
        largest = float(np.abs(ours).max())
        difference, centred = (float(np.abs(g).max()) for g in (gap, gap - gap.mean()))
        ranks = float(spearmanr(values, ours).statistic)
        return cls(largest, difference, difference / largest, centred / largest, ranks)


@dataclass(frozen=True)
class Row:
    """One package playing one game; either times or the reason why there are none."""

    peer: str
    title: str
    game: str
    date: str
    note: str = ""
    reason: str | None = None
    one_core: Timing | None = None
    all_cores: Timing | None = None
    first_call: float | None = None
    agreement: Agreement | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Row:
        """A row as it was written."""
        parts = {"one_core": Timing, "all_cores": Timing, "agreement": Agreement}
        return cls(
            **{k: parts[k](**v) if k in parts and v is not None else v for k, v in stored.items()}
        )

    def improved_by(self, new: Row) -> Row:
        """The new row, with the old times where they are shorter and of the same versions."""
        if self.versions != new.versions or new.reason:
            return new
        one, every = (
            old.improved_by(now) if old and now else now
            for old, now in ((self.one_core, new.one_core), (self.all_cores, new.all_cores))
        )
        first = min(
            (self.first_call, new.first_call),
            key=lambda seconds: math.inf if seconds is None else seconds,
        )
        return replace(new, one_core=one, all_cores=every, first_call=first)

    @property
    def key(self) -> tuple[str, str]:
        """What makes a row replace another."""
        return self.peer, self.game

    @property
    def timings(self) -> list[Timing]:
        """What was timed, one core and all."""
        return [t for t in (self.one_core, self.all_cores) if t is not None]

    @property
    def fastest(self) -> float | None:
        """Shortest time to wait, with however many cores are best."""
        return min((t.wall for t in self.timings), default=None)

    @property
    def version(self) -> str:
        """Version of the package itself."""
        return self.versions.get(self.peer, "")


@dataclass(frozen=True)
class Results:
    """A file of rows for one size of problem on one machine."""

    problem: dict[str, Any]
    machine: dict[str, Any]
    rows: tuple[Row, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Results:
        """From a file."""
        stored = json.loads(path.read_text())
        return cls(
            stored["problem"], stored["machine"], tuple(Row.of(row) for row in stored["rows"])
        )

    def write(self, path: Path) -> None:
        """To a file, replaced in one step."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n")
        draft.replace(path)

    def with_row(self, row: Row) -> Results:
        """The same with one row new or replaced."""
        rows = {old.key: old for old in self.rows} | {row.key: row}
        return Results(self.problem, self.machine, tuple(rows.values()))

    def row(self, key: tuple[str, str]) -> Row | None:
        """The row of a package and a game."""
        return next((row for row in self.rows if row.key == key), None)

    def ours(self, game: str) -> Row | None:
        """Our row of a game."""
        return self.row((US, game))

    def games(self) -> list[str]:
        """Games in the order of the table."""
        return list(dict.fromkeys(row.game for row in self.rows))

    def rows_of(self, game: str) -> list[Row]:
        """Rows of a game, fastest first, those without a time last."""
        rows = (row for row in self.rows if row.game == game)
        return sorted(rows, key=lambda row: row.one_core.cpu if row.one_core else float("inf"))

    def ratio(self, row: Row) -> float | None:
        """How many times the CPU time of nearworth, on one core: the figure a busy machine spoils
        least.
        """
        ours = self.ours(row.game)
        if ours is None or ours.one_core is None or row.one_core is None:
            return None
        return row.one_core.cpu / ours.one_core.cpu

    def wall_ratio(self, row: Row) -> float | None:
        """How many times as long one waits, each with however many cores are best for it."""
        ours = self.ours(row.game)
        if ours is None or ours.fastest is None or row.fastest is None:
            return None
        return row.fastest / ours.fastest


HEADS = (
    "package",
    "CPU time of one core, s",
    "ratio",
    "time to wait, s (one core, all cores)",
    "ratio of the shorter",
    "peak memory, MB",
    "difference of values",
)


def table(results: Results) -> str:
    """All rows in Markdown."""
    lines = [_line(HEADS), _line(["---"] * len(HEADS))]
    for game in results.games():
        lines.append(_line([f"**{game}**", *[""] * (len(HEADS) - 1)]))
        lines += [_line(cells(results, row)) for row in results.rows_of(game)]
    return "\n".join(lines)


def cells(results: Results, row: Row) -> list[str]:
    """One line of the table."""
    name = f"{row.title} {row.version}".strip()
    if row.one_core is None:
        return [name, row.reason or "not run", *[""] * (len(HEADS) - 2)]
    mark = "" if row.one_core.measured_on is None else f" (from {row.one_core.measured_on} points)"
    waits = ", ".join(digits(timing.wall) for timing in row.timings)
    ratio, wall_ratio = (_times(found) for found in (results.ratio(row), results.wall_ratio(row)))
    memory = f"{row.one_core.peak_mb:,.0f}"
    return [
        name,
        digits(row.one_core.cpu) + mark,
        ratio,
        waits,
        wall_ratio,
        memory,
        _agreement(row.agreement),
    ]


def versions(results: Results) -> Iterator[str]:
    """One line per package: what it ran on, when."""
    for row in results.rows:
        if row.versions and not (row.peer == US and row != results.ours(results.games()[0])):
            named = ", ".join(
                f"{name} {version}" for name, version in row.versions.items() if name != row.peer
            )
            yield f"{row.title} {row.version} ({named}; {row.date})"


def digits(number: float, count: int = 3) -> str:
    """A positive number to a few digits, never in powers of ten."""
    rounded = float(f"{number:.{count}g}")
    places = count - 1 - math.floor(math.log10(rounded))
    return f"{rounded:,.{max(places, 0)}f}"


def _times(ratio: float | None) -> str:
    return "" if ratio is None else digits(ratio, 2)


def _agreement(agreement: Agreement | None) -> str:
    if agreement is None:
        return ""
    whole, centred = agreement.relative, agreement.relative_up_to_constant
    constant = f" ({centred:.0e} up to a constant)" if centred < whole / 10 else ""
    ranks = f" (rank correlation {agreement.rank_correlation:.2f})" if centred > 0.1 else ""
    return f"{whole:.0e}{constant}{ranks}"


def _line(parts: Sequence[str]) -> str:
    return "| " + " | ".join(parts) + " |"
