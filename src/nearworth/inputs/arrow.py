"""Tables as rows of one matrix: frames, Parquet, Feather and other Arrow data; another column may
hold the labels.

Data on disk are read in small batches and written to a temporary file, from which rows can be read
as often as needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from nearworth.inputs.features import check_label_column, refuse_rows
from nearworth.inputs.file_rows import PIECE, FileRows, spill, spill_beside

TOGETHER = (
    16  # columns of a Parquet file read at a time: each needs a dictionary and a page of its own
)
VECTOR_ROWS = 128  # rows read at a time while the length of vectors is not known
BUFFER = 2**20  # bytes of a column chunk read at a time

Names: TypeAlias = tuple[str, ...] | None  # None where one column of vectors makes the matrix


def read_arrow(source: Any, label: str | None, argument: str) -> tuple[FileRows, Names, Any]:
    """Rows of a dataset, scanner or reader, the names of their columns, and the labels."""
    schema = source.projected_schema if isinstance(source, ds.Scanner) else source.schema
    layout, labels = _find_layout(schema, label, argument), list[Any]()
    files = _parquet_files(source)
    columns, width = layout.columns, TOGETHER if files else len(layout.columns)
    starts = range(0, len(columns), width)
    groups = [
        replace(layout, columns=columns[s : s + width], label=None if s else label) for s in starts
    ]
    parts = [spill(_blocks(files or source, group, labels), layout.dtype) for group in groups]
    rows = parts[0] if len(parts) == 1 else spill_beside(parts)
    return (
        rows,
        layout.names,
        None if label is None else pa.chunked_array(labels, type=schema.field(label).type),
    )


def read_table(table: pa.Table, argument: str) -> tuple[npt.NDArray[Any], Names]:
    """The rows of a table in memory, and the names of their columns."""
    table = flat_vectors(table)
    layout = _find_layout(table.schema, None, argument)
    return layout.matrix(table), layout.names


def flat_vectors(table: pa.Table) -> pa.Table:
    """Columns of matrices and tensors (lists of lists, extension types such as Array2D) as columns
    of vectors.
    """
    for number, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        flat = column
        if isinstance(flat.type, pa.BaseExtensionType):
            flat = pa.chunked_array(
                [chunk.storage for chunk in flat.chunks], flat.type.storage_type
            )
        while _is_vector(flat.type) and _is_vector(flat.type.value_type):
            lists = flat.combine_chunks()
            outer = lists.cast(pa.large_list(pa.large_list(lists.type.value_type.value_type)))
            ends = outer.values.offsets.take(outer.offsets)
            flat = pa.chunked_array(
                [pa.LargeListArray.from_arrays(ends, outer.values.values, mask=lists.is_null())]
            )
        table = table if flat is column else table.set_column(number, name, flat)
    return table


def _blocks(source: Any, layout: _Layout, labels: list[Any]) -> Iterator[npt.NDArray[Any]]:
    """The matrix of each batch; the labels beside them are added to `labels`."""
    size = (
        VECTOR_ROWS
        if layout.names is None
        else max(1, PIECE // (len(layout.columns) * layout.dtype.itemsize))
    )
    wanted = [*layout.columns, *([] if layout.label is None else [layout.label])]
    first = width = 0
    for batch in _batches(source, wanted, size):
        if layout.label is not None:  # a copy: a slice would keep its whole batch in memory
            labels.append(batch.column(layout.label).take(pa.array(np.arange(len(batch)))))
        matrix = layout.matrix(batch, first, width)
        yield matrix
        first, width = first + len(matrix), matrix.shape[1]


def _batches(source: Any, columns: list[str], size: int) -> Iterator[Any]:
    """Batches of up to `size` rows with at least these columns, in the order of the data."""
    if isinstance(source, list):
        options = {"pre_buffer": False, "buffer_size": BUFFER}
        files = (pq.ParquetFile(file.open(), metadata=file.metadata, **options) for file in source)
        found = (
            batch
            for file in files
            for batch in file.iter_batches(size, columns=columns, use_threads=False)
        )
    elif isinstance(source, ds.Dataset):
        found = source.to_batches(
            columns=columns, batch_size=size, batch_readahead=0, fragment_readahead=1
        )
    else:
        found = source.to_batches() if isinstance(source, ds.Scanner) else source
    try:
        for batch in found:
            batch.validate(full=True)  # damaged offsets would crash the process later
            for start in range(0, batch.num_rows, size):
                yield batch.slice(start, size)
    finally:
        pa.default_memory_pool().release_unused()


def _parquet_files(source: Any) -> list[Any]:
    """All files of a dataset, if it is nothing but whole Parquet files with all columns in each;
    else none.
    """
    # Their columns can be read separately and page by page; a scanner decodes whole row groups,
    # often a million rows.
    filtered = not isinstance(source, ds.FileSystemDataset) or getattr(
        source, "_scan_options", None
    )
    if filtered or source.format.default_extname != "parquet":
        return []
    files = list(source.get_fragments())
    whole = all(
        file.row_groups is None or len(file.row_groups) == file.metadata.num_row_groups
        for file in files
    )
    return (
        files if whole and all(file.physical_schema.equals(source.schema) for file in files) else []
    )


@dataclass(frozen=True)
class _Layout:
    """The columns that make a row: many of one number each (`names`), or a single one of
    vectors.
    """

    columns: tuple[str, ...]
    names: Names
    dtype: np.dtype[Any]
    label: str | None
    argument: str

    def matrix(self, batch: Any, first: int = 0, width: int = 0) -> npt.NDArray[Any]:
        """The rows of a batch from row `first` on, of vectors as long as before (`width`); missing
        floats are NaN.
        """
        if self.names is not None:
            what = "missing values in column {!r}"
            return np.hstack(
                [
                    self._numbers(batch.column(c), len(batch), what.format(c), first)
                    for c in self.columns
                ]
            )
        (name,) = self.columns
        column = batch.column(name)
        lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
        refuse_rows(lengths < 0, self.argument, f"no vector in column {name!r}", first)
        usual = width if first else int(np.bincount(lengths).argmax())
        odd = np.flatnonzero(lengths != usual)
        if odd.size:
            unlike = (
                f"most have {usual} numbers, row {first + odd[0]} has {lengths[odd[0]]}. Make them"
                " equally long."
            )
            raise ValueError(
                f"{self.argument} has vectors of different lengths in column {name!r}: {unlike}"
            )
        return self._numbers(
            pc.list_flatten(column), len(batch), f"missing numbers in a vector of {name!r}", first
        )

    def _numbers(self, column: Any, n_rows: int, missing: str, first: int) -> npt.NDArray[Any]:
        if column.null_count and not pa.types.is_floating(column.type):
            nulls = column.is_null().to_numpy(zero_copy_only=False).reshape(n_rows, -1)
            refuse_rows(nulls.any(axis=1), self.argument, missing, first)
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=self.dtype).reshape(
            n_rows, -1 if n_rows else 1
        )


def _find_layout(schema: Any, label: str | None, argument: str) -> _Layout:
    """The only column of vectors if there is one; else every column, and all of them must be
    numbers.
    """
    kinds = {column.name: column.type for column in schema}
    if len(kinds) < len(schema):
        raise ValueError(f"{argument} has two columns of one name. Rename one.")
    if label is not None:
        check_label_column(label, kinds, argument)
    index = (schema.pandas_metadata or {}).get(
        "index_columns", ()
    )  # of the frame that was written to the file
    kinds = {name: kind for name, kind in kinds.items() if name != label and name not in index}
    vectors = {name: kind for name, kind in kinds.items() if _is_vector(kind)}
    if len(vectors) > 1:
        named = ", ".join(map(repr, vectors))
        raise ValueError(f"{argument} has several columns of vectors: {named}. Give one of them.")
    if not kinds:
        raise ValueError(
            f"{argument} has no column to compare rows by. Give at least one column of numbers."
        )
    columns = vectors or kinds
    dtype = np.result_type(*(_dtype(kind, name, argument) for name, kind in columns.items()))
    return _Layout(tuple(columns), None if vectors else tuple(columns), dtype, label, argument)


def _is_vector(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _dtype(kind: Any, name: str, argument: str) -> np.dtype[Any]:
    """The type of numbers or of vectors of them, as narrow as they are in the file. Categories are
    no numbers.
    """
    kind = kind.value_type if _is_vector(kind) else kind
    if pa.types.is_decimal(kind):
        kind = pa.float64()
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        what = f"{argument} has a column that is not numeric: {name!r} ({kind})"
        needed = (
            "Distances need numbers: encode it (`nearworth.TablePreparer` does), or leave it out"
        )
        raise ValueError(f"{what}. {needed}. audit_labels(frame, 'label') prepares a whole frame.")
    found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return found
