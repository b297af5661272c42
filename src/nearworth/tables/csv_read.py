"""CSV and TSV files of any origin: encoding, delimiter and decimal comma are found; other kinds of file are refused."""

from __future__ import annotations

import codecs
import csv
import io
import re
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from nearworth.tables.csv_cells import Dialect, restore_column
from nearworth.tables.errors import InputError, listed

SAMPLE = 256 * 1024
CHUNK = 4 * 1024 * 1024
BLOCK, LARGE_BLOCK = 1024 * 1024, 32 * 1024 * 1024  # a row must fit in one
DELIMITERS = (",", ";", "\t", "|")
ENCODINGS = ("utf-8", "cp1252", "latin-1")  # the last one can decode everything
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
    """The first encoding in which the whole file can be read, and whether quotes occur."""
    for encoding in ENCODINGS:
        quotes = False
        try:
            with open(path, encoding=encoding, newline="") as file:
                while chunk := file.read(CHUNK):
                    quotes = quotes or '"' in chunk
        except UnicodeDecodeError:
            continue
        break
    return encoding, quotes


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
    commas = any(re.fullmatch(r"[+-]?\d+,\d+", cell) for cell in cells)
    return "," if commas and not any(re.fullmatch(r"[+-]?\d+\.\d+", cell) for cell in cells) else "."


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
    for block in (BLOCK, LARGE_BLOCK):
        ragged: list[Any] = []
        options = _options(dialect, block, ragged)
        try:
            types = _first_types(path, dialect, options, text_only) if block == BLOCK or text_only else {}
            convert = pa_csv.ConvertOptions(column_types=types, decimal_point=dialect.decimal)
            return pa_csv.read_csv(path, *options, convert)
        except pa.ArrowInvalid as error:
            problem = str(error)
    raise InputError(f"{path}: {_problem(ragged, problem)}")


def _first_types(path: Path, dialect: Dialect, options: tuple[Any, Any], text_only: bool) -> dict[str, Any]:
    convert = pa_csv.ConvertOptions(decimal_point=dialect.decimal)
    with pa_csv.open_csv(path, *options, convert) as reader:
        if text_only:
            return dict.fromkeys(reader.schema.names, pa.string())
        return {field.name: field.type for field in reader.schema if not pa.types.is_null(field.type)}


def _options(dialect: Dialect, block: int, ragged: list[Any]) -> tuple[Any, Any]:
    """How pyarrow reads; a row of another length than the header is appended to `ragged`."""

    def refuse(row: Any) -> str:
        ragged.append(row)
        return "error"

    return (  # without threads, rows are numbered
        pa_csv.ReadOptions(use_threads=block == BLOCK, encoding=dialect.encoding, block_size=block),
        pa_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=dialect.quotes, invalid_row_handler=refuse),
    )


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
