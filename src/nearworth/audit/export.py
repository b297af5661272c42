"""Rows as tasks for other tools, in the formats that these document, and the answers of people back from there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearworth._common.types import IntVector
from nearworth.audit.explain import plain
from nearworth.inputs.parameters import one_of

if TYPE_CHECKING:
    from nearworth.audit.result import LabelAudit


class Answers(NamedTuple):
    """Rows that people judged, whether their labels are wrong (as `reviewed` takes it), and what was decided."""

    rows: IntVector
    is_wrong: Any
    decisions: dict[str, Any]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file that `nearworth apply` takes."""
        Path(path).write_text(json.dumps(self.decisions, indent=1, ensure_ascii=False), encoding="utf-8")


def export(audit: LabelAudit, tool: str, path: Any, rows: IntVector, target: str, content: Mapping[str, Any]) -> None:
    one_of("label-studio", "argilla", "fiftyone", "cleanlab", "csv")("tool", tool)
    if tool in ("cleanlab", "csv"):
        from nearworth.tables.write import write_columns

        names, given, best = {"is_label_issue": audit.is_label_issue}, audit.given.tolist(), audit.suggested.tolist()
        columns = names | {"label_score": audit.quality, "given_label": given, "predicted_label": best}
        if tool == "csv":
            about = {"target": target, "decision": "skip", "of_rows": len(audit)}
            labels = {"given": audit.given[rows].tolist(), "label": audit.given[rows].tolist()}
            columns = {"row": rows, **labels, **{name: [cell] * len(rows) for name, cell in about.items()}}
            columns |= {"suggested": audit.suggested[rows].tolist(), "quality": audit.quality[rows]}
        write_columns(columns, os.fspath(path))
        return
    tasks = [_task(audit, tool, row, target, {n: plain(c[row]) for n, c in content.items()}) for row in rows.tolist()]
    if tool == "fiftyone":  # without "classes", which would make numbers of the labels
        tasks = {"labels": dict(task.popitem() for task in tasks)}  # type: ignore[assignment]
    Path(path).write_text(json.dumps(tasks, indent=1, ensure_ascii=False, default=str), encoding="utf-8")


def _task(audit: LabelAudit, tool: str, row: int, target: str, fields: dict[str, Any]) -> dict[str, Any]:
    known, score = {"row": row, "given": str(audit.given[row])}, round(float(audit.confidence[row]), 6)
    best = str(audit.suggested[row])
    if tool == "fiftyone":
        return {str(row): {"label": best, "confidence": score, "attributes": known}}
    if tool == "argilla":
        suggestion = {target: {"value": best, "score": score, "agent": "nearworth"}}
        shown = {name: str(cell) for name, cell in (fields or {"row": row}).items()}
        return {"id": str(row), "fields": shown, "metadata": known, "suggestions": suggestion, "responses": {}}
    choice = {"from_name": target, "to_name": next(iter(fields), "row"), "type": "choices"}
    prediction = {"model_version": "nearworth", "score": score, "result": [choice | {"value": {"choices": [best]}}]}
    return {"data": known | fields, "predictions": [prediction]}


def read_answers(audit: LabelAudit, tool: str, path: Any, target: str) -> Answers:
    one_of("label-studio", "argilla", "fiftyone", "csv")("tool", tool)
    if tool == "csv":
        from nearworth.tables.read import read

        content: Any = read(path, text_only=True).table.to_pylist()
    else:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    found, made = dict(_answered(tool, content, target)), []
    if not found or not 0 <= min(found) <= max(found) < len(audit):
        raise ValueError(f"path: {path} has {len(found)} answers, or some on rows beyond the {len(audit):,} audited.")
    for row, label in found.items():
        given = str(plain(audit.given[row]))
        made.append({"row": row, "given": given, "label": label, "of_rows": len(audit)})
        made[-1]["decision"] = "confirm" if given == label else "relabel"
    wrong = np.array([each["decision"] == "relabel" for each in made])
    return Answers(np.array([*found], dtype=np.intp), wrong, {"target": target, "decisions": made})


def _answered(tool: str, content: Any, target: str) -> Iterator[tuple[int, str]]:
    """Rows and labels; tasks that nobody answered, or that were skipped, have none."""
    for task in content["labels"].items() if tool == "fiftyone" else content:
        if tool == "fiftyone":
            label = task[1]["label"] if isinstance(task[1], dict) else task[1]
            if label is not None:
                yield int(task[0]), str(content["classes"][label] if isinstance(label, int) else label)
        elif tool == "csv" and task["decision"] != "skip":
            yield int(task["row"]), task["label"]
        elif tool == "argilla":
            for response in (task.get("responses") or {}).get(target, [])[-1:]:
                yield int(task["metadata"]["row"]), str(response["value"])
        elif tool == "label-studio":
            kept = [each["result"] for each in task.get("annotations", []) if not each.get("was_cancelled")]
            for choice in (each for result in kept[-1:] for each in result if each["from_name"] == target):
                yield int(task["data"]["row"]), choice["value"]["choices"][0]
