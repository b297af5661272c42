"""Columns to files: the format by extension, complete or not at all, never over an existing file unasked.

All CSV that nearworth writes comes from here (or, in `apply`, from csv_files), so that no cell of it runs in a
spreadsheet.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as feather
import pyarrow.parquet as pq

from nearworth._common.files import atomic_write
from nearworth.tables import InputError
from nearworth.tables.csv_files import guard, guard_column
from nearworth.tables.readers import kind_of

FORMATS = (".csv", ".tsv", ".parquet", ".feather", ".json")
STDOUT = "-"


def check_output(
    path: str, force: bool, formats: tuple[str, ...] = FORMATS, inputs: tuple[str | None, ...] = ()
) -> None:
    """Refuse, before any work is done, an output that could not be written or that would replace an input."""
    if path == STDOUT:
        return
    target = Path(path)
    folder = target.absolute().parent
    is_input = target.exists() and any(name and os.path.exists(name) and target.samefile(name) for name in inputs)
    ending = target.suffix or "a file without extension"
    problems = {
        f"cannot write {ending!r}; use {', '.join(formats)}": target.suffix.lower() not in formats,
        "is a directory; name a file in it": target.is_dir(),
        f"there is no folder {str(target.parent)!r} to write to": not folder.is_dir(),
        f"no permission to write to the folder {str(folder)!r}": not os.access(folder, os.W_OK),
        "is one of the files that data are read from. Give the output another name": is_input,
        "exists already. Use --force to replace it, or another name": target.exists() and not force,
    }
    for problem, found in problems.items():
        if found:
            raise InputError(f"{path}: {problem}.")


def write_columns(columns: dict[str, Any] | pa.Table, path: str) -> None:
    """Write a mapping of columns or an Arrow table; "-" is CSV on standard output."""
    table = pa.table(columns)
    if path == STDOUT:
        _write_csv(table, sys.stdout.buffer, ",")
        sys.stdout.buffer.flush()
    else:
        write_bytes(path, lambda file: _write(table, file, Path(path).suffix.lower()))


def write_bytes(path: str, write: Callable[[IO[bytes]], Any]) -> None:
    """Have `write` fill a file that appears only when complete."""
    try:
        with atomic_write(path) as file:
            write(file)
    except OSError as error:
        raise InputError(f"{path}: could not be written: {error.strerror or error}.") from error


def records(columns: dict[str, Any] | pa.Table) -> list[dict[str, Any]]:
    """The columns as a list of rows for JSON, NaN as null."""
    rows = pa.table(columns).to_pylist()
    return [{name: None if cell != cell else cell for name, cell in row.items()} for row in rows]


def _write(table: Any, file: IO[bytes], suffix: str) -> None:
    if suffix in (".csv", ".tsv"):
        _write_csv(table, file, "\t" if suffix == ".tsv" else ",")
    elif suffix == ".parquet":
        pq.write_table(table, file)
    elif suffix == ".feather":
        feather.write_feather(table, file, compression="zstd")
    else:
        file.write(json.dumps(records(table), indent=1, allow_nan=False, default=str).encode())


def _write_csv(table: Any, file: IO[bytes], delimiter: str) -> None:
    columns = [_as_cells(name, table[name]) for name in table.column_names]
    guarded = pa.table(columns, names=[guard(name) for name in table.column_names])
    pa_csv.write_csv(guarded, file, pa_csv.WriteOptions(delimiter=delimiter, quoting_style="needed"))


def _as_cells(name: str, column: Any) -> Any:
    """A column in a form that CSV has; text of every Arrow type is guarded."""
    kind = kind_of(column)
    if pa.types.is_nested(column.type) or kind in ("binary", "large_binary"):
        raise InputError(f"column {name!r} holds {column.type}, for which CSV has no form; write .parquet or .feather.")
    if kind == "text":
        return guard_column(column.cast(pa.string()))
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
