"""nearworth check: a gate for continuous integration that lets known findings pass and stops at new
ones.

The baseline is a JSON file with a line for each known row: the key of its other cells, its label, a
number if it is there more than once, and what was found about it and accepted. A row is new if any
of its cells changed. New rows are judged against the known ones.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree as Xml

import click
import numpy as np

import nearworth as nw
from nearworth._common.text import lines, one_line
from nearworth.cli.arguments import CheckOptions
from nearworth.cli.data import Data, prepare
from nearworth.cli.decisions import row_keys
from nearworth.cli.options import print_message
from nearworth.tables import InputError, number_of
from nearworth.tables.write import locked, write_bytes

FAILED = 3
MARKUP = re.compile(
    r"[\\`*\[\]<>|&~]|(?<!\w)_|_(?!\w)"
)  # of Markdown; snake_case is plain text there


class New(NamedTuple):
    """A finding that the baseline does not have; the row of an unknown label is the first that
    has it.
    """

    kind: str
    row: int
    message: str


def check(options: CheckOptions) -> None:
    limits = {
        "suspect": options.max_new_suspects,
        "duplicate": options.max_new_duplicates,
        "leak": options.max_new_leaks,
        "label": 0,
    }
    model, path = options.data.model.keywords(), Path(options.baseline)
    update, form, max_fdr = options.update, options.form, options.max_fdr
    data, (known, labels) = prepare(options.data, groups=options.groups), _read(path)
    keys, first = (
        _keys(data),
        zip(data.y[::-1].tolist(), data.rows.numbers[::-1].tolist(), strict=True),
    )
    own = (
        {str(label): row for label, row in first}
        if data.task == "classification"
        else dict[str, int]()
    )
    found = _find(data, keys, known, {} if max_fdr is None else {"max_fdr": max_fdr}, model)
    unknown = sorted({*own} - labels) if known else []
    found += [
        New("label", own[label], f"no known row has the label {one_line(label)}")
        for label in unknown
    ]
    over = [
        k
        for k, limit in limits.items()
        if not update and sum(new.kind == k for new in found) > limit
    ]
    click.echo(lines(FORMS[form](found, Path(options.data.table.train).as_posix(), bool(over))))
    if update:
        _accept(path, found, sorted(own), dict(zip(data.rows.numbers.tolist(), keys, strict=True)))
        print_message(f"{one_line(path)} knows {len(keys):,} rows now: commit it.")
    if over:
        accepted = f"accept them with --update and commit {one_line(path)}"
        print_message(f"Too many: {', '.join(over)}. Correct them, or {accepted}.")
        raise click.exceptions.Exit(FAILED)


def _accept(path: Path, found: list[New], labels: list[str], keys: dict[int, str]) -> None:
    """Write the baseline: the rows of these keys, with the findings accepted before and now."""
    with locked(path):
        # Read again: another command may have accepted findings since this one began.
        known, _ = _read(path)
        rows = {key: known.get(key, "") for key in keys.values()}
        for new in (new for new in found if new.kind != "label"):
            kinds = [*rows[keys[new.row]].split(), new.kind]
            rows[keys[new.row]] = " ".join(dict.fromkeys(kinds))
        content = {"labels": labels, "rows": rows, "version": 1}
        text = json.dumps(content, indent=0, sort_keys=True, ensure_ascii=False) + "\n"
        write_bytes(str(path), lambda file: file.write(text.encode("utf-8", "replace")))


def _find(
    data: Data, keys: list[str], known: dict[str, str], fdr: dict[str, Any], model: Any
) -> list[New]:
    new, numbers = np.array([key not in known for key in keys]), data.rows.numbers
    if not new.any() and data.X_val is None:
        return []
    scan = nw.scan(data.X, data.y, data.X_val, data.y_val, data.groups, task=data.task, **model)
    found = [
        New("suspect", row, said)
        for row, said in _suspects(data, new, scan.labels, fdr, model)
        if new[row]
    ]
    for group in scan.duplicates.groups or []:
        copied = {row: numbers[group[group != row][0]] for row in group[new[group]].tolist()}
        found += [New("duplicate", row, f"a copy of row {of}") for row, of in copied.items()]
    leaks = zip(
        scan.leakage.rows.tolist(), scan.leakage.columns.get("training_row", []), strict=True
    )
    leaked = {int(row): of for of, row in leaks if "leak" not in known.get(keys[row], "")}
    found += [
        New("leak", row, f"also in the validation set, as row {of}") for row, of in leaked.items()
    ]
    return [each._replace(row=int(numbers[each.row])) for each in found]


def _suspects(
    data: Data, new: Any, audit: nw.LabelAudit, fdr: dict[str, Any], model: Any
) -> list[tuple[int, str]]:
    """Rows whose labels look wrong: new ones judged by the known ones; all in one audit if few are
    known, or groups.
    """
    rows, judged = np.arange(len(new)), new & np.isin(data.y, data.y[~new])
    apart = data.task == "classification" and data.groups is None and 2 * new.sum() < len(new)
    if apart and judged.any() and len(set(data.y[~new])) > 1:
        audited = nw.audit_labels(data.X[~new], data.y[~new], **model)
        rows, audit = np.flatnonzero(judged), audited.check(data.X[judged], data.y[judged])
    listed = audit.suspects(**fdr)
    given, suggested = (
        list(map(one_line, labels[listed])) for labels in (audit.given, audit.suggested)
    )
    said = (
        f"labelled {label}, looks like {other}"
        for label, other in zip(given, suggested, strict=True)
    )
    return list(zip(rows[listed].tolist(), said, strict=True))


def _keys(data: Data) -> list[str]:
    """A key for each row: the same whatever the order of rows, another if a cell changes."""
    cells, seen = row_keys(data.source, data.rows.target, data.rows.numbers), Counter[str]()
    names = [f"{key} {label}" for key, label in zip(cells, data.y.tolist(), strict=True)]
    for i, name in enumerate(names):
        seen[name] += 1
        names[i] = name if seen[name] == 1 else f"{name} #{seen[name]}"
    return names


def _read(path: Path) -> tuple[dict[str, str], set[str]]:
    """What is known of each row, and the labels."""
    if not path.exists():
        return {}, set()
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        content = json.loads(text)
        return {str(key): str(what) for key, what in content["rows"].items()}, {
            *map(str, content["labels"])
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = (
            "has a merge conflict: take either side"
            if "<<<<<<<" in text
            else "is no baseline: restore or delete it"
        )
        raise InputError(f"{path}: {why}, then accept the present state with --update.") from error


def _verdict(source: str, failed: bool) -> str:
    return f"{one_line(source)}: {'failed' if failed else 'passed'}"


def _text(found: list[New], source: str, failed: bool) -> str:
    return _lines(found, _verdict(source, failed), "{:10}{:10}{}")


def _lines(found: list[New], verdict: str, line: str, head: tuple[str, ...] = ()) -> str:
    rows = [line.format(new.kind, f"row {new.row}", new.message) for new in found]
    summary = f"{verdict}, {number_of('new finding', len(found))}"
    return "\n".join([*(head if found else ()), *rows, "", summary]).lstrip()


def _markdown(found: list[New], source: str, failed: bool) -> str:
    safe = [new._replace(message=_inert(new.message)) for new in found]
    verdict = f"**{_inert(_verdict(source, failed))}**"
    return _lines(safe, verdict, "| {} | {} | {} |", ("| finding | row | |", "|---|---|---|"))


def _inert(text: str) -> str:
    r"""Text that Markdown shows as it is.

    >>> print(_inert("a|b <img> snake_case"))
    a\|b \<img\> snake_case
    """
    return MARKUP.sub(r"\\\g<0>", text)


def _json(found: list[New], source: str, failed: bool) -> str:
    verdict = _verdict(source, failed)
    return json.dumps(
        {"verdict": verdict, "findings": [new._asdict() for new in found]},
        indent=1,
        ensure_ascii=False,
    )


def _sarif(found: list[New], source: str, failed: bool) -> str:
    """Lines are those of a CSV with a header and no line breaks within cells."""
    file, level = quote(source, safe="/:"), "error" if failed else "note"
    results = []
    for new in found:
        place = {"artifactLocation": {"uri": file}, "region": {"startLine": new.row + 2}}
        result = {"ruleId": new.kind, "level": level, "message": {"text": new.message}}
        results.append(result | {"locations": [{"physicalLocation": place}]})
    tool = {"driver": {"name": "nearworth", "version": nw.__version__}}
    return json.dumps({"version": "2.1.0", "runs": [{"tool": tool, "results": results}]}, indent=1)


def _junit(found: list[New], source: str, failed: bool) -> str:
    suite = Xml.Element("testsuite", name="nearworth", tests=str(len(found)))
    for new in found:
        case = Xml.SubElement(
            suite, "testcase", classname=_verdict(source, failed), name=f"{new.kind} {new.row}"
        )
        if failed:
            Xml.SubElement(case, "failure", message=new.message)
    return Xml.tostring(suite, encoding="unicode")


FORMS = {"text": _text, "json": _json, "markdown": _markdown, "sarif": _sarif, "junit": _junit}
