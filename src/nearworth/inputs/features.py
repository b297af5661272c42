"""X in any form to a numeric matrix.

X may be an array, a list, a frame of three libraries, a sparse matrix, a memory map or a file.
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

# Squares of larger numbers leave no room to be added up in 64-bit floats.
MAX_FEATURE = 1e150
# Larger whole numbers are not told apart by 64-bit floats.
MAX_INTEGER = 2**53
# Rows or columns in a message.
MAX_NAMED = 5
# Columns listed where one was not found.
MAX_LISTED_COLUMNS = 12
# Numbers that a fingerprint adds up.
BLOCK = 1024
# Numbers that stay in the cache while they are read several times.
CACHED = 2**18
# Numbers in a chunk of rows in memory.
CHUNK_ENTRIES = 2**22


def is_sparse(data: Any) -> bool:
    """Whether it is a sparse matrix of scipy, which need not be loaded to say that it is not."""
    issparse = getattr(sys.modules.get("scipy.sparse"), "issparse", None)
    return issparse is not None and bool(issparse(data))


def is_masked(data: Any) -> bool:
    """Whether it is a masked array of numpy, the module of which is loaded then."""
    return "numpy.ma" in sys.modules and np.ma.isMaskedArray(data)


@dataclass(frozen=True)
class Features:
    """A matrix of numbers.

    Attributes
    ----------
    data : array, FileRows or CSR matrix of shape (N, d)
        Dense numbers have the dtype they were given in, and are on disk if they were there.
    names : tuple of d str, or None
        Names of the columns.
    backend : str or None
        Library of the frame it was.
    index : pandas.Index or None
        Index of the rows, if it was a frame of pandas.
    """

    data: Any
    names: tuple[str, ...] | None = None
    backend: str | None = None
    index: Any = None

    @property
    def is_sparse(self) -> bool:
        return is_sparse(self.data)


def check_features(X: Any, name: str, *, allow_nan: bool = False) -> Features:
    """Numbers in two dimensions, finite and small enough to be squared.

    `allow_nan` lets missing entries pass.
    """
    if X is None:
        raise ValueError(
            f"{name} is None. Give a two-dimensional array, a frame or a sparse matrix."
        )
    features = _read_features(as_numpy(X), name)
    _check_shape(features.data.shape, name)
    _check_numbers(features, name, allow_nan)
    return features


def _read_features(X: Any, name: str) -> Features:
    """The matrix with its names, not yet checked."""
    if isinstance(X, Features):
        # Opened by `sources`.
        return replace(X, data=_from_array(X.data, name))
    if is_sparse(X):
        return Features(_from_sparse(X, name))
    frame = as_narwhals(X, name)
    if frame is not None and len(frame.shape) == 2:
        return _from_frame(frame, name)
    return Features(_from_array(X, name))


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 2:
        needed = f"{name} must have two dimensions, one row per point; got shape {shape}."
        raise ValueError(
            f"{needed} Reshape your data: {name}.reshape(len({name}), -1) makes one row of each"
            " point."
        )
    if 0 in shape:
        missing = "sample" if shape[0] == 0 else "feature"
        raise ValueError(
            f"{name} has 0 {missing}(s) (shape={shape}) while a minimum of 1 is required. Give"
            " some."
        )


def as_numpy(data: Any) -> Any:
    """A torch tensor as numpy takes it; anything else unchanged.

    The array has no gradient, is in main memory, and has float32 for bfloat16.
    """
    if type(data).__module__.partition(".")[0] != "torch" or not hasattr(data, "to_dense"):
        return data
    try:
        return data.to_dense().numpy(force=True)
    except TypeError:
        # Types that numpy does not have, all of them narrower.
        return data.to_dense().float().numpy(force=True)


def as_narwhals(data: Any, name: str) -> Any:
    """A frame or series as narwhals wraps it; None for anything else."""
    if isinstance(data, np.ndarray | list | tuple):
        # Most data: narwhals need not be loaded.
        return None
    import narwhals.stable.v2 as nwl

    try:
        wrapped = nwl.from_native(data, allow_series=True, pass_through=True)
        if isinstance(wrapped, nwl.LazyFrame):
            raise TypeError(f"{name} is a lazy frame. Call .collect() on it first.")
        if isinstance(wrapped, nwl.DataFrame):
            # Some versions look for duplicates here.
            _ = wrapped.columns
    except nwl.exceptions.DuplicateError:
        raise ValueError(f"{name} has two columns of one name. Rename one.") from None
    return wrapped if isinstance(wrapped, nwl.DataFrame | nwl.Series) else None


def check_label_column(label: str, columns: Iterable[str], name: str) -> None:
    names = list(columns)
    if label not in names:
        listed = ", ".join(map(repr, names[:MAX_LISTED_COLUMNS]))
        raise ValueError(f"{name} has no column {label!r} for the labels; it has {listed}.")


def refuse_rows(mask: npt.ArrayLike, name: str, what: str, first: int = 0) -> None:
    """Raise an error that names the rows of a mask, if there are any.

    Parameters
    ----------
    mask : array of shape (N,)
        True for rows that have what they should not.
    name : str
        The argument they belong to.
    what : str
        What these rows have.
    first : int
        The number of the first row of the mask.
    """
    rows = np.flatnonzero(np.asarray(mask, dtype=bool)) + first
    if rows.size:
        listed = ", ".join(map(str, rows[:MAX_NAMED].tolist()))
        more = f" and {rows.size - MAX_NAMED} more" if rows.size > MAX_NAMED else ""
        plural = "s" if rows.size > 1 else ""
        raise ValueError(
            f"{name} has {what} at row{plural} {listed}{more}. Drop these rows or fill them in."
        )


def _from_frame(frame: Any, name: str) -> Features:
    import narwhals.stable.v2 as nwl

    # Only here, because it loads pyarrow.
    from nearworth.inputs.arrow import read_table

    index = nwl.maybe_get_index(frame)
    try:
        table = nwl.maybe_reset_index(frame).to_arrow()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} has a column that cannot be read as numbers: {error}") from None
    data, names = read_table(table, name)
    has_text_names = isinstance(frame.columns[0], str)
    return Features(
        data=data,
        names=names if has_text_names else None,
        backend=frame.implementation.value,
        index=index,
    )


def _from_array(X: Any, name: str) -> npt.NDArray[Any] | FileRows:
    if isinstance(X, FileRows):
        return X
    n_masked = int(np.ma.getmaskarray(X).sum()) if is_masked(X) else 0
    if n_masked:
        raise ValueError(
            f"{name} is a masked array with {n_masked} masked entries. Drop or fill these."
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
    # This also sorts the columns of each row.
    matrix.sum_duplicates()
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
    limit = MAX_FEATURE if is_float else MAX_INTEGER
    for start, chunk in row_chunks(entries, CACHED):
        # False also for NaN.
        if chunk.min().item() >= -limit and chunk.max().item() <= limit:
            continue
        if not is_float:
            raise ValueError(
                f"{name} holds whole numbers beyond 2**53, which floats cannot tell apart. Divide"
                " them."
            )
        is_good = np.abs(chunk.astype(np.float64)) <= limit
        is_allowed_nan = allow_nan & np.isnan(chunk)
        positions = np.argwhere(~is_good & ~is_allowed_nan)
        if len(positions):
            row, column = positions[0].tolist()
            value = chunk[row, column]
            raise ValueError(_strange_number(features, name, value, start + row, column))


def _strange_number(features: Features, name: str, value: Any, row: int, column: int) -> str:
    """What is wrong with this number, and where it is."""
    if features.is_sparse:
        # `row` counts the stored numbers, none of which is 0.
        rows, columns = features.data.nonzero()
        column = int(columns[row])
        row = int(rows[row])
    column_name = column if features.names is None else repr(features.names[column])
    where = f"row {row}, column {column_name}"
    if not np.isfinite(value):
        kind = "NaN" if np.isnan(value) else "infinity (inf)"
        return f"{name} contains {kind} at {where}. Drop or fill such rows."
    remedy = f"Rescale the features; magnitudes up to {MAX_FEATURE:.0e} are safe."
    return f"{name} holds values too large for 64-bit distances: {value:.3g} at {where}. {remedy}"


def check_same_features(fitted: Features, given: Features, name: str) -> None:
    """Refuse other columns than those of fit; warn when only one side has names."""
    n_fitted, n_given = fitted.data.shape[1], given.data.shape[1]
    if n_given != n_fitted:
        had = f"X had {n_fitted} features when fit was called"
        raise ValueError(f"{name} has {n_given} features, but {had}. Give both the same columns.")
    if fitted.names == given.names:
        return
    if fitted.names is None or given.names is None:
        if given.names is None:
            warn_user(
                f"{name} has no feature names, but X in fit had them: columns are taken in their"
                " order."
            )
        else:
            warn_user(
                f"{name} has feature names, but X in fit had none: columns are taken in their"
                " order."
            )
        return
    missing = [column for column in fitted.names if column not in given.names]
    unexpected = [column for column in given.names if column not in fitted.names]
    difference = f"Missing: {missing[:MAX_NAMED]}; unexpected: {unexpected[:MAX_NAMED]}."
    if not missing and not unexpected:
        difference = f"Their order differs: use {name}[list(est.feature_names_in_)]."
    raise ValueError(f"{name} has other feature names than X in fit. {difference}")


def row_chunks(data: Any, entries: int = CHUNK_ENTRIES) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Consecutive rows of any matrix, each chunk with the number of its first row.

    A chunk has at most so many entries, but at least one row.
    """
    if not isinstance(data, np.ndarray):
        # What is read from disk comes in small pieces, because each is a new array.
        entries = min(entries, PIECE // 8)
    # Whole chunks of zarr or h5py, which are read as a whole.
    stored_chunks = getattr(data, "chunks", None) or [1]
    stored_rows = stored_chunks[0] if isinstance(stored_chunks[0], int) else 1
    step = stored_rows * max(1, entries // max(1, data.shape[1]) // stored_rows)
    for start in range(0, data.shape[0], step):
        yield start, np.asarray(data[start : start + step])


def fingerprint(*parts: Any) -> str:
    """A short hash of arrays and plain values.

    It is the same for equal numbers of any dtype, but not for sparse and dense matrices.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if is_sparse(part):
            entries = fingerprint(part.indptr, part.indices, part.data)
            digest.update(f"sparse{part.shape}{entries}".encode())
        elif isinstance(part, np.ndarray | FileRows) and part.dtype.kind in "biuf":
            digest.update(f"dense{part.shape}".encode())
            digest.update(hash_blocks(_as_matrix(part), BLOCK).astype("<u8").tobytes())
        else:
            plain = part.tolist() if isinstance(part, np.ndarray) else part
            digest.update(repr(plain).encode())
    return digest.hexdigest()


def _as_matrix(numbers: npt.NDArray[Any] | FileRows) -> Any:
    """Numbers of any shape in two dimensions."""
    if isinstance(numbers, FileRows):
        return numbers
    if not numbers.size:
        return numbers.reshape(0, 1)
    return numbers.reshape(len(numbers), -1)


def hash_blocks(matrix: Any, size: int) -> npt.NDArray[np.uint64]:
    """Two sums of 64 bits for each block of `size` numbers, shape (blocks, 2).

    The numbers are mixed with keys of their positions, as fast as memory is read.
    """
    n_numbers = matrix.shape[0] * matrix.shape[1]
    sums = np.zeros((-(-n_numbers // size), 2), dtype=np.uint64)
    keys = _hash_keys(size)
    is_native = native.available()
    add = partial(native.call, "hash_numbers") if is_native else hash_numbers
    dtype = np.float32 if matrix.dtype == np.float32 and is_native else np.float64
    start = 0
    for _, chunk in row_chunks(matrix, CACHED):
        numbers: npt.NDArray[Any] = np.ascontiguousarray(chunk, dtype=dtype).reshape(-1)
        add(numbers, start, keys, sums)
        start += len(numbers)
    return sums


def hash_numbers(
    numbers: FloatVector, start: int, keys: npt.NDArray[np.uint64], sums: npt.NDArray[np.uint64]
) -> None:
    """native/hash.c in numpy: add the hashes of one number or more to the sums of their blocks.

    Parameters
    ----------
    numbers : array of shape (n,)
    start : int
        The position of the first number among all.
    keys : array of shape (2, size of a block)
    sums : array of shape (blocks, 2)
        Written to.
    """
    size = keys.shape[1]
    position = start % size
    block_starts = np.maximum(np.arange(-position, len(numbers), size), 0)
    # Adding 0.0 makes 0.0 of -0.0.
    words = (numbers + 0.0).view(np.uint64)
    # Whole numbers have nothing in their lower half.
    words ^= words >> 32
    for column in (0, 1):
        mixed = words ^ np.resize(np.roll(keys[column], -position), len(words))
        hashes = (mixed & 0xFFFFFFFF) * (mixed >> 32)
        added = np.add.reduceat(hashes, block_starts)
        sums[start // size :][: len(added), column] += added


@lru_cache(2)
def _hash_keys(size: int) -> npt.NDArray[np.uint64]:
    stream = hashlib.shake_128(b"nearworth").digest(2 * size * 8)
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64).reshape(2, size)
