"""Rows and labels that are not in memory, and labels in a column of X.

They may be paths, datasets of pyarrow or Hugging Face, zarr and h5py arrays.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np

from nearworth._common.memory import default_budget
from nearworth._common.text import one_line
from nearworth.inputs.features import Features, as_narwhals, check_label_column, row_chunks
from nearworth.inputs.file_rows import FileRows, map_npy, open_npy, reopen_map, spill

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".ipc": "feather",
}
# Classes of pyarrow that are read in batches.
ARROW_CLASSES = {"Dataset", "Scanner", "RecordBatchReader"}
# Modules of Hugging Face.
HUB_MODULES = {
    "datasets.arrow_dataset",
    "datasets.dataset_dict",
    "datasets.iterable_dataset",
}
# One of them is in every folder of zarr.
ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")


def open_pair(X: Any, y: Any, names: tuple[str, str], max_memory: int | None) -> tuple[Any, Any]:
    """Rows and labels as `check_features` and the checks of targets take them.

    Arrays and frames come back unchanged. `y` may be the path of a .npy file, or the name of a
    column of X, which then is not a feature. Rows stay on disk under a memory limit. Without one
    they are read if they take no more than the default budget.

    Parameters
    ----------
    X, y
        As users give them.
    names : (str, str)
        The names of the two arguments, for messages.
    max_memory : int or None
        The memory limit in bytes.
    """
    X = as_table(X, names[0])
    label = None
    if isinstance(y, os.PathLike) or (isinstance(y, str) and _extension(y) == ".npy"):
        with _naming(names[1]):
            y = np.array(map_npy(y, f"{names[1]}: {one_line(y)}"))
    elif isinstance(y, str):
        label = y

    with _naming(names[0]):
        X, labels = _open(X, label, names[0], max_memory)
    if label is None:
        return X, y
    if labels is not None:
        return X, labels
    return _split_frame(X, label, names)


def _split_frame(X: Any, label: str, names: tuple[str, str]) -> tuple[Any, Any]:
    """A frame without its column of labels, and that column."""
    frame = as_narwhals(X, names[0])
    if frame is None or len(frame.shape) == 1:
        problem = f"{names[1]}={label!r} names a column, but {names[0]} has no named columns."
        raise ValueError(f"{problem} Give one label per row.")
    check_label_column(label, frame.columns, names[0])
    return frame.drop(label).to_native(), frame.get_column(label).to_native()


def as_table(X: Any, argument: str) -> Any:
    """A dataset of Hugging Face as an Arrow table; anything else as it is."""
    if not HUB_MODULES & {kind.__module__ for kind in type(X).__mro__}:
        return X
    if isinstance(X, dict) or not hasattr(X, "num_rows"):
        raise TypeError(
            f"{argument} is a {type(X).__name__}, not one table of rows. Give a Dataset:"
            " X['train']."
        )
    return X.with_format("arrow")[:]


def _open(X: Any, label: str | None, argument: str, max_memory: int | None) -> tuple[Any, Any]:
    """Features of a path, dataset or array on disk, not yet checked, and labels beside them.

    Anything else comes back as it is.
    """
    source = os.fspath(X) if isinstance(X, str | os.PathLike) else None
    data = X if source is None else _open_path(source, argument)
    names = None
    labels = None
    if isinstance(data, np.memmap):
        if max_memory is not None:
            data = reopen_map(data)
    elif _is_arrow(data):
        from nearworth.inputs.arrow import read_arrow

        data, names, labels = read_arrow(data, label, argument)
    elif _is_chunked(data):
        data = spill((rows for _, rows in row_chunks(data)), data.dtype)
    if isinstance(data, FileRows) and max_memory is None and data.nbytes <= default_budget():
        data = data[:]
    if data is X:
        return X, labels
    return Features(data, names), labels


def _is_arrow(X: Any) -> bool:
    """Whether it is data of pyarrow that are read in batches."""
    classes = type(X).__mro__
    names = {kind.__name__ for kind in classes if kind.__module__.startswith("pyarrow")}
    return bool(ARROW_CLASSES & names)


def _open_path(path: str, argument: str) -> Any:
    """Rows, a dataset or an array of zarr, by extension or by what is in the folder."""
    if "://" not in path and not os.path.exists(path):
        raise FileNotFoundError(f"{argument}: there is no file or folder {path!r}.")
    if _extension(path) == ".npy":
        return open_npy(path, argument)
    if _is_zarr(path):
        return _open_zarr(path, argument)
    kind = _format_of(path)
    if kind is None:
        known = (
            "a .npy, Parquet, Feather or zarr file, a folder of Parquet or Feather files, or an"
            " array"
        )
        raise ValueError(f"{argument}: {path!r} is not known as data. Give {known}.")
    import pyarrow.dataset as ds

    return ds.dataset(path, format=kind)


def _is_zarr(path: str) -> bool:
    if path.rstrip("/\\").endswith((".zarr", ".zarr.zip")):
        return True
    return any(os.path.exists(os.path.join(path, name)) for name in ZARR_FILES)


def _open_zarr(path: str, argument: str) -> Any:
    """The array of zarr at this path."""
    try:
        import zarr
    except ImportError:
        raise ImportError(
            f"{argument}: {one_line(path)} needs zarr: pip install 'nearworth[zarr]'."
        ) from None
    opened = zarr.open(path, mode="r")
    if not hasattr(opened, "shape"):
        where = one_line(path)
        raise ValueError(f"{argument}: {where} is a group of arrays. Give one: {where}/name.")
    return opened


def _format_of(path: str) -> str | None:
    """The format of a file, or of the first known file in a folder; None if there is none."""
    files = (name for _, _, names in os.walk(path) for name in sorted(names))
    for name in chain([path], files):
        if _extension(name) in FORMATS:
            return FORMATS[_extension(name)]
    return None


def _extension(path: str | os.PathLike[str]) -> str:
    return os.path.splitext(os.fspath(path))[1].lower()


def _is_chunked(X: Any) -> bool:
    """Whether it is a matrix of numbers that is read by slices, as those of zarr and h5py are."""
    is_sliced = hasattr(X, "chunks") and hasattr(X, "__getitem__")
    dtype = getattr(X, "dtype", None)
    if not is_sliced or not isinstance(dtype, np.dtype):
        return False
    has_numbers = dtype.kind in "biuf" and dtype.itemsize <= 8
    return has_numbers and len(getattr(X, "shape", ())) == 2


@contextmanager
def _naming(argument: str) -> Iterator[None]:
    """Name the argument where the system or a library only says what went wrong."""
    try:
        yield
    except Exception as error:
        is_foreign = isinstance(error, OSError) or type(error).__module__ != "builtins"
        if not is_foreign or str(error).startswith(argument):
            raise
        lines = str(error).splitlines() or [""]
        first = lines[0]
        raise ValueError(f"{argument}: cannot be read: {type(error).__name__}: {first}") from error
