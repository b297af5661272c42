"""A file to a table or to arrays. Anything wrong with the file is one InputError that names it."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearworth.inputs.file_rows import map_npy
from nearworth.tables.csv_read import find_dialect, read_csv
from nearworth.tables.errors import InputError, listed, plural

FORMATS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "CSV"),
    **dict.fromkeys((".parquet", ".pq"), "Parquet"),
    **dict.fromkeys((".feather", ".arrow"), "Feather"),
    **dict.fromkeys((".npz", ".npy"), "numpy"),
}
ARRAYS = (".npz", ".npy")
OTHERS = {
    **dict.fromkeys((".gz", ".bz2", ".xz", ".zst", ".zip"), "compressed; unpack it first"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "a workbook; save it as CSV"),
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), "a pickle, which could run code; save it as Parquet or CSV"),
}


@dataclass(frozen=True)
class Source:
    """The contents of a file: a table, or an array X with labels y if it has them; and remarks for the user."""

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
    """Read CSV, TSV, Parquet, Feather, npz (`X`, `y`) or npy, by extension; text_only leaves CSV cells as text."""
    with _opened(path) as (file, kind):
        if kind == "CSV":
            return _read_csv(file, text_only)
        if kind == "numpy":
            return _read_npz(file) if file.suffix.lower() == ".npz" else _read_npy(file)
        return _read_columnar(file, kind)


def count_rows(path: str | os.PathLike[str]) -> int:
    """How many rows `read` would find; a Parquet file need not be read for that."""
    with _opened(path) as (file, kind):
        if kind == "Parquet":
            return int(_open_parquet(file).metadata.num_rows)
    source = read(path)
    return source.table.num_rows if source.is_table else len(source.X)


def read_labels(path: str | os.PathLike[str]) -> Any:
    """The array of labels in an .npy file."""
    with _opened(path) as (file, _):
        return _load_npy(file)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[Path, str]]:
    """The checked path and its format; errors of the operating system and of the file's format become InputErrors."""
    file = Path(path)
    kind = _check_path(file)
    try:
        yield file, kind
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}.") from error
    except (ValueError, EOFError, zipfile.BadZipFile, pa.ArrowNotImplementedError, pa.ArrowKeyError) as error:
        if "pickle" in str(error) or "Python objects" in str(error):
            why = "holds pickled objects, which could run code. Save plain numeric arrays instead."
        else:
            why = f"is not a {kind} file that can be read: {(str(error) or repr(error)).splitlines()[0]}"
        raise InputError(f"{file}: {why}") from error


def _check_path(path: Path) -> str:
    suffix = path.suffix.lower()
    if path.is_dir():
        raise InputError(f"{path}: is a directory; give one file.")
    if not path.exists():
        raise InputError(f"{path}: there is no such file.")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: no permission to read it.")
    if not path.is_file():
        raise InputError(f"{path}: is not a regular file; save the data to one first.")
    if suffix in OTHERS:
        raise InputError(f"{path}: is {OTHERS[suffix]}.")
    if suffix not in FORMATS:
        raise InputError(f"{path}: its extension {path.suffix!r} is not known. Use one of {', '.join(FORMATS)}.")
    return FORMATS[suffix]


def _read_csv(path: Path, text_only: bool) -> Source:
    dialect = find_dialect(path)
    remarks = []
    if dialect.encoding != "utf-8":
        remarks.append(f"{path}: is not UTF-8; read as {dialect.encoding}")
    if dialect.delimiter not in (",", "\t"):
        remarks.append(f"{path}: columns are separated by {dialect.delimiter!r}")
    if dialect.decimal == ",":
        remarks.append(f"{path}: numbers have decimal commas")
    return Source(str(path), _check_table(path, read_csv(path, dialect, text_only)), remarks=tuple(remarks))


def _read_columnar(path: Path, kind: str) -> Source:
    import pyarrow.feather as feather

    table = _open_parquet(path).read() if kind == "Parquet" else feather.read_table(path)
    nameless = [name for name in table.column_names if name.startswith("__index_level_")]  # row numbers of pandas
    return Source(str(path), _check_table(path, table.drop_columns(nameless)))


def _open_parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path)


def _check_table(path: Path, table: Any) -> Any:
    repeated = [name for name, count in Counter(table.column_names).items() if count > 1]
    if repeated:
        raise InputError(f"{path}: the column name {listed(repeated)} occurs more than once. Make the names distinct.")
    if table.num_rows == 0:
        raise InputError(f"{path}: has {table.num_columns} {plural('column', table.column_names)} but no rows.")
    return table


def _read_npz(path: Path) -> Source:
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path}: is not a numpy archive (.npz).")
    try:
        with np.errstate(all="raise"), np.load(path, allow_pickle=False) as archive:
            # numpy gives the bytes of a member that is no array
            arrays = {name: np.asarray(archive[name]) for name in archive.files if name in ("X", "y")}
            names = archive.files
    except OSError:
        raise
    except Exception as error:  # headers are Python literals: damage can surface as almost anything
        raise ValueError(str(error) or repr(error)) from error
    if "X" not in arrays:
        raise InputError(f"{path}: holds the arrays {listed(names)}; nearworth needs `X` (and `y`).")
    return Source(str(path), X=_as_matrix(path, arrays["X"]), y=arrays.get("y"))


def _read_npy(path: Path) -> Source:
    return Source(str(path), X=_as_matrix(path, _load_npy(path)))


def _load_npy(path: Path) -> Any:
    with open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise InputError(f"{path}: is not a numpy array (.npy).")
    try:
        return map_npy(path, f"{path}:")  # stays on disk
    except ValueError as error:
        raise InputError(str(error)) from error


def _as_matrix(path: Path, X: Any) -> Any:
    if X.ndim < 2:
        raise InputError(f"{path}: X must have one row per point, so two dimensions; its shape is {X.shape}.")
    if 0 in X.shape:
        raise InputError(f"{path}: X is empty; its shape is {X.shape}.")
    return X.reshape(len(X), -1)  # images become rows of pixels
