"""The user's files as a dataset, with a message about its columns. Results to files."""

from __future__ import annotations

import json
from typing import Any

import click

from nearworth.cli.arguments import DataOptions
from nearworth.cli.options import print_message
from nearworth.tables import number_of
from nearworth.tables.dataset import Dataset
from nearworth.tables.load import load_files
from nearworth.tables.write import STDOUT, records, write_columns

# Lines about labels, columns and their treatment in a message.
MAX_LINES = 40


def prepare(
    options: DataOptions,
    *,
    groups: str | None = None,
    image_column: str | None = None,
    has_pixels: bool = False,
) -> Dataset:
    """Load the data and print what becomes of each column. A dry run ends here."""
    dataset = load_files(
        options.table, groups=groups, image_column=image_column, has_pixels=has_pixels
    )
    n_features = number_of("number", dataset.X.shape[1])
    notes = dataset.notes[:MAX_LINES]
    lines = [f"{len(dataset.y):,} rows; each is compared by {n_features}:", *notes]
    if len(dataset.notes) > MAX_LINES:
        lines.append(f"and {len(dataset.notes) - MAX_LINES:,} lines more")
    print_message("\n  ".join(lines))
    if options.dry_run:
        print_message("Dry run: nothing was computed or written.")
        raise click.exceptions.Exit(0)
    return dataset


def write_results(columns: Any, summary: dict[str, Any], output: str, as_json: bool) -> None:
    """Write columns to the output.

    With --json the summary is printed, and the rows are in it unless they go to a file.
    """
    is_file = output != STDOUT
    if as_json:
        print_json(summary | ({"output": output} if is_file else {"rows": records(columns)}))
    if is_file or not as_json:
        write_columns(columns, output)


def print_json(summary: dict[str, Any]) -> None:
    click.echo(json.dumps(summary, indent=1, allow_nan=False, default=_plain))


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python; anything else as text."""
    return value.item() if hasattr(value, "item") else str(value)
