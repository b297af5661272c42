"""A delimited file with some cells of one column replaced. Every byte outside of these cells stays as it was.

The encodings that are read have delimiters, quotes and line breaks as single bytes that mean nothing else, so lines are
handled as Latin-1, where each byte is one character and comes back as it was.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from pathlib import Path

from nearworth.tables.delimited import Dialect, in_quotes
from nearworth.tables.errors import InputError

BYTES = "latin-1"


def spliced(
    path: Path, dialect: Dialect, column: int, rows: Container[int], change: Callable[[int, str], str | None],
    n_rows: int,
) -> Iterator[bytes]:  # fmt: skip
    """The file line by line; `change` is asked for the new text of a cell in `rows`, None if it stays."""
    with open(path, encoding=BYTES, newline="") as file:
        if dialect.encoding == "utf-8" and file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8.decode(BYTES):
            yield codecs.BOM_UTF8
        else:
            file.seek(0)
        number = -1  # the header
        for record in records(file, dialect.delimiter):
            if not record.strip("\r\n"):
                yield record.encode(BYTES)  # readers skip empty lines
                continue
            asked = number in rows
            new = _replaced(path, record, dialect, column, partial(change, number)) if asked else record
            yield new.encode(BYTES)
            number += 1
        if number != n_rows:  # readers differ on quotes that are neither closed nor doubled
            raise InputError(f"{path}: has {n_rows:,} rows, but {number:,} by its quotes. Repair the quotes in cells.")


def records(lines: Iterable[str], delimiter: str) -> Iterator[str]:
    r"""Lines, those that a quoted line break divides put together again.

    >>> list(records(['a,"b\n', 'c"\n', 'd,e'], ","))
    ['a,"b\nc"\n', 'd,e']
    """
    held: list[str] = []
    within = False
    for line in lines:
        held.append(line)
        within = _ends_within_quotes(line, delimiter, within)
        if not within:
            yield "".join(held)
            held = []
    if held:
        yield "".join(held)


def spans(record: str, delimiter: str) -> list[tuple[int, int]]:
    """Where the cells of a record are, quotes included.

    >>> spans('a,"b,c",', ",")
    [(0, 1), (2, 7), (8, 8)]
    """
    outside = rf"[^{re.escape(delimiter)}\r\n]*"
    cell = re.compile(rf'"[^"]*(?:""[^"]*)*"?{outside}|{outside}')
    found, position = [], 0
    while True:
        match = cell.match(record, position)
        assert match is not None  # it matches the empty text
        found.append(match.span())
        if not record.startswith(delimiter, match.end()):
            return found
        position = match.end() + len(delimiter)


def value(cell: str) -> str:
    """What a cell says, its quotes taken away.

    >>> value('"a ""b"" c"'), value('a "b" c')
    ('a "b" c', 'a "b" c')
    """
    quoted = re.match(r'"([^"]*(?:""[^"]*)*)"?', cell)
    return quoted[1].replace('""', '"') + cell[quoted.end() :] if quoted else cell


def _ends_within_quotes(line: str, delimiter: str, within: bool) -> bool:
    """Whether the line break at the end of a line belongs to a cell; quotes open only where a cell begins."""
    position = 0
    if not within and line.startswith('"'):
        within, position = True, 1
    while True:
        if within:
            position = _closing(line, position)
            if position < 0:
                return True
        opening = line.find(f'{delimiter}"', position)
        if opening < 0:
            return False
        within, position = True, opening + len(delimiter) + 1


def _closing(line: str, position: int) -> int:
    """The place after the quote that closes a cell, -1 if none does."""
    while (quote := line.find('"', position)) >= 0:
        if not line.startswith('"', quote + 1):
            return quote + 1
        position = quote + 2
    return -1


def _replaced(path: Path, record: str, dialect: Dialect, column: int, change: Callable[[str], str | None]) -> str:
    start, end = spans(record, dialect.delimiter)[column]
    cell = record[start:end]
    text = change(value(cell).encode(BYTES).decode(dialect.encoding, errors="replace"))
    return record if text is None else record[:start] + _like(path, cell, text, dialect) + record[end:]


def _like(path: Path, cell: str, text: str, dialect: Dialect) -> str:
    """The new text in quotes if the old one had some, or if it needs them."""
    try:
        new = text.encode(dialect.encoding).decode(BYTES)
    except UnicodeEncodeError:
        raise InputError(
            f"{path}: is {dialect.encoding}, which cannot write the label {text!r}; save it as UTF-8 first."
        ) from None
    return in_quotes(new, dialect.delimiter, always=cell.startswith('"') or not new)
