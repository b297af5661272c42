"""Rows of a matrix in an uncompressed file, read when they are needed.

The file may be a .npy file, that of a memory map, or a temporary one.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.text import one_line

# Bytes read at a time in passes over a file.
PIECE = 2**20
# Bytes between two wanted rows that cost less to read than a second call.
GAP = 2**15
# Letters of an error of a library in a message.
MAX_REASON = 200


class FileRows:
    """A matrix stored row after row in a file, which is read by position.

    Nothing is mapped into memory. Each read fills a new array, and any number of threads may read
    at once. Slices without a step and arrays of row numbers give arrays, as with numpy.

    Attributes
    ----------
    dtype : dtype
    shape : (N, d)
    offset : int
        Where the first row begins in the file, in bytes.
    path : str or None
        None for a file without a name.
    nbytes : int
    """

    ndim = 2

    def __init__(
        self,
        file: Any,
        dtype: Any,
        shape: tuple[int, int],
        offset: int = 0,
        path: str | None = None,
    ) -> None:
        self._file = file
        self.dtype = np.dtype(dtype)
        self.shape = shape
        self.offset = offset
        self.path = path
        self._row_bytes = self.dtype.itemsize * shape[1]
        self.nbytes = self._row_bytes * shape[0]
        self._lock = threading.Lock()
        weakref.finalize(self, file.close)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], dtype: Any, shape: tuple[int, int], offset: int = 0
    ) -> FileRows:
        """The rows of a file that has a name, so that other processes can open it too."""
        full_path = os.path.abspath(path)
        file = open(full_path, "rb", buffering=0)  # noqa: SIM115 - closed with the rows
        rows = cls(file, dtype, shape, offset, full_path)
        n_bytes = os.path.getsize(full_path)
        n_needed = offset + rows.nbytes
        if n_bytes < n_needed:
            raise ValueError(
                f"{full_path} is cut short: {n_bytes:,} bytes of {n_needed:,}. Write it again."
            )
        return rows

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            return self._block(start, max(start, stop))
        return self._listed(np.asarray(rows))

    def _listed(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The rows of these numbers, in any order.

        They are read in the order of the file: those close together in one call, if it is not too
        long.
        """
        out = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        if not rows.size:
            return out
        if rows.dtype == bool or rows.min() < 0 or rows.max() >= len(self):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of {len(self)}")

        order = np.argsort(rows, kind="stable")
        sorted_rows = rows[order]
        max_rows = max(1, PIECE // max(1, self._row_bytes))
        is_far = np.diff(sorted_rows) * self._row_bytes > GAP
        is_new_piece = np.diff(sorted_rows // max_rows) > 0
        starts = np.flatnonzero(is_far | is_new_piece) + 1
        for start, stop in pairwise([0, *starts.tolist(), len(order)]):
            first = int(sorted_rows[start])
            last = int(sorted_rows[stop - 1])
            block = self._block(first, last + 1)
            out[order[start:stop]] = block[sorted_rows[start:stop] - first]
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self[:].astype(dtype or self.dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            # A file without a name cannot be opened elsewhere: the rows themselves are sent.
            return np.array, (self[:],)
        return FileRows.open, (self.path, self.dtype.str, self.shape, self.offset)

    def _block(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Consecutive rows, those from `start` to before `stop`."""
        out = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        view = memoryview(out.reshape(-1).view(np.uint8).data)
        position = self.offset + start * self._row_bytes
        while view:
            count = self._read(view, position)
            if not count:
                raise OSError(
                    f"{self.path or 'a temporary file'} became shorter while it was read."
                )
            view = view[count:]
            position += count
        return out

    def _read(self, view: memoryview, position: int) -> int:
        """Fill the view, or the beginning of it; the number of bytes read."""
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [view], position)
        # Without positional reads, only one thread may move the file's position.
        with self._lock:
            self._file.seek(position)
            return int(self._file.readinto(view))


def spill(blocks: Iterable[npt.NDArray[Any]], dtype: Any) -> FileRows:
    """Blocks of rows in a temporary file (see TMPDIR).

    The file has no name where the system allows: nothing stays behind.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the rows
    dtype = np.dtype(dtype)
    n_rows = 0
    n_columns = 0
    try:
        for block in blocks:
            file.write(np.ascontiguousarray(block, dtype=dtype).data)
            n_rows += len(block)
            n_columns = block.shape[1]
        file.flush()
    except BaseException:
        file.close()
        raise
    return FileRows(file, dtype, (n_rows, n_columns))


def spill_beside(parts: Sequence[FileRows]) -> FileRows:
    """One matrix from several with the same rows, which have some of its columns each."""
    row_bytes = sum(part.shape[1] * part.dtype.itemsize for part in parts)
    step = max(1, 4 * PIECE // row_bytes)

    def blocks() -> Iterator[npt.NDArray[Any]]:
        for start in range(0, len(parts[0]), step):
            yield np.hstack([part[start : start + step] for part in parts])

    return spill(blocks(), parts[0].dtype)


def map_npy(path: str | os.PathLike[str], where: str) -> Any:
    """The array of a .npy file as a memory map.

    A damaged or cut file raises a ValueError that begins with `where`.
    """
    try:
        # Products of absurd shapes overflow.
        with np.errstate(all="raise"):
            mapped = np.lib.format.open_memmap(path, mode="r")
        # Entries without content fit into any file, whatever the shape.
        if mapped.dtype.itemsize == 0:
            raise ValueError(f"entries of type {mapped.dtype.str!r} have no content")
    except OSError:
        raise
    except Exception as error:
        # The header of such a file is a Python literal: damage surfaces as almost anything.
        lines = str(error).splitlines() or [""]
        reason = lines[0][:MAX_REASON] or type(error).__name__
        raise ValueError(f"{where} is not a numpy file that can be read ({reason}).") from error
    return mapped


def open_npy(path: str | os.PathLike[str], argument: str) -> npt.NDArray[Any] | FileRows:
    """A matrix of numbers in a .npy file as rows.

    Any other array is returned as it is, for `check_features` to refuse.
    """
    mapped = map_npy(path, f"{argument}: {one_line(path)}")
    if not _is_matrix(mapped):
        return np.asarray(mapped)
    if mapped.flags.c_contiguous:
        return FileRows.open(path, mapped.dtype, mapped.shape, mapped.offset)

    # Stored column after column: rows are written again, one after the other.
    step = max(1, PIECE // (mapped.shape[1] * mapped.dtype.itemsize))
    starts = range(0, len(mapped), step)
    return spill((mapped[start : start + step] for start in starts), mapped.dtype)


def reopen_map(mapped: np.memmap[Any, Any]) -> FileRows | np.memmap[Any, Any]:
    """The rows of a memory map, read from its file.

    The map itself where it is no whole matrix, or is copied on write.
    """
    path = mapped.filename
    is_whole = isinstance(mapped.base, mmap.mmap) and mapped.flags.c_contiguous
    if path is None or not is_whole or mapped.mode == "c" or not _is_matrix(mapped):
        return mapped
    return FileRows.open(path, mapped.dtype, mapped.shape, mapped.offset)


def _is_matrix(array: npt.NDArray[Any]) -> bool:
    has_numbers = array.dtype.kind in "biuf" and array.dtype.itemsize <= 8
    return array.ndim == 2 and array.size > 0 and has_numbers
