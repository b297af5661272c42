"""Cells of a column, whatever its Arrow type: what they hold, which are empty, as numbers, as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearworth._common.types import FloatVector
from nearworth.tables.errors import InputError, listed, plural

SECONDS_PER_DAY = 86_400.0


def kind_of(column: Any) -> str:
    """What a column holds: "number", "truth", "date", "text", "list", "nothing" or the name of its Arrow type."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_boolean(kind):
        return "truth"
    if is_number(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "date"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return "list"
    return "nothing" if pa.types.is_null(kind) else str(kind)


def missing_cells(column: Any) -> npt.NDArray[np.bool_]:
    """Which cells are empty: null, NaN, or text without a character."""
    empty = pc.is_null(column, nan_is_null=True)
    if kind_of(column) == "text":
        empty = pc.or_(empty, pc.fill_null(pc.equal(as_text(column), ""), False))
    return np.asarray(empty.to_numpy(), dtype=bool)


def missing_values(masks: dict[str, Any]) -> InputError:
    """The refusal of missing values: how many, in which columns and rows."""
    rows = np.flatnonzero(np.logical_or.reduce(list(masks.values())))
    count = sum(int(mask.sum()) for mask in masks.values())
    return InputError(
        f"{count:,} missing {'value' if count == 1 else 'values'} in {plural('column', masks)} {listed(masks)} "
        f"at {plural('row', rows)} {listed(rows.tolist())} (0-based). "
        f"Drop or fill {'this row' if len(rows) == 1 else 'these rows'}, --ignore the {plural('column', masks)}, "
        "or use --missing median."
    )


def floats(column: Any, name: str, kind: str) -> FloatVector:
    """Numbers with NaN where a cell is empty; always a copy."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind == "date":
        moments = column.cast(pa.timestamp("ms", tz=getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
        column = pc.divide(pc.cast(moments, pa.float64()), 1000 * SECONDS_PER_DAY)
    try:
        numbers = column.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid as error:
        raise InputError(f"column {name!r}: {error}") from error
    return np.array(numbers.to_numpy(), dtype=np.float64)


def as_text(column: Any) -> Any:
    """Text cells; an empty one is "", which is a category of its own when missing values are allowed."""
    return pc.fill_null(column.cast(pa.string()), "")


def is_number(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def refuse_infinite(name: str, values: FloatVector) -> None:
    """The refusal of infinite numbers, if there are any."""
    infinite = np.isinf(values)
    if infinite.any():
        rows = np.flatnonzero(infinite).tolist()
        raise InputError(f"column {name!r}: infinite at row {listed(rows)} (0-based). Repair or drop these rows.")
