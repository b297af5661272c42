"""Decisions as the report exports them, and whether they fit the data they are to be carried out on."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

from nearworth.tables.errors import InputError, listed
from nearworth.tables.reading import read

DECISIONS = ("confirm", "relabel", "skip")
REQUIRED = ("row", "given", "decision", "label")


class Decision(NamedTuple):
    """What was decided on one row, and how to recognise the row."""

    row: int
    given: str
    decision: str
    label: str
    id: str  # empty if there was none
    id_column: str  # empty in exports of earlier versions
    of_rows: int | None


def read_decisions(path: str) -> tuple[dict[int, Decision], str]:
    """Decisions by row, and the name of the target, from CSV or JSON as the report exports them."""
    made: dict[int, Decision] = {}
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


def check_rows(train: str, made: dict[int, Decision], n_rows: int, table: Any = None) -> None:
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


def check_given(train: str, decision: Decision, found: Any) -> None:
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
