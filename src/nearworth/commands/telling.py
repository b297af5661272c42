"""Messages for people, on stderr only; summaries for programs, on stdout."""

from __future__ import annotations

import json
from typing import Any

import click

from nearworth.commands.data import Data

MOST_COLUMNS = 40


def tell(message: str, quiet: bool = False) -> None:
    """One message on stderr."""
    if not quiet:
        click.echo(message, err=True)


def tell_data(data: Data, quiet: bool) -> None:
    """What was read and what became of each column."""
    for remark in data.remarks:
        tell(remark, quiet)
    tell(f"{len(data.y):,} rows; each is compared by {data.X.shape[1]:,} numbers:", quiet)
    for line in data.columns[:MOST_COLUMNS]:
        tell(f"  {line}", quiet)
    if len(data.columns) > MOST_COLUMNS:
        tell(f"  and {len(data.columns) - MOST_COLUMNS:,} more columns", quiet)


def print_json(summary: dict[str, Any]) -> None:
    """The summary on stdout."""
    click.echo(json.dumps(summary, indent=1, allow_nan=False, default=_plain))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
