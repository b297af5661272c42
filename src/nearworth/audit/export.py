"""An audit in files: rows as tasks for other tools, the answers of people back from there, and an
archive of it all.

The formats of tasks are those that the tools document. The archive has everything but the data.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearworth._common.files import Arrays, atomic_write, check_arrays
from nearworth._common.frames import index_from_bytes, index_to_bytes
from nearworth._common.text import one_line
from nearworth._common.types import IntVector
from nearworth.audit.error_count import ErrorCount, Review
from nearworth.audit.explain import plain
from nearworth.audit.votes import Columns, Copies, Voters
from nearworth.estimator import KNNShapley
from nearworth.inputs.parameters import one_of
from nearworth.results.valuation import Valuation

if TYPE_CHECKING:
    from nearworth.audit.result import LabelAudit

FLOATS = {
    "quality": (),
    "agreement": (),
    "confidence": (),
    "_for_lists": (),
    "suggested_range": (2,),
}
LABELS = ("given", "suggested", "classes")
COPIES = ("copies", "identical")
VALUATION, COLUMNS = "valuation ", "columns "  # before the names of their arrays


class Answers(NamedTuple):
    """Rows that people judged, whether their labels are wrong (as `reviewed` takes it), and what
    was decided.
    """

    rows: IntVector
    is_wrong: Any
    decisions: dict[str, Any]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file that `nearworth apply` takes."""
        _write_json(self.decisions, path)


def export(
    audit: LabelAudit,
    tool: str,
    path: Any,
    rows: IntVector,
    target: str,
    content: Mapping[str, Any],
) -> None:
    one_of("label-studio", "argilla", "fiftyone", "cleanlab", "csv")("tool", tool)
    if tool in ("cleanlab", "csv"):
        from nearworth.tables.write import write_columns

        names, given, best = (
            {"is_label_issue": audit.is_label_issue},
            audit.given.tolist(),
            audit.suggested.tolist(),
        )
        columns = names | {
            "label_score": audit.quality,
            "given_label": given,
            "predicted_label": best,
        }
        if tool == "csv":
            about = {"target": target, "decision": "skip", "of_rows": len(audit)}
            labels = {"given": audit.given[rows].tolist(), "label": audit.given[rows].tolist()}
            columns = {
                "row": rows,
                **labels,
                **{name: [cell] * len(rows) for name, cell in about.items()},
            }
            columns |= {"suggested": audit.suggested[rows].tolist(), "quality": audit.quality[rows]}
        write_columns(columns, os.fspath(path))
        return
    tasks = [
        _task(audit, tool, row, target, {n: plain(c[row]) for n, c in content.items()})
        for row in rows.tolist()
    ]
    if tool == "fiftyone":  # without "classes", which would make numbers of the labels
        tasks = {"labels": dict(task.popitem() for task in tasks)}  # type: ignore[assignment]
    _write_json(tasks, path)


def _write_json(content: Any, path: str | os.PathLike[str]) -> None:
    """Write a file that appears only when complete, whoever reads it meanwhile."""
    text = json.dumps(content, indent=1, ensure_ascii=False, default=str)
    with atomic_write(path) as file:
        file.write(text.encode())


def _task(
    audit: LabelAudit, tool: str, row: int, target: str, fields: dict[str, Any]
) -> dict[str, Any]:
    known, score = (
        {"row": row, "given": str(audit.given[row])},
        round(float(audit.confidence[row]), 6),
    )
    best = str(audit.suggested[row])
    if tool == "fiftyone":
        return {str(row): {"label": best, "confidence": score, "attributes": known}}
    if tool == "argilla":
        suggestion = {target: {"value": best, "score": score, "agent": "nearworth"}}
        shown = {name: str(cell) for name, cell in (fields or {"row": row}).items()}
        return {
            "id": str(row),
            "fields": shown,
            "metadata": known,
            "suggestions": suggestion,
            "responses": {},
        }
    choice = {"from_name": target, "to_name": next(iter(fields), "row"), "type": "choices"}
    prediction = {
        "model_version": "nearworth",
        "score": score,
        "result": [choice | {"value": {"choices": [best]}}],
    }
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
        beyond = f"some on rows beyond the {len(audit):,} audited"
        raise ValueError(f"path: {one_line(path)} has {len(found)} answers, or {beyond}.")
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
                yield (
                    int(task[0]),
                    str(content["classes"][label] if isinstance(label, int) else label),
                )
        elif tool == "csv" and task["decision"] != "skip":
            yield int(task["row"]), task["label"]
        elif tool == "argilla":
            for response in (task.get("responses") or {}).get(target, [])[-1:]:
                yield int(task["metadata"]["row"]), str(response["value"])
        elif tool == "label-studio":
            kept = [
                each["result"]
                for each in task.get("annotations", [])
                if not each.get("was_cancelled")
            ]
            for choice in (
                each for result in kept[-1:] for each in result if each["from_name"] == target
            ):
                yield int(task["data"]["row"]), choice["value"]["choices"][0]


def pack(audit: LabelAudit) -> tuple[dict[str, Any], dict[str, Any]]:
    """A LabelAudit as a description and arrays of an archive, with as many neighbours as `why` and
    `nearest` tell.
    """
    if audit._audited is not None:
        raise ValueError(
            "save is for audited rows, not for checked ones. Save their to_frame() instead."
        )
    estimator, (about, values) = audit._estimator, audit.valuation.to_archive()
    labels = {name: array for name in LABELS if (array := getattr(audit, name)) is not None}
    if not {type(label) for label in labels["suggested"].tolist()} <= {str, int, float, bool}:
        raise ValueError(
            "Only labels that are text or numbers can be saved. Audit str(label) of each instead."
        )
    arrays = {
        name: array for name, array in audit.by_row.items() if name in FLOATS
    } | index_to_bytes(audit.index)
    rows, distances = (lists[:, : estimator.n_neighbors] for lists in audit._voters.nearest)
    arrays |= {"rows": rows, "distances": distances}
    arrays |= {f"{VALUATION}{name}": array for name, array in values.items()}
    arrays |= (
        {}
        if audit.copies is None
        else {"copies": audit.copies.group, "identical": audit.copies.identical}
    )
    parts = {"": audit._review, COLUMNS: audit._columns}
    arrays |= {
        f"{of}{f.name}": getattr(part, f.name)
        for of, part in parts.items()
        if part
        for f in fields(part)
    }
    arrays |= {} if audit._probabilities is None else {"probabilities": audit._probabilities}
    metric = estimator.metric if isinstance(estimator.metric, str) else "a function"
    description = {
        "valuation": about,
        "n_errors": asdict(audit.n_errors),
        "estimator": {
            "n_neighbors": int(estimator.n_neighbors),
            "task": estimator.task,
            "metric": metric,
        },
        "labels": {name: [array.dtype.str, array.tolist()] for name, array in labels.items()},
        "threshold": audit.copies and audit.copies.threshold,
        "notes": audit.notes,
    }
    return description, arrays


def unpack(description: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """The fields of the LabelAudit that `pack` took apart."""
    of_valuation = {
        n.removeprefix(VALUATION): array for n, array in arrays.items() if n.startswith(VALUATION)
    }
    valuation = Valuation.from_archive(description["valuation"], of_valuation)
    n_rows, n_known = len(arrays["quality"]), len(valuation)
    labels = {
        n: np.array(entries, dtype=kind) for n, (kind, entries) in description["labels"].items()
    }
    floats = {name: (n_rows, *shape) for name, shape in FLOATS.items() if name in arrays}
    check_arrays(arrays, floats | {"distances": arrays["rows"].shape})
    review = (
        Review(**{part.name: arrays[part.name] for part in fields(Review)})
        if "order" in arrays
        else None
    )
    fits = [
        n_rows - np.isnan(arrays["quality"]).sum() == n_known,
        all(labels[name].shape == (n_rows,) for name in LABELS[:2]),
        _numbers_within(arrays["rows"], n_known, -1, n_known),
        all(
            _numbers_within(arrays[name], n_rows, 0, 2 * n_rows)
            for name in COPIES
            if name in arrays
        ),
    ]
    if review is not None:
        check_arrays(arrays, {"doubt": (n_known,)})
        fits += [np.array_equal(np.sort(review.order), np.arange(n_known))]
        fits += [_numbers_within(review.strata, n_known, 0, n_known)]
        fits += [review.judged.shape == review.wrong.shape == (n_known,)]
    if not all(fits):
        raise ValueError("its parts are not those of its rows.")
    copies = None
    if "copies" in arrays:
        copies = Copies(
            arrays["copies"],
            description["threshold"],
            identical=arrays.get("identical", arrays["copies"]),
        )
    of_columns = {
        name.removeprefix(COLUMNS): array
        for name, array in arrays.items()
        if name.startswith(COLUMNS)
    }
    if "probabilities" in arrays:
        width = 1 + of_columns["classes"].shape[1] if of_columns else len(labels["classes"])
        check_arrays(arrays, {"probabilities": (n_known, width)})
    estimator, distances = KNNShapley(**description["estimator"]), arrays["distances"]
    return {name: arrays[name] for name in floats} | {
        **labels,
        "n_errors": ErrorCount(**description["n_errors"]),
        "valuation": valuation,
        "copies": copies,
        "index": index_from_bytes(arrays, n_rows),
        "notes": tuple(description["notes"]),
        "_voters": replace(
            Voters.of(arrays["rows"], distances, estimator.n_neighbors), distances=distances
        ),
        "_estimator": estimator,
        "_review": review,
        "_probabilities": arrays.get("probabilities"),
        "_columns": Columns(**of_columns) if of_columns else None,
    }


def _numbers_within(numbers: Any, size: int, low: int, end: int) -> bool:
    return (
        numbers.dtype.kind == "i"
        and len(numbers) == size
        and bool(((low <= numbers) & (numbers < end)).all())
    )
