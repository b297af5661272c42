"""Numpy's own files, and memory maps, read where they lie."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth.inputs.filerows import PIECE, FileRows
from nearworth.inputs.spilling import spill


def open_npy(path: str | os.PathLike[str], name: str) -> npt.NDArray[Any] | FileRows:
    """A matrix in a .npy file as rows; anything that is no matrix of numbers as an array, for the door to judge."""
    try:
        mapped: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        if hasattr(mapped, "files"):
            raise ValueError("an archive of several arrays, .npz")
    except (ValueError, EOFError) as error:
        if "pickle" in str(error).lower() or "object" in str(error).lower():
            raise ValueError(f"{name}: {path} holds pickled objects, which could run code. Save numbers.") from None
        raise ValueError(f"{name}: {path} is not a numpy file that can be read ({error}).") from None
    if mapped.ndim != 2 or mapped.dtype.kind not in "biuf" or mapped.dtype.itemsize > 8 or 0 in mapped.shape:
        return np.asarray(mapped)
    if mapped.flags.c_contiguous:
        return FileRows.open(path, mapped.dtype, mapped.shape, mapped.offset)
    columns = FileRows.open(path, mapped.dtype, mapped.shape[::-1], mapped.offset)
    return spill(transposed(columns), mapped.dtype, mapped.shape[0])


def load_vector(path: str | os.PathLike[str], name: str) -> npt.NDArray[Any]:
    """Labels or numbers from a .npy file."""
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{name}: {path} is not a numpy file of plain labels or numbers ({error}).") from None
    if not isinstance(found, np.ndarray):
        raise ValueError(f"{name}: {path} is an archive of several arrays (.npz). Save one of them with numpy.save.")
    return found


def reopened(mapped: np.memmap[Any, Any]) -> FileRows | None:
    """The rows of a memory map by reading its file, if that surely is the file it shows."""
    plain = mapped.ndim == 2 and mapped.dtype.kind in "biuf" and mapped.dtype.itemsize <= 8 and mapped.size
    shared = isinstance(mapped.base, mmap.mmap) and mapped.mode != "c"  # else changes are in memory only
    if not plain or not shared or not mapped.flags.c_contiguous or mapped.filename is None:
        return None
    try:
        if _mapped_file(mapped.ctypes.data) != _identity(mapped.filename):
            return None
        return FileRows.open(mapped.filename, mapped.dtype, mapped.shape, mapped.offset)
    except (OSError, ValueError):
        return None


def _identity(path: str | os.PathLike[str]) -> tuple[int, int, int]:
    found = os.stat(path)
    return os.major(found.st_dev), os.minor(found.st_dev), found.st_ino


def _mapped_file(address: int) -> tuple[int, int, int] | None:
    """Device and number of the file that is mapped at an address, where the system tells: its name may be another's."""
    with open("/proc/self/maps") as lines:
        for line in lines:
            places, _, _, device, number = line.split()[:5]
            start, end = (int(place, 16) for place in places.split("-"))
            if start <= address < end:
                major, minor = (int(part, 16) for part in device.split(":"))
                return major, minor, int(number)
    return None


def transposed(columns: FileRows) -> Iterator[npt.NDArray[Any]]:
    """Rows of a file that was written column by column."""
    width, n_rows = columns.shape
    step = max(1, 4 * PIECE // (width * columns.dtype.itemsize))
    flat = FileRows(columns._file, columns.dtype, (columns.size, 1), columns.offset, columns.path)
    for start in range(0, n_rows, step):
        stop = min(start + step, n_rows)
        yield np.concatenate([flat[j * n_rows + start : j * n_rows + stop] for j in range(width)], axis=1)
