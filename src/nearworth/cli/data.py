"""Files to checked arrays: target, names of rows, features, and the same for validation."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from nearworth.cli.naming import meant, meant_pattern, what_it_has
from nearworth.cli.targets import array_target, check_target, column_target
from nearworth.cli.warning import many_classes, row_numbers
from nearworth.inputs.features import check_features
from nearworth.tables.columns import kind_of
from nearworth.tables.errors import InputError, listed
from nearworth.tables.read import Source, read

MOST_CELLS = 16


@dataclass(frozen=True)
class Wanted:
    """What the user said about the files."""

    train: str
    target: str | None = None
    validation: str | None = None
    id_column: str | None = None
    ignore: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    missing: str = "error"
    max_categories: int = 40
    task: str = "classification"
    image_column: str | None = None


@dataclass(frozen=True)
class Data:
    """What valuations and audits take."""

    X: Any
    y: Any
    X_val: Any
    y_val: Any
    target: str | None  # the name of its column; None for arrays
    ids: Any = None
    id_name: str | None = None
    columns: list[str] = field(default_factory=list)  # what became of each, in words
    remarks: list[str] = field(default_factory=list)
    cells: dict[str, Any] = field(default_factory=dict)  # columns as they were in the file, for people to look at
    image_names: Any = None  # a file for each row

    def names(self) -> dict[str, Any]:
        """The columns that say which row is which."""
        rows: dict[str, Any] = {"row": np.arange(len(self.y))}
        return rows if self.ids is None or self.id_name is None else rows | {self.id_name: self.ids}


def load(wanted: Wanted) -> Data:
    """Read, check and prepare everything a command needs."""
    source = read(wanted.train)
    other = None if wanted.validation is None else read(wanted.validation)
    if other is not None and other.is_table != source.is_table:
        raise InputError(f"{other.path}: training and validation must both be tables, or both be arrays (npz, npy).")
    data = _from_table(source, other, wanted) if source.is_table else _from_arrays(source, other, wanted)
    data.remarks[:0] = [*source.remarks, *(other.remarks if other else ())]
    return data


def _from_table(source: Source, other: Source | None, wanted: Wanted) -> Data:
    from nearworth.tables.prepare import TablePreparer  # scikit-learn: bad files are refused before it loads

    target = _target_name(source, wanted.target)
    y = column_target(source, target, wanted.task)
    check_target(y, f"{source.path}: the target {target!r}", wanted.task)
    ids = None
    if wanted.id_column is not None:
        _require(source, wanted.id_column, "--id")
        ids = source.table[wanted.id_column]
    image_names = None
    if wanted.image_column is not None:
        _require(source, wanted.image_column, "--image-column")
        image_names = source.table[wanted.image_column]
    chosen = _chosen(source, target, wanted)
    preparer = TablePreparer(wanted.missing, wanted.max_categories, as_they_are=bool(wanted.features))
    X = _prepared(source, chosen, preparer.fit)
    columns = [*preparer.describe(), *_left_out(source, chosen, target, wanted)]
    X_val = y_val = None
    remarks = many_classes(y, wanted.task) + ([] if wanted.features else row_numbers(source.table, chosen))
    if other is not None:
        y_val = column_target(other, _target_name(other, wanted.target), wanted.task, like=y)
        others = _chosen(other, target, wanted)
        X_val = _prepared(other, others, lambda _: preparer)
        for name, labels in preparer.unseen(other.table.select(others)).items():
            remarks.append(f"{other.path}: column {name!r} has categories that training has not: {listed(labels)}")
    id_name = wanted.id_column if wanted.id_column not in RESERVED else f"id_{wanted.id_column}"
    shown = [n for n in source.table.column_names if n not in (target, wanted.id_column)][:MOST_CELLS]
    cells = {name: source.table[name] for name in shown if kind_of(source.table[name]) != "list"}
    return Data(X, y, X_val, y_val, target, ids, id_name, columns, remarks, cells, image_names)


RESERVED = ("row", "value", "standard_error", "rank", "lower", "upper", "given", "suggested", "quality", "why")


def _prepared(source: Source, names: list[str], fit: Any) -> Any:
    table = source.table.select(names)
    try:
        return fit(table).transform(table)
    except InputError as error:
        raise InputError(f"{source.path}: {error}") from error


def _target_name(source: Source, target: str | None) -> str:
    if target is None:
        raise InputError(
            f"{source.path}: say which column holds the labels with --target; "
            f"it has {what_it_has(source.table.column_names)}."
        )
    _require(source, target, "--target")
    return target


def _require(source: Source, name: str, option: str) -> None:
    names = source.table.column_names
    if name not in names:
        raise InputError(
            f"{source.path}: there is no column {name!r} ({option}); it has {what_it_has(names)}.{meant(name, names)}"
        )


def _chosen(source: Source, target: str, wanted: Wanted) -> list[str]:
    """The columns that rows are compared by."""
    names = source.table.column_names
    patterns = [p for given in wanted.features for p in given.split(",")]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(
                f"{source.path}: no column matches --features {pattern!r}; it has {what_it_has(names)}."
                f"{meant_pattern(pattern, names)}"
            )
    if source.path == wanted.train:
        for pattern in wanted.ignore:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise InputError(
                    f"{source.path}: there is no column {pattern!r} to --ignore; it has {what_it_has(names)}."
                    f"{meant_pattern(pattern, names)}"
                )
    left_out = {target, wanted.id_column, wanted.image_column}
    chosen = [n for n in names if n not in left_out and not any(fnmatchcase(n, p) for p in wanted.ignore)]
    if patterns:
        chosen = [n for n in chosen if any(fnmatchcase(n, p) for p in patterns)]
    if not chosen:
        raise InputError(f"{source.path}: no column is left to compare rows by beside the target {target!r}.")
    return chosen


def _left_out(source: Source, chosen: list[str], target: str, wanted: Wanted) -> list[str]:
    reasons = {wanted.image_column: "names the images", wanted.id_column: "names the rows", target: "the target"}
    rest = "not among --features" if wanted.features else "--ignore"
    return [
        f"{name}: {reasons.get(name, f'left out: {rest}')}" for name in source.table.column_names if name not in chosen
    ]


def _from_arrays(source: Source, other: Source | None, wanted: Wanted) -> Data:
    for option, given in (
        ("--id", wanted.id_column),
        ("--ignore", wanted.ignore),
        ("--features", wanted.features),
        ("--image-column", wanted.image_column),
    ):
        if given:
            raise InputError(f"{source.path}: {option} names columns, which arrays do not have.")
    X, y = _checked(source), array_target(source, wanted.target)
    check_target(y, f"{source.path}: the target {wanted.target or 'y'!r}", wanted.task)
    columns = [f"X: {X.shape[1]:,} columns of {X.dtype}, used as they are"]
    remarks = many_classes(y, wanted.task)
    if other is None:
        return Data(X, y, None, None, None, columns=columns, remarks=remarks)
    if other.y is None:
        raise InputError(f"{other.path}: has no labels; a validation file is an .npz with `X` and `y`.")
    if other.X.shape[1] != X.shape[1]:
        raise InputError(f"{other.path}: rows have {other.X.shape[1]} numbers, but {X.shape[1]} in {source.path}.")
    return Data(X, y, _checked(other), array_target(other, None), None, columns=columns, remarks=remarks)


def _checked(source: Source) -> Any:
    """The numbers of an array, refused in the file's name."""
    check_features(source.X, f"{source.path}: X")
    return source.X
