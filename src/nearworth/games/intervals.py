"""Far ranks: their order is unknown, but not how many matches they hold. Mean values and sharp intervals.

Of the ranks after+1..N, `matches` are matches, in any order. With worths c and losses d of the ranks,

    a far match is worth       c_N  to  c_{after+1} - (the matches-1 smallest losses behind rank after+1)
    another far point          -(the `matches` largest losses behind rank after+1)  to  0
    a nearer point loses       the `matches` smallest  to  the `matches` largest losses behind rank after

All ends are attained, for every semivalue: moving a match one rank away costs it d of that rank and can spare it no
more than that, so the first rank is the best place and the last one the worst. Over all orders the mean is a tie's.

Every semivalue's losses d rise to one peak and fall from there (their ratios cross 1 once; before rank K+1 they are 0).
So the largest `count` losses behind a rank are those of consecutive ranks, a window, and their sum telescopes to a
difference of two worths c. Where the window lies is known for the whole sequence from one merge of its rising and
falling parts; behind a rank it is the same window pushed to that rank. Each answer costs O(1), whole arrays at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearworth._common.types import FloatVector
from nearworth.games.coefficients import RankWeights


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


class FarRanks:
    """What points of unknown rank are worth and cost, from counts alone; all arguments may be arrays."""

    def __init__(self, weights: RankWeights) -> None:
        # Index = rank; rank 0 is worth what rank 1 is, because no point can lose to rank 1.
        self.worth: FloatVector = np.concatenate([weights.worth[:1], weights.worth])
        self.n_players = len(weights.worth)
        self._worth_behind = np.append(np.cumsum(weights.worth[::-1])[::-1], 0.0)
        loss = weights.loss
        self._peak = int(loss.argmax()) + 1
        rising, falling = loss[: self._peak - 1][::-1], loss[self._peak :][::-1]
        at_least_as_large = len(falling) - np.searchsorted(falling, rising)
        # The window reaches a rank left of the peak once it has room for it, and for all that lose at least as much.
        self._joins = np.arange(2, len(rising) + 2) + at_least_as_large

    def lost(self, after: int, matches: Any) -> Interval:
        """What every nearer point loses to the far matches."""
        mean = self.total_loss(after, self.n_players) * (matches / max(self.n_players - after, 1))
        lower = self.smallest_losses(matches, after)
        return Interval(mean, lower, self.largest_losses(matches, after)).around(mean)

    def match(self, after: int, matches: Any) -> Interval:
        """Value of a far match."""
        second = min(after + 1, self.n_players)
        others = np.maximum(np.asarray(matches) - 1, 0)
        lower = self.worth[-1] + np.zeros(np.shape(others))
        upper = lower + self.largest_losses(self.n_players - second - others, second)
        mean = self.mean_worth(after, self.n_players) - others * self._mean_loss(after)
        return Interval(lower, lower, upper).around(mean)

    def other(self, after: int, matches: Any) -> Interval:
        """Value of a far point that does not match."""
        second = min(after + 1, self.n_players)
        lower = -self.largest_losses(np.minimum(matches, self.n_players - second), second)
        return Interval(lower, lower, np.zeros_like(lower)).around(-matches * self._mean_loss(after))

    def mean_worth(self, after: Any, last: Any) -> Any:
        """Mean of c over the ranks after+1..last."""
        return (self._worth_behind[after] - self._worth_behind[last]) / np.maximum(np.asarray(last) - after, 1)

    def total_loss(self, after: Any, last: Any) -> Any:
        """Sum of the losses of ranks after+1..last."""
        return self.worth[after] - self.worth[last]

    def largest_losses(self, count: Any, after: Any) -> Any:
        """Sum of the `count` largest losses behind rank `after`."""
        start = self._window(count, after)
        return self.worth[start] - self.worth[start + count]

    def smallest_losses(self, count: Any, after: Any) -> Any:
        """Sum of the `count` smallest losses behind rank `after`: all but a window."""
        rest = self.n_players - after - np.asarray(count)
        start = self._window(rest, after)
        return (self.worth[after] - self.worth[start]) + (self.worth[start + rest] - self.worth[-1])

    def _mean_loss(self, after: int) -> Any:
        """What one far point loses to one other, on average over both their ranks."""
        others = max(self.n_players - after - 1, 1)
        return max(self.mean_worth(after, self.n_players) - self.worth[-1], 0.0) / others

    def _window(self, count: Any, after: Any) -> Any:
        """The rank before the window of `count` ranks with the largest losses."""
        count = np.asarray(count)
        start = self._peak - 1 - np.searchsorted(self._joins, count, side="right")
        return np.where(count > 0, np.clip(start, after, self.n_players - count), after)
