"""The picture and the page of the last run: docs/images/peers.svg and the measured part of
docs/peers.md.

    python benchmarks/peers/plot.py

Needs matplotlib (`pip install nearworth[plot]`).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results import US, Results, Row, Timing, digits, table, versions

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
START, END = "<!-- measured: written by benchmarks/peers/plot.py -->", "<!-- end of measured -->"
OURS, THEIRS, OTHER_QUANTITY = "black", "0.72", "white"  # told apart without colour
BLANK = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}  # no grid behind words


@dataclass(frozen=True)
class Bar:
    """One bar, or a heading where there is no time."""

    place: float
    label: str
    seconds: float | None = None
    text: str = ""
    fill: str = THEIRS


def bars(results: Results) -> list[Bar]:
    """Headings and bars from the top down, games apart."""
    listed: list[Bar] = []
    place = 0.0
    for game in results.games():
        listed.append(Bar(place, game))
        for row in results.rows_of(game):
            if row.one_core is not None:
                place += 1
                name, written = f"{row.title} {row.version}", text(results, row, row.one_core)
                listed.append(Bar(place, name, row.one_core.cpu, written, fill(row)))
        place += 1.5
    return listed


def text(results: Results, row: Row, timing: Timing) -> str:
    """What stands at the end of a bar: the ratio to nearworth and the time."""
    seconds = f"{digits(timing.cpu, 2)} s"
    ratio = results.ratio(row)
    if row.peer == US or ratio is None:
        return seconds
    guessed = "about " if timing.measured_on else ""
    other = ", other values" if fill(row) == OTHER_QUANTITY else ""
    return f"{guessed}{digits(ratio, 2)} \N{MULTIPLICATION SIGN}  ({seconds}{other})"


def fill(row: Row) -> str:
    """Black for us, grey for the same values, white for values of something else."""
    if row.peer == US:
        return OURS
    same = row.agreement is None or row.agreement.relative_up_to_constant < 0.1
    return THEIRS if same else OTHER_QUANTITY


def draw(results: Results, path: Path) -> None:
    """The bar chart, in a format by the ending of the path."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    listed = bars(results)
    with mpl.rc_context({"font.size": 11, "svg.hashsalt": US, "hatch.linewidth": 0.6}):
        figure, axes = plt.subplots(
            figsize=(8.4, 0.9 + 0.4 * listed[-1].place), layout="constrained"
        )
        draw_bars(axes, [bar for bar in listed if bar.seconds is not None])
        name_bars(axes, listed)
        axes.set_xlabel(f"CPU seconds of one core (logarithmic)\n{size(results)}")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)
        plt.close(figure)


def draw_bars(axes: Any, drawn: list[Bar]) -> None:
    """The bars with what is written at their ends, on a logarithmic axis."""
    times = [bar.seconds or 0.0 for bar in drawn]
    low, high = min(times) / 3, max(times) * 12  # room for the text
    for bar, seconds in zip(drawn, times, strict=True):
        hatch = "////" if bar.fill == OTHER_QUANTITY else None
        axes.barh(
            bar.place,
            seconds - low,
            left=low,
            color=bar.fill,
            edgecolor="black",
            linewidth=0.8,
            hatch=hatch,
        )
        style = {"weight": "bold" if bar.fill == OURS else "normal", "bbox": BLANK, "va": "center"}
        axes.annotate(
            bar.text, (seconds, bar.place), xytext=(6, 0), textcoords="offset points", **style
        )
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = [10.0**power for power in range(-4, 6) if low <= 10.0**power <= max(times) * 2]
    axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="x", color="0.85", linewidth=0.8)
    axes.set_axisbelow(True)


def name_bars(axes: Any, listed: list[Bar]) -> None:
    """Names of packages at the left, headings above their bars."""
    named = [bar for bar in listed if bar.seconds is not None]
    axes.set_yticks([bar.place for bar in named], [bar.label for bar in named])
    axes.set_ylim(listed[-1].place + 0.7, -0.6)
    axes.tick_params(axis="y", length=0)
    for bar in listed:
        if bar.seconds is None:
            corner = {
                "xycoords": ("axes fraction", "data"),
                "xytext": (4, 0),
                "textcoords": "offset points",
            }
            axes.annotate(
                bar.label, (0, bar.place), va="center", style="italic", bbox=BLANK, **corner
            )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def size(results: Results) -> str:
    """The size of the problem in words."""
    asked = results.problem
    return (
        f"{asked['n_train']:,} training points, {asked['n_val']:,} for validation, d ="
        f" {asked['dimensions']}"
    )


def measured_part(results: Results) -> str:
    """What a run changes in the page: machine, table, notes, versions and dates."""
    machine = results.machine
    where = (
        f"{machine['cores']} cores of {machine['processor']}, {machine['memory_gb']} GB,"
        f" {machine['system']}"
    )
    dates = sorted({row.date for row in results.rows})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    notes = [f"- {row.title}: {row.note}." for row in results.rows if row.note]
    parts = [
        (
            f"Measured {when} on {where}. Data: {size(results)}, {results.problem['classes']}"
            " overlapping classes."
        ),
        table(results),
        first_calls(results),
        "\n".join(notes),
        "Versions and dates: " + "; ".join(versions(results)) + ".",
    ]
    return "\n\n".join(part for part in parts if part)


def first_calls(results: Results) -> str:
    """What our first call in a process costs."""
    calls = [(row.game, row.first_call) for row in results.rows if row.first_call is not None]
    named = ", ".join(f"{digits(seconds)} s ({game})" for game, seconds in calls)
    return (
        f"The first call of nearworth in a process, which also loads its compiled kernels: {named}."
        if calls
        else ""
    )


def renewed(page: str, results: Results) -> str:
    """The page with its measured part replaced."""
    if START not in page or END not in page:
        raise ValueError(f"the page has no part between {START!r} and {END!r} to write to")
    before, after = page.split(START)[0], page.split(END)[1]
    return f"{before}{START}\n\n{measured_part(results)}\n\n{END}{after}"


def main() -> None:
    """Draw the picture and renew the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--image", type=Path, help="only the picture, to this file")
    args = parser.parse_args()
    results = Results.read(args.results)
    draw(results, args.image or DOCS / "images" / "peers.svg")
    if not args.image:
        page = DOCS / "peers.md"
        page.write_text(renewed(page.read_text(), results))


if __name__ == "__main__":
    main()
