"""Decisions about rows: as the page exports them, and as they are kept beside the data, so that no row is asked twice.

`apply` reads what was exported and keeps it in KEPT, a JSON file in the folder of the data: a line for each decision,
in the order of their keys. A key is a hash of the cells of a row but for the target, so rows may be sorted and saved
in other formats. `detect` and `report` leave out the rows that are known there. Answers of a review go to the audit.
"""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearworth._common.types import BoolVector, IntVector
from nearworth.tables import InputError, listed
from nearworth.tables.labels import folded
from nearworth.tables.read import DataFile, read
from nearworth.tables.readers import NOTHING
from nearworth.tables.write import write_bytes

if TYPE_CHECKING:
    from nearworth.audit.result import LabelAudit
    from nearworth.cli.data import Data

DECISIONS, REQUIRED = ("confirm", "relabel", "remove", "skip"), ("row", "given", "decision", "label")
ANSWERS, REVIEWED = ("right", "wrong", "skip"), ("row", "given", "decision", "asked", "seed", "of_rows")
NUMBERS = ("row", "asked", "seed", "of_rows")
KEPT, VERSION = "nearworth-decisions.json", 1
FIELDS = ("row", "target", "given", "decision", "label")  # of a decision that is kept
KEY_LENGTH = 16


class Decision(NamedTuple):
    """What was decided on one row, and how to recognise the row; other texts are empty where they were not exported."""

    row: int
    given: str
    decision: str
    label: str = ""
    id: str = ""
    id_column: str = ""
    of_rows: str = ""
    asked: str = ""  # so many rows were drawn for a review, with this seed
    seed: str = ""


Decisions = dict[int, Decision]  # by row


def read_decisions(
    path: str, possible: tuple[str, ...] = DECISIONS, required: tuple[str, ...] = REQUIRED
) -> tuple[Decisions, str]:
    """Decisions by row, and the name of the target, from CSV or JSON as a page exports them."""
    records = _read_json(path) if path.lower().endswith(".json") else read(path, text_only=True).table.to_pylist()
    decisions: Decisions = {}
    for line, record in enumerate(records):
        decision = _decision(f"{path}: line {line}", record, possible, required)
        if decision.row in decisions:
            raise InputError(f"{path}: row {decision.row} occurs twice. Keep one decision for each row.")
        decisions[decision.row] = decision
    if not decisions:
        raise InputError(f"{path}: holds no decisions.")
    return decisions, str(records[0].get("target") or "")


def _read_json(path: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
        return [{"target": content["target"]} | dict(record) for record in content["decisions"]]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: is not a file of decisions exported by a report.") from error


def _decision(where: str, record: dict[str, Any], possible: tuple[str, ...], required: tuple[str, ...]) -> Decision:
    known = {name: str(record[name]) for name in Decision._fields if record.get(name) is not None}
    if known.get("decision") == "remove":
        known.setdefault("label", "")
    if absent := [name for name in required if name not in known]:
        raise InputError(f"{where} has no column {listed(absent)}; export decisions from the page.")
    if known["decision"] not in possible:
        raise InputError(f"{where}: the decision is {known['decision']!r}; use {', '.join(possible)}.")
    for name in NUMBERS:
        if not known.get(name, "0").isdecimal() and (known[name] or name in required):
            raise InputError(f"{where} has no number where one is needed: {name} is {known[name]!r}.")
    return Decision(int(known.pop("row")), **known)


def answered(audit: LabelAudit, data: Data, reviews: tuple[str, ...]) -> LabelAudit:
    """The audit with the decisions of one review after the other, each drawn anew as its page was."""
    position = {number: index for index, number in enumerate(data.numbers.tolist())}  # among the rows audited
    for path in reviews:
        made, _ = read_decisions(path, ANSWERS, REVIEWED)
        for row, judged in made.items():
            known = int(judged.of_rows) == data.rows.of_rows and row in position
            if not known or not same_label(data.y[position[row]], judged.given):
                was = f"row {row} was {judged.given!r} among {judged.of_rows} rows when it was judged"
                raise InputError(f"{path}: {was}. Is it the file that the page was made from?")
        wrong = {position[row]: one.decision == "wrong" for row, one in made.items() if one.decision != "skip"}
        drawings = {(int(one.asked), int(one.seed)) for one in made.values()}
        if not wrong or len(drawings) > 1:
            several = "holds no judged row, or decisions of several reviews"
            raise InputError(f"{path}: {several}; give each file its own --review.")
        ((number, seed),) = drawings
        strange = sorted(wrong.keys() - {*audit.review_sample(number, random_state=seed).tolist()})
        if strange:
            raise InputError(
                f"{path}: row {strange[0]} is not among the {number:,} rows of this review. Give the options and, in "
                "their order, the earlier reviews that its page was made with."
            )
        audit = audit.reviewed(np.array([*wrong]), np.array([*wrong.values()]))
    return audit


class KeptDecisions:
    """The decisions that are kept in a folder, if any: by row and target, one for each label that was judged."""

    def __init__(self, folder: Path | None) -> None:
        self.path = (folder or Path()) / KEPT
        self._known: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
        if folder is None or not self.path.exists():
            return
        try:
            for record in json.loads(self.path.read_text(encoding="utf-8"))["decisions"]:
                self._enter(*(str(record[name]) for name in FIELDS))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            problem = f"{self.path}: is no file of kept decisions ({error}). Delete or repair it, or use --ask-again."
            raise InputError(problem, add=("--ask-again",)) from error

    def _enter(self, row: str, target: str, given: str, *made: str) -> None:
        record = dict(zip(FIELDS, (row, target, given, *made), strict=True))
        self._known.setdefault((row, target), {})[folded(given)] = record

    def add(self, source: DataFile, target: str, made: Decisions) -> None:
        """Keep decisions on rows of a file; what was skipped is still open."""
        judged = [decision for decision in made.values() if decision.decision != "skip"]
        keys = row_keys(source, target, np.array([decision.row for decision in judged], dtype=np.intp))
        for key, decision in zip(keys, judged, strict=True):
            self._enter(key, target, decision.given, decision.decision, decision.label)

    def write(self) -> None:
        records = [record for key in sorted(self._known) for _, record in sorted(self._known[key].items())]
        lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records)
        text = f'{{"version": {VERSION}, "decisions": [\n{lines}\n]}}\n'
        write_bytes(str(self.path), lambda file: file.write(text.encode("utf-8", "replace")))

    def judged(self, data: Data, rows: IntVector, labels: list[str]) -> BoolVector:
        """Which rows were judged with the label that they have, or were given it then."""
        found, target = np.zeros(len(rows), dtype=bool), data.rows.target
        for i, key in enumerate(row_keys(data.source, target, rows) if self._known else ()):
            records = self._known.get((key, target), {}).values()
            found[i] = any(same_label(labels[i], record[name]) for record in records for name in ("given", "label"))
        return found


def row_keys(source: DataFile, target: str, rows: Any) -> list[str]:
    """A hash for each row, of all its cells but the target, whatever order or format they are in."""
    names, rows = list[str](), np.asarray(rows, dtype=np.intp)
    if source.is_table:
        names = sorted(name for name in source.table.column_names if name != target)
        lines: Any = [[record[name] for name in names] for record in source.table.take(rows).to_pylist()]
    else:
        lines = np.asarray(source.X[rows], dtype=np.float64).tolist()
    texts = (repr([*names, *map(_plain, cells)]) for cells in lines)
    return [sha256(text.encode("utf-8", "replace")).hexdigest()[:KEY_LENGTH] for text in texts]


def _plain(cell: Any) -> str:
    """A cell as text that does not depend on the format of its file.

    >>> [_plain(cell) for cell in (1, "1.0", True, "TRUE", None, "n/a", " New  York ")]
    ['1.0', '1.0', 'true', 'true', '', '', 'new york']
    """
    text = folded(str(cell))
    with suppress(ValueError):
        text = repr(float(text))
    return "" if text in NOTHING else text


def same_label(cell: Any, text: str) -> bool:
    """Equal but for case and white space, or as numbers (007 is 7), of whose fractions six digits may be printed."""
    found = "" if cell is None else str(cell)
    if folded(found) == folded(text) or (not text and folded(found) in NOTHING):
        return True
    try:
        number = Decimal(found.strip())
        return number == Decimal(text) or (number % 1 != 0 and text in (f"{float(number):.{n}g}" for n in (6, 15)))
    except InvalidOperation:
        return False
