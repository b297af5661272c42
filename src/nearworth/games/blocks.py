"""Blocks of ranks whose inner order is unknown, but not how many matches they hold.

Ties, the far side of a truncation and the buckets of a histogram are all the same: ranks after+1..last, `matches` of
them matches, in any order. For one point of such a block, leaving out what later blocks take from it,

    a match is worth    c_last  to  c_{after+1} - (the matches-1 smallest losses behind rank after+1)
    another is worth    -(the `matches` largest losses behind rank after+1)  to  0

and everybody nearer loses to the block between the sum of its `matches` smallest and largest losses. All ends are
attained, for every semivalue: moving a match one rank away costs it d of that rank and can spare it no more than
that, so the first rank is the best place and the last one the worst. Over all orders the mean is Theorem F's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearworth.games.coefficients import RankWeights
from nearworth.games.windows import LossWindows


class Interval(NamedTuple):
    """A value and the two ends it certainly lies between; three numbers, or three arrays of one shape."""

    value: Any
    lower: Any
    upper: Any

    def plus(self, shift: Any) -> Interval:
        """The same interval elsewhere."""
        return Interval(self.value + shift, self.lower + shift, self.upper + shift)

    def around(self, value: Any) -> Interval:
        """The same ends around another value, which is moved between them where it is not."""
        return Interval(np.clip(value, self.lower, self.upper), self.lower, self.upper)

    def minus(self, other: Interval) -> Interval:
        """The difference of two numbers that know nothing of each other."""
        return Interval(self.value - other.value, self.lower - other.upper, self.upper - other.lower)

    def settled(self, where: Any) -> Interval:
        """No doubt about the value `where` that is so."""
        return Interval(self.value, np.where(where, self.value, self.lower), np.where(where, self.value, self.upper))

    def centred(self) -> Interval:
        """The same ends around their midpoint."""
        return self.around(self.lower + (self.upper - self.lower) / 2)


class Blocks:
    """What the points of a block are worth and cost, from counts alone; all arguments may be arrays."""

    def __init__(self, weights: RankWeights) -> None:
        self.windows = LossWindows(weights)
        self.worth = self.windows.worth
        self._worth_behind = np.append(np.cumsum(weights.worth[::-1])[::-1], 0.0)

    def lost(self, after: Any, last: Any, matches: Any) -> Interval:
        """What every nearer point loses to the block's matches."""
        mean = self.windows.total(after, last) * (matches / np.maximum(np.asarray(last) - after, 1))
        lower = self.windows.smallest(matches, after, last)
        return Interval(mean, lower, self.windows.largest(matches, after, last)).around(mean)

    def match(self, after: Any, last: Any, matches: Any) -> Interval:
        """Value of one of the block's matches, as if no block came after it."""
        second = np.minimum(np.asarray(after) + 1, last)
        others = np.maximum(np.asarray(matches) - 1, 0)
        lower = self.worth[last] + np.zeros(np.shape(others))
        upper = lower + self.windows.largest(last - second - others, second, last)
        return Interval(lower, lower, upper).around(self.mean_worth(after, last) - others * self.mean_loss(after, last))

    def other(self, after: Any, last: Any, matches: Any) -> Interval:
        """Value of one of the block's non-matches, as if no block came after it."""
        second = np.minimum(np.asarray(after) + 1, last)
        lower = -self.windows.largest(np.minimum(matches, last - second), second, last)
        return Interval(lower, lower, np.zeros_like(lower)).around(-matches * self.mean_loss(after, last))

    def mean_worth(self, after: Any, last: Any) -> Any:
        """Mean of c over the block."""
        return (self._worth_behind[after] - self._worth_behind[last]) / np.maximum(np.asarray(last) - after, 1)

    def mean_loss(self, after: Any, last: Any) -> Any:
        """What one point of the block loses to one other, on average over both their places."""
        others = np.maximum(np.asarray(last) - after - 1, 1)
        return np.maximum(self.mean_worth(after, last) - self.worth[last], 0.0) / others
