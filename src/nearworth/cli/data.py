"""The user's files as checked arrays: features, labels and row names, and the same for validation. Results to files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import numpy as np

import nearworth as nw
from nearworth._common.types import IntVector, Task
from nearworth.cli.options import print_message
from nearworth.inputs.features import check_features
from nearworth.report.content import Rows
from nearworth.tables import InputError, listed
from nearworth.tables.columns import names_rows
from nearworth.tables.labels import Target, TargetReader
from nearworth.tables.read import DataFile, read
from nearworth.tables.readers import kind_of
from nearworth.tables.write import STDOUT, records, write_columns

RESERVED = ("row", "value", "standard_error", "rank", "lower", "upper", "given", "suggested", "quality", "why")
MOST_LINES = 40  # of columns and their treatment
LONG_RUN = 6  # this many neighbouring columns with the same treatment become one line
FIRST, LAST = 8, 4  # names of columns in messages; labels are often in the last column
LIKELY_TARGETS = ("label", "labels", "target", "class", "category", "y")  # in lower case
COLUMN_OPTIONS = {"id_column": "--id", "ignore": "--ignore", "features": "--features", "image_column": "--image-column"}


@dataclass(frozen=True)
class Data:
    """What valuations and audits take, and what outputs and reports say about the rows."""

    X: Any
    y: Any
    X_val: Any
    y_val: Any
    _: KW_ONLY
    task: Task
    rows: Rows
    columns: list[str]  # "name: treatment" for each column of the file
    remarks: list[str]
    source: DataFile  # all rows of the file

    @property
    def numbers(self) -> IntVector:
        """The rows of the file that have a label."""
        return np.arange(len(self.y)) if self.rows.numbers is None else self.rows.numbers

    @property
    def unlabelled(self) -> IntVector:
        return np.setdiff1d(np.arange(self.rows.of_rows or 0), self.numbers)

    def names(self, rows: IntVector) -> dict[str, Any]:
        """The columns that say which rows of the file these are."""
        ids = {} if self.rows.id_name is None else {self.rows.id_name: self.rows.ids.take(rows)}
        return {"row": rows} | ids


def prepare(dry_run: bool, **given: Any) -> Data:
    """Load the data and say what becomes of each column; a dry run ends here."""
    data = load(**given)
    lines = collapsed(data.columns)
    n_more = len(lines) - MOST_LINES
    if n_more > 0:
        lines = [*lines[:MOST_LINES], f"and {n_more:,} more columns, or runs of columns"]
    width = data.X.shape[1]
    size = f"{len(data.y):,} rows; each is compared by {width:,} number{'s' * (width != 1)}:"
    print_message("\n  ".join(["\n".join([*data.remarks, size]), *lines]))
    if dry_run:
        print_message("Dry run: nothing was computed or written.")
        raise click.exceptions.Exit(0)
    return data


def collapsed(columns: list[str]) -> list[str]:
    """Lines of "name: treatment", long runs of the same treatment as one.

    >>> collapsed([f"pixel_{i}: number, used as it is" for i in range(64)])
    ['pixel_0 ... pixel_63: 64 numbers, used as they are']
    """
    lines = []
    for treatment, run in groupby((column.partition(": ") for column in columns), key=lambda parts: parts[2]):
        names = [parts[0] for parts in run]
        if len(names) < LONG_RUN:
            lines += [f"{name}: {treatment}" for name in names]
            continue
        if treatment.startswith("number, "):
            many = treatment.replace("number", "numbers", 1).replace("used as it is", "used as they are")
        else:
            many = f"columns, {treatment}" if treatment.startswith("left out") else f"columns, each {treatment}"
        lines.append(f"{names[0]} ... {names[-1]}: {len(names):,} {many}")
    return lines


def load(train: str, validation: str | None = None, **given: Any) -> Data:
    """Read, check and prepare the files; `given` are the options about columns and the task."""
    source = read(train)
    other = None if validation is None else read(validation)
    if other is not None and other.is_table != source.is_table:
        raise InputError(f"{other.path}: training and validation must both be tables, or both be arrays (npz, npy).")
    data = _from_table(source, other, **given) if source.is_table else _from_arrays(source, other, **given)
    remarks = [*source.remarks, *(other.remarks if other else ()), *data.remarks]
    path, notes = Path(train), [*remarks, *collapsed(data.columns)]
    rows = replace(data.rows, source=path.name, image_folder=path.parent, notes=notes)
    return replace(data, rows=rows, remarks=remarks)


def _from_table(
    source: DataFile, other: DataFile | None, *, target: str | None, id_column: str | None, ignore: tuple[str, ...],
    features: tuple[str, ...], max_categories: int, strict: bool, na_values: tuple[str, ...],
    exact_labels: bool, task: Task | None, image_column: str | None = None, id_option: str = "--id",
    pixels: bool = False,
) -> Data:  # fmt: skip
    target = _required(source, target, "--target")
    labels = TargetReader(task, strict, exact_labels).column(source, target)
    for name, option in ((id_column, id_option), (image_column, "--image-column")):
        if name is not None:
            _required(source, name, option)
    ignored, patterns = _split(source, ignore), _split(source, features) or ["*"] * pixels
    _check_patterns(source, ignored, "there is no column {!r} to --ignore")
    roles = {image_column: "names the images", id_column: "names the rows", target: "the target"}
    compared = _compared(source, roles, ignored, patterns)
    embedded = bool(patterns) and (strict or _are_parts(source, compared, patterns))
    voids = [value for given in na_values for value in given.split(",")]
    preparer = nw.TablePreparer(max_categories, embedded, strict, voids)  # imports scikit-learn: late
    X = _prepared(source, compared, preparer, strict, labels)
    rest = f"left out: {'not among --features' if features else '--ignore'}"
    used = set(compared)
    unused = [f"{name}: {roles.get(name, rest)}" for name in source.table.column_names if name not in used]
    remarks = [*labels.remarks, *(_row_numbers(source.table, compared) if strict and not features else ())]
    X_val = y_val = None
    if other is not None:
        reader = TargetReader(labels.task, strict, exact_labels, like=labels)
        trusted = reader.column(other, _required(other, target, "--target"))
        others, y_val = _compared(other, roles, ignored, patterns), trusted.y
        X_val = _labelled(_prepared(other, others, preparer, strict), trusted)
    cells = {name: source.table[name] for name in source.table.column_names if name not in (target, id_column)}
    rows = Rows(
        X, target, id_name=f"id_{id_column}" if id_column in RESERVED else id_column,
        ids=None if id_column is None else source.table[id_column],
        cells={name: column for name, column in cells.items() if kind_of(column) != "list"},
        image_names=None if image_column is None else source.table[image_column],
        numbers=_numbers(labels), of_rows=len(X),
    )  # fmt: skip
    return Data(
        _labelled(X, labels), labels.y, X_val, y_val, task=labels.task, rows=rows, remarks=remarks, source=source,
        columns=[*preparer.describe(), *unused],
    )  # fmt: skip


def _labelled(X: Any, labels: Target) -> Any:
    """The rows that have a label."""
    return X if labels.labelled.all() else X[labels.labelled]


def _numbers(labels: Target) -> Any:
    """The numbers of the rows that have a label, where not all have."""
    return None if labels.labelled.all() else np.flatnonzero(labels.labelled)


def _split(source: DataFile, given: Iterable[str]) -> list[str]:
    """Names and patterns, several in one argument or not; a column may have a comma in its name."""
    names = set(source.table.column_names)
    return [part.strip() for item in given for part in ([item] if item in names else item.split(","))]


def _are_parts(source: DataFile, names: list[str], patterns: list[str]) -> bool:
    """Whether the columns are numbers chosen by patterns, parts of one embedding: these are used as they are."""
    by_pattern = all(re.search(r"[*?[]", pattern) for pattern in patterns)
    return by_pattern and all(kind_of(source.table[name]) == "number" for name in names)


def _compared(source: DataFile, roles: dict[str | None, str], ignore: Iterable[str], patterns: list[str]) -> list[str]:
    """The columns that rows are compared by: those without another role, the target being the last of them."""
    _check_patterns(source, patterns, "no column matches --features {!r}")
    compared = [n for n in source.table.column_names if n not in roles and not _matches(n, ignore)]
    compared = [n for n in compared if _matches(n, patterns)] if patterns else compared
    if not compared:
        raise InputError(f"{source.path}: no column is left to compare rows by beside the target {[*roles][-1]!r}.")
    return compared


def _prepared(source: DataFile, names: list[str], preparer: Any, strict: bool, learn: Target | None = None) -> Any:
    """The rows of a file as numbers, once the preparer has learnt from those with a label if it is to learn."""
    table = source.table.select(names)
    try:
        if learn is not None:
            preparer.fit(table if learn.labelled.all() else table.take(np.flatnonzero(learn.labelled)))
        return preparer.transform(table)
    except InputError as error:
        raise InputError(f"{source.path}: {error}", drop="--strict" if strict else "") from error


def _required(source: DataFile, name: str | None, option: str) -> str:
    if name is None:
        names = source.table.column_names
        likely = next((name for name in names if name.strip().lower() in LIKELY_TARGETS), names[-1])
        problem = str(_not_found(source, f"say which column holds the labels with {option}", ""))
        raise InputError(problem, add=("--target", likely))
    if name not in source.table.column_names:
        raise _not_found(source, f"there is no column {name!r} ({option})", name)
    return name


def _check_patterns(source: DataFile, patterns: Iterable[str], problem: str) -> None:
    """Refuse patterns that match no column."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in source.table.column_names):
            with_star = [f"{pattern}*", f"*{pattern}", f"*{pattern}*"]
            raise _not_found(source, problem.format(pattern), pattern, with_star)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _not_found(source: DataFile, problem: str, name: str, patterns: Iterable[str] = ()) -> InputError:
    """The refusal of a name or pattern: the hint is a pattern that matches, or the most similar column."""
    names = source.table.column_names
    has, between = listed(names, FIRST + LAST), len(names) - FIRST - LAST
    if between > 0:
        has = f"{listed(names[:FIRST], FIRST)}, ... ({between:,} more), {listed(names[-LAST:], LAST)}"
    by_lower = {known.strip().lower(): known for known in reversed(names)}
    hints = [pattern for pattern in patterns if any(fnmatchcase(known, pattern) for known in names)]
    hints += [by_lower[near] for near in get_close_matches(name.strip().lower(), list(by_lower), n=1)]
    meant = f" Did you mean {hints[0]!r}?" if hints else ""
    return InputError(f"{source.path}: {problem}; it has {has}.{meant}", instead=(name, hints[0]) if hints else None)


def _row_numbers(table: Any, names: list[str]) -> Iterator[str]:
    """A warning for each column of whole numbers that are all different and leave no gap."""
    for name in names:
        if names_rows("", table[name]):
            choice = f"--id {name!r} or --ignore {name!r}"
            yield f"warning: column {name!r} looks like a row number and counts as a feature: {choice}"


def _from_arrays(
    source: DataFile, other: DataFile | None, *, target: str | None, task: Task | None, strict: bool,
    exact_labels: bool, **given: Any,
) -> Data:  # fmt: skip
    for name, option in COLUMN_OPTIONS.items():
        if given.get(name):
            option = given.get("id_option", option) if name == "id_column" else option
            raise InputError(f"{source.path}: {option} names columns, which arrays do not have.")
    check_features(source.X, f"{source.path}: X")
    labels = TargetReader(task, strict, exact_labels).array(source, target)
    X, X_val, y_val = _labelled(source.X, labels), None, None
    if other is not None:
        if other.y is None:
            raise InputError(f"{other.path}: has no labels; a validation file is an .npz with `X` and `y`.")
        if other.X.shape[1] != X.shape[1]:
            raise InputError(f"{other.path}: rows have {other.X.shape[1]} numbers, but {X.shape[1]} in {source.path}.")
        check_features(other.X, f"{other.path}: X")
        trusted = TargetReader(labels.task, strict, exact_labels, like=labels).array(other, None)
        X_val, y_val = _labelled(other.X, trusted), trusted.y
    columns = [f"X: {X.shape[1]:,} columns of {X.dtype}, used as they are"]
    rows = Rows(source.X, source.y_name, numbers=_numbers(labels), of_rows=len(source.X))
    return Data(
        X, labels.y, X_val, y_val, task=labels.task, rows=rows, columns=columns, remarks=labels.remarks, source=source
    )


def write_results(columns: Any, summary: dict[str, Any], output: str, as_json: bool) -> None:
    """Write columns to the output; with --json print the summary, with the rows in it unless they go to a file."""
    if as_json:
        print_json(summary | ({"rows": records(columns)} if output == STDOUT else {"output": output}))
    if output != STDOUT or not as_json:
        write_columns(columns, output)


def print_json(summary: dict[str, Any]) -> None:
    plain = lambda value: value.item() if hasattr(value, "item") else str(value)  # noqa: E731
    click.echo(json.dumps(summary, indent=1, allow_nan=False, default=plain))
