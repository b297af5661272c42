"""A path to a table or to arrays. Whatever is wrong with the file is one line that names it."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearworth.inputs.npy import map_npy
from nearworth.tables.delimited import find_dialect, read_delimited
from nearworth.tables.errors import InputError, listed

TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".feather", ".arrow")
ARRAYS = (".npz", ".npy")
OTHERS = {
    **dict.fromkeys((".gz", ".bz2", ".xz", ".zst", ".zip"), "compressed; unpack it first"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "a workbook; save it as CSV"),
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), "a pickle, which could run code; save it as Parquet or CSV"),
}


@dataclass(frozen=True)
class Source:
    """What a file held: a table, or an array X with labels y where there are any; and remarks worth telling."""

    path: str
    table: Any = None
    X: Any = None
    y: Any = None
    remarks: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether columns have names."""
        return self.table is not None


def read(path: str | os.PathLike[str], text_only: bool = False) -> Source:
    """Read CSV, TSV, Parquet, Feather, npz (`X`, `y`) or npy, by extension."""
    file = _check(Path(path))
    suffix = file.suffix.lower()
    try:
        if suffix in (".csv", ".tsv", ".txt"):
            return _delimited(file, text_only)
        if suffix in (".parquet", ".pq"):
            return _columnar(file, "Parquet")
        if suffix in (".feather", ".arrow"):
            return _columnar(file, "Feather")
        return _npz(file) if suffix == ".npz" else _npy(file)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}.") from error


def count_rows(path: str | os.PathLike[str]) -> int:
    """How many rows `read` would find; Parquet and npy files say so themselves."""
    file = _check(Path(path))
    if file.suffix.lower() in (".parquet", ".pq"):
        return int(_parquet(file).metadata.num_rows)
    if file.suffix.lower() == ".npy":
        return len(_npy(file).X)
    source = read(path)
    return source.table.num_rows if source.is_table else len(source.X)


def _check(path: Path) -> Path:
    if path.is_dir():
        raise InputError(f"{path}: is a directory; give one file.")
    if not path.exists():
        raise InputError(f"{path}: there is no such file.")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: no permission to read it.")
    if not path.is_file():
        raise InputError(f"{path}: is not a regular file; save the data to one first.")
    if path.suffix.lower() in OTHERS:
        raise InputError(f"{path}: is {OTHERS[path.suffix.lower()]}.")
    if path.suffix.lower() not in TABLES + ARRAYS:
        known = ", ".join(TABLES + ARRAYS)
        raise InputError(f"{path}: its extension {path.suffix!r} is not known. Use one of {known}.")
    return path


def _delimited(path: Path, text_only: bool) -> Source:
    dialect = find_dialect(path)
    remarks = []
    if dialect.encoding != "utf-8":
        remarks.append(f"{path}: is not UTF-8; read as {dialect.encoding}")
    if dialect.delimiter not in (",", "\t"):
        remarks.append(f"{path}: columns are separated by {dialect.delimiter!r}")
    if dialect.decimal == ",":
        remarks.append(f"{path}: numbers have decimal commas")
    return Source(str(path), read_delimited(path, dialect, text_only), remarks=tuple(remarks))


def _columnar(path: Path, kind: str) -> Source:
    from nearworth.inputs.arrow import index_of_pandas

    with _readable(path, kind):
        if kind == "Parquet":
            table = _parquet(path).read()
        else:
            import pyarrow.feather as feather

            table = feather.read_table(path)
    nameless = [name for name in index_of_pandas(table.schema) if name.startswith("__index_level_")]
    table = table.drop_columns(nameless)
    repeated = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if repeated:
        raise InputError(f"{path}: the column name {listed(repeated)} occurs more than once. Make the names distinct.")
    if table.num_rows == 0:
        raise InputError(f"{path}: has {table.num_columns} columns but no rows.")
    return Source(str(path), table)


def _parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    with _readable(path, "Parquet"):
        return pq.ParquetFile(path)


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError) as error:
        raise InputError(f"{path}: is not a {kind} file that can be read: {str(error).splitlines()[0]}") from error


def _npz(path: Path) -> Source:
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path}: is not a numpy archive (.npz).")
    try:
        with np.errstate(all="raise"), np.load(path, allow_pickle=False) as archive:
            names = archive.files
            if "X" not in names:
                raise InputError(f"{path}: holds the arrays {listed(names)}; nearworth needs `X` (and `y`).")
            return Source(str(path), X=_matrix(path, archive["X"]), y=archive["y"] if "y" in names else None)
    except OSError:
        raise
    except Exception as error:  # headers are Python literals: damage can surface as almost anything
        raise _not_numpy(path, error) from error


def read_labels(path: str | os.PathLike[str]) -> Any:
    """An array of labels from an .npy file."""
    return _array(_check(Path(path)))


def _npy(path: Path) -> Source:
    return Source(str(path), X=_matrix(path, _array(path)))


def _array(path: Path) -> Any:
    with open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise InputError(f"{path}: is not a numpy array (.npy).")
    try:
        return map_npy(path, f"{path}:")  # stays on disk
    except ValueError as error:
        raise InputError(str(error)) from error


def _not_numpy(path: Path, error: Exception) -> InputError:
    if isinstance(error, InputError):
        return error
    if "pickle" in str(error) or "Python objects" in str(error):
        return InputError(f"{path}: holds pickled objects, which could run code. Save plain numeric arrays instead.")
    return InputError(f"{path}: is not a numpy file that can be read.")


def _matrix(path: Path, X: Any) -> Any:
    if X.ndim < 2:
        raise InputError(f"{path}: X must have one row per point, so two dimensions; its shape is {X.shape}.")
    if 0 in X.shape:
        raise InputError(f"{path}: X is empty; its shape is {X.shape}.")
    return X if X.ndim == 2 else X.reshape(len(X), -1)  # images become rows of pixels
