"""Classification from counts: points in cells by distance, most of them never ordered (Theorem H,
docs/mathematics.md).

Each cell of a query, near to far, holds some matches and some other points. The cells before a
`cut` are resolved: their points are in exact order. From the cut on, every point of a cell has the
value of a tie, averaged over the orders inside the cell. How far is any value from the exact one,
at most?

Not known are the order inside a cell and, because keys are approximate, which of two points comes
first if their cells are at most `tolerance` apart. Of all orders that are left, two are extreme:
matches as near as they can be and other points as far, and the reverse. What a point loses to
matches behind it lies between these two, and what it loses to a run of matches is a difference of
two worths c. So the error costs O(1) per cell, from far to near and whatever the cut is: each query
is cut where its own counts allow it.

The engine does this in compiled code (native/certified.c); this is the form in numpy that it is
tested against.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearworth._common.types import FloatVector, IntVector
from nearworth.games.coefficients import RankWeights


class CellValues(NamedTuple):
    """Values and bounds of one query.

    match, other:
        The value of a match, and of any other point, in each cell.
    lost:
        What points before a cut lose to the points behind it, for a cut before each cell and one
        behind the last cell.
    error:
        The largest error of any value, for the same cuts. Without unresolved cells it is 0.
    """

    match: FloatVector
    other: FloatVector
    lost: FloatVector
    error: FloatVector

    def first_cut(self, max_error: float) -> int:
        """The nearest cut that certifies `max_error` along with all cuts behind it."""
        is_too_large = ~(np.append(np.inf, self.error) <= max_error)
        return int(np.flatnonzero(is_too_large)[-1])


def cell_values(
    matches: IntVector, others: IntVector, weights: RankWeights, tolerance: int = 1
) -> CellValues:
    """Values and errors of one query without what the soft utility adds, which depends on no order.

    Two points are in the right order if their cells are more than `tolerance` apart: 0 if the cells
    come from exact distances, 1 if no cell is narrower than twice the largest error of a key.
    """
    cells = Cells(matches, others, weights, tolerance)
    match, other, lost = cells.as_ties()
    unresolved = cells.error_of_unresolved(match, other)
    error = np.append(np.maximum.accumulate(unresolved[::-1])[::-1], 0.0)
    error = np.maximum(error, cells.error_of_resolved(lost))
    # The proof needs losses d that do not increase, beginning with the first rank at which a point
    # may be misplaced.
    error[cells.ranks(-tolerance) < weights.loss.argmax()] = np.inf
    error[-1] = 0.0
    return CellValues(match, other, lost, error)


class Cells:
    """Counts before each cut, c by rank, and what matches take in the two extreme orders."""

    def __init__(
        self, matches: IntVector, others: IntVector, weights: RankWeights, tolerance: int
    ) -> None:
        self._matches = np.append(0, np.cumsum(matches, dtype=np.intp))
        self._others = np.append(0, np.cumsum(others, dtype=np.intp))
        self._tolerance = tolerance
        # By rank, from 1. Rank N + 1 is read but has no influence.
        self._worth = np.concatenate([weights.worth[:1], weights.worth, [0.0]])

        # What matches take if they come as near as they can and other points as far.
        losses = self._run(self.matches(), self.matches(1), self.others(-tolerance))
        self._max_taken = self._sums(losses[:-1])

        # And the reverse.
        losses = self._run(self.matches(), self.matches(1), self.others(tolerance + 1))
        self._min_taken = self._sums(losses[:-1])

    def matches(self, shift: int = 0) -> IntVector:
        """Matches before each cut, or before the cut that is `shift` cells behind it."""
        return np.asarray(_shifted(self._matches, shift))

    def others(self, shift: int = 0) -> IntVector:
        """Other points before each cut, or before the cut that is `shift` cells behind it."""
        return np.asarray(_shifted(self._others, shift))

    def ranks(self, shift: int = 0) -> IntVector:
        """Points before each cut, or before the cut that is `shift` cells behind it."""
        return self.matches(shift) + self.others(shift)

    def as_ties(self) -> tuple[FloatVector, FloatVector, FloatVector]:
        """Values of matches and of other points in each cell, and losses at each cut.

        A loss is what points before the cut lose to those behind it.
        """
        worth = self._worth
        start = self.ranks()[:-1]
        end = self.ranks(1)[:-1]
        size = end - start
        matches = np.diff(self._matches)
        total = np.diff(np.cumsum(worth)[self.ranks()])
        inner = (total - size * worth[end]) / np.maximum(size * (size - 1), 1)
        lost = self._sums(matches / np.maximum(size, 1) * (worth[start] - worth[end]))
        match = total / np.maximum(size, 1) - (matches - 1) * inner - lost[1:]
        return match, -matches * inner - lost[1:], lost

    def error_of_unresolved(self, match: FloatVector, other: FloatVector) -> FloatVector:
        """The largest error of a point of each cell, if that is not resolved."""
        t = self._tolerance
        worth = self._worth
        first = self.ranks(-t) + 1

        # The range of what a match can be worth, with all unknown orders.
        gain = self._run(first, self.matches(-t) + self.others(1) + 1)
        nearest_worth = worth[self.matches(1 - t) + self.others(1)]
        highest_match = gain + nearest_worth - _shifted(self._min_taken, 1 - t)
        farthest_worth = worth[self.matches(2 * t + 1) + self.others(t + 1)]
        lowest_match = farthest_worth - _shifted(self._max_taken, 2 * t + 1)

        # The range of what another point can lose.
        own_loss = self._run(first, self.matches(1) + self.others(-t) + 1)
        max_lost = own_loss + _shifted(self._max_taken, 1)
        min_lost = _shifted(self._min_taken, t + 1)

        error_of_match = np.maximum(highest_match[:-1] - match, match - lowest_match[:-1])
        error_of_other = np.maximum(other + max_lost[:-1], -min_lost[:-1] - other)
        has_match = np.diff(self._matches) > 0
        has_other = np.diff(self._others) > 0
        return np.asarray(np.maximum(error_of_match * has_match, error_of_other * has_other))

    def error_of_resolved(self, lost: FloatVector) -> FloatVector:
        """The largest error of a point before each cut."""
        t = self._tolerance
        worth = self._worth
        ranks = self.ranks()

        # So many points beyond the cut may belong before it.
        n_misplaced = self.ranks(t) - ranks
        in_place = self._run(self.ranks(-t), ranks)
        pushed = in_place - self._run(self.ranks(-t), ranks, n_misplaced)

        # Only points within the tolerance of the cut are pushed back by those, or lose to fewer of
        # them.
        match_is_near = self.matches() > self.matches(-t)
        other_is_near = self.others() > self.others(-t)
        min_lost = np.where(other_is_near, _shifted(self._min_taken, t), self._min_taken)
        worth_if_near = worth[self.matches(2 * t) + self.others(t)]
        worth_if_far = worth[self.matches(t) + self.others()]
        min_kept = np.where(
            match_is_near,
            worth_if_near - _shifted(self._max_taken, 2 * t),
            worth_if_far - _shifted(self._max_taken, t),
        )

        # What a match at the last rank before the cut is worth.
        kept = worth[ranks] - lost
        error_of_other = match_is_near * pushed + lost - min_lost
        error_of_match = other_is_near * pushed + kept - min_kept
        return np.where(ranks > 0, np.maximum(error_of_other, error_of_match), 0.0)

    def _run(self, first: IntVector, last: IntVector, before: Any = 0) -> FloatVector:
        """What is lost from rank `first` to rank `last`, behind `before` other points."""
        return np.asarray(self._worth[first + before] - self._worth[last + before])

    @staticmethod
    def _sums(of_cells: FloatVector) -> FloatVector:
        """Sums over the cells behind each cut."""
        return np.append(np.cumsum(of_cells[::-1])[::-1], 0.0)


def _shifted(by_cut: Any, shift: int) -> Any:
    """The entries `shift` cuts later. The first and the last stand for those beyond them."""
    cuts = np.arange(len(by_cut)) + shift
    return by_cut[np.clip(cuts, 0, len(by_cut) - 1)]
