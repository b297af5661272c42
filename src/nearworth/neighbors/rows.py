"""Training rows as kernels read them: as they are, or converted some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

from nearworth.inputs.file_rows import FileRows

BLOCK = 2**16  # numbers in a block: half a megabyte
CONVERTED = 2**14  # numbers converted at a time, so that the copies this takes stay in a cache


class Converted:
    """Rows made from others whenever they are read, so that there is never a converted copy of all of them."""

    def __init__(self, X: Rows, convert: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> None:
        self._X = X
        self._convert = convert
        self.shape: tuple[int, int] = (X.shape[0], X.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
        """Converted some at a time, because conversions need a few copies."""
        wanted = range(len(self))[rows] if isinstance(rows, slice) else rows
        step = max(4, CONVERTED // max(1, self.shape[1]))
        first = self._convert(self._some(wanted[:step]))
        if len(wanted) <= step:
            return first
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
    """Whether the rows come from a file whenever they are read."""
    return streamed(rows._X) if isinstance(rows, Converted) else isinstance(rows, FileRows)


def readable(X: npt.NDArray[Any] | FileRows) -> Rows:
    """Rows of a type that compiled code knows: 16-bit floats and foreign byte orders are converted."""
    if X.dtype == np.float16:
        return Converted(X, lambda rows: rows.astype(np.float32))
    if not X.dtype.isnative:
        native = X.dtype.newbyteorder("=")
        return Converted(X, lambda rows: rows.astype(native))
    return X


def blocks(points: Any) -> Iterator[tuple[int, Any]]:
    """All rows, some at a time, each block with the number of its first row; sparse rows are one block."""
    step = points.shape[0] if scipy.sparse.issparse(points) else max(4, BLOCK // max(1, points.shape[1]))
    for start in range(0, points.shape[0], step):
        yield start, points[start : start + step]


def scaled(rows: Any, exponent: int) -> Any:
    """Rows times 2**exponent, which rounds nothing; dense ones are scaled when they are read."""
    if exponent == 0:
        return rows
    if scipy.sparse.issparse(rows):
        return scipy.sparse.csr_array((np.ldexp(rows.data, exponent), rows.indices, rows.indptr), rows.shape)
    return Converted(rows, partial(_ldexp, exponent=exponent))


def _ldexp(rows: npt.NDArray[Any], exponent: int) -> npt.NDArray[Any]:
    return np.asarray(np.ldexp(rows.astype(np.float64), exponent))
