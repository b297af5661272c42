"""nearworth apply: decisions made in the report, carried out on the data. Nothing else in the data changes."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearworth.cli.decisions import Decision, check_given, check_rows, check_table, read_decisions
from nearworth.cli.telling import tell
from nearworth.tables.csv_cells import Dialect, as_line, guard, replace_cells, restore
from nearworth.tables.csv_read import find_dialect
from nearworth.tables.errors import InputError
from nearworth.tables.read import read
from nearworth.tables.write import FORMATS, check_output, write_bytes, write_columns

DELIMITED = (".csv", ".tsv", ".txt")


def apply(
    decisions: str, train: str, output: str, target: str | None, force: bool, verbatim: bool, quiet: bool
) -> None:
    """Write the data with the labels that were changed."""
    check_output(output, force, (*FORMATS, ".npz"), (decisions,))
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
    """Copy a CSV byte by byte but for the changed labels, so that 1.50 stays 1.50; how many cells were guarded."""
    table = _table(made, train, target)
    dialect = find_dialect(Path(train))
    guarded = [0]

    def inert(text: str) -> str:
        safe = text if verbatim else guard(text)
        guarded[0] += safe != text
        return safe

    def change(row: int, found: str) -> str | None:
        comma = dialect.decimal == ","
        check_given(train, made[row], restore(found).replace(",", ".") if comma else restore(found))
        if made[row].decision != "relabel":
            return None
        return inert(_written_like(found, made[row].label, comma))

    lines = replace_cells(Path(train), dialect, table.column_names.index(target), made, change, table.num_rows)
    if output.lower().endswith(".tsv") and dialect.delimiter != "\t":
        lines = _with_tabs(lines, dialect, lambda text: text if text.startswith("'") else inert(text))
    write_bytes(output, lambda file: file.writelines(lines))
    return guarded[0]


def _with_tabs(lines: Iterable[bytes], dialect: Dialect, cell: Callable[[str], str]) -> Iterator[bytes]:
    """Another delimiter: every cell is written anew, in UTF-8."""
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    decoded = (line.decode(encoding, errors="replace") for line in lines)
    for row in csv.reader(decoded, delimiter=dialect.delimiter):
        if row:
            yield as_line([cell(value) for value in row], "\t").encode()


def _table(made: dict[int, Decision], train: str, target: str) -> Any:
    """The data, once it is certain that the decisions were made on them."""
    source = read(train)
    if not source.is_table or target not in source.table.column_names:
        raise InputError(f"{train}: has no column {target!r}, which the decisions are about; name it with --target.")
    check_table(train, made, source.table)
    return source.table


def _written_like(given: str, label: str, comma: bool = False) -> str:
    """True, False and decimal commas as this file spells them; other labels as they are.

    >>> _written_like("true", "False"), _written_like("TRUE", "False"), _written_like("Cat", "Dog")
    ('false', 'FALSE', 'Dog')
    """
    if label not in ("True", "False"):
        return label.replace(".", ",") if comma and re.fullmatch(r"[+-]?\d*\.\d+", label) else label
    return label.lower() if given.islower() else label.upper() if given.isupper() else label


def _apply_table(made: dict[int, Decision], train: str, target: str, output: str) -> None:
    table = _table(made, train, target)
    column = table[target]
    labels = column.to_pylist()
    for row, decision in made.items():
        check_given(train, decision, labels[row])
        if decision.decision == "relabel":
            labels[row] = _like(train, decision, labels[row])
    changed = pa.chunked_array([pa.array(labels).cast(column.type)])
    write_columns({name: changed if name == target else table[name] for name in table.column_names}, output)


def _apply_arrays(made: dict[int, Decision], train: str, output: str) -> None:
    if not output.lower().endswith(".npz"):
        raise InputError(f"{output}: data that come from an .npz are written to an .npz.")
    source = read(train)
    if source.y is None:
        raise InputError(f"{train}: has no labels `y` to change.")
    labels = source.y.tolist()
    check_rows(train, made.values(), len(labels))
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
