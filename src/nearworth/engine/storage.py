"""A training set as files that any process can map into its memory, or read block by block."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from nearworth._common.files import atomic_write
from nearworth.inputs.features import fingerprint, row_chunks
from nearworth.inputs.file_rows import FileRows

SPARSE = ("data", "indices", "indptr")


@dataclass(frozen=True)
class ArrayFile:
    """An array inside a file."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    order: str
    streamed: bool = False

    def load(self) -> npt.NDArray[Any] | FileRows:
        if self.streamed:
            return FileRows.open(self.path, self.dtype, (self.shape[0], self.shape[1]), self.offset)
        whole: Any = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, self.order)  # type: ignore[call-overload]
        return np.asarray(whole)


@dataclass(frozen=True)
class StoredTraining:
    """Training points and labels in files, and their hash. No points where the user brings distances."""

    labels: ArrayFile
    points: tuple[ArrayFile, ...]  # one, or the three of a sparse matrix
    shape: tuple[int, ...]
    fingerprint: str

    def load(self) -> tuple[Any, npt.NDArray[Any]]:
        arrays = [file.load() for file in self.points]
        points: Any = None
        if len(arrays) == 1:
            points = arrays[0]
        elif arrays:
            points = scipy.sparse.csr_array(tuple(arrays), shape=self.shape)
        labels = np.asarray(self.labels.load())
        if fingerprint(points, labels) != self.fingerprint:
            raise ValueError(f"The training data near {self.labels.path!r} are no longer what they were. Run again.")
        return points, labels


def store(points: Any, labels: npt.NDArray[Any], folder: str | os.PathLike[str]) -> StoredTraining:
    """Put a training set into files of a folder, unless it is in a file already."""
    hashed = fingerprint(points, labels)
    place = Path(folder) / f"nearworth-{hashed}"
    place.mkdir(parents=True, exist_ok=True)
    if points is None:
        files: tuple[ArrayFile, ...] = ()
    elif scipy.sparse.issparse(points):
        files = tuple(_store_array(getattr(points, name), place / f"{name}.npy") for name in SPARSE)
    elif isinstance(points, FileRows):
        files = (_rows_file(points, place / "points.npy"),)
    else:
        files = (_mapped(points) or _store_array(points, place / "points.npy"),)
    shape = () if points is None else tuple(points.shape)
    return StoredTraining(_store_array(labels, place / "labels.npy"), files, shape, hashed)


def _mapped(array: npt.NDArray[Any]) -> ArrayFile | None:
    """Where a memory map lies on disk; None for slices of one and for all other arrays."""
    if not isinstance(array, np.memmap) or not isinstance(array.base, mmap.mmap) or array.filename is None:
        return None
    order = "C" if array.flags.c_contiguous else "F"
    path = str(Path(array.filename).absolute())
    return ArrayFile(path, array.dtype.str, array.shape, array.offset, order)


def _rows_file(rows: FileRows, path: Path) -> ArrayFile:
    """The file that the rows are in; a copy of them if it has no name by which other processes could open it."""
    if rows.path is not None:
        return ArrayFile(rows.path, rows.dtype.str, rows.shape, rows.offset, "C", streamed=True)
    if not path.exists():
        with atomic_write(path) as file:
            header = {"descr": rows.dtype.str, "fortran_order": False, "shape": rows.shape}
            np.lib.format.write_array_header_1_0(file, header)
            for _, piece in row_chunks(rows):
                file.write(piece.reshape(-1).view(np.uint8).data)
    return replace(_stored(path), streamed=True)


def _store_array(array: npt.NDArray[Any], path: Path) -> ArrayFile:
    if not path.exists():
        with atomic_write(path) as file:
            np.save(file, array, allow_pickle=False)
    return _stored(path)


def _stored(path: Path) -> ArrayFile:
    mapped = _mapped(np.load(path, mmap_mode="r"))
    assert mapped is not None
    return mapped
