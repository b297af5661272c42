"""What the page says and shows, as plain data. `suspects` are row numbers, worst first, from `LabelAudit.suspects`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.report.images import image_files, image_order, pixels

if TYPE_CHECKING:
    from nearworth.audit.result import LabelAudit

MOST_SUSPECTS = 5_000
MOST_POINTS = 6_000  # drawn besides the suspects
MOST_CLASSES, MOST_TICKS, MOST_CONFUSED = 30, 500, 15
FIT_ROWS = 5_000  # rows that the projection is fitted to
CELL_LENGTH, MOST_CELLS = 120, 16


@dataclass(frozen=True)
class Rows:
    """Everything about the rows that the audit does not know: all optional."""

    X: Any = None
    target: str = "label"
    id_name: str | None = None
    ids: Any = None
    cells: dict[str, Any] = field(default_factory=dict)  # columns as they were in the file
    image_shape: tuple[int, ...] | None = None
    image_names: Any = None  # a file name for each row, relative to the folder
    image_folder: Path = Path()
    source: str = ""
    notes: list[str] = field(default_factory=list)


def shown(label: Any) -> str:
    """A label as text: 1.0 and 1 alike, as they are written in a file."""
    plain = _plain(label)
    return f"{plain:.6g}" if isinstance(plain, float) else str(plain)


def id_text(cell: Any) -> str:
    """An id as text with all of its digits; empty where there is none.

    >>> id_text(20231234567.0), id_text(0.1), id_text("x"), id_text(None)
    ('20231234567', '0.1', 'x', '')
    """
    plain = _plain(cell)
    if plain is None or plain != plain:
        return ""
    return str(int(plain)) if isinstance(plain, float) and plain.is_integer() else str(plain)


def suspects_data(audit: LabelAudit, suspects: IntVector, rows: Rows) -> dict[str, Any]:
    """The suspects, worst first, as lists of equal length; labels as numbers into one list."""
    listed = suspects[:MOST_SUSPECTS]
    near = [audit.nearest(int(row)) for row in listed]
    labels: dict[str, int] = {}

    def code(label: Any) -> int:
        return labels.setdefault(shown(label), len(labels))

    if audit.suggested_range is None:
        for label in np.unique(audit.given):
            code(label)
    n_classes = len(labels)
    data: dict[str, Any] = {
        "row": listed.tolist(),
        "given": [code(audit.given[row]) for row in listed],
        "suggested": [code(audit.suggested[row]) for row in listed],
        "confidence": _rounded(audit.confidence[listed], 3),
        "quality": _rounded(audit.quality[listed], 4),
        "value": [float(f"{value:.4g}") for value in audit.value[listed]],
        "agreement": _rounded(audit.agreement[listed], 3),
        "why": [audit.why(int(row)) for row in listed],
        "near": [[[int(n[0]), code(n[1]), float(f"{n[2]:.4g}")] for n in group] for group in near],
        "cells": _cells(rows.cells, listed),
        "cellNames": list(rows.cells)[:MOST_CELLS],
    }
    if rows.ids is not None:
        data["id"] = [id_text(cell) for cell in _take(rows.ids, listed)]
    needed = image_order(listed, [[int(n[0]) for n in group] for group in near])
    if rows.image_shape is not None:
        data |= pixels(rows.X, rows.image_shape, needed)
    elif rows.image_names is not None:
        names = _take(rows.image_names, np.array(needed, dtype=np.intp))
        data |= image_files(rows.image_folder, dict(zip(needed, map(str, names), strict=True)))
    data |= {"labels": list(labels), "nClasses": n_classes, "target": rows.target}
    data |= {"idName": rows.id_name, "ofRows": len(audit)}
    return data


def summary(audit: LabelAudit, suspects: IntVector, selection: Mapping[str, Any], rows: Rows) -> list[str]:
    """What was found, in plain words."""
    n, listed = len(audit), len(suspects)
    kind = "labels" if audit.suggested_range is None else "targets"
    count, rule = audit.n_errors, audit.describe_selection(selection)
    verb = "is" if f"{count.estimate:.0f}" == "1" else "are"
    sentences = [
        f"About {count.estimate:,.0f} of the {n:,} {kind} in “{rows.target}” {verb} probably wrong "
        f"({count.estimate / n:.1%}; likely between {count.lower:,.0f} and {count.upper:,.0f})."
    ]
    sentences.append(
        f"{listed:,} {'row is' if listed == 1 else 'rows are'} listed below, worst first ({rule})."
        if listed
        else f"No suspects ({rule}). {audit.explain_empty(selection)}".rstrip()
    )
    if listed > MOST_SUSPECTS:
        sentences.append(f"The worst {MOST_SUSPECTS:,} are on this page; `nearworth detect` writes all.")
    pairs = confusions(audit, suspects)
    if pairs:
        (given, suggested), times = pairs[0]
        sentences.append(
            f"The most frequent confusion: “{given}” where “{suggested}” is suggested ({times:,} "
            f"{'time' if times == 1 else 'times'})."
        )
    return sentences


def confusions(audit: LabelAudit, suspects: IntVector) -> list[tuple[tuple[str, str], int]]:
    """Given and suggested labels of the suspects, the most frequent pair first."""
    if audit.suggested_range is not None:
        return []
    chosen = suspects
    pairs = zip(audit.given[chosen], audit.suggested[chosen], strict=True)
    counted = Counter((shown(a), shown(b)) for a, b in pairs if a != b)
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def class_table(audit: LabelAudit, suspects: IntVector) -> list[dict[str, Any]]:
    """One line per class, those with the largest share of suspects first."""
    if audit.suggested_range is not None:
        return []
    labels, codes = np.unique(audit.given, return_inverse=True)
    sizes = np.bincount(codes)
    counts = np.bincount(codes[suspects], minlength=len(labels))
    quality = np.bincount(codes, weights=audit.quality) / sizes
    instead: dict[str, str] = {}
    for (given, suggested), _ in confusions(audit, suspects):
        instead.setdefault(given, suggested)
    order = np.lexsort((np.arange(len(labels)), -(counts / sizes)))
    return [
        {
            "label": shown(labels[c]), "rows": int(sizes[c]), "suspects": int(counts[c]),
            "share": float(counts[c] / sizes[c]), "quality": float(quality[c]),
            "instead": instead.get(shown(labels[c]), ""),
        }
        for c in order
    ]  # fmt: skip


def matrix(audit: LabelAudit, suspects: IntVector) -> dict[str, Any] | None:
    """Given against suggested labels of the suspects, for the classes most involved."""
    pairs = confusions(audit, suspects)
    if not pairs:
        return None
    involved: Counter[str] = Counter()
    for (given, suggested), count in pairs:
        involved[given] += count
        involved[suggested] += count
    labels = sorted(name for name, _ in involved.most_common(MOST_CONFUSED))
    counts = dict(pairs)
    most = pairs[0][1]
    lines = [
        (given, [(s, counts.get((given, s), 0), _level(counts.get((given, s), 0), most)) for s in labels])
        for given in labels
    ]
    return {"labels": labels, "lines": lines, "left_out": max(0, len(involved) - MOST_CONFUSED)}


def rows_to_draw(audit: LabelAudit, suspects: IntVector) -> IntVector:
    """Every listed suspect, in their order, and others at random."""
    listed = suspects[:MOST_SUSPECTS]
    others = np.setdiff1d(np.arange(len(audit)), listed)
    if len(others) > MOST_POINTS:
        others = np.random.default_rng(0).choice(others, MOST_POINTS, replace=False)
    return np.concatenate([listed, np.sort(others)])


def project(X: Any, rows: IntVector) -> FloatMatrix:
    """Two principal components of some rows, (len(rows), 2), fitted to a sample of all; missing values are means."""
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    n = X.shape[0]
    sample = np.sort(np.random.default_rng(0).choice(n, FIT_ROWS, replace=False)) if n > FIT_ROWS else np.arange(n)
    with np.errstate(invalid="ignore"):  # the share of no variance, if all rows are alike
        plane = make_pipeline(SimpleImputer(keep_empty_features=True), PCA(2, random_state=0)).fit(_dense(X, sample))
    return np.asarray(plane.transform(_dense(X, rows)))


def values_by_class(audit: LabelAudit, suspects: IntVector) -> list[tuple[str, FloatVector, FloatVector]]:
    """Name, values of all rows and values of suspects of each class, those with most suspects first."""
    if audit.suggested_range is not None:
        return [("all rows", audit.value, audit.value[suspects])]
    suspect = np.isin(np.arange(len(audit)), suspects)
    names = np.array([shown(label) for label in audit.given.tolist()], dtype=object)
    groups = []
    for line in class_table(audit, suspects)[:MOST_CLASSES]:
        members = names == line["label"]
        groups.append((line["label"], audit.value[members], audit.value[members & suspect][:MOST_TICKS]))
    return groups


def _dense(X: Any, rows: IntVector) -> FloatMatrix:
    part = X[rows]
    return np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)


def _level(count: int, most: int) -> int:
    return 0 if count == 0 else 1 + min(3, int(4 * count / (most + 1)))


def _plain(cell: Any) -> Any:
    return cell.item() if isinstance(cell, np.generic) else cell


def _rounded(values: Any, digits: int) -> list[float]:
    return [round(float(value), digits) for value in values]


def _take(column: Any, rows: IntVector) -> list[Any]:
    return list(column.take(rows).to_pylist() if hasattr(column, "to_pylist") else np.asarray(column)[rows].tolist())


def _cells(columns: dict[str, Any], rows: IntVector) -> list[list[str]]:
    texts = [[_short(cell) for cell in _take(c, rows)] for c in list(columns.values())[:MOST_CELLS]]
    return [list(cells) for cells in zip(*texts, strict=True)] if texts else []


def _short(cell: Any) -> str:
    text = "" if cell is None else shown(cell)
    return text if len(text) <= CELL_LENGTH else f"{text[:CELL_LENGTH]}…"
