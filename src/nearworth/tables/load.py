"""Files and frames to a `Dataset`: read, checked, and prepared for distances."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nwl
import numpy as np

from nearworth._common.text import one_line
from nearworth._common.types import Task
from nearworth.inputs.arrow import flat_vectors
from nearworth.inputs.features import as_narwhals, check_features, check_label_column
from nearworth.inputs.sources import as_table
from nearworth.tables import InputError, listed, number_of
from nearworth.tables.dataset import Dataset
from nearworth.tables.labels import EXACT, Target, TargetReader
from nearworth.tables.read import DataFile, read
from nearworth.tables.readers import Reader, kind_of

if TYPE_CHECKING:
    from nearworth.tables.prepare import TablePreparer

# Columns of outputs. An id column of the same name is renamed there.
VALUE_COLUMNS = ("row", "value", "standard_error", "rank", "lower", "upper")
SUSPECT_COLUMNS = ("given", "suggested", "quality", "why", "status")
# From here on, neighbouring columns with the same treatment are one line.
MIN_RUN = 6
# Names of columns in a message.
MAX_NAMES = 12
# Names that a message proposes for the target, in lower case.
LIKELY_TARGETS = ("label", "labels", "target", "class", "category", "y")


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The files, and what their columns are and how they are prepared."""

    train: str
    validation: str | None
    target: str | None
    task: Task | None
    id_column: str | None
    ignore: tuple[str, ...]
    features: tuple[str, ...]
    na_values: tuple[str, ...]
    max_categories: int
    exact_labels: bool
    strict: bool

    @property
    def files(self) -> tuple[str | None, ...]:
        """The files that are read, which no output may replace."""
        return self.train, self.validation


@dataclass(frozen=True, kw_only=True)
class _Roles:
    """Columns that rows are not compared by, and whether the others are the pixels of an image."""

    target: str
    ids: str | None
    images: str | None
    groups: str | None
    has_pixels: bool

    def role_of_column(self) -> dict[str | None, str]:
        """The role of each column, for messages. That of None stands for roles without one."""
        # A column with several roles has the last one here.
        return {
            self.images: "names the images",
            self.groups: "names the groups",
            self.ids: "names the rows",
            self.target: "the target",
        }


@dataclass(frozen=True, kw_only=True)
class _Features:
    """What rows are compared by, and what else is known of them.

    Attributes
    ----------
    X, X_val : arrays of shape (n_rows, n_features)
        All rows of both files; X_val is None without a validation file.
    columns : list of str
        "name: treatment" for each column of the file.
    preparer : TablePreparer, optional
        What made X from a table.
    id_name, ids, image_names, cells
        As in `Dataset`.
    """

    X: Any
    X_val: Any
    columns: list[str]
    preparer: TablePreparer | None = None
    id_name: str | None = None
    ids: Any = None
    image_names: Any = None
    cells: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Groups:
    """The group of each row that has a label, and remarks on rows without a group."""

    names: list[str] | None
    remarks: list[str]


@dataclass(frozen=True)
class FurtherRows:
    """Rows that came after those of a dataset, prepared alike.

    Attributes
    ----------
    X, y : arrays
        Features and labels, without the rows of a frame that have no label.
    dataset : Dataset, optional
        All of the rows, if their labels are a column of a frame.
    """

    X: Any
    y: Any
    dataset: Dataset | None


def load_files(
    options: TableOptions,
    *,
    groups: str | None = None,
    image_column: str | None = None,
    has_pixels: bool = False,
) -> Dataset:
    """Read, check and prepare a file, and its validation file if there is one."""
    # Cells that name things are read as they are written.
    identifiers = (options.id_column, image_column, groups)
    source = read(options.train, identifiers=identifiers)
    trusted_source = None
    if options.validation is not None:
        trusted_source = read(options.validation, identifiers=identifiers)
    if trusted_source is not None and trusted_source.is_table != source.is_table:
        raise InputError(
            f"{trusted_source.path}: training and validation must both be tables, or both be"
            " arrays (npz, npy)."
        )

    reader = TargetReader(options.task, options.strict, options.exact_labels)
    if source.is_table:
        target = _required(source, options.target)
        labels = reader.column(source, target)
    else:
        target = source.y_name
        labels = reader.array(source, options.target)
    trusted_labels = None
    if trusted_source is not None:
        trusted_labels = _labels_like(labels, trusted_source, target, reader)

    roles = _Roles(
        target=target,
        ids=options.id_column,
        images=image_column,
        groups=groups,
        has_pixels=has_pixels,
    )
    find_features = _table_features if source.is_table else _array_features
    features = find_features(source, trusted_source, labels, roles, options)
    grouped = _groups(source, groups, labels)

    trusted = None
    if trusted_source is not None:
        trusted = Dataset(features.X_val, target, labels=trusted_labels, file=trusted_source)
    trusted_remarks = () if trusted_source is None else trusted_source.remarks
    remarks = [*source.remarks, *trusted_remarks, *labels.remarks, *grouped.remarks]
    remarks = [remark.replace(f"or {EXACT}", "or given --exact-labels") for remark in remarks]
    return Dataset(
        features.X,
        target,
        labels=labels,
        validation=trusted,
        id_name=features.id_name,
        ids=features.ids,
        cells=features.cells,
        image_names=features.image_names,
        image_folder=Path(options.train).parent,
        source=Path(options.train).name,
        columns=features.columns,
        notes=[one_line(note) for note in (*remarks, *collapsed(features.columns))],
        groups=grouped.names,
        file=source,
        table=source.table,
        preparer=features.preparer,
    )


def load_frame(
    X: Any, label: Any, argument: str, task: Task | None = None, like: Dataset | None = None
) -> Dataset | None:
    """A frame whose column `label` is the target, prepared like another one if it is given.

    None if X is no frame or `label` is no name.
    """
    from nearworth.tables.prepare import TablePreparer, to_arrow

    frame = as_narwhals(as_table(X, argument), argument) if isinstance(label, str) else None
    if not isinstance(frame, nwl.DataFrame):
        return None
    check_label_column(label, frame.columns, argument)
    if min(frame.shape[0], frame.shape[1] - 1) < 1:
        needed = f"give rows, and columns beside {label!r} to compare them"
        raise ValueError(f"{argument} has shape {frame.shape}: {needed}.")

    table = flat_vectors(to_arrow(frame))
    index = nwl.maybe_get_index(frame)
    reader = TargetReader(task) if like is None else TargetReader(like.task, like=like.labels)
    labels = reader.read(table[label], f"{argument}: the target {label!r}")
    table = table.drop_columns(label)
    preparer = None if like is None else like.preparer
    if preparer is None:
        preparer = TablePreparer().fit(table.take(np.flatnonzero(labels.labelled)))

    return Dataset(
        preparer.transform(table),
        label,
        labels=labels,
        cells=_shown_cells({name: table[name] for name in table.column_names}),
        notes=labels.remarks,
        table=table,
        preparer=preparer,
        backend=frame.implementation.value,
        index=index,
    )


def load_like(dataset: Dataset, X: Any, y: Any, argument: str) -> FurtherRows:
    """Other rows and labels, prepared like those of a frame."""
    if X is None:
        return FurtherRows(None, y, None)
    further = load_frame(X, y, argument, like=dataset)
    if further is not None:
        return FurtherRows(further.X_labeled, further.y, further)
    assert dataset.preparer is not None, "a dataset of a frame has a preparer"
    return FurtherRows(dataset.preparer.transform(X), y, None)


def collapsed(treatments: list[str]) -> list[str]:
    """Lines of "name: treatment", with one line for a long run of the same treatment.

    >>> collapsed([f"pixel_{i}: number, used as it is" for i in range(64)])
    ['pixel_0 ... pixel_63 (64 columns): number, used as it is']
    """
    lines: list[str] = []
    for treatment, run in groupby(treatments, key=lambda column: column.partition(": ")[2]):
        same = list(run)
        if len(same) < MIN_RUN:
            lines += same
            continue
        first = same[0].partition(": ")[0]
        last = same[-1].partition(": ")[0]
        lines.append(f"{first} ... {last} ({len(same):,} columns): {treatment}")
    return lines


def _labels_like(labels: Target, trusted: DataFile, target: str, reader: TargetReader) -> Target:
    """The labels of the validation file, read as those of the training file were."""
    reader_like = replace(reader, task=labels.task, like=labels)
    if trusted.is_table:
        return reader_like.column(trusted, _required(trusted, target))
    return reader_like.array(trusted, None)


def _groups(source: DataFile, column: str | None, labels: Target) -> _Groups:
    """The group of each row that has a label. A row without a group is a group of its own."""
    if column is None:
        return _Groups(None, [])
    rows = np.flatnonzero(labels.labelled)
    cells = Reader()(source.table[column].take(rows)).to_pylist()
    names = [
        f"row {row} without {column}" if cell is None else str(cell)
        for row, cell in zip(rows, cells, strict=True)
    ]
    n_without = cells.count(None)
    if not n_without:
        return _Groups(names, [])
    remark = f"{number_of('row', n_without)} without {column!r}: a group of its own each"
    return _Groups(names, [remark])


def _table_features(
    source: DataFile,
    trusted: DataFile | None,
    labels: Target,
    roles: _Roles,
    options: TableOptions,
) -> _Features:
    """The columns of tables as numbers. What they become is learnt from rows that have a label."""
    _check_roles(source, roles)
    ignored = _patterns(source, options.ignore, "--ignore")
    wanted = _patterns(source, options.features, "--features")
    if roles.has_pixels and not wanted:
        wanted = ["*"]
    compared = _compared(source, roles, ignored, wanted)
    preparer = _preparer(source, compared, wanted, options)
    X = _prepared(source, compared, preparer, options, labels)
    X_val = None
    if trusted is not None:
        trusted_columns = _compared(trusted, roles, ignored, wanted)
        X_val = _prepared(trusted, trusted_columns, preparer, options)

    columns = {name: source.table[name] for name in source.table.column_names}
    left_out = f"left out: {'not among --features' if options.features else '--ignore'}"
    role_of = roles.role_of_column()
    is_compared = set(compared)
    others = [
        f"{name}: {role_of.get(name, left_out)}" for name in columns if name not in is_compared
    ]
    id_name = roles.ids
    if id_name in (*VALUE_COLUMNS, *SUSPECT_COLUMNS):
        id_name = f"id_{id_name}"
    known_elsewhere = (roles.target, roles.ids)
    return _Features(
        X=X,
        X_val=X_val,
        columns=[*preparer.describe(), *others],
        preparer=preparer,
        id_name=id_name,
        ids=None if roles.ids is None else columns[roles.ids],
        image_names=None if roles.images is None else columns[roles.images],
        cells=_shown_cells({n: c for n, c in columns.items() if n not in known_elsewhere}),
    )


def _array_features(
    source: DataFile,
    trusted: DataFile | None,
    _labels: Target,
    roles: _Roles,
    options: TableOptions,
) -> _Features:
    """The rows of arrays, which are used as they are."""
    named = (roles.ids, options.ignore, options.features, roles.images, roles.groups)
    if any(named):
        raise InputError(
            f"{source.path}: an option names columns, which arrays do not have; leave it out."
        )
    width = source.X.shape[1]
    for file in (source, trusted):
        if file is None:
            continue
        check_features(file.X, f"{one_line(file.path)}: X")
        if file.X.shape[1] != width:
            raise InputError(
                f"{file.path}: rows have {file.X.shape[1]} numbers, but {width} in {source.path}."
            )
    return _Features(
        X=source.X,
        X_val=None if trusted is None else trusted.X,
        columns=[f"X: {width:,} columns of {source.X.dtype}, used as they are"],
    )


def _check_roles(source: DataFile, roles: _Roles) -> None:
    """Refuse columns that do not exist, and groups that are the target."""
    for name in (roles.ids, roles.images, roles.groups):
        if name:
            _required(source, name, " for --groups" if name == roles.groups else "")
    if roles.groups == roles.target:
        raise InputError(
            f"{source.path}: --groups {roles.groups!r} is the target. Name a column of patients or"
            " sources."
        )


def _preparer(
    source: DataFile, compared: list[str], wanted: list[str], options: TableOptions
) -> TablePreparer:
    """What makes numbers of the columns that rows are compared by."""
    # It imports scikit-learn: errors before this line need not wait for that.
    from nearworth.tables.prepare import TablePreparer

    # Numbers that are chosen by a pattern are the parts of one embedding: used as they are.
    all_numbers = all(kind_of(source.table[name]) == "number" for name in compared)
    by_pattern = all(re.search(r"[*?[]", pattern) for pattern in wanted)
    is_embedding = bool(wanted) and (options.strict or (all_numbers and by_pattern))
    words_for_missing = [word for given in options.na_values for word in given.split(",")]
    return TablePreparer(options.max_categories, is_embedding, options.strict, words_for_missing)


def _prepared(
    source: DataFile,
    names: list[str],
    preparer: TablePreparer,
    options: TableOptions,
    labels: Target | None = None,
) -> Any:
    """The rows of a file as numbers. With labels, the preparer learns from the labeled rows."""
    table = source.table.select(names)
    try:
        if labels is not None:
            all_labeled = labels.labelled.all()
            preparer.fit(table if all_labeled else table.take(np.flatnonzero(labels.labelled)))
        return preparer.transform(table)
    except InputError as error:
        drop = "--strict" if options.strict else ""
        raise InputError(f"{source.path}: {error}", drop=drop) from error


def _shown_cells(columns: dict[str, Any]) -> dict[str, Any]:
    """The columns that a page shows. Nobody reads the numbers of an embedding."""
    return {name: cells for name, cells in columns.items() if kind_of(cells) != "list"}


def _patterns(source: DataFile, given: Iterable[str], option: str) -> list[str]:
    """Names and patterns of columns; each must match a column.

    An argument may hold several, separated by commas, or be one name that has commas in it.
    """
    names = source.table.column_names
    patterns: list[str] = []
    for argument in given:
        parts = [argument] if argument in names else argument.split(",")
        patterns += [part.strip() for part in parts]
    for pattern in patterns:
        if not _match_any(names, pattern):
            longer = [p for p in (f"{pattern}*", f"*{pattern}*") if _match_any(names, p)]
            hint = longer[0] if longer else ""
            raise _not_found(source, f"no column matches {option} {pattern!r}", pattern, hint)
    return patterns


def _match_any(names: list[str], pattern: str) -> bool:
    """Whether a pattern matches one of the names."""
    return any(fnmatchcase(name, pattern) for name in names)


def _matches(name: str, patterns: list[str]) -> bool:
    """Whether one of the patterns matches a name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _compared(source: DataFile, roles: _Roles, ignored: list[str], wanted: list[str]) -> list[str]:
    """The columns that rows are compared by: those wanted, or all, that have no other role."""
    role_of = roles.role_of_column()
    compared = [
        name
        for name in source.table.column_names
        if name not in role_of
        and not _matches(name, ignored)
        and (not wanted or _matches(name, wanted))
    ]
    if not compared:
        raise InputError(
            f"{source.path}: no column is left to compare rows by beside the target"
            f" {roles.target!r}."
        )
    return compared


def _required(source: DataFile, name: str | None, use: str = "") -> str:
    """The name of a column that must be there."""
    names = source.table.column_names
    if name is None:
        likely = [known for known in names if known.strip().lower() in LIKELY_TARGETS]
        problem = (
            f"say which column holds the labels with --target; it has {listed(names, MAX_NAMES)}"
        )
        proposed = likely[0] if likely else names[-1]
        raise InputError(f"{source.path}: {problem}.", add=("--target", proposed))
    if name not in names:
        raise _not_found(source, f"there is no column {name!r}{use}", name)
    return name


def _not_found(source: DataFile, problem: str, name: str, hint: str = "") -> InputError:
    """The refusal of a name or pattern. Without another hint, it is the most similar column."""
    names = source.table.column_names
    if not hint:
        by_lower = {known.strip().lower(): known for known in reversed(names)}
        similar = get_close_matches(name.strip().lower(), list(by_lower), n=1)
        hint = by_lower[similar[0]] if similar else ""
    message = f"{source.path}: {problem}; it has {listed(names, MAX_NAMES)}."
    if not hint:
        return InputError(message)
    return InputError(f"{message} Did you mean {hint!r}?", instead=(name, hint))
