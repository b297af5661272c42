"""X in any form (arrays, lists, frames of three libraries, sparse matrices, memory maps, files) to a numeric matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nwl
import numpy as np
import numpy.typing as npt
import scipy.sparse

from nearworth.inputs.file_rows import FileRows, row_chunks

# Squares of larger numbers leave no room to be added up in 64-bit floats.
LARGEST_FEATURE = 1e150
ROWS_NAMED = 5


@dataclass(frozen=True)
class Features:
    """A matrix of numbers: dense, in the dtype it was given in and on disk if it was there, or CSR."""

    data: npt.NDArray[Any] | FileRows | scipy.sparse.csr_array
    names: tuple[str, ...] | None = None  # of columns
    backend: str | None = None  # library of the frame it was

    @property
    def n_rows(self) -> int:
        """Number of points."""
        return int(self.data.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of features."""
        return int(self.data.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether only entries other than zero are stored."""
        return bool(scipy.sparse.issparse(self.data))


def check_features(X: Any, name: str, *, allow_nan: bool = False) -> Features:
    """Numbers in two dimensions, finite and small enough to be squared; `allow_nan` lets missing entries pass."""
    if X is None:
        raise ValueError(f"{name} is None. Give a two-dimensional array, a frame or a sparse matrix.")
    if scipy.sparse.issparse(X):
        return _check_sparse(X, name)
    features = _dense(X, name)
    _check_shape(features.data, name)
    _check_numbers(features, name, allow_nan)
    return features


def _dense(X: Any, name: str) -> Features:
    if isinstance(X, Features):  # opened by `sources`, not yet checked
        return replace(X, data=_from_array(X.data, name))
    frame = X if isinstance(X, FileRows) else as_narwhals(X, name)
    return _from_frame(frame, name) if isinstance(frame, nwl.DataFrame) else Features(_from_array(X, name))


def as_narwhals(data: Any, name: str) -> Any:
    """A frame or series as narwhals wraps it; anything else unchanged."""
    if type(data).__name__ == "RecordBatch":  # pyarrow's other table
        import pyarrow

        data = pyarrow.table(data)
    try:
        wrapped = nwl.from_native(data, allow_series=True, pass_through=True)
        if isinstance(wrapped, nwl.LazyFrame):
            raise TypeError(f"{name} is a lazy frame. Call .collect() on it first.")
        if isinstance(wrapped, nwl.DataFrame):
            _ = wrapped.columns  # where some versions look for duplicates
    except nwl.exceptions.DuplicateError:
        raise ValueError(f"{name} has two columns of one name. Rename one.") from None
    return wrapped


def _from_frame(frame: nwl.DataFrame[Any], name: str) -> Features:
    columns = frame.columns
    strings = [isinstance(column, str) for column in columns]
    if any(strings) and not all(strings):
        raise TypeError(
            f"{name} has column names of several types. Make them all strings: X.columns = X.columns.astype(str)."
        )
    data = np.empty(frame.shape, dtype=np.float64)
    for j, column in enumerate(columns):
        data[:, j] = _numeric_column(frame.get_column(column), name)
    names = tuple(columns) if columns and all(strings) else None
    return Features(data, names, frame.implementation.value)


def _numeric_column(series: nwl.Series[Any], name: str) -> npt.NDArray[np.float64]:
    missing = np.flatnonzero(series.is_null().to_numpy())
    if missing.size and not series.dtype.is_float():  # in a float column they become NaN, which is checked later
        raise ValueError(
            f"{name} has missing values in column {series.name!r} at {describe_rows(missing)}. "
            "Drop these rows or fill them in."
        )
    if not (series.dtype.is_numeric() or series.dtype == nwl.Boolean or series.dtype == nwl.Object):
        raise ValueError(
            f"{name} has a column that is not numeric: {series.name!r} ({series.dtype}). "
            "Encode it (for example one-hot) or drop it; distances need numbers."
        )
    try:
        wide = missing.size or series.dtype in (nwl.Int128, nwl.UInt128)
        return np.asarray(series.cast(nwl.Float64).to_numpy() if wide else series.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} has a column that cannot be read as numbers: {series.name!r} ({error}).") from None


def _from_array(X: Any, name: str) -> npt.NDArray[Any] | FileRows:
    if isinstance(X, FileRows):
        _refuse_long_integers(X, name)
        return X
    if np.ma.isMaskedArray(X) and np.ma.getmaskarray(X).any():
        raise ValueError(
            f"{name} is a masked array with {int(np.ma.getmaskarray(X).sum())} masked entries. Drop or fill these."
        )
    try:
        array = X if isinstance(X, np.memmap) else np.asarray(X)
    except ValueError as error:
        raise ValueError(f"{name} is not a rectangular array: its rows differ in length ({error}).") from None
    if array.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} has dtype {array.dtype}. Split it into real and imaginary columns."
        )
    if array.dtype.kind == "O":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{name} has entries that are not 64-bit numbers: {error}.") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers; got dtype {array.dtype}. Encode text and dates as numbers first.")
    _refuse_long_integers(array, name)
    return array.astype(np.float64) if array.dtype.itemsize > 8 else array


def _refuse_long_integers(array: npt.NDArray[Any] | FileRows, name: str) -> None:
    wide = array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size > 0
    if wide and max(int(array.max()), -int(array.min())) > 2**53:
        raise ValueError(
            f"{name} holds whole numbers beyond 2**53, which 64-bit floats no longer tell apart. "
            "Subtract an offset from these columns, or divide them."
        )


def _check_shape(data: Any, name: str) -> None:
    if data.ndim != 2:
        one = f"{name}.reshape(-1, 1) if it is one feature, {name}.reshape(1, -1) if it is one point."
        many = f"{name}.reshape(len({name}), -1) makes one row of each."
        raise ValueError(
            f"{name} must have two dimensions, one row per point; got shape {data.shape}. "
            f"Reshape your data: {one if data.ndim == 1 else many}"
        )
    for count, what, more in zip(data.shape, ("sample", "feature"), ("rows", "columns"), strict=True):
        if count == 0:
            raise ValueError(
                f"{name} has 0 {what}(s) (shape={data.shape}) while a minimum of 1 is required. Give some {more}."
            )


def _check_sparse(X: Any, name: str) -> Features:
    _check_shape(X, name)
    if X.dtype.kind not in "biuf":
        kind = "Complex data not supported" if X.dtype.kind == "c" else "A sparse matrix must hold numbers"
        raise ValueError(f"{kind}: {name} has dtype {X.dtype}.")
    matrix = scipy.sparse.csr_array(X, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    largest = np.abs(matrix.data).max(initial=0.0)
    if not largest <= LARGEST_FEATURE:
        entry = int(np.argmax(~(np.abs(matrix.data) <= LARGEST_FEATURE)))
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        _refuse_number(name, matrix.data[entry], row, int(matrix.indices[entry]), None)
    return Features(matrix)


def _check_numbers(features: Features, name: str, allow_nan: bool) -> None:
    if isinstance(features.data, FileRows) and not allow_nan:  # which remember their extremes after one pass
        smallest, largest = features.data.extremes
        if smallest >= -LARGEST_FEATURE and largest <= LARGEST_FEATURE:
            return
    for start, chunk in row_chunks(features.data):
        if chunk.dtype.kind != "f":
            continue
        low, high = (np.fmin, np.fmax) if allow_nan else (np.minimum, np.maximum)
        smallest, largest = float(low.reduce(chunk, axis=None)), float(high.reduce(chunk, axis=None))
        if smallest >= -LARGEST_FEATURE and largest <= LARGEST_FEATURE:
            continue
        bad = ~(np.abs(chunk.astype(np.float64)) <= LARGEST_FEATURE)
        if allow_nan:
            bad &= ~np.isnan(chunk)
        if bad.any():
            row, column = map(int, np.argwhere(bad)[0])
            _refuse_number(name, chunk[row, column], start + row, column, features.names, more=int(bad.sum()) - 1)


def _refuse_number(name: str, value: Any, row: int, column: int, names: tuple[str, ...] | None, more: int = 0) -> None:
    where = f"row {row}, column {column if names is None else repr(names[column])}"
    others = f" (and {more} more such entries nearby)" if more else ""
    if np.isnan(value):
        raise ValueError(f"{name} contains NaN at {where}{others}. Drop these rows or fill them in.")
    if np.isinf(value):
        raise ValueError(f"{name} contains infinity (inf) at {where}{others}. Drop these rows or replace the value.")
    raise ValueError(
        f"{name} holds values too large for 64-bit distances: {value:.3g} at {where}{others}. "
        f"Rescale the features; magnitudes up to {LARGEST_FEATURE:.0e} are safe."
    )


def describe_rows(rows: npt.NDArray[Any]) -> str:
    """A few row numbers, and how many more."""
    listed = ", ".join(str(int(row)) for row in rows[:ROWS_NAMED])
    more = f" and {rows.size - ROWS_NAMED} more" if rows.size > ROWS_NAMED else ""
    return f"row{'s' if rows.size > 1 else ''} {listed}{more}"


def check_same_features(fitted: Features, given: Features, name: str) -> str | None:
    """Refuse other columns than those of fit; returns a warning when only one side has names."""
    if given.n_columns != fitted.n_columns:
        raise ValueError(
            f"{name} has {given.n_columns} features, but X had {fitted.n_columns} features when fit was called. "
            "Give both the same columns."
        )
    if fitted.names is None or given.names is None:
        if fitted.names is given.names:
            return None
        has, had = ("no feature names", "them") if given.names is None else ("feature names", "none")
        return f"{name} has {has}, but X in fit had {had}: columns are taken in their order."
    if fitted.names == given.names:
        return None
    missing = [c for c in fitted.names if c not in given.names]
    unexpected = [c for c in given.names if c not in fitted.names]
    if not missing and not unexpected:
        raise ValueError(
            f"{name} has the columns of fit in another order. Reorder it: {name}[list(est.feature_names_in_)]."
        )
    raise ValueError(
        f"{name} has other feature names than X in fit. "
        f"Missing: {missing[:ROWS_NAMED]}; unexpected: {unexpected[:ROWS_NAMED]}."
    )
