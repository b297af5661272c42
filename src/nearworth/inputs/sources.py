"""Rows and labels that are not in memory: paths, pyarrow datasets, zarr and h5py arrays; labels in
a column of X.
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
ARROW = {"Dataset", "Scanner", "RecordBatchReader"}  # classes of pyarrow that are read in batches
HUB = {
    "datasets.arrow_dataset",
    "datasets.dataset_dict",
    "datasets.iterable_dataset",
}  # modules of Hugging Face
ZARR = ("zarr.json", ".zarray", ".zgroup")  # one of them is in every folder of zarr


def open_pair(X: Any, y: Any, names: tuple[str, str], max_memory: int | None) -> tuple[Any, Any]:
    """Rows and labels as `check_features` and the checks of targets take them; arrays and frames
    come back unchanged.

    `y` may be the path of a .npy file, or the name of a column of X, which then is not a feature.
    Rows stay on disk under a memory limit; without one they are read if they take no more than the
    default budget.
    """
    label, X = None, as_table(X, names[0])
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
    frame = as_narwhals(X, names[0])
    if frame is None or len(frame.shape) == 1:
        problem = f"{names[1]}={label!r} names a column, but {names[0]} has no named columns."
        raise ValueError(f"{problem} Give one label per row.")
    check_label_column(label, frame.columns, names[0])
    return frame.drop(label).to_native(), frame.get_column(label).to_native()


def as_table(X: Any, argument: str) -> Any:
    """A dataset of Hugging Face as an Arrow table; anything else as it is."""
    if not HUB & {kind.__module__ for kind in type(X).__mro__}:
        return X
    if isinstance(X, dict) or not hasattr(X, "num_rows"):
        raise TypeError(
            f"{argument} is a {type(X).__name__}, not one table of rows. Give a Dataset:"
            " X['train']."
        )
    return X.with_format("arrow")[:]


def _open(X: Any, label: str | None, argument: str, max_memory: int | None) -> tuple[Any, Any]:
    """Features of a path, dataset or array on disk, not yet checked, and labels beside them;
    anything else as it is.
    """
    given, names, labels = X, None, None
    if isinstance(X, str | os.PathLike):
        X = _open_path(os.fspath(X), argument)
    if isinstance(X, np.memmap):
        X = X if max_memory is None else reopen_map(X)
    elif ARROW & {
        kind.__name__ for kind in type(X).__mro__ if kind.__module__.startswith("pyarrow")
    }:
        from nearworth.inputs.arrow import read_arrow

        X, names, labels = read_arrow(X, label, argument)
    elif _is_chunked(X):
        X = spill((rows for _, rows in row_chunks(X)), X.dtype)
    if isinstance(X, FileRows) and max_memory is None and X.nbytes <= default_budget():
        X = X[:]
    return X if X is given else Features(X, names), labels


def _open_path(path: str, argument: str) -> Any:
    """Rows, a dataset or an array of zarr, by extension or by what is in the folder."""
    if "://" not in path and not os.path.exists(path):
        raise FileNotFoundError(f"{argument}: there is no file or folder {path!r}.")
    if _extension(path) == ".npy":
        return open_npy(path, argument)
    is_zarr = path.rstrip("/\\").endswith((".zarr", ".zarr.zip"))
    if is_zarr or any(os.path.exists(os.path.join(path, name)) for name in ZARR):
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
    inside = (name for _, _, names in os.walk(path) for name in sorted(names))
    kind = next(
        (
            FORMATS[_extension(name)]
            for name in chain([path], inside)
            if _extension(name) in FORMATS
        ),
        None,
    )
    if kind is None:
        known = (
            "a .npy, Parquet, Feather or zarr file, a folder of Parquet or Feather files, or an"
            " array"
        )
        raise ValueError(f"{argument}: {path!r} is not known as data. Give {known}.")
    import pyarrow.dataset as ds

    return ds.dataset(path, format=kind)


def _extension(path: str | os.PathLike[str]) -> str:
    return os.path.splitext(os.fspath(path))[1].lower()


def _is_chunked(X: Any) -> bool:
    """Whether it is a matrix of numbers that is read by slices, as those of zarr and h5py are."""
    has_all = (
        hasattr(X, "chunks")
        and hasattr(X, "__getitem__")
        and isinstance(getattr(X, "dtype", None), np.dtype)
    )
    return (
        has_all
        and X.dtype.kind in "biuf"
        and X.dtype.itemsize <= 8
        and len(getattr(X, "shape", ())) == 2
    )


@contextmanager
def _naming(argument: str) -> Iterator[None]:
    """Name the argument where the system or a library only says what went wrong."""
    try:
        yield
    except Exception as error:
        foreign = isinstance(error, OSError) or type(error).__module__ != "builtins"
        if not foreign or str(error).startswith(argument):
            raise
        first = (str(error).splitlines() or [""])[0]
        raise ValueError(f"{argument}: cannot be read: {type(error).__name__}: {first}") from error
