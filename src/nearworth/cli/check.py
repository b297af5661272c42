"""nearworth check: a gate for continuous integration that lets known findings pass and stops at new ones.

The baseline is a JSON file with a line for each row that is known: the key of its other cells, its label, a number if
it is there more than once, and what was found about it and accepted. A row is new if any of its cells changed. New rows
are judged against the known ones.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as Xml

import click
import numpy as np

import nearworth as nw
from nearworth._common.types import IntVector
from nearworth.cli.data import Data, prepare
from nearworth.cli.decisions import row_keys
from nearworth.cli.options import pop_model, print_message
from nearworth.tables import InputError
from nearworth.tables.write import write_bytes

FAILED = 3


class New(NamedTuple):
    """A finding that the baseline does not have; row None for the labels as a set."""

    kind: str
    row: int | None
    message: str


def check(
    *, baseline: str, update: bool, form: str, max_fdr: float | None, max_new_suspects: int,
    max_new_duplicates: int, max_new_leaks: int, **given: Any,
) -> None:  # fmt: skip
    model = pop_model(given)
    data, path = prepare(**given), Path(baseline)
    known, labels = _read(path)
    keys = _keys(data)
    found = _find(data, keys, known, {} if max_fdr is None else {"max_fdr": max_fdr}, model)
    found += [
        New("label", None, f"no known row has the label {name}") for name in sorted(_labels(data) - labels) if known
    ]
    count = Counter(new.kind for new in found)
    limits = {"suspect": max_new_suspects, "duplicate": max_new_duplicates, "leak": max_new_leaks, "label": 0}
    over = [kind for kind, limit in limits.items() if count[kind] > limit]
    click.echo(
        FORMS[form](found, f"{Path(given['train']).as_posix()}: {'failed' if over and not update else 'passed'}")
    )
    if update:
        _write(path, data, keys, found, known)
        print_message(f"{path} knows {len(keys):,} rows now: commit it.")
    elif over:
        print_message(f"Too many: {', '.join(over)}. Correct them, or accept them with --update and commit {path}.")
        raise click.exceptions.Exit(FAILED)


def _find(data: Data, keys: list[str], known: dict[str, str], fdr: dict[str, Any], model: dict[str, Any]) -> list[New]:
    new = np.array([key not in known for key in keys])
    if not new.any() and data.X_val is None:
        return []
    numbers = data.names()["row"]
    scan = nw.scan(data.X, data.y, data.X_val, data.y_val, task=data.task, **model)
    found = _suspects(data, new, scan.labels, fdr, model) if new.any() else []
    for group in scan.duplicates.groups or []:
        others = {int(row): numbers[group[group != row]] for row in group[new[group]]}
        found += [New("duplicate", row, f"a copy of row {of[0]}") for row, of in others.items()]
    leaks = zip(scan.leakage.rows, scan.leakage.columns.get("training_row", []), strict=True)
    found += [New("leak", int(row), f"also in the validation set, as row {of}") for of, row in leaks
              if "leak" not in known.get(keys[row], "")]  # fmt: skip
    return [New(each.kind, int(numbers[each.row]), each.message) for each in found if each.row is not None]


def _suspects(data: Data, new: Any, audit: nw.LabelAudit, fdr: dict[str, Any], model: dict[str, Any]) -> list[New]:
    """New rows whose labels look wrong: judged by the known rows, or in one audit of all where few are known."""
    rows: IntVector = np.arange(len(new))
    judged = new & np.isin(data.y, data.y[~new])
    if data.task == "classification" and 2 * new.sum() < len(new) and judged.any() and len(set(data.y[~new])) > 1:
        audited = nw.audit_labels(data.X[~new], data.y[~new], **model)
        rows, audit = np.flatnonzero(judged), audited.check(data.X[judged], data.y[judged])
    said = {int(i): f"labelled {audit.given[i]}, looks like {audit.suggested[i]}" for i in audit.suspects(**fdr)}
    return [New("suspect", int(rows[i]), what) for i, what in said.items() if new[rows[i]]]


def _keys(data: Data) -> list[str]:
    """A key for each row: the same whatever the order of rows, another if a cell changes."""
    cells = row_keys(data.source, data.rows.target, data.names()["row"])
    names, seen = [f"{key} {label}" for key, label in zip(cells, data.y.tolist(), strict=True)], Counter[str]()
    for i, name in enumerate(names):
        seen[name] += 1
        names[i] = name if seen[name] == 1 else f"{name} #{seen[name]}"
    return names


def _labels(data: Data) -> set[str]:
    return {*map(str, data.y.tolist())} if data.task == "classification" else set()


def _read(path: Path) -> tuple[dict[str, str], set[str]]:
    """What is known of each row, and the labels."""
    if not path.exists():
        return {}, set()
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
        return {str(key): str(what) for key, what in content["rows"].items()}, {*map(str, content["labels"])}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = "has a merge conflict: take either side" if "<<<<<<<" in text else "is no baseline: restore or delete it"
        raise InputError(f"{path}: {why}, then accept the present state with --update.") from error


def _write(path: Path, data: Data, keys: list[str], found: list[New], known: dict[str, str]) -> None:
    accepted = {new.row: [other.kind for other in found if other.row == new.row] for new in found}
    kinds = [accepted.get(int(number), []) for number in data.names()["row"]]
    rows = {k: " ".join(dict.fromkeys([*known.get(k, "").split(), *new])) for k, new in zip(keys, kinds, strict=True)}
    content = {"labels": sorted(_labels(data)), "rows": rows, "version": 1}
    text = json.dumps(content, indent=0, sort_keys=True, ensure_ascii=False) + "\n"
    write_bytes(str(path), lambda file: file.write(text.encode("utf-8", "replace")))


def _text(found: list[New], verdict: str, row: str = "{:10}{:10}{}", head: tuple[str, ...] = ()) -> str:
    lines = [row.format(new.kind, "" if new.row is None else f"row {new.row}", new.message) for new in found]
    return "\n".join([*(head if found else ()), *lines, "", f"{verdict}, {len(found):,} new findings"]).lstrip()


def _markdown(found: list[New], verdict: str) -> str:
    safe = [new._replace(message=new.message.replace("|", "\\|")) for new in found]
    return _text(safe, f"**{verdict}**", "| {} | {} | {} |", ("| finding | row | |", "|---|---|---|"))


def _json(found: list[New], verdict: str) -> str:
    return json.dumps({"verdict": verdict, "findings": [new._asdict() for new in found]}, indent=1, ensure_ascii=False)


def _sarif(found: list[New], verdict: str) -> str:
    """Lines are those of a CSV with a header and no line breaks within cells."""
    results = []
    for new in found:
        place = {
            "artifactLocation": {"uri": verdict.rpartition(": ")[0]},
            "region": {"startLine": 1 if new.row is None else new.row + 2},
        }
        level = "error" if verdict.endswith("failed") else "note"
        found_at = {"message": {"text": new.message}, "locations": [{"physicalLocation": place}]}
        results.append({"ruleId": new.kind, "level": level, **found_at})
    tool = {"driver": {"name": "nearworth", "version": nw.__version__}}
    return json.dumps({"version": "2.1.0", "runs": [{"tool": tool, "results": results}]}, indent=1)


def _junit(found: list[New], verdict: str) -> str:
    suite = Xml.Element("testsuite", name="nearworth", tests=str(len(found)))
    for new in found:
        case = Xml.SubElement(suite, "testcase", classname=verdict, name=f"{new.kind} {new.row}")
        if verdict.endswith("failed"):
            Xml.SubElement(case, "failure", message=new.message)
    return Xml.tostring(suite, encoding="unicode")


FORMS = {"text": _text, "json": _json, "markdown": _markdown, "sarif": _sarif, "junit": _junit}
