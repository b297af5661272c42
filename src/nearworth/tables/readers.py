"""What the cells of a column stand for: "$1,234.50" and "45 %" are numbers, "31/12/2020" is a date.

`find_reader` looks at a whole training column and returns a Reader, which turns this column, and
later any other of the same name, into one of numbers, dates, truth values, lists or text, with
nulls for cells that stand for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from nearworth._common.types import BoolVector

# Lower case: what people and programs write where there is nothing.
NOTHING = (
    "",
    "?",
    "-",
    "--",
    ".",
    "na",
    "n/a",
    "#n/a",
    "nan",
    "nat",
    "none",
    "null",
    "nil",
    "<na>",
    "missing",
)
# Share of the cells that must be numbers or dates. The others are then missing.
MIN_READ_SHARE = 0.95
# Cells that are looked at first, before all are read.
SAMPLE = 1_000
# Characters of a cell that count.
MAX_CELL_LENGTH = 10_000
CURRENCY = "$€£¥₹"
NUMBER = (
    rf"^(?P<sign>[+-]?)\s*(?P<before>[{CURRENCY}]?)\s*(?P<minus>[+-]?)(?P<digits>\d[\d.,'"
    r" \x{a0}]*?|[.,]\d+)"
    r"(?P<exponent>[eE][+-]?\d+)?\s*(?P<after>[^\d\s.,:+\-/][^\d\s:]{0,9}[23]?)?$"
)
DAY = r"\d{1,2}-\w{1,9}-\d{2,4}|[A-Za-z]{3,9}-\d{1,2}-\d{2,4}|\d{4}-\d{1,2}-\d{1,2}"
DATE = rf"^({DAY})(-\d{{1,2}}:\d\d.*)?$"
ORDERS = {
    "%Y-%m-%d": "year first",
    "%d-%m-%Y": "day first",
    "%m-%d-%Y": "month first",
    "%d-%b-%Y": "day first",
    "%b-%d-%Y": "month first",
    "%d-%m-%y": "day first",
    "%m-%d-%y": "month first",
    "%d-%b-%y": "day first",
}
TIMES = ("", "-%H:%M", "-%H:%M:%S", "-%I:%M-%p", "-%I:%M:%S-%p")

KINDS = {
    "truth": (types.is_boolean,),
    "number": (types.is_integer, types.is_floating, types.is_decimal),
    "date": (types.is_date, types.is_timestamp),
    "text": (types.is_string, types.is_large_string, types.is_string_view),
    "list": (types.is_list, types.is_large_list, types.is_fixed_size_list),
    "nothing": (types.is_null,),
}


def kind_of(cells: Any) -> str:
    """What an Arrow column holds: one of KINDS or the name of its type."""
    arrow_type = cells.type.value_type if types.is_dictionary(cells.type) else cells.type
    for kind, tests in KINDS.items():
        if any(test(arrow_type) for test in tests):
            return kind
    return str(arrow_type)


@dataclass(frozen=True)
class Reader:
    """Cells as they are, but for those that stand for nothing.

    These are some texts, in lower case, and numbers that are not finite. `words` says how cells are
    read, for people.
    """

    nothing: tuple[str, ...] = NOTHING
    words: str = ""

    def __call__(self, cells: Any) -> Any:
        """An Arrow column of any type as what it stands for."""
        if types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        kind = kind_of(cells)
        if kind == "number":
            return self._known_numbers(cells)
        if kind != "text":
            return cells
        start = pc.utf8_slice_codeunits(cells.cast(pa.string()), 0, MAX_CELL_LENGTH)
        text = pc.utf8_trim_whitespace(start)
        is_nothing = pc.is_in(pc.utf8_lower(text), pa.array(self.nothing))
        return self._convert(pc.if_else(is_nothing, pa.scalar(None, pa.string()), text))

    @classmethod
    def find(cls, text: Any, nothing: tuple[str, ...]) -> Reader | None:  # noqa: ARG003
        """The reader of this kind for a text, if it can be read so."""
        return cls(nothing)

    def _convert(self, text: Any) -> Any:
        """What a text column stands for; the text where it does not fit."""
        return text

    def _known_numbers(self, cells: Any) -> Any:
        """Numbers, with nulls for those that stand for nothing or are not finite."""
        # Users name such numbers after the words that always stand for nothing.
        named = self.nothing[len(NOTHING) :]
        numbers = [float(cell) for cell in named if re.fullmatch(r"[+-]?\d+\.?\d*", cell)]
        if numbers:
            values = cells.cast(pa.float64(), safe=False)
            is_nothing = pc.is_in(values, pa.array(numbers, pa.float64()))
            cells = pc.if_else(is_nothing, pa.scalar(None, cells.type), cells)
        if types.is_floating(cells.type):
            is_finite = pc.is_finite(cells)
            if not pc.all(is_finite).as_py():
                cells = pc.if_else(is_finite, cells, pa.scalar(None, cells.type))
        return cells


@dataclass(frozen=True)
class NumberText(Reader):
    """Numbers with separators, signs of currencies and one unit."""

    decimal: str = "."

    def _convert(self, text: Any) -> Any:
        parts = pc.extract_regex(text, NUMBER)
        separator = "." if self.decimal == "," else ","
        digits = pc.struct_field(parts, "digits")
        # Separators must stand before groups of three digits.
        grouped = (
            rf"^(\d{{1,3}}([{separator}' \x{{a0}}]\d{{3}})+|\d*)({re.escape(self.decimal)}\d*)?$"
        )
        is_number = pc.fill_null(pc.match_substring_regex(digits, grouped), False)
        digits = pc.replace_substring_regex(digits, rf"[{separator}' \x{{a0}}]", "")
        digits = pc.replace_substring(digits, self.decimal, ".")

        # A sign stands before the currency or after it, but not twice.
        signs = [
            pc.replace_substring(pc.struct_field(parts, name), "+", "")
            for name in ("sign", "minus")
        ]
        plain = pc.binary_join_element_wise(*signs, digits, pc.struct_field(parts, "exponent"), "")
        has_two_signs = pc.starts_with(pc.fill_null(plain, "--"), "--")
        is_number = pc.and_(is_number, pc.invert(has_two_signs))
        numbers = pc.if_else(is_number, plain, pa.scalar(None, pa.string())).cast(pa.float64())
        return _mostly(self._known_numbers(numbers), text)

    @classmethod
    def find(cls, text: Any, nothing: tuple[str, ...]) -> Reader | None:
        parts = pc.extract_regex(text, NUMBER)
        before = pc.unique(pc.struct_field(parts, "before")).to_pylist()
        after = pc.unique(pc.struct_field(parts, "after")).to_pylist()
        units = {unit.strip() for unit in (*before, *after) if unit}
        if len({unit.lower() for unit in units}) > 1:
            return None
        # Decimals show where fewer or more than three digits follow.
        digits = pc.struct_field(parts, "digits")
        has_commas = _any(digits, r"^[\d.' ]*,(\d{1,2}|\d{4,})$")
        has_points = _any(digits, r"^[\d,' ]*[.](\d{1,2}|\d{4,})$")
        decimal = "," if has_commas and not has_points else "."
        words = f"with {units.pop()}" if units else ""
        reader = cls(nothing, words, decimal)
        return reader if kind_of(reader(text)) == "number" else None


@dataclass(frozen=True)
class DateText(Reader):
    """Dates, perhaps with times, in one order of day, month and year."""

    form: str = "%Y-%m-%d"

    def _convert(self, text: Any) -> Any:
        dates = pc.strptime(_dashed(text), format=self.form, unit="s", error_is_null=True)
        return _mostly(dates, text)

    @classmethod
    def find(cls, text: Any, nothing: tuple[str, ...]) -> Reader | None:
        dashed = pc.drop_null(pc.unique(_dashed(text)))
        has_full_years = _any(dashed, r"(^|-)\d{4}(-|$)")
        # The first of several equally good ones is kept: day before month.
        best = cls(nothing)
        max_read = -1
        for order, time in product(ORDERS, TIMES):
            if ("Y" in order) != has_full_years:
                continue
            dates = pc.strptime(dashed, format=order + time, unit="s", error_is_null=True)
            n_read = len(dates) - dates.null_count
            if n_read > max_read:
                max_read = n_read
                best = cls(nothing, ORDERS[order], order + time)
        return best if kind_of(best(text)) == "date" else None


@dataclass(frozen=True)
class ListText(Reader):
    """Lists of numbers as text: [0.1, 0.2] or [0.1 0.2]."""

    def _convert(self, text: Any) -> Any:
        try:
            cells = [cell and _list_of_numbers(cell) for cell in text.to_pylist()]
        except ValueError:
            return text
        return pa.chunked_array([pa.array(cells, pa.list_(pa.float64()))])


def _list_of_numbers(text: str) -> list[float]:
    """The numbers in the text of a list.

    >>> _list_of_numbers("[0.1, 2]")
    [0.1, 2.0]
    """
    return [float(number) for number in text.strip("[]").replace(",", " ").split()]


def find_reader(cells: Any, na_values: Iterable[str] = ()) -> Reader:
    """How the cells of a training column are to be read."""
    nothing = (*NOTHING, *(value.strip().lower() for value in na_values))
    plain = Reader(nothing)
    kind = kind_of(cells)
    # Other data of this column may have a "?", and then be text.
    if kind == "number":
        return NumberText(nothing)
    if kind != "text":
        return plain
    text = plain(cells).drop_null()
    sample = text.slice(0, SAMPLE)
    looks: dict[type[Reader], Any] = {
        NumberText: pc.match_substring_regex(sample, NUMBER),
        DateText: pc.match_substring_regex(_dashed(sample), DATE),
        ListText: pc.match_substring_regex(sample, r"^\[\s*[-\d.].*\]$"),
    }
    if not len(text):
        return plain
    for reader_class, looks_so in looks.items():
        if pc.mean(looks_so).as_py() < MIN_READ_SHARE / 2:
            continue
        reader = reader_class.find(text, nothing)
        if reader is not None:
            return reader
    return plain


def missing_cells(cells: Any) -> BoolVector:
    """Which cells hold nothing: null, a number that is not finite, or text without a character."""
    if kind_of(cells) == "text":
        empty = pc.equal(pc.fill_null(cells.cast(pa.string()), ""), "")
    elif types.is_floating(cells.type):
        empty = pc.invert(pc.fill_null(pc.is_finite(cells), False))
    else:
        empty = cells.is_null()
    return np.asarray(empty.to_numpy(), dtype=bool)


def _mostly(read: Any, text: Any) -> Any:
    """The cells as they were read, or the text if too many of them could not be read."""
    n_known = len(text) - text.null_count
    return read if len(read) - read.null_count >= MIN_READ_SHARE * n_known else text


def _any(text: Any, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(text, pattern)).as_py())


def _dashed(text: Any) -> Any:
    """Dates with dashes between their parts; fractions of seconds and zones are left out."""
    plain = pc.replace_substring_regex(text, r"(:\d\d)([.]\d+)?\s?(Z|[+-]\d\d:?\d\d)?$", r"\1")
    without_t = pc.replace_substring_regex(plain, r"(\d)T(\d)", r"\1-\2")
    return pc.replace_substring_regex(without_t, r"[\s./,-]+", "-")
