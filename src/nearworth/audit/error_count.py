"""How many labels are wrong, and lists with a limited share of false alarms: by a model, or by a
reviewer's answers.

A review: rows in the order of the audit, worst first, are cut into strata; within a stratum every
row has the same chance to be drawn. A stratum of N rows with x of n judged wrong has about N x / n
wrong ones: the sum over strata is unbiased whatever the order is worth; a good order makes it
precise. Limits come from tests: a number of wrong labels is ruled out if the answers were
improbable with it, for the rates by stratum that make the answers likeliest among those with this
number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, isotonic_regression
from scipy.special import expit, logit, logsumexp, ndtr, softmax

from nearworth._common.types import BoolVector, FloatMatrix, FloatVector, IntVector

LEVEL = 0.95
CERTAIN = 1e-9  # least distance of a probability from 0 and 1, before its logit
EXTRA_FALSE_ALARMS = 0.25  # in every list of labels; one in every list of targets
CAUTIOUS_ODDS = 2.0
MISCOUNTED = (
    0.1  # relative standard error of the number of wrong labels among those with one given label
)
MISFIT = (
    0.25  # relative standard error of the number of errors from what no model here has, measured
)
CLOSE = 1.6  # an estimate is given if the upper end is at most so many times as high
COMMONEST = "the commonest label around a row is right"
MOST_STRATA, ROWS_PER_STRATUM = 14, 5
# Where rows to judge go, chosen on the sets of benchmarks/review.py: where the audit is in doubt,
# among the worst, and to all, equally many per doubling of the rank beyond RANKS_ALIKE of the rows.
# The second share grows with the number of rows to judge up to FULL: few answers are for the count.
SHARES, FULL, RANKS_ALIKE = (0.5, 0.33, 0.17), 100, 0.01
# the worst: times as many as the audit expects to be wrong, which are fewer than people get wrong
LISTED = 2.0
LEAST_DOUBT = 1e-4
DRAWS = 1000
TAIL = 0.015  # of each limit; 0.025 in name, but the rates are fitted to the same answers
USUAL_FDR = 0.1  # false positives among the rows of a list, for which further rows are judged
LIST_RISK, LEAST_JUDGED = (
    0.1,
    10,
)  # chance that a list breaks its promise; rows judged in the shortest that is tried
DEVIATION = 0.8  # of a stratum, in logits, from what the doubts of the audit say


@dataclass(frozen=True)
class ErrorCount:
    """How many labels are wrong: at least `lower`, and at most `upper` if `assumption` holds.
    `print` it.

    `estimate` is None where data alone cannot tell wrong labels from classes that overlap; a review
    of some rows can. `basis` says what the numbers rest on: a model, or answers of a person.
    `level` is the coverage meant.
    """

    estimate: float | None
    lower: float
    upper: float
    level: float = LEVEL
    basis: Literal["model", "review"] = "model"
    assumption: str = "right targets scatter like those of their neighbours"

    def __str__(self) -> str:
        low, high = math.floor(self.lower), math.ceil(self.upper)  # whole numbers, on the safe side
        if self.basis == "review":
            limits = f"{low:,} to {high:,} ({self.level:.0%} interval, by review)"
            return f"about {self.estimate:,.0f}, {limits}"
        ends = f"at least {low:,}; at most {high:,} if {self.assumption}"
        return ends if self.estimate is None else f"about {self.estimate:,.0f} ({ends})"


def count_errors(
    right: FloatMatrix, weights: Any, most: float, fewest: Any = None, none: float = 0.0
) -> ErrorCount:
    """The number of wrong labels, given how likely each is right under each model, and weights of
    the models.

    The lower end joins three uncertainties: which model holds, which labels are wrong if it does (a
    sum of independent events), and that models are only models. It is that of a mixture of normal
    distributions, one per model. The upper end is `most`, which rests on no model of how labels get
    wrong. Between the two, only where the expected number is near `most` do the data tell it. At
    least `fewest` are wrong: contradictory copies. P(no errors) is `none`.
    """
    n = right.shape[1]
    means = n - right.sum(axis=1)
    spreads = np.sqrt((right * (1.0 - right)).sum(axis=1) + (MISFIT * means) ** 2 + 1.0)
    means, spreads, weights = (
        np.append(means, 0.0),
        np.append(spreads, 1.0),
        np.append((1 - none) * weights, none),
    )
    ends = float((means - 9 * spreads).min()), float((means + 9 * spreads).max())
    low = brentq(lambda count: weights @ ndtr((count - means) / spreads) - (1 - LEVEL) / 2, *ends)
    estimate = float(np.clip(weights @ means, 0.0, n))
    lower = min(max(float(low), 0.0), estimate)
    upper = min(max(most, lower + 1.0), float(n))
    known = float(fewest or 0)
    told = max(estimate, known) if most <= CLOSE * estimate else None
    return ErrorCount(told, max(lower, known), max(upper, told or 0.0, known), assumption=COMMONEST)


def cautious(right: FloatVector, given: npt.NDArray[Any]) -> FloatVector:
    """With higher odds of every label to be right, by as much as the model errs on data that break
    its assumptions.

    Where nearly all rows of a given label seem wrong, moreover, their number may be too high but
    not too low, and the expected number accounts for that. Else every row of a rare class would be
    wrong as soon as there is noise.
    """
    careful = np.minimum(
        CAUTIOUS_ODDS * right / (CAUTIOUS_ODDS * right + (1.0 - np.minimum(right, 1.0))), 1.0
    )
    codes = np.unique(given, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        wrong = float((1.0 - careful[rows]).sum())
        if wrong < CERTAIN:
            continue
        # The mean number of right labels if that of wrong ones is normal with a standard error, and
        # neither below zero.
        spread = math.sqrt(wrong + (MISCOUNTED * wrong) ** 2)
        low, high = (
            (wrong - len(rows)) / spread,
            wrong / spread,
        )  # no right label and all of them, in standard errors
        densities = (math.exp(-(low**2) / 2) - math.exp(-(high**2) / 2)) / math.sqrt(2 * math.pi)
        total = len(rows) - wrong + spread * densities / float(ndtr(high) - ndtr(low))
        if total > careful[rows].sum():
            careful[rows] = with_sum(logit(np.maximum(careful[rows], CERTAIN)), total)
    return np.asarray(careful)


def with_sum(scores: FloatVector, total: float) -> FloatVector:
    """Probabilities with these logits, all shifted by as much as makes them add up to `total`."""

    def gap(shift: float) -> float:
        return float(expit(scores + shift).sum()) - total

    furthest = -2.0 * math.log(CERTAIN)
    beyond = [end for end in (-furthest, furthest) if end * gap(end) <= 0.0]
    return np.asarray(expit(scores + (beyond[0] if beyond else brentq(gap, -furthest, furthest))))


def longest_list(right: FloatVector, max_fdr: float, extra: float = EXTRA_FALSE_ALARMS) -> int:
    """How many rows have an expected share of right labels of at most `max_fdr`; `right` has the
    worst first.

    `extra` right labels are added to every list: expectations about very few rows say little, so a
    short list is never within a small share.
    """
    if max_fdr >= 1.0:
        return len(right)
    shares = (np.cumsum(right) + extra) / np.arange(1, len(right) + 1)
    within = np.flatnonzero(shares <= max_fdr)
    return int(within[-1]) + 1 if len(within) else 0


class Precision(NamedTuple):
    """The share of wrong labels in a list of rows, with limits that hold 95 times in a hundred
    reviews.

    `estimate` is NaN if no row like those of the list was judged.
    """

    estimate: float
    lower: float
    upper: float


class Stratified(NamedTuple):
    """By stratum: rows, rows judged, and judged wrong."""

    rows: IntVector
    judged: IntVector
    wrong: IntVector

    @property
    def estimate(self) -> float:
        """The number of wrong rows; strata of which none was judged have the rate of the others."""
        rates = np.full(len(self.rows), self.wrong.sum() / max(1, self.judged.sum()))
        np.divide(self.wrong, self.judged, out=rates, where=self.judged > 0)
        return float(self.rows @ rates)

    def likeliest(self, total: int) -> IntVector:
        """Numbers of wrong rows by stratum that make the answers likeliest among those with a given
        total.
        """
        scale = self.judged.sum() / self.rows.sum()

        def rates(
            z: float,
        ) -> FloatVector:  # x / p - (n - x) / (1 - p) + pull = 0, the derivative with a multiplier
            pull = np.sinh(z) * scale * self.rows
            gap = self.judged - pull
            root = np.sqrt(np.maximum(gap * gap + 4.0 * pull * self.wrong, 0.0))
            with np.errstate(divide="ignore", invalid="ignore"):
                found = np.where(
                    gap > 0, 2.0 * self.wrong / (gap + root), (root - gap) / (2.0 * pull)
                )
            return np.minimum(np.where(found > 0.0, found, 0.0), 1.0)

        def excess(z: float) -> float:
            return float(self.rows @ rates(z)) - total

        beyond = [end for end in (-25.0, 25.0) if end * excess(end) <= 0]
        z = beyond[0] if beyond else float(brentq(excess, -25.0, 25.0, xtol=1e-6))
        numbers = np.clip(self.rows * rates(z), self.wrong, self.rows - self.judged + self.wrong)
        whole = np.floor(numbers)
        missing = min(max(0, round(total - float(whole.sum()))), len(whole))
        raised = np.argsort(whole - numbers, kind="stable")[:missing]
        whole[raised] = np.minimum(
            whole[raised] + 1, (self.rows - self.judged + self.wrong)[raised]
        )
        return np.asarray(whole, dtype=np.int64)

    def chance(self, total: int, *, above: bool) -> float:
        """How often estimates would be as high as the one seen (or as low) if so many were
        wrong.
        """
        some = self.judged > 0
        rows, judged, wrong = (part[some, None] for part in self)
        true = self.likeliest(total)[some, None]
        seen = np.random.default_rng(0).hypergeometric(
            true, rows - true, judged, (len(rows), DRAWS)
        )
        gaps = (rows / judged * (seen - wrong)).sum(axis=0)
        return float(np.mean(gaps >= -1e-6 if above else gaps <= 1e-6))

    def limits(self, tail: float = TAIL) -> tuple[int, int]:
        """The least and the largest number of wrong rows that are not ruled out."""
        least, middle = int(self.wrong.sum()), round(self.estimate)
        most = least + int((self.rows - self.judged).sum())
        return (
            _last(middle, least, lambda total: self.chance(total, above=True) > tail),
            _last(middle, most, lambda total: self.chance(total, above=False) > tail),
        )


def _last(start: int, end: int, holds: Callable[[int], bool]) -> int:
    """The last number from start to end for which something holds: by bisection, in long ranges to
    a thousandth.
    """
    near = max(1, abs(end - start) // 1000)
    while abs(end - start) > near:
        middle = (start + end) // 2
        start, end = (middle, end) if holds(middle) else (start, middle)
    return end if near > 1 or holds(end) else start


@dataclass(frozen=True, eq=False)
class Review:
    """Rows in the order of the audit, their strata, which were drawn and judged, and which were
    judged wrong.
    """

    order: IntVector
    strata: IntVector
    doubt: FloatVector  # of the audit, by row
    judged: BoolVector
    wrong: BoolVector

    @classmethod
    def begin(
        cls, order: IntVector, quality: FloatVector, agreement: FloatVector, n_asked: int
    ) -> Review:
        """Strata that have about equally many of `n_asked` rows to judge coming to them."""
        n_rows, n_strata = len(order), max(1, min(MOST_STRATA, n_asked // ROWS_PER_STRATUM))
        doubts = [
            np.sort(1.0 - kind)[::-1].clip(LEAST_DOUBT, 1.0 - LEAST_DOUBT)
            for kind in (quality, agreement)
        ]
        doubt = expit((logit(doubts[0]) + logit(doubts[1])) / 2)
        ranks, listed = (
            np.arange(n_rows),
            max(n_asked / 2, min(LISTED * float((1 - quality).sum()), n_rows / 4)),
        )
        kinds = np.sqrt(doubt * (1 - doubt)), ranks < listed, 1 / (ranks + RANKS_ALIKE * n_rows)
        shares = np.array(SHARES) * (1, min(1.0, n_asked / FULL) ** 2, 1)
        need = np.cumsum(
            sum(share * kind / kind.sum() for share, kind in zip(shares, kinds, strict=True))
        )
        edges = np.searchsorted(need, need[-1] * np.arange(1, n_strata) / n_strata)
        least = -(-n_asked // n_strata) * np.arange(
            1, n_strata
        )  # no stratum has fewer rows than are judged in it
        edges = np.maximum.accumulate(np.maximum(edges - least, 0)) + least
        edges = np.maximum(np.minimum(edges, n_rows - least[::-1]), 0)
        places, nothing = np.argsort(order), np.zeros(n_rows, dtype=bool)
        strata = np.searchsorted(edges, places, side="right")
        return cls(
            order, np.unique(strata, return_inverse=True)[1], doubt[places], nothing, nothing
        )  # none is empty

    def finer(self, n: int) -> Review:
        """With strata in which many rows are judged, or will be with `n` further ones, cut in half.

        Within a stratum all rows had the same chance to be drawn, so they have it within both
        halves too.
        """
        review, more = self, self.share_out(n)
        while (
            len(more) < MOST_STRATA and (review.numbers.judged + more).max() >= 2 * ROWS_PER_STRATUM
        ):
            cut = int(np.argmax(review.numbers.judged + more))
            rows = review.order[review.strata[review.order] == cut]
            strata = review.strata + (review.strata > cut)
            strata[rows[len(rows) // 2 :]] = cut + 1
            review = replace(review, strata=strata)
            more = review.share_out(n)
        return review

    def draw(self, n: int, rng: np.random.Generator) -> IntVector:
        """Rows not judged yet, in random order; after answers, most from strata where they help
        most.

        Of each stratum those with the lowest lots, which belong to rows: should another machine
        round a row into another stratum, the others are drawn all the same.
        """
        lots, places = rng.random((2, len(self.order)))
        rows = np.lexsort((lots, self.strata))
        rows = rows[~self.judged[rows]]
        left = np.bincount(self.strata[rows])
        first = np.repeat(np.cumsum(left) - left, left)
        drawn = rows[np.arange(len(rows)) - first < self.share_out(n)[self.strata[rows]]]
        return np.asarray(drawn[np.argsort(places[drawn])], dtype=np.int64)

    def share_out(self, n: int) -> IntVector:
        """How many of `n` further rows to draw from each stratum.

        Half of the help is for the count: strata whose numbers are least certain. Half is for
        lists: the strata that probably belong to one that promises as much as most do.
        """
        numbers = self.numbers
        left = np.bincount(self.strata[~self.judged], minlength=len(numbers.rows))
        weight = np.ones(len(left))
        if self.judged.any():
            rates = self.likely_rates
            kinds = numbers.rows**2 * np.stack(
                [(rates * (1 - rates)).mean(axis=0), self.likely_listed(USUAL_FDR)]
            )
            weight = (
                kinds / (kinds / np.maximum(numbers.judged, 1)).sum(axis=1, keepdims=True)
            ).sum(axis=0)
        more = np.zeros_like(left)
        for _ in range(n):
            n_judged = numbers.judged + more
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = np.where(more < left, weight / (n_judged * (n_judged + 1.0)), -1.0)
            more[np.argmax(gain)] += 1
        return more

    def answered(self, rows: IntVector, is_wrong: BoolVector) -> Review:
        judged, wrong = self.judged.copy(), self.wrong.copy()
        judged[rows], wrong[rows] = True, is_wrong
        return replace(self, judged=judged, wrong=wrong)

    def n_errors(self) -> ErrorCount:
        return ErrorCount(
            self.numbers.estimate, *self.numbers.limits(), basis="review", assumption=""
        )

    def suspects(self, max_fdr: float) -> BoolVector:
        """All rows judged wrong and the worst of the others: the longest list that probably keeps
        the promise.

        Strata are added while it probably does, and is as good as promised by the answers alone.
        Tests in a fixed order that stop at the first failure need no allowance for their number.
        """
        waiting, n_wrong = self.order[~self.judged[self.order]], int(self.wrong.sum())
        free = n_wrong * max_fdr / (1 - max_fdr) + 1e-9 if max_fdr < 1 else np.inf
        length = int(
            min(free, len(waiting))
        )  # even if all of these are right, the rows judged wrong outweigh them
        rates = self.likely_rates
        for end in np.cumsum(np.bincount(self.strata[waiting], minlength=rates.shape[1])).tolist():
            numbers = self._count(self._down_to(end))
            if end <= length or numbers.judged.sum() < LEAST_JUDGED:
                continue
            wanted = int(np.ceil((1 - max_fdr) * (n_wrong + end) - n_wrong - 1e-9))
            expected = rates @ (numbers.rows - numbers.judged)
            spread = np.sqrt((rates * (1 - rates)) @ (numbers.rows - numbers.judged))
            risk = np.mean(ndtr((wanted - 0.5 - expected) / np.maximum(spread, 1e-9)))
            if risk > LIST_RISK or numbers.estimate < wanted + numbers.wrong.sum():
                break
            length = end
        chosen = self.wrong.copy()
        chosen[waiting[:length]] = True
        return chosen

    def likely_listed(self, max_fdr: float) -> BoolVector:
        """The strata, one at least, of the longest list that keeps the promise by the mean of the
        likely rates.
        """
        waiting = self.numbers.rows - self.numbers.judged
        right = np.cumsum(waiting * (1.0 - self.likely_rates.mean(axis=0)))
        within = np.flatnonzero(right <= max_fdr * (self.wrong.sum() + np.cumsum(waiting)))
        return np.arange(len(waiting)) <= (within[-1] if len(within) else 0)

    def likely_wrong(self) -> FloatVector:
        """P(wrong) of each row, given the answers: the likely rates of the strata, interpolated
        along the doubts.
        """
        numbers, rates, found = (
            self.numbers,
            self.likely_rates.mean(axis=0),
            self.wrong.astype(np.float64),
        )
        falling = isotonic_regression(rates, weights=numbers.rows, increasing=False).x
        scores = np.interp(
            logit(self.doubt[~self.judged]), self._doubts[::-1], logit(falling)[::-1]
        )
        expected = numbers.estimate - float(
            numbers.wrong.sum()
        )  # so that all add up to the estimate
        expected = expected if expected > 0.0 else float(rates @ (numbers.rows - numbers.judged))
        found[~self.judged] = with_sum(scores, expected)
        return found

    @property
    def _doubts(self) -> FloatVector:
        """Logits of the mean doubts of the strata."""
        sums = np.bincount(self.strata, self.doubt) / np.bincount(self.strata)
        return np.asarray(logit(sums))

    @cached_property
    def likely_rates(self) -> FloatMatrix:
        """Shares of wrong labels by stratum, given the answers and the doubts of the audit, one
        line per draw.

        logit share = A + B logit doubt + a deviation of the stratum, all normal: what the audit
        doubts is usually wrong, but how often, and whether at all, is for the answers to say.
        """
        numbers = self.numbers
        size = len(numbers.rows)
        grids = np.meshgrid(np.linspace(-9, 4, 40), np.linspace(-0.5, 2.5, 16))
        level, slope = (grid.ravel()[:, None] for grid in grids)
        nodes, weights = np.polynomial.hermite_e.hermegauss(7)
        scores = (level + slope * self._doubts)[:, :, None] + DEVIATION * nodes
        right, wrong = (numbers.judged - numbers.wrong)[:, None], numbers.wrong[:, None]
        fit = np.log(weights) - wrong * np.logaddexp(0, -scores) - right * np.logaddexp(0, scores)
        prior = -(((level + 0.7) / 2) ** 2 + ((slope - 1) / 0.5) ** 2)[:, 0] / 2
        posterior = softmax(prior + logsumexp(fit, axis=2).sum(axis=1))
        rng = np.random.default_rng(0)
        picked = rng.choice(len(posterior), DRAWS, p=posterior)
        below = np.cumsum(softmax(fit[picked], axis=2), axis=2)
        node = (rng.random((DRAWS, size, 1)) > below).sum(axis=2)
        return np.asarray(expit(scores[picked[:, None], np.arange(size), np.minimum(node, 6)]))

    def precision(self, rows: BoolVector) -> Precision:
        """Of a list of rows: those judged are known, the others are like the drawn rows among which
        they were.

        A list that holds the worst of the rows not judged was made from all rows as bad as these,
        judged or not. Others are taken to have been made without knowing the answers.
        """
        waiting = self.order[~self.judged[self.order]]
        listed = rows[waiting]
        n_listed, n_known = int(listed.sum()), int((rows & self.wrong).sum())
        among = self._down_to(n_listed) if n_listed and listed[:n_listed].all() else rows
        numbers = self._count(among)
        found = int(numbers.wrong.sum())
        estimate = (
            numbers.estimate if numbers.judged.any() else math.nan
        )  # no row like these was judged
        ends = (estimate, *numbers.limits()) if n_listed else (found,) * 3
        return Precision(
            *((n_known + min(end - found, n_listed)) / max(1, int(rows.sum())) for end in ends)
        )

    @property
    def numbers(self) -> Stratified:
        """Of all rows."""
        return self._count(np.ones(len(self.order), dtype=bool))

    def _down_to(self, n_waiting: int) -> BoolVector:
        """Rows in the order of the audit, judged or not, that come before all but so many of those
        not judged.
        """
        rows = np.zeros(len(self.order), dtype=bool)
        rows[self.order[np.cumsum(~self.judged[self.order]) <= n_waiting]] = True
        return rows

    def _count(self, rows: BoolVector) -> Stratified:
        size, kinds = int(self.strata.max()) + 1, (rows, rows & self.judged, rows & self.wrong)
        return Stratified(*(np.bincount(self.strata[kind], minlength=size) for kind in kinds))
