"""nearworth apply: decisions made in the report, carried out on the data. Nothing else in the data changes.

`apply` reads the decisions, checks that they were made on these rows, and writes the labels in one of three ways:
`_apply_to_text` (CSV to CSV, every other byte as it was), `_apply_to_table`, `_apply_to_arrays`.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearworth.cli.messages import print_message
from nearworth.tables import InputError, listed
from nearworth.tables.csv_files import Dialect, as_line, find_dialect, guard, replace_cells, restore
from nearworth.tables.read import read
from nearworth.tables.write import FORMATS, STDOUT, check_output, write_bytes, write_columns

DECISIONS = ("confirm", "relabel", "skip")
REQUIRED = ("row", "given", "decision", "label")
DELIMITED = (".csv", ".tsv", ".txt")
TRUTH = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}


class Decision(NamedTuple):
    """What was decided on one row, and how to recognise the row."""

    row: int
    given: str
    decision: str
    label: str
    id: str  # empty if there was none
    id_column: str  # empty in exports of earlier versions
    of_rows: int | None


Decisions = dict[int, Decision]  # by row


def apply(
    *, decisions: str, train: str, output: str, target: str | None, force: bool, verbatim: bool, quiet: bool
) -> None:
    """Write the data with the labels that were changed."""
    check_output(output, force, (*FORMATS, ".npz"), (decisions,))
    if output == STDOUT:
        raise InputError("-o -: corrected data go to a file; give a name.")
    made, named = _read_decisions(decisions)
    column, given, written = target or named, Path(train).suffix.lower(), Path(output).suffix.lower()
    if given == ".npz":
        _apply_to_arrays(made, train, output)
    elif given in DELIMITED and written in DELIMITED:
        guarded = _apply_to_text(made, train, column, output, verbatim)
        if guarded:
            print_message(
                f"{guarded:,} cells that a spreadsheet would run begin with a quote now; --verbatim leaves them.", quiet
            )
    else:
        _apply_to_table(made, train, column, output)
    kinds = Counter(decision.decision for decision in made.values())
    changes = Counter((d.given, d.label) for d in made.values() if d.decision == "relabel")
    which = "".join(f"\n  {a} -> {b}: {count:,}" for (a, b), count in changes.most_common(20))
    print_message(
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
        _check_given(train, made[row], restore(found).replace(",", ".") if comma else restore(found))
        return inert(_written_like(found, made[row].label, comma)) if made[row].decision == "relabel" else None

    lines = replace_cells(Path(train), dialect, table.column_names.index(target), made, change, table.num_rows)
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
    _check_rows(train, made, len(source.y))
    labels = _relabelled(made, train, source.y.tolist())
    with np.load(train, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files} | {"y": np.array(labels)}
    write_bytes(output, lambda file: np.savez_compressed(file, **arrays))


def _checked_table(made: Decisions, train: str, target: str) -> Any:
    """The table, if the decisions were made on it."""
    source = read(train)
    if not source.is_table or target not in source.table.column_names:
        raise InputError(f"{train}: has no column {target!r}, which the decisions are about; name it with --target.")
    _check_rows(train, made, source.table.num_rows, source.table)
    return source.table


def _relabelled(made: Decisions, train: str, labels: list[Any]) -> list[Any]:
    """The labels with those that were changed, each in the type of the label it replaces."""
    for row, decision in made.items():
        given, label = labels[row], decision.label
        _check_given(train, decision, given)
        if decision.decision != "relabel":
            continue
        try:
            labels[row] = TRUTH[label] if isinstance(given, bool) else type(given)(label)
        except (ValueError, KeyError):
            kind = type(given).__name__
            raise InputError(f"{train}: row {row} holds {kind}; {label!r} cannot be one.") from None
    return labels


def _read_decisions(path: str) -> tuple[Decisions, str]:
    """Decisions by row, and the name of the target, from CSV or JSON as the report exports them."""
    made: Decisions = {}
    try:
        records = _json(path) if path.lower().endswith(".json") else read(path, text_only=True).table.to_pylist()
        for line, record in enumerate(records):
            decision = _decision(path, line, record)
            if decision.row in made:
                raise InputError(f"{path}: row {decision.row} occurs twice. Keep one decision for each row.")
            made[decision.row] = decision
    except RecursionError as error:
        raise InputError(f"{path}: is nested too deeply for a file of decisions exported by a report.") from error
    if not made:
        raise InputError(f"{path}: holds no decisions.")
    return made, str(records[0].get("target") or "")


def _json(path: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
        return [{"target": content["target"]} | dict(record) for record in content["decisions"]]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is not a file of decisions exported by a report.") from error


def _decision(path: str, line: int, record: dict[str, Any]) -> Decision:
    absent = [name for name in REQUIRED if name not in record]
    if absent:
        raise InputError(f"{path}: has no column {listed(absent)}; export decisions from the report.")
    row, given, decision, label = (str(record[name]) for name in REQUIRED)
    known = {name: str(cell).strip() for name, cell in record.items() if cell is not None}
    key, id_column, of_rows = (known.get(name, "") for name in ("id", "id_column", "of_rows"))
    if not row.isdecimal():
        raise InputError(f"{path}: line {line} has {row!r} for a row number.")
    if decision not in DECISIONS:
        raise InputError(f"{path}: the decision on row {row} is {decision!r}; use {', '.join(DECISIONS)}.")
    if of_rows and not of_rows.isdecimal():
        raise InputError(f"{path}: of_rows is {of_rows!r} for row {row}; it is a number of rows.")
    return Decision(int(row), given, decision, label, key, id_column, int(of_rows) if of_rows else None)


def _check_rows(train: str, made: Decisions, n_rows: int, table: Any = None) -> None:
    """Refuse decisions on rows beyond the last or made on other rows, by ids or else by the number of rows."""
    last = max(made)
    if last >= n_rows:
        raise InputError(f"{train}: has {n_rows:,} rows, but there is a decision on row {last}. Is it the right file?")
    for decision in made.values():
        if decision.id and table is not None:
            _check_id(train, decision, table)
        elif decision.of_rows not in (None, n_rows):
            raise InputError(
                f"{train}: has {n_rows:,} rows, but the decision on row {decision.row} was made on data "
                f"of {decision.of_rows:,} rows. Is it the file that the report was made from?"
            )


def _check_id(train: str, decision: Decision, table: Any) -> None:
    """The id must be in its column; in any column if its own is unknown or has another name in this file."""
    # The report puts id_ before names that it uses itself.
    likely = [n for n in (decision.id_column, decision.id_column.removeprefix("id_")) if n in table.column_names]
    cells = [table[name][decision.row].as_py() for name in likely[:1] or table.column_names]
    if any(_same_id(cell, decision) for cell in cells):
        return
    found = f"{str(cells[0])!r} in {likely[0]!r}" if likely else f"the cells {listed(map(str, cells), 3)}"
    raise InputError(
        f"{train}: row {decision.row} should have the id {decision.id!r}, but has {found}: the decisions were made on "
        "other data, or on a copy in another order. Sort it back, or export from a report on this file."
    )


def _same_id(cell: Any, decision: Decision) -> bool:
    """Equal as text, or exactly as numbers: a file may say 007 where another has 7."""
    if str(cell).strip() == decision.id:
        return True
    if isinstance(cell, float) and not decision.id_column and f"{cell:.6g}" == decision.id:
        return True  # earlier versions exported six digits
    try:
        return Decimal(str(cell)) == Decimal(decision.id)
    except InvalidOperation:
        return _same_truth(str(cell), decision.id)


def _check_given(train: str, decision: Decision, found: Any) -> None:
    """Refuse a decision that was made on another label than the one found in its row."""
    text, given = str(found), decision.given
    try:
        same = f"{float(text):.6g}" == f"{float(given):.6g}"
    except ValueError:
        same = _same_truth(text, given)
    if not same and text.strip() != given:
        raise InputError(
            f"{train}: row {decision.row} has the label {text!r}, but the decisions were made on {given!r}. "
            "Is it the file that the report was made from?"
        )


def _same_truth(a: str, b: str) -> bool:
    return a.lower() == b.lower() in ("true", "false")
