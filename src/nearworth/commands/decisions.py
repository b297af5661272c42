"""Decisions as the report exports them, and whether they fit the data they are to be carried out on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from nearworth.tables.errors import InputError, listed
from nearworth.tables.reading import read

DECISIONS = ("confirm", "relabel", "skip")


class Decision(NamedTuple):
    """What was decided on one row."""

    row: int
    given: str
    decision: str
    label: str


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
    absent = [name for name in Decision._fields if name not in record]
    if absent:
        raise InputError(f"{path}: has no column {listed(absent)}; export decisions from the report.")
    row, decision = str(record["row"]), str(record["decision"])
    if not row.isdecimal():
        raise InputError(f"{path}: line {line} has {row!r} for a row number.")
    if decision not in DECISIONS:
        raise InputError(f"{path}: the decision on row {row} is {decision!r}; use {', '.join(DECISIONS)}.")
    return Decision(int(row), str(record["given"]), decision, str(record["label"]))


def check_given(train: str, decision: Decision, found: Any) -> None:
    """Refuse a decision that was made on another label than the one found in its row."""
    if str(found).strip() == decision.given or _same_number(str(found), decision.given):
        return
    raise InputError(
        f"{train}: row {decision.row} has the label {str(found)!r}, but the decisions were made on {decision.given!r}. "
        "Is it the file that the report was made from?"
    )


def check_rows(train: str, made: dict[int, Decision], n_rows: int) -> None:
    """Refuse decisions on rows that are not there."""
    if max(made) >= n_rows:
        raise InputError(
            f"{train}: has {n_rows:,} rows, but there is a decision on row {max(made)}. Is it the right file?"
        )


def _same_number(a: str, b: str) -> bool:
    try:
        return f"{float(a):.6g}" == f"{float(b):.6g}"
    except ValueError:
        return a.lower() == b.lower() in ("true", "false")
