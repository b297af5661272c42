"""The text of CSV cells: the formula guard, quotes, and new text in place of old without another byte changed.

The formula guard follows OWASP: text that begins with = + - @, a tab, a line break or a NUL, which a spreadsheet would
run, gets a single quote in front. Text that already looks guarded (quotes, then such a character) gets one more quote,
so that removing one quote restores every text. Numbers such as -1.5, -1,5 or -inf and a lone + or - are harmless and
stay as they are.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nearworth.tables.errors import InputError

# Python's re and Arrow's RE2 both read these two. The last four characters are full-width forms of = + - @.
_DANGEROUS = "'*[=+\\-@\t\r\n\x00\uff1d\uff0b\uff0d\uff20]"
_GUARDED = "'" + _DANGEROUS
_NUMBER = re.compile(r"[+-](?:(?:\d+(?:[.,]\d*)*|[.,]\d+)(?:[eE][+-]?\d+)?%?|[iI]nf(?:inity)?)?")  # as in page.js

_QUOTED = r'"[^"]*+(?:""[^"]*+)*+'  # a quoted cell without its closing quote

# All encodings that are read have delimiters, quotes and line breaks as single bytes that mean nothing else. So a file
# is edited as Latin-1, which turns each byte into one character and back.
_BYTES = "latin-1"


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written."""

    encoding: str
    delimiter: str
    quotes: bool
    decimal: str = "."


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
    """An Arrow column of text, every cell guarded."""
    return _changed(column, _DANGEROUS, guard)


def restore_column(column: Any) -> Any:
    """An Arrow column of text as it was before `guard_column`."""
    return _changed(column, _GUARDED, restore)


def _changed(column: Any, pattern: str, change: Callable[[str], str]) -> Any:
    """The column itself where no cell begins with the pattern, which is almost always."""
    if not pc.any(pc.match_substring_regex(column, f"^{pattern}")).as_py():
        return column
    return pa.chunked_array([[None if cell is None else change(cell) for cell in column.to_pylist()]], column.type)


def as_line(cells: list[str], delimiter: str) -> str:
    r"""One line of a file. Python's csv writer would leave a lone carriage return, which ends a line, without quotes.

    >>> as_line(["a", "b,c", "d\re"], ",")
    'a,"b,c","d\re"\n'
    """
    return (delimiter.join(in_quotes(cell, delimiter) for cell in cells) or '""') + "\n"


def in_quotes(cell: str, delimiter: str, always: bool = False) -> str:
    """The cell in quotes if it needs them."""
    needed = always or not set(delimiter + '"\r\n').isdisjoint(cell)
    return '"' + cell.replace('"', '""') + '"' if needed else cell


def replace_cells(
    path: Path,
    dialect: Dialect,
    column: int,
    rows: Container[int],
    change: Callable[[int, str], str | None],
    n_rows: int,
) -> Iterator[bytes]:
    """The bytes of a CSV file, with new cells in one column.

    `change` is called with the row and the text of each cell in `rows`; it returns the new text, or None for no change.
    """
    with open(path, encoding=_BYTES, newline="") as file:
        mark = codecs.BOM_UTF8.decode(_BYTES)
        if dialect.encoding == "utf-8" and file.read(len(mark)) == mark:
            yield codecs.BOM_UTF8
        else:
            file.seek(0)
        row = -1  # the header
        for record in split_records(file, dialect.delimiter):
            if not record.strip("\r\n"):  # readers skip empty lines
                yield record.encode(_BYTES)
                continue
            new = record
            if row in rows:
                start, end = split_cells(record, dialect.delimiter)[column]
                old = record[start:end]
                label = change(row, without_quotes(old).encode(_BYTES).decode(dialect.encoding, errors="replace"))
                new = record if label is None else record[:start] + _like(path, old, label, dialect) + record[end:]
            yield new.encode(_BYTES)
            row += 1
    if row != n_rows:  # parsers disagree on quotes that are neither closed nor doubled
        raise InputError(f"{path}: has {n_rows:,} rows, but {row:,} by its quotes. Repair the quotes in cells.")


def split_records(lines: Iterable[str], delimiter: str) -> Iterator[str]:
    r"""Lines, joined where a line break is in quotes.

    >>> list(split_records(['a,"b\n', 'c"\n', 'd,e'], ","))
    ['a,"b\nc"\n', 'd,e']
    """
    start = rf"(?:^|(?<={re.escape(delimiter)}))"  # of a cell: only here do quotes open
    closed = re.compile(rf'(?:[^"]++|{start}{_QUOTED}"|(?!{start})")*+')
    record, within = "", False
    for line in lines:
        record += line
        if within or '"' in line:
            within = not closed.fullmatch('"' + line if within else line)
        if not within:
            yield record
            record = ""
    if record:
        yield record


def split_cells(record: str, delimiter: str) -> list[tuple[int, int]]:
    """Where each cell of a record starts and ends, quotes included.

    >>> split_cells('a,"b,c",', ",")
    [(0, 1), (2, 7), (8, 8)]
    """
    delimiter = re.escape(delimiter)
    cell = rf'(?:{_QUOTED}"?)?+[^{delimiter}\r\n]*+'
    return [match.span(1) for match in re.finditer(rf"(?:^|{delimiter})({cell})", record)]


def without_quotes(cell: str) -> str:
    """The text of a cell.

    >>> without_quotes('"a ""b"" c"'), without_quotes('a "b" c')
    ('a "b" c', 'a "b" c')
    """
    quoted = re.match(r'"([^"]*(?:""[^"]*)*)"?', cell)
    return quoted[1].replace('""', '"') + cell[quoted.end() :] if quoted else cell


def _like(path: Path, old: str, text: str, dialect: Dialect) -> str:
    """The new text in quotes if the old one had some, or if it needs them."""
    try:
        new = text.encode(dialect.encoding).decode(_BYTES)
    except UnicodeEncodeError:
        raise InputError(
            f"{path}: is {dialect.encoding}, which cannot write the label {text!r}; save it as UTF-8 first."
        ) from None
    return in_quotes(new, dialect.delimiter, always=old.startswith('"') or not new)
