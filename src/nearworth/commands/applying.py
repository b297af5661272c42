"""nearworth apply: decisions made in the report, carried out on the data. Nothing else in the data changes."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearworth.commands.decisions import Decision, check_given, check_rows, read_decisions
from nearworth.commands.telling import tell
from nearworth.tables.delimited import Dialect, as_line, find_dialect, open_text
from nearworth.tables.errors import InputError
from nearworth.tables.formulas import guard, restore
from nearworth.tables.reading import read
from nearworth.tables.writing import FORMATS, check_output, write_bytes, write_columns

DELIMITED = (".csv", ".tsv", ".txt")


def apply(
    decisions: str, train: str, output: str, target: str | None, force: bool, verbatim: bool, quiet: bool
) -> None:
    """Write the data with the labels that were changed."""
    check_output(output, force, (*FORMATS, ".npz"))
    if output == "-":
        raise InputError("-o -: corrected data go to a file; give a name.")
    made, named = read_decisions(decisions)
    column = target or named
    if Path(train).suffix.lower() in DELIMITED and Path(output).suffix.lower() in DELIMITED:
        guarded = _apply_text(made, train, column, output, verbatim)
        if guarded:
            tell(
                f"{guarded:,} cells that a spreadsheet would run begin with a quote now; --verbatim leaves them.", quiet
            )
    elif Path(train).suffix.lower() == ".npz":
        _apply_arrays(made, train, output)
    else:
        _apply_table(made, train, column, output)
    tell(describe(made, output), quiet)


def describe(made: dict[int, Decision], output: str) -> str:
    """What was changed, in words."""
    kinds = Counter(decision.decision for decision in made.values())
    changes = Counter((d.given, d.label) for d in made.values() if d.decision == "relabel")
    which = "".join(f"\n  {a} -> {b}: {count:,}" for (a, b), count in changes.most_common(20))
    return (
        f"{kinds['relabel']:,} labels changed, {kinds['confirm']:,} confirmed, {kinds['skip']:,} skipped; "
        f"the data are in {output}{which}"
    )


def _apply_text(made: dict[int, Decision], train: str, target: str, output: str, verbatim: bool) -> int:
    """Copy a CSV cell by cell as text, so that 1.50 stays 1.50; how many cells were newly guarded."""
    read(train, text_only=True)  # refuses strange files in the usual words
    dialect = find_dialect(Path(train))
    guarded = [0]

    def cell(text: str) -> str:
        safe = text if verbatim or text.startswith("'") else guard(text)
        guarded[0] += safe != text
        return safe

    def write(file: Any) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        delimiter = "\t" if output.lower().endswith(".tsv") else dialect.delimiter
        for row in _corrected(made, train, target, dialect, verbatim):
            text.write(as_line([cell(value) for value in row], delimiter))
        text.detach()

    write_bytes(output, write)
    return guarded[0]


def _corrected(
    made: dict[int, Decision], train: str, target: str, dialect: Dialect, verbatim: bool
) -> Iterator[list[str]]:
    """Rows of text, the header first, with changed labels in place."""
    with open_text(Path(train), dialect) as file:
        rows = (row for row in csv.reader(file, delimiter=dialect.delimiter) if row)
        header = next(rows)
        names = [name.strip() for name in header]
        if target not in names:
            raise InputError(
                f"{train}: has no column {target!r}, which the decisions are about; name it with --target."
            )
        place, number = names.index(target), -1
        yield header
        for number, row in enumerate(rows):
            decision = made.get(number)
            if decision is not None:
                comma = dialect.decimal == ","
                check_given(train, decision, restore(row[place]).replace(",", ".") if comma else restore(row[place]))
                if decision.decision == "relabel":
                    label = _written_like(row[place], decision.label, comma)
                    row[place] = label if verbatim else guard(label)
            yield row
        check_rows(train, made, number + 1)


def _written_like(given: str, label: str, comma: bool = False) -> str:
    """True, False and decimal commas as this file spells them; other labels as they are.

    >>> _written_like("true", "False"), _written_like("TRUE", "False"), _written_like("Cat", "Dog")
    ('false', 'FALSE', 'Dog')
    """
    if label not in ("True", "False"):
        return label.replace(".", ",") if comma and re.fullmatch(r"[+-]?\d*\.\d+", label) else label
    return label.lower() if given.islower() else label.upper() if given.isupper() else label


def _apply_table(made: dict[int, Decision], train: str, target: str, output: str) -> None:
    source = read(train)
    if not source.is_table or target not in source.table.column_names:
        raise InputError(f"{train}: has no column {target!r}, which the decisions are about; name it with --target.")
    column = source.table[target]
    labels = column.to_pylist()
    check_rows(train, made, len(labels))
    for row, decision in made.items():
        check_given(train, decision, labels[row])
        if decision.decision == "relabel":
            labels[row] = _like(train, decision, labels[row])
    changed = pa.chunked_array([pa.array(labels).cast(column.type)])
    names = source.table.column_names
    write_columns({name: changed if name == target else source.table[name] for name in names}, output)


def _apply_arrays(made: dict[int, Decision], train: str, output: str) -> None:
    if not output.lower().endswith(".npz"):
        raise InputError(f"{output}: data that come from an .npz are written to an .npz.")
    source = read(train)
    if source.y is None:
        raise InputError(f"{train}: has no labels `y` to change.")
    labels = source.y.tolist()
    check_rows(train, made, len(labels))
    for row, decision in made.items():
        check_given(train, decision, labels[row])
        if decision.decision == "relabel":
            labels[row] = _like(train, decision, labels[row])
    with np.load(train, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files} | {"y": np.array(labels)}
    write_bytes(output, lambda file: np.savez_compressed(file, **arrays))


def _like(train: str, decision: Decision, given: Any) -> Any:
    """The new label in the type of the given one."""
    try:
        if isinstance(given, bool):
            return {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}[decision.label]
        return type(given)(decision.label)
    except (ValueError, KeyError):
        kind = type(given).__name__
        raise InputError(f"{train}: row {decision.row} holds {kind}; {decision.label!r} cannot be one.") from None
