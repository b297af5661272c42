"""What the page shows, as plain data: the listed rows, their neighbors and rows drawn by lot, and
counts of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector
from nearworth.report.row_numbers import RowNumbers
from nearworth.report.shown import (
    Cells,
    ShownOrder,
    by_lot,
    id_text,
    image_files,
    pixels,
    places,
    take,
)

if TYPE_CHECKING:
    from nearworth.audit.explain import Neighbour
    from nearworth.audit.result import LabelAudit
    from nearworth.audit.scan import Finding
    from nearworth.tables.dataset import Dataset

MAX_SUSPECTS = 5_000
MAX_NEIGHBORS = 10
MAX_UNLABELLED = 500
MAX_FINDING_ROWS = 1_000
TABS = ("duplicates", "outliers", "leakage")
MAX_POINTS = 4_000  # drawn besides the rows that are shown
SAMPLE = 100  # rows
SAMPLE_SEED = 20_261
# All cells together, so that the file stays small enough to send.
MAX_CELL_CHARACTERS = 5_000_000
N_CERTAINTY_BINS = 25
N_TARGET_BINS = 40
# Targets are drawn on a log scale if the largest is more than this many times the least.
MIN_LOG_RATIO = 100
MAX_DECIMALS = 6
# Targets that are looked at to find their unit.
N_UNIT_TARGETS = 1_000


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
        """The number of a label, the next one if it is new."""
        text = id_text(label).encode("utf-8", "replace").decode()
        return self.texts.setdefault(text, len(self.texts))


class Content:
    """An audit, the rows it lists, worst first unless others are given, and the columns of all
    rows.

    Attributes
    ----------
    of_classes : bool
        Whether targets are classes, not numbers.
    suspects : array of labeled rows
        Those to review, worst first.
    listed : array of labeled rows
        The suspects that the page has room for.
    labels, codes : arrays
        The distinct targets, and the place of each row's target among them.
    numbers : RowNumbers
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
        if not self.of_classes:
            # Targets of a frame may be objects.
            audit = replace(audit, given=audit.given.astype(np.float64))
        self.audit = audit
        self.rows = rows
        self.selection = selection
        self.findings = findings or {}

        suspects = self._choose_suspects() if listed is None else listed
        self.decided = decided
        self.suggestions = suggestions
        self.suspects = suspects[~np.isin(suspects, decided)]
        self.listed = self.suspects[:MAX_SUSPECTS] if listed is None else listed
        self.labels, self.codes = np.unique(audit.given, return_inverse=True)
        self.numbers = RowNumbers.of(rows, len(audit))

    def _choose_suspects(self) -> IntVector:
        """The suspects of the selection, or those worth a look; reviewed ones first, as they need
        a label.
        """
        audit = self.audit
        suspects = audit.suspects(**self.selection) if self.selection else audit.top_doubtful()
        is_reviewed_wrong = np.isin(suspects, audit.judged_wrong)
        return np.asarray(suspects[np.argsort(~is_reviewed_wrong, kind="stable")])

    def page_data(self) -> dict[str, Any]:
        """All that the page's script reads; rows are file rows."""
        sample = self.numbers.file_rows(by_lot(np.arange(len(self.audit)), SAMPLE, SAMPLE_SEED))
        tabs = {
            name: self._tab(finding)
            for name, finding in self.findings.items()
            if name in TABS and len(finding)
        }
        data = self.shown([*sample, *_rows_of_tabs(tabs)])
        data["findings"] = tabs
        data |= self._review_data(sample)
        data |= self._count_data()
        data |= self._class_data() if self.of_classes else self._target_data()
        data |= self._map_data(data)
        return data | self._unlabelled_data(data)

    def _review_data(self, sample: IntVector) -> dict[str, Any]:
        """What a review found about the listed rows, and the sample in an order by lot."""
        is_reviewed_wrong = np.isin(self.listed, self.audit.judged_wrong)
        return {
            "wasWrong": self._file_rows(self.listed[is_reviewed_wrong]),
            "unlike": [self._conflict(row) for row in self.listed.tolist()],
            "sample": np.random.default_rng(SAMPLE_SEED).permutation(sample).tolist(),
        }

    def _count_data(self) -> dict[str, Any]:
        """How many labels are wrong, and how likely each one is."""
        count = self.audit.n_errors
        estimate = None
        # The page has an estimate for targets only, where it is far from both ends of the range.
        if not self.of_classes and count.estimate is not None:
            estimate = round(count.estimate)
        p_wrong = 1.0 - self.audit.quality
        return {
            "nListed": len(self.suspects),
            "nJudged": len(self.decided),
            "errors": [math.floor(count.lower), math.ceil(count.upper)],
            "errorsSaid": str(count),
            "estimate": estimate,
            "assumption": count.assumption,
            "reviewed": count.basis == "review",
            "certainty": np.histogram(p_wrong, N_CERTAINTY_BINS, (0.0, 1.0))[0].tolist(),
        }

    def _class_data(self) -> dict[str, Any]:
        """How many rows and how many suspects each class has."""
        n_classes = len(self.labels)
        n_rows = np.bincount(self.codes, minlength=n_classes)
        n_suspects = np.bincount(self.codes[self.suspects], minlength=n_classes)
        return {"classes": np.column_stack([n_rows, n_suspects]).tolist()}

    def _target_data(self) -> dict[str, Any]:
        """How targets are distributed, those of all rows and those of suspects."""
        given = self.audit.given
        low = float(given.min())
        high = float(given.max())
        is_log = low > 0 and high > MIN_LOG_RATIO * low
        scaled = np.log(given) if is_log else given
        edges = np.histogram_bin_edges(scaled, N_TARGET_BINS)
        counts = [
            np.histogram(scaled, edges)[0].tolist(),
            np.histogram(scaled[self.suspects], edges)[0].tolist(),
        ]
        return {"targets": {"low": low, "high": high, "log": is_log, "counts": counts}}

    def _conflict(self, row: int) -> list[Any]:
        """Of identical rows with another label: the first one, its label, and how many there
        are.
        """
        rows = self.audit.unlike(row)
        if not len(rows):
            return []
        return [*self._file_rows(rows[:1]), id_text(self.audit.given[rows[0]]), len(rows)]

    def _tab(self, finding: Finding) -> dict[str, Any]:
        """The rows of a finding, those beside each, and what the words about it are made of."""
        columns = finding.columns
        rows = self._labeled_rows(columns.get("training_row", finding.rows)[:MAX_FINDING_ROWS])
        if finding.groups is None:
            neighbors = [self._neighbors(row) for row in rows.tolist()]
        else:
            # The rows of a finding with groups come group by group.
            groups = [self._labeled_rows(group) for group in finding.groups]
            neighbors = [group[group != row] for group in groups for row in group]

        tab: dict[str, Any] = {
            "rows": self._file_rows(rows),
            "near": [self._file_rows(group[:MAX_NEIGHBORS]) for group in neighbors[: len(rows)]],
            "score": finding.scores[finding.rows[:MAX_FINDING_ROWS]].round(2).tolist(),
        }
        if "exact" in columns:
            tab["exact"] = columns["exact"][:MAX_FINDING_ROWS].tolist()
        if "training_row" in columns:
            # The rows of such a finding are validation rows.
            validation_rows = finding.rows[:MAX_FINDING_ROWS]
            trusted = self.rows.validation
            if trusted is not None:
                validation_rows = trusted.labeled_rows[validation_rows]
            tab["other"] = validation_rows.tolist()
        return tab

    def _neighbors(self, row: int) -> IntVector:
        return np.array([neighbor.row for neighbor in self.audit.nearest(row)], dtype=np.intp)

    def _labeled_rows(self, finding_rows: IntVector) -> IntVector:
        """Rows of a finding as labeled rows. A scan of a frame counts all rows of the frame."""
        if self.audit._frame is None:
            return finding_rows
        return self.numbers.labeled_rows(finding_rows)

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

    def shown(self, sample: Sequence[int] = ()) -> dict[str, Any]:
        """The listed rows, worst first, as lists of equal length; `more` are the sample and the
        neighbors of both.

        `sample` are file rows that are shown besides the listed ones.
        """
        audit = self.audit
        rows = self.rows
        numbers = self.numbers
        code = Labels(self.labels if self.of_classes else [])
        neighbors = [audit.nearest(int(row))[:MAX_NEIGHBORS] for row in self.listed]
        order = self._order(neighbors, sample)
        listed = order.listed
        more = order.more
        cells = Cells(rows, numbers.n_file_rows)
        cells_of_listed, cells_of_more = _cells_in_order(cells, order)
        data: dict[str, Any] = {
            "row": listed.tolist(),
            "given": [code(label) for label in audit.given[self.listed]],
            "suggested": [code(label) for label in self._suggested(self.listed)],
            "quality": audit.quality[self.listed].round(4).tolist(),
            "why": [audit.why(int(row), numbers.file_row_of_labeled) for row in self.listed],
            "near": [self._neighbor_data(group, code) for group in neighbors],
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
            data["id"] = [id_text(cell) for cell in take(rows.ids, listed)]
            data["more"]["id"] = [id_text(cell) for cell in take(rows.ids, more)]
        if audit.suggested_range is not None:
            data["ranges"] = self._ranges(audit.suggested_range[self.listed])
        data |= self._images(order.all)
        return data | {"labels": list(code.texts), "nClasses": code.n_classes}

    def _order(self, neighbors: list[list[Neighbour]], sample: Sequence[int]) -> ShownOrder:
        """The order in which rows are shown; `neighbors` are those of each listed row."""
        in_file = [self._file_rows([neighbor.row for neighbor in group]) for group in neighbors]
        proposals = self.suggestions
        if proposals is not None:
            in_file += [self._file_rows(group) for group in proposals.near[:MAX_UNLABELLED]]
            sample = [*sample, *proposals.rows[:MAX_UNLABELLED]]
        listed = self.numbers.file_rows(self.listed)
        return ShownOrder.make(listed, in_file, sample)

    def _neighbor_data(self, neighbors: list[Neighbour], code: Labels) -> list[list[Any]]:
        """The file row, label and distance of each neighbor."""
        file_rows = self._file_rows([neighbor.row for neighbor in neighbors])
        return [
            [row, code(neighbor.label), _three_figures(neighbor.distance)]
            for row, neighbor in zip(file_rows, neighbors, strict=True)
        ]

    def _unlabelled_data(self, data: dict[str, Any]) -> dict[str, Any]:
        """What is suggested for the rows that have no label; their labels come after those of the
        data.
        """
        proposals = self.suggestions
        if proposals is None:
            return {}
        code = Labels(data["labels"])
        near = []
        for labeled_rows, distances in zip(
            proposals.near[:MAX_UNLABELLED], proposals.distances[:MAX_UNLABELLED], strict=True
        ):
            figures = map(_three_figures, distances.tolist())
            near.append([*map(list, zip(self._file_rows(labeled_rows), figures, strict=True))])
        certainty = proposals.certainty[:MAX_UNLABELLED].tolist()
        unlabelled = {
            "row": proposals.rows[:MAX_UNLABELLED].tolist(),
            "suggested": [code(label) for label in proposals.suggested[:MAX_UNLABELLED]],
            "certainty": [_rounded_share(share) for share in certainty],
            "near": near,
            "count": len(proposals.rows),
        }
        return {"unlabelled": unlabelled, "labels": list(code.texts)}

    def _images(self, file_rows: list[int]) -> dict[str, Any]:
        """Images of rows as far as there is room; nothing if rows have none."""
        rows = self.rows
        if rows.image_shape is not None:
            return pixels(rows.X, rows.image_shape, file_rows)
        if rows.image_names is None:
            return {}
        names = take(rows.image_names, np.array(file_rows, dtype=np.intp))
        name_of_row = dict(zip(file_rows, map(str, names), strict=True))
        return image_files(rows.image_folder, name_of_row, rows.image_root)

    def _suggested(self, rows: IntVector) -> list[Any]:
        """What is suggested for some rows; numbers as people write them.

        A target that is a power of ten away from the suggested one has probably slipped. What is
        suggested then has all of its digits, as the given one has.
        """
        suggested = self.audit.suggested[rows]
        ranges = self.audit.suggested_range
        if ranges is None:
            return list(suggested)
        given = self.audit.given[rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.abs(given / suggested)
            power_of_ten = 10.0 ** np.round(np.log10(factor))
        # No power of ten makes 0 of a number.
        is_power = np.isclose(factor, power_of_ten, rtol=1e-12) & (given != 0)
        is_slip = is_power & (given != suggested)
        short = rounded(suggested, ranges[rows], self._unit())
        return [
            float(exact) if slip else number
            for exact, number, slip in zip(suggested, short, is_slip, strict=True)
        ]

    def _ranges(self, ranges: FloatMatrix) -> list[tuple[float, float]]:
        """Ranges in which targets are likely to be, low and high, as people write them."""
        unit = self._unit()
        lows = rounded(ranges[:, 0], ranges, unit)
        highs = rounded(ranges[:, 1], ranges, unit)
        return list(zip(lows, highs, strict=True))

    def _unit(self) -> float:
        """The unit of the targets: 0.01 where they have two decimals, 100 where all are
        hundreds.
        """
        targets = self.audit.given[:N_UNIT_TARGETS]
        decimals = [_count_decimals(id_text(float(target))) for target in targets if target != 0]
        return float(10.0 ** -min(max(decimals, default=0), MAX_DECIMALS))

    def _map_data(self, data: dict[str, Any]) -> dict[str, Any]:
        """Places of the shown rows, None without a label; points for others: where, label, and the
        typical target.
        """
        X = self.rows.X
        numbers = self.numbers
        if X is None or X.shape[1] < 2:
            return {}
        if numbers.n_labeled < numbers.n_file_rows:
            X = X[numbers.file_row_of_labeled]
        shown = np.array(data["row"] + data["more"]["row"], dtype=np.intp)
        has_place = numbers.has_label(shown)
        drawn = numbers.labeled_rows(shown[has_place])
        others = by_lot(np.setdiff1d(np.arange(numbers.n_labeled), drawn), MAX_POINTS)
        all_places = places(X, np.concatenate([drawn, others]))

        places_of_drawn = iter(all_places[: len(drawn)])
        place = [next(places_of_drawn) if has else None for has in has_place.tolist()]
        targets = self._targets_of_points(others, data["labels"])
        places_of_others = all_places[len(drawn) :]
        points = [xy + target for xy, target in zip(places_of_others, targets, strict=True)]
        return {"place": place, "points": points}

    def _targets_of_points(self, rows: IntVector, labels: list[str]) -> list[list[Any]]:
        """The label of each row as a number, or its target and the typical one."""
        given = self.audit.given[rows]
        if self.of_classes:
            code = Labels(labels)
            return [[code(label)] for label in given]
        targets = np.column_stack([given, self.audit.suggested[rows]])
        return list(targets.round(6).tolist())


def _cells_in_order(cells: Cells, order: ShownOrder) -> tuple[list[list[str]], list[list[str]]]:
    """The cells of the listed rows and those of the others. The first ones are cut last."""
    cells_of_listed, room = cells.of(order.listed, MAX_CELL_CHARACTERS)
    cells_of_first, room = cells.of(order.more[: order.n_first], room)
    cells_of_last, _ = cells.of(order.more[order.n_first :], room)
    return cells_of_listed, cells_of_first + cells_of_last


def _rows_of_tabs(tabs: Mapping[str, Any]) -> Iterator[int]:
    """The file rows of further tabs, and those beside them."""
    for tab in tabs.values():
        yield from tab["rows"]
        for rows in tab["near"]:
            yield from rows


def _three_figures(distance: float) -> float:
    return float(f"{distance:.3g}")


def _rounded_share(share: float) -> float | None:
    """A share as JSON can have it, which knows no NaN."""
    return None if math.isnan(share) else round(share, 4)


def _count_decimals(number: str) -> int:
    """How many decimals a number has; -2 for hundreds.

    >>> _count_decimals("1.25"), _count_decimals("7"), _count_decimals("300")
    (2, 0, -2)
    """
    decimals = len(number.partition(".")[2])
    return decimals or len(number.rstrip("0")) - len(number)


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
