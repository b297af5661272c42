"""Tables as rows of one matrix: frames, Parquet, Feather and other Arrow data.

Another column may hold the labels. Data on disk are read in small batches and written to a
temporary file, from which rows can be read as often as needed.
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

# Columns of a Parquet file read at a time: each needs a dictionary and a page of its own.
COLUMNS_AT_ONCE = 16
# Rows read at a time while the length of vectors is not known.
VECTOR_ROWS = 128
# Bytes of a column chunk read at a time.
BUFFER_BYTES = 2**20

# None where one column of vectors makes the matrix.
Names: TypeAlias = tuple[str, ...] | None


def read_arrow(source: Any, label: str | None, argument: str) -> tuple[FileRows, Names, Any]:
    """Rows of a dataset, scanner or reader, the names of their columns, and the labels."""
    schema = source.projected_schema if isinstance(source, ds.Scanner) else source.schema
    layout = _find_layout(schema, label, argument)
    columns = layout.columns
    files = _parquet_files(source)
    width = COLUMNS_AT_ONCE if files else len(columns)

    # Labels are read once, with the first group of columns.
    labels: list[Any] = []
    parts = []
    for start in range(0, len(columns), width):
        group_label = None if start else label
        group = replace(layout, columns=columns[start : start + width], label=group_label)
        parts.append(spill(_blocks(files or source, group, labels), layout.dtype))
    rows = parts[0] if len(parts) == 1 else spill_beside(parts)
    if label is None:
        return rows, layout.names, None
    return rows, layout.names, pa.chunked_array(labels, type=schema.field(label).type)


def read_table(table: pa.Table, argument: str) -> tuple[npt.NDArray[Any], Names]:
    """The rows of a table in memory, and the names of their columns."""
    table = flat_vectors(table)
    layout = _find_layout(table.schema, None, argument)
    return layout.matrix(table), layout.names


def flat_vectors(table: pa.Table) -> pa.Table:
    """Columns of matrices and tensors as columns of vectors.

    Such columns are lists of lists, and extension types such as Array2D.
    """
    for number, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        flat = _flat_vector(column)
        if flat is not column:
            table = table.set_column(number, name, flat)
    return table


def _flat_vector(column: Any) -> Any:
    """The column with vectors in place of lists of lists; the column itself if it has none."""
    flat = column
    if isinstance(flat.type, pa.BaseExtensionType):
        chunks = [chunk.storage for chunk in flat.chunks]
        flat = pa.chunked_array(chunks, flat.type.storage_type)
    while _is_vector(flat.type) and _is_vector(flat.type.value_type):
        lists = flat.combine_chunks()
        outer = lists.cast(pa.large_list(pa.large_list(lists.type.value_type.value_type)))
        ends = outer.values.offsets.take(outer.offsets)
        vectors = pa.LargeListArray.from_arrays(ends, outer.values.values, mask=lists.is_null())
        flat = pa.chunked_array([vectors])
    return flat


def _blocks(source: Any, layout: _Layout, labels: list[Any]) -> Iterator[npt.NDArray[Any]]:
    """The matrix of each batch; the labels beside them are added to `labels`."""
    if layout.names is None:
        size = VECTOR_ROWS
    else:
        size = max(1, PIECE // (len(layout.columns) * layout.dtype.itemsize))
    columns = list(layout.columns)
    if layout.label is not None:
        columns.append(layout.label)

    n_rows = 0
    width = 0
    for batch in _batches(source, columns, size):
        if layout.label is not None:
            # A copy: a slice would keep its whole batch in memory.
            batch_rows = pa.array(np.arange(len(batch)))
            labels.append(batch.column(layout.label).take(batch_rows))
        matrix = layout.matrix(batch, n_rows, width)
        yield matrix
        n_rows += len(matrix)
        width = matrix.shape[1]


def _batches(source: Any, columns: list[str], size: int) -> Iterator[Any]:
    """Batches of up to `size` rows with at least these columns, in the order of the data."""
    if isinstance(source, list):
        batches = _batches_of_files(source, columns, size)
    elif isinstance(source, ds.Dataset):
        batches = source.to_batches(
            columns=columns, batch_size=size, batch_readahead=0, fragment_readahead=1
        )
    else:
        batches = source.to_batches() if isinstance(source, ds.Scanner) else source
    try:
        for batch in batches:
            # Damaged offsets would crash the process later.
            batch.validate(full=True)
            for start in range(0, batch.num_rows, size):
                yield batch.slice(start, size)
    finally:
        pa.default_memory_pool().release_unused()


def _batches_of_files(files: list[Any], columns: list[str], size: int) -> Iterator[Any]:
    """Batches of Parquet files, one file after the other."""
    for file in files:
        opened = pq.ParquetFile(
            file.open(), metadata=file.metadata, pre_buffer=False, buffer_size=BUFFER_BYTES
        )
        yield from opened.iter_batches(size, columns=columns, use_threads=False)


def _parquet_files(source: Any) -> list[Any]:
    """All files of a dataset, if it is nothing but whole Parquet files; else none.

    Each of the files must have all columns.
    """
    # Their columns can be read separately and page by page; a scanner decodes whole row groups,
    # often a million rows.
    if not isinstance(source, ds.FileSystemDataset) or getattr(source, "_scan_options", None):
        return []
    if source.format.default_extname != "parquet":
        return []
    files = list(source.get_fragments())
    for file in files:
        is_whole = file.row_groups is None or len(file.row_groups) == file.metadata.num_row_groups
        if not is_whole or not file.physical_schema.equals(source.schema):
            return []
    return files


@dataclass(frozen=True)
class _Layout:
    """The columns that make a row of the matrix.

    Attributes
    ----------
    columns : tuple of str
        Many of one number each, or a single one of vectors.
    names : tuple of str or None
        Names of the columns of the matrix, None for vectors.
    dtype : dtype
        Of the matrix.
    label : str or None
        The column of labels.
    argument : str
        The argument of the user, for messages.
    """

    columns: tuple[str, ...]
    names: Names
    dtype: np.dtype[Any]
    label: str | None
    argument: str

    def matrix(self, batch: Any, first: int = 0, width: int = 0) -> npt.NDArray[Any]:
        """The rows of a batch; missing floats are NaN.

        Parameters
        ----------
        batch : RecordBatch or Table
        first : int
            The number of its first row.
        width : int
            The length of the vectors before it, if there were any.
        """
        if self.names is None:
            return self._matrix_of_vectors(batch, first, width)
        columns = []
        for name in self.columns:
            missing = f"missing values in column {name!r}"
            columns.append(self._numbers(batch.column(name), len(batch), missing, first))
        return np.hstack(columns)

    def _matrix_of_vectors(self, batch: Any, first: int, width: int) -> npt.NDArray[Any]:
        (name,) = self.columns
        column = batch.column(name)
        lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
        refuse_rows(lengths < 0, self.argument, f"no vector in column {name!r}", first)
        usual = width if first else int(np.bincount(lengths).argmax())
        unusual = np.flatnonzero(lengths != usual)
        if unusual.size:
            row = unusual[0]
            difference = (
                f"most have {usual} numbers, row {first + row} has {lengths[row]}. Make them"
                " equally long."
            )
            raise ValueError(
                f"{self.argument} has vectors of different lengths in column {name!r}: {difference}"
            )
        missing = f"missing numbers in a vector of {name!r}"
        return self._numbers(pc.list_flatten(column), len(batch), missing, first)

    def _numbers(self, column: Any, n_rows: int, missing: str, first: int) -> npt.NDArray[Any]:
        """The numbers of a column as a matrix of so many rows."""
        if column.null_count and not pa.types.is_floating(column.type):
            nulls = column.is_null().to_numpy(zero_copy_only=False).reshape(n_rows, -1)
            refuse_rows(nulls.any(axis=1), self.argument, missing, first)
        numbers = np.asarray(column.to_numpy(zero_copy_only=False), dtype=self.dtype)
        return numbers.reshape(n_rows, -1 if n_rows else 1)


def _find_layout(schema: Any, label: str | None, argument: str) -> _Layout:
    """The only column of vectors if there is one; else every column, which must be numbers."""
    kinds = {column.name: column.type for column in schema}
    if len(kinds) < len(schema):
        raise ValueError(f"{argument} has two columns of one name. Rename one.")
    if label is not None:
        check_label_column(label, kinds, argument)

    # The index of the frame that was written to the file is no feature.
    pandas_metadata = schema.pandas_metadata or {}
    index = pandas_metadata.get("index_columns", ())
    kinds = {name: kind for name, kind in kinds.items() if name != label and name not in index}
    if not kinds:
        raise ValueError(
            f"{argument} has no column to compare rows by. Give at least one column of numbers."
        )
    vectors = {name: kind for name, kind in kinds.items() if _is_vector(kind)}
    if len(vectors) > 1:
        named = ", ".join(map(repr, vectors))
        raise ValueError(f"{argument} has several columns of vectors: {named}. Give one of them.")
    columns = vectors or kinds
    dtype = np.result_type(*(_dtype(kind, name, argument) for name, kind in columns.items()))
    return _Layout(
        columns=tuple(columns),
        names=None if vectors else tuple(columns),
        dtype=dtype,
        label=label,
        argument=argument,
    )


def _is_vector(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _dtype(kind: Any, name: str, argument: str) -> np.dtype[Any]:
    """The type of numbers or of vectors of them, as narrow as they are in the file.

    Categories are no numbers.
    """
    kind = kind.value_type if _is_vector(kind) else kind
    if pa.types.is_decimal(kind):
        kind = pa.float64()
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        problem = f"{argument} has a column that is not numeric: {name!r} ({kind})"
        needed = (
            "Distances need numbers: encode it (`nearworth.TablePreparer` does), or leave it out"
        )
        raise ValueError(
            f"{problem}. {needed}. audit_labels(frame, 'label') prepares a whole frame."
        )
    dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return dtype
