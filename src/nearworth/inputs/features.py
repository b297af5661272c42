"""X in any form (arrays, lists, frames of three libraries, sparse matrices, memory maps, files) to
a numeric matrix.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common import native
from nearworth._common.types import FloatVector
from nearworth._common.warnings import warn_user
from nearworth.inputs.file_rows import PIECE, FileRows

LARGEST_FEATURE = 1e150  # squares of larger numbers leave no room to be added up in 64-bit floats
LARGEST_INTEGER = 2**53
NAMED = 5  # rows or columns in a message
BLOCK = 1024  # numbers that a fingerprint adds up
CACHED = 2**18  # numbers that stay in the cache while they are read several times


def is_sparse(data: Any) -> bool:
    """Whether it is a sparse matrix of scipy, which need not be loaded to say that it is not."""
    issparse = getattr(sys.modules.get("scipy.sparse"), "issparse", None)
    return issparse is not None and bool(issparse(data))


def is_masked(data: Any) -> bool:
    """Whether it is a masked array of numpy, the module of which is loaded then."""
    return "numpy.ma" in sys.modules and np.ma.isMaskedArray(data)


@dataclass(frozen=True)
class Features:
    """A matrix of numbers: dense, in the dtype it was given in and on disk if it was there, or
    CSR.
    """

    data: Any  # ndarray, FileRows or scipy.sparse.csr_array
    names: tuple[str, ...] | None = None  # of columns
    backend: str | None = None  # library of the frame it was
    index: Any = None  # of the rows, if that was pandas

    @property
    def is_sparse(self) -> bool:
        return is_sparse(self.data)


def check_features(X: Any, name: str, *, allow_nan: bool = False) -> Features:
    """Numbers in two dimensions, finite and small enough to be squared; `allow_nan` lets missing
    entries pass.
    """
    if X is None:
        raise ValueError(
            f"{name} is None. Give a two-dimensional array, a frame or a sparse matrix."
        )
    X = as_numpy(X)
    if isinstance(X, Features):  # opened by `sources`, not yet checked
        features = replace(X, data=_from_array(X.data, name))
    elif is_sparse(X):
        features = Features(_from_sparse(X, name))
    else:
        frame = as_narwhals(X, name)
        is_frame = frame is not None and len(frame.shape) == 2
        features = _from_frame(frame, name) if is_frame else Features(_from_array(X, name))
    shape = features.data.shape
    if len(shape) != 2:
        needed = f"{name} must have two dimensions, one row per point; got shape {shape}."
        raise ValueError(
            f"{needed} Reshape your data: {name}.reshape(len({name}), -1) makes one row of each"
            " point."
        )
    if 0 in shape:
        what = "sample" if shape[0] == 0 else "feature"
        raise ValueError(
            f"{name} has 0 {what}(s) (shape={shape}) while a minimum of 1 is required. Give some."
        )
    _check_numbers(features, name, allow_nan)
    return features


def as_numpy(data: Any) -> Any:
    """A torch tensor as numpy takes it: without its gradient, in main memory, bfloat16 as float32;
    else unchanged.
    """
    if type(data).__module__.partition(".")[0] != "torch" or not hasattr(data, "to_dense"):
        return data
    try:
        return data.to_dense().numpy(force=True)
    except TypeError:  # types that numpy does not have, all of them narrower
        return data.to_dense().float().numpy(force=True)


def as_narwhals(data: Any, name: str) -> Any:
    """A frame or series as narwhals wraps it; None for anything else."""
    if isinstance(data, np.ndarray | list | tuple):  # most data: narwhals need not be loaded
        return None
    import narwhals.stable.v2 as nwl

    try:
        wrapped = nwl.from_native(data, allow_series=True, pass_through=True)
        if isinstance(wrapped, nwl.LazyFrame):
            raise TypeError(f"{name} is a lazy frame. Call .collect() on it first.")
        if isinstance(wrapped, nwl.DataFrame):
            _ = wrapped.columns  # where some versions look for duplicates
    except nwl.exceptions.DuplicateError:
        raise ValueError(f"{name} has two columns of one name. Rename one.") from None
    return wrapped if isinstance(wrapped, nwl.DataFrame | nwl.Series) else None


def check_label_column(label: str, columns: Iterable[str], name: str) -> None:
    columns = list(columns)
    if label not in columns:
        raise ValueError(
            f"{name} has no column {label!r} for the labels; it has"
            f" {', '.join(map(repr, columns[:12]))}."
        )


def refuse_rows(mask: npt.ArrayLike, name: str, what: str, first: int = 0) -> None:
    """Name the rows that have what they should not; `first` is the number of the first row of the
    mask.
    """
    rows = np.flatnonzero(np.asarray(mask, dtype=bool)) + first
    if rows.size:
        listed = ", ".join(map(str, rows[:NAMED].tolist()))
        more = f" and {rows.size - NAMED} more" if rows.size > NAMED else ""
        many = "s" if rows.size > 1 else ""
        raise ValueError(
            f"{name} has {what} at row{many} {listed}{more}. Drop these rows or fill them in."
        )


def _from_frame(frame: Any, name: str) -> Features:
    import narwhals.stable.v2 as nwl

    from nearworth.inputs.arrow import read_table  # loads pyarrow

    index = nwl.maybe_get_index(frame)
    try:
        table = nwl.maybe_reset_index(frame).to_arrow()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} has a column that cannot be read as numbers: {error}") from None
    data, names = read_table(table, name)
    names = names if isinstance(frame.columns[0], str) else None
    return Features(data, names, frame.implementation.value, index)


def _from_array(X: Any, name: str) -> npt.NDArray[Any] | FileRows:
    if isinstance(X, FileRows):
        return X
    if is_masked(X) and (masked := int(np.ma.getmaskarray(X).sum())):
        raise ValueError(
            f"{name} is a masked array with {masked} masked entries. Drop or fill these."
        )
    try:
        array = X if isinstance(X, np.memmap) else np.asarray(X)
    except ValueError as error:
        raise ValueError(
            f"{name} is not a rectangular array: its rows differ in length ({error})."
        ) from None
    if array.dtype.kind == "O":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{name} has entries that are not 64-bit numbers: {error}.") from None
    _check_dtype(array.dtype, name)
    return array.astype(np.float64) if array.dtype.itemsize > 8 else array


def _from_sparse(X: Any, name: str) -> Any:
    import scipy.sparse

    _check_dtype(X.dtype, name)
    matrix = scipy.sparse.csr_array(X, dtype=np.float64, copy=True)
    matrix.sum_duplicates()  # which also sorts
    matrix.eliminate_zeros()
    return matrix


def _check_dtype(dtype: np.dtype[Any], name: str) -> None:
    if dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} has dtype {dtype}. Split real and imaginary parts."
        )
    if dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must hold numbers; got dtype {dtype}. Encode text and dates as numbers first."
        )


def _check_numbers(features: Features, name: str, allow_nan: bool) -> None:
    entries: Any = features.data.data[:, None] if features.is_sparse else features.data
    is_float = entries.dtype.kind == "f"
    if not is_float and entries.dtype.itemsize < 8:
        return
    limit = LARGEST_FEATURE if is_float else LARGEST_INTEGER
    for start, chunk in row_chunks(entries, CACHED):
        if chunk.min().item() >= -limit and chunk.max().item() <= limit:
            continue
        if not is_float:
            raise ValueError(
                f"{name} holds whole numbers beyond 2**53, which floats cannot tell apart. Divide"
                " them."
            )
        bad = np.argwhere(
            ~(np.abs(chunk.astype(np.float64)) <= limit) & ~(allow_nan & np.isnan(chunk))
        )
        if len(bad):
            row, column = bad[0].tolist()
            raise ValueError(
                _strange_number(features, name, chunk[row, column], start + row, column)
            )


def _strange_number(features: Features, name: str, value: Any, row: int, column: int) -> str:
    if features.is_sparse:  # a row of the stored numbers, none of which is 0
        row, column = (int(numbers[row]) for numbers in features.data.nonzero())
    where = (
        f"row {row}, column {column if features.names is None else repr(features.names[column])}"
    )
    if not np.isfinite(value):
        return (
            f"{name} contains {'NaN' if np.isnan(value) else 'infinity (inf)'} at {where}. Drop or"
            " fill such rows."
        )
    safe = f"Rescale the features; magnitudes up to {LARGEST_FEATURE:.0e} are safe."
    return f"{name} holds values too large for 64-bit distances: {value:.3g} at {where}. {safe}"


def check_same_features(fitted: Features, given: Features, name: str) -> None:
    """Refuse other columns than those of fit; warn when only one side has names."""
    n_fitted, n_given = fitted.data.shape[1], given.data.shape[1]
    if n_given != n_fitted:
        had = f"X had {n_fitted} features when fit was called"
        raise ValueError(f"{name} has {n_given} features, but {had}. Give both the same columns.")
    if fitted.names == given.names:
        return
    if fitted.names is None or given.names is None:
        has, had = (
            ("no feature names", "them") if given.names is None else ("feature names", "none")
        )
        warn_user(f"{name} has {has}, but X in fit had {had}: columns are taken in their order.")
        return
    missing = [c for c in fitted.names if c not in given.names]
    unexpected = [c for c in given.names if c not in fitted.names]
    found = f"Missing: {missing[:NAMED]}; unexpected: {unexpected[:NAMED]}."
    if not missing and not unexpected:
        found = f"Their order differs: use {name}[list(est.feature_names_in_)]."
    raise ValueError(f"{name} has other feature names than X in fit. {found}")


def row_chunks(data: Any, entries: int = 2**22) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Consecutive rows of any matrix, at most so many entries at a time, each with the number of
    its first row.
    """
    # What is read from disk comes in small pieces, because each is a new array, and in whole chunks
    # of zarr or h5py.
    entries = entries if isinstance(data, np.ndarray) else min(entries, PIECE // 8)
    chunks = getattr(data, "chunks", None) or [1]
    stored = chunks[0] if isinstance(chunks[0], int) else 1
    step = stored * max(1, entries // max(1, data.shape[1]) // stored)
    for start in range(0, data.shape[0], step):
        yield start, np.asarray(data[start : start + step])


def fingerprint(*parts: Any) -> str:
    """A short hash of arrays and plain values: the same for equal numbers of any dtype, not for
    sparse and dense.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if is_sparse(part):
            digest.update(
                f"sparse{part.shape}{fingerprint(part.indptr, part.indices, part.data)}".encode()
            )
        elif isinstance(part, np.ndarray | FileRows) and part.dtype.kind in "biuf":
            digest.update(f"dense{part.shape}".encode())
            matrix = (
                part
                if isinstance(part, FileRows)
                else part.reshape(*((len(part), -1) if part.size else (0, 1)))
            )
            digest.update(hash_blocks(matrix, BLOCK).astype("<u8").tobytes())
        else:
            digest.update(repr(part.tolist() if isinstance(part, np.ndarray) else part).encode())
    return digest.hexdigest()


def hash_blocks(matrix: Any, size: int) -> npt.NDArray[np.uint64]:
    """Two sums of 64 bits for each block of numbers, mixed with keys of their positions: as fast as
    memory is read.
    """
    sums = np.zeros((-(-matrix.shape[0] * matrix.shape[1] // size), 2), dtype=np.uint64)
    add, keys, start = (
        partial(native.call, "hash_numbers") if native.available() else hash_numbers,
        _hash_keys(size),
        0,
    )
    dtype = np.float32 if matrix.dtype == np.float32 and native.available() else np.float64
    for _, chunk in row_chunks(matrix, CACHED):
        numbers: npt.NDArray[Any] = np.ascontiguousarray(chunk, dtype=dtype).reshape(-1)
        add(numbers, start, keys, sums)
        start += len(numbers)
    return sums


def hash_numbers(
    numbers: FloatVector, start: int, keys: npt.NDArray[np.uint64], sums: npt.NDArray[np.uint64]
) -> None:
    """native/hash.c in numpy, for one number or more."""
    size = keys.shape[1]
    position = start % size
    firsts = np.maximum(np.arange(-position, len(numbers), size), 0)  # of each block
    words = (numbers + 0.0).view(np.uint64)  # -0.0 is 0.0
    words ^= words >> 32  # whole numbers have nothing in their lower half
    for number in (0, 1):
        mixed = words ^ np.resize(np.roll(keys[number], -position), len(words))
        added = np.add.reduceat((mixed & 0xFFFFFFFF) * (mixed >> 32), firsts)
        sums[start // size :][: len(added), number] += added


@lru_cache(2)
def _hash_keys(size: int) -> npt.NDArray[np.uint64]:
    stream = hashlib.shake_128(b"nearworth").digest(2 * size * 8)
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64).reshape(2, size)
