"""The smallest and the largest total that some ranks can lose.

Every semivalue's losses d rise to one peak and fall from there (their ratios cross 1 once; before rank K+1 they
are 0). So the largest `count` losses within a range of ranks are those of consecutive ranks, a window, and their sum
telescopes to a difference of two worths c. Where the window lies is known for the whole sequence from one merge of
its rising and falling parts; inside a range it is the same window pushed to the range's edge. Each answer costs O(1),
for any range, whole arrays at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearworth._common.types import FloatVector
from nearworth.games.coefficients import RankWeights


class LossWindows:
    """Extreme sums of losses over ranks after+1..last; all arguments may be arrays."""

    def __init__(self, weights: RankWeights) -> None:
        # Index = rank; rank 0 is worth what rank 1 is, since nobody can lose to rank 1.
        self.worth: FloatVector = np.concatenate([weights.worth[:1], weights.worth])
        loss = weights.loss
        self.peak = int(loss.argmax()) + 1
        rising, falling = loss[: self.peak - 1][::-1], loss[self.peak :][::-1]
        at_least_as_large = len(falling) - np.searchsorted(falling, rising)
        # The window reaches a rank left of the peak once it has room for it, and for all that lose at least as much.
        self._joins = np.arange(2, len(rising) + 2) + at_least_as_large

    def falls_after(self, rank: int) -> bool:
        """Whether the losses of the ranks behind `rank` never rise."""
        return rank >= self.peak - 1

    def total(self, after: Any, last: Any) -> Any:
        """Sum of the losses of ranks after+1..last."""
        return self.worth[after] - self.worth[last]

    def largest(self, count: Any, after: Any, last: Any) -> Any:
        """Sum of the `count` largest losses among ranks after+1..last."""
        start = self._start(count, after, last)
        return self.worth[start] - self.worth[start + count]

    def smallest(self, count: Any, after: Any, last: Any) -> Any:
        """Sum of the `count` smallest losses among ranks after+1..last: all but a window."""
        rest = np.asarray(last) - after - count
        start = self._start(rest, after, last)
        return (self.worth[after] - self.worth[start]) + (self.worth[start + rest] - self.worth[last])

    def range_of_weighted_sum(self, total: Any, low: Any, high: Any, after: Any, last: Any) -> tuple[Any, Any]:
        """Least and greatest sum of d_l x_l, when the x_l of ranks after+1..last lie in [low, high] and sum to `total`.

        A linear programme: all x at one end, except for one rank that takes what is left.
        """
        n, spread = last - after, np.asarray(high) - low
        share = np.clip((total - n * low) / np.where(spread > 0, spread, 1.0), 0.0, n)
        whole = np.minimum(share.astype(np.intp), n - 1) if n else np.zeros(share.shape, dtype=np.intp)
        part, one = share - whole, min(n, 1)
        base = low * self.total(after, last)
        least, more = self.smallest(whole, after, last), self.smallest(whole + one, after, last)
        most, yet_more = self.largest(whole, after, last), self.largest(whole + one, after, last)
        return base + spread * (least + part * (more - least)), base + spread * (most + part * (yet_more - most))

    def _start(self, count: Any, after: Any, last: Any) -> Any:
        """The rank before the window of `count` ranks with the largest losses."""
        count = np.asarray(count)
        start = self.peak - 1 - np.searchsorted(self._joins, count, side="right")
        return np.where(count > 0, np.clip(start, after, last - count), after)
