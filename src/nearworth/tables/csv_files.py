"""CSV files of any origin: the dialect is found, the table parsed, and cells replaced without another byte changed.

The formula guard follows OWASP: text that begins with = + - @, a tab, a line break or a NUL, which a spreadsheet would
run, gets a single quote in front. Text that already looks guarded (quotes, then such a character) gets one more quote,
so that removing one quote restores every text. Numbers such as -1.5, -1,5 or -inf and a lone + or - are harmless and
stay as they are.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from nearworth.tables import InputError, listed

SAMPLE = 256 * 1024
CHUNK = 4 * 1024 * 1024
BLOCK, LARGE_BLOCK = 1024 * 1024, 32 * 1024 * 1024  # a row must fit in one
DELIMITERS = (",", ";", "\t", "|")
ENCODINGS = ("utf-8", "cp1252", "latin-1")  # the last one can decode everything
OTHER_FILES = {  # how they begin
    b"PAR1": "a Parquet file; name it .parquet",
    b"ARROW1": "a Feather file; name it .feather",
    b"PK\x03\x04": "a zip archive or an Excel workbook; save it as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save it as CSV",
    b"\x1f\x8b": "compressed with gzip; unpack it first",
    b"%PDF": "a PDF",
    b"\x93NUMPY": "a numpy array; name it .npy",
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "UTF-16 text; save it as UTF-8"),
}
OTHER_TEXT = {  # in lower case, after white space
    **dict.fromkeys(
        (b"<!doctype", b"<html", b"<?xml", b"<head", b"<body"),
        "a web page (HTML or XML), not a table. Was a login or error page saved as CSV?",
    ),
    **dict.fromkeys((b"{", b"[{", b"[["), "JSON, not a table. Save it as CSV or Parquet."),
}

# Python's re and Arrow's RE2 both read these two. The last four characters are full-width forms of = + - @.
_DANGEROUS = "'*[=+\\-@\t\r\n\x00\uff1d\uff0b\uff0d\uff20]"
_GUARDED = "'" + _DANGEROUS
_NUMBER = re.compile(r"[+-](?:(?:\d+(?:[.,]\d*)*|[.,]\d+)(?:[eE][+-]?\d+)?%?|[iI]nf(?:inity)?)?")  # as in page.js

# All encodings that are read have delimiters, quotes and line breaks as single bytes that mean nothing else, so cells
# are found among bytes. This is one in quotes; the last quote may be absent.
_QUOTED = rb'"([^"]*+(?:""[^"]*+)*+)"?+'


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written."""

    encoding: str
    delimiter: str
    quotes: bool
    decimal: str


def find_dialect(path: Path) -> Dialect:
    """Encoding, delimiter, decimal point and whether quotes occur; files that are no table are refused."""
    with open(path, "rb") as file:
        sample = file.read(SAMPLE)
    _refuse_other_files(path, sample)
    encoding, quotes = _scan(path)
    text = sample.decode(encoding, errors="ignore")
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _find_delimiter(text, whole=len(sample) < SAMPLE)
    return Dialect(encoding, delimiter, quotes, _find_decimal(text, delimiter))


def _refuse_other_files(path: Path, sample: bytes) -> None:
    start = sample.removeprefix(codecs.BOM_UTF8).lstrip()[:256].lower()
    if not start:
        raise InputError(f"{path}: is empty.")
    for magic, what in OTHER_FILES.items():
        if sample.startswith(magic):
            raise InputError(f"{path}: is {what}.")
    if b"\x00" in sample:
        raise InputError(f"{path}: is a binary file, not a table of text (it holds NUL bytes).")
    for magic, what in OTHER_TEXT.items():
        if start.startswith(magic):
            raise InputError(f"{path}: is {what}")


def _scan(path: Path) -> tuple[str, bool]:
    """The first encoding in which the whole file can be read, and whether quotes occur."""
    for encoding in ENCODINGS:
        with suppress(UnicodeDecodeError), open(path, encoding=encoding, newline="") as file:
            return encoding, sum('"' in chunk for chunk in iter(lambda: file.read(CHUNK), "")) > 0
    raise AssertionError("Latin-1 decodes everything")


def _find_delimiter(text: str, whole: bool) -> str:
    """The delimiter that gives most of the first rows as many columns as the header; more columns win."""

    def score(delimiter: str) -> tuple[float, int]:
        rows = [row for row in _first_rows(text, delimiter) if row][:50]
        rows = rows if whole else rows[:-1] or rows
        width = len(rows[0]) if rows else 1
        return (sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0), width

    return max(DELIMITERS, key=score)


def _find_decimal(text: str, delimiter: str) -> str:
    """A comma where the first rows have numbers with decimal commas and none with points."""
    cells = {cell.strip() for row in _first_rows(text, delimiter) for cell in row} if delimiter != "," else set()
    marks = {number[1] for cell in cells if (number := re.fullmatch(r"[+-]?\d+([.,])\d+", cell))}
    return "," if marks == {","} else "."


def _first_rows(text: str, delimiter: str) -> list[list[str]]:
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter)
    return list(islice(reader, 61))


def read_csv(path: Path, dialect: Dialect, text_only: bool = False) -> Any:
    """The file as an Arrow table; column types are inferred from all rows unless only text is asked for."""
    table = _parse(path, dialect, text_only)
    names = [name.strip() for name in table.column_names]
    blank = [number for number, name in enumerate(names, start=1) if not name]
    if len(blank) > 1:
        raise InputError(f"{path}: columns {listed(blank)} have no name. The first line must name every column.")
    columns = [restore_column(c) if pa.types.is_string(c.type) else c for c in table.columns]
    return pa.table(columns, names=[name or "unnamed" for name in names])  # pandas leaves row numbers without a name


def _parse(path: Path, dialect: Dialect, text_only: bool) -> Any:
    """Types from the first block, which saves memory; where they do not hold, from all rows."""
    small, large = (pa_csv.ReadOptions(encoding=dialect.encoding, block_size=block) for block in (BLOCK, LARGE_BLOCK))
    parse = pa_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=dialect.quotes)
    convert = pa_csv.ConvertOptions(decimal_point=dialect.decimal)
    first = large if text_only else small
    with suppress(pa.ArrowInvalid):
        convert.column_types = _first_types(path, (first, parse, convert), text_only)
        return pa_csv.read_csv(path, first, parse, convert)

    ragged: list[Any] = []  # rows of another length than the header

    def refuse(row: Any) -> str:
        ragged.append(row)
        return "error"

    parse.invalid_row_handler = refuse  # not before: a thread of `open_csv` that holds it can abort Python's exit
    large.use_threads = False  # so that rows are numbered
    convert.column_types = convert.column_types if text_only else {}
    try:
        return pa_csv.read_csv(path, large, parse, convert)
    except pa.ArrowInvalid as error:
        problem = _ragged_row(ragged[0]) if ragged else f"cannot be read as a table: {str(error).splitlines()[0]}"
        raise InputError(f"{path}: {problem}") from error


def _first_types(path: Path, options: tuple[Any, Any, Any], text_only: bool) -> dict[str, Any]:
    with pa_csv.open_csv(path, *options) as reader:
        if text_only:
            return dict.fromkeys(reader.schema.names, pa.string())
        return {field.name: field.type for field in reader.schema if not pa.types.is_null(field.type)}


def _ragged_row(row: Any) -> str:
    start = re.sub(r"[\r\n]", " ", row.text[:40])
    where = f"row {row.number - 2} (0-based)" if row.number else "a row"
    return (
        f"{where} has {row.actual_columns} columns where the header has {row.expected_columns}; "
        f"it begins {start!r}. Quote cells that hold the delimiter, or repair the row."
    )


def guard(cell: str) -> str:
    """The cell in a form that no spreadsheet runs.

    >>> guard("=1+2"), guard("-1.5"), guard("plain")
    ("'=1+2", '-1.5', 'plain')
    """
    return f"'{cell}" if re.match(_DANGEROUS, cell) and not _NUMBER.fullmatch(cell) else cell


def restore(cell: str) -> str:
    """The text that `guard` was given.

    >>> restore(guard("'=1+2"))
    "'=1+2"
    """
    return cell[1:] if re.match(_GUARDED, cell) else cell


def guard_column(column: Any) -> Any:
    return _changed(column, _DANGEROUS, guard)


def restore_column(column: Any) -> Any:
    return _changed(column, _GUARDED, restore)


def _changed(column: Any, pattern: str, change: Callable[[str], str]) -> Any:
    """An Arrow column of text, each cell changed; the column itself where no cell begins with the pattern."""
    if not pc.any(pc.match_substring_regex(column, f"^{pattern}")).as_py():
        return column
    return pa.chunked_array([[None if cell is None else change(cell) for cell in column.to_pylist()]], column.type)


def as_line(cells: list[str], delimiter: str) -> str:
    r"""One line of a file. Python's csv writer would leave a lone carriage return, which ends a line, without quotes.

    >>> as_line(["a", "b,c", "d\re"], ",")
    'a,"b,c","d\re"\n'
    """
    return (delimiter.join(_in_quotes(cell, delimiter) for cell in cells) or '""') + "\n"


def replace_cells(
    path: Path,
    dialect: Dialect,
    column: int,
    rows: Container[int],
    change: Callable[[int, str], str | None],
    n_rows: int,
) -> Iterator[bytes]:
    """The bytes of a CSV file, record by record, with new cells in one column.

    `change` is called with the row and the text of each cell in `rows`; it returns the new text, or None for no change.
    """
    row = -1  # the header
    for record in split_records(path.read_bytes(), dialect.delimiter):
        empty = not record.removeprefix(codecs.BOM_UTF8).strip(b"\r\n")  # readers skip empty lines
        if row in rows and not empty:
            start, end = split_cells(record, dialect.delimiter)[column]
            new = change(row, without_quotes(record[start:end]).decode(dialect.encoding, errors="replace"))
            if new is not None:
                quotes = record.startswith(b'"', start) or not new
                record = record[:start] + _encoded(path, new, quotes, dialect) + record[end:]
        yield record
        row += not empty
    if row != n_rows:  # parsers disagree on quotes that are neither closed nor doubled
        raise InputError(f"{path}: has {n_rows:,} rows, but {row:,} by its quotes. Repair the quotes in cells.")


def _encoded(path: Path, cell: str, quotes: bool, dialect: Dialect) -> bytes:
    try:
        return _in_quotes(cell, dialect.delimiter, always=quotes).encode(dialect.encoding)
    except UnicodeEncodeError:
        raise InputError(
            f"{path}: is {dialect.encoding}, which cannot write the label {cell!r}; save it as UTF-8 first."
        ) from None


def split_records(content: bytes, delimiter: str) -> Iterator[bytes]:
    r"""The lines of a file, joined where a line break is in quotes.

    >>> list(split_records(b'a,"b\nc"\nd,e', ","))
    [b'a,"b\nc"\n', b'd,e']
    """
    cell, between = _cell(delimiter), re.escape(delimiter.encode())
    record = rb"(?:\A\xef\xbb\xbf)?+" + cell + rb"(?:" + between + cell + rb")*+(?:\r\n|\r|\n|\Z)"
    return (match[0] for match in re.finditer(record, content) if match[0])


def split_cells(record: bytes, delimiter: str) -> list[tuple[int, int]]:
    """Where each cell of a record starts and ends, quotes included.

    >>> split_cells(b'a,"b,c",', ",")
    [(0, 1), (2, 7), (8, 8)]
    """
    start = rb"(?:^|" + re.escape(delimiter.encode()) + rb")"
    return [match.span(1) for match in re.finditer(start + b"(" + _cell(delimiter) + b")", record)]


def _cell(delimiter: str) -> bytes:
    return rb"(?:" + _QUOTED + rb")?+[^" + re.escape(delimiter.encode()) + rb"\r\n]*+"


def without_quotes(cell: bytes) -> bytes:
    """The text of a cell.

    >>> without_quotes(b'"a ""b"" c"'), without_quotes(b'a "b" c')
    (b'a "b" c', b'a "b" c')
    """
    quoted = re.match(_QUOTED, cell)
    return quoted[1].replace(b'""', b'"') + cell[quoted.end() :] if quoted else cell


def _in_quotes(cell: str, delimiter: str, always: bool = False) -> str:
    """The cell in quotes if it needs them."""
    needed = always or not set(delimiter + '"\r\n').isdisjoint(cell)
    return '"' + cell.replace('"', '""') + '"' if needed else cell
