"""What the cells of a column stand for: "$1,234.50" and "45 %" numbers, "31/12/2020" a date, "yes"
a truth value.

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
ENOUGH = 0.95  # of the cells must be numbers or dates; the others are then missing
SAMPLE = 1_000  # cells that tell whether it is worth while to look at all
MOST_CELL = 10_000  # characters of a cell that count
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
    found = cells.type.value_type if types.is_dictionary(cells.type) else cells.type
    return next(
        (kind for kind, tests in KINDS.items() if any(test(found) for test in tests)), str(found)
    )


@dataclass(frozen=True)
class Reader:
    """Cells as they are, but for those that stand for nothing: these texts, and what is not
    finite.
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
        text = pc.utf8_trim_whitespace(
            pc.utf8_slice_codeunits(cells.cast(pa.string()), 0, MOST_CELL)
        )
        known = pc.if_else(
            pc.is_in(pc.utf8_lower(text), pa.array(self.nothing)),
            pa.scalar(None, pa.string()),
            text,
        )
        return self._convert(known)

    @classmethod
    def find(cls, text: Any, nothing: tuple[str, ...]) -> Reader | None:  # noqa: ARG003
        """The reader of this kind for a text, if it can be read so."""
        return cls(nothing)

    def _convert(self, text: Any) -> Any:
        return text

    def _known_numbers(self, cells: Any) -> Any:
        void = [
            float(cell)
            for cell in self.nothing[len(NOTHING) :]
            if re.fullmatch(r"[+-]?\d+\.?\d*", cell)
        ]
        if void:
            strange = pc.is_in(cells.cast(pa.float64(), safe=False), pa.array(void, pa.float64()))
            cells = pc.if_else(strange, pa.scalar(None, cells.type), cells)
        if types.is_floating(cells.type) and not pc.all(finite := pc.is_finite(cells)).as_py():
            cells = pc.if_else(finite, cells, pa.scalar(None, cells.type))
        return cells


@dataclass(frozen=True)
class NumberText(Reader):
    """Numbers with separators, signs of currencies and one unit."""

    decimal: str = "."

    def _convert(self, text: Any) -> Any:
        parts = pc.extract_regex(text, NUMBER)
        others = "." if self.decimal == "," else ","
        digits = pc.struct_field(parts, "digits")
        grouped = rf"^(\d{{1,3}}([{others}' \x{{a0}}]\d{{3}})+|\d*)({re.escape(self.decimal)}\d*)?$"
        valid = pc.fill_null(pc.match_substring_regex(digits, grouped), False)
        digits = pc.replace_substring_regex(digits, rf"[{others}' \x{{a0}}]", "")
        digits = pc.replace_substring(digits, self.decimal, ".")
        signs = [
            pc.replace_substring(pc.struct_field(parts, name), "+", "")
            for name in ("sign", "minus")
        ]
        plain = pc.binary_join_element_wise(*signs, digits, pc.struct_field(parts, "exponent"), "")
        valid = pc.and_(valid, pc.invert(pc.starts_with(pc.fill_null(plain, "--"), "--")))
        numbers = pc.if_else(valid, plain, pa.scalar(None, pa.string())).cast(pa.float64())
        return _mostly(self._known_numbers(numbers), text)

    @classmethod
    def find(cls, text: Any, nothing: tuple[str, ...]) -> Reader | None:
        parts = pc.extract_regex(text, NUMBER)
        found = [
            pc.unique(pc.struct_field(parts, name)).to_pylist() for name in ("before", "after")
        ]
        units = {unit.strip() for column in found for unit in column if unit}
        if len({unit.lower() for unit in units}) > 1:
            return None
        digits = pc.struct_field(parts, "digits")
        commas, points = (
            _any(digits, rf"^[\d{a}' ]*{b}(\d{{1,2}}|\d{{4,}})$")
            for a, b in ((".", ","), (",", "[.]"))
        )
        reader = cls(
            nothing, f"with {units.pop()}" if units else "", "," if commas and not points else "."
        )
        return reader if kind_of(reader(text)) == "number" else None


@dataclass(frozen=True)
class DateText(Reader):
    """Dates, perhaps with times, in one order of day, month and year."""

    form: str = "%Y-%m-%d"

    def _convert(self, text: Any) -> Any:
        return _mostly(
            pc.strptime(_dashed(text), format=self.form, unit="s", error_is_null=True), text
        )

    @classmethod
    def find(cls, text: Any, nothing: tuple[str, ...]) -> Reader | None:
        dashed = pc.drop_null(pc.unique(_dashed(text)))
        years = _any(dashed, r"(^|-)\d{4}(-|$)")
        fits = {}
        for order, time in product(ORDERS, TIMES):
            if ("Y" in order) == years:
                days = pc.strptime(dashed, format=order + time, unit="s", error_is_null=True)
                fits[order + time] = len(days) - days.null_count
        best = max(fits, key=lambda form: fits[form])  # the first of equals: day before month
        reader = cls(
            nothing, ORDERS[next(order for order in ORDERS if best.startswith(order))], best
        )
        return reader if kind_of(reader(text)) == "date" else None


@dataclass(frozen=True)
class ListText(Reader):
    """Lists of numbers as text: [0.1, 0.2] or [0.1 0.2]."""

    def _convert(self, text: Any) -> Any:
        try:
            parts = (
                cell and cell.strip("[]").replace(",", " ").split() for cell in text.to_pylist()
            )
            cells = [cell and [float(number) for number in cell] for cell in parts]
        except ValueError:
            return text
        return pa.chunked_array([pa.array(cells, pa.list_(pa.float64()))])


def find_reader(cells: Any, na_values: Iterable[str] = ()) -> Reader:
    """How the cells of a training column are to be read."""
    nothing = (*NOTHING, *(value.strip().lower() for value in na_values))
    kind, plain = kind_of(cells), Reader(nothing)
    if kind == "number":
        return NumberText(nothing)  # so that a "?" in other data of this column is read
    if kind != "text":
        return plain
    text = plain(cells).drop_null()
    sample = text.slice(0, SAMPLE)
    looks: dict[type[Reader], Any] = {
        NumberText: pc.match_substring_regex(sample, NUMBER),
        DateText: pc.match_substring_regex(_dashed(sample), DATE),
        ListText: pc.match_substring_regex(sample, r"^\[\s*[-\d.].*\]$"),
    }
    for kind_of_reader, fitting in looks.items():
        looks_so = len(text) and pc.mean(fitting).as_py() >= ENOUGH / 2
        if looks_so and (found := kind_of_reader.find(text, nothing)):
            return found
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
    """What was read, or the text where that is nothing for too many cells."""
    known = len(text) - text.null_count
    return read if len(read) - read.null_count >= ENOUGH * known else text


def _any(text: Any, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(text, pattern)).as_py())


def _dashed(text: Any) -> Any:
    """Dates with dashes between their parts; fractions of seconds and zones are left out."""
    plain = pc.replace_substring_regex(text, r"(:\d\d)([.]\d+)?\s?(Z|[+-]\d\d:?\d\d)?$", r"\1")
    return pc.replace_substring_regex(
        pc.replace_substring_regex(plain, r"(\d)T(\d)", r"\1-\2"), r"[\s./,-]+", "-"
    )
