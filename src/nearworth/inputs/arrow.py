"""Parquet, Feather and Arrow data as rows of one matrix, and perhaps one more column as labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearworth.inputs.batches import Batches
from nearworth.inputs.columns import Layout, layout_of
from nearworth.inputs.filerows import PIECE, FileRows
from nearworth.inputs.npy import transposed
from nearworth.inputs.spilling import check_room, nameless, spill, write

TOGETHER = 16  # columns of a Parquet file read at a time: each needs a dictionary and a page of its own
VECTOR_ROWS = 256  # rows read at a time where nobody knows how long they are


@dataclass(frozen=True)
class Table:
    """Rows of numbers, the names of their columns (None for one column of vectors), and the labels beside them."""

    rows: FileRows
    names: tuple[str, ...] | None
    labels: Any = None


@dataclass
class _Labels:
    """Gathers the column of labels while others are read."""

    name: str | None
    parts: list[Any] = field(default_factory=list)

    def watch(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if self.name is not None:
                column = batch.column(batch.schema.get_field_index(self.name))
                self.parts.append(column.take(pa.array(np.arange(len(column)))))  # a slice would keep all of its batch
            yield batch

    def gathered(self, schema: Any) -> Any:
        return None if self.name is None else pa.chunked_array(self.parts, type=schema.field(self.name).type)


def read_arrow(source: Any, label: str | None, argument: str) -> Table:
    """A dataset, scanner or reader as rows in a temporary file, which is written in one pass."""
    batches, labels = Batches(source, argument), _Labels(label)
    layout = layout_of(batches.schema, label, argument)
    many = layout.names is not None and len(layout.names) > TOGETHER
    rows = _by_columns(batches, layout, labels) if many and batches.plain_parquet else _by_rows(batches, layout, labels)
    return Table(rows, layout.names, labels.gathered(batches.schema))


def _by_rows(batches: Batches, layout: Layout, labels: _Labels) -> FileRows:
    wanted = [*layout.columns, *([] if labels.name is None else [labels.name])]
    size = VECTOR_ROWS if layout.names is None else max(1, PIECE // (len(wanted) * layout.dtype.itemsize))

    def matrices() -> Iterator[npt.NDArray[Any]]:
        first = width = 0
        for batch in labels.watch(batches.read(wanted, size)):
            matrix = layout.matrix(batch, first)
            if first and matrix.shape[1] != width:
                raise ValueError(
                    f"{layout.argument} has vectors of unlike length in column {layout.columns[0]!r}: {width} numbers "
                    f"at row 0, {matrix.shape[1]} at row {first}. Make them alike."
                )
            yield matrix
            first, width = first + len(matrix), matrix.shape[1]

    return spill(matrices(), layout.dtype, batches.n_rows)


def _by_columns(batches: Batches, layout: Layout, labels: _Labels) -> FileRows:
    """Some columns after the other into a file, and from there row by row into another."""
    assert batches.n_rows is not None
    shape, item = (len(layout.columns), batches.n_rows), layout.dtype.itemsize
    check_room(2 * shape[0] * shape[1] * item)
    with nameless() as file:
        if labels.name is not None:
            for _ in labels.watch(batches.read([labels.name], PIECE)):
                pass
        for start in range(0, shape[0], TOGETHER):
            columns, first = layout.columns[start : start + TOGETHER], 0
            for batch in batches.read(list(columns), PIECE // (TOGETHER * item)):
                for j, name in enumerate(columns, start=start):
                    file.seek((j * shape[1] + first) * item)
                    column = batch.column(batch.schema.get_field_index(name))
                    write(file, np.ascontiguousarray(layout.numbers(column, name, first)))
                first += batch.num_rows
        return spill(transposed(FileRows(file, layout.dtype, shape)), layout.dtype, shape[1])
