"""Classification when only the k nearest points of a query are ranked (Theorem G in
docs/mathematics.md, Theorem 3).

The class histogram tells how many of the others match. So everything about the near points is known
except one number, what the far matches take from them, and it lies in a known interval; the far
points have one value for matches and one for the rest. What `tail` fills in (docs/truncation.md)
does not change the interval: the sharp one, for every semivalue. The value of "paper" may lie
outside; the greatest distance from it to an end bounds the error all the same.

Tied near points are averaged. Far points may be tied in unknown ways: their true value is then a
mean over orders, and a mean of numbers in an interval lies in it.

Of the ranks after+1..N, `matches` are matches, in unknown order. With worths c and losses d of the
ranks (`FarRanks`),

    a far match is worth       c_N  to  c_{after+1} - (the matches-1 smallest losses behind rank
    after+1) another far point          -(the `matches` largest losses behind rank after+1)  to  0 a
    nearer point loses       the `matches` smallest  to  the `matches` largest losses behind rank
    after

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

CELLS = 32  # the rate curve is a step function on this many geometric cells
PRIOR = 0.1  # the local rate is an estimate: the far rate counts as a tenth of an observation
STEPS = 6
FLAT = 30.0  # log-odds beyond this are certainty


class TruncatedClassification:
    """One game seen through k ranked neighbours per query; k may change from call to call."""

    def __init__(self, game: ClassificationGame, tail: Tail = "local") -> None:
        self.game, self.tail = game, tail
        self._ranks = FarRanks(game.weights)
        self._curve = cache(partial(RateCurve, self._ranks))

    def rows(
        self, matches: npt.NDArray[Any], first: BoolMatrix | None, n_matches: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.float64], FloatMatrix, FloatMatrix]:
        """Values of Q queries: of the near points in rank order (3, Q, k), of a far match and of
        another far point.

        The last two are (3, Q): a value, and the lower and upper end that the true one certainly
        lies between. There are `n_matches` matches (Q,) among all players. `matches` (Q, k) says
        whether the label at each of the k nearest ranks is the query's, and `first` (Q, k) where a
        block of tied ranks begins, None without ties. No block may reach beyond rank k.
        """
        u = np.asarray(matches, dtype=np.float64)
        k = u.shape[1]
        far = np.asarray(n_matches, dtype=np.intp) - u.sum(axis=1).astype(np.intp)
        assert ((far >= 0) & (far <= self.game.n_players - k)).all(), (
            "matches and n_matches count every player once"
        )
        ties = TieBlocks(np.ones(u.shape, dtype=bool) if first is None else first)
        added = self.game.added(np.asarray(n_matches, dtype=np.float64))
        of_match, of_other = (np.broadcast_to(x, far.shape) for x in added)
        # Not known: the near points' loss to far matches, and a far point's value without what the
        # soft utility adds.
        lower, upper = self._ranks.ends(k, far)
        value = self._filled_in(lower, upper, ties.total(u) / ties.size, far, of_match, of_other)
        weights = RankWeights(self.game.weights.worth[:k], self.game.weights.loss[:k])
        known = linear_values(u, weights, ties) + np.where(
            u > 0, of_match[:, None], of_other[:, None]
        )
        near = known - value[0][:, None]
        below, above = upper[0] - value[0], value[0] - lower[0]
        _, match, other = np.stack([value, lower, upper], axis=1)
        return (
            np.stack([near, near - below[:, None], near + above[:, None]]),
            match + of_match,
            other + of_other,
        )

    def worst_error(self, k: int) -> float:
        """The largest certified error over all label sequences, when k neighbours are ranked.

        So K* can be chosen before any label is seen; the intervals of the actual labels are
        narrower, often by far. Attained for "minimax" and "paper". The values of "local" and "mean"
        may come close to an end of their interval, so for them it is the interval's width, twice
        the error of "minimax".
        """
        ranks, n = self._ranks, self.game.n_players
        if k >= n:
            return 0.0
        if self.tail == "paper":
            # A lone match at rank k (or 1) lies the farthest above the constant, a lone other there
            # below it.
            rank, constant = max(k, 1), self._far_constant()
            lone_match = ranks.worth[rank] + self.game.added(1)[0]
            lone_other = self.game.added(n - 1)[1] - ranks.total_loss(rank, n)
            return float(max(lone_match - constant, constant - lone_other))
        # The loss is widest when half of the far points match (it is concave in their number), a
        # far point for one.
        far = (n - k) // 2
        lost = ranks.largest_losses(far, k) - ranks.smallest_losses(far, k)
        width = max(ranks.total_loss(k + 1, n), lost if k else 0.0)
        return float(width / 2 if self.tail == "minimax" else width)

    def _filled_in(
        self,
        lower: FloatMatrix,
        upper: FloatMatrix,
        rates: FloatMatrix,
        far: IntVector,
        of_match: Any,
        of_other: Any,
    ) -> FloatMatrix:
        """The values between these ends that `tail` takes; `rates` are match rates by rank."""
        k = rates.shape[1]
        if self.tail == "minimax":
            return lower + (upper - lower) / 2
        if self.tail == "paper" and k < self.game.n_players:
            constant = self._far_constant()
            last = rates[:, -1] if k else np.zeros(len(rates))
            lost = last * (self._ranks.worth[k] + of_match - of_other) + of_other - constant
            return np.stack([lost, constant - of_match, constant - of_other])
        values = self._ranks.means(k, far)
        if self.tail == "local" and 0 < k < self.game.n_players:
            values = self._curve(k).expected(rates[:, k // 2 :], far)
        return np.clip(values, lower, upper)

    def _far_constant(self) -> float:
        """What tail "paper" gives to every far point: (1/2 - 1/C)/N for the soft-label Shapley
        value.
        """
        of_match, of_other = self.game.added(0)
        # The soft utility adds something even without a match; leave-one-out with N > K does not,
        # but c_N = 0 there.
        soft = (of_match, of_other) != (0.0, 0.0)
        return float(of_other + (self.game.weights.worth[-1] / 2 if soft else 0.0))


def candidates_for_error(game: ClassificationGame, max_error: float, tail: Tail = "local") -> int:
    """The smallest number of ranked neighbours, 1 to N, that certifies `max_error` whatever the
    labels.
    """
    truncated = TruncatedClassification(game, tail)
    choices = range(1, game.n_players + 1)
    return choices[bisect_left(choices, True, key=lambda k: truncated.worst_error(k) <= max_error)]


class FarRanks:
    """What points of unknown rank are worth and cost, from counts alone; all arguments may be
    arrays.
    """

    def __init__(self, weights: RankWeights) -> None:
        # Index = rank; rank 0 is worth what rank 1 is, because no point can lose to rank 1.
        self.worth: FloatVector = np.concatenate([weights.worth[:1], weights.worth])
        self.n_players = len(weights.worth)
        self._worth_behind = np.append(np.cumsum(weights.worth[::-1])[::-1], 0.0)
        self._peak = int(weights.loss.argmax()) + 1
        rising, falling = weights.loss[: self._peak - 1][::-1], weights.loss[self._peak :][::-1]
        at_least_as_large = len(falling) - np.searchsorted(falling, rising)
        # The window reaches a rank left of the peak once it has room for it, and for all that lose
        # at least as much.
        self._joins = np.arange(2, len(rising) + 2) + at_least_as_large

    def ends(self, after: int, matches: Any) -> tuple[FloatMatrix, FloatMatrix]:
        """The least and the most that nearer points lose to the far matches, a far match and
        another one are worth.
        """
        matches, second = np.asarray(matches), min(after + 1, self.n_players)
        behind, last, nothing = self.n_players - second, self.worth[-1], np.zeros(matches.shape)
        spared = behind - np.maximum(matches - 1, 0)
        to_others = -self.largest_losses(np.minimum(matches, behind), second)
        lower = self.smallest_losses(matches, after), last + nothing, to_others
        upper = (
            self.largest_losses(matches, after),
            last + self.largest_losses(spared, second),
            nothing,
        )
        return np.stack(lower), np.stack(upper)

    def means(self, after: int, matches: IntVector) -> FloatMatrix:
        """The means of the same three over all orders of the far points."""
        n_far, mean_worth = self.n_players - after, self.mean_worth(after, self.n_players)
        mean_loss = max(mean_worth - self.worth[-1], 0.0) / max(
            n_far - 1, 1
        )  # of one far point to one other
        lost = self.total_loss(after, self.n_players) * (matches / max(n_far, 1))
        return np.stack(
            [lost, mean_worth - np.maximum(matches - 1, 0) * mean_loss, -matches * mean_loss]
        )

    def mean_worth(self, after: Any, last: Any) -> Any:
        """Mean of c over the ranks after+1..last."""
        return (self._worth_behind[after] - self._worth_behind[last]) / np.maximum(
            np.asarray(last) - after, 1
        )

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

    def _window(self, count: Any, after: Any) -> Any:
        """The rank before the window of `count` ranks with the largest losses."""
        count = np.asarray(count)
        start = self._peak - 1 - np.searchsorted(self._joins, count, side="right")
        return np.where(count > 0, np.clip(start, after, self.n_players - count), after)


class RateCurve:
    """What the unranked points probably look like: the match rate as a function of the rank.

    Near a validation point matches are frequent, far away as frequent as in the whole training set.
    Between the two, the log-odds of a match change about linearly in the logarithm of the rank. So
    one curve per query,

        p(l) = 1 / (1 + exp(-(a + s log(l/k)))),      l > k,

    is fixed by two things that are known: a by the match rate at the last half of the ranked
    points, s by the number of matches among the unranked ones. A pure neighbourhood stays nearly
    pure for a while, as it should, and no rate leaves [0, 1]. Expectations under this curve are
    estimates; certainty comes from the intervals, never from here.
    """

    def __init__(self, ranks: FarRanks, after: int) -> None:
        edges = np.unique(np.rint(np.geomspace(after, ranks.n_players, CELLS + 1)).astype(np.intp))
        start, end = edges[:-1], edges[1:]
        self._sizes = (end - start).astype(np.float64)
        self._log_rank = np.log((start + end + 1) / (2.0 * after))
        self._lost = ranks.total_loss(start, end)
        self._worth = ranks.mean_worth(start, end)
        self._lost_inside = self._worth - ranks.worth[end]

    def expected(self, local_rates: FloatMatrix, far_matches: IntVector) -> FloatMatrix:
        """Expected loss to the far matches, value of a far match and of another, by match rates at
        the last ranks.
        """
        n = self._sizes.sum()
        far = np.clip(far_matches / n, 0.5 / n, 1.0 - 0.5 / n)
        local = (local_rates.sum(axis=1) + PRIOR * far) / (local_rates.shape[1] + PRIOR)
        rates = self._rates(_log_odds(local), _log_odds(far))
        lost = rates * self._lost
        # What a point in each cell loses to matches behind it: in later cells, and in its own.
        behind = np.cumsum(lost[:, ::-1], axis=1)[:, ::-1] - lost + rates * self._lost_inside
        matches, others = rates * self._sizes, (1.0 - rates) * self._sizes
        of_match = (matches * (self._worth - behind)).sum(axis=1) / matches.sum(axis=1)
        return np.stack(
            [lost.sum(axis=1), of_match, -(others * behind).sum(axis=1) / others.sum(axis=1)]
        )

    def _rates(self, local: FloatVector, far: FloatVector) -> FloatMatrix:
        """Match rate of each cell (Q, cells): Newton's method for the slope, in log-odds, where it
        is nearly linear.
        """
        share = self._sizes / self._sizes.sum()
        slope = (far - local) / (share * self._log_rank).sum()
        for _ in range(STEPS):
            rates = self._rates_at(local, slope)
            mean = (rates * share).sum(axis=1)
            steepness = (rates * (1.0 - rates) * (share * self._log_rank)).sum(axis=1) / (
                mean * (1.0 - mean)
            )
            slope = slope + np.clip((far - _log_odds(mean)) / steepness, -1.0, 1.0)
        return self._rates_at(local, slope)

    def _rates_at(self, local: FloatVector, slope: FloatVector) -> FloatMatrix:
        log_odds = np.clip(local[:, None] + slope[:, None] * self._log_rank, -FLAT, FLAT)
        return np.asarray(1.0 / (1.0 + np.exp(-log_odds)))


def _log_odds(rate: FloatVector) -> FloatVector:
    return np.asarray(np.clip(np.log(rate) - np.log1p(-rate), -FLAT, FLAT))
