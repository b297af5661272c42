"""nearworth apply: decisions made in the report, carried out on the data. Nothing else in the data changes.

`apply` reads the decisions and the data, checks that they belong together, and writes the labels in one of two ways:
`_write_text` (CSV to CSV, TSV to TSV, every other byte as it was) or `_write_typed` (other tables and arrays).
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearworth.cli.decisions import KEPT, Decision, Decisions, KeptDecisions, read_decisions, same_label
from nearworth.cli.options import print_message
from nearworth.tables import InputError, listed, number_of
from nearworth.tables.csv_files import find_dialect, guard, replace_cells, suffix_of
from nearworth.tables.read import DataFile, read
from nearworth.tables.readers import find_reader, kind_of
from nearworth.tables.write import FORMATS, check_output, write_bytes, write_columns

RIGHT_FILE = "Is it the file that the report was made from?"
TEXT = {".csv": ".csv", ".txt": ".csv", ".tsv": ".tsv"}  # to these, cells are copied as they are
TRUTH = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}


def apply(*, decisions: str, train: str, output: str, target: str | None, force: bool, keep: bool = False) -> None:
    given, written = suffix_of(Path(train)), Path(output).suffix.lower()
    check_output(output, force, (".npz",) if given == ".npz" else FORMATS, (decisions,))
    made, named = read_decisions(decisions)
    source, target = read(train), target or named
    labels = _labels(source, target)
    _check_rows(source, made, labels)
    new = {row: decision.label for row, decision in made.items() if decision.decision == "relabel"}
    removed = {row for row, decision in made.items() if decision.decision == "remove"}
    if len(removed) == len(labels):
        raise InputError(f"{decisions}: every row is to be removed; nothing would be left.")
    if TEXT.get(given) == written:
        _write_text(source, target, new | dict.fromkeys(removed), output)
    else:
        _write_typed(source, target, _relabelled(source, new, labels), removed, output)
    kinds = Counter(decision.decision for decision in made.values())
    changes = Counter((made[row].given, label) for row, label in new.items())
    which = "".join(f"\n  {a} -> {b}: {count:,}" for (a, b), count in changes.most_common(20))
    changed = f"{number_of('label', len(new), 'changed')}, {number_of('row', len(removed), 'removed')}"
    left = f"{kinds['confirm']:,} confirmed, {kinds['skip']:,} skipped"
    print_message(f"{changed}, {left}; the data are in {output}{which}")
    if keep:
        _keep(source, target, made, output)


def _keep(source: DataFile, target: str, made: Decisions, output: str) -> None:
    """Keep the decisions beside the data, before and after: the next report does not ask again."""
    try:
        for folder in {Path(source.path).absolute().parent, Path(output).absolute().parent}:
            kept = KeptDecisions(folder)
            kept.add(source, target, made)
            kept.write()
    except InputError as problem:
        print_message(f"warning: the decisions are not kept for the next report: {problem}")
    else:
        print_message(f"The next report does not ask about these rows again: they are in {KEPT} beside the data.")


def _labels(source: DataFile, target: str) -> list[Any]:
    """The labels as they are now."""
    if source.y is not None:
        return list(source.y.tolist())
    if not source.is_table:
        raise InputError(f"{source.path}: has no labels `y` to change.")
    if target not in source.table.column_names:
        has = f"{source.path}: has no column {target!r}"
        raise InputError(f"{has}, which the decisions are about; name it with --target.")
    return list(source.table[target].to_pylist())


def _write_text(source: DataFile, target: str, new: dict[int, Any], output: str) -> None:
    """Copy a CSV byte by byte but for the changed labels (None: rows removed), so that 1.50 stays 1.50."""
    path, table = Path(source.path), source.table
    dialect = find_dialect(path)

    def change(row: int, found: str) -> str | None:
        if new[row] is None:
            return None
        return _written_like(found, guard(new[row]), comma=dialect.decimal == ",")

    lines = replace_cells(path, dialect, table.column_names.index(target), new, change, table.num_rows)
    write_bytes(output, lambda file: file.writelines(lines))


def _written_like(given: str, label: str, comma: bool = False) -> str:
    """True, False and decimal commas as this file spells them; other labels as they are.

    >>> _written_like("true", "False"), _written_like("TRUE", "False"), _written_like("Cat", "Dog")
    ('false', 'FALSE', 'Dog')
    """
    if label not in ("True", "False"):
        return label.replace(".", ",") if comma and re.fullmatch(r"[+-]?\d*\.\d+", label) else label
    return label.lower() if given.islower() else label.upper() if given.isupper() else label


def _write_typed(source: DataFile, target: str, labels: list[Any], removed: set[int], output: str) -> None:
    """Write a table or an archive of arrays with these labels, in the type that they had, without some rows."""
    kept = np.array([row for row in range(len(labels)) if row not in removed])
    if source.is_table:
        table, number = source.table, source.table.column_names.index(target)
        table = table.set_column(number, table.schema.field(number), pa.array(labels, table.schema.field(number).type))
        if source.index is not None and not output.lower().endswith((".csv", ".tsv")):
            for name in source.index.column_names:
                table = table.append_column(source.index.schema.field(name), source.index[name])
        table = table.replace_schema_metadata(source.table.schema.metadata)
        write_columns(table.take(kept) if removed else table, output)
        return
    y = np.array(labels, dtype=None if source.y.dtype.kind in "UT" else source.y.dtype)  # text may be longer now
    with np.load(source.path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files} | {source.y_name: y}
    if removed:
        arrays = {name: a[kept] if a.ndim and len(a) == len(labels) else a for name, a in arrays.items()}
    write_bytes(output, lambda file: np.savez_compressed(file, **arrays))


def _relabelled(source: DataFile, new: dict[int, str], labels: list[Any]) -> list[Any]:
    """The labels with those that were changed, each in the type of the label it replaces."""
    known = next((label for label in labels if label is not None), "")
    for row, label in new.items():
        kind = type(known if labels[row] is None else labels[row])
        try:
            labels[row] = TRUTH[label] if kind is bool else kind(label)
        except (ValueError, KeyError):
            raise InputError(f"{source.path}: row {row} holds {kind.__name__}; {label!r} cannot be one.") from None
    return labels


def _check_rows(source: DataFile, made: Decisions, labels: list[Any]) -> None:
    """Refuse decisions made on other rows: by ids or else by the number of rows, and by the labels."""
    n_rows, last = len(labels), max(made)
    has, shown = f"{source.path}: has {n_rows:,} rows", _as_reported(labels)
    if last >= n_rows:
        raise InputError(f"{has}, but there is a decision on row {last}. {RIGHT_FILE}")
    for row, decision in made.items():
        if decision.id and source.is_table:
            _check_id(source, decision)
        elif decision.of_rows and int(decision.of_rows) != n_rows:
            made_on = f"data of {decision.of_rows} rows"
            raise InputError(f"{has}, but the decision on row {row} was made on {made_on}. {RIGHT_FILE}")
        if not any(same_label(found[row], decision.given) for found in (labels, shown)):
            has = f"{source.path}: row {row} has the label {str(labels[row])!r}"
            raise InputError(f"{has}, but the decision was made on {decision.given!r}. {RIGHT_FILE}")


def _check_id(source: DataFile, decision: Decision) -> None:
    """The id must be in its column; in any column if its own has another name in this file."""
    names = source.table.column_names
    searched = [decision.id_column] if decision.id_column in names else names
    cells = [source.table[name][decision.row].as_py() for name in searched]
    if not any(same_label(cell, decision.id) for cell in cells):
        raise InputError(
            f"{source.path}: row {decision.row} should have the id {decision.id!r}, but has {listed(map(str, cells))}: "
            "the decisions were made on other data, or on a copy in another order. Sort it back, or export from a "
            "report on this file."
        )


def _as_reported(labels: list[Any]) -> list[Any]:
    """The labels as a report shows them: "$1,200" is 1200."""
    if not all(label is None or isinstance(label, str) for label in labels):
        return labels
    column = pa.chunked_array([pa.array(labels, pa.string())])
    read = find_reader(column)(column)
    return list(read.to_pylist()) if kind_of(read) == "number" else labels
