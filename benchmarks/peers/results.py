"""What was measured: rows of peers, their ratios to nearworth on the same game, and the table of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
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
        """From the report of the harness, in proportion where only some validation points were run."""
        done = report["n_val"] or n_val
        scale = n_val / done
        measured_on = None if done == n_val else done
        return cls(report["wall"] * scale, report["cpu"] * scale, report["runs"], report["peak_mb"], measured_on)


@dataclass(frozen=True)
class Agreement:
    """How far values are from ours: largest difference, also as part of our largest value, and up to a constant."""

    largest: float
    difference: float
    relative: float
    relative_up_to_constant: float
    rank_correlation: float

    @classmethod
    def of(cls, values: npt.NDArray[Any], ours: npt.NDArray[Any]) -> Agreement:
        """The comparison of two lists of values for the same training points."""
        if values.shape != ours.shape:
            raise ValueError(f"values has shape {values.shape}, nearworth's {ours.shape}: not the same training points")
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
        return cls(**{k: parts[k](**v) if k in parts and v is not None else v for k, v in stored.items()})

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
        return cls(stored["problem"], stored["machine"], tuple(Row.of(row) for row in stored["rows"]))

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

    def ours(self, game: str) -> Row | None:
        """Our row of a game."""
        return next((row for row in self.rows if row.key == (US, game)), None)

    def games(self) -> list[str]:
        """Games in the order of the table."""
        return list(dict.fromkeys(row.game for row in self.rows))

    def rows_of(self, game: str) -> list[Row]:
        """Rows of a game, fastest first, those without a time last."""
        rows = (row for row in self.rows if row.game == game)
        return sorted(rows, key=lambda row: row.fastest or float("inf"))

    def ratio(self, row: Row) -> float | None:
        """How many times as long one waits as for nearworth, each at its fastest."""
        ours = self.ours(row.game)
        if ours is None or ours.fastest is None or row.fastest is None:
            return None
        return row.fastest / ours.fastest

    def cpu_ratio(self, row: Row) -> float | None:
        """The same in CPU time of one core."""
        ours = self.ours(row.game)
        if ours is None or ours.one_core is None or row.one_core is None:
            return None
        return row.one_core.cpu / ours.one_core.cpu


def table(results: Results) -> str:
    """All rows in Markdown."""
    heads = [
        "package",
        "one core, s",
        "all cores, s",
        "ratio",
        "ratio, CPU time of one core",
        "peak memory, MB",
        "difference of values",
    ]
    lines = [_line(heads), _line(["---"] * len(heads))]
    for game in results.games():
        lines.append(_line([f"**{game}**", *[""] * (len(heads) - 1)]))
        lines += [_line(cells(results, row)) for row in results.rows_of(game)]
    return "\n".join(lines)


def cells(results: Results, row: Row) -> list[str]:
    """One line of the table."""
    name = f"{row.title} {row.version}".strip()
    if row.fastest is None:
        return [name, row.reason or "not run", *[""] * 5]
    times = [_seconds(timing) for timing in (row.one_core, row.all_cores)]
    ratios = [_times(ratio) for ratio in (results.ratio(row), results.cpu_ratio(row))]
    memory = f"{row.one_core.peak_mb:,.0f}" if row.one_core else ""
    return [name, *times, *ratios, memory, _agreement(row.agreement)]


def versions(results: Results) -> Iterator[str]:
    """One line per package: what it ran on, when."""
    for row in results.rows:
        if row.versions and not (row.peer == US and row != results.ours(results.games()[0])):
            named = ", ".join(f"{name} {version}" for name, version in row.versions.items() if name != row.peer)
            yield f"{row.title} {row.version} ({named}; {row.date})"


def three_digits(number: float) -> str:
    """A number to about three digits, never in powers of ten."""
    return f"{number:.3g}" if 1e-3 <= number < 1000 else f"{number:,.0f}"


def _seconds(timing: Timing | None) -> str:
    if timing is None:
        return ""
    mark = "" if timing.measured_on is None else f" (from {timing.measured_on} points)"
    return three_digits(timing.wall) + mark


def _times(ratio: float | None) -> str:
    return "" if ratio is None else three_digits(ratio)


def _agreement(agreement: Agreement | None) -> str:
    if agreement is None:
        return ""
    whole, centred = agreement.relative, agreement.relative_up_to_constant
    constant = f" ({centred:.0e} up to a constant)" if centred < whole / 10 else ""
    ranks = f" (rank correlation {agreement.rank_correlation:.2f})" if centred > 0.1 else ""
    return f"{whole:.0e}{constant}{ranks}"


def _line(parts: list[str]) -> str:
    return "| " + " | ".join(parts) + " |"
