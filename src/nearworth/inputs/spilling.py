"""Rows written once to a temporary file, from which they can be read as often as needed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth.inputs.filerows import FileRows


def spill(blocks: Iterable[npt.NDArray[Any]], dtype: Any, n_rows: int | None = None) -> FileRows:
    """Blocks of rows as one file, in the folder that the system has for temporary files (the variable TMPDIR).

    The file has no name where the system allows that, so nothing is left behind whatever happens to the process.
    """
    kind, file = np.dtype(dtype), nameless()
    count = width = 0
    try:
        for block in blocks:
            if not count:
                width = block.shape[1]
                check_room((n_rows or 0) * width * kind.itemsize)
            write(file, np.ascontiguousarray(block, dtype=kind))
            count += len(block)
    except BaseException:
        file.close()
        raise
    return FileRows(file, kind, (count, width))


def nameless() -> Any:
    """A temporary file that vanishes when it is closed."""
    return tempfile.TemporaryFile(buffering=0)


def check_room(needed: int) -> None:
    """Refuse to begin what the disk cannot hold."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(
            f"These data need {needed:,} bytes in a temporary file, but {folder} has {free:,} free. "
            "Set TMPDIR to a folder on a larger disk, or give the data as a .npy file, which is read where it is."
        )


def write(file: Any, block: npt.NDArray[Any]) -> None:
    """Write all of an array, however often that takes."""
    view = memoryview(block.reshape(-1).view(np.uint8).data)
    while len(view):
        view = view[file.write(view) :]
