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

    Nothing is mapped into memory: each read fills a new array, and any number of threads may read at once. Slices and
    lists of rows give arrays, as with numpy.
    """

    ndim = 2

    def __init__(self, file: Any, dtype: Any, shape: tuple[int, int], offset: int = 0, path: str | None = None) -> None:
        self._file, self.dtype, self.shape, self.offset, self.path = file, np.dtype(dtype), shape, offset, path
        self.size = shape[0] * shape[1]
        self.nbytes = self.size * int(self.dtype.itemsize)
        self._row_bytes = self.dtype.itemsize * shape[1]
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
            start, stop, step = rows.indices(len(self))
            return self._block(start, max(start, stop)) if step == 1 else self._some(np.arange(start, stop, step))
        wanted = np.asarray(rows)
        if wanted.dtype == bool:
            if wanted.shape != (len(self),):
                raise IndexError(f"a mask of shape {wanted.shape} for {len(self)} rows")
            wanted = np.flatnonzero(wanted)
        return self._some(wanted) if wanted.ndim else np.asarray(self._some(wanted[None])[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("rows of a file cannot become an array without being read")
        return self[:].astype(dtype or self.dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:  # a file without a name cannot be opened elsewhere: the rows themselves are sent
            return np.array, (self[:],)
        return FileRows.open, (self.path, self.dtype.str, self.shape, self.offset)

    @cached_property
    def extremes(self) -> tuple[Any, Any]:
        """The smallest and the largest number, NaN if there is one; takes one pass over the file, once."""
        ends = [(rows.min(), rows.max()) for _, rows in row_chunks(self)]
        return np.min([low for low, _ in ends]).item(), np.max([high for _, high in ends]).item()

    def min(self) -> Any:
        """The smallest number."""
        return self.extremes[0]

    def max(self) -> Any:
        """The largest number."""
        return self.extremes[1]

    def _block(self, start: int, stop: int) -> npt.NDArray[Any]:
        out = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        self._read(out.reshape(-1).view(np.uint8), self.offset + start * self._row_bytes)
        return out

    def _some(self, wanted: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Rows in any order, read in the order of the file, those close together in one call."""
        if wanted.size and not (-len(self) <= wanted.min() and wanted.max() < len(self)):
            raise IndexError(f"row {wanted.max()} or {wanted.min()} of {len(self)}")
        wanted = np.where(wanted < 0, wanted + len(self), wanted)
        order = np.argsort(wanted, kind="stable")
        out, ordered = np.empty((len(wanted), self.shape[1]), dtype=self.dtype), wanted[order]
        for a, b in self._runs(ordered):
            first = int(ordered[a])
            block = self._block(first, int(ordered[b - 1]) + 1)
            out[order[a:b]] = block[ordered[a:b] - first]
        return out

    def _runs(self, ordered: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
        """Cut a sorted list of rows where gaps are wide, and where a part would become too long to read at once."""
        far = np.diff(ordered) * self._row_bytes > GAP
        ends = [*(np.flatnonzero(far) + 1).tolist(), len(ordered)] if len(ordered) else []
        most, start = max(1, PIECE // max(1, self._row_bytes)), 0
        for end in ends:
            while start < end:
                stop = start + int(np.searchsorted(ordered[start:end], ordered[start] + most))
                yield start, stop
                start = stop

    def _read(self, out: npt.NDArray[np.uint8], position: int) -> None:
        done = 0
        while done < len(out):
            count = self._read_some(memoryview(out.data)[done:], position + done)
            if not count:
                raise OSError(f"{self.path or 'a temporary file'} became shorter while it was read.")
            done += count

    def _read_some(self, view: memoryview, position: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [view], position)
        with self._lock:  # where there are no positional reads
            self._file.seek(position)
            return int(self._file.readinto(view))


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
    kind, file = np.dtype(dtype), temporary_file()
    count = width = 0
    try:
        for block in blocks:
            if not count:
                width = block.shape[1]
                check_disk((n_rows or 0) * width * kind.itemsize)
            write(file, np.ascontiguousarray(block, dtype=kind))
            count += len(block)
    except BaseException:
        file.close()
        raise
    return FileRows(file, kind, (count, width))


def spill_columns(columns: FileRows) -> FileRows:
    """The same matrix by rows, from a file that holds it column by column."""
    width, n_rows = columns.shape
    step = max(1, 4 * PIECE // (width * columns.dtype.itemsize))
    flat = FileRows(columns._file, columns.dtype, (columns.size, 1), columns.offset, columns.path)
    starts = ((start, min(start + step, n_rows)) for start in range(0, n_rows, step))
    blocks = (
        np.concatenate([flat[j * n_rows + start : j * n_rows + stop] for j in range(width)], axis=1)
        for start, stop in starts
    )
    return spill(blocks, columns.dtype, n_rows)


def temporary_file() -> Any:
    """A file that vanishes when it is closed."""
    return tempfile.TemporaryFile(buffering=0)


def check_disk(needed: int) -> None:
    """Refuse to begin what the disk cannot hold."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(
            f"These data need {needed:,} bytes in a temporary file, but {folder} has {free:,} free. "
            "Set TMPDIR to a folder on a larger disk, or give the data as a .npy file, which is read where it is."
        )


def write(file: Any, block: npt.NDArray[Any]) -> None:
    """Write all of an array; an unbuffered file may take several calls."""
    view = memoryview(block.reshape(-1).view(np.uint8).data)
    while len(view):
        view = view[file.write(view) :]
