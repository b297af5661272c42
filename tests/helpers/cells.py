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
    """Values in each cell; for a cut before each cell, what points before it lose to those behind,
    and the error.

    The last two have one more entry, for a cut behind the last cell: exact values, so zeros.
    """

    match: FloatVector
    other: FloatVector
    lost: FloatVector
    error: FloatVector

    def first_cut(self, max_error: float) -> int:
        """The nearest cut that certifies `max_error` along with all cuts behind it."""
        return int(np.flatnonzero(~(np.append(np.inf, self.error) <= max_error))[-1])


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
        self._matches, self._others = (
            np.append(0, np.cumsum(counts, dtype=np.intp)) for counts in (matches, others)
        )
        self._tolerance = tolerance
        self._worth = np.concatenate(
            [weights.worth[:1], weights.worth, [0.0]]
        )  # by rank; N + 1 is read, not used
        # What matches take if they come as near as they can and other points as far, and the
        # reverse.
        self._most = self._sums(
            self._run(self.matches(), self.matches(1), self.others(-tolerance))[:-1]
        )
        self._least = self._sums(
            self._run(self.matches(), self.matches(1), self.others(tolerance + 1))[:-1]
        )

    def matches(self, shift: int = 0) -> IntVector:
        """Matches before each cut, or before the one so many cells behind it."""
        return np.asarray(_shifted(self._matches, shift))

    def others(self, shift: int = 0) -> IntVector:
        return np.asarray(_shifted(self._others, shift))

    def ranks(self, shift: int = 0) -> IntVector:
        return self.matches(shift) + self.others(shift)

    def as_ties(self) -> tuple[FloatVector, FloatVector, FloatVector]:
        """Values of matches and of other points in each cell, and what points before each cut lose
        to those behind.
        """
        worth, start, end = self._worth, self.ranks()[:-1], self.ranks(1)[:-1]
        size, matches = end - start, np.diff(self._matches)
        total = np.diff(np.cumsum(worth)[self.ranks()])
        inner = (total - size * worth[end]) / np.maximum(size * (size - 1), 1)
        lost = self._sums(matches / np.maximum(size, 1) * (worth[start] - worth[end]))
        match = total / np.maximum(size, 1) - (matches - 1) * inner - lost[1:]
        return match, -matches * inner - lost[1:], lost

    def error_of_unresolved(self, match: FloatVector, other: FloatVector) -> FloatVector:
        """The largest error of a point of each cell, if that is not resolved."""
        s, worth, most, least = self._tolerance, self._worth, self._most, self._least
        first = self.ranks(-s) + 1
        lost_most = self._run(first, self.matches(1) + self.others(-s) + 1) + _shifted(most, 1)
        lost_least = _shifted(least, s + 1)
        gained = self._run(first, self.matches(-s) + self.others(1) + 1)
        highest = gained + worth[self.matches(1 - s) + self.others(1)] - _shifted(least, 1 - s)
        lowest = worth[self.matches(2 * s + 1) + self.others(s + 1)] - _shifted(most, 2 * s + 1)
        of_match = np.maximum(highest[:-1] - match, match - lowest[:-1])
        of_other = np.maximum(other + lost_most[:-1], -lost_least[:-1] - other)
        some_match, some_other = np.diff(self._matches) > 0, np.diff(self._others) > 0
        return np.asarray(np.maximum(of_match * some_match, of_other * some_other))

    def error_of_resolved(self, lost: FloatVector) -> FloatVector:
        """The largest error of a point before each cut."""
        s, worth, most, least = self._tolerance, self._worth, self._most, self._least
        behind = self.ranks(s) - self.ranks()  # so many points beyond the cut may belong before it
        pushed = self._run(self.ranks(-s), self.ranks()) - self._run(
            self.ranks(-s), self.ranks(), behind
        )
        # Only points within the tolerance of the cut are pushed back by those, or lose to fewer of
        # them.
        match_near, other_near = self.matches() > self.matches(-s), self.others() > self.others(-s)
        lost_least = np.where(other_near, _shifted(least, s), least)
        kept_least = np.where(
            match_near,
            worth[self.matches(2 * s) + self.others(s)] - _shifted(most, 2 * s),
            worth[self.matches(s) + self.others()] - _shifted(most, s),
        )
        kept = worth[self.ranks()] - lost  # what a match at the last rank before the cut is worth
        error = np.maximum(
            match_near * pushed + lost - lost_least, other_near * pushed + kept - kept_least
        )
        return np.where(self.ranks() > 0, error, 0.0)

    def _run(self, first: IntVector, last: IntVector, before: Any = 0) -> FloatVector:
        """The losses of consecutive ranks."""
        return np.asarray(self._worth[first + before] - self._worth[last + before])

    @staticmethod
    def _sums(of_cells: FloatVector) -> FloatVector:
        """Sums over the cells behind each cut."""
        return np.append(np.cumsum(of_cells[::-1])[::-1], 0.0)


def _shifted(by_cut: Any, shift: int) -> Any:
    """The entries so many cuts later; the first and the last stand for those beyond them."""
    return by_cut[np.clip(np.arange(len(by_cut)) + shift, 0, len(by_cut) - 1)]
