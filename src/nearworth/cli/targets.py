"""Labels and targets of files as numpy arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearworth.tables import InputError, listed
from nearworth.tables.columns import kind_of, missing_cells
from nearworth.tables.read import ARRAYS, DataFile, read_labels

MANY_CLASSES, FEW_PER_CLASS = 20, 5


def column_target(source: DataFile, name: str, task: str, like: Any = None) -> Any:
    """A column as integers, booleans or text (text if `like` is), or as numbers for regression."""
    where = f"{source.path}: the target {name!r}"
    column = source.table[name]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = kind_of(column)
    empty = missing_cells(column)
    if kind == "text":
        empty = empty | pc.equal(pc.utf8_trim_whitespace(pc.fill_null(column.cast(pa.string()), "")), "").to_numpy()
    if empty.any():
        rows = listed(np.flatnonzero(empty).tolist())
        raise InputError(f"{where} is missing at row {rows} (0-based). Drop or fill these rows.")
    if task == "regression":
        if kind != "number":
            raise InputError(f"{where} holds {kind}, but --task regression needs numbers.")
        return _finite(column.cast(pa.float64(), safe=False).to_numpy(), where)
    if kind == "list":
        raise InputError(f"{where} holds lists, which cannot be labels.")
    if kind in ("number", "truth") and (like is None or like.dtype != object):
        exact = kind == "truth" or pa.types.is_integer(column.type)
        return column.to_numpy() if exact else _whole(column.cast(pa.float64(), safe=False).to_numpy(), where)
    return np.array(pc.cast(column, pa.string()).to_pylist(), dtype=object)


def array_target(source: DataFile, target: str | None) -> Any:
    """Labels beside an array: `y` of its archive, or an .npy file of their own."""
    y = source.y
    if target is not None and Path(target).suffix.lower() in ARRAYS:
        y = read_labels(target)
    elif target is not None and not (target == "y" and y is not None):
        raise InputError(f"{source.path}: arrays have no column {target!r}; --target may name an .npy file of labels.")
    if y is None:
        raise InputError(f"{source.path}: has no labels. Use an .npz with `X` and `y`, or --target labels.npy.")
    if y.ndim != 1 or len(y) != len(source.X):
        raise InputError(f"{source.path}: y has shape {y.shape} for {len(source.X):,} rows; give one label per row.")
    return y if y.dtype.kind != "f" else _finite(y, f"{source.path}: y")


def check_target(y: Any, what: str, task: str) -> list[str]:
    """Refuse targets from which nothing can be learnt; warn of many classes of few rows each, which may be amounts."""
    if len(y) == 1:
        raise InputError(f"{what} has one row only: there is nothing to compare it with.")
    distinct = set(y.tolist())
    if len(distinct) == 1:
        raise InputError(f"{what} is {next(iter(distinct))!r} in every row: with one class there is nothing to learn.")
    if task == "classification" and len(distinct) == len(y) > 2:
        advice = "Is it another column, or --task regression?"
        raise InputError(f"{what} is different in each of the {len(y):,} rows, so no two share a class. {advice}")
    n, amounts = len(distinct), task == "classification" and y.dtype.kind in "iuf"
    if not amounts or n <= MANY_CLASSES or n * FEW_PER_CLASS <= len(y):
        return []
    return [f"warning: the target has {n:,} distinct numbers in {len(y):,} rows: did you mean --task regression?"]


def _whole(values: Any, where: str) -> Any:
    broken = np.flatnonzero(_finite(values, where) != np.trunc(values))
    if len(broken):
        found = f"{values[broken[0]]:g} at row {broken[0]}"
        raise InputError(f"{where} holds {found}: numbers with fractions are no classes. Use --task regression.")
    return values.astype(np.int64)


def _finite(values: Any, where: str) -> Any:
    strange = np.flatnonzero(~np.isfinite(values))
    if len(strange):
        raise InputError(f"{where} is NaN or infinite at row {listed(strange.tolist())} (0-based).")
    return values
