"""Arrays that are read by slices: zarr, h5py and their like."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth.inputs.filerows import PIECE, FileRows
from nearworth.inputs.spilling import spill

MARKS = ("zarr.json", ".zarray", ".zgroup")  # what a folder must hold to be zarr's


def is_chunked(X: Any) -> bool:
    """Whether it has the shape and the type of a matrix of numbers, gives slices, and speaks of chunks."""
    has_all = hasattr(X, "chunks") and hasattr(X, "__getitem__") and isinstance(getattr(X, "dtype", None), np.dtype)
    return has_all and X.dtype.kind in "biuf" and X.dtype.itemsize <= 8 and len(getattr(X, "shape", ())) == 2


def read_chunked(X: Any) -> FileRows:
    """The same rows in a temporary file, written in one pass over the chunks."""
    return spill(_blocks(X), X.dtype, int(X.shape[0]))


def is_zarr(path: str) -> bool:
    """Whether a folder or file is an array of zarr."""
    return path.rstrip("/\\").endswith((".zarr", ".zarr.zip")) or any(
        os.path.exists(os.path.join(path, mark)) for mark in MARKS
    )


def open_zarr(path: str, argument: str) -> Any:
    """An array of zarr."""
    try:
        import zarr
    except ImportError:
        raise ImportError(f"{argument}: {path} needs zarr: pip install 'nearworth[zarr]'.") from None
    opened = zarr.open(path, mode="r")
    if not hasattr(opened, "shape"):
        raise ValueError(f"{argument}: {path} is a group of arrays. Give one: {path}/name.")
    return opened


def _blocks(X: Any) -> Iterator[npt.NDArray[Any]]:
    """Whole chunks, several at a time if they are small."""
    n_rows, width = (int(size) for size in X.shape)
    most = max(1, PIECE // max(1, width * X.dtype.itemsize))
    tall = X.chunks[0] if X.chunks and isinstance(X.chunks[0], int) else 1
    step = tall * max(1, most // tall)
    for start in range(0, n_rows, step):
        yield np.asarray(X[start : min(start + step, n_rows)])
