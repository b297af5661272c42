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
        arrays = _load_npz(file) if file.suffix.lower() == ".npz" else {"X": map_npy(file, f"{file}:")}
        return DataFile(str(file), X=_as_matrix(file, arrays["X"]), y=arrays.get("y"))


def count_rows(path: str | os.PathLike[str]) -> int:
    """How many rows `read` would find; a Parquet file need not be read for that."""
    with _opened(path) as (file, kind):
        if kind == "Parquet":
            import pyarrow.parquet as pq

            return int(pq.read_metadata(file).num_rows)
    source = read(path)
    return source.table.num_rows if source.is_table else len(source.X)


def read_labels(path: str | os.PathLike[str]) -> Any:
    """The array of labels in an .npy file."""
    with _opened(path) as (file, _):
        return map_npy(file, f"{file}:")


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[Path, str]]:
    """The checked path and its format; errors of the operating system and of the file's format become InputErrors."""
    file = Path(path)
    suffix = file.suffix.lower()
    problems = {
        "is a directory; give one file": file.is_dir(),
        "there is no such file": not file.exists(),
        "no permission to read it": not os.access(file, os.R_OK),
        "is not a regular file; save the data to one first": not file.is_file(),
        f"is {OTHERS.get(suffix)}": suffix in OTHERS,
        f"its extension {file.suffix!r} is not known. Use one of {', '.join(FORMATS)}": suffix not in FORMATS,
    }
    for problem, found in problems.items():
        if found:
            raise InputError(f"{file}: {problem}.")
    kind = FORMATS[suffix]
    try:
        yield file, kind
    except InputError:
        raise
    except Exception as error:  # damage to a file can surface as almost anything, a size beyond memory included
        why = (getattr(error, "strerror", None) or str(error) or repr(error)).splitlines()[0]
        if why.startswith(f"{file}: "):
            raise InputError(why) from error
        if "pickle" in why or "Python objects" in why:
            raise InputError(f"{file}: holds pickled objects, which could run code. Save plain arrays.") from error
        raise InputError(f"{file}: is not a {kind} file that can be read: {why}") from error


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
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path).read() if kind == "Parquet" else feather.read_table(path)
    return table.drop_columns([n for n in table.column_names if n.startswith("__index_level_")])  # rows of pandas


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
    with np.errstate(all="raise"), np.load(path, allow_pickle=False) as archive:
        if "X" not in archive:
            raise InputError(f"{path}: holds the arrays {listed(archive.files)}; nearworth needs `X` (and `y`).")
        return {name: archive[name] for name in ("X", "y") if name in archive}


def _as_matrix(path: Path, X: Any) -> Any:
    if X.ndim < 2 or 0 in X.shape:
        raise InputError(f"{path}: X must have two dimensions, one row per point, and a point; its shape is {X.shape}.")
    return X.reshape(len(X), -1)  # images become rows of pixels
