"""Rows of a matrix in a file, read when they are asked for."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

PIECE = 2**20  # bytes read at a time in passes over the file
GAP = 2**15  # bytes between two wanted rows that cost less to read than a second call


class FileRows:
    """A matrix of rows one after the other in an uncompressed file, which is read by position.

    Nothing is mapped into memory: what was read is the reader's and goes with it, and any number of threads may read
    at once. Slices and lists of rows give arrays, as with numpy.
    """

    ndim = 2

    def __init__(self, file: Any, dtype: Any, shape: tuple[int, int], offset: int = 0, path: str | None = None) -> None:
        self._file, self.dtype, self.shape, self.offset, self.path = file, np.dtype(dtype), shape, offset, path
        self._row_bytes = self.dtype.itemsize * shape[1]
        self._lock = threading.Lock()
        weakref.finalize(self, file.close)

    @classmethod
    def open(cls, path: str | os.PathLike[str], dtype: Any, shape: tuple[int, int], offset: int = 0) -> FileRows:
        """The rows of a file that has a name, and so can be opened again elsewhere."""
        whole = os.path.abspath(path)
        file = open(whole, "rb", buffering=0)  # noqa: SIM115 - closed with the rows
        rows = cls(file, dtype, shape, offset, whole)
        there, needed = os.path.getsize(whole), offset + rows.nbytes
        if there < needed:
            raise ValueError(f"{whole} is cut short: {there:,} bytes of {needed:,}. Write it again.")
        return rows

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        """Numbers in the matrix."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return self.size * int(self.dtype.itemsize)

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._block(start, max(start, stop))
            return self._some(np.arange(start, stop, step))
        wanted = np.asarray(rows)
        if wanted.dtype == bool:
            if wanted.shape != (len(self),):
                raise IndexError(f"a mask of shape {wanted.shape} for {len(self)} rows")
            wanted = np.flatnonzero(wanted)
        if wanted.ndim == 0:
            return np.asarray(self._some(wanted[None])[0])
        return self._some(wanted)

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        for _, rows in self.pieces():
            yield from rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("rows of a file cannot become an array without being read")
        return self[:].astype(dtype or self.dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:  # a nameless file cannot be found again: what travels is the rows
            return np.array, (self[:],)
        return FileRows.open, (self.path, self.dtype.str, self.shape, self.offset)

    def pieces(self) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """All rows, about a megabyte at a time, each with the number of its first row."""
        step = max(1, PIECE // max(1, self._row_bytes))
        for start in range(0, len(self), step):
            yield start, self[start : start + step]

    @cached_property
    def extremes(self) -> tuple[Any, Any]:
        """The smallest and the largest number, NaN if there is one; one pass, once."""
        ends = [(rows.min(), rows.max()) for _, rows in self.pieces()]
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
        """Rows in any order, read in the order of the file, neighbours together."""
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
        """Where to cut a sorted list so that each part is worth one reading, and is not too long."""
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
