"""Results into files: format by extension, complete or not at all, never over an existing file unasked."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from nearworth._common.files import atomic_write
from nearworth.tables.errors import InputError
from nearworth.tables.formulas import guard, guard_column

FORMATS = (".csv", ".tsv", ".parquet", ".feather", ".json")
STDOUT = "-"


def check_output(
    path: str, force: bool, formats: tuple[str, ...] = FORMATS, inputs: tuple[str | None, ...] = ()
) -> None:
    """Refuse, before any work is done, what could not be written afterwards, or would destroy what is read."""
    if path == STDOUT:
        return
    target = Path(path)
    if target.suffix.lower() not in formats:
        raise InputError(
            f"{path}: cannot write {target.suffix or 'a file without extension'!r}; use {', '.join(formats)}."
        )
    if target.is_dir():
        raise InputError(f"{path}: is a directory; name a file in it.")
    if not target.absolute().parent.is_dir():
        raise InputError(f"{path}: there is no folder {str(target.parent)!r} to write to.")
    if not os.access(target.absolute().parent, os.W_OK):
        raise InputError(f"{path}: no permission to write to the folder {str(target.absolute().parent)!r}.")
    if any(name and os.path.exists(name) and target.exists() and target.samefile(name) for name in inputs):
        raise InputError(f"{path}: is what the data are read from. Give the output another name.")
    if target.exists() and not force:
        raise InputError(f"{path}: exists already. Use --force to replace it, or another name.")


def write_columns(columns: Mapping[str, Any], path: str) -> None:
    """Write columns of equal length; "-" is CSV on standard output."""
    table = pa.table(dict(columns))
    if path == STDOUT:
        _write_csv(table, sys.stdout.buffer, ",")
        sys.stdout.buffer.flush()
        return
    suffix = Path(path).suffix.lower()
    write_bytes(path, lambda file: _write(table, file, suffix))


def write_bytes(path: str, write: Any) -> None:
    """Have `write` fill a file that appears only when complete; troubles with the disk are the user's to know."""
    try:
        with atomic_write(path) as file:
            write(file)
    except OSError as error:
        raise InputError(f"{path}: could not be written: {error.strerror or error}.") from error


def records(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The columns as a list of rows for JSON, NaN as null."""
    rows = pa.table(dict(columns)).to_pylist()
    return [{name: None if cell != cell else cell for name, cell in row.items()} for row in rows]


def _write(table: Any, file: Any, suffix: str) -> None:
    if suffix in (".csv", ".tsv"):
        _write_csv(table, file, "\t" if suffix == ".tsv" else ",")
    elif suffix == ".parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, file)
    elif suffix == ".feather":
        import pyarrow.feather as feather

        feather.write_feather(table, file, compression="zstd")
    else:
        rows = records({name: table[name] for name in table.column_names})
        file.write(json.dumps(rows, indent=1, allow_nan=False, default=str).encode())


def _write_csv(table: Any, file: Any, delimiter: str) -> None:
    columns = [_as_cells(name, table[name]) for name in table.column_names]
    guarded = pa.table(columns, names=[guard(name) for name in table.column_names])
    pa_csv.write_csv(guarded, file, pa_csv.WriteOptions(delimiter=delimiter, quoting_style="needed"))


def _as_cells(name: str, column: Any) -> Any:
    """A column as CSV can hold it: text in any of Arrow's forms is guarded."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise InputError(f"column {name!r} holds {kind}, for which CSV has no form; write .parquet or .feather.")
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    return guard_column(column) if pa.types.is_string(column.type) else column
