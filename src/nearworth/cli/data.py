"""The user's files as checked arrays: features, labels and row names, and the same for validation.
Results to files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import numpy as np

import nearworth as nw
from nearworth._common.text import one_line
from nearworth._common.types import IntVector, Task
from nearworth.cli.arguments import DataOptions, TableOptions
from nearworth.cli.options import print_message
from nearworth.inputs.features import check_features
from nearworth.report.content import Rows
from nearworth.tables import InputError, listed, number_of
from nearworth.tables.labels import EXACT, Target, TargetReader
from nearworth.tables.read import DataFile, read
from nearworth.tables.readers import Reader, kind_of
from nearworth.tables.write import STDOUT, records, write_columns

OF_VALUES = (
    "row",
    "value",
    "standard_error",
    "rank",
    "lower",
    "upper",
)  # columns of what is written
OF_SUSPECTS = ("given", "suggested", "quality", "why", "status")
MAX_LINES = 40  # about labels, columns and their treatment
LONG_RUN = 6  # this many neighbouring columns with the same treatment become one line
MOST_NAMES = 12  # of columns in messages
LIKELY_TARGETS = ("label", "labels", "target", "class", "category", "y")  # in lower case


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
    source: DataFile  # all rows of the file
    groups: list[str] | None = None  # of the rows with a label, if a column names them
    texts: IntVector | None = None  # of these rows: equal where their texts are
    n_reviewed: int = 0  # rows judged in reviews

    @property
    def unlabelled(self) -> IntVector:
        return np.setdiff1d(np.arange(len(self.rows.X)), self.rows.numbers)

    def names(self, rows: IntVector) -> dict[str, Any]:
        """The columns that say which rows of the file these are."""
        return {"row": rows} | (
            {} if self.rows.id_name is None else {self.rows.id_name: self.rows.ids.take(rows)}
        )


def prepare(
    options: DataOptions,
    *,
    groups: str | None = None,
    image_column: str | None = None,
    has_pixels: bool = False,
) -> Data:
    """Load the data and print what becomes of each column. A dry run ends here."""
    data = load(options.table, groups, image_column, has_pixels)
    notes = data.rows.notes
    compared = number_of("number", data.X.shape[1])
    lines = [f"{len(data.y):,} rows; each is compared by {compared}:", *notes[:MAX_LINES]]
    if len(notes) > MAX_LINES:
        lines.append(f"and {len(notes) - MAX_LINES:,} lines more")
    print_message("\n  ".join(lines))
    if options.dry_run:
        print_message("Dry run: nothing was computed or written.")
        raise click.exceptions.Exit(0)
    return data


def collapsed(columns: list[str]) -> list[str]:
    """Lines of "name: treatment", long runs of the same treatment as one.

    >>> collapsed([f"pixel_{i}: number, used as it is" for i in range(64)])
    ['pixel_0 ... pixel_63 (64 columns): number, used as it is']
    """
    lines = []
    for treatment, run in groupby(columns, key=lambda column: column.partition(": ")[2]):
        same = list(run)
        first, last = (column.partition(": ")[0] for column in (same[0], same[-1]))
        lines += (
            same
            if len(same) < LONG_RUN
            else [f"{first} ... {last} ({len(same):,} columns): {treatment}"]
        )
    return lines


def load(
    options: TableOptions,
    groups: str | None = None,
    image_column: str | None = None,
    has_pixels: bool = False,
) -> Data:
    """Read, check and prepare the files; `given` are the options about columns."""
    train, validation, target = options.train, options.validation, options.target
    task, exact_labels, strict = options.task, options.exact_labels, options.strict
    given = {
        name: getattr(options, name)
        for name in ("id_column", "ignore", "features", "max_categories", "na_values")
    }
    given |= {"image_column": image_column, "pixels": has_pixels}
    naming = (options.id_column, image_column, groups)  # their cells are no numbers
    source = read(train, identifiers=naming)
    other = None if validation is None else read(validation, identifiers=naming)
    if other is not None and other.is_table != source.is_table:
        raise InputError(
            f"{other.path}: training and validation must both be tables, or both be arrays (npz,"
            " npy)."
        )
    reader, trusted = TargetReader(task, strict, exact_labels), None
    name = _required(source, target) if source.is_table else source.y_name
    labels = reader.column(source, name) if source.is_table else reader.array(source, target)
    if other is not None:
        like = replace(reader, task=labels.task, like=labels)
        trusted = (
            like.column(other, _required(other, name))
            if other.is_table
            else like.array(other, None)
        )
    features = _table_features if source.is_table else _array_features
    X, X_val, texts, columns, shown = features(
        source, other, labels, name, strict, groups=groups, **given
    )
    numbers = np.flatnonzero(labels.labelled)
    grouped, alone = (None, []) if groups is None else _groups(source, groups, numbers)
    remarks = [*source.remarks, *(other.remarks if other else ()), *labels.remarks, *alone]
    remarks = [remark.replace(f"or {EXACT}", "or given --exact-labels") for remark in remarks]
    rows = Rows(
        X,
        name,
        numbers=numbers,
        of_rows=len(X),
        validation_numbers=None if trusted is None else np.flatnonzero(trusted.labelled),
        source=Path(train).name,
        image_folder=Path(train).parent,
        notes=[one_line(note) for note in (*remarks, *collapsed(columns))],
        **shown,
    )
    return Data(
        _labelled(X, labels),
        labels.y,
        _labelled(X_val, trusted),
        None if trusted is None else trusted.y,
        task=labels.task,
        rows=rows,
        columns=columns,
        source=source,
        groups=grouped,
        texts=_labelled(texts, labels),
    )


def _groups(source: DataFile, name: str, numbers: IntVector) -> tuple[list[str], list[str]]:
    """The group of each of these rows as text, and a remark on rows without one: each is a group of
    its own.
    """
    cells = Reader()(source.table[name].take(numbers)).to_pylist()
    named = [
        f"row {numbers[i]} without {name}" if cell is None else str(cell)
        for i, cell in enumerate(cells)
    ]
    return named, [
        f"{number_of('row', cells.count(None))} without {name!r}: a group of its own each"
    ] * (None in cells)


def _table_features(
    source: DataFile,
    other: DataFile | None,
    labels: Target,
    target: str,
    strict: bool,
    *,
    id_column: str | None,
    ignore: tuple[str, ...],
    features: tuple[str, ...],
    groups: str | None,
    max_categories: int,
    na_values: tuple[str, ...],
    image_column: str | None = None,
    pixels: bool = False,
) -> tuple[Any, Any, Any, list[str], dict[str, Any]]:
    """All rows of both files as numbers, which have equal texts, what became of each column, and
    what a page shows.
    """
    for name in filter(None, (id_column, image_column, groups)):
        _required(source, name, " for --groups" * (name == groups))
    if groups == target:
        raise InputError(
            f"{source.path}: --groups {groups!r} is the target. Name a column of patients or"
            " sources."
        )
    ignored, patterns = (
        _split(source, ignore, "--ignore"),
        _split(source, features, "--features") or ["*"] * pixels,
    )
    roles = {
        image_column: "names the images",
        groups: "names the groups",
        id_column: "names the rows",
    }
    roles |= {target: "the target"}  # the last
    compared = _compared(source, roles, ignored, patterns)
    numbers = all(kind_of(source.table[name]) == "number" for name in compared)
    parts = numbers and all(
        re.search(r"[*?[]", pattern) for pattern in patterns
    )  # of one embedding: used as they are
    embedded = bool(patterns) and (strict or parts)
    voids = [value for given in na_values for value in given.split(",")]
    preparer = nw.TablePreparer(
        max_categories, embedded, strict, voids
    )  # imports scikit-learn: late
    X, X_val = _prepared(source, compared, preparer, strict, labels), None
    if other is not None:
        X_val = _prepared(other, _compared(other, roles, ignored, patterns), preparer, strict)
    rest = f"left out: {'not among --features' if features else '--ignore'}"
    columns, used = {name: source.table[name] for name in source.table.column_names}, set(compared)
    unused = [f"{name}: {roles.get(name, rest)}" for name in columns if name not in used]
    cells = {name: cells for name, cells in columns.items() if name not in (target, id_column)}
    shown = {
        "id_name": f"id_{id_column}" if id_column in (*OF_VALUES, *OF_SUSPECTS) else id_column,
        "ids": columns.get(id_column),
        "image_names": columns.get(image_column),
        "cells": {name: column for name, column in cells.items() if kind_of(column) != "list"},
    }
    return X, X_val, preparer.texts(source.table), [*preparer.describe(), *unused], shown


def _array_features(
    source: DataFile,
    other: DataFile | None,
    _labels: Target,
    _target: str,
    _strict: bool,
    **given: Any,
) -> tuple[Any, Any, Any, list[str], dict[str, Any]]:
    if any(
        given.get(name) for name in ("id_column", "ignore", "features", "image_column", "groups")
    ):
        raise InputError(
            f"{source.path}: an option names columns, which arrays do not have; leave it out."
        )
    width = source.X.shape[1]
    for file in filter(None, (source, other)):
        check_features(file.X, f"{one_line(file.path)}: X")
        if file.X.shape[1] != width:
            raise InputError(
                f"{file.path}: rows have {file.X.shape[1]} numbers, but {width} in {source.path}."
            )
    columns = [f"X: {width:,} columns of {source.X.dtype}, used as they are"]
    return source.X, None if other is None else other.X, None, columns, {}


def _labelled(X: Any, labels: Target | None) -> Any:
    """The rows that have a label; no copy if all have."""
    return X if X is None or labels is None or labels.labelled.all() else X[labels.labelled]


def _split(source: DataFile, given: Iterable[str], option: str) -> list[str]:
    """Names and patterns, several in one argument or not (a column may have a comma in its name);
    each must match.
    """
    names = source.table.column_names
    patterns = [
        part.strip() for item in given for part in ([item] if item in names else item.split(","))
    ]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            longer = next(
                (
                    p
                    for p in (f"{pattern}*", f"*{pattern}*")
                    if any(fnmatchcase(n, p) for n in names)
                ),
                "",
            )
            raise _not_found(source, f"no column matches {option} {pattern!r}", pattern, longer)
    return patterns


def _compared(
    source: DataFile, roles: dict[str | None, str], ignored: list[str], patterns: list[str]
) -> list[str]:
    """The columns that rows are compared by: those without another role, the target being the last
    of them.
    """
    compared = [n for n in source.table.column_names if n not in roles and not _matches(n, ignored)]
    compared = [n for n in compared if _matches(n, patterns)] if patterns else compared
    if not compared:
        raise InputError(
            f"{source.path}: no column is left to compare rows by beside the target"
            f" {[*roles][-1]!r}."
        )
    return compared


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _prepared(
    source: DataFile, names: list[str], preparer: Any, strict: bool, learn: Target | None = None
) -> Any:
    """The rows of a file as numbers, once the preparer has learnt from those with a label if it is
    to learn.
    """
    table = source.table.select(names)
    try:
        if learn is not None:
            preparer.fit(
                table if learn.labelled.all() else table.take(np.flatnonzero(learn.labelled))
            )
        return preparer.transform(table)
    except InputError as error:
        raise InputError(f"{source.path}: {error}", drop="--strict" if strict else "") from error


def _required(source: DataFile, name: str | None, use: str = "") -> str:
    names = source.table.column_names
    if name is None:
        likely = next((name for name in names if name.strip().lower() in LIKELY_TARGETS), names[-1])
        problem = (
            f"say which column holds the labels with --target; it has {listed(names, MOST_NAMES)}"
        )
        raise InputError(f"{source.path}: {problem}.", add=("--target", likely))
    if name not in names:
        raise _not_found(source, f"there is no column {name!r}{use}", name)
    return name


def _not_found(source: DataFile, problem: str, name: str, hint: str = "") -> InputError:
    """The refusal of a name or pattern; without another hint, that is the most similar column."""
    names = source.table.column_names
    by_lower = {known.strip().lower(): known for known in reversed(names)}
    similar = get_close_matches(name.strip().lower(), list(by_lower), n=1)
    hint = hint or next((by_lower[near] for near in similar), "")
    meant, instead = (f" Did you mean {hint!r}?", (name, hint)) if hint else ("", None)
    return InputError(
        f"{source.path}: {problem}; it has {listed(names, MOST_NAMES)}.{meant}", instead=instead
    )


def write_results(columns: Any, summary: dict[str, Any], output: str, as_json: bool) -> None:
    """Write columns to the output; with --json print the summary, with the rows in it unless they
    go to a file.
    """
    if as_json:
        print_json(
            summary | ({"rows": records(columns)} if output == STDOUT else {"output": output})
        )
    if output != STDOUT or not as_json:
        write_columns(columns, output)


def print_json(summary: dict[str, Any]) -> None:
    plain = lambda value: value.item() if hasattr(value, "item") else str(value)  # noqa: E731
    click.echo(json.dumps(summary, indent=1, allow_nan=False, default=plain))
