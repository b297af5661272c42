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

from nearworth.cli.decisions import Decision, check_given, check_rows, read_decisions
from nearworth.cli.messages import tell
from nearworth.tables.delimited import Dialect, as_line, find_dialect
from nearworth.tables.errors import InputError
from nearworth.tables.formulas import guard, restore
from nearworth.tables.reading import read
from nearworth.tables.splicing import spliced
from nearworth.tables.writing import FORMATS, STDOUT, check_output, write_bytes, write_columns

DELIMITED = (".csv", ".tsv", ".txt")
TRUTH = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}
Decisions = dict[int, Decision]  # by row


def apply(
    *, decisions: str, train: str, output: str, target: str | None, force: bool, verbatim: bool, quiet: bool
) -> None:
    """Write the data with the labels that were changed."""
    check_output(output, force, (*FORMATS, ".npz"), (decisions,))
    if output == STDOUT:
        raise InputError("-o -: corrected data go to a file; give a name.")
    made, named = read_decisions(decisions)
    column, given, written = target or named, Path(train).suffix.lower(), Path(output).suffix.lower()
    if given == ".npz":
        _apply_to_arrays(made, train, output)
    elif given in DELIMITED and written in DELIMITED:
        guarded = _apply_to_text(made, train, column, output, verbatim)
        if guarded:
            tell(
                f"{guarded:,} cells that a spreadsheet would run begin with a quote now; --verbatim leaves them.", quiet
            )
    else:
        _apply_to_table(made, train, column, output)
    kinds = Counter(decision.decision for decision in made.values())
    changes = Counter((d.given, d.label) for d in made.values() if d.decision == "relabel")
    which = "".join(f"\n  {a} -> {b}: {count:,}" for (a, b), count in changes.most_common(20))
    tell(
        f"{kinds['relabel']:,} labels changed, {kinds['confirm']:,} confirmed, {kinds['skip']:,} skipped; "
        f"the data are in {output}{which}", quiet,
    )  # fmt: skip


def _apply_to_text(made: Decisions, train: str, target: str, output: str, verbatim: bool) -> int:
    """Copy a CSV byte by byte but for the changed labels, so that 1.50 stays 1.50; the number of guarded cells."""
    table = _checked_table(made, train, target)
    dialect = find_dialect(Path(train))
    comma = dialect.decimal == ","
    guarded = 0

    def inert(text: str) -> str:
        nonlocal guarded
        safe = text if verbatim else guard(text)
        guarded += safe != text
        return safe

    def change(row: int, found: str) -> str | None:
        check_given(train, made[row], restore(found).replace(",", ".") if comma else restore(found))
        return inert(_written_like(found, made[row].label, comma)) if made[row].decision == "relabel" else None

    lines = spliced(Path(train), dialect, table.column_names.index(target), made, change, table.num_rows)
    if output.lower().endswith(".tsv") and dialect.delimiter != "\t":
        lines = _with_tabs(lines, dialect, lambda text: text if text.startswith("'") else inert(text))
    write_bytes(output, lambda file: file.writelines(lines))
    return guarded


def _with_tabs(lines: Iterable[bytes], dialect: Dialect, cell: Callable[[str], str]) -> Iterator[bytes]:
    """Another delimiter: every cell is written anew, in UTF-8."""
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    decoded = (line.decode(encoding, errors="replace") for line in lines)
    for row in csv.reader(decoded, delimiter=dialect.delimiter):
        if row:
            yield as_line([cell(value) for value in row], "\t").encode()


def _written_like(given: str, label: str, comma: bool = False) -> str:
    """True, False and decimal commas as this file spells them; other labels as they are.

    >>> _written_like("true", "False"), _written_like("TRUE", "False"), _written_like("Cat", "Dog")
    ('false', 'FALSE', 'Dog')
    """
    if label not in ("True", "False"):
        return label.replace(".", ",") if comma and re.fullmatch(r"[+-]?\d*\.\d+", label) else label
    return label.lower() if given.islower() else label.upper() if given.isupper() else label


def _apply_to_table(made: Decisions, train: str, target: str, output: str) -> None:
    table = _checked_table(made, train, target)
    labels = _relabelled(made, train, table[target].to_pylist())
    changed = pa.chunked_array([pa.array(labels).cast(table[target].type)])
    write_columns({name: changed if name == target else table[name] for name in table.column_names}, output)


def _apply_to_arrays(made: Decisions, train: str, output: str) -> None:
    if not output.lower().endswith(".npz"):
        raise InputError(f"{output}: data that come from an .npz are written to an .npz.")
    source = read(train)
    if source.y is None:
        raise InputError(f"{train}: has no labels `y` to change.")
    check_rows(train, made, len(source.y))
    labels = _relabelled(made, train, source.y.tolist())
    with np.load(train, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files} | {"y": np.array(labels)}
    write_bytes(output, lambda file: np.savez_compressed(file, **arrays))


def _checked_table(made: Decisions, train: str, target: str) -> Any:
    """The table, if the decisions were made on it."""
    source = read(train)
    if not source.is_table or target not in source.table.column_names:
        raise InputError(f"{train}: has no column {target!r}, which the decisions are about; name it with --target.")
    check_rows(train, made, source.table.num_rows, source.table)
    return source.table


def _relabelled(made: Decisions, train: str, labels: list[Any]) -> list[Any]:
    """The labels with those that were changed, each in the type of the label it replaces."""
    for row, decision in made.items():
        given, label = labels[row], decision.label
        check_given(train, decision, given)
        if decision.decision != "relabel":
            continue
        try:
            labels[row] = TRUTH[label] if isinstance(given, bool) else type(given)(label)
        except (ValueError, KeyError):
            kind = type(given).__name__
            raise InputError(f"{train}: row {row} holds {kind}; {label!r} cannot be one.") from None
    return labels
