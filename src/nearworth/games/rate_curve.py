"""What the unranked points probably look like: the match rate as a function of the rank.

Near a validation point matches are frequent, far away they are as frequent as in the whole training set. Between the
two, the log-odds of a match change about linearly in the logarithm of the rank. So one curve per query,

    p(l) = 1 / (1 + exp(-(a + s log(l/k)))),      l > k,

is fixed by two things that are known: a by the match rate at the last half of the ranked points, s by the number of
matches among the unranked ones. A neighbourhood that is pure stays nearly pure for a while, as it should, and no rate
leaves [0, 1]. Expectations under this curve are estimates; certainty comes from the intervals, never from here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.games.intervals import FarRanks

CELLS = 32  # the curve is a step function on this many geometric cells
PRIOR = 0.1  # the local rate is an estimate: the far rate counts as a tenth of an observation
STEPS = 6
FLAT = 30.0  # log-odds beyond this are certainty


class Expected(NamedTuple):
    """Expectations under the curve, one per query: the loss to the far matches, and a far point's value."""

    lost: FloatVector
    match: FloatVector
    other: FloatVector


class RateCurve:
    """The far ranks after+1..N of one truncation, in cells that grow with the rank."""

    def __init__(self, ranks: FarRanks, after: int) -> None:
        edges = np.unique(np.rint(np.geomspace(after, ranks.n_players, CELLS + 1)).astype(np.intp))
        start, end = edges[:-1], edges[1:]
        self._sizes = (end - start).astype(np.float64)
        self._log_rank = np.log((start + end + 1) / (2.0 * after))
        self._lost = ranks.total_loss(start, end)
        self._worth = ranks.mean_worth(start, end)
        self._lost_inside = self._worth - ranks.worth[end]

    def expected(self, local_matches: FloatVector, n_local: int, far_matches: IntVector) -> Expected:
        """Expectations, given the matches among the `n_local` last ranked points and among all unranked ones."""
        n = self._sizes.sum()
        far = np.clip(far_matches / n, 0.5 / n, 1.0 - 0.5 / n)
        local = (local_matches + PRIOR * far) / (n_local + PRIOR)
        rates = self._rates(_log_odds(local), _log_odds(far))
        lost = rates * self._lost
        # What a point in each cell loses to matches behind it: in later cells, and in its own.
        behind = np.cumsum(lost[:, ::-1], axis=1)[:, ::-1] - lost + rates * self._lost_inside
        matches, others = rates * self._sizes, (1.0 - rates) * self._sizes
        of_match = (matches * (self._worth - behind)).sum(axis=1) / matches.sum(axis=1)
        return Expected(lost.sum(axis=1), of_match, -(others * behind).sum(axis=1) / others.sum(axis=1))

    def _rates(self, local: FloatVector, far: FloatVector) -> FloatMatrix:
        """Match rate of each cell (Q, cells): Newton's method for the slope, in log-odds, where it is nearly linear."""
        share = self._sizes / self._sizes.sum()
        slope = (far - local) / (share * self._log_rank).sum()
        for _ in range(STEPS):
            rates = self._rates_at(local, slope)
            mean = (rates * share).sum(axis=1)
            steepness = (rates * (1.0 - rates) * (share * self._log_rank)).sum(axis=1) / (mean * (1.0 - mean))
            slope = slope + np.clip((far - _log_odds(mean)) / steepness, -1.0, 1.0)
        return self._rates_at(local, slope)

    def _rates_at(self, local: FloatVector, slope: FloatVector) -> FloatMatrix:
        log_odds = np.clip(local[:, None] + slope[:, None] * self._log_rank, -FLAT, FLAT)
        return np.asarray(1.0 / (1.0 + np.exp(-log_odds)))


def _log_odds(rate: FloatVector) -> FloatVector:
    return np.asarray(np.clip(np.log(rate) - np.log1p(-rate), -FLAT, FLAT))
