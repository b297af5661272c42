"""Classification when only the k nearest points of a query are ranked.

See Theorem G in docs/mathematics.md, and Theorem 3 of the paper. The class histogram tells how many
of the others match. So everything about the near points is known except one number, what the far
matches take from them, and it lies in a known interval. The far points have one value for matches
and one for all others. What `tail` fills in (docs/truncation.md) does not change the interval: the
sharp one, for every semivalue. The value of "paper" may lie outside; the greatest distance from it
to an end bounds the error all the same.

Tied near points are averaged. Far points may be tied in unknown ways: their true value is then a
mean over orders, and a mean of numbers in an interval lies in it.

Of the ranks after+1..N, `matches` are matches, in unknown order. With worths c and losses d of the
ranks (`FarRanks`),

    a far match has the value      c_N  to  c_{after+1} - (the matches-1 smallest losses behind
                                   rank after+1)
    another far point              -(the `matches` largest losses behind rank after+1)  to  0
    a nearer point loses           the `matches` smallest  to  the `matches` largest losses behind
                                   rank after

All ends are attained: moving a match one rank away costs it d of that rank and can spare it no more
than that, so the first rank is the best place and the last one the worst. Over all orders the mean
is a tie's.

Every semivalue's losses d rise to one peak and fall from there (their ratios cross 1 once; before
rank K+1 they are 0). So the largest `count` losses behind a rank are those of consecutive ranks, a
window, and their sum telescopes to a difference of two worths c. Where the window lies is known for
the whole sequence from one merge of its rising and falling parts; behind a rank it is the same
window pushed to that rank. Each answer costs O(1), whole arrays at once.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache, partial
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolMatrix, FloatMatrix, FloatVector, IntVector
from nearworth.games.classification import ClassificationGame, linear_values
from nearworth.games.coefficients import RankWeights
from nearworth.games.ties import TieBlocks

Tail: TypeAlias = Literal["local", "minimax", "mean", "paper"]

# The rate curve is a step function on this many geometric cells.
CELLS = 32
# The local rate is an estimate: the far rate counts as a tenth of an observation.
PRIOR_OBSERVATIONS = 0.1
# Of Newton's method for the slope, and how far each may go.
NEWTON_STEPS = 6
MAX_STEP = 1.0
# Log-odds beyond this are certainty.
MAX_LOG_ODDS = 30.0


class TruncatedClassification:
    """One game seen through k ranked neighbours per query; k may change from call to call."""

    def __init__(self, game: ClassificationGame, tail: Tail = "local") -> None:
        self.game = game
        self.tail = tail
        self._ranks = FarRanks(game.weights)
        self._curve = cache(partial(RateCurve, self._ranks))

    def rows(
        self, matches: npt.NDArray[Any], first: BoolMatrix | None, n_matches: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.float64], FloatMatrix, FloatMatrix]:
        """Values of Q queries: of near points, of a far match and of another far point.

        Parameters
        ----------
        matches : array of shape (Q, k)
            Whether the label at each of the k nearest ranks is the query's.
        first : array of shape (Q, k) or None
            Where a block of tied ranks begins, None without ties. No block may reach beyond rank k.
        n_matches : array of shape (Q,)
            Number of matches among all players.

        Returns
        -------
        near : array of shape (3, Q, k)
            In rank order: values, and the lower and upper ends that the true ones certainly lie
            between.
        match, other : arrays of shape (3, Q)
            The same for a far match and for another far point.
        """
        u = np.asarray(matches, dtype=np.float64)
        k = u.shape[1]
        n_far_matches = np.asarray(n_matches, dtype=np.intp) - u.sum(axis=1).astype(np.intp)
        n_far = self.game.n_players - k
        assert ((n_far_matches >= 0) & (n_far_matches <= n_far)).all(), (
            "matches and n_matches count every player once"
        )
        ties = TieBlocks(np.ones(u.shape, dtype=bool) if first is None else first)
        to_match, to_other = self.game.added(np.asarray(n_matches, dtype=np.float64))
        to_match = np.broadcast_to(to_match, n_far_matches.shape)
        to_other = np.broadcast_to(to_other, n_far_matches.shape)

        # Not known: the near points' loss to far matches, and a far point's value without what the
        # soft utility adds.
        lower, upper = self._ranks.ends(k, n_far_matches)
        rates = ties.total(u) / ties.size
        value = self._fill_in(lower, upper, rates, n_far_matches, to_match, to_other)

        weights = RankWeights(self.game.weights.worth[:k], self.game.weights.loss[:k])
        added = np.where(u > 0, to_match[:, None], to_other[:, None])
        known = linear_values(u, weights, ties) + added
        near = known - value[0][:, None]
        # The larger the loss, the smaller the value.
        below = upper[0] - value[0]
        above = value[0] - lower[0]
        near_ends = np.stack([near, near - below[:, None], near + above[:, None]])
        _, match, other = np.stack([value, lower, upper], axis=1)
        return near_ends, match + to_match, other + to_other

    def worst_error(self, k: int) -> float:
        """The largest certified error over all label sequences, when k neighbours are ranked.

        So K* can be chosen before any label is seen; the intervals of the actual labels are
        narrower, often by far. Attained for "minimax" and "paper". The values of "local" and "mean"
        may come close to an end of their interval, so for them it is the interval's width, twice
        the error of "minimax".
        """
        ranks = self._ranks
        n = self.game.n_players
        if k >= n:
            return 0.0
        if self.tail == "paper":
            # The value of a lone match at rank k (or 1) is the farthest above the constant. That of
            # the only point there that is no match is the farthest below.
            rank, constant = max(k, 1), self._far_constant()
            lone_match = ranks.worth[rank] + self.game.added(1)[0]
            lone_other = self.game.added(n - 1)[1] - ranks.total_loss(rank, n)
            return float(max(lone_match - constant, constant - lone_other))
        # The interval of the loss is widest when half of the far points match (it is concave in
        # their number), that of a far point when one does.
        n_far_matches = (n - k) // 2
        loss_width = ranks.largest_losses(n_far_matches, k) - ranks.smallest_losses(
            n_far_matches, k
        )
        width = max(ranks.total_loss(k + 1, n), loss_width if k else 0.0)
        return float(width / 2 if self.tail == "minimax" else width)

    def _fill_in(
        self,
        lower: FloatMatrix,
        upper: FloatMatrix,
        rates: FloatMatrix,
        n_far_matches: IntVector,
        to_match: FloatVector,
        to_other: FloatVector,
    ) -> FloatMatrix:
        """The values between these ends that `tail` takes.

        Parameters
        ----------
        lower, upper : arrays of shape (3, Q)
            The loss to far matches, the value of a far match and of another far point, as
            `FarRanks.ends` gives them.
        rates : array of shape (Q, k)
            Match rates by rank.
        n_far_matches : array of shape (Q,)
        to_match, to_other : arrays of shape (Q,)
            What the soft utility adds.

        Returns
        -------
        array of shape (3, Q)
        """
        k = rates.shape[1]
        if self.tail == "minimax":
            return lower + (upper - lower) / 2
        if self.tail == "paper" and k < self.game.n_players:
            constant = self._far_constant()
            last_rates = rates[:, -1] if k else np.zeros(len(rates))
            difference = self._ranks.worth[k] + to_match - to_other
            lost = last_rates * difference + to_other - constant
            return np.stack([lost, constant - to_match, constant - to_other])
        values = self._ranks.means(k, n_far_matches)
        if self.tail == "local" and 0 < k < self.game.n_players:
            values = self._curve(k).expected(rates[:, k // 2 :], n_far_matches)
        return np.clip(values, lower, upper)

    def _far_constant(self) -> float:
        """What tail "paper" gives to every far point.

        It is (1/2 - 1/C)/N for the soft-label Shapley value.
        """
        to_match, to_other = self.game.added(0)
        # The soft utility adds something even without a match; leave-one-out with N > K does not,
        # but c_N = 0 there.
        is_soft = (to_match, to_other) != (0.0, 0.0)
        return float(to_other + (self.game.weights.worth[-1] / 2 if is_soft else 0.0))


def candidates_for_error(game: ClassificationGame, max_error: float, tail: Tail = "local") -> int:
    """The smallest number of ranked neighbors, 1 to N, that certifies `max_error`.

    It does so whatever the labels.
    """
    truncated = TruncatedClassification(game, tail)
    choices = range(1, game.n_players + 1)
    # With more neighbors the error is no larger.
    position = bisect_left(choices, True, key=lambda k: truncated.worst_error(k) <= max_error)
    return choices[position]


class FarRanks:
    """Values of points of unknown rank and losses to them, from counts alone.

    All arguments may be arrays. Ranks count from 1, and `worth[l]` belongs to rank l.
    """

    def __init__(self, weights: RankWeights) -> None:
        # Rank 0 has the worth of rank 1, because no point can lose to rank 1.
        self.worth: FloatVector = np.concatenate([weights.worth[:1], weights.worth])
        self.n_players = len(weights.worth)
        self._worth_behind = np.append(np.cumsum(weights.worth[::-1])[::-1], 0.0)
        self._peak = int(weights.loss.argmax()) + 1
        # From the peak to rank 1, and from the last rank to the peak.
        rising = weights.loss[: self._peak - 1][::-1]
        falling = weights.loss[self._peak :][::-1]
        n_as_large = len(falling) - np.searchsorted(falling, rising)
        # The window reaches a rank left of the peak once it has room for it, and for all ranks
        # right of the peak with a loss at least as large.
        self._joins = np.arange(2, len(rising) + 2) + n_as_large

    def ends(self, after: int, matches: Any) -> tuple[FloatMatrix, FloatMatrix]:
        """The ends of three intervals, both of shape (3, ...).

        These are what nearer points lose to the far matches, the value of a far match and that of
        another far point. `after` points are nearer, and `matches` far points are matches.
        """
        matches = np.asarray(matches)
        second = min(after + 1, self.n_players)
        n_behind = self.n_players - second
        last = self.worth[-1]
        zero = np.zeros(matches.shape)
        n_spared = n_behind - np.maximum(matches - 1, 0)
        to_others = -self.largest_losses(np.minimum(matches, n_behind), second)
        lower = (self.smallest_losses(matches, after), last + zero, to_others)
        highest_match = last + self.largest_losses(n_spared, second)
        upper = (self.largest_losses(matches, after), highest_match, zero)
        return np.stack(lower), np.stack(upper)

    def means(self, after: int, matches: IntVector) -> FloatMatrix:
        """The means of the same three numbers over all orders of the far points, shape (3, Q)."""
        n_far = self.n_players - after
        mean_worth = self.mean_worth(after, self.n_players)
        # Of one far point to one other.
        mean_loss = max(mean_worth - self.worth[-1], 0.0) / max(n_far - 1, 1)
        lost = self.total_loss(after, self.n_players) * (matches / max(n_far, 1))
        of_match = mean_worth - np.maximum(matches - 1, 0) * mean_loss
        return np.stack([lost, of_match, -matches * mean_loss])

    def mean_worth(self, after: Any, last: Any) -> Any:
        """Mean of c over the ranks after+1..last."""
        n_ranks = np.maximum(np.asarray(last) - after, 1)
        return (self._worth_behind[after] - self._worth_behind[last]) / n_ranks

    def total_loss(self, after: Any, last: Any) -> Any:
        """Sum of the losses of ranks after+1..last."""
        return self.worth[after] - self.worth[last]

    def largest_losses(self, count: Any, after: Any) -> Any:
        """Sum of the `count` largest losses behind rank `after`."""
        start = self._window(count, after)
        return self.worth[start] - self.worth[start + count]

    def smallest_losses(self, count: Any, after: Any) -> Any:
        """Sum of the `count` smallest losses behind rank `after`: all but a window."""
        size = self.n_players - after - np.asarray(count)
        start = self._window(size, after)
        stop = start + size
        return (self.worth[after] - self.worth[start]) + (self.worth[stop] - self.worth[-1])

    def _window(self, count: Any, after: Any) -> Any:
        """The rank before the window of `count` ranks with the largest losses."""
        count = np.asarray(count)
        start = self._peak - 1 - np.searchsorted(self._joins, count, side="right")
        return np.where(count > 0, np.clip(start, after, self.n_players - count), after)


class RateCurve:
    """The probable match rate of unranked points as a function of the rank.

    Near a validation point matches are frequent, far away as frequent as in the whole training set.
    Between the two, the log-odds of a match change about linearly in the logarithm of the rank. So
    one curve per query,

        p(l) = 1 / (1 + exp(-(a + s log(l/k)))),      l > k,

    is fixed by two things that are known: a by the match rate at the last half of the ranked
    points, s by the number of matches among the unranked ones. A pure neighbourhood stays nearly
    pure for a while, as it should, and no rate leaves [0, 1]. Expectations under this curve are
    estimates. Bounds come from the intervals, never from here.
    """

    def __init__(self, ranks: FarRanks, after: int) -> None:
        edges = np.unique(np.rint(np.geomspace(after, ranks.n_players, CELLS + 1)).astype(np.intp))
        start = edges[:-1]
        end = edges[1:]
        self._sizes = (end - start).astype(np.float64)
        self._log_rank = np.log((start + end + 1) / (2.0 * after))
        self._lost = ranks.total_loss(start, end)
        self._worth = ranks.mean_worth(start, end)
        self._lost_inside = self._worth - ranks.worth[end]

    def expected(self, local_rates: FloatMatrix, far_matches: IntVector) -> FloatMatrix:
        """What `FarRanks.means` gives, expected under the curve, shape (3, Q).

        Parameters
        ----------
        local_rates : array of shape (Q, m)
            Match rates at the last of the ranked points.
        far_matches : array of shape (Q,)
            Number of matches among the unranked points.
        """
        n = self._sizes.sum()
        far = np.clip(far_matches / n, 0.5 / n, 1.0 - 0.5 / n)
        n_local = local_rates.shape[1] + PRIOR_OBSERVATIONS
        local = (local_rates.sum(axis=1) + PRIOR_OBSERVATIONS * far) / n_local
        rates = self._rates(_log_odds(local), _log_odds(far))
        lost = rates * self._lost
        # What a point in each cell loses to matches behind it: in later cells, and in its own.
        behind = np.cumsum(lost[:, ::-1], axis=1)[:, ::-1] - lost + rates * self._lost_inside
        n_matches = rates * self._sizes
        n_others = (1.0 - rates) * self._sizes
        of_match = (n_matches * (self._worth - behind)).sum(axis=1) / n_matches.sum(axis=1)
        of_other = -(n_others * behind).sum(axis=1) / n_others.sum(axis=1)
        return np.stack([lost.sum(axis=1), of_match, of_other])

    def _rates(self, local: FloatVector, far: FloatVector) -> FloatMatrix:
        """Match rate of each cell (Q, cells), from log-odds of the local and the far rate.

        Newton's method finds the slope, in log-odds, where the mean rate is nearly linear in it.
        """
        share = self._sizes / self._sizes.sum()
        slope = (far - local) / (share * self._log_rank).sum()
        for _ in range(NEWTON_STEPS):
            rates = self._rates_at(local, slope)
            mean = (rates * share).sum(axis=1)
            by_slope = (rates * (1.0 - rates) * (share * self._log_rank)).sum(axis=1)
            steepness = by_slope / (mean * (1.0 - mean))
            step = (far - _log_odds(mean)) / steepness
            slope = slope + np.clip(step, -MAX_STEP, MAX_STEP)
        return self._rates_at(local, slope)

    def _rates_at(self, local: FloatVector, slope: FloatVector) -> FloatMatrix:
        log_odds = local[:, None] + slope[:, None] * self._log_rank
        log_odds = np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS)
        return np.asarray(1.0 / (1.0 + np.exp(-log_odds)))


def _log_odds(rate: FloatVector) -> FloatVector:
    log_odds = np.log(rate) - np.log1p(-rate)
    return np.asarray(np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS))
