"""Cells that a spreadsheet would run: made inert when a CSV is written, restored when it is read.

As OWASP advises, text that begins with = + - @, a tab, a line break or a NUL gets a single quote in front. Text that
already looks like that (quotes, then such a character) gets one more quote, so that nothing is lost: taking one away
restores every text. Numbers such as -1.5, -1,5 or -inf and a lone + or - are left alone: they do nothing.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_RUNS = r"[=+\-@\t\r\n\x00\uFF1D\uFF0B\uFF0D\uFF20]"  # the full-width forms are read as formulas too
_NUMBER = r"[+-](?:(?:\d+(?:[.,]\d*)*|[.,]\d+)(?:[eE][+-]?\d+)?%?|[iI]nf(?:inity)?)?"  # as in page.js
_DANGEROUS = re.compile(rf"'*{_RUNS}")
_GUARDED = re.compile(rf"'+{_RUNS}")
_PLAIN_NUMBER = re.compile(rf"{_NUMBER}\Z")
_ARROW_RUNS = "[=+\\-@\\t\\r\\n\\x00\\x{FF1D}\\x{FF0B}\\x{FF0D}\\x{FF20}]"


def guard(cell: str) -> str:
    """The cell as no spreadsheet runs it.

    >>> guard("=1+2"), guard("-1.5"), guard("plain")
    ("'=1+2", '-1.5', 'plain')
    """
    return f"'{cell}" if _DANGEROUS.match(cell) and not _PLAIN_NUMBER.match(cell) else cell


def restore(cell: str) -> str:
    """What `guard` was given.

    >>> restore(guard("'=1+2"))
    "'=1+2"
    """
    return cell[1:] if _GUARDED.match(cell) else cell


def guard_column(column: Any) -> Any:
    """An Arrow column of text, every cell guarded."""
    dangerous = pc.match_substring_regex(column, f"^'*{_ARROW_RUNS}")
    if not pc.any(dangerous).as_py():
        return column
    return pa.chunked_array([[None if cell is None else guard(cell) for cell in column.to_pylist()]], column.type)


def restore_column(column: Any) -> Any:
    """An Arrow column of text, every cell as it was before `guard_column`."""
    guarded = pc.match_substring_regex(column, f"^'+{_ARROW_RUNS}")
    if not pc.any(guarded).as_py():
        return column
    return pc.if_else(guarded, pc.utf8_slice_codeunits(column, start=1), column)
