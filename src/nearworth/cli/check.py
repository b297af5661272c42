"""nearworth check: a gate for continuous integration, which fails on new findings only.

The baseline is a JSON file with a line for each known row: the key of its other cells, its label, a
number if it is there more than once, and the findings about it that were accepted. A row is new if
any of its cells changed. New rows are compared with the known ones.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree as Xml

import click
import numpy as np

import nearworth as nw
from nearworth._common.text import lines, one_line
from nearworth._common.types import BoolVector
from nearworth.cli.arguments import CheckOptions
from nearworth.cli.data import prepare
from nearworth.cli.decisions import row_keys
from nearworth.cli.options import print_message
from nearworth.tables import InputError, number_of
from nearworth.tables.dataset import Dataset
from nearworth.tables.write import locked, write_bytes

if TYPE_CHECKING:
    from nearworth.audit.scan import Scan

# The exit code of a check that found something new.
FAILED = 3
# Characters that Markdown reads as markup. The underscores of snake_case are plain text there.
MARKUP = re.compile(r"[\\`*\[\]<>|&~]|(?<!\w)_|_(?!\w)")


class NewFinding(NamedTuple):
    """A finding that the baseline does not have.

    The row is a row of the file. For an unknown label, it is the first row that has the label.
    """

    kind: str
    row: int
    message: str


@dataclass(frozen=True)
class Baseline:
    """What is known already.

    Attributes
    ----------
    accepted : dict
        For the key of each known row, the kinds of findings that were accepted, with spaces
        between.
    labels : set of str
    """

    accepted: dict[str, str] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read a baseline. Nothing is known if there is no file."""
        if not path.exists():
            return cls()
        text = path.read_text(encoding="utf-8", errors="replace")
        try:
            content = json.loads(text)
            accepted = {str(key): str(kinds) for key, kinds in content["rows"].items()}
            return cls(accepted, {str(label) for label in content["labels"]})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            problem = "is no baseline: restore or delete it"
            if "<<<<<<<" in text:
                problem = "has a merge conflict: take either side"
            raise InputError(
                f"{path}: {problem}, then accept the present state with --update."
            ) from error


def check(options: CheckOptions) -> None:
    path = Path(options.baseline)
    dataset = prepare(options.data, groups=options.groups)
    baseline = Baseline.read(path)
    keys = _keys(dataset)
    first_rows = _first_rows(dataset)

    findings = _new_findings(dataset, keys, baseline, options)
    if baseline.accepted:
        findings += [
            NewFinding("label", first_rows[label], f"no known row has the label {one_line(label)}")
            for label in sorted(first_rows.keys() - baseline.labels)
        ]
    exceeded = [] if options.update else _exceeded_limits(findings, options)

    source = Path(options.data.table.train).as_posix()
    click.echo(lines(FORMS[options.form](findings, source, bool(exceeded))))
    if options.update:
        key_of_row = dict(zip(dataset.labeled_rows.tolist(), keys, strict=True))
        _accept(path, findings, sorted(first_rows), key_of_row)
        print_message(f"{one_line(path)} knows {len(keys):,} rows now: commit it.")
    if exceeded:
        remedy = f"accept them with --update and commit {one_line(path)}"
        print_message(f"Too many: {', '.join(exceeded)}. Correct them, or {remedy}.")
        raise click.exceptions.Exit(FAILED)


def _first_rows(dataset: Dataset) -> dict[str, int]:
    """The first row of each class, by the text of its label, as an example for messages.

    Targets of regression have none.
    """
    if dataset.task != "classification":
        return {}
    first_rows: dict[str, int] = {}
    for label, row in zip(dataset.y.tolist(), dataset.labeled_rows.tolist(), strict=True):
        first_rows.setdefault(str(label), row)
    return first_rows


def _exceeded_limits(findings: list[NewFinding], options: CheckOptions) -> list[str]:
    """The kinds of findings of which there are more than are accepted."""
    limits = {
        "suspect": options.max_new_suspects,
        "duplicate": options.max_new_duplicates,
        "leak": options.max_new_leaks,
        "label": 0,
    }
    counts = Counter(finding.kind for finding in findings)
    return [kind for kind, limit in limits.items() if counts[kind] > limit]


def _accept(
    path: Path, findings: list[NewFinding], labels: list[str], key_of_row: dict[int, str]
) -> None:
    """Write the baseline: these rows, with the findings accepted before and now."""
    with locked(path):
        # Read again: another command may have accepted findings since this one began.
        known = Baseline.read(path).accepted
        accepted = {key: known.get(key, "") for key in key_of_row.values()}
        for finding in findings:
            # The labels are kept apart from the rows.
            if finding.kind == "label":
                continue
            key = key_of_row[finding.row]
            kinds = [*accepted[key].split(), finding.kind]
            accepted[key] = " ".join(dict.fromkeys(kinds))
        content = {"labels": labels, "rows": accepted, "version": 1}
        text = json.dumps(content, indent=0, sort_keys=True, ensure_ascii=False) + "\n"
        write_bytes(str(path), lambda file: file.write(text.encode("utf-8", "replace")))


def _new_findings(
    dataset: Dataset, keys: list[str], baseline: Baseline, options: CheckOptions
) -> list[NewFinding]:
    """Wrong labels and duplicates among new rows, and leaks that were not accepted."""
    is_new = np.array([key not in baseline.accepted for key in keys])
    if not is_new.any() and dataset.validation is None:
        return []
    model = options.data.model.keywords()
    scan = nw.scan(
        dataset.X_labeled,
        dataset.y,
        X_val=dataset.X_val,
        y_val=dataset.y_val,
        groups=dataset.groups,
        task=dataset.task,
        **model,
    )
    selection = {} if options.max_fdr is None else {"max_fdr": options.max_fdr}
    suspects = _suspects(dataset, is_new, scan.labels, selection, model)

    row_in_file = dataset.labeled_rows
    findings = [
        NewFinding("suspect", int(row_in_file[row]), message)
        for row, message in suspects.items()
        if is_new[row]
    ]
    for group in scan.duplicates.groups or []:
        for row in group[is_new[group]].tolist():
            other = row_in_file[group[group != row][0]]
            findings.append(
                NewFinding("duplicate", int(row_in_file[row]), f"a copy of row {other}")
            )
    for row, validation_row in _leaks(scan).items():
        if "leak" not in baseline.accepted.get(keys[row], ""):
            message = f"also in the validation set, as row {validation_row}"
            findings.append(NewFinding("leak", int(row_in_file[row]), message))
    return findings


def _leaks(scan: Scan) -> dict[int, int]:
    """The rows that are also in the validation set, each with the last of its rows there."""
    validation_rows = scan.leakage.rows.tolist()
    training_rows = scan.leakage.columns.get("training_row", [])
    pairs = zip(training_rows, validation_rows, strict=True)
    return {int(row): validation_row for row, validation_row in pairs}


def _suspects(
    dataset: Dataset,
    is_new: BoolVector,
    audit: nw.LabelAudit,
    selection: dict[str, Any],
    model: dict[str, Any],
) -> dict[int, str]:
    """Rows whose labels look wrong, with a message.

    New rows are compared with the known ones alone. All rows are audited together if few of them
    are known, or if they have groups.
    """
    X, y = dataset.X_labeled, dataset.y
    rows = np.arange(len(is_new))
    known_classes = set(y[~is_new])
    has_known_class = is_new & np.isin(y, y[~is_new])
    mostly_known = 2 * is_new.sum() < len(is_new)
    can_check = dataset.task == "classification" and dataset.groups is None and mostly_known
    if can_check and has_known_class.any() and len(known_classes) > 1:
        known_audit = nw.audit_labels(X[~is_new], y[~is_new], **model)
        rows = np.flatnonzero(has_known_class)
        audit = known_audit.check(X[has_known_class], y[has_known_class])

    suspects = audit.suspects(**selection)
    given = map(one_line, audit.given[suspects])
    suggested = map(one_line, audit.suggested[suspects])
    return {
        row: f"labelled {label}, looks like {other}"
        for row, label, other in zip(rows[suspects].tolist(), given, suggested, strict=True)
    }


def _keys(dataset: Dataset) -> list[str]:
    """A key for each row: the same whatever the order of rows, another if a cell changes."""
    assert dataset.file is not None
    hashes = row_keys(dataset.file, dataset.target, dataset.labeled_rows)
    counts: Counter[str] = Counter()
    keys: list[str] = []
    for cells, label in zip(hashes, dataset.y.tolist(), strict=True):
        key = f"{cells} {label}"
        counts[key] += 1
        keys.append(key if counts[key] == 1 else f"{key} #{counts[key]}")
    return keys


def _verdict(source: str, failed: bool) -> str:
    return f"{one_line(source)}: {'failed' if failed else 'passed'}"


def _text(findings: list[NewFinding], source: str, failed: bool) -> str:
    return _lines(findings, _verdict(source, failed), "{:10}{:10}{}")


def _lines(findings: list[NewFinding], verdict: str, line: str, head: tuple[str, ...] = ()) -> str:
    rows = [
        line.format(finding.kind, f"row {finding.row}", finding.message) for finding in findings
    ]
    summary = f"{verdict}, {number_of('new finding', len(findings))}"
    return "\n".join([*(head if findings else ()), *rows, "", summary]).lstrip()


def _markdown(findings: list[NewFinding], source: str, failed: bool) -> str:
    safe = [finding._replace(message=_inert(finding.message)) for finding in findings]
    verdict = f"**{_inert(_verdict(source, failed))}**"
    return _lines(safe, verdict, "| {} | {} | {} |", ("| finding | row | |", "|---|---|---|"))


def _inert(text: str) -> str:
    r"""Text that Markdown shows as it is.

    >>> print(_inert("a|b <img> snake_case"))
    a\|b \<img\> snake_case
    """
    return MARKUP.sub(r"\\\g<0>", text)


def _json(findings: list[NewFinding], source: str, failed: bool) -> str:
    verdict = _verdict(source, failed)
    return json.dumps(
        {"verdict": verdict, "findings": [finding._asdict() for finding in findings]},
        indent=1,
        ensure_ascii=False,
    )


def _sarif(findings: list[NewFinding], source: str, failed: bool) -> str:
    """Lines are those of a CSV with a header and no line breaks within cells."""
    file, level = quote(source, safe="/:"), "error" if failed else "note"
    results = []
    for finding in findings:
        place = {"artifactLocation": {"uri": file}, "region": {"startLine": finding.row + 2}}
        result = {"ruleId": finding.kind, "level": level, "message": {"text": finding.message}}
        results.append(result | {"locations": [{"physicalLocation": place}]})
    tool = {"driver": {"name": "nearworth", "version": nw.__version__}}
    return json.dumps({"version": "2.1.0", "runs": [{"tool": tool, "results": results}]}, indent=1)


def _junit(findings: list[NewFinding], source: str, failed: bool) -> str:
    suite = Xml.Element("testsuite", name="nearworth", tests=str(len(findings)))
    for finding in findings:
        case = Xml.SubElement(
            suite,
            "testcase",
            classname=_verdict(source, failed),
            name=f"{finding.kind} {finding.row}",
        )
        if failed:
            Xml.SubElement(case, "failure", message=finding.message)
    return Xml.tostring(suite, encoding="unicode")


FORMS = {"text": _text, "json": _json, "markdown": _markdown, "sarif": _sarif, "junit": _junit}
