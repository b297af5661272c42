"""Columns to files: the format by extension, complete or not at all.

All CSV that nearworth writes comes from here, so that no cell of it runs in a spreadsheet. The
formula guard follows OWASP: text that begins with = + - @, a tab, a line break or a NUL gets a
single quote in front. Text that already looks guarded (quotes, then such a character) gets one more
quote, so that removing one quote restores every text. Numbers such as -1.5, -1,5 or -inf and a lone
+ or - are harmless and stay as they are.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from itertools import islice, tee
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.feather as feather
import pyarrow.parquet as pq

from nearworth._common.files import atomic_write
from nearworth.tables import InputError
from nearworth.tables.read import DANGEROUS, Dialect, open_csv
from nearworth.tables.readers import kind_of

FORMATS = (".csv", ".tsv", ".parquet", ".feather", ".json")
STDOUT = "-"
# How long to wait for others that change the same file. Each takes a fraction of a second.
MAX_LOCK_SECONDS = 30.0
LOCK_POLL_SECONDS = 0.02
# Numbers, which no spreadsheet runs. As in report/web/files.js.
NUMBER = re.compile(r"[+-](?:(?:\d+(?:[.,]\d*)*|[.,]\d+)(?:[eE][+-]?\d+)?%?|[iI]nf(?:inity)?)?")


def check_output(
    path: str,
    overwrite: bool,
    formats: tuple[str, ...] = FORMATS,
    inputs: tuple[str | None, ...] = (),
) -> None:
    """Refuse an output that could not be written, or that would replace an input.

    Commands call it before any work is done.
    """
    if path == STDOUT:
        return
    target = Path(path)
    folder = target.absolute().parent
    problem = ""
    if target.suffix.lower() not in formats:
        problem = f"cannot write {target.suffix!r}; use {', '.join(formats)}"
    elif target.is_dir():
        problem = "is a directory; name a file in it"
    elif not folder.is_dir():
        problem = f"there is no folder {str(target.parent)!r} to write to"
    elif not os.access(folder, os.W_OK):
        problem = f"no permission to write to the folder {str(folder)!r}"
    elif target.exists() and any(name and _is_same_file(target, name) for name in inputs):
        problem = "is one of the files that data are read from. Give the output another name"
    elif target.exists() and not overwrite:
        problem = "exists already. Use --overwrite to replace it, or another name"
    if problem:
        raise InputError(f"{path}: {problem}.")


def _is_same_file(target: Path, name: str) -> bool:
    return os.path.exists(name) and target.samefile(name)


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


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file against other processes that read, change and replace it too.

    Those that only read it need no lock. The lock is a file beside it, which is removed with the
    lock. It also works on shared folders, where the locks of operating systems may not. A lock
    whose process has died on this computer is taken over.
    """
    from filelock import SoftFileLock, Timeout

    lock = path.with_name(f".{path.name}.lock")
    # The lock would make the folder.
    if not path.parent.is_dir():
        raise InputError(f"{path}: could not be written: there is no folder {str(path.parent)!r}.")
    try:
        held = SoftFileLock(
            lock, timeout=MAX_LOCK_SECONDS, poll_interval=LOCK_POLL_SECONDS
        ).acquire()
    except Timeout as error:
        raise InputError(
            f"{path}: could not be changed: another process has held it for"
            f" {MAX_LOCK_SECONDS:g} seconds. Run the command again once that is done. If no process"
            f" uses it, delete {str(lock)!r}."
        ) from error
    except OSError as error:
        raise InputError(f"{path}: could not be written: {error.strerror or error}.") from error
    with held:
        yield


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
    pa_csv.write_csv(
        guarded, file, pa_csv.WriteOptions(delimiter=delimiter, quoting_style="needed")
    )


def _as_cells(name: str, column: Any) -> Any:
    """A column in a form that CSV has; text of every Arrow type is guarded."""
    kind = kind_of(column)
    if pa.types.is_nested(column.type) or kind in ("binary", "large_binary"):
        raise InputError(
            f"column {name!r} holds {column.type}, for which CSV has no form; write .parquet or"
            " .feather."
        )
    if kind == "text":
        return guard_column(column.cast(pa.string()))
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def guard(cell: str) -> str:
    """The cell in a form that no spreadsheet runs.

    >>> guard("=1+2"), guard("-1.5"), guard("plain")
    ("'=1+2", '-1.5', 'plain')
    """
    is_dangerous = re.match(DANGEROUS, cell) and not NUMBER.fullmatch(cell)
    return f"'{cell}" if is_dangerous else cell


def guard_column(column: Any) -> Any:
    """The cells of a text column in a form that no spreadsheet runs."""
    # Nearly all columns need no guard, and are not copied.
    if not pc.any(pc.match_substring_regex(column, f"^{DANGEROUS}")).as_py():
        return column
    cells = [None if cell is None else guard(cell) for cell in column.to_pylist()]
    return pa.chunked_array([cells], column.type)


def replace_cells(
    path: Path,
    dialect: Dialect,
    column: int,
    rows: Container[int],
    change: Callable[[int, str], str | None],
    n_rows: int,
) -> Iterator[bytes]:
    """The bytes of a CSV file, record by record, with new cells in one column.

    `change` makes the new text from the row and the text of each cell in `rows`. Where it is None
    the row is left out.
    """
    # The header is the row before all others.
    row = -1
    n_lines = 0
    with open_csv(path, dialect.encoding) as file:
        lines, copies = tee(file)
        reader = csv.reader(lines, delimiter=dialect.delimiter)
        for cells in reader:
            # A record has several lines if a cell has line breaks.
            record = "".join(islice(copies, reader.line_num - n_lines))
            n_lines = reader.line_num
            # Empty lines are no rows.
            if cells and row in rows:
                new = change(row, cells[column])
                if new is None:
                    row += 1
                    continue
                record = _with_cell(record, dialect, column, new)
            try:
                yield record.encode(dialect.encoding)
            except UnicodeEncodeError:
                raise InputError(
                    f"{path}: is {dialect.encoding}, which cannot write the label {new!r}; save it"
                    " as UTF-8 first."
                ) from None
            row += bool(cells)
    # Parsers disagree on quotes that are neither closed nor doubled.
    if row != n_rows:
        raise InputError(
            f"{path}: has {n_rows:,} rows, but {row:,} by its quotes. Repair the quotes in cells."
        )


def _with_cell(record: str, dialect: Dialect, column: int, text: str) -> str:
    """A record with another text in one cell, in quotes if the old one was or if it must be."""
    start, end = _span(record, column, dialect.delimiter)
    special = {dialect.delimiter, *'"\r\n'}
    needs_quotes = not text or not special.isdisjoint(text)
    if needs_quotes or record.startswith('"', start):
        text = '"' + text.replace('"', '""') + '"'
    return record[:start] + text + record[end:]


def _span(record: str, column: int, delimiter: str) -> tuple[int, int]:
    """Where a cell of a record starts and ends, quotes included; the last quote may be absent.

    >>> _span('a,"b,""c",d', 1, ",")
    (2, 9)
    """
    before = re.escape(delimiter)
    cell = rf'(?:^|{before})((?:"[^"]*+(?:""[^"]*+)*+"?+)?+[^{before}\r\n]*+)'
    return next(islice(re.finditer(cell, record), column, None)).span(1)
