"""Rows of a matrix in an uncompressed file, read when they are needed, and the temporary files that hold such rows."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

PIECE = 2**20  # bytes read at a time in passes over a file
GAP = 2**15  # bytes between two wanted rows that cost less to read than a second call


class FileRows:
    """A matrix stored row after row in a file, which is read by position.

    Nothing is mapped into memory: each read fills a new array, and any number of threads may read at once. Slices
    without a step and arrays of row numbers give arrays, as with numpy.
    """

    ndim = 2

    def __init__(self, file: Any, dtype: Any, shape: tuple[int, int], offset: int = 0, path: str | None = None) -> None:
        self._file, self.dtype, self.shape, self.offset, self.path = file, np.dtype(dtype), shape, offset, path
        self._row_bytes = self.dtype.itemsize * shape[1]
        self.nbytes = self._row_bytes * shape[0]
        self._lock = threading.Lock()
        weakref.finalize(self, file.close)

    @classmethod
    def open(cls, path: str | os.PathLike[str], dtype: Any, shape: tuple[int, int], offset: int = 0) -> FileRows:
        """The rows of a file that has a name, so that other processes can open it too."""
        whole = os.path.abspath(path)
        file = open(whole, "rb", buffering=0)  # noqa: SIM115 - closed with the rows
        rows = cls(file, dtype, shape, offset, whole)
        there, needed = os.path.getsize(whole), offset + rows.nbytes
        if there < needed:
            raise ValueError(f"{whole} is cut short: {there:,} bytes of {needed:,}. Write it again.")
        return rows

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            return self._block(start, max(start, stop))
        return self._some(np.asarray(rows))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:  # noqa: ARG002 - always one
        return self[:].astype(dtype or self.dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:  # a file without a name cannot be opened elsewhere: the rows themselves are sent
            return np.array, (self[:],)
        return FileRows.open, (self.path, self.dtype.str, self.shape, self.offset)

    @cached_property
    def _extremes(self) -> tuple[Any, Any]:
        ends = [(rows.min(), rows.max()) for _, rows in row_chunks(self)]
        return np.min([low for low, _ in ends]).item(), np.max([high for _, high in ends]).item()

    def min(self) -> Any:
        """The smallest number, NaN if there is one; takes one pass over the file, once."""
        return self._extremes[0]

    def max(self) -> Any:
        return self._extremes[1]

    def _block(self, start: int, stop: int) -> npt.NDArray[Any]:
        out = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        view, position = memoryview(out.reshape(-1).view(np.uint8).data), self.offset + start * self._row_bytes
        while view:
            count = self._read(view, position)
            if not count:
                raise OSError(f"{self.path or 'a temporary file'} became shorter while it was read.")
            view, position = view[count:], position + count
        return out

    def _read(self, view: memoryview, position: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [view], position)
        with self._lock:  # where there are no positional reads
            self._file.seek(position)
            return int(self._file.readinto(view))

    def _some(self, wanted: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Rows in any order, read in the order of the file: those close together in one call, if it is not too long."""
        out = np.empty((len(wanted), self.shape[1]), dtype=self.dtype)
        if not wanted.size:
            return out
        if wanted.dtype == bool or wanted.min() < 0 or wanted.max() >= len(self):
            raise IndexError(f"rows {wanted.min()} to {wanted.max()} of {len(self)}")
        order = np.argsort(wanted, kind="stable")
        ordered, most = wanted[order], max(1, PIECE // max(1, self._row_bytes))
        cut = (np.diff(ordered) * self._row_bytes > GAP) | (np.diff(ordered // most) > 0)
        for slots in np.split(order, np.flatnonzero(cut) + 1):
            first, last = int(wanted[slots[0]]), int(wanted[slots[-1]])
            out[slots] = self._block(first, last + 1)[wanted[slots] - first]
        return out


def row_chunks(data: Any, entries: int = 2**22) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Consecutive rows of any matrix, at most so many entries at a time, each chunk with the number of its first row.

    Chunks of files are small, because each is a new array.
    """
    entries = min(entries, PIECE // 8) if isinstance(data, FileRows) else entries
    step = max(1, entries // max(1, data.shape[1]))
    for start in range(0, data.shape[0], step):
        yield start, np.asarray(data[start : start + step])


def spill(blocks: Iterable[npt.NDArray[Any]], dtype: Any, n_rows: int | None = None) -> FileRows:
    """Blocks of rows written to one temporary file, in the system's folder for these (the variable TMPDIR).

    The file has no name where the system allows that, so nothing stays behind however the process ends.
    """
    file, dtype = tempfile.TemporaryFile(), np.dtype(dtype)  # noqa: SIM115 - closed with the rows
    count = width = 0
    try:
        for block in blocks:
            if not count:
                width = block.shape[1]
                check_disk((n_rows or 0) * width * dtype.itemsize)
            file.write(np.ascontiguousarray(block, dtype=dtype).data)
            count += len(block)
        file.flush()
    except BaseException:
        file.close()
        raise
    return FileRows(file, dtype, (count, width))


def spill_columns(columns: FileRows) -> FileRows:
    """The same matrix by rows, from a file that holds it column by column."""
    width, n_rows = columns.shape
    step = max(1, 4 * PIECE // (width * columns.dtype.itemsize))
    flat = FileRows(columns._file, columns.dtype, (width * n_rows, 1), columns.offset)
    blocks = (
        np.concatenate(
            [flat[j * n_rows + start : j * n_rows + min(start + step, n_rows)] for j in range(width)], axis=1
        )
        for start in range(0, n_rows, step)
    )
    return spill(blocks, columns.dtype, n_rows)


def check_disk(needed: int) -> None:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(
            f"These data need {needed:,} bytes in a temporary file, but {folder} has {free:,} free. "
            "Set TMPDIR to a folder on a larger disk, or give the data as a .npy file, which is read where it is."
        )
