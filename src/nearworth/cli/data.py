"""The user's files as checked arrays: features, labels and row names, and the same for validation. Results to files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

import nearworth as nw
from nearworth.cli.options import print_message
from nearworth.cli.targets import array_target, check_target, column_target
from nearworth.inputs.features import check_features
from nearworth.report.content import Rows
from nearworth.tables import InputError, listed
from nearworth.tables.columns import kind_of
from nearworth.tables.read import DataFile, read
from nearworth.tables.write import STDOUT, records, write_columns

RESERVED = ("row", "value", "standard_error", "rank", "lower", "upper", "given", "suggested", "quality", "why")
MOST_LINES = 40  # of columns and their treatment
LONG_RUN = 6  # this many neighbouring columns with the same treatment become one line
FIRST, LAST = 8, 4  # names of columns in messages; labels are often in the last column
FEW_ROWS = 10  # the integers of so few rows may well follow each other by chance
COLUMN_OPTIONS = {"id_column": "--id", "ignore": "--ignore", "features": "--features", "image_column": "--image-column"}


@dataclass(frozen=True)
class Data:
    """What valuations and audits take, and what outputs and reports say about the rows."""

    X: Any
    y: Any
    X_val: Any
    y_val: Any
    _: KW_ONLY
    rows: Rows
    columns: list[str]  # "name: treatment" for each column of the file
    remarks: list[str]

    def names(self) -> dict[str, Any]:
        """The columns that say which row is which."""
        numbers: dict[str, Any] = {"row": np.arange(len(self.y))}
        return numbers if self.rows.id_name is None else numbers | {self.rows.id_name: self.rows.ids}


def prepare(dry_run: bool, **given: Any) -> Data:
    """Load the data and say what becomes of each column; a dry run ends here."""
    data = load(**given)
    lines, n_more = data.rows.notes[:MOST_LINES], len(data.rows.notes) - MOST_LINES
    if n_more > 0:
        lines = [*lines, f"and {n_more:,} more columns, or runs of columns"]
    size = f"{len(data.y):,} rows; each is compared by {data.X.shape[1]:,} numbers:"
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
    path, notes = Path(train), collapsed(data.columns)
    rows = replace(data.rows, X=data.X, source=path.name, image_folder=path.parent, notes=notes)
    return replace(data, rows=rows, remarks=[*source.remarks, *(other.remarks if other else ()), *data.remarks])


def _from_table(
    source: DataFile, other: DataFile | None, *, target: str | None, id_column: str | None, ignore: tuple[str, ...],
    features: tuple[str, ...], missing: str, max_categories: int, task: str, image_column: str | None = None,
) -> Data:  # fmt: skip
    target = _required(source, target, "--target")
    y = column_target(source, target, task)
    remarks = check_target(y, f"{source.path}: the target {target!r}", task)
    ids = None if id_column is None else source.table[_required(source, id_column, "--id")]
    images = None if image_column is None else source.table[_required(source, image_column, "--image-column")]
    _check_patterns(source, ignore, "there is no column {!r} to --ignore")
    patterns = [pattern for given in features for pattern in given.split(",")]
    roles = {image_column: "names the images", id_column: "names the rows", target: "the target"}
    compared = _compared(source, roles, ignore, patterns)
    preparer = nw.TablePreparer(missing, max_categories, as_they_are=bool(features))  # imports scikit-learn: late
    X = _prepared(source, compared, preparer.fit)
    rest = f"left out: {'not among --features' if features else '--ignore'}"
    unused = [f"{name}: {roles.get(name, rest)}" for name in source.table.column_names if name not in compared]
    remarks += [] if features else _row_numbers(source.table, compared)
    X_val = y_val = None
    if other is not None:
        y_val = column_target(other, _required(other, target, "--target"), task, like=y)
        others = _compared(other, roles, ignore, patterns)
        X_val = _prepared(other, others, lambda _: preparer)
        for name, labels in preparer.unseen(other.table.select(others)).items():
            remarks.append(f"{other.path}: column {name!r} has categories that training has not: {listed(labels)}")
    others = [name for name in source.table.column_names if name not in (target, id_column)]
    cells = {name: source.table[name] for name in others if kind_of(source.table[name]) != "list"}
    id_name = f"id_{id_column}" if id_column in RESERVED else id_column
    rows = Rows(target=target, id_name=id_name, ids=ids, cells=cells, image_names=images)
    return Data(X, y, X_val, y_val, rows=rows, columns=[*preparer.describe(), *unused], remarks=remarks)


def _compared(source: DataFile, roles: dict[str | None, str], ignore: Iterable[str], patterns: list[str]) -> list[str]:
    """The columns that rows are compared by: those without another role, the target being the last of them."""
    _check_patterns(source, patterns, "no column matches --features {!r}")
    compared = [n for n in source.table.column_names if n not in roles and not _matches(n, ignore)]
    compared = [n for n in compared if _matches(n, patterns)] if patterns else compared
    if not compared:
        raise InputError(f"{source.path}: no column is left to compare rows by beside the target {[*roles][-1]!r}.")
    return compared


def _prepared(source: DataFile, names: list[str], fit: Callable[[Any], Any]) -> Any:
    table = source.table.select(names)
    try:
        return fit(table).transform(table)
    except InputError as error:
        raise InputError(f"{source.path}: {error}") from error


def _required(source: DataFile, name: str | None, option: str) -> str:
    if name is None:
        raise _not_found(source, f"say which column holds the labels with {option}", "")
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
    return InputError(f"{source.path}: {problem}; it has {has}.{f' Did you mean {hints[0]!r}?' if hints else ''}")


def _row_numbers(table: Any, names: list[str]) -> Iterator[str]:
    """A warning for each column of whole numbers that are all different and leave no gap."""
    for name in names:
        if pa.types.is_integer(table[name].type) and not table[name].null_count and table.num_rows >= FEW_ROWS:
            values = table[name].to_numpy()
            span = int(values.max()) - int(values.min())
            if span == len(values) - 1 and len(np.unique(values)) == len(values):
                choice = f"--id {name!r} or --ignore {name!r}"
                yield f"warning: column {name!r} looks like a row number and counts as a feature: {choice}"


def _from_arrays(source: DataFile, other: DataFile | None, *, target: str | None, task: str, **given: Any) -> Data:
    for name, option in COLUMN_OPTIONS.items():
        if given.get(name):
            raise InputError(f"{source.path}: {option} names columns, which arrays do not have.")
    check_features(source.X, f"{source.path}: X")
    X, y = source.X, array_target(source, target)
    remarks = check_target(y, f"{source.path}: the target {target or 'y'!r}", task)
    X_val = y_val = None
    if other is not None:
        if other.y is None:
            raise InputError(f"{other.path}: has no labels; a validation file is an .npz with `X` and `y`.")
        if other.X.shape[1] != X.shape[1]:
            raise InputError(f"{other.path}: rows have {other.X.shape[1]} numbers, but {X.shape[1]} in {source.path}.")
        check_features(other.X, f"{other.path}: X")
        X_val, y_val = other.X, array_target(other, None)
    columns = [f"X: {X.shape[1]:,} columns of {X.dtype}, used as they are"]
    return Data(X, y, X_val, y_val, rows=Rows(target="y"), columns=columns, remarks=remarks)


def write_results(columns: Any, summary: dict[str, Any], output: str, as_json: bool) -> None:
    """Write columns to the output; with --json print the summary, with the rows in it unless they go to a file."""
    if as_json:
        print_json(summary | ({"rows": records(columns)} if output == STDOUT else {"output": output}))
    if output != STDOUT or not as_json:
        write_columns(columns, output)


def print_json(summary: dict[str, Any]) -> None:
    plain = lambda value: value.item() if hasattr(value, "item") else str(value)  # noqa: E731
    click.echo(json.dumps(summary, indent=1, allow_nan=False, default=plain))
