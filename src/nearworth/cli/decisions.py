"""Decisions about rows: read as a page exports them, carried out by `apply`, kept so that no row is
asked about twice.

Decisions are kept in KEPT, a JSON file in the folder of the data, a line for each, in the order of
their keys. A key is a hash of the cells of a row but for the target, so rows may be sorted and
saved in other formats. `detect` and `report` leave out the rows that are known there, of identical
rows as many as were decided. Answers of a review go to the audit; those with a label can be
applied.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearworth._common.digits import spelled
from nearworth._common.text import one_line
from nearworth._common.types import BoolVector, IntVector
from nearworth.cli.arguments import ApplyOptions
from nearworth.cli.options import print_message
from nearworth.tables import InputError, listed, number_of
from nearworth.tables.labels import folded
from nearworth.tables.read import DataFile, find_dialect, read, suffix_of
from nearworth.tables.readers import NOTHING, find_reader, kind_of
from nearworth.tables.write import (
    FORMATS,
    check_output,
    guard,
    locked,
    replace_cells,
    write_bytes,
    write_columns,
)

if TYPE_CHECKING:
    from nearworth.audit.result import LabelAudit
    from nearworth.tables.dataset import Dataset

DECISIONS, REQUIRED = (
    ("confirm", "relabel", "remove", "skip"),
    ("row", "given", "decision", "label"),
)
ANSWERS, REVIEWED = (
    ("right", "wrong", "skip"),
    ("row", "given", "decision", "asked", "seed", "of_rows"),
)
NUMBERS = ("row", "asked", "seed", "of_rows")
KEPT, VERSION = "nearworth-decisions.json", 1
FIELDS = (
    "row",
    "target",
    "given",
    "decision",
    "label",
    "at",
)  # of a decision that is kept; where the row was then
KEY_LENGTH = 16
# Pairs of a label and its correction that a message lists.
MAX_PAIRS = 20
# Share of the answers of a review that may be about rows which are not drawn here.
MAX_STRANGER_SHARE = 0.05
RIGHT_FILE = "Is it the file that the page was made from?"
TEXT = {".csv": ".csv", ".txt": ".csv", ".tsv": ".tsv"}  # to these, cells are copied as they are
MOMENTS = (pa.timestamp("s"), pa.timestamp("us"), pa.time32("s"))
TRUTH = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}


class Decision(NamedTuple):
    """What was decided on one row, and how to recognise the row; other texts are empty where they
    were not exported.
    """

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
    records = (
        _read_json(path)
        if path.lower().endswith(".json")
        else read(path, text_only=True).table.to_pylist()
    )
    decisions: Decisions = {}
    for line, record in enumerate(records):
        decision = _decision(f"{path}: line {line}", record, possible, required)
        if decision.row in decisions:
            raise InputError(
                f"{path}: row {decision.row} occurs twice. Keep one decision for each row."
            )
        decisions[decision.row] = decision
    if not decisions:
        raise InputError(f"{path}: holds no decisions.")
    return decisions, str(records[0].get("target") or "")


def _read_json(path: str) -> list[dict[str, Any]]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        content = json.loads(text, parse_int=str, parse_float=str)  # with all of their digits
        return [{"target": content["target"]} | dict(record) for record in content["decisions"]]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: is not a file of decisions exported by a report.") from error


def _decision(
    where: str, record: dict[str, Any], possible: tuple[str, ...], required: tuple[str, ...]
) -> Decision:
    known = {name: str(record[name]) for name in Decision._fields if record.get(name) is not None}
    if known.get("decision") in ("remove", *ANSWERS):
        known.setdefault("label", "")
    if absent := [name for name in required if name not in known]:
        what = f"has no column {listed(absent)}; export decisions from the page."
        if "decision" in absent and "row" in absent:
            what = (
                "holds no decisions. Export them from the page; nearworth apply takes them first,"
                " then the data."
            )
        elif {*absent} <= {"asked", "seed", "of_rows"}:
            what = (
                "is of a report, whose rows were not drawn for a review: make a page for one with"
                " nearworth review."
            )
        raise InputError(f"{where} {what}")
    if known["decision"] not in possible:
        raise InputError(
            f"{where}: the decision is {known['decision']!r}; use {', '.join(possible)}."
        )
    for name in NUMBERS:
        if not known.get(name, "0").isdecimal() and (known[name] or name in required):
            raise InputError(
                f"{where} has no number where one is needed: {name} is {known[name]!r}."
            )
    return Decision(int(known.pop("row")), **known)


def apply(options: ApplyOptions) -> None:
    output = options.write.output
    train_suffix = suffix_of(Path(options.train))
    formats = (".npz",) if train_suffix == ".npz" else FORMATS
    check_output(output, options.write.force, formats, (options.decisions,))

    exported, exported_target = read_decisions(options.decisions, (*DECISIONS, "right", "wrong"))
    decisions = {row: _as_decision(decision) for row, decision in exported.items()}
    id_columns = {decision.id_column for decision in decisions.values()}
    source = read(options.train, identifiers=id_columns)
    target = options.target or exported_target
    labels = _labels(source, target)
    _check_rows(source, decisions, labels)

    new_labels = _new_labels(decisions)
    removed = _removed(decisions)
    if len(removed) == len(labels):
        raise InputError(f"{options.decisions}: every row is to be removed; nothing would be left.")
    if TEXT.get(train_suffix) == Path(output).suffix.lower():
        _write_text(source, target, new_labels | dict.fromkeys(removed), output)
    else:
        relabelled = _relabelled(source, new_labels, labels)
        _write_typed(source, target, relabelled, removed, output)

    print_message(f"{_changes(decisions)}; the data are in {one_line(output)}{_pairs(decisions)}")
    _print_wrong_without_label(decisions, options, target)
    if options.keep:
        _keep(source, target, decisions, output)


def _new_labels(decisions: Decisions) -> dict[int, str]:
    """The label of each row whose label changes."""
    return {row: made.label for row, made in decisions.items() if made.decision == "relabel"}


def _removed(decisions: Decisions) -> set[int]:
    """Rows to remove."""
    return {row for row, made in decisions.items() if made.decision == "remove"}


def _changes(decisions: Decisions) -> str:
    """How many labels are changed, rows removed, and so on."""
    kinds = Counter(decision.decision for decision in decisions.values())
    counts = [number_of("label", kinds["relabel"], "changed")]
    if kinds["remove"]:
        counts.append(number_of("row", kinds["remove"], "removed"))
    counts += [f"{kinds['confirm']:,} confirmed", f"{kinds['skip']:,} skipped"]
    return ", ".join(counts)


def _pairs(decisions: Decisions) -> str:
    """The commonest changes of labels, one on each line, from one label to another."""
    pairs = Counter((decisions[row].given, label) for row, label in _new_labels(decisions).items())
    lines = [
        f"\n  {one_line(given)} -> {one_line(label)}: {count:,}"
        for (given, label), count in pairs.most_common(MAX_PAIRS)
    ]
    return "".join(lines)


def _print_wrong_without_label(decisions: Decisions, options: ApplyOptions, target: str) -> None:
    """Say how to choose the labels of rows judged wrong, if some have none yet."""
    n_wrong = sum(decision.decision == "wrong" for decision in decisions.values())
    if not n_wrong:
        return
    is_review = any(decision.asked for decision in decisions.values())
    review = ["--review", options.decisions] if is_review else []
    arguments = ["report", options.train, "--target", target, *review, "-o", "labels.html"]
    report = one_line(shlex.join(["nearworth", *arguments]))
    print_message(
        f"{n_wrong:,} judged wrong have no label yet and stay as they are. To choose one: {report}"
    )


def _as_decision(answer: Decision) -> Decision:
    """The answer of a review as a decision; a decision as it is.

    A label that is wrong is changed if the right one is known, and else stays "wrong".
    """
    if answer.decision not in ANSWERS:
        return answer
    decision = answer.decision
    if decision == "right":
        decision = "confirm"
    elif decision == "wrong" and answer.label:
        decision = "relabel"
    return answer._replace(decision=decision, label=answer.label or answer.given)


def _keep(source: DataFile, target: str, made: Decisions, output: str) -> None:
    """Keep the decisions beside the data, before and after: the next report does not ask again."""
    records = _as_records(source, target, made)
    try:
        for folder in sorted({Path(source.path).absolute().parent, Path(output).absolute().parent}):
            with locked(
                folder / KEPT
            ):  # between reading and writing, another process might add its own
                kept = KeptDecisions(folder)
                kept.add(records)
                kept.write()
    except InputError as problem:
        print_message(
            f"warning: the decisions are not kept for the next report: {one_line(problem)}"
        )
    else:
        print_message(
            f"The next report does not ask about these rows again: they are in {KEPT} beside the"
            " data."
        )


def _as_records(source: DataFile, target: str, made: Decisions) -> list[tuple[str, ...]]:
    """Decisions as they are kept, by FIELDS; what was skipped, or is wrong without a label, is
    still open.
    """
    judged = [decision for decision in made.values() if decision.decision not in ("skip", "wrong")]
    keys = row_keys(source, target, np.array([decision.row for decision in judged], dtype=np.intp))
    return [
        (key, target, decision.given, decision.decision, decision.label, str(decision.row))
        for key, decision in zip(keys, judged, strict=True)
    ]


def _labels(source: DataFile, target: str) -> list[Any]:
    if source.y is not None:
        return list(source.y.tolist())
    if not source.is_table:
        raise InputError(f"{source.path}: has no labels `y` to change.")
    if target not in source.table.column_names:
        raise InputError(
            f"{source.path}: has no column {target!r}, that of the decisions; name yours with"
            " --target."
        )
    return list(source.table[target].to_pylist())


def _write_text(source: DataFile, target: str, new: dict[int, Any], output: str) -> None:
    """Copy a CSV byte by byte but for the changed labels (None: rows removed), so that 1.50 stays
    1.50.
    """
    path, table = Path(source.path), source.table
    dialect = find_dialect(path)

    def change(row: int, found: str) -> str | None:
        if new[row] is None:
            return None
        return _written_like(found, guard(new[row]), comma=dialect.decimal == ",")

    lines = replace_cells(
        path, dialect, table.column_names.index(target), new, change, table.num_rows
    )
    write_bytes(output, lambda file: file.writelines(lines))


def _written_like(given: str, label: str, comma: bool = False) -> str:
    """True, False and decimal commas as this file spells them; other labels as they are.

    >>> _written_like("true", "False"), _written_like("TRUE", "False"), _written_like("Cat", "Dog")
    ('false', 'FALSE', 'Dog')
    """
    if label not in ("True", "False"):
        return label.replace(".", ",") if comma and re.fullmatch(r"[+-]?\d*\.\d+", label) else label
    return label.lower() if given.islower() else label.upper() if given.isupper() else label


def _write_typed(
    source: DataFile, target: str, labels: list[Any], removed: set[int], output: str
) -> None:
    """Write a table or an archive of arrays with these labels, in the type that they had, without
    some rows.
    """
    kept = np.array([row for row in range(len(labels)) if row not in removed])
    if source.is_table:
        table, number = source.table, source.table.column_names.index(target)
        table = table.set_column(
            number, table.schema.field(number), pa.array(labels, table.schema.field(number).type)
        )
        if source.index is not None and not output.lower().endswith((".csv", ".tsv")):
            for name in source.index.column_names:
                table = table.append_column(source.index.schema.field(name), source.index[name])
        table = table.replace_schema_metadata(source.table.schema.metadata)
        write_columns(table.take(kept) if removed else table, output)
        return
    y = np.array(
        labels, dtype=None if source.y.dtype.kind in "UT" else source.y.dtype
    )  # text may be longer now
    with np.load(source.path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files} | {source.y_name: y}
    if removed:
        arrays = {
            name: a[kept] if a.ndim and len(a) == len(labels) else a for name, a in arrays.items()
        }
    write_bytes(output, lambda file: np.savez_compressed(file, **arrays))


def _relabelled(source: DataFile, new: dict[int, str], labels: list[Any]) -> list[Any]:
    """The labels with those that were changed, each in the type of the label it replaces."""
    known = next((label for label in labels if label is not None), "")
    for row, label in new.items():
        kind = type(known if labels[row] is None else labels[row])
        try:
            labels[row] = TRUTH[label] if kind is bool else kind(label)
        except (ValueError, KeyError, InvalidOperation):
            raise InputError(
                f"{source.path}: row {row} holds {kind.__name__}; {label!r} cannot be one."
            ) from None
    return labels


def _check_rows(source: DataFile, made: Decisions, labels: list[Any]) -> None:
    """Refuse decisions made on other rows: by ids or else by the number of rows, and by the
    labels.
    """
    n_rows, last = len(labels), max(made)
    has, shown = f"{source.path}: has {n_rows:,} rows", _as_reported(labels)
    if last >= n_rows:
        raise InputError(f"{has}, but there is a decision on row {last}. {RIGHT_FILE}")
    for row, decision in made.items():
        if decision.id and source.is_table:
            _check_id(source, decision)
        elif decision.of_rows and int(decision.of_rows) != n_rows:
            made_on = f"data of {decision.of_rows} rows"
            raise InputError(
                f"{has}, but the decision on row {row} was made on {made_on}. {RIGHT_FILE}"
            )
        if not any(same_label(found[row], decision.given) for found in (labels, shown)):
            has = f"{source.path}: row {row} has the label {str(labels[row])!r}"
            raise InputError(
                f"{has}, but the decision was made on {decision.given!r}. {RIGHT_FILE}"
            )


def _check_id(source: DataFile, decision: Decision) -> None:
    """The id must be in its column; in any column if its own has another name in this file."""
    names = source.table.column_names
    searched = [decision.id_column] if decision.id_column in names else names
    cells = [source.table[name][decision.row].as_py() for name in searched]
    # Spreadsheets write 007 as 7, so that spellings may differ; but not if another row is spelled
    # exactly so.
    exact = [decision.id in _spellings(cell) for cell in cells]
    is_same = any(exact) or any(same_label(cell, decision.id) for cell in cells)
    if not any(exact) and is_same and decision.id_column in names:
        written = source.table[decision.id_column]
        is_same = not (
            kind_of(written) == "text" and pc.any(pc.equal(written, decision.id)).as_py()
        )
    if not is_same:
        raise InputError(
            f"{source.path}: row {decision.row} should have the id {decision.id!r}, but has"
            f" {listed(map(str, cells))}: the decisions were made on other data, or on a copy in"
            " another order. Sort it back, or export from a report on this file."
        )


def _spellings(cell: Any) -> set[str]:
    """A cell as it is written, and as it is printed where a column of such cells is read as
    moments.
    """
    found = {str(cell)}
    for kind in MOMENTS if isinstance(cell, str) else ():
        with suppress(pa.ArrowException):
            found.add(str(pa.scalar(cell).cast(kind).as_py()))
    return found


def _as_reported(labels: list[Any]) -> list[Any]:
    """The labels as a report shows them: "$1,200" is 1200."""
    if not all(label is None or isinstance(label, str) for label in labels):
        return labels
    column = pa.chunked_array([pa.array(labels, pa.string())])
    read = find_reader(column)(column)
    return list(read.to_pylist()) if kind_of(read) == "number" else labels


@dataclass(frozen=True)
class ReviewedAudit:
    """An audit with the answers of reviews.

    Attributes
    ----------
    audit : LabelAudit
    corrected : list of int
        Audited rows that a review named another label for. They need not be shown again.
    n_reviewed : int
        Audited rows that were reviewed, in all reviews together.
    """

    audit: LabelAudit
    corrected: list[int]
    n_reviewed: int


def add_reviews(dataset: Dataset, audit: LabelAudit, paths: tuple[str, ...]) -> ReviewedAudit:
    """Give the answers of reviews to an audit, one file after the other.

    Each review was drawn by the audit with the answers of those before it.
    """
    corrected: list[int] = []
    n_reviewed = 0
    audited_row = {row: index for index, row in enumerate(dataset.labeled_rows.tolist())}
    for path in paths:
        answers, _ = read_decisions(path, ANSWERS, REVIEWED)
        _check_answers(path, answers, dataset, audited_row)
        is_wrong = {
            audited_row[row]: answer.decision == "wrong"
            for row, answer in answers.items()
            if answer.decision != "skip"
        }
        if not is_wrong:
            raise InputError(f"{path}: holds no judged row.")
        first_answer = next(iter(answers.values()))
        is_wrong = _without_strangers(path, is_wrong, first_answer, audit)
        audit = audit.reviewed(np.array([*is_wrong]), np.array([*is_wrong.values()]))
        n_reviewed += len(is_wrong)
        corrected += [
            audited_row[row]
            for row, answer in answers.items()
            if is_wrong.get(audited_row[row])
            and answer.label
            and not same_label(answer.given, answer.label)
        ]
    return ReviewedAudit(audit, corrected, n_reviewed)


def _check_answers(
    path: str, answers: Decisions, dataset: Dataset, audited_row: dict[int, int]
) -> None:
    """Refuse answers about rows of another file, or about labels that have changed since."""
    for row, answer in answers.items():
        is_here = int(answer.of_rows) == dataset.n_rows and row in audited_row
        if not is_here or not same_label(dataset.y[audited_row[row]], answer.given):
            raise InputError(
                f"{path}: row {row} was {answer.given!r} among {answer.of_rows} rows when it was"
                f" judged. {RIGHT_FILE} A cleaned copy needs a review of its own."
            )


def _without_strangers(
    path: str, is_wrong: dict[int, bool], answer: Decision, audit: LabelAudit
) -> dict[int, bool]:
    """The answers about rows that this audit draws for the review.

    A few others are left out: another processor may have rounded them to the other side of a limit.
    If there are many, the audit is not the one that the review was drawn by.
    """
    size = int(answer.asked)
    drawn = set(audit.review_sample(size, random_state=int(answer.seed)).tolist())
    strangers = sorted(is_wrong.keys() - drawn)
    if len(strangers) > MAX_STRANGER_SHARE * len(is_wrong):
        raise InputError(
            f"{path}: row {strangers[0]} is not among the {size:,} rows of this review. Give the"
            " options and, in their order, the earlier reviews that its page was made with."
        )
    if not strangers:
        return is_wrong
    left_out = number_of("answer", len(strangers))
    print_message(f"{one_line(path)}: {left_out} left out, on rows that are not drawn here.")
    return {row: wrong for row, wrong in is_wrong.items() if row not in strangers}


class KeptDecisions:
    """The decisions that are kept in a folder, if any: by row and target, one for each label judged
    and each copy.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = (folder or Path()) / KEPT
        self._known: dict[tuple[str, str], dict[tuple[str, str], dict[str, str]]] = {}
        if folder is None or not self.path.exists():
            return
        try:
            for record in json.loads(self.path.read_text(encoding="utf-8"))["decisions"]:
                self._enter(*(str(({"at": ""} | record)[name]) for name in FIELDS))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            problem = (
                f"{self.path}: is no file of kept decisions ({error}). Delete or repair it, or use"
                " --ask-again."
            )
            raise InputError(problem, add=("--ask-again",)) from error

    def _enter(self, row: str, target: str, given: str, *made: str) -> None:
        record = dict(zip(FIELDS, (row, target, given, *made), strict=True))
        self._known.setdefault((row, target), {})[folded(given), record["at"]] = record

    def add(self, records: list[tuple[str, ...]]) -> None:
        """Keep further decisions; a later one on the same row, label and copy replaces the earlier
        one.
        """
        for record in records:
            self._enter(*record)

    def write(self) -> None:
        """Replace the file, under its lock: readers see the one or the other, never a part."""
        records = [
            record for key in sorted(self._known) for _, record in sorted(self._known[key].items())
        ]
        lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records)
        text = f'{{"version": {VERSION}, "decisions": [\n{lines}\n]}}\n'
        write_bytes(str(self.path), lambda file: file.write(text.encode("utf-8", "replace")))

    def is_decided(self, dataset: Dataset, rows: IntVector) -> BoolVector:
        """Which of these rows were decided on.

        A decision counts for one row of identical cells: for one that has the label decided on, or
        still the label that the decision was about.
        """
        if not self._known:
            return np.zeros(len(rows), dtype=bool)
        decided: list[int] = []
        given = dict(zip(dataset.labeled_rows.tolist(), dataset.y.tolist(), strict=True))
        for key, identical in self._identical_rows(dataset, rows).items():
            decided += _rows_of_decisions(
                list(self._known.get((key, dataset.target), {}).values()), identical, given
            )
        return np.isin(rows, decided)

    def _identical_rows(self, dataset: Dataset, rows: IntVector) -> dict[str, set[int]]:
        """By their key, the rows of the data that are identical to one of these that is known."""
        assert dataset.file is not None
        target = dataset.target
        keys = row_keys(dataset.file, target, rows)
        known_rows = rows[[(key, target) in self._known for key in keys]]

        # Keys are slow: they are computed only for rows that have each number in common with one
        # of the known rows.
        X = dataset.X
        candidates = np.arange(len(X))
        for column in range(X.shape[1]):
            candidates = candidates[np.isin(X[candidates, column], X[known_rows, column])]
        identical: dict[str, set[int]] = {}
        keys = row_keys(dataset.file, target, candidates)
        for key, row in sorted(zip(keys, candidates.tolist(), strict=True)):
            identical.setdefault(key, set()).add(row)
        return identical


def _rows_of_decisions(
    records: list[dict[str, str]], identical: set[int], given: dict[int, Any]
) -> list[int]:
    """The row that each decision is about, among identical rows, as far as there is one."""
    # By where the row was when it was decided on.
    taken: dict[str, int] = {}
    for record in records:
        has_new_label: dict[int, bool] = {}
        for row in identical - set(taken.values()):
            is_new = same_label(given.get(row), record["label"])
            if is_new or same_label(given.get(row), record["given"]):
                has_new_label[row] = is_new
        if has_new_label:
            # The row itself, else one that has the label decided on, else one that has the label
            # that the decision was about.
            best = min(
                (str(row) != record["at"], not new, row) for row, new in has_new_label.items()
            )
            taken.setdefault(record["at"], best[-1])
    return list(taken.values())


def row_keys(source: DataFile, target: str, rows: Any) -> list[str]:
    """A hash for each row, of all its cells but the target, whatever order or format they are
    in.
    """
    names, rows = list[str](), np.asarray(rows, dtype=np.intp)
    if source.is_table:
        names = sorted(name for name in source.table.column_names if name != target)
        lines: Any = [
            [record[name] for name in names] for record in source.table.take(rows).to_pylist()
        ]
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
        text = spelled(text)
    return "" if text in NOTHING else text


def same_label(cell: Any, text: str) -> bool:
    """Equal but for case and white space, or as numbers (007 is 7), of whose fractions six digits
    may be printed.
    """
    found = "" if cell is None else str(cell)
    if folded(found) == folded(text) or (not text and folded(found) in NOTHING):
        return True
    try:
        number = Decimal(found.strip())
        return number == Decimal(text) or (
            number % 1 != 0 and text in (f"{float(number):.{n}g}" for n in (6, 15))
        )
    except InvalidOperation:
        return False
