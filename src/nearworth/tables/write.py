"""Columns to files: the format by extension, complete or not at all, never over an existing file
unasked.

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
LOCK_SECONDS = (
    30.0  # to wait for others that change the same file: each takes a fraction of a second
)
LOCK_POLL_SECONDS = 0.02
# As in report/web/files.js.
NUMBER = re.compile(r"[+-](?:(?:\d+(?:[.,]\d*)*|[.,]\d+)(?:[eE][+-]?\d+)?%?|[iI]nf(?:inity)?)?")


def check_output(
    path: str, force: bool, formats: tuple[str, ...] = FORMATS, inputs: tuple[str | None, ...] = ()
) -> None:
    """Refuse, before any work is done, an output that could not be written or that would replace an
    input.
    """
    if path == STDOUT:
        return
    target = Path(path)
    folder = target.absolute().parent
    is_input = target.exists() and any(
        name and os.path.exists(name) and target.samefile(name) for name in inputs
    )
    problems = {
        f"cannot write {target.suffix!r}; use {', '.join(formats)}": (
            target.suffix.lower() not in formats
        ),
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


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file against other processes that read, change and replace it too; readers need no
    lock.

    The lock is a file beside it, which is removed with the lock. It also works on shared folders,
    where the locks of operating systems may not. A lock whose process has died on this computer is
    taken over.
    """
    from filelock import SoftFileLock, Timeout

    lock = path.with_name(f".{path.name}.lock")
    if not path.parent.is_dir():  # which the lock would make
        raise InputError(f"{path}: could not be written: there is no folder {str(path.parent)!r}.")
    try:
        held = SoftFileLock(lock, timeout=LOCK_SECONDS, poll_interval=LOCK_POLL_SECONDS).acquire()
    except Timeout as error:
        waited = f"another process has held it for {LOCK_SECONDS:g} seconds"
        advice = (
            f"Run the command again once that is done. If no process uses it, delete {str(lock)!r}"
        )
        raise InputError(f"{path}: could not be changed: {waited}. {advice}.") from error
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
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def guard(cell: str) -> str:
    """The cell in a form that no spreadsheet runs.

    >>> guard("=1+2"), guard("-1.5"), guard("plain")
    ("'=1+2", '-1.5', 'plain')
    """
    return f"'{cell}" if re.match(DANGEROUS, cell) and not NUMBER.fullmatch(cell) else cell


def guard_column(column: Any) -> Any:
    if not pc.any(pc.match_substring_regex(column, f"^{DANGEROUS}")).as_py():
        return column
    return pa.chunked_array(
        [[None if cell is None else guard(cell) for cell in column.to_pylist()]], column.type
    )


def replace_cells(
    path: Path,
    dialect: Dialect,
    column: int,
    rows: Container[int],
    change: Callable[[int, str], str | None],
    n_rows: int,
) -> Iterator[bytes]:
    """The bytes of a CSV file, record by record, with new cells in one column.

    `change` makes the new text from the row and the text of each cell in `rows`; None leaves the
    row out.
    """
    row, n_lines, special = -1, 0, {dialect.delimiter, *'"\r\n'}  # the row before all is the header
    with open_csv(path, dialect.encoding) as file:
        lines, copies = tee(file)
        reader = csv.reader(lines, delimiter=dialect.delimiter)
        for cells in reader:
            record = "".join(islice(copies, reader.line_num - n_lines))
            n_lines = reader.line_num
            if row in rows and cells:
                start, end = _span(record, column, dialect.delimiter)
                new = change(row, cells[column])
                if new is None:
                    row += 1
                    continue
                quotes = record.startswith('"', start) or not new or not special.isdisjoint(new)
                cell = '"' + new.replace('"', '""') + '"' if quotes else new
                record = record[:start] + cell + record[end:]
            try:
                yield record.encode(dialect.encoding)
            except UnicodeEncodeError:
                why = (
                    f"is {dialect.encoding}, which cannot write the label {new!r}; save it as UTF-8"
                    " first."
                )
                raise InputError(f"{path}: {why}") from None
            row += bool(cells)  # empty lines are no rows
    if row != n_rows:  # parsers disagree on quotes that are neither closed nor doubled
        raise InputError(
            f"{path}: has {n_rows:,} rows, but {row:,} by its quotes. Repair the quotes in cells."
        )


def _span(record: str, column: int, delimiter: str) -> tuple[int, int]:
    """Where a cell of a record starts and ends, quotes included; the last quote may be absent.

    >>> _span('a,"b,""c",d', 1, ",")
    (2, 9)
    """
    before = re.escape(delimiter)
    cell = rf'(?:^|{before})((?:"[^"]*+(?:""[^"]*+)*+"?+)?+[^{before}\r\n]*+)'
    return next(islice(re.finditer(cell, record), column, None)).span(1)
