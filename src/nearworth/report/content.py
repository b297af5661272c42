"""What the page shows, as plain data: the listed rows, their neighbours and rows drawn by lot, and
counts of all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector
from nearworth.report.row_numbers import RowNumbers
from nearworth.report.shown import (
    Cells,
    by_lot,
    id_text,
    image_files,
    image_order,
    pixels,
    places,
    take,
)

if TYPE_CHECKING:
    from nearworth.audit.result import LabelAudit
    from nearworth.audit.scan import Finding
    from nearworth.tables.dataset import Dataset

MOST_SUSPECTS, MOST_NEAR, MOST_UNLABELLED, MOST_FOUND = 5_000, 10, 500, 1_000
TABS = ("duplicates", "outliers", "leakage")
MOST_POINTS = 4_000  # drawn besides the rows that are shown
SAMPLE, SAMPLE_SEED = 100, 20_261
ROOM = 5_000_000  # characters of all cells
BINS, MOST_DECIMALS = 25, 6


class Suggestions(NamedTuple):
    """Rows without a label that are to be asked about, surest first, and what their nearest audited
    rows suggest.
    """

    rows: IntVector  # in the file
    suggested: Any
    certainty: FloatVector
    near: IntMatrix
    distances: FloatMatrix


class Labels:
    """Labels as numbers into one list of their texts, the classes first."""

    def __init__(self, classes: Any) -> None:
        self.texts: dict[str, int] = {}
        self.n_classes = len({self(label) for label in classes})

    def __call__(self, label: Any) -> int:
        text = id_text(label).encode("utf-8", "replace").decode()
        return self.texts.setdefault(text, len(self.texts))


class Content:
    """An audit, the rows it lists, worst first unless others are given, and the columns of all
    rows.
    """

    def __init__(
        self,
        audit: LabelAudit,
        rows: Dataset,
        selection: Mapping[str, Any],
        findings: Mapping[str, Finding] | None = None,
        listed: IntVector | None = None,
        *,
        decided: Any = (),
        suggestions: Suggestions | None = None,
    ) -> None:
        self.of_classes = audit.suggested_range is None
        if not self.of_classes:  # of a frame they are objects
            audit = replace(audit, given=audit.given.astype(np.float64))
        self.audit, self.rows, self.selection, self.findings = (
            audit,
            rows,
            selection,
            findings or {},
        )
        suspects = listed
        if suspects is None:
            suspects = audit.suspects(**selection) if selection else audit.worth_a_look()
            suspects = suspects[
                np.argsort(~np.isin(suspects, audit.judged_wrong), kind="stable")
            ]  # they need a label
        self.decided, self.suggestions = decided, suggestions
        self.suspects = suspects[~np.isin(suspects, decided)]
        self.listed = self.suspects[:MOST_SUSPECTS] if listed is None else listed
        self.labels, self.codes = np.unique(audit.given, return_inverse=True)
        self.numbers = RowNumbers.of(rows, len(audit))

    def page_data(self) -> dict[str, Any]:
        """All that the page's script reads; rows are file rows."""
        audit, suspects = self.audit, self.suspects
        sample = self.numbers.file_rows(by_lot(np.arange(len(audit)), SAMPLE, SAMPLE_SEED))
        tabs = {
            name: self._tab(found)
            for name, found in self.findings.items()
            if name in TABS and len(found)
        }
        beside = [
            row for tab in tabs.values() for rows in (tab["rows"], *tab["near"]) for row in rows
        ]
        data = self.shown([*sample, *beside]) | {"findings": tabs}
        count = audit.n_errors
        data |= {
            "wasWrong": self._file_rows(self.listed[np.isin(self.listed, audit.judged_wrong)]),
            "unlike": [self._unlike(audit.unlike(row)) for row in self.listed.tolist()],
            "sample": np.random.default_rng(SAMPLE_SEED)
            .permutation(sample)
            .tolist(),  # in an order by lot
            "nListed": len(suspects),
            "nJudged": len(self.decided),
            "errors": [math.floor(count.lower), math.ceil(count.upper)],
            "errorsSaid": str(count),
            "estimate": None
            if self.of_classes or count.estimate is None
            else round(count.estimate),
            "assumption": count.assumption,
            "reviewed": count.basis == "review",
            "certainty": np.histogram(1.0 - audit.quality, BINS, (0.0, 1.0))[0].tolist(),
        }
        if self.of_classes:
            counts = (
                np.bincount(codes, minlength=len(self.labels))
                for codes in (self.codes, self.codes[suspects])
            )
            data["classes"] = np.column_stack([*counts]).tolist()  # rows and suspects of each
        else:
            data |= self._targets()
        return self._with_unlabelled(data | self._map(data))

    def _unlike(self, rows: IntVector) -> list[Any]:
        """Of identical rows with another label: the first one, its label, and how many there
        are.
        """
        return (
            [*self._file_rows(rows[:1]), id_text(self.audit.given[rows[0]]), len(rows)]
            if len(rows)
            else []
        )

    def _tab(self, found: Finding) -> dict[str, Any]:
        """The rows of a finding, those beside each, and what the words about it are made of."""
        columns = found.columns
        rows = self._labeled_rows(columns.get("training_row", found.rows)[:MOST_FOUND])
        if found.groups is None:
            near = [
                np.array([n.row for n in self.audit.nearest(row)], dtype=np.intp)
                for row in rows.tolist()
            ]
        else:  # the rows of a finding with groups come group by group
            groups = [self._labeled_rows(group) for group in found.groups]
            near = [group[group != row] for group in groups for row in group][:MOST_FOUND]

        tab: dict[str, Any] = {
            "rows": self._file_rows(rows),
            "near": [self._file_rows(group[:MOST_NEAR]) for group in near],
            "score": found.scores[found.rows[:MOST_FOUND]].round(2).tolist(),
        }
        if "exact" in columns:
            tab["exact"] = columns["exact"][:MOST_FOUND].tolist()
        if "training_row" in columns:  # the rows of the finding are validation rows
            others, trusted = found.rows[:MOST_FOUND], self.rows.validation
            tab["other"] = (others if trusted is None else trusted.labeled_rows[others]).tolist()
        return tab

    def _labeled_rows(self, found: IntVector) -> IntVector:
        """Rows of a finding as labeled rows. A scan of a frame counts all rows of the frame."""
        return found if self.audit._frame is None else self.numbers.labeled_rows(found)

    def _file_rows(self, labeled_rows: Any) -> list[int]:
        return list(self.numbers.file_rows(labeled_rows).tolist())

    def _given(self, file_rows: IntVector, code: Labels) -> list[int | None]:
        """The labels that file rows were given, as numbers; None for rows without a label."""
        codes: list[int | None] = [None] * len(file_rows)
        places = np.flatnonzero(self.numbers.has_label(file_rows))
        labels = self.audit.given[self.numbers.labeled_rows(file_rows[places])]
        for place, label in zip(places.tolist(), labels, strict=True):
            codes[place] = code(label)
        return codes

    def shown(self, sample: Any = ()) -> dict[str, Any]:
        """The listed rows, worst first, as lists of equal length; `more` are the sample and the
        neighbours of both.
        """
        audit, rows, listed, numbers = self.audit, self.rows, self.listed, self.numbers
        own = numbers.file_rows(listed)
        code = Labels(self.labels if self.of_classes else [])
        cells = Cells(rows, numbers.n_file_rows)
        near = [audit.nearest(int(row))[:MOST_NEAR] for row in listed]

        # The order of the shown rows. Room for cells and images goes to the first ones.
        rows_near = [self._file_rows([n.row for n in group]) for group in near]
        around = rows_near
        rest = self.suggestions
        if rest is not None:
            around = [*rows_near, *map(self._file_rows, rest.near[:MOST_UNLABELLED])]
            sample = [*sample, *rest.rows[:MOST_UNLABELLED]]
        order = image_order(own, around, sample)
        more = np.array(order[len(listed) :], dtype=np.intp)

        # The sample and the nearest neighbour of each row come first, and are cut last.
        n_first = len(image_order(own, [group[:1] for group in around], sample)) - len(listed)
        cells_of_listed, room = cells.of(own, ROOM)
        cells_of_first, room = cells.of(more[:n_first], room)
        cells_of_more = cells_of_first + cells.of(more[n_first:], room)[0]

        data: dict[str, Any] = {
            "row": own.tolist(),
            "given": [code(label) for label in audit.given[listed]],
            "suggested": [code(label) for label in self._suggested(listed)],
            "quality": audit.quality[listed].round(4).tolist(),
            "why": [audit.why(int(row), numbers.file_row_of_labeled) for row in listed],
            "near": [
                [
                    [row, code(n.label), float(f"{n.distance:.3g}")]
                    for row, n in zip(file_rows, group, strict=True)
                ]
                for file_rows, group in zip(rows_near, near, strict=True)
            ],
            "cells": cells_of_listed,
            "cellNames": cells.names,
            "cellsOmitted": cells.omitted,
            "scales": cells.scales,
            "text": cells.text is not None,
            "target": rows.target,
            "source": rows.source,
            "idName": rows.id_name,
            "nRows": numbers.n_labeled,
            "ofRows": numbers.n_file_rows,
            "more": {
                "row": more.tolist(),
                "given": self._given(more, code),
                "cells": cells_of_more,
            },
        }
        if rows.ids is not None:
            data["id"], data["more"]["id"] = (
                [id_text(cell) for cell in take(rows.ids, r)] for r in (own, more)
            )
        if audit.suggested_range is not None:  # where each target is likely to be
            within, finest = audit.suggested_range[listed], self._finest()
            data["ranges"] = [
                *zip(*(rounded(within[:, side], within, finest) for side in (0, 1)), strict=True)
            ]
        return data | self._images(order) | {"labels": list(code.texts), "nClasses": code.n_classes}

    def _with_unlabelled(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data with what is suggested for the rows that have no label."""
        found = self.suggestions
        if found is None:
            return data
        code, first = (
            Labels(data["labels"]),
            Suggestions._make(part[:MOST_UNLABELLED] for part in found),
        )
        near = zip(map(self._file_rows, first.near), first.distances.tolist(), strict=True)
        data["unlabelled"] = {
            "row": first.rows.tolist(),
            "suggested": [code(label) for label in first.suggested],
            "certainty": [None if c != c else round(c, 4) for c in first.certainty.tolist()],
            "near": [[[r, float(f"{d:.3g}")] for r, d in zip(*each, strict=True)] for each in near],
            "count": len(found.rows),
        }
        return data | {"labels": list(code.texts)}

    def _images(self, order: list[int]) -> dict[str, Any]:
        rows = self.rows
        if rows.image_shape is not None:
            return pixels(rows.X, rows.image_shape, order)
        if rows.image_names is None:
            return {}
        names = take(rows.image_names, np.array(order, dtype=np.intp))
        return image_files(
            rows.image_folder, dict(zip(order, map(str, names), strict=True)), rows.images_below
        )

    def _suggested(self, rows: IntVector) -> list[Any]:
        """What is suggested for some rows; numbers as people write them."""
        suggested, ranges = self.audit.suggested[rows], self.audit.suggested_range
        if ranges is None:
            return list(suggested)
        shown, given = rounded(suggested, ranges[rows], self._finest()), self.audit.given[rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.abs(given / suggested)
            power_of_ten = 10.0 ** np.round(np.log10(factor))
        is_power = np.isclose(factor, power_of_ten, rtol=1e-12) & (
            given != 0
        )  # no power of ten makes 0 of a number
        slips = is_power & (given != suggested)
        return [
            float(exact) if slip else near
            for exact, near, slip in zip(suggested, shown, slips, strict=True)
        ]

    def _finest(self) -> float:
        """The unit of the targets: 0.01 where they have two decimals, 100 where all are
        hundreds.
        """
        texts = [id_text(float(y)) for y in self.audit.given[:1_000] if y != 0]
        decimals = [
            len(text.partition(".")[2]) or len(text.rstrip("0")) - len(text) for text in texts
        ]
        return float(10.0 ** -min(max(decimals, default=0), MOST_DECIMALS))

    def _targets(self) -> dict[str, Any]:
        """How targets are distributed, those listed besides."""
        given = self.audit.given
        low, high = float(given.min()), float(given.max())
        logs = low > 0 and high > 100 * low
        scaled = np.log(given) if logs else given
        edges = np.histogram_bin_edges(scaled, BINS + 15)
        counts = [
            np.histogram(scaled[rows], edges)[0].tolist() for rows in (slice(None), self.suspects)
        ]
        return {"targets": {"low": low, "high": high, "log": logs, "counts": counts}}

    def _map(self, data: dict[str, Any]) -> dict[str, Any]:
        """Places of the shown rows, None without a label; points for others: where, label, and the
        typical target.
        """
        X = self.rows.X
        if X is None or X.shape[1] < 2:
            return {}
        if self.numbers.n_labeled < self.numbers.n_file_rows:
            X = X[self.numbers.file_row_of_labeled]
        shown = np.array(data["row"] + data["more"]["row"], dtype=np.intp)
        has_place = self.numbers.has_label(shown)
        drawn = self.numbers.labeled_rows(shown[has_place])
        others = by_lot(np.setdiff1d(np.arange(self.numbers.n_labeled), drawn), MOST_POINTS)
        found = places(X, np.concatenate([drawn, others]))
        found_for_shown = iter(found[: len(drawn)])
        place = [next(found_for_shown) if has else None for has in has_place.tolist()]
        if self.of_classes:
            code = Labels(data["labels"])
            about = [[code(label)] for label in self.audit.given[others]]
        else:
            about = (
                np.column_stack([self.audit.given[others], self.audit.suggested[others]])
                .round(6)
                .tolist()
            )
        points = [where + extra for where, extra in zip(found[len(drawn) :], about, strict=True)]
        return {"place": place, "points": points}


def rounded(values: FloatVector, ranges: Any, finest: float) -> list[float]:
    """Numbers as people write them: to a hundredth of the range in which they are, and no finer
    than the data.

    >>> rounded(np.array([91734.567, 0.23456]), np.array([[70000.0, 101000.0], [0.1, 0.4]]), 0.01)
    [91700.0, 0.23]
    """
    widths = np.maximum(ranges[:, 1] - ranges[:, 0], 1e-300) / 100
    units = np.maximum(10.0 ** np.floor(np.log10(widths)), finest)
    decimals = np.maximum(-np.log10(units), 0).astype(int)
    numbers = zip(values.tolist(), units.tolist(), decimals.tolist(), strict=True)
    return [round(round(value / unit) * unit, digits) for value, unit, digits in numbers]
