"""What the page says and shows, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
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
    _: KW_ONLY
    id_name: str | None = None
    ids: Any = None
    cells: dict[str, Any] = field(default_factory=dict)  # columns as they were in the file
    image_shape: tuple[int, ...] | None = None
    image_names: Any = None  # a file name for each row, relative to the folder
    image_folder: Path = Path()
    source: str = ""
    notes: list[str] = field(default_factory=list)
    numbers: Any = None  # of these rows in the file, where some of it are left out
    of_rows: int | None = None  # in the file


class Content:
    """An audit, its suspects (row numbers, worst first) and the other columns of the rows."""

    def __init__(self, audit: LabelAudit, rows: Rows, selection: Mapping[str, Any]) -> None:
        self.audit, self.rows, self.selection = audit, rows, selection
        self.suspects = audit.suspects(**selection)
        self.listed = self.suspects[:MOST_SUSPECTS]
        self.of_classes = audit.suggested_range is None
        self.labels, self.codes = np.unique(audit.given, return_inverse=True)
        pairs = zip(audit.given[self.suspects], audit.suggested[self.suspects], strict=True)
        counted = Counter((shown(given), shown(other)) for given, other in pairs if self.of_classes and given != other)
        self.confusions = dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))  # most frequent first

    def suspects_data(self) -> dict[str, Any]:
        """The suspects, worst first, as lists of equal length; labels as numbers into one list."""
        audit, rows, listed = self.audit, self.rows, self.listed
        near = [audit.nearest(int(row)) for row in listed]
        labels: dict[str, int] = {}

        def code(label: Any) -> int:
            return labels.setdefault(shown(label), len(labels))

        n_classes = len({code(label) for label in self.labels}) if self.of_classes else 0
        data: dict[str, Any] = {
            "row": listed.tolist(),
            "given": [code(label) for label in audit.given[listed]],
            "suggested": [code(label) for label in audit.suggested[listed]],
            "confidence": audit.confidence[listed].round(3).tolist(),
            "quality": audit.quality[listed].round(4).tolist(),
            "value": [float(f"{value:.4g}") for value in audit.value[listed]],
            "agreement": audit.agreement[listed].round(3).tolist(),
            "agreementIs": self.agreement_is(),
            "why": [audit.why(int(row)) for row in listed],
            "near": [[[n.row, code(n.label), float(f"{n.distance:.4g}")] for n in group] for group in near],
            "cells": self._cells(),
            "cellNames": list(rows.cells)[:MOST_CELLS],
            "target": rows.target,
            "idName": rows.id_name,
            "ofRows": rows.of_rows or len(audit),
        }
        if rows.ids is not None:
            data["id"] = [id_text(cell) for cell in _take(rows.ids, listed)]
        needed = image_order(listed, [[n.row for n in group] for group in near])
        if rows.image_shape is not None:
            data |= pixels(rows.X, rows.image_shape, needed)
        elif rows.image_names is not None:
            names = _take(rows.image_names, np.array(needed, dtype=np.intp))
            data |= image_files(rows.image_folder, dict(zip(needed, map(str, names), strict=True)))
        return _as_in_file(data, rows) | {"labels": list(labels), "nClasses": n_classes}

    def _cells(self) -> list[list[str]]:
        columns = [_take(column, self.listed) for column in list(self.rows.cells.values())[:MOST_CELLS]]
        return [[_short(cell) for cell in cells] for cells in zip(*columns, strict=True)]

    def agreement_is(self) -> str:
        """What agreement means, to compare it with the few neighbours shown."""
        if not self.of_classes:
            return "Agreement: 1 / (1 + distance from what neighbours suggest, in units of its usual size)."
        return (
            f"Agreement: share of the votes of the {self.audit.n_voters:,} nearest rows for the given label, "
            "nearer ones counting more."
        )

    def class_table(self) -> list[dict[str, Any]]:
        """One line per class, those with the largest share of suspects first."""
        if not self.of_classes:
            return []
        sizes = np.bincount(self.codes)
        counts = np.bincount(self.codes[self.suspects], minlength=len(sizes))
        quality = np.bincount(self.codes, weights=self.audit.quality) / sizes
        instead = dict(reversed(self.confusions))  # the most frequent comes last, and stays
        return [
            {
                "code": c, "label": shown(self.labels[c]), "rows": int(sizes[c]), "suspects": int(counts[c]),
                "share": counts[c] / sizes[c], "quality": quality[c], "instead": instead.get(shown(self.labels[c]), ""),
            }
            for c in np.argsort(-(counts / sizes), kind="stable")
        ]  # fmt: skip

    def matrix(self) -> dict[str, Any]:
        """Given against suggested labels of the suspects, for the classes most involved."""
        involved: Counter[str] = Counter()
        for pair, count in self.confusions.items():
            involved.update(dict.fromkeys(pair, count))
        labels = sorted(label for label, _ in involved.most_common(MOST_CONFUSED))
        most = max(self.confusions.values(), default=0)
        return {"labels": labels, "counts": self.confusions, "most": most, "omitted": len(involved) - len(labels)}

    def values_by_class(self) -> list[tuple[str, FloatVector, FloatVector]]:
        """Name, values of all rows and values of suspects of each class, those with most suspects first."""
        value, suspects = self.audit.value, self.suspects
        if not self.of_classes:
            return [("all rows", value, value[suspects])]
        groups = []
        for line in self.class_table()[:MOST_CLASSES]:
            found = np.sort(suspects[self.codes[suspects] == line["code"]])[:MOST_TICKS]
            groups.append((line["label"], value[self.codes == line["code"]], value[found]))
        return groups

    def rows_to_draw(self) -> IntVector:
        """Every listed suspect, in their order, and others at random."""
        others = np.setdiff1d(np.arange(len(self.audit)), self.listed)
        return np.concatenate([self.listed, _sample(others, MOST_POINTS)])


def project(X: Any, rows: IntVector) -> FloatMatrix:
    """Two principal components of some rows, (len(rows), 2), fitted to a sample of all; missing values are means."""
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    sample = _sample(np.arange(X.shape[0]), FIT_ROWS)
    with np.errstate(invalid="ignore"):  # the share of no variance, if all rows are alike
        plane = make_pipeline(SimpleImputer(keep_empty_features=True), PCA(2, random_state=0)).fit(_dense(X, sample))
    return np.asarray(plane.transform(_dense(X, rows)))


def _as_in_file(data: dict[str, Any], rows: Rows) -> dict[str, Any]:
    """The data with row numbers of the file."""
    if rows.numbers is None:
        return data
    number = rows.numbers.tolist()
    data["row"] = [number[row] for row in data["row"]]
    data["near"] = [[[number[row], *rest] for row, *rest in group] for group in data["near"]]
    for name in {"images", "pictures"} & data.keys():
        data[name] = {str(number[int(row)]): image for row, image in data[name].items()}
    return data


def shown(label: Any) -> str:
    """A label as text: 1.0 and 1 alike, as they are written in a file; all digits, so that no two are alike."""
    return f"{label:.15g}" if isinstance(label, float | np.floating) else str(label)


def id_text(cell: Any) -> str:
    """An id as text with all of its digits; empty where there is none.

    >>> id_text(20231234567.0), id_text(0.1), id_text("x"), id_text(None)
    ('20231234567', '0.1', 'x', '')
    """
    if cell is None or cell != cell:
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _sample(rows: IntVector, size: int) -> IntVector:
    return rows if len(rows) <= size else np.sort(np.random.default_rng(0).choice(rows, size, replace=False))


def _dense(X: Any, rows: IntVector) -> FloatMatrix:
    part = X[rows]
    return np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)


def _take(column: Any, rows: IntVector) -> list[Any]:
    return list(column.take(rows).to_pylist() if hasattr(column, "to_pylist") else np.asarray(column)[rows].tolist())


def _short(cell: Any) -> str:
    text = "" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= CELL_LENGTH else f"{text[:CELL_LENGTH]}…"
