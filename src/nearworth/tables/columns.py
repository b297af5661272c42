"""What each kind of column becomes: numbers, 0/1 columns, an embedding, or nothing.

Each kind is a subclass of Column: `learn` makes it from a training column, or refuses it with advice, and `encode`
writes any column as numbers. For a further kind, write a subclass and a line in `learn_column`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from nearworth._common.types import BoolVector, FloatMatrix, FloatVector
from nearworth.tables import InputError, counted, listed

MILLISECONDS_PER_DAY = 86_400_000.0
LONG_TEXT = 40  # characters on average: a sentence, not a name
MOSTLY = 0.5  # share of cells
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
KINDS = {
    "truth": (types.is_boolean,),
    "number": (types.is_integer, types.is_floating, types.is_decimal),
    "date": (types.is_date, types.is_timestamp),
    "text": (types.is_string, types.is_large_string, types.is_string_view),
    "list": (types.is_list, types.is_large_list, types.is_fixed_size_list),
    "nothing": (types.is_null,),
}
NUMERIC = {"number": "number", "date": "date, as days", "truth": "true/false, as 1/0"}


def kind_of(cells: Any) -> str:
    """What an Arrow column holds: one of KINDS or the name of its type."""
    found = cells.type.value_type if types.is_dictionary(cells.type) else cells.type
    return next((kind for kind, tests in KINDS.items() if any(test(found) for test in tests)), str(found))


@dataclass(frozen=True)
class Column:
    """What one column of a table becomes: in words, and the names of its columns in the matrix.

    The class itself stands for a column that is left out.
    """

    name: str
    words: str
    names: tuple[str, ...] = ()

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        """Write an Arrow column into `out` (rows, names)."""

    def unseen(self, cells: Any) -> list[str]:  # noqa: ARG002
        """Categories that training did not have."""
        return []


def learn_column(name: str, cells: Any, missing: str, max_categories: int, as_they_are: bool) -> Column:
    """What a training column becomes, by the parameters of TablePreparer; or a refusal with advice."""
    kind = kind_of(cells)
    if kind in NUMERIC:
        return Numbers.learn(name, cells, kind, missing, as_they_are)
    if kind == "list":
        return Embedding.learn(name, cells)
    if kind == "nothing":
        return _left_out(name)
    if kind != "text":
        raise InputError(f"column {name!r}: holds {kind}, which has no distance. Leave it out with --ignore {name!r}.")
    if as_they_are:
        raise InputError(f"column {name!r}: is text, but --features take numbers as they are.")
    return Categories.learn(name, _text(cells), max_categories)


def _left_out(name: str, why: str = "every cell is empty") -> Column:
    return Column(name, f"left out: {why}")


@dataclass(frozen=True)
class Numbers(Column):
    """Numbers, dates (as days) and truth values (0 and 1), standardised unless they are parts of an embedding."""

    kind: str = "number"
    centre: float = 0.0
    scale: float = 1.0
    median: float | None = None  # takes the place of missing values

    @classmethod
    def learn(cls, name: str, cells: Any, kind: str, missing: str, as_they_are: bool) -> Column:
        values = _floats(name, cells, kind)
        known = values[~np.isnan(values)]
        if not known.size:
            return _left_out(name)
        size = float(np.abs(known).max()) or 1.0  # the squares of large numbers would overflow
        centre, scale = float((known / size).mean() * size), float((known / size).std() * size)
        if as_they_are:
            centre, scale = 0.0, 1.0
        elif scale == 0 and known.size == values.size:
            return _left_out(name, "the same in every row")
        scale = scale or 1.0
        words = f"{NUMERIC[kind]}, {'used as it is' if (centre, scale) == (0.0, 1.0) else 'standardised'}"
        median = float(np.median(known)) if missing == "median" else None
        if median is not None and known.size < values.size:
            words += f", missing filled with the median {median:.6g}"
        return cls(name, words, (name,), kind, centre, scale, median)

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        values = _floats(self.name, cells, self.kind)
        missing = np.isnan(values)
        if missing.any():
            if self.median is None:
                raise missing_error({self.name: missing})
            values[missing] = self.median
        out[:, 0] = (values - self.centre) / self.scale


@dataclass(frozen=True)
class Categories(Column):
    """Text from a short list: a 0/1 column for each category, all 0 for a category that training did not have."""

    labels: tuple[str, ...] = ()

    @classmethod
    def learn(cls, name: str, text: Any, max_categories: int) -> Column:
        labels = tuple(sorted(pc.unique(text).to_pylist()))
        if len(labels) == 1:
            return _left_out(name, "the same in every row") if labels[0] else _left_out(name)
        odd = _odd_cells(text)
        if len(labels) > max_categories:
            raise InputError(
                f"column {name!r}: {len(labels):,} distinct texts, more than the {max_categories} that may become 0/1 "
                f"columns. {_advice(name, text, len(labels), odd)}"
            )
        among = " (missing is one of them)" if "" in labels else ""
        doubt = f"; most are numbers, but not {odd}: repair or empty these cells" if odd else ""
        words = f"{len(labels)} categories{among}, one 0/1 column each{doubt}"
        return cls(name, words, tuple(f"{name}={label}" for label in labels), labels)

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        out[:] = 0.0
        found = pc.index_in(_text(cells), value_set=pa.array(self.labels, pa.string()))
        codes = pc.fill_null(found, -1).to_numpy()
        rows = np.flatnonzero(codes >= 0)
        out[rows, codes[rows]] = 1.0

    def unseen(self, cells: Any) -> list[str]:
        return sorted(set(pc.unique(_text(cells)).to_pylist()) - set(self.labels))


@dataclass(frozen=True)
class Embedding(Column):
    """A list of numbers in each cell, used as it is."""

    @classmethod
    def learn(cls, name: str, cells: Any) -> Column:
        lengths = pc.drop_null(pc.list_value_length(cells))
        if not pc.max(lengths).as_py():
            return _left_out(name)
        size = int(lengths[0].as_py())
        return cls(name, f"embedding of {size} numbers, used as it is", tuple(f"{name}[{i}]" for i in range(size)))

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        size, where = len(self.names), f"column {self.name!r}:"
        lengths = pc.fill_null(pc.list_value_length(cells), -1).to_numpy()
        wrong = np.flatnonzero(lengths != size)
        if wrong.size:
            got = "nothing" if lengths[wrong[0]] < 0 else f"{lengths[wrong[0]]} numbers"
            raise InputError(
                f"{where} row {wrong[0]} holds {got} where others hold {size}. "
                "Lists must be equally long; drop or repair the row."
            )
        flat = pc.list_flatten(cells)
        if kind_of(flat) != "number":
            raise InputError(f"{where} holds lists of {flat.type}; only lists of numbers can be compared.")
        out[:] = np.asarray(flat.to_numpy(), dtype=np.float64).reshape(out.shape)
        broken = np.flatnonzero(~np.isfinite(out).all(axis=1))
        if broken.size:
            raise InputError(f"{where} the list in row {broken[0]} holds a missing or infinite number.")


def _advice(name: str, text: Any, n_distinct: int, odd: str) -> str:
    if odd:
        return f"Most are numbers, but not {odd}: repair or empty these cells, or use --ignore {name!r}."
    if pc.mean(pc.utf8_length(text)).as_py() > LONG_TEXT:
        return f"It looks like free text: embed it first and keep the list of numbers, or use --ignore {name!r}."
    if n_distinct > 0.9 * len(text):
        return f"It looks like a name for each row: use --id {name!r} or --ignore {name!r}."
    return f"Use --ignore {name!r}, group rare ones, or raise --max-categories."


def _odd_cells(text: Any) -> str:
    """The cells that keep a column from being numbers, if they are few; empty ones do not."""
    numbers, empty = pc.match_substring_regex(text, NUMBER), pc.equal(text, "")
    rows = np.flatnonzero(~pc.or_(numbers, empty).to_numpy())
    if not len(rows) or pc.mean(numbers).as_py() <= MOSTLY:
        return ""
    odd = listed(dict.fromkeys(text.take(rows[:100]).to_pylist()))
    return f"{odd} ({counted('row', rows.tolist())})"


def missing_cells(cells: Any) -> BoolVector:
    """Which cells are empty: null, NaN, or text without a character."""
    empty = pc.is_null(cells, nan_is_null=True)
    if kind_of(cells) == "text":
        empty = pc.or_(empty, pc.equal(_text(cells), ""))
    return np.asarray(empty.to_numpy(), dtype=bool)


def missing_error(masks: dict[str, BoolVector]) -> InputError:
    """The refusal of missing values: how many, in which columns and rows."""
    rows = np.flatnonzero(np.logical_or.reduce(list(masks.values()))).tolist()
    count = sum(int(mask.sum()) for mask in masks.values())
    return InputError(
        f"{count:,} missing value{'s' * (count != 1)} in {counted('column', masks)} at {counted('row', rows)} "
        f"(0-based). Drop or fill {'this row' if len(rows) == 1 else 'these rows'}, "
        f"--ignore the column{'s' * (len(masks) != 1)}, or use --missing median."
    )


def _text(cells: Any) -> Any:
    """Text cells, empty ones as "": a category of its own where missing values are allowed."""
    return pc.fill_null(cells.cast(pa.string()), "")


def _floats(name: str, cells: Any, kind: str) -> FloatVector:
    """Numbers, NaN where a cell is empty; always a copy. Infinite ones are refused."""
    if types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if kind == "date":
        moments = cells.cast(pa.timestamp("ms", tz=getattr(cells.type, "tz", None)), safe=False).cast(pa.int64())
        cells = pc.divide(pc.cast(moments, pa.float64()), MILLISECONDS_PER_DAY)
    try:
        values = np.array(cells.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    except pa.ArrowInvalid as error:
        raise InputError(f"column {name!r}: {error}") from error
    infinite = np.flatnonzero(np.isinf(values)).tolist()
    if infinite:
        raise InputError(f"column {name!r}: infinite at row {listed(infinite)} (0-based). Repair or drop these rows.")
    return values
