"""y in any form to class codes or real targets, and what else there is one of per row."""

from __future__ import annotations

import numbers
from collections.abc import Hashable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.text import appearance, refuse_alike
from nearworth._common.types import FloatVector, IntVector
from nearworth._common.warnings import warn_user
from nearworth.inputs.features import as_narwhals, as_numpy, is_masked, refuse_rows

# Values of regression grow like squares of targets, their spread like fourth powers, times squares
# of weights: within these bounds everything stays a 64-bit float.
MAX_TARGET = 1e50
MIN_WEIGHT = 1e-40
# All integers up to here are 64-bit floats.
MAX_EXACT_FLOAT = 2**53
# Numbers are amounts if there are more different ones than this, and fewer rows of each on average;
AMOUNT_MIN_DISTINCT = 20
AMOUNT_MAX_MEAN_ROWS = 5
# or more than this, and half of them have fewer rows.
AMOUNT_MIN_VERY_MANY = 200
AMOUNT_MAX_MEDIAN_ROWS = 12
# Larger whole numbers are sorted, not counted: some do not fit into 64 bits with a sign.
MAX_COUNTED = 2**62
# Kinds of labels.
NUMBER = "numbers"
TEXT = "text"


@dataclass(frozen=True)
class Classes:
    """Training labels as codes.

    Attributes
    ----------
    labels : array of shape (C,)
        The distinct labels in order.
    kind : str
        NUMBER or TEXT.
    codes : array of shape (N,)
        The position of each training label among `labels`.
    """

    labels: npt.NDArray[Any]
    kind: str
    codes: IntVector

    def encode(self, y: Any, name: str, n_rows: int) -> tuple[IntVector, list[Any]]:
        """Codes of further labels, -1 where unseen, and the unseen ones."""
        values, kind = _labels(y, name, n_rows)
        if kind != self.kind:
            raise TypeError(
                f"{name} holds {kind}, but y in fit held {self.kind}. Use the same kind for both."
            )
        codes = _codes(values, self.labels.tolist())
        return codes, list(dict.fromkeys(values[codes < 0].tolist()))


def check_classes(y: Any, name: str, n_rows: int | None = None) -> Classes:
    """Labels for classification: whole numbers, booleans, or text."""
    values, kind = _labels(y, name, n_rows)
    if kind == TEXT:
        distinct = sorted(set(values.tolist()))
        return Classes(np.array(distinct, dtype=object), kind, _codes(values, distinct))
    is_small_range = False
    if values.dtype.kind in "iu":
        low = int(values.min())
        high = int(values.max())
        is_small_range = high - low <= len(values) and high <= MAX_COUNTED
    if not is_small_range:
        labels, codes = np.unique(values, return_inverse=True)
        return Classes(labels, kind, codes.astype(np.intp))

    # A small range is counted, not sorted.
    offsets = values.astype(np.int64) - low
    is_present = np.bincount(offsets) > 0
    labels = (np.flatnonzero(is_present) + low).astype(values.dtype)
    return Classes(labels, kind, (np.cumsum(is_present) - 1)[offsets])


def are_amounts(values: npt.NDArray[Any]) -> bool:
    """Whether numbers look like amounts rather than classes.

    They do if they have fractions, or if few rows share one.
    """
    distinct, counts = np.unique(values, return_counts=True)
    n_distinct = len(distinct)
    is_many = n_distinct > AMOUNT_MIN_DISTINCT and n_distinct * AMOUNT_MAX_MEAN_ROWS > len(values)
    # Half of very many numbers may be shared by some rows, unless they are codes: whole numbers
    # without a gap. As floats, because differences of integers overflow.
    has_gaps = n_distinct > 0 and float(distinct[-1]) - float(distinct[0]) >= n_distinct
    has_few_rows = n_distinct > AMOUNT_MIN_VERY_MANY and np.median(counts) < AMOUNT_MAX_MEDIAN_ROWS
    if is_many or (has_few_rows and has_gaps):
        return True
    return bool(values.dtype.kind == "f" and (values != np.trunc(values)).any())


def check_targets(y: Any, name: str, n_rows: int | None = None) -> FloatVector:
    targets = _real_numbers(
        y, name, n_rows, "numbers for task='regression'", "Use task='classification' for labels."
    )
    row = int(np.abs(targets).argmax())
    if abs(targets[row]) > MAX_TARGET:
        raise ValueError(
            f"{name} holds values too large for 64-bit squares: {targets[row]:.3g} at row {row}."
            " Rescale."
        )
    return targets


def check_weights(sample_weight: Any, n_rows: int) -> FloatVector:
    """Non-negative weights of the validation points, one each; ones when not given."""
    name = "sample_weight"
    if sample_weight is None:
        return np.ones(n_rows)
    weights = _real_numbers(
        sample_weight, name, n_rows, "numbers, one per validation point", "Give a number for each."
    )
    row = int(weights.argmin())
    if weights[row] < 0:
        raise ValueError(f"{name} must not be negative; got {weights[row]:g} at row {row}.")
    positive = weights[weights > 0]
    if not positive.size:
        raise ValueError(f"{name} is zero everywhere. At least one validation point must count.")
    if positive.min() < MIN_WEIGHT or positive.max() > 1 / MIN_WEIGHT:
        problem = (
            f"{name} ranges from {positive.min():g} to {positive.max():g}, too far for sums of"
            " squares."
        )
        raise ValueError(f"{problem} Rescale the weights; only their ratios matter to a mean.")
    return weights


def check_rows(rows: Any, name: str, n_train: int) -> IntVector:
    """Chosen training rows as their numbers, shape (R,).

    They are given by indices, a boolean mask, a slice, or "all". Negative indices count from the
    end, as in numpy.
    """
    if isinstance(rows, str) and rows == "all":
        return np.arange(n_train)
    index: Any = rows if isinstance(rows, slice) else np.ravel(_array(rows, name))
    # An empty list becomes an array of floats, which numpy refuses as an index.
    if np.size(index) == 0:
        index = slice(0)
    try:
        return np.asarray(np.arange(n_train)[index])
    except (IndexError, TypeError) as error:
        needed = (
            f"row numbers of training points (0 to {n_train - 1}), a mask of length {n_train}, a"
            " slice or 'all'"
        )
        raise ValueError(f"{name} must be {needed}: {error}.") from None


def check_owners(owners: Any, n_train: int, name: str = "owners") -> tuple[list[Any], IntVector]:
    """Any labels, one per training row: the distinct ones in order of appearance, and codes.

    Owners that print alike, such as 7 and "7", are refused: outputs name owners by their texts.
    """
    column = _column(owners, name, n_train, "missing owners")
    if column.dtype.kind in "fmM":
        refuse_rows(column != column, name, "missing owners")
    if column.dtype.kind in "mM":
        # Dates as text.
        column = column.astype(str)
    distinct = list(dict.fromkeys(column.tolist()))
    refuse_alike(distinct, name)
    owner_by_appearance: dict[str, Any] = {}
    for owner in distinct:
        first = owner_by_appearance.setdefault(appearance(owner), owner)
        if first is not owner:
            warn_user(
                f"{name}: {first!r} and {owner!r} count as two. Write them alike if they are the"
                " same owner."
            )
            break
    return distinct, _codes(column, distinct)


def _real_numbers(y: Any, name: str, n_rows: int | None, needed: str, advice: str) -> FloatVector:
    """A column of finite numbers as 64-bit floats; dates are not numbers."""
    column = _column(y, name, n_rows)
    if column.dtype.kind not in "biuf":
        entries = column.astype(str) if column.dtype.kind in "mM" else column
        for entry in entries.tolist():
            if not isinstance(entry, numbers.Real | Decimal):
                raise ValueError(
                    f"{name} must be {needed}; got {type(entry).__name__} such as {entry!r}."
                    f" {advice}"
                )
    try:
        floats = column.astype(np.float64)
    except OverflowError:
        raise ValueError(f"{name} holds numbers beyond 64-bit floats. Rescale them.") from None
    refuse_rows(~np.isfinite(floats), name, "NaN or infinity")
    return floats


def _column(
    y: Any, name: str, n_rows: int | None, missing: str = "missing values"
) -> npt.NDArray[Any]:
    """One value per row as an array of shape (N,).

    Missing values are refused: nulls, None, pandas' NA, and objects like NaN.
    """
    if y is None:
        raise ValueError(
            f"This estimator requires {name} to be passed, but the target {name} is None."
        )
    if isinstance(y, str):
        raise ValueError(
            f"{name} must have one entry per row; got the text {y!r}. Give the column of that name."
        )
    series = as_narwhals(y, name)
    if series is not None and len(series.shape) == 2:
        if len(series.columns) != 1:
            raise ValueError(
                f"{name} is a frame of {len(series.columns)} columns; give one column."
            )
        series = series.get_column(series.columns[0])
    if series is not None:
        refuse_rows(series.is_null().to_numpy(), name, missing)
        y = series.to_numpy()
    column = _array(y, name)
    if column.ndim == 2 and column.shape[-1] == 1:
        column = column.ravel()
    if column.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, one entry per row; got shape {column.shape}."
        )
    if n_rows is not None and len(column) != n_rows:
        sizes = f"{len(column)} entries for {n_rows} rows"
        raise ValueError(f"{name} has {sizes}: inconsistent numbers of samples. Give one each.")
    if not len(column):
        raise ValueError(f"{name} is empty. At least one row is needed.")
    # Objects, and numpy's text of any length.
    if column.dtype.kind in "OT":
        refuse_rows([_is_missing(value) for value in column.tolist()], name, missing)
    return column


def _array(y: Any, name: str) -> npt.NDArray[Any]:
    """An array of the entries as they were given; numpy alone would convert mixed ones."""
    y = as_numpy(y)
    if is_masked(y):
        refuse_rows(np.ma.getmaskarray(y).ravel(), name, "masked entries")
    if isinstance(y, list | tuple):
        # numpy would turn [1, "a"] into text and [1, None] into objects; keep what was given.
        kinds = {type(label) for label in y}
        if len(kinds) > 1 and not _all_numbers(kinds):
            return np.array(y, dtype=object)
    try:
        array = np.asarray(y)
    except ValueError:
        raise ValueError(
            f"{name} must be one-dimensional, one entry per row; its entries differ in length."
        ) from None
    are_floats = array.dtype.kind == "f" and isinstance(y, list | tuple)
    if are_floats and any(isinstance(entry, int) and abs(entry) > MAX_EXACT_FLOAT for entry in y):
        # Beside a float, or beyond 63 bits, numpy makes floats of integers, which may lose digits.
        return np.array(y, dtype=object)
    return array


def _labels(y: Any, name: str, n_rows: int | None) -> tuple[npt.NDArray[Any], str]:
    """Labels of one kind, and that kind in words."""
    column = _column(y, name, n_rows)
    if column.dtype.kind in "OUTS":
        kinds = {type(value) for value in column.tolist()}
        if not _all_numbers(kinds):
            if not all(issubclass(kind, str) for kind in kinds):
                types = ", ".join(sorted(kind.__name__ for kind in kinds))
                raise TypeError(
                    f"{name} holds labels of the types {types}. Use numbers or strings."
                )
            return column.astype(object), TEXT
        column = np.array(column.tolist())
    elif column.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} has dtype {column.dtype}, which cannot name classes. Try .astype(str)."
        )
    _check_number_labels(column, name)
    return column, NUMBER


def _check_number_labels(column: npt.NDArray[Any], name: str) -> None:
    """Refuse numbers that are no classes."""
    if column.dtype.kind == "f":
        refuse_rows(~np.isfinite(column), name, "NaN or infinity")
        is_fraction = column != np.trunc(column)
        if is_fraction.any():
            row = int(np.argmax(is_fraction))
            problem = (
                f"Unknown label type: {name} holds continuous values ({column[row]} at row {row})"
            )
            needed = (
                "task='classification' needs classes. Use task='regression', or bin the values."
            )
            raise ValueError(f"{problem}, but {needed}")

    # Larger floats may have been other integers.
    limit = {"f": 2.0**53, "u": 2.0**63}.get(column.dtype.kind)
    is_too_large = column.dtype.kind == "O"
    if limit is not None:
        is_too_large = bool((np.abs(column.astype(np.float64)) >= limit).any())
    if is_too_large:
        raise ValueError(f"{name} holds labels beyond 64-bit integers. Convert them to strings.")


def _all_numbers(kinds: set[type]) -> bool:
    return all(issubclass(kind, bool | int | float | np.number | np.bool_) for kind in kinds)


def _codes(values: npt.NDArray[Any], distinct: list[Any]) -> IntVector:
    """Positions of values among distinct ones, -1 for others.

    Numbers are equal whatever their type.
    """
    code_of = {label: code for code, label in enumerate(distinct)}
    return np.array([code_of.get(value, -1) for value in values.tolist()], dtype=np.intp)


def _is_missing(value: Any) -> bool:
    """Whether it is None, pandas' NA, or differs from itself as NaN and NaT do."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, Hashable) and bool(value != value)
