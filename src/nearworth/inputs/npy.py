"""Numpy's own files, and memory maps, read where they are."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth.inputs.file_rows import FileRows, spill_columns


def map_npy(path: str | os.PathLike[str], where: str) -> Any:
    """The array of a .npy file as a memory map. A damaged file is a ValueError, whose message begins with `where`.

    The header of such a file is a Python literal, so damage can surface as almost any exception. The map is never
    longer than the file: a shape that the file cannot hold is refused before memory is taken for it.
    """
    try:
        with np.errstate(all="raise"):  # products of absurd shapes
            mapped = np.lib.format.open_memmap(path, mode="r")
        if mapped.dtype.itemsize == 0:  # fits into any file, whatever the shape
            raise ValueError(f"entries of type {mapped.dtype.str!r} have no content")
    except OSError:
        raise
    except Exception as error:
        if "Python objects" in str(error):
            raise ValueError(f"{where} holds pickled objects, which could run code. Save numbers.") from None
        reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
        raise ValueError(f"{where} is not a numpy file that can be read ({reason}).") from error
    return mapped


def open_npy(path: str | os.PathLike[str], argument: str) -> npt.NDArray[Any] | FileRows:
    """A matrix of numbers in a .npy file as rows; any other array as it is, for `check_features` to refuse."""
    mapped = map_npy(path, f"{argument}: {path}")
    if not _is_matrix(mapped):
        return np.asarray(mapped)
    if mapped.flags.c_contiguous:
        return FileRows.open(path, mapped.dtype, mapped.shape, mapped.offset)
    return spill_columns(FileRows.open(path, mapped.dtype, mapped.shape[::-1], mapped.offset))


def reopen_map(mapped: np.memmap[Any, Any]) -> FileRows | np.memmap[Any, Any]:
    """The rows of a memory map, read from its file; the map if that may be another file, or hold other numbers."""
    shared = isinstance(mapped.base, mmap.mmap) and mapped.mode != "c"  # else changes are in memory only
    if _is_matrix(mapped) and shared and mapped.flags.c_contiguous and mapped.filename is not None:
        with suppress(OSError, ValueError):
            if _mapped_inode(mapped.ctypes.data) == os.stat(mapped.filename).st_ino:
                return FileRows.open(mapped.filename, mapped.dtype, mapped.shape, mapped.offset)
    return mapped


def _is_matrix(array: npt.NDArray[Any]) -> bool:
    return array.ndim == 2 and array.size > 0 and array.dtype.kind in "biuf" and array.dtype.itemsize <= 8


def _mapped_inode(address: int) -> int | None:
    """The file that is mapped at an address: the name may have passed to another file since."""
    with open("/proc/self/maps") as lines:
        for addresses, _, _, _, inode, *_ in map(str.split, lines):
            start, end = (int(part, 16) for part in addresses.split("-"))
            if start <= address < end:
                return int(inode)
    return None
