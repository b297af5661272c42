"""Messages for people, on stderr only; summaries for programs, on stdout."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from typing import Any

import click

from nearworth.cli.data import Data

MOST_LINES = 40
LONG_RUN = 6  # so many equally treated neighbours are one line


def tell(message: str, quiet: bool = False) -> None:
    """One message on stderr."""
    if not quiet:
        click.echo(message, err=True)


def tell_data(data: Data, quiet: bool) -> None:
    """What was read and what became of each column."""
    for remark in data.remarks:
        tell(remark, quiet)
    tell(f"{len(data.y):,} rows; each is compared by {data.X.shape[1]:,} numbers:", quiet)
    lines = collapsed(data.columns)
    for line, _ in lines[:MOST_LINES]:
        tell(f"  {line}", quiet)
    if len(lines) > MOST_LINES:
        tell(f"  and {sum(n_columns for _, n_columns in lines[MOST_LINES:]):,} more columns", quiet)


def tell_compiling(quiet: bool, always: bool = False) -> None:
    """Say why the first run of all is silent for a while, if somebody is waiting for it."""
    from nearworth._common.compile import is_kept
    from nearworth.engine import kernels, regress

    ready = any(map(is_kept, (kernels.tabulate, regress.squared_sum_row)))  # every run needs one of them
    if not quiet and (always or sys.stderr.isatty()) and not ready:
        tell("Compiling, once, about 15 s ...")


def collapsed(columns: list[str]) -> list[tuple[str, int]]:
    """Lines of "name: what became of it", long runs of equally treated neighbours as one; and how many each tells of.

    >>> collapsed([f"pixel_{i}: number, used as it is" for i in range(64)])
    [('pixel_0 ... pixel_63: 64 numbers, used as they are', 64)]
    """
    lines: list[tuple[str, int]] = []
    for what, run in groupby((column.partition(": ") for column in columns), key=lambda parts: parts[2]):
        names = [parts[0] for parts in run]
        if len(names) < LONG_RUN:
            lines += [(f"{name}: {what}", 1) for name in names]
        else:
            lines.append((f"{names[0]} ... {names[-1]}: {_of_many(len(names), what)}", len(names)))
    return lines


def _of_many(count: int, what: str) -> str:
    if what.startswith("number, "):
        return f"{count:,} numbers, {what.removeprefix('number, ').replace('used as it is', 'used as they are')}"
    return f"{count:,} columns, {what}" if what.startswith("left out") else f"{count:,} columns, each {what}"


def print_json(summary: dict[str, Any]) -> None:
    """The summary on stdout."""
    click.echo(json.dumps(summary, indent=1, allow_nan=False, default=_plain))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
