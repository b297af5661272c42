"""Messages for people, on standard error only; results and summaries for programs."""

from __future__ import annotations

import json
from typing import Any

import click

from nearworth.cli.options import QUIET_KEY
from nearworth.tables.write import STDOUT, records, write_columns


def print_message(message: str) -> None:
    """Print on standard error, unless the command was given --quiet."""
    ctx = click.get_current_context(silent=True)
    if ctx is None or not ctx.meta.get(QUIET_KEY):
        click.echo(message, err=True)


def write_results(columns: Any, summary: dict[str, Any], output: str, as_json: bool) -> None:
    """Write columns to the output; with --json print the summary, with the rows in it unless they go to a file."""
    if as_json:
        print_json(summary | ({"rows": records(columns)} if output == STDOUT else {"output": output}))
    if output != STDOUT or not as_json:
        write_columns(columns, output)


def print_json(summary: dict[str, Any]) -> None:
    plain = lambda value: value.item() if hasattr(value, "item") else str(value)  # noqa: E731
    click.echo(json.dumps(summary, indent=1, allow_nan=False, default=plain))
