"""Which columns of a table are the numbers of a row, and how they are taken out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Layout:
    """The columns that make a row: many of one number each (`names`), or a single one of vectors."""

    columns: tuple[str, ...]
    names: tuple[str, ...] | None
    dtype: np.dtype[Any]
    argument: str

    def matrix(self, batch: Any, first: int) -> npt.NDArray[Any]:
        """The rows of a batch whose first row is number `first` of all."""
        if self.names is None:
            return self._vectors(batch.column(batch.schema.get_field_index(self.columns[0])), first)
        out = np.empty((batch.num_rows, len(self.columns)), dtype=self.dtype)
        for j, name in enumerate(self.columns):
            out[:, j] = self.numbers(batch.column(batch.schema.get_field_index(name)), name, first)
        return out

    def numbers(self, column: Any, name: str, first: int) -> npt.NDArray[Any]:
        """One column; missing numbers are NaN if they can be, for the door to judge."""
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        if column.null_count and not pa.types.is_floating(column.type):
            row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise ValueError(
                f"{self.argument} has missing values in column {name!r} at row {row}. Drop these rows or fill them in."
            )
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=self.dtype)

    def _vectors(self, column: Any, first: int) -> npt.NDArray[Any]:
        name = self.columns[0]
        lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
        if lengths.min(initial=0) < 0:
            row = first + int(np.argmin(lengths))
            raise ValueError(f"{self.argument} has no vector in column {name!r} at row {row}. Drop such rows.")
        usual = np.bincount(lengths).argmax() if lengths.size else 0
        odd = np.flatnonzero(lengths != usual)
        if odd.size:
            raise ValueError(
                f"{self.argument} has vectors of unlike length in column {name!r}: most have {usual} numbers, "
                f"row {first + odd[0]} has {lengths[odd[0]]}. Make them alike."
            )
        flat = column.flatten()
        if flat.null_count and not pa.types.is_floating(flat.type):
            row = first + int(np.argmax(flat.is_null().to_numpy(zero_copy_only=False))) // int(lengths[0])
            raise ValueError(f"{self.argument} has missing numbers in a vector of column {name!r} at row {row}.")
        return self.numbers(flat, name, first).reshape(len(column), -1)


def layout_of(schema: Any, label: str | None, argument: str) -> Layout:
    """One column of vectors if there is one, and then that alone; else every column, all of them numbers."""
    fields = {column.name: column.type for column in schema}
    if len(fields) < len(schema):
        raise ValueError(f"{argument} has two columns of one name. Rename one.")
    if label is not None and label not in fields:
        some = ", ".join(map(repr, list(fields)[:12]))
        raise ValueError(f"{argument} has no column {label!r} for the labels; it has {some}.")
    for name in [label, *index_of_pandas(schema)]:
        fields.pop(name, None)  # type: ignore[arg-type]
    vectors = [name for name, kind in fields.items() if _is_vector(kind)]
    if len(vectors) > 1:
        raise ValueError(
            f"{argument} has several columns of vectors: {', '.join(map(repr, vectors))}. "
            "Give one of them: dataset.scanner(columns=[...])."
        )
    if vectors:
        return Layout((vectors[0],), None, _dtype(fields[vectors[0]].value_type, vectors[0], argument), argument)
    if not fields:
        raise ValueError(f"{argument} has no column to compare rows by. Give at least one column of numbers.")
    types = [_dtype(kind, name, argument) for name, kind in fields.items()]
    return Layout(tuple(fields), tuple(fields), np.result_type(*types), argument)


def index_of_pandas(schema: Any) -> list[str]:
    """Columns that were the index of a frame, and would be again."""
    described = schema.pandas_metadata or {}
    return [name for name in described.get("index_columns", ()) if isinstance(name, str)]


def _is_vector(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _dtype(kind: Any, name: str, argument: str) -> np.dtype[Any]:
    """The type of a column of numbers, as narrow as it is in the file."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_decimal(kind):
        return np.dtype(np.float64)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ValueError(
            f"{argument} has a column that is not numeric: {name!r} ({kind}). Encode it, or leave it out: "
            "dataset.scanner(columns=[...])."
        )
    found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return found
