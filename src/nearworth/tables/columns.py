"""What one column becomes. Each kind learns from training values and turns further ones into numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearworth._typing import FloatMatrix, FloatVector
from nearworth.tables.errors import InputError, listed

LONG_TEXT = 40  # characters on average: a sentence, not a name
SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True)
class Numbers:
    """Numbers, dates (as days) and truth values (0 and 1), standardised unless they are parts of an embedding."""

    name: str
    kind: str
    centre: float
    scale: float
    fill: float | None
    width: int = 1

    def fill_matrix(self, column: Any, out: FloatMatrix) -> None:
        """Write the column into `out` (N, 1)."""
        values = _floats(column, self.name, self.kind)
        missing = np.isnan(values)
        if missing.any():
            if self.fill is None:
                raise missing_values({self.name: missing})
            values[missing] = self.fill
        _refuse_infinite(self.name, values)
        out[:, 0] = (values - self.centre) / self.scale

    def describe(self) -> str:
        """What is done, in words."""
        what = {"number": "number", "date": "date, as days", "truth": "true/false, as 1/0"}[self.kind]
        scaled = "used as it is" if self.scale == 1 and self.centre == 0 else "standardised"
        filled = "" if self.fill is None else f", missing filled with the median {self.fill:.6g}"
        return f"{what}, {scaled}{filled}"

    def names(self) -> list[str]:
        """Names of the columns made."""
        return [self.name]


@dataclass(frozen=True)
class Categories:
    """Text from a short list: a column of 0 and 1 for each."""

    name: str
    labels: tuple[str, ...]
    kind: str = "text"

    @property
    def width(self) -> int:
        """How many columns are made."""
        return len(self.labels)

    def fill_matrix(self, column: Any, out: FloatMatrix) -> None:
        """Write the column into `out` (N, width); categories never seen are zero everywhere."""
        out[:] = 0.0
        found = pc.index_in(_as_text(column), value_set=pa.array(self.labels, pa.string()))
        codes = pc.fill_null(found, -1).to_numpy()
        rows = np.flatnonzero(codes >= 0)
        out[rows, codes[rows]] = 1.0

    def unseen(self, column: Any) -> list[str]:
        """Categories that training did not have."""
        return sorted(set(pc.unique(_as_text(column)).to_pylist()) - set(self.labels))

    def describe(self) -> str:
        """What is done, in words."""
        return f"{self.width} categories, one 0/1 column each"

    def names(self) -> list[str]:
        """Names of the columns made."""
        return [f"{self.name}={label}" for label in self.labels]


@dataclass(frozen=True)
class Embedding:
    """A list of numbers in each cell, used as it is."""

    name: str
    width: int
    kind: str = "list"

    def fill_matrix(self, column: Any, out: FloatMatrix) -> None:
        """Write the lists into `out` (N, width)."""
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(lengths != self.width)
        if wrong.size:
            got = "nothing" if lengths[wrong[0]] != lengths[wrong[0]] else f"{int(lengths[wrong[0]])} numbers"
            raise InputError(
                f"column {self.name!r}: row {wrong[0]} holds {got} where others hold {self.width}. "
                "Lists must be equally long; drop or repair the row."
            )
        flat = pc.list_flatten(array)
        if not _is_number(flat.type):
            raise InputError(
                f"column {self.name!r}: holds lists of {flat.type}; only lists of numbers can be compared."
            )
        values = np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64)
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values))) // self.width
            raise InputError(f"column {self.name!r}: the list in row {row} holds a missing or infinite number.")
        out[:] = values.reshape(-1, self.width)

    def describe(self) -> str:
        """What is done, in words."""
        return f"embedding of {self.width} numbers, used as it is"

    def names(self) -> list[str]:
        """Names of the columns made."""
        return [f"{self.name}[{part}]" for part in range(self.width)]


@dataclass(frozen=True)
class Nothing:
    """A column that says nothing about distances."""

    name: str
    why: str
    width: int = 0
    kind: str = "any"

    def fill_matrix(self, column: Any, out: FloatMatrix) -> None:
        """Nothing to write."""

    def describe(self) -> str:
        """Why it is left out."""
        return f"left out: {self.why}"

    def names(self) -> list[str]:
        """No columns are made."""
        return []


Column = Numbers | Categories | Embedding | Nothing


def kind_of(column: Any) -> str:
    """What a column holds: "number", "truth", "date", "text", "list", "nothing" or the name of its Arrow type."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_boolean(kind):
        return "truth"
    if _is_number(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "date"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return "list"
    return "nothing" if pa.types.is_null(kind) else str(kind)


def learn(name: str, column: Any, missing: str, max_categories: int, as_it_is: bool) -> Column:
    """Decide what a training column becomes, or refuse it with advice."""
    kind = kind_of(column)
    if kind in ("number", "truth", "date"):
        return _learn_numbers(name, column, kind, missing, as_it_is)
    if kind == "list":
        lengths = pc.drop_null(pc.list_value_length(column))
        return Embedding(name, int(lengths[0].as_py()) if len(lengths) else 0)
    if kind == "nothing":
        return Nothing(name, "every cell is empty")
    if kind != "text":
        raise InputError(f"column {name!r}: holds {kind}, which has no distance. Leave it out with --ignore {name!r}.")
    if as_it_is:
        raise InputError(f"column {name!r}: is text, but --features take numbers as they are.")
    return _learn_categories(name, column, max_categories)


def missing_cells(column: Any) -> npt.NDArray[np.bool_]:
    """Which cells are empty: null, NaN, or text without a character."""
    empty = pc.is_null(column, nan_is_null=True)
    if kind_of(column) == "text":
        empty = pc.or_(empty, pc.fill_null(pc.equal(_as_text(column), ""), False))
    return np.asarray(empty.to_numpy(), dtype=bool)


def missing_values(masks: dict[str, Any]) -> InputError:
    """The refusal of missing values: how many, in which columns and rows."""
    rows = np.flatnonzero(np.logical_or.reduce(list(masks.values())))
    count = sum(int(mask.sum()) for mask in masks.values())
    return InputError(
        f"{count:,} missing {'value' if count == 1 else 'values'} in column {listed(masks)} "
        f"at row {listed(rows.tolist())} (0-based). "
        "Drop or fill these rows, --ignore the columns, or use --missing median."
    )


def _learn_numbers(name: str, column: Any, kind: str, missing: str, as_it_is: bool) -> Column:
    values = _floats(column, name, kind)
    empty = np.isnan(values)
    known = values[~empty] if empty.any() else values
    if not known.size:
        return Nothing(name, "every cell is empty")
    _refuse_infinite(name, values)
    fill = float(np.median(known)) if missing == "median" and empty.any() else None
    if as_it_is:
        return Numbers(name, kind, 0.0, 1.0, fill)
    centre, scale = _moments(known)
    if scale == 0 and not empty.any():
        return Nothing(name, "the same in every row")
    return Numbers(name, kind, centre, scale or 1.0, fill)


def _moments(values: FloatVector) -> tuple[float, float]:
    """Mean and standard deviation, also where squares would overflow; 0 for equal values."""
    if values.min() == values.max():
        return float(values[0]), 0.0
    size = float(np.abs(values).max())
    scaled = values / size
    return float(scaled.mean() * size), float(scaled.std() * size)


def _learn_categories(name: str, column: Any, max_categories: int) -> Column:
    text = _as_text(column)
    labels = sorted(pc.unique(text).to_pylist())
    if len(labels) == 1:
        return Nothing(name, "the same in every row" if labels[0] else "every cell is empty")
    if len(labels) > max_categories:
        raise InputError(_too_many(name, text, len(labels), max_categories))
    return Categories(name, tuple(labels))


def _too_many(name: str, text: Any, n_distinct: int, max_categories: int) -> str:
    length = pc.mean(pc.utf8_length(text)).as_py()
    found = (
        f"column {name!r}: {n_distinct:,} distinct texts, more than the {max_categories} that may become 0/1 columns."
    )
    if length > LONG_TEXT:
        return (
            f"{found} It looks like free text: embed it first and keep the list of numbers, or use --ignore {name!r}."
        )
    if n_distinct > 0.9 * len(text):
        return f"{found} It looks like a name for each row: use --id {name!r} or --ignore {name!r}."
    return f"{found} Use --ignore {name!r}, group rare ones, or raise --max-categories."


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _floats(column: Any, name: str, kind: str) -> FloatVector:
    """Numbers with NaN where a cell is empty; always a copy."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind == "date":
        moments = column.cast(pa.timestamp("ms", tz=getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
        column = pc.divide(pc.cast(moments, pa.float64()), 1000 * SECONDS_PER_DAY)
    try:
        floats = column.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid as error:
        raise InputError(f"column {name!r}: {error}") from error
    return np.array(floats.to_numpy(), dtype=np.float64)


def _as_text(column: Any) -> Any:
    """Text cells; an empty one is "", which is a category of its own when missing values are allowed."""
    return pc.fill_null(column.cast(pa.string()), "")


def _refuse_infinite(name: str, values: FloatVector) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        rows = np.flatnonzero(infinite).tolist()
        raise InputError(f"column {name!r}: infinite at row {listed(rows)} (0-based). Repair or drop these rows.")
