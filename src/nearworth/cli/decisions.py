"""Decisions about rows: read as a page exports them, carried out by `apply`, and kept.

Kept decisions are in KEPT, a JSON file in the folder of the data, a line for each, in the order of
their keys. A key is a hash of the cells of a row but for the target, so rows may be sorted and
saved in other formats. `audit` and `report` leave out the rows that are known there. Of identical
rows they leave out as many as were decided on. Answers of a review go to the audit. Those with a
label can be applied.
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

# What a report exports: decisions, and the columns that it has.
DECISIONS = ("confirm", "relabel", "remove", "skip")
REQUIRED = ("row", "given", "decision", "label")
# What a review exports.
ANSWERS = ("right", "wrong", "skip")
REVIEWED = ("row", "given", "decision", "asked", "seed", "of_rows")
NUMBERS = ("row", "asked", "seed", "of_rows")
KEPT = "nearworth-decisions.json"
VERSION = 1
# A decision that is kept: the key of its row, and where the row was then ("at").
FIELDS = ("row", "target", "given", "decision", "label", "at")
KEY_LENGTH = 16
# Pairs of a label and its correction that a message lists.
MAX_PAIRS = 20
# Share of the answers of a review that may be about rows which are not drawn here.
MAX_NOT_DRAWN_SHARE = 0.05
RIGHT_FILE = "Is it the file that the page was made from?"
# From a file of the one format to one of the other, cells are copied as they are.
TEXT = {".csv": ".csv", ".txt": ".csv", ".tsv": ".tsv"}
MOMENTS = (pa.timestamp("s"), pa.timestamp("us"), pa.time32("s"))
TRUTH = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}


class Decision(NamedTuple):
    """What was decided on one row, and how to recognise the row.

    Texts are empty where they were not exported. For a review, `asked` rows were drawn with this
    `seed`.
    """

    row: int
    given: str
    decision: str
    label: str = ""
    id: str = ""
    id_column: str = ""
    of_rows: str = ""
    asked: str = ""
    seed: str = ""


# By row.
Decisions = dict[int, Decision]


def read_decisions(
    path: str, possible: tuple[str, ...] = DECISIONS, required: tuple[str, ...] = REQUIRED
) -> tuple[Decisions, str]:
    """Decisions by row, and the name of the target, from CSV or JSON as a page exports them."""
    if path.lower().endswith(".json"):
        records = _read_json(path)
    else:
        records = read(path, text_only=True).table.to_pylist()
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
        # Numbers keep all of their digits.
        content = json.loads(text, parse_int=str, parse_float=str)
        return [{"target": content["target"]} | dict(record) for record in content["decisions"]]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: is not a file of decisions exported by a report.") from error


def _decision(
    where: str, record: dict[str, Any], possible: tuple[str, ...], required: tuple[str, ...]
) -> Decision:
    """One record as a decision; `where` names its file and line."""
    known = {name: str(record[name]) for name in Decision._fields if record.get(name) is not None}
    if known.get("decision") in ("remove", *ANSWERS):
        known.setdefault("label", "")
    absent = [name for name in required if name not in known]
    if absent:
        raise InputError(f"{where} {_problem_of_absent(absent)}")
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


def _problem_of_absent(absent: list[str]) -> str:
    """What is wrong with a file of decisions that lacks these columns."""
    if "decision" in absent and "row" in absent:
        return (
            "holds no decisions. Export them from the page; nearworth apply takes them first, then"
            " the data."
        )
    if {*absent} <= {"asked", "seed", "of_rows"}:
        return (
            "is of a report, whose rows were not drawn for a review: make a page for one with"
            " nearworth review."
        )
    return f"has no column {listed(absent)}; export decisions from the page."


def apply(options: ApplyOptions) -> None:
    output = options.write.output
    train_suffix = suffix_of(Path(options.train))
    formats = (".npz",) if train_suffix == ".npz" else FORMATS
    check_output(output, options.write.overwrite, formats, (options.decisions,))

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
    """Keep the decisions beside both the old and the new data.

    The next report does not ask about these rows again.
    """
    records = _as_records(source, target, made)
    folders = {Path(path).absolute().parent for path in (source.path, output)}
    try:
        for folder in sorted(folders):
            # Between reading and writing, another process might add its own.
            with locked(folder / KEPT):
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
    """Decisions as they are kept, by FIELDS.

    Rows that were skipped, or are wrong without a label, are still open.
    """
    final = [decision for decision in made.values() if decision.decision not in ("skip", "wrong")]
    rows = np.array([decision.row for decision in final], dtype=np.intp)
    return [
        (key, target, decision.given, decision.decision, decision.label, str(decision.row))
        for key, decision in zip(row_keys(source, target, rows), final, strict=True)
    ]


def _labels(source: DataFile, target: str) -> list[Any]:
    """The label of each row, None where there is none."""
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
    """Copy a CSV byte by byte but for the labels that are new. Where they are None, rows go.

    Cells keep their spelling: 1.50 stays 1.50.
    """
    path = Path(source.path)
    table = source.table
    dialect = find_dialect(path)

    def change(row: int, old: str) -> str | None:
        label = new[row]
        if label is None:
            return None
        return _written_like(old, guard(label), comma=dialect.decimal == ",")

    column = table.column_names.index(target)
    lines = replace_cells(path, dialect, column, new, change, table.num_rows)
    write_bytes(output, lambda file: file.writelines(lines))


def _written_like(given: str, label: str, comma: bool = False) -> str:
    """True, False and decimal commas as this file spells them; other labels as they are.

    >>> _written_like("true", "False"), _written_like("TRUE", "False"), _written_like("Cat", "Dog")
    ('false', 'FALSE', 'Dog')
    """
    if label in ("True", "False"):
        if given.islower():
            return label.lower()
        return label.upper() if given.isupper() else label
    if comma and re.fullmatch(r"[+-]?\d*\.\d+", label):
        return label.replace(".", ",")
    return label


def _write_typed(
    source: DataFile, target: str, labels: list[Any], removed: set[int], output: str
) -> None:
    """Write a table or an archive with these labels and without some rows.

    The labels have the type that they had.
    """
    kept = np.array([row for row in range(len(labels)) if row not in removed])
    if source.is_table:
        table = _with_labels(source, target, labels, has_index=_keeps_index(output))
        write_columns(table.take(kept) if removed else table, output)
        return
    # Text may be longer now.
    label_type = None if source.y.dtype.kind in "UT" else source.y.dtype
    with np.load(source.path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays[source.y_name] = np.array(labels, dtype=label_type)
    if removed:
        for name, array in arrays.items():
            # Only these have an entry for each row.
            if array.ndim and len(array) == len(labels):
                arrays[name] = array[kept]
    write_bytes(output, lambda file: np.savez_compressed(file, **arrays))


def _keeps_index(output: str) -> bool:
    """Whether the format of a file has a place for the index of pandas."""
    return not output.lower().endswith((".csv", ".tsv"))


def _with_labels(source: DataFile, target: str, labels: list[Any], *, has_index: bool) -> Any:
    """The table of a file with other labels, and with the index of pandas."""
    table = source.table
    number = table.column_names.index(target)
    column = table.schema.field(number)
    table = table.set_column(number, column, pa.array(labels, column.type))
    if has_index and source.index is not None:
        for name in source.index.column_names:
            table = table.append_column(source.index.schema.field(name), source.index[name])
    return table.replace_schema_metadata(source.table.schema.metadata)


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
    """Refuse decisions made on other rows.

    Rows are recognised by ids, or else by the number of rows, and by the labels.
    """
    n_rows = len(labels)
    last = max(made)
    size = f"{source.path}: has {n_rows:,} rows"
    if last >= n_rows:
        raise InputError(f"{size}, but there is a decision on row {last}. {RIGHT_FILE}")
    reported = _as_reported(labels)
    for row, decision in made.items():
        if decision.id and source.is_table:
            _check_id(source, decision)
        elif decision.of_rows and int(decision.of_rows) != n_rows:
            raise InputError(
                f"{size}, but the decision on row {row} was made on data of {decision.of_rows}"
                f" rows. {RIGHT_FILE}"
            )
        is_written = same_label(labels[row], decision.given)
        if not is_written and not same_label(reported[row], decision.given):
            raise InputError(
                f"{source.path}: row {row} has the label {str(labels[row])!r}, but the decision was"
                f" made on {decision.given!r}. {RIGHT_FILE}"
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
    """A cell as it is written, and as it is printed where such cells are read as moments."""
    spellings = {str(cell)}
    if isinstance(cell, str):
        for moment in MOMENTS:
            with suppress(pa.ArrowException):
                spellings.add(str(pa.scalar(cell).cast(moment).as_py()))
    return spellings


def _as_reported(labels: list[Any]) -> list[Any]:
    """The labels as a report shows them: "$1,200" is 1200."""
    if not all(label is None or isinstance(label, str) for label in labels):
        return labels
    column = pa.chunked_array([pa.array(labels, pa.string())])
    values = find_reader(column)(column)
    return list(values.to_pylist()) if kind_of(values) == "number" else labels


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
        # Each answer holds the size and the seed of its review.
        first_answer = next(iter(answers.values()))
        is_wrong = _answers_on_drawn_rows(path, is_wrong, first_answer, audit)
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


def _answers_on_drawn_rows(
    path: str, is_wrong: dict[int, bool], answer: Decision, audit: LabelAudit
) -> dict[int, bool]:
    """The answers about rows that this audit draws for the review.

    A few answers about other rows are left out, because rounding on another processor may move a
    row across a threshold. If there are many, another audit drew the review, which is an error.
    """
    size = int(answer.asked)
    drawn = set(audit.review_sample(size, random_state=int(answer.seed)).tolist())
    not_drawn = sorted(is_wrong.keys() - drawn)
    if len(not_drawn) > MAX_NOT_DRAWN_SHARE * len(is_wrong):
        raise InputError(
            f"{path}: row {not_drawn[0]} is not among the {size:,} rows of this review. Use the"
            " options that its page was made with, and the same earlier reviews in the same order."
        )
    if not not_drawn:
        return is_wrong
    left_out = number_of("answer", len(not_drawn))
    print_message(f"{one_line(path)}: {left_out} left out, on rows that are not drawn here.")
    return {row: wrong for row, wrong in is_wrong.items() if row not in not_drawn}


class KeptDecisions:
    """The decisions that are kept in a folder; none without a folder.

    They are found by the key of the row and the target. There is one for each label that was
    decided on, and for each of the identical rows.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = (folder or Path()) / KEPT
        # By the key and the target, then by the folded label and where the row was.
        self._known: dict[tuple[str, str], dict[tuple[str, str], dict[str, str]]] = {}
        if folder is None or not self.path.exists():
            return
        try:
            for record in json.loads(self.path.read_text(encoding="utf-8"))["decisions"]:
                self._enter(*(str(({"at": ""} | record)[name]) for name in FIELDS))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"{self.path}: is no file of kept decisions ({error}). Delete or repair it, or use"
                " --include-reviewed.",
                add=("--include-reviewed",),
            ) from error

    def _enter(self, row: str, target: str, given: str, *made: str) -> None:
        record = dict(zip(FIELDS, (row, target, given, *made), strict=True))
        self._known.setdefault((row, target), {})[folded(given), record["at"]] = record

    def add(self, records: list[tuple[str, ...]]) -> None:
        """Keep further decisions. A later one on the same row and label replaces an earlier one."""
        for record in records:
            self._enter(*record)

    def write(self) -> None:
        """Replace the file, under its lock. Readers see the old file or the new one."""
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
    """A hash for each row, of all its cells but the target.

    It depends neither on the order of columns nor on the format of the file.
    """
    rows = np.asarray(rows, dtype=np.intp)
    names: list[str] = []
    if source.is_table:
        names = sorted(name for name in source.table.column_names if name != target)
        records = source.table.take(rows).to_pylist()
        rows_of_cells: Any = [[record[name] for name in names] for record in records]
    else:
        rows_of_cells = np.asarray(source.X[rows], dtype=np.float64).tolist()
    texts = (repr([*names, *map(_plain, cells)]) for cells in rows_of_cells)
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
    """Whether a cell is the label that a page printed.

    They may differ in case and white space, or be the same number (007 is 7). Fractions may have
    been printed with six or fifteen digits.
    """
    written = "" if cell is None else str(cell)
    if folded(written) == folded(text):
        return True
    if not text and folded(written) in NOTHING:
        return True
    try:
        number = Decimal(written.strip())
        if number == Decimal(text):
            return True
        is_fraction = number % 1 != 0
        return is_fraction and text in (f"{float(number):.6g}", f"{float(number):.15g}")
    except InvalidOperation:
        return False
