"""Classification, query after query: marks of the keys, which points are pivots, who settles doubts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatVector
from nearworth.engine import kernels
from nearworth.games.classification import ClassificationGame
from nearworth.neighbors.distances import ExactDistances
from nearworth.neighbors.products import ApproximateKeys, ExactKeys, panel_size

Vector32 = npt.NDArray[np.int32]
WATCHED = 16  # points whose exact distances are asked for in any case, to see whether marks are what they should be


class MarkedRow(NamedTuple):
    """The keys of one query as whole numbers, their range, and how far they may be off.

    `scale` takes exact distances to marks, to check that; it is NaN where they cannot be checked.
    """

    marks: Vector32
    lowest: int
    highest: int
    reach: kernels.Reach
    scale: float


class Marker:
    """Makes marks from keys; has the space for them. One per thread."""

    def __init__(self, n_train: int) -> None:
        self._marks = np.empty((0, n_train), dtype=np.int32)
        self._panel = np.empty(0)
        self._no_norms = np.zeros(0)

    def exact(self, keys: FloatVector) -> MarkedRow:
        """Of one query with exact keys: nothing to fear but the rounding of the marks themselves."""
        self._make_room(1, 0)
        if not self._no_norms.size:
            self._no_norms = np.zeros(len(keys))
        low, high = kernels.finite_range(keys)
        largest, power = max(abs(low), abs(high)), 0
        if not (1e-200 < largest < 1e200 or largest == 0.0):  # a power of two changes no rank
            power = int(np.frexp(largest)[1])
            keys = np.ldexp(keys, -power)
            low, high = kernels.finite_range(keys)
        scale, reach = kernels.mark_scale(low, high, 0.0, 0.0, low)
        ranges = np.array([[kernels.TOP], [0]])
        kernels.mark_panel(keys[None, :], self._no_norms, np.array([low]), np.array([scale]), 0, self._marks, *ranges)
        return MarkedRow(self._marks[0], int(ranges[0, 0]), int(ranges[1, 0]), reach, np.nan)

    def rough(self, batch: ApproximateKeys) -> list[MarkedRow]:
        """Of some queries, panel by panel while these are in the cache."""
        self._make_room(batch.n_queries, batch.width)
        limits = zip(batch.low, batch.high, batch.tolerance, batch.far_tolerance, batch.far_from, strict=True)
        measured = [kernels.mark_scale(*map(float, limit)) for limit in limits]
        scales = np.array([scale for scale, _ in measured])
        lowest, highest = np.full(len(scales), kernels.TOP), np.zeros(len(scales), dtype=np.int64)
        for start, panel in batch.panels(self._panel):
            kernels.mark_panel(panel, batch.norms, batch.low, scales, start, self._marks, lowest, highest)
        rows = zip(self._marks, lowest.tolist(), highest.tolist(), measured, strict=False)
        return [
            MarkedRow(marks, least, most, reach, scale if batch.verifiable else np.nan)
            for marks, least, most, (scale, reach) in rows
        ]

    def _make_room(self, n_queries: int, width: int) -> None:
        """Fresh memory costs more than the product, so it is kept."""
        if len(self._marks) < n_queries:
            self._marks = np.empty((n_queries, self._marks.shape[1]), dtype=np.int32)
        if width and self._panel.size < panel_size(n_queries, width):
            self._panel = np.empty(panel_size(n_queries, width))


class ClassifierRows:
    """Values of one query at a time, left as a table by place (see `kernels`). One per thread."""

    def __init__(self, game: ClassificationGame, members: Members, n_train: int, by_index: bool) -> None:
        self._members = members
        self._by_index = by_index
        self._worth = np.concatenate([game.weights.worth[:1], game.weights.worth])
        self._loss = np.concatenate([[0.0], game.weights.loss])
        self._game = game
        self._scratch = kernels.make_scratch(n_train, members.most_pivots)
        self._distances = np.empty(n_train + members.most_pivots + 1)
        self._watched = np.linspace(0, n_train - 1, WATCHED).astype(np.int32)

    @property
    def table(self) -> FloatVector:
        """Value of each place, after a call."""
        return self._scratch.table

    @property
    def place(self) -> Vector32:
        """Place of each point, after a call."""
        return self._scratch.place

    def __call__(self, row: MarkedRow, judge: ExactKeys, label: int, left_out: int) -> tuple[int, bool]:
        """Value one query; the judge is asked where marks leave doubts.

        Returns for how many points, and whether its answers show the marks to be as good as promised.
        """
        pivots, match, n_matches = self._members.pivots(label)
        added = self._game.added(n_matches - (left_out >= 0))  # who is left out is the query, with its label
        scratch = self._scratch
        if isinstance(judge, ExactDistances) and isinstance(judge.points, np.ndarray):
            wanted, kept = kernels.whole_row(
                row.marks, row.lowest, row.highest, row.reach, row.scale, pivots, match, left_out, self._by_index,
                judge.query, judge.points, self._watched, self._distances,
                self._worth, self._loss, *added, scratch,
            )  # fmt: skip
            return int(wanted), bool(kept)
        kept = np.isnan(row.scale) or kernels.all_as_promised(
            row.marks, self._watched, judge(self._watched), row.scale, row.reach
        )
        count, others, wanted, n_asked = kernels.begin_row(
            row.marks, row.lowest, row.highest, row.reach, pivots, left_out, scratch
        )
        distances = judge(scratch.doubtful[:wanted])
        kept &= kernels.end_row(
            row.marks, distances, row.scale, count, others, n_asked, row.reach, match, left_out,
            self._by_index, self._worth, self._loss, *added, scratch,
        )  # fmt: skip
        return int(wanted), bool(kept)


class Members:
    """The points of each class; of a class with most of the points, all the others."""

    def __init__(self, codes: npt.NDArray[Any]) -> None:
        n_classes = int(codes.max()) + 1
        self._order = np.argsort(codes, kind="stable").astype(np.int32)
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(codes))])
        self._complement: dict[int, Vector32] = {
            code: np.flatnonzero(codes != code).astype(np.int32)
            for code in range(n_classes)
            if 2 * self._count(code) > len(codes)
        }
        self.most_pivots = max(len(self.pivots(code)[0]) for code in range(n_classes))

    def pivots(self, label: int) -> tuple[Vector32, bool, int]:
        """The pivots of a label, whether they match, and how many points do."""
        if label < 0:
            return self._order[:0], True, 0
        n_matches = self._count(label)
        if label in self._complement:
            return self._complement[label], False, n_matches
        return self._order[self._starts[label] : self._starts[label + 1]], True, n_matches

    def _count(self, code: int) -> int:
        return int(self._starts[code + 1] - self._starts[code])
