"""Rows and labels that lie elsewhere: files, datasets, or a column among the others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import narwhals.stable.v2 as nwl

from nearworth.inputs.features import as_narwhals
from nearworth.inputs.npy import load_vector
from nearworth.inputs.opening import is_path, open_source


def open_pair(X: Any, y: Any, names: tuple[str, str], max_memory: int | None) -> tuple[Any, Any]:
    """Rows and labels as the rest of the door takes them; what is in memory comes back as it is.

    `y` may be the path of a .npy file, or the name of a column of X, which then is no feature.
    """
    label = None
    if is_path(y):
        if os.path.splitext(y)[1].lower() == ".npy":
            with _naming(names[1]):
                y = load_vector(y, names[1])
        elif isinstance(y, str):
            label = y
        else:
            raise ValueError(f"{names[1]}: {y} is not a .npy file. Give labels, a .npy file, or the name of a column.")
    with _naming(names[0]):
        opened = open_source(X, label, names[0], max_memory)
    if label is None:
        return X if opened is None else opened, y
    if opened is None:
        return _split_frame(X, label, names)
    if opened.labels is None:
        raise _no_columns(label, names)
    return opened, opened.labels


@contextmanager
def _naming(argument: str) -> Iterator[None]:
    """Say which argument was being read, where the system or a library only says what went wrong."""
    try:
        yield
    except Exception as error:
        foreign = isinstance(error, OSError) or type(error).__module__ != "builtins"
        if not foreign or str(error).startswith(argument):
            raise
        first = (str(error).splitlines() or [""])[0]
        raise ValueError(f"{argument}: cannot be read: {type(error).__name__}: {first}") from error


def _split_frame(X: Any, label: str, names: tuple[str, str]) -> tuple[Any, Any]:
    frame = as_narwhals(X, names[0])
    if not isinstance(frame, nwl.DataFrame):
        raise _no_columns(label, names)
    if label not in frame.columns:
        some = ", ".join(map(repr, frame.columns[:12]))
        raise ValueError(f"{names[0]} has no column {label!r} for the labels; it has {some}.")
    return frame.drop(label).to_native(), frame.get_column(label).to_native()


def _no_columns(label: str, names: tuple[str, str]) -> ValueError:
    return ValueError(
        f"{names[1]}={label!r} names a column, but {names[0]} has no named columns. "
        "Give one label per row, or the path of a .npy file."
    )
