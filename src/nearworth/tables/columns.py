"""What each kind of column becomes: numbers, 0/1 columns, an embedding, or nothing.

Each kind is a subclass of Column: `learn` makes it from a training column, or refuses it with advice, and `encode`
writes any column as numbers. For a further kind, write a subclass and enter it in COLUMNS.
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
PLURALS = {"number": "numbers", "truth": "true/false", "date": "dates", "list": "lists"}


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
    kind: str
    words: str
    names: tuple[str, ...] = ()

    @classmethod
    def learn(cls, name: str, kind: str, cells: Any, preparer: Any) -> Column:  # noqa: ARG003
        """What an Arrow column becomes by the parameters of a TablePreparer; or a refusal with advice."""
        return _left_out(name, kind)

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        """Write an Arrow column into `out` (rows, names)."""

    def unseen(self, cells: Any) -> list[str]:  # noqa: ARG002
        """Categories that training did not have."""
        return []

    def check_kind(self, cells: Any) -> None:
        """Refuse cells of another kind than in training, unless they can be written as that."""
        found, kind = kind_of(cells), self.kind
        usable = found == kind or "nothing" in (found, kind) or {found, kind} == {"number", "truth"}
        if not usable and not (kind == "text" and found in NUMERIC):
            here, there = (PLURALS.get(one, one) for one in (found, kind))
            raise InputError(f"column {self.name!r} holds {there} in training but {here} here.")


def learn_column(name: str, cells: Any, preparer: Any) -> Column:
    kind = kind_of(cells)
    if kind not in COLUMNS:
        raise InputError(f"column {name!r}: holds {kind}, which has no distance. Leave it out with --ignore {name!r}.")
    return COLUMNS[kind].learn(name, kind, cells, preparer)


def _left_out(name: str, kind: str, why: str = "every cell is empty") -> Column:
    return Column(name, kind, f"left out: {why}")


@dataclass(frozen=True)
class Numbers(Column):
    """Numbers, dates (as days) and truth values (0 and 1), standardised unless they are parts of an embedding."""

    centre: float = 0.0
    scale: float = 1.0
    median: float = np.nan  # takes the place of missing values, where these are allowed

    @classmethod
    def learn(cls, name: str, kind: str, cells: Any, preparer: Any) -> Column:
        values = _floats(name, cells, kind)
        known = values[~np.isnan(values)]
        if not known.size:
            return _left_out(name, kind)
        median, words = float(np.median(known)), f"{NUMERIC[kind]}, standardised"
        size = float(np.abs(known).max()) or 1.0  # the squares of large numbers would overflow
        centre, scale = float((known / size).mean() * size), float((known / size).std() * size)
        if preparer.as_they_are:
            centre, scale, words = 0.0, 1.0, f"{NUMERIC[kind]}, used as it is"
        elif scale == 0 and known.size == values.size:
            return _left_out(name, kind, "the same in every row")
        if known.size < values.size:
            words += f", missing filled with the median {median:.6g}"
        return cls(name, kind, words, (name,), centre, scale or 1.0, median)

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        values = _floats(self.name, cells, self.kind)
        values[np.isnan(values)] = self.median
        out[:, 0] = (values - self.centre) / self.scale


@dataclass(frozen=True)
class Categories(Column):
    """Text from a short list: a 0/1 column for each category, all 0 for a category that training did not have."""

    labels: tuple[str, ...] = ()

    @classmethod
    def learn(cls, name: str, kind: str, cells: Any, preparer: Any) -> Column:
        if preparer.as_they_are:
            raise InputError(f"column {name!r}: is text, but --features take numbers as they are.")
        text = _text(cells)
        labels, odd = tuple(sorted(pc.unique(text).to_pylist())), _odd_cells(text)
        if len(labels) == 1:
            return _left_out(name, kind, "the same in every row") if labels[0] else _left_out(name, kind)
        if len(labels) > preparer.max_categories:
            raise InputError(
                f"column {name!r}: {len(labels):,} distinct texts, more than the {preparer.max_categories} that may "
                f"become 0/1 columns. {_advice(name, text, len(labels), odd)}"
            )
        among = " (missing is one of them)" if "" in labels else ""
        warning = f"; most are numbers, but not {odd}: repair or empty these cells" if odd else ""
        words = f"{len(labels)} categories{among}, one 0/1 column each{warning}"
        return cls(name, kind, words, tuple(f"{name}={label}" for label in labels), labels)

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        codes = pc.fill_null(pc.index_in(_text(cells), value_set=pa.array(self.labels, pa.string())), -1)
        out[:] = codes.to_numpy()[:, None] == np.arange(len(self.labels))

    def unseen(self, cells: Any) -> list[str]:
        return sorted(set(pc.unique(_text(cells)).to_pylist()) - set(self.labels))


@dataclass(frozen=True)
class Embedding(Column):
    """A list of numbers in each cell, used as it is."""

    @classmethod
    def learn(cls, name: str, kind: str, cells: Any, preparer: Any) -> Column:  # noqa: ARG003
        lengths = pc.drop_null(pc.list_value_length(cells))
        if not pc.max(lengths).as_py():
            return _left_out(name, kind)
        size = int(lengths[0].as_py())
        words = f"embedding of {size} numbers, used as it is"
        return cls(name, kind, words, tuple(f"{name}[{i}]" for i in range(size)))

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


COLUMNS: dict[str, type[Column]] = {
    **dict.fromkeys(NUMERIC, Numbers), "text": Categories, "list": Embedding, "nothing": Column
}  # fmt: skip


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
    values = np.array(cells.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    infinite = np.flatnonzero(np.isinf(values)).tolist()
    if infinite:
        raise InputError(f"column {name!r}: infinite at row {listed(infinite)} (0-based). Repair or drop these rows.")
    return values
