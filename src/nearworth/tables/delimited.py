"""CSV and TSV as people have them: other encodings and delimiters, quoted line breaks, and files that are neither."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from nearworth.tables.errors import InputError, listed
from nearworth.tables.formulas import restore_column

SAMPLE = 256 * 1024
CHUNK = 4 * 1024 * 1024
BLOCK, LARGE_BLOCK = 1024 * 1024, 32 * 1024 * 1024  # a row must fit in one
DELIMITERS = (",", ";", "\t", "|")
MAGIC = {
    b"PAR1": "a Parquet file; name it .parquet",
    b"ARROW1": "a Feather file; name it .feather",
    b"PK\x03\x04": "a zip archive or an Excel workbook; save it as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save it as CSV",
    b"\x1f\x8b": "compressed with gzip; unpack it first",
    b"%PDF": "a PDF",
    b"\x93NUMPY": "a numpy array; name it .npy",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}


@dataclass(frozen=True)
class Dialect:
    """How a delimited file is written."""

    encoding: str
    delimiter: str
    quotes: bool
    decimal: str = "."


def find_dialect(path: Path) -> Dialect:
    """Encoding, delimiter and whether quotes occur; files that are no table are refused."""
    with open(path, "rb") as file:
        sample = file.read(SAMPLE)
    _refuse_other_files(path, sample)
    encoding, quotes = _scan(path)
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(sample)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _sniff(text, whole=len(sample) < SAMPLE)
    return Dialect(encoding, delimiter, quotes, _decimal(text, delimiter))


def read_delimited(path: Path, dialect: Dialect, text_only: bool = False) -> Any:
    """The file as an Arrow table; column types are found from all rows unless only text is asked for."""
    names = _header(path, dialect)
    table = _parse(path, dialect, names, text_only)
    if table.num_rows == 0:
        raise InputError(f"{path}: has a header ({len(names)} columns) but no rows.")
    columns = [restore_column(c) if pa.types.is_string(c.type) else c for c in table.columns]
    return pa.table(columns, names=names)


def _refuse_other_files(path: Path, sample: bytes) -> None:
    if not sample.strip(b"\xef\xbb\xbf \t\r\n"):
        raise InputError(f"{path}: is empty.")
    for magic, what in MAGIC.items():
        if sample.startswith(magic):
            raise InputError(f"{path}: is {what}.")
    if b"\x00" in sample:
        raise InputError(f"{path}: is a binary file, not a table of text (it holds NUL bytes).")
    start = sample.removeprefix(codecs.BOM_UTF8).lstrip()[:256].lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<body")):
        raise InputError(f"{path}: is a web page (HTML or XML), not a table. Was a login or error page saved as CSV?")
    if start.startswith((b"{", b"[{", b"[[")):
        raise InputError(f"{path}: is JSON, not a table. Save it as CSV or Parquet.")


def _scan(path: Path) -> tuple[str, bool]:
    """Encoding and whether quotes occur, from one pass over the bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    unicode, quotes, high = True, False, False
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            quotes = quotes or b'"' in chunk
            if unicode:
                unicode = _decodes(decoder, chunk)
            high = high or (
                not unicode and any(byte in chunk for byte in (b"\x80", b"\x91", b"\x92", b"\x93", b"\x94"))
            )
    if unicode and not _decodes(decoder, b"", final=True):
        unicode = False
    return "utf-8" if unicode else "cp1252" if high else "latin-1", quotes


def _decodes(decoder: Any, chunk: bytes, final: bool = False) -> bool:
    try:
        decoder.decode(chunk, final)
    except UnicodeDecodeError:
        return False
    return True


def _sniff(text: str, whole: bool) -> str:
    """The delimiter that splits the first lines into the most columns, all alike if that can be had."""

    def score(delimiter: str) -> tuple[float, int]:
        rows = [row for row in _rows(text, delimiter) if row][:50]
        rows = rows if whole or len(rows) < 2 else rows[:-1]
        widths = Counter(len(row) for row in rows)
        width = len(rows[0]) if rows else 1
        return (widths[width] / max(len(rows), 1) if width > 1 else 0.0, width)

    return max(DELIMITERS, key=score)


def _decimal(text: str, delimiter: str) -> str:
    """A comma where the first lines have numbers with decimal commas and none with points."""
    cells = {cell.strip() for row in _rows(text, delimiter) for cell in row} if delimiter != "," else set()
    commas = any(re.fullmatch(r"[+-]?\d+,\d+", cell) for cell in cells)
    return "," if commas and not any(re.fullmatch(r"[+-]?\d+\.\d+", cell) for cell in cells) else "."


def _rows(text: str, delimiter: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter)
    rows = []
    try:
        for row in reader:
            rows.append(row)
            if len(rows) > 60:
                break
    except csv.Error:
        pass
    return rows


def _header(path: Path, dialect: Dialect) -> list[str]:
    csv.field_size_limit(2**31 - 1)
    with open_text(path, dialect) as file:
        names = next((row for row in csv.reader(file, delimiter=dialect.delimiter) if row), [])
    names = [name.strip() for name in names]
    repeated = [name for name, count in Counter(names).items() if count > 1 and name]
    if repeated:
        raise InputError(f"{path}: the column name {listed(repeated)} occurs more than once. Make the names distinct.")
    blank = [number for number, name in enumerate(names, start=1) if not name]
    if len(blank) > 1:
        raise InputError(f"{path}: columns {listed(blank)} have no name. The first line must name every column.")
    return [name or "unnamed" for name in names]  # one is what spreadsheets and pandas write for the row numbers


def open_text(path: Path, dialect: Dialect) -> Any:
    """The file as text, without its byte-order mark."""
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    return open(path, encoding=encoding, errors="replace", newline="")


def as_line(cells: list[str], delimiter: str) -> str:
    r"""One line of a file. Python's own writer leaves a lone carriage return without quotes, which ends a line.

    >>> as_line(["a", "b,c", "d\re"], ",")
    'a,"b,c","d\re"\n'
    """
    return (delimiter.join(in_quotes(cell, delimiter) for cell in cells) or '""') + "\n"


def in_quotes(cell: str, delimiter: str, always: bool = False) -> str:
    """A cell in quotes if it needs them."""
    needed = always or not set(delimiter + '"\r\n').isdisjoint(cell)
    return '"' + cell.replace('"', '""') + '"' if needed else cell


def _parse(path: Path, dialect: Dialect, names: list[str], text_only: bool) -> Any:
    """Types from the first block, which lets go of text as soon as it is read; if they do not hold, from all rows."""
    try:
        types = _first_types(path, dialect, text_only)
        return _read(path, dialect, names, types, BLOCK, [])
    except pa.ArrowInvalid:
        ragged: list[Any] = []
        types = dict.fromkeys(names, pa.string()) if text_only else {}
        try:
            return _read(path, dialect, names, types, LARGE_BLOCK, ragged)
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: {_problem(ragged, str(error))}") from None


def _first_types(path: Path, dialect: Dialect, text_only: bool) -> dict[str, Any]:
    convert = pa_csv.ConvertOptions(decimal_point=dialect.decimal)
    with pa_csv.open_csv(path, *_options(dialect, BLOCK, []), convert) as reader:
        if text_only:
            return dict.fromkeys(reader.schema.names, pa.string())
        return {field.name: field.type for field in reader.schema if not pa.types.is_null(field.type)}


def _read(path: Path, dialect: Dialect, names: list[str], types: Any, block: int, ragged: list[Any]) -> Any:
    convert = pa_csv.ConvertOptions(column_types=types, decimal_point=dialect.decimal)
    table = pa_csv.read_csv(path, *_options(dialect, block, ragged), convert)
    if table.num_columns != len(names):
        raise pa.ArrowInvalid(f"the header has {len(names)} columns, the table {table.num_columns}")
    return table


def _options(dialect: Dialect, block: int, ragged: list[Any]) -> tuple[Any, Any]:
    """How pyarrow is to read; rows of another length than the header are kept in `ragged`."""

    def refuse(row: Any) -> str:
        ragged.append(row)
        return "error"

    return (
        pa_csv.ReadOptions(use_threads=block == BLOCK, encoding=dialect.encoding, block_size=block),
        pa_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=dialect.quotes, invalid_row_handler=refuse),
    )  # without threads it knows the numbers of rows


def _problem(ragged: list[Any], error: str) -> str:
    if not ragged:
        return f"cannot be read as a table: {error.splitlines()[0]}"
    row = ragged[0]
    start = row.text[:40].replace("\n", " ").replace("\r", " ")
    where = f"row {row.number - 2} (0-based)" if row.number else "a row"
    return (
        f"{where} has {row.actual_columns} columns where the header has {row.expected_columns}; "
        f"it begins {start!r}. Quote cells that hold the delimiter, or repair the row."
    )
