"""Rows of a matrix in an uncompressed file, read when they are needed: .npy files, memory maps,
temporary files.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.text import one_line

PIECE = 2**20  # bytes read at a time in passes over a file
GAP = 2**15  # bytes between two wanted rows that cost less to read than a second call


class FileRows:
    """A matrix stored row after row in a file, which is read by position.

    Nothing is mapped into memory: each read fills a new array, and any number of threads may read
    at once. Slices without a step and arrays of row numbers give arrays, as with numpy.
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
        self._file, self.dtype, self.shape, self.offset, self.path = (
            file,
            np.dtype(dtype),
            shape,
            offset,
            path,
        )
        self._row_bytes = self.dtype.itemsize * shape[1]
        self.nbytes = self._row_bytes * shape[0]
        self._lock = threading.Lock()
        weakref.finalize(self, file.close)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], dtype: Any, shape: tuple[int, int], offset: int = 0
    ) -> FileRows:
        """The rows of a file that has a name, so that other processes can open it too."""
        whole = os.path.abspath(path)
        file = open(whole, "rb", buffering=0)  # noqa: SIM115 - closed with the rows
        rows = cls(file, dtype, shape, offset, whole)
        there, needed = os.path.getsize(whole), offset + rows.nbytes
        if there < needed:
            raise ValueError(
                f"{whole} is cut short: {there:,} bytes of {needed:,}. Write it again."
            )
        return rows

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            return self._block(start, max(start, stop))
        # Rows in any order are read in the order of the file: those close together in one call, if
        # it is not too long.
        wanted = np.asarray(rows)
        out = np.empty((len(wanted), self.shape[1]), dtype=self.dtype)
        if not wanted.size:
            return out
        if wanted.dtype == bool or wanted.min() < 0 or wanted.max() >= len(self):
            raise IndexError(f"rows {wanted.min()} to {wanted.max()} of {len(self)}")
        order = np.argsort(wanted, kind="stable")
        ordered, most = wanted[order], max(1, PIECE // max(1, self._row_bytes))
        cut = (np.diff(ordered) * self._row_bytes > GAP) | (np.diff(ordered // most) > 0)
        for a, b in pairwise([0, *(np.flatnonzero(cut) + 1).tolist(), len(order)]):
            first = int(ordered[a])
            out[order[a:b]] = self._block(first, int(ordered[b - 1]) + 1)[ordered[a:b] - first]
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self[:].astype(dtype or self.dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        if (
            self.path is None
        ):  # a file without a name cannot be opened elsewhere: the rows themselves are sent
            return np.array, (self[:],)
        return FileRows.open, (self.path, self.dtype.str, self.shape, self.offset)

    def _block(self, start: int, stop: int) -> npt.NDArray[Any]:
        out = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        view, position = (
            memoryview(out.reshape(-1).view(np.uint8).data),
            self.offset + start * self._row_bytes,
        )
        while view:
            count = self._read(view, position)
            if not count:
                raise OSError(
                    f"{self.path or 'a temporary file'} became shorter while it was read."
                )
            view, position = view[count:], position + count
        return out

    def _read(self, view: memoryview, position: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [view], position)
        with self._lock:  # where there are no positional reads
            self._file.seek(position)
            return int(self._file.readinto(view))


def spill(blocks: Iterable[npt.NDArray[Any]], dtype: Any) -> FileRows:
    """Blocks of rows in a temporary file (see TMPDIR), without a name where the system allows:
    nothing stays behind.
    """
    file, dtype = tempfile.TemporaryFile(), np.dtype(dtype)  # noqa: SIM115 - closed with the rows
    count = width = 0
    try:
        for block in blocks:
            file.write(np.ascontiguousarray(block, dtype=dtype).data)
            count, width = count + len(block), block.shape[1]
        file.flush()
    except BaseException:
        file.close()
        raise
    return FileRows(file, dtype, (count, width))


def spill_beside(parts: Sequence[FileRows]) -> FileRows:
    """One matrix from several with the same rows, which have some of its columns each."""
    step = max(1, 4 * PIECE // sum(part.shape[1] * part.dtype.itemsize for part in parts))
    starts = range(0, len(parts[0]), step)
    return spill(
        (np.hstack([part[start : start + step] for part in parts]) for start in starts),
        parts[0].dtype,
    )


def map_npy(path: str | os.PathLike[str], where: str) -> Any:
    """The array of a .npy file as a memory map; a ValueError that begins with `where` if it is
    damaged or cut short.
    """
    try:
        with np.errstate(all="raise"):  # products of absurd shapes
            mapped = np.lib.format.open_memmap(path, mode="r")
        if mapped.dtype.itemsize == 0:  # fits into any file, whatever the shape
            raise ValueError(f"entries of type {mapped.dtype.str!r} have no content")
    except OSError:
        raise
    except (
        Exception
    ) as error:  # the header of such a file is a Python literal: damage surfaces as almost anything
        reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
        raise ValueError(f"{where} is not a numpy file that can be read ({reason}).") from error
    return mapped


def open_npy(path: str | os.PathLike[str], argument: str) -> npt.NDArray[Any] | FileRows:
    """A matrix of numbers in a .npy file as rows; any other array as it is, for `check_features` to
    refuse.
    """
    mapped = map_npy(path, f"{argument}: {one_line(path)}")
    if not _is_matrix(mapped):
        return np.asarray(mapped)
    if mapped.flags.c_contiguous:
        return FileRows.open(path, mapped.dtype, mapped.shape, mapped.offset)
    step = max(1, PIECE // (mapped.shape[1] * mapped.dtype.itemsize))
    return spill(
        (mapped[start : start + step] for start in range(0, len(mapped), step)), mapped.dtype
    )


def reopen_map(mapped: np.memmap[Any, Any]) -> FileRows | np.memmap[Any, Any]:
    """The rows of a memory map, read from its file; the map itself where it is no whole matrix, or
    copied on write.
    """
    path, whole = mapped.filename, isinstance(mapped.base, mmap.mmap) and mapped.flags.c_contiguous
    if path is None or not whole or mapped.mode == "c" or not _is_matrix(mapped):
        return mapped
    return FileRows.open(path, mapped.dtype, mapped.shape, mapped.offset)


def _is_matrix(array: npt.NDArray[Any]) -> bool:
    return (
        array.ndim == 2
        and array.size > 0
        and array.dtype.kind in "biuf"
        and array.dtype.itemsize <= 8
    )
