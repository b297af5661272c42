"""Record batches of anything that pyarrow reads, a few at a time, again and again where it allows that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

BUFFER = 2**20  # bytes of a column chunk read at a time
KNOWN = (ds.Dataset, ds.Scanner, pa.RecordBatchReader)


class Batches:
    """A dataset, a scanner or a reader of record batches (which can be read only once)."""

    def __init__(self, source: Any, argument: str) -> None:
        self._source, self._argument = source, argument
        self.schema = source.projected_schema if isinstance(source, ds.Scanner) else source.schema
        self.n_rows: int | None = None if isinstance(source, pa.RecordBatchReader) else int(source.count_rows())

    @property
    def plain_parquet(self) -> bool:
        """Whether it is nothing but whole Parquet files, whose columns can be read apart and a page at a time."""
        return self._files("parquet") is not None

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
        files = self._files("parquet")
        if files is not None:
            # A scanner would decode whole row groups, by default a million rows.
            for file in files:
                parquet = pq.ParquetFile(file.open(), pre_buffer=False, buffer_size=BUFFER)
                yield from parquet.iter_batches(size, columns=columns, use_threads=False)
            return
        files = self._files("ipc", "feather")
        if files is not None:
            for file in files:
                fields = [file.physical_schema.get_field_index(column) for column in columns]
                options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
                opened = pa.ipc.open_file(file.open(), options=options)
                yield from (opened.get_batch(i) for i in range(opened.num_record_batches))
        elif isinstance(self._source, ds.Dataset):
            yield from self._source.to_batches(
                columns=columns, batch_size=size, batch_readahead=1, fragment_readahead=1
            )
        elif isinstance(self._source, ds.Scanner):
            yield from self._source.to_batches()
        else:
            yield from self._source

    def _files(self, *kinds: str) -> list[Any] | None:
        """The files of a dataset that is nothing but whole files of one kind, with all columns in each."""
        source = self._source
        if not isinstance(source, ds.FileSystemDataset) or getattr(source, "_scan_options", None):
            return None
        if source.format.default_extname not in kinds:
            return None
        files = list(source.get_fragments())
        whole = all(
            getattr(file, "row_groups", None) is None or len(file.row_groups) == file.metadata.num_row_groups
            for file in files
        )
        alike = all(file.physical_schema.equals(source.schema) for file in files)
        return files if whole and alike else None


def open_folder(path: str, kind: str) -> Any:
    """A file or a folder of files as a dataset."""
    return ds.dataset(path, format=kind)
