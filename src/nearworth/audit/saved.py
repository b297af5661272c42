"""A LabelAudit as a description and arrays of an archive, and back; the data are not among them."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.files import Arrays, check_arrays
from nearworth._common.frames import index_from_bytes, index_to_bytes
from nearworth.audit.copies import Copies
from nearworth.audit.error_count import ErrorCount
from nearworth.audit.result import LabelAudit
from nearworth.audit.review import Review
from nearworth.audit.votes import Voters
from nearworth.estimator import KNNShapley
from nearworth.results.valuation import Valuation

FLOATS = {"quality": (), "agreement": (), "confidence": (), "_for_lists": (), "suggested_range": (2,)}
LABELS = ("given", "suggested", "classes")
VALUATION, DRAW = "valuation ", "draw "


def pack(audit: LabelAudit) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the neighbours as many are saved as `why` and `nearest` tell."""
    estimator, (about, values) = audit._estimator, audit.valuation.to_archive()
    labels = {name: array for name in LABELS if (array := getattr(audit, name)) is not None}
    if audit._audited is not None:
        raise ValueError("save is for audited rows, not for checked ones. Save their to_frame() instead.")
    if not {type(label) for label in labels["suggested"].tolist()} <= {str, int, float, bool}:
        raise ValueError("Only labels that are text or numbers can be saved. Audit str(label) of each instead.")
    arrays = {name: array for name, array in audit.by_row.items() if name in FLOATS}
    arrays |= {name: getattr(audit._voters, name)[:, : estimator.n_neighbors] for name in ("rows", "keys")}
    arrays |= {"copies": audit.copies and audit.copies.group} | index_to_bytes(audit.index)
    arrays |= {f"{DRAW}{number}": rows for number, (_, rows) in enumerate(audit._draws)}
    arrays |= {f"{VALUATION}{name}": array for name, array in values.items()}
    if audit._review is not None:
        arrays |= {part.name: getattr(audit._review, part.name) for part in fields(Review)}
    metric = estimator.metric if isinstance(estimator.metric, str) else "a function"
    description = {
        "valuation": about,
        "n_errors": asdict(audit.n_errors),
        "estimator": {"n_neighbors": int(estimator.n_neighbors), "task": estimator.task, "metric": metric},
        "labels": {name: [array.dtype.str, array.tolist()] for name, array in labels.items()},
        "threshold": audit.copies and audit.copies.threshold,
        "notes": audit.notes,
    }
    return description, {name: array for name, array in arrays.items() if array is not None}


def unpack(description: dict[str, Any], arrays: Arrays) -> LabelAudit:
    of_valuation = {n.removeprefix(VALUATION): array for n, array in arrays.items() if n.startswith(VALUATION)}
    valuation = Valuation.from_archive(description["valuation"], of_valuation)
    n_rows, n_known = len(arrays["quality"]), len(valuation)
    labels = {n: np.array(entries, dtype=kind) for n, (kind, entries) in description["labels"].items()}
    shapes = {name: (n_rows, *shape) for name, shape in FLOATS.items() if name in arrays}
    check_arrays(arrays, shapes | {"keys": arrays["rows"].shape})
    n_labelled = n_rows - np.isnan(arrays["quality"]).sum()
    if n_labelled != n_known or any(labels[name].shape != (n_rows,) for name in LABELS[:2]):
        raise ValueError("its labels are not those of its rows.")
    estimator = KNNShapley(**description["estimator"])
    near = _numbers(arrays, "rows", n_known, n_known)
    found: dict[str, Any] = {name: arrays[name] for name in shapes} | labels
    if "copies" in arrays:
        found["copies"] = Copies(_numbers(arrays, "copies", n_rows, 2 * n_rows), description["threshold"])
    audit = LabelAudit(
        **found, n_errors=ErrorCount(**description["n_errors"]), valuation=valuation, notes=(*description["notes"],),
        index=index_from_bytes(arrays, n_rows), _review=_review(arrays, n_known), _estimator=estimator,
        _voters=Voters.of(near, arrays["keys"], estimator.n_neighbors),
    )  # fmt: skip
    for name in sorted((name for name in arrays if name.startswith(DRAW)), key=lambda name: int(name[len(DRAW) :])):
        drawn = _numbers(arrays, name, len(arrays[name]), n_known)
        audit._draws.append((audit._begun(len(drawn)), drawn))
    return audit


def _review(arrays: Arrays, n_rows: int) -> Review | None:
    if "order" not in arrays:
        return None
    masks = [arrays[name] for name in ("drawn", "judged", "wrong")]
    check_arrays(arrays, {"doubt": (n_rows,)})
    if len(np.unique(_numbers(arrays, "order", n_rows, n_rows))) < n_rows or any(m.shape != (n_rows,) for m in masks):
        raise ValueError("its review is not one of its rows.")
    _numbers(arrays, "strata", n_rows, n_rows, least=0)
    return Review(**{part.name: arrays[part.name] for part in fields(Review)})


def _numbers(arrays: Arrays, name: str, n_rows: int, end: int, least: int = -1) -> npt.NDArray[Any]:
    """Whole numbers from `least` to below `end`, one or several for each row."""
    found = arrays[name]
    if found.dtype.kind != "i" or len(found) != n_rows or not ((least <= found) & (found < end)).all():
        raise ValueError(f"its {name!r} are not numbers of rows.")
    return found
