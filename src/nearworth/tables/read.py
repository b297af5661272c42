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

from nearworth.inputs.file_rows import map_npy
from nearworth.tables import InputError, listed
from nearworth.tables.csv_files import find_dialect, read_csv

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
class DataFile:
    """The contents of a file: a table, or an array X with labels y if it has them; and remarks for the user."""

    path: str
    table: Any = None
    X: Any = None
    y: Any = None
    remarks: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        return self.table is not None


def read(path: str | os.PathLike[str], text_only: bool = False) -> DataFile:
    """Read CSV, TSV, Parquet, Feather, npz (`X`, `y`) or npy, by extension; text_only leaves CSV cells as text."""
    with _opened(path) as (file, kind):
        if kind == "CSV":
            return _read_csv(file, text_only)
        if kind != "numpy":
            return DataFile(str(file), _check_table(file, _read_columnar(file, kind)))
        arrays = _load_npz(file) if file.suffix.lower() == ".npz" else {"X": _load_npy(file)}
        return DataFile(str(file), X=_as_matrix(file, arrays["X"]), y=arrays.get("y"))


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
    problem = _problem(file)
    if problem:
        raise InputError(f"{file}: {problem}.")
    kind = FORMATS[file.suffix.lower()]
    try:
        yield file, kind
    except (InputError, MemoryError):
        raise
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # damage to a file can surface as almost anything
        if "pickle" in str(error) or "Python objects" in str(error):
            why = "holds pickled objects, which could run code. Save plain numeric arrays instead."
        else:
            why = f"is not a {kind} file that can be read: {(str(error) or repr(error)).splitlines()[0]}"
        raise InputError(f"{file}: {why}") from error


def _problem(path: Path) -> str | None:
    suffix = path.suffix.lower()
    if path.is_dir():
        return "is a directory; give one file"
    if not path.exists():
        return "there is no such file"
    if not os.access(path, os.R_OK):
        return "no permission to read it"
    if not path.is_file():
        return "is not a regular file; save the data to one first"
    if suffix in OTHERS:
        return f"is {OTHERS[suffix]}"
    known = suffix in FORMATS
    return None if known else f"its extension {path.suffix!r} is not known. Use one of {', '.join(FORMATS)}"


def _read_csv(path: Path, text_only: bool) -> DataFile:
    dialect = find_dialect(path)
    found = {
        f"is not UTF-8; read as {dialect.encoding}": dialect.encoding != "utf-8",
        f"columns are separated by {dialect.delimiter!r}": dialect.delimiter not in (",", "\t"),
        "numbers have decimal commas": dialect.decimal == ",",
    }
    remarks = tuple(f"{path}: {remark}" for remark, holds in found.items() if holds)
    return DataFile(str(path), _check_table(path, read_csv(path, dialect, text_only)), remarks=remarks)


def _read_columnar(path: Path, kind: str) -> Any:
    import pyarrow.feather as feather

    table = _open_parquet(path).read() if kind == "Parquet" else feather.read_table(path)
    return table.drop_columns([n for n in table.column_names if n.startswith("__index_level_")])  # rows of pandas


def _open_parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path)


def _check_table(path: Path, table: Any) -> Any:
    repeated = [name for name, count in Counter(table.column_names).items() if count > 1]
    if repeated:
        raise InputError(f"{path}: the column name {listed(repeated)} occurs more than once. Make the names distinct.")
    if table.num_rows == 0:
        raise InputError(f"{path}: has {table.num_columns} column{'s' * (table.num_columns != 1)} but no rows.")
    return table


def _load_npz(path: Path) -> dict[str, Any]:
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path}: is not a numpy archive (.npz).")
    try:
        with np.errstate(all="raise"), np.load(path, allow_pickle=False) as archive:
            names = archive.files
            arrays = {name: archive[name] for name in ("X", "y") if name in names}
    except MemoryError as error:  # sizes that a damaged header claims
        raise InputError(f"{path}: holds an array that does not fit into memory ({error}).") from error
    if "X" not in arrays:
        raise InputError(f"{path}: holds the arrays {listed(names)}; nearworth needs `X` (and `y`).")
    return arrays


def _load_npy(path: Path) -> Any:
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
