"""CSV files of any origin: the dialect is found, the table parsed, and cells replaced without another byte changed.

The formula guard follows OWASP: text that begins with = + - @, a tab, a line break or a NUL, which a spreadsheet would
run, gets a single quote in front. Text that already looks guarded (quotes, then such a character) gets one more quote,
so that removing one quote restores every text. Numbers such as -1.5, -1,5 or -inf and a lone + or - are harmless and
stay as they are.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, tee
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from nearworth.tables import InputError

SAMPLE = 256 * 1024
CHUNK = 4 * 1024 * 1024
BLOCK, LARGE_BLOCK = 1024 * 1024, 32 * 1024 * 1024  # a row must fit in one
DELIMITERS = (",", ";", "\t", "|")
ENCODINGS = ("utf-8", "cp1252", "latin-1")  # the last one can decode everything
OTHER_FILES = {  # how they begin, after a byte-order mark
    rb"\s*\Z": "empty.",
    rb"PK\x03\x04|\xd0\xcf\x11\xe0": "an Excel workbook or another archive; save it as CSV.",
    rb"\xff\xfe|\xfe\xff": "UTF-16 text; save it as UTF-8.",
    rb"\x1f\x8b|%PDF|[^\x00]*\x00": "binary, not text (NUL bytes, gzip or PDF); give the file its right extension.",
    rb"(?i)\s*<(!doctype|html|\?xml|head|body)": "a web page (HTML or XML). Was a login or error page saved as CSV?",
    rb"\s*(\{|\[\{|\[\[)": "JSON, not a table. Name it .json, or save it as CSV.",
}

# Python's re and Arrow's RE2 both read it. The last four characters are full-width forms of = + - @.
_DANGEROUS = "'*[=+\\-@\t\r\n\x00\uff1d\uff0b\uff0d\uff20]"
_NUMBER = re.compile(r"[+-](?:(?:\d+(?:[.,]\d*)*|[.,]\d+)(?:[eE][+-]?\d+)?%?|[iI]nf(?:inity)?)?")  # as in page.js


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written."""

    encoding: str
    quotes: bool
    delimiter: str
    decimal: str
    names: tuple[str, ...]  # of columns


def open_csv(path: Path, encoding: str | None = None) -> IO[Any]:
    """The file as bytes, or as text in an encoding; a packed one is unpacked."""
    opened: Callable[..., IO[Any]] = gzip.open if path.suffix.lower() == ".gz" else open
    return opened(path, "rb") if encoding is None else opened(path, "rt", encoding=encoding, newline="")


def suffix_of(path: Path) -> str:
    """The last extension, or the one before .gz.

    >>> suffix_of(Path("a.CSV.gz")), suffix_of(Path("a.b.parquet"))
    ('.csv', '.parquet')
    """
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def find_dialect(path: Path) -> Dialect:
    """How the file is written, by its first rows; files that are no table are refused."""
    with open_csv(path) as file:
        sample = file.read(SAMPLE).removeprefix(codecs.BOM_UTF8)
    for beginning, what in OTHER_FILES.items():
        if re.match(beginning, sample):
            raise InputError(f"{path}: is {what}")
    if len(sample) >= SAMPLE - len(codecs.BOM_UTF8):  # the last row is cut
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    encoding, quotes = _scan(path)
    text = sample.decode(encoding, errors="ignore")
    known = ["\t"] if suffix_of(path) == ".tsv" else DELIMITERS
    delimiter = max(known, key=lambda delimiter: _regularity(_first_rows(text, delimiter)))
    rows = _first_rows(text, delimiter)
    return Dialect(encoding, quotes, delimiter, _find_decimal(rows) if delimiter != "," else ".", tuple(rows[0]))


def _scan(path: Path) -> tuple[str, bool]:
    """The first encoding in which the whole file can be read, and whether quotes occur."""
    for encoding in ENCODINGS:
        with suppress(UnicodeDecodeError), open_csv(path, encoding) as file:
            return encoding, sum('"' in chunk for chunk in iter(lambda: file.read(CHUNK), "")) > 0
    raise AssertionError("Latin-1 decodes everything")


def _first_rows(text: str, delimiter: str) -> list[list[str]]:
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return list(islice(filter(None, reader), 50))


def _regularity(rows: list[list[str]]) -> tuple[float, int]:
    """The share of rows with as many columns as the header, and their number: the largest has the right delimiter."""
    width = len(rows[0])
    return (sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0), width


def _find_decimal(rows: list[list[str]]) -> str:
    """A comma where the first rows have numbers with decimal commas and none with points."""
    found = (re.fullmatch(r"\s*[+-]?\d+([.,])\d+\s*", cell) for row in rows for cell in row)
    return "," if {number[1] for number in found if number} == {","} else "."


def read_csv(path: Path, dialect: Dialect, text_only: bool = False) -> Any:
    """The file as an Arrow table; column types are inferred from all rows unless only text is asked for."""
    table = _parse(path, dialect, dict.fromkeys(dialect.names, pa.string()) if text_only else {})
    names = [name.strip() for name in table.column_names]
    columns = [restore_column(c) if pa.types.is_string(c.type) else c for c in table.columns]
    return pa.table(columns, names=[name or "unnamed" for name in names])  # pandas leaves row numbers without a name


def _parse(path: Path, dialect: Dialect, types: dict[str, Any]) -> Any:
    parse = pa_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=dialect.quotes)
    convert = pa_csv.ConvertOptions(decimal_point=dialect.decimal, column_types=types)
    small, large = (pa_csv.ReadOptions(encoding=dialect.encoding, block_size=block) for block in (BLOCK, LARGE_BLOCK))
    # Types of the first block save memory, where they hold for all rows.
    with suppress(pa.ArrowInvalid), pa_csv.open_csv(path, small, parse, convert) as reader:
        return reader.read_all()
    large.use_threads = False  # so that messages number the rows, the header being row 1
    try:
        return pa_csv.read_csv(path, large, parse, convert)
    except pa.ArrowInvalid as error:
        advice = "Quote cells that hold the delimiter, or repair the row."
        raise InputError(f"{path}: cannot be read as a table: {str(error).splitlines()[0][:200]}. {advice}") from error


def guard(cell: str) -> str:
    """The cell in a form that no spreadsheet runs.

    >>> guard("=1+2"), guard("-1.5"), guard("plain")
    ("'=1+2", '-1.5', 'plain')
    """
    return f"'{cell}" if re.match(_DANGEROUS, cell) and not _NUMBER.fullmatch(cell) else cell


def guard_column(column: Any) -> Any:
    if not pc.any(pc.match_substring_regex(column, f"^{_DANGEROUS}")).as_py():
        return column
    return pa.chunked_array([[None if cell is None else guard(cell) for cell in column.to_pylist()]], column.type)


def restore_column(column: Any) -> Any:
    """The text that `guard_column` was given."""
    return pc.replace_substring_regex(column, f"^'({_DANGEROUS})", r"\1")


def replace_cells(
    path: Path, dialect: Dialect, column: int, rows: Container[int], change: Callable[[int, str], str | None],
    n_rows: int,
) -> Iterator[bytes]:  # fmt: skip
    """The bytes of a CSV file, record by record, with new cells in one column.

    `change` is called with the row and the text of each cell in `rows`; it returns the new text, or None to leave the
    row out.
    """
    row, n_lines = -1, 0  # the header
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
                quotes = record.startswith('"', start) or not new
                record = record[:start] + _in_quotes(new, dialect.delimiter, always=quotes) + record[end:]
            try:
                yield record.encode(dialect.encoding)
            except UnicodeEncodeError:
                why = f"is {dialect.encoding}, which cannot write the label {new!r}; save it as UTF-8 first."
                raise InputError(f"{path}: {why}") from None
            row += bool(cells)  # empty lines are no rows
    if row != n_rows:  # parsers disagree on quotes that are neither closed nor doubled
        raise InputError(f"{path}: has {n_rows:,} rows, but {row:,} by its quotes. Repair the quotes in cells.")


def _span(record: str, column: int, delimiter: str) -> tuple[int, int]:
    """Where a cell of a record starts and ends, quotes included; the last quote may be absent.

    >>> _span('a,"b,""c",d', 1, ",")
    (2, 9)
    """
    before = re.escape(delimiter)
    cell = rf'(?:^|{before})((?:"[^"]*+(?:""[^"]*+)*+"?+)?+[^{before}\r\n]*+)'
    return next(islice(re.finditer(cell, record), column, None)).span(1)


def _in_quotes(cell: str, delimiter: str, always: bool = False) -> str:
    """The cell in quotes if it needs them."""
    needed = always or not set(delimiter + '"\r\n').isdisjoint(cell)
    return '"' + cell.replace('"', '""') + '"' if needed else cell
