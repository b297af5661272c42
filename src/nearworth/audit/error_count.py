"""How many labels are wrong, and lists of suspects with a limited share of false alarms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr

from nearworth._common.types import FloatMatrix, FloatVector, IntVector

LEVEL = 0.95
CERTAIN = 1e-9  # least distance of a probability from 0 and 1, before its logit
EXTRA_FALSE_ALARMS = 0.5  # in every list of labels
CAUTIOUS_ODDS = 1.7
MISCOUNTED = 0.1  # relative standard error of the number of wrong labels among those with one given label
MISFIT = 0.25  # relative standard error of the number of errors from what no model here has, measured
CLOSE = 2.0  # an estimate is given if the upper end is at most so many times as high
COMMONEST = "the commonest label around a row is right"


@dataclass(frozen=True)
class ErrorCount:
    """How many labels are wrong: at least `lower`, and at most `upper` if `assumption` holds. `print` it.

    `estimate` is None where data alone cannot tell wrong labels from classes that overlap; a review of some rows can.
    `basis` says what the numbers rest on: a model, or answers of a person. `level` is the coverage meant.
    """

    estimate: float | None
    lower: float
    upper: float
    level: float = LEVEL
    basis: Literal["model", "review"] = "model"
    assumption: str = "right targets scatter like those of their neighbours"

    def __float__(self) -> float:
        if self.estimate is None:
            raise ValueError(f"The number of wrong labels has no estimate here, only a range: {self}.")
        return self.estimate

    def __str__(self) -> str:
        if self.basis == "review":
            number = "" if self.estimate is None else f"about {self.estimate:,.0f}, "
            return f"{number}{self.lower:,.0f} to {self.upper:,.0f} ({self.level:.0%} interval, by review)"
        ends = f"at least {self.lower:,.0f}; at most {self.upper:,.0f} if {self.assumption}"
        return ends if self.estimate is None else f"about {self.estimate:,.0f} ({ends})"


def count_errors(right: FloatMatrix, weights: FloatVector, most: float, fewest: int | None = None) -> ErrorCount:
    """The number of wrong labels, given how likely each is right under each model, and weights of the models.

    The lower end joins three uncertainties: which model holds, which labels are wrong if it does (a sum of independent
    events), and that models are only models. It is that of a mixture of normal distributions, one per model. The upper
    end is `most`, which rests on no model of how labels get wrong. Between the two, only where the expected number is
    near `most` do the data tell it. At least `fewest` are known to be wrong, of copies that contradict each other.
    """
    n = right.shape[1]
    means = n - right.sum(axis=1)
    spreads = np.sqrt((right * (1.0 - right)).sum(axis=1) + (MISFIT * means) ** 2 + 1.0)
    ends = float((means - 9 * spreads).min()), float((means + 9 * spreads).max())
    low = brentq(lambda count: weights @ ndtr((count - means) / spreads) - (1 - LEVEL) / 2, *ends)
    estimate = float(np.clip(weights @ means, 0.0, n))
    lower = min(max(float(low), 0.0), estimate)
    upper = min(max(most, lower + 1.0), float(n))
    told = estimate if most <= CLOSE * estimate else None
    known = fewest or 0
    return ErrorCount(told, max(lower, known), max(upper, told or 0.0, known), assumption=COMMONEST)


def cautious(right: FloatVector, given: IntVector) -> FloatVector:
    """With higher odds of every label to be right, by as much as the model errs on data that break its assumptions.

    Where nearly all rows of a given label seem wrong, moreover, their number may be too high but not too low, and the
    expected number accounts for that. Else every row of a rare class would be wrong as soon as there is noise.
    """
    wrong = 1.0 - np.minimum(right, 1.0)
    careful = np.minimum(CAUTIOUS_ODDS * right / (CAUTIOUS_ODDS * right + wrong), 1.0)
    order = np.argsort(given, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(given[order])) + 1):
        total = _expected_right(careful[rows])
        if total > careful[rows].sum():
            careful[rows] = with_sum(logit(np.maximum(careful[rows], CERTAIN)), total)
    return np.asarray(careful)


def _expected_right(right: FloatVector) -> float:
    """Mean number of right labels if that of wrong ones is normal with a standard error, and neither is below zero."""
    wrong = float((1.0 - right).sum())
    if wrong < CERTAIN:
        return float(right.sum())
    spread = math.sqrt(wrong + (MISCOUNTED * wrong) ** 2)
    low, high = (wrong - len(right)) / spread, wrong / spread  # no right label and all of them, in standard errors
    densities = (math.exp(-(low**2) / 2) - math.exp(-(high**2) / 2)) / math.sqrt(2 * math.pi)
    return len(right) - wrong + spread * densities / float(ndtr(high) - ndtr(low))


def with_sum(scores: FloatVector, total: float) -> FloatVector:
    """Probabilities with these logits, all shifted by as much as makes them add up to `total`."""

    def gap(shift: float) -> float:
        return float(expit(scores + shift).sum()) - total

    furthest = -2.0 * math.log(CERTAIN)
    beyond = [end for end in (-furthest, furthest) if end * gap(end) <= 0.0]
    return np.asarray(expit(scores + (beyond[0] if beyond else brentq(gap, -furthest, furthest))))


def longest_list(right: FloatVector, max_fdr: float, extra: float = 1.0) -> int:
    """How many rows have an expected share of right labels of at most `max_fdr`; `right` has the worst first.

    `extra` right labels are added to every list: expectations about very few rows say little, so a short list is never
    within a small share.
    """
    if max_fdr >= 1.0:
        return len(right)
    shares = (np.cumsum(right) + extra) / np.arange(1, len(right) + 1)
    within = np.flatnonzero(shares <= max_fdr)
    return int(within[-1]) + 1 if len(within) else 0
