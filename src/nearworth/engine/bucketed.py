"""Classification within an error, query after query: who lays out cells and settles doubts (see `histogram`)."""

from __future__ import annotations

import numpy as np

from nearworth._typing import FloatVector
from nearworth.engine import histogram
from nearworth.engine.classify import MarkedRow, Members, Vector32
from nearworth.engine.kernels import all_as_promised
from nearworth.games.buckets import BucketRule
from nearworth.games.classification import ClassificationGame
from nearworth.neighbors.distances import Differences
from nearworth.neighbors.products import Judge

SAMPLE = 64  # points whose exact distances lay out the cells, and show whether marks are what they should be
CELLS = 24  # times as many as the rule needs at least, because cells are of equal width and not of equal weight
# The rule holds whatever the labels are. Most labels do with wider cells; where they do not, the rule is for once kept.
HOPE = 2.0


class BucketRows:
    """Values of one query at a time within an error, left as a table by place. One per thread.

    For the Shapley value only: cells are as wide as its sequence allows.
    """

    def __init__(
        self, game: ClassificationGame, members: Members, n_train: int, by_index: bool, max_error: float
    ) -> None:
        self._game, self._members, self._by_index, self._max_error = game, members, by_index, max_error
        self._n_neighbors = round(1.0 / game.weights.worth[0])
        self._rules = {hope: BucketRule.of(game.n_players, self._n_neighbors, hope * max_error) for hope in (1.0, HOPE)}
        self._buckets = histogram.make_buckets(n_train, self._cells(self._rules[1.0]))
        self._distances = np.empty(n_train)
        self._sample = np.linspace(0, n_train - 1, min(SAMPLE, n_train)).astype(np.int32)
        self.slack = 0.0

    @property
    def table(self) -> FloatVector:
        """Value of each place, after a call."""
        return self._buckets.table

    @property
    def place(self) -> Vector32:
        """Place of each point, after a call."""
        return self._buckets.place

    def __call__(self, row: MarkedRow, judge: Judge, label: int, left_out: int) -> tuple[int, bool]:
        """Value one query; no value is then wrong by more than `slack`, which is at most the error allowed.

        Returns for how many points the judge was asked, and whether its answers show the marks to be as promised.
        """
        hope = self._hope(label)
        asked, self.slack, kept = self._value(row, judge, label, left_out, self._rules[hope])
        if kept and self.slack > self._max_error:
            more, self.slack, kept = self._value(row, judge, label, left_out, self._rules[1.0])
            asked += more
        return asked, kept

    def _hope(self, label: int) -> float:
        """Errors are largest where half of the points match."""
        share = self._members.pivots(label)[2] / self._game.n_players
        return HOPE if 4.0 * HOPE * share * (1.0 - share) < 1.0 else 1.0

    def _value(
        self, row: MarkedRow, judge: Judge, label: int, left_out: int, rule: BucketRule
    ) -> tuple[int, float, bool]:
        pivots, match, n_matches = self._members.pivots(label)
        added = self._game.added(n_matches - (left_out >= 0))  # who is left out is the query, with its label
        limits = self._n_neighbors, rule.theta, rule.prefix
        if isinstance(judge, Differences) and isinstance(judge.points, np.ndarray):
            asked, slack, kept = histogram.whole_row(
                row.marks, row.lowest, row.highest, row.reach, row.scale, row.line, pivots, match, left_out,
                self._by_index, self._cells(rule), *limits, judge.query, judge.points, self._sample, self._distances,
                *added, self._buckets,
            )  # fmt: skip
            return int(asked), float(slack), bool(kept)
        return self._value_in_steps(row, judge, (pivots, match), left_out, rule, added)

    def _value_in_steps(
        self,
        row: MarkedRow,
        judge: Judge,
        pivots: tuple[Vector32, bool],
        left_out: int,
        rule: BucketRule,
        added: tuple[float, float],
    ) -> tuple[int, float, bool]:
        """As `histogram.whole_row`, with any judge."""
        buckets, limits = self._buckets, (rule.theta, rule.prefix)
        distances = judge(self._sample)
        kept = np.isnan(row.scale) or all_as_promised(row.marks, self._sample, distances, row.scale, row.reach)
        grid = histogram.lay_out(distances, self._sample, left_out, self._cells(rule), buckets)
        found = histogram.locate(row.marks, row.lowest, row.highest, row.line, row.reach, grid, buckets)
        distances = judge(buckets.wanted[:found])
        n_listed, wanted, still = histogram.begin_row(
            row.marks, found, distances, row.scale, row.reach, grid, pivots[0], left_out, *limits, buckets
        )
        distances = judge(buckets.wanted[:wanted])
        slack, too = histogram.end_row(
            row.marks, distances, row.scale, row.reach, grid.count, n_listed, wanted, pivots[1], left_out,
            self._by_index, self._n_neighbors, *limits, *added, buckets,
        )  # fmt: skip
        return int(found + wanted), float(slack), bool(kept and still and too)

    def _cells(self, rule: BucketRule) -> int:
        """The smallest number that is enough, but not more than there are points."""
        return max(1, min(self._game.n_players, int(CELLS / np.sqrt(rule.theta)) if rule.theta > 0 else 1))
