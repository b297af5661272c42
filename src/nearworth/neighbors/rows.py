"""Training rows that kernels can read: as they are, or converted some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth.inputs.file_rows import FileRows

BLOCK = 2**16  # numbers in a block: half a megabyte
AT_ONCE = 2**14  # numbers converted at a time, so that the copies this takes stay in a cache


class Converted:
    """Rows made from others whenever they are asked for, so that there is never a converted copy of all of them."""

    def __init__(self, X: Rows, convert: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> None:
        self._X = X
        self._convert = convert
        self.shape: tuple[int, int] = (X.shape[0], X.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        """Converted some at a time, because conversions need a few copies."""
        wanted = range(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows)
        step = max(4, AT_ONCE // max(1, self.shape[1]))
        if not isinstance(wanted, range) and wanted.dtype == bool:
            wanted = np.flatnonzero(wanted)
        if np.ndim(wanted) == 0 or len(wanted) <= step:
            return self._convert(self._X[rows])
        first = self._convert(self._some(wanted[:step]))
        out = np.empty((len(wanted), first.shape[1]), dtype=first.dtype)
        out[:step] = first
        for start in range(step, len(wanted), step):
            out[start : start + step] = self._convert(self._some(wanted[start : start + step]))
        return out

    def _some(self, wanted: Any) -> npt.NDArray[Any]:
        if isinstance(wanted, range) and wanted.step == 1:
            return self._X[wanted.start : wanted.stop]
        return self._X[np.asarray(wanted)]


Rows: TypeAlias = npt.NDArray[Any] | FileRows | Converted


def streamed(rows: Any) -> bool:
    """Whether the rows come from a file whenever they are asked for."""
    return streamed(rows._X) if isinstance(rows, Converted) else isinstance(rows, FileRows)


def readable(X: npt.NDArray[Any] | FileRows) -> Rows:
    """Rows of a type that compiled code knows: 16-bit floats and foreign byte orders are converted."""
    if X.dtype == np.float16:
        return Converted(X, lambda rows: rows.astype(np.float32))
    if not X.dtype.isnative:
        native = X.dtype.newbyteorder("=")
        return Converted(X, lambda rows: rows.astype(native))
    return X


def blocks(points: Rows) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """All rows, some at a time, each with the number of its first row."""
    step = max(4, BLOCK // max(1, points.shape[1]))
    for start in range(0, len(points), step):
        yield start, points[start : start + step]
