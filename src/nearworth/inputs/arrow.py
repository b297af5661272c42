"""Parquet, Feather and other Arrow data as rows of one matrix, with another column as labels if it is asked for.

The data are read in small batches and written to a temporary file, from which rows can be read as often as needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from nearworth.inputs.file_rows import PIECE, FileRows, check_disk, spill, spill_columns, temporary_file, write

TOGETHER = 16  # columns of a Parquet file read at a time: each needs a dictionary and a page of its own
VECTOR_ROWS = 256  # rows read at a time while the length of vectors is not known
BUFFER = 2**20  # bytes of a column chunk read at a time

Names: TypeAlias = tuple[str, ...] | None  # None where one column of vectors makes the matrix


def read_arrow(source: Any, label: str | None, argument: str) -> tuple[FileRows, Names, Any]:
    """Rows of a dataset, scanner or reader, the names of their columns, and the labels."""
    batches, labels = _Batches(source, argument), list[Any]()
    layout = _find_layout(batches.schema, label, argument)
    wide = layout.names is not None and len(layout.names) > TOGETHER
    make = _by_columns if wide and batches.parquet_files else _by_rows
    rows = make(batches, layout, label, labels)
    kind = None if label is None else batches.schema.field(label).type
    return rows, layout.names, None if label is None else pa.chunked_array(labels, type=kind)


def _by_rows(batches: _Batches, layout: _Layout, label: str | None, labels: list[Any]) -> FileRows:
    wanted = [*layout.columns, *([] if label is None else [label])]
    size = VECTOR_ROWS if layout.names is None else max(1, PIECE // (len(wanted) * layout.dtype.itemsize))

    def matrices() -> Iterator[npt.NDArray[Any]]:
        first = width = 0
        for batch in batches.read(wanted, size):
            if label is not None:
                labels.append(_copy(batch.column(label)))
            matrix = layout.matrix(batch, first, width)
            yield matrix
            first, width = first + len(matrix), matrix.shape[1]

    return spill(matrices(), layout.dtype, batches.n_rows)


def _by_columns(batches: _Batches, layout: _Layout, label: str | None, labels: list[Any]) -> FileRows:
    """Write a few columns after the other to one file, and from there the rows to another."""
    assert batches.n_rows is not None
    (width, n_rows), item = (len(layout.columns), batches.n_rows), layout.dtype.itemsize
    check_disk(2 * width * n_rows * item)
    with temporary_file() as file:
        if label is not None:
            labels.extend(_copy(batch.column(label)) for batch in batches.read([label], PIECE))
        for start in range(0, width, TOGETHER):
            columns, first = layout.columns[start : start + TOGETHER], 0
            for batch in batches.read(list(columns), PIECE // (TOGETHER * item)):
                for j, name in enumerate(columns, start=start):
                    file.seek((j * n_rows + first) * item)
                    write(file, np.ascontiguousarray(layout.numbers(batch.column(name), name, first)))
                first += batch.num_rows
        return spill_columns(FileRows(file, layout.dtype, (width, n_rows)))


def _copy(column: Any) -> Any:
    return column.take(pa.array(np.arange(len(column))))  # a slice would keep its whole batch in memory


class _Batches:
    """Record batches of a dataset, a scanner or a reader; a reader can be read only once."""

    def __init__(self, source: Any, argument: str) -> None:
        self._source, self._argument = source, argument
        self.schema = source.projected_schema if isinstance(source, ds.Scanner) else source.schema
        self.n_rows: int | None = None if isinstance(source, pa.RecordBatchReader) else int(source.count_rows())

    @cached_property
    def parquet_files(self) -> list[Any]:
        """The files of a dataset of whole Parquet files, whose columns can be read separately and page by page."""
        return self._whole_files("parquet")

    def read(self, columns: list[str], size: int) -> Iterator[Any]:
        """Batches of up to `size` rows with at least these columns, in the order of the data."""
        try:
            for batch in self._read(columns, size):
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError) as error:
            raise ValueError(f"{self._argument} cannot be read: {str(error).splitlines()[0]}") from error
        finally:
            pa.default_memory_pool().release_unused()

    def _read(self, columns: list[str], size: int) -> Iterator[Any]:
        if isinstance(self._source, pa.RecordBatchReader):
            yield from self._source
        elif isinstance(self._source, ds.Scanner):
            yield from self._source.to_batches()
        elif self.parquet_files:  # a scanner would decode whole row groups, by default a million rows
            for file in self.parquet_files:
                parquet = pq.ParquetFile(file.open(), pre_buffer=False, buffer_size=BUFFER)
                yield from parquet.iter_batches(size, columns=columns, use_threads=False)
        elif files := self._whole_files("ipc", "feather"):
            for file in files:
                fields = [file.physical_schema.get_field_index(column) for column in columns]
                options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
                opened = pa.ipc.open_file(file.open(), options=options)
                yield from (opened.get_batch(i) for i in range(opened.num_record_batches))
        else:
            yield from self._source.to_batches(
                columns=columns, batch_size=size, batch_readahead=1, fragment_readahead=1
            )

    def _whole_files(self, *kinds: str) -> list[Any]:
        """All files of a dataset, if it is nothing but whole files of one kind with all columns in each; else none."""
        source = self._source
        if not isinstance(source, ds.FileSystemDataset) or getattr(source, "_scan_options", None):
            return []
        if source.format.default_extname not in kinds:
            return []
        files = list(source.get_fragments())
        whole = all(
            getattr(file, "row_groups", None) is None or len(file.row_groups) == file.metadata.num_row_groups
            for file in files
        )
        alike = all(file.physical_schema.equals(source.schema) for file in files)
        return files if whole and alike else []


@dataclass(frozen=True)
class _Layout:
    """The columns that make a row: many of one number each (`names`), or a single one of vectors."""

    columns: tuple[str, ...]
    names: Names
    dtype: np.dtype[Any]
    argument: str

    def matrix(self, batch: Any, first: int, width: int) -> npt.NDArray[Any]:
        """The rows of a batch; `first` is the number of its first row among all, `width` that of earlier columns."""
        if self.names is None:
            return self._vectors(batch.column(self.columns[0]), first, width)
        out = np.empty((batch.num_rows, len(self.columns)), dtype=self.dtype)
        for j, name in enumerate(self.columns):
            out[:, j] = self.numbers(batch.column(name), name, first)
        return out

    def numbers(self, column: Any, name: str, first: int) -> npt.NDArray[Any]:
        """One column; missing floats become NaN, which `check_features` may refuse."""
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        if column.null_count and not pa.types.is_floating(column.type):
            row = first + _first_null(column)
            raise ValueError(
                f"{self.argument} has missing values in column {name!r} at row {row}. Drop these rows or fill them in."
            )
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=self.dtype)

    def _vectors(self, column: Any, first: int, width: int) -> npt.NDArray[Any]:
        name = self.columns[0]
        lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
        if lengths.min(initial=0) < 0:
            row = first + int(np.argmin(lengths))
            raise ValueError(f"{self.argument} has no vector in column {name!r} at row {row}. Drop such rows.")
        usual = width if first else int(np.bincount(lengths, minlength=1).argmax())
        odd = np.flatnonzero(lengths != usual)
        if odd.size:
            raise ValueError(
                f"{self.argument} has vectors of different lengths in column {name!r}: most have {usual} numbers, "
                f"row {first + odd[0]} has {lengths[odd[0]]}. Make them equally long."
            )
        flat = column.flatten()
        if flat.null_count and not pa.types.is_floating(flat.type):
            row = first + _first_null(flat) // usual
            raise ValueError(f"{self.argument} has missing numbers in a vector of column {name!r} at row {row}.")
        return self.numbers(flat, name, first).reshape(len(column), -1)


def _first_null(column: Any) -> int:
    return int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))


def _find_layout(schema: Any, label: str | None, argument: str) -> _Layout:
    """The only column of vectors if there is one; else every column, and all of them must be numbers."""
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
        return _Layout((vectors[0],), None, _dtype(fields[vectors[0]].value_type, vectors[0], argument), argument)
    if not fields:
        raise ValueError(f"{argument} has no column to compare rows by. Give at least one column of numbers.")
    types = [_dtype(kind, name, argument) for name, kind in fields.items()]
    return _Layout(tuple(fields), tuple(fields), np.result_type(*types), argument)


def index_of_pandas(schema: Any) -> list[str]:
    """Columns that were the index of a pandas frame when the file was written."""
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
