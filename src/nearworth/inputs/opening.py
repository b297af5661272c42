"""What was given instead of an array: a path, a dataset, an array on disk."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.memory import default_budget
from nearworth.inputs.chunked import is_chunked, is_zarr, open_zarr, read_chunked
from nearworth.inputs.filerows import FileRows
from nearworth.inputs.npy import open_npy, reopened

FORMATS = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather", ".ipc": "feather"}


@dataclass(frozen=True)
class Opened:
    """A matrix that was found somewhere else, the names of its columns, and the labels if they were beside it."""

    data: npt.NDArray[Any] | FileRows
    names: tuple[str, ...] | None = None
    labels: Any = None


def is_path(X: Any) -> bool:
    """Whether it names a file or folder."""
    return isinstance(X, str | os.PathLike)


def open_source(X: Any, label: str | None, argument: str, max_memory: int | None) -> Opened | None:
    """The rows of a path, dataset or array on disk; None if it is none of these, or cannot have such a `label`.

    They stay on disk under a memory limit, and without one unless they take less than work may take anyway.
    """
    if isinstance(X, np.memmap):
        rows = reopened(X) if max_memory is not None and label is None else None
        return None if rows is None else Opened(rows)
    if is_path(X):
        X = open_path(os.fspath(X), argument)
        if isinstance(X, np.ndarray):
            return Opened(X)
    if _is_arrow(X):
        from nearworth.inputs.arrow import read_arrow

        table = read_arrow(X, label, argument)
        return Opened(_kept(table.rows, max_memory), table.names, table.labels)
    if is_chunked(X):
        X = read_chunked(X)
    return Opened(_kept(X, max_memory)) if isinstance(X, FileRows) else None


def open_path(path: str, argument: str) -> Any:
    """Rows, a dataset or an array of zarr, by extension or by what is in the folder."""
    if "://" not in path and not os.path.exists(path):
        raise FileNotFoundError(f"{argument}: there is no file or folder {path!r}.")
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".npy":
        return open_npy(path, argument)
    if is_zarr(path):
        return open_zarr(path, argument)
    kind = FORMATS.get(suffix) or _format_inside(path)
    if kind is None:
        raise ValueError(
            f"{argument}: {path!r} is not known as data. Give a .npy, Parquet, Feather or zarr file, a folder of "
            "Parquet or Feather files, or an array."
        )
    from nearworth.inputs.batches import open_folder

    return open_folder(path, kind)


def _format_inside(folder: str) -> str | None:
    """The format of the first file with a known extension, in the folder or below."""
    for _, _, names in os.walk(folder):
        for name in sorted(names):
            if os.path.splitext(name)[1].lower() in FORMATS:
                return FORMATS[os.path.splitext(name)[1].lower()]
    return None


def _is_arrow(X: Any) -> bool:
    """Whether it is a dataset, scanner or reader of pyarrow, which then has been imported."""
    if not any("pyarrow" in (kind.__module__ or "") for kind in type(X).__mro__) or "pyarrow" not in sys.modules:
        return False
    from nearworth.inputs.batches import KNOWN

    return isinstance(X, KNOWN)


def _kept(rows: FileRows, max_memory: int | None) -> npt.NDArray[Any] | FileRows:
    return rows if max_memory is not None or rows.nbytes > default_budget() else rows[:]
