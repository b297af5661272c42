"""Decisions as the report exports them, and whether they fit the data they are to be carried out on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

from nearworth.tables.errors import InputError, listed
from nearworth.tables.read import read

DECISIONS = ("confirm", "relabel", "skip")
REQUIRED = ("row", "given", "decision", "label")


class Decision(NamedTuple):
    """What was decided on one row, and how to know the row again."""

    row: int
    given: str
    decision: str
    label: str
    id: str = ""  # empty if it had none
    id_column: str = ""  # exports of earlier versions do not name it
    of_rows: int | None = None


def read_decisions(path: str) -> tuple[dict[int, Decision], str]:
    """Decisions by row, and the name of the target, from CSV or JSON as the report exports them."""
    records = _json_records(path) if path.lower().endswith(".json") else read(path, text_only=True).table.to_pylist()
    made: dict[int, Decision] = {}
    for line, record in enumerate(records):
        decision = _decision(path, line, record)
        if decision.row in made:
            raise InputError(f"{path}: row {decision.row} occurs twice. Keep one decision for each row.")
        made[decision.row] = decision
    if not made:
        raise InputError(f"{path}: holds no decisions.")
    return made, str(records[0].get("target") or "")


def _json_records(path: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
        records = [{"target": content["target"]} | dict(record) for record in content["decisions"]]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is not a file of decisions exported by a report.") from error
    return records


def _decision(path: str, line: int, record: dict[str, Any]) -> Decision:
    absent = [name for name in REQUIRED if name not in record]
    if absent:
        raise InputError(f"{path}: has no column {listed(absent)}; export decisions from the report.")
    row, decision = str(record["row"]), str(record["decision"])
    if not row.isdecimal():
        raise InputError(f"{path}: line {line} has {row!r} for a row number.")
    if decision not in DECISIONS:
        raise InputError(f"{path}: the decision on row {row} is {decision!r}; use {', '.join(DECISIONS)}.")
    return Decision(
        int(row), str(record["given"]), decision, str(record["label"]),
        _optional(record, "id"), _optional(record, "id_column"), _of_rows(path, record),
    )  # fmt: skip


def _optional(record: dict[str, Any], name: str) -> str:
    return "" if record.get(name) is None else str(record[name]).strip()


def _of_rows(path: str, record: dict[str, Any]) -> int | None:
    text = _optional(record, "of_rows")
    if text and not text.isdecimal():
        raise InputError(f"{path}: of_rows is {text!r} for row {record['row']}; it is a number of rows.")
    return int(text) if text else None


def check_given(train: str, decision: Decision, found: Any) -> None:
    """Refuse a decision that was made on another label than the one found in its row."""
    if str(found).strip() == decision.given or _same_number(str(found), decision.given):
        return
    raise InputError(
        f"{train}: row {decision.row} has the label {str(found)!r}, but the decisions were made on {decision.given!r}. "
        "Is it the file that the report was made from?"
    )


def check_table(train: str, made: dict[int, Decision], table: Any) -> None:
    """Refuse decisions on rows that are not there, or that are not the rows with these ids."""
    check_rows(train, [decision for decision in made.values() if not decision.id], table.num_rows)
    named = [decision for decision in made.values() if decision.id]
    check_there(train, named, table.num_rows)
    for decision in named:
        _check_id(train, decision, table)


def check_rows(train: str, made: Iterable[Decision], n_rows: int) -> None:
    """Refuse decisions that were made on another number of rows: all that is known where rows have no ids."""
    made = list(made)
    check_there(train, made, n_rows)
    for decision in made:
        if decision.of_rows not in (None, n_rows):
            raise InputError(
                f"{train}: has {n_rows:,} rows, but the decision on row {decision.row} was made on data "
                f"of {decision.of_rows:,} rows. Is it the file that the report was made from?"
            )


def check_there(train: str, made: Iterable[Decision], n_rows: int) -> None:
    """Refuse decisions on rows beyond the last."""
    last = max((decision.row for decision in made), default=-1)
    if last >= n_rows:
        raise InputError(f"{train}: has {n_rows:,} rows, but there is a decision on row {last}. Is it the right file?")


def _check_id(train: str, decision: Decision, table: Any) -> None:
    """The id must be in its column; in any, if the column is not known or goes by another name."""
    column = _id_column(decision, table.column_names)
    names = table.column_names if column is None else [column]
    cells = [table[name][decision.row].as_py() for name in names]
    if any(_same_id(cell, decision) for cell in cells):
        return
    found = f"the cells {listed(map(str, cells), 3)}" if column is None else f"{str(cells[0])!r} in {column!r}"
    raise InputError(
        f"{train}: row {decision.row} should have the id {decision.id!r}, but has {found}: the decisions were made on "
        "other data, or on a copy in another order. Sort it back, or export from a report on this file."
    )


def _id_column(decision: Decision, names: list[str]) -> str | None:
    """The column of the id; the report puts id_ before names that it uses itself."""
    likely = (decision.id_column, decision.id_column.removeprefix("id_"))
    return next((name for name in likely if name in names), None)


def _same_id(cell: Any, decision: Decision) -> bool:
    """Equal as text, or exactly as numbers: a file may say 007 where another has 7."""
    if str(cell).strip() == decision.id:
        return True
    if isinstance(cell, float) and not decision.id_column and f"{cell:.6g}" == decision.id:
        return True  # so were they exported once
    try:
        return Decimal(str(cell)) == Decimal(decision.id)
    except InvalidOperation:
        return str(cell).lower() == decision.id.lower() in ("true", "false")


def _same_number(a: str, b: str) -> bool:
    try:
        return f"{float(a):.6g}" == f"{float(b):.6g}"
    except ValueError:
        return a.lower() == b.lower() in ("true", "false")
