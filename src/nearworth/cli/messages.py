"""Messages for people, on standard error only; results and summaries for programs."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from typing import Any

import click

from nearworth.tables.write import STDOUT, records, write_columns

LONG_RUN = 6  # this many neighbouring columns with the same treatment become one line


def print_message(message: str, quiet: bool = False) -> None:
    """Print a message on standard error."""
    if not quiet:
        click.echo(message, err=True)


def print_compile_notice(quiet: bool, always: bool = False) -> None:
    """On a terminal, say why the very first run prints nothing for a while."""
    from nearworth._common.compile import is_kept
    from nearworth.engine import kernels, regress

    ready = any(map(is_kept, (kernels.tabulate, regress.squared_sum_row)))  # every run needs one of them
    if not quiet and (always or sys.stderr.isatty()) and not ready:
        print_message("Compiling, once, about 15 s ...")


def collapsed(columns: list[str]) -> list[tuple[str, int]]:
    """Lines of "name: treatment", long runs of the same treatment as one; and the number of columns in each line.

    >>> collapsed([f"pixel_{i}: number, used as it is" for i in range(64)])
    [('pixel_0 ... pixel_63: 64 numbers, used as they are', 64)]
    """
    lines: list[tuple[str, int]] = []
    for treatment, run in groupby((column.partition(": ") for column in columns), key=lambda parts: parts[2]):
        names = [parts[0] for parts in run]
        if len(names) < LONG_RUN:
            lines += [(f"{name}: {treatment}", 1) for name in names]
            continue
        if treatment.startswith("number, "):
            many = treatment.replace("number", "numbers", 1).replace("used as it is", "used as they are")
        else:
            many = f"columns, {treatment}" if treatment.startswith("left out") else f"columns, each {treatment}"
        lines.append((f"{names[0]} ... {names[-1]}: {len(names):,} {many}", len(names)))
    return lines


def write_results(columns: dict[str, Any], summary: dict[str, Any], output: str, as_json: bool) -> None:
    """Write columns to the output; with --json print the summary, with the rows in it unless they go to a file."""
    if as_json:
        print_json(summary | ({"rows": records(columns)} if output == STDOUT else {"output": output}))
    if output != STDOUT or not as_json:
        write_columns(columns, output)


def print_json(summary: dict[str, Any]) -> None:
    """Print a summary on standard output."""
    plain = lambda value: value.item() if hasattr(value, "item") else str(value)  # noqa: E731
    click.echo(json.dumps(summary, indent=1, allow_nan=False, default=plain))
