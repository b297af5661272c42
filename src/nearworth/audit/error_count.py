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
TINY = 1e-9
EXTRA_FALSE_ALARMS = 1.0
CAUTIOUS_ODDS = 1.35
MISCOUNTED = 0.3  # relative standard error of the number of wrong labels among those with one given label
MISFIT = 0.25  # relative standard error of the number of errors from what no model here has: measured, docs/audit.md


@dataclass(frozen=True)
class ErrorCount:
    """An estimated number of wrong labels with an interval; `level` is its intended coverage.

    `basis` says what it rests on: the model of the audit, or the answers of a review.
    """

    estimate: float
    lower: float
    upper: float
    level: float = LEVEL
    basis: Literal["model", "review"] = "model"

    def __float__(self) -> float:
        return self.estimate

    def __str__(self) -> str:
        if self.basis == "review":
            ends = f"{self.lower:,.0f} to {self.upper:,.0f}"
            return f"about {self.estimate:,.0f}, {ends} ({self.level:.0%} interval, by review)"
        return f"{self.estimate:,.0f} ({self.level:.0%} interval {self.lower:,.0f} to {self.upper:,.0f})"


def count_errors(right: FloatMatrix, weights: FloatVector) -> ErrorCount:
    """Expected number of wrong labels, given how likely each is right under each model, and weights of the models.

    The interval joins three uncertainties: which model holds, which labels are wrong if it does (a sum of independent
    events), and that models are only models. It is that of a mixture of normal distributions, one per model.
    """
    n = right.shape[1]
    means = n - right.sum(axis=1)
    spreads = np.sqrt((right * (1.0 - right)).sum(axis=1) + (MISFIT * means) ** 2 + 1.0)
    ends = float((means - 9 * spreads).min()), float((means + 9 * spreads).max())

    def quantile(share: float) -> float:
        return float(brentq(lambda count: weights @ ndtr((count - means) / spreads) - share, *ends))

    estimate = float(weights @ means)
    low, high = quantile((1 - LEVEL) / 2), quantile((1 + LEVEL) / 2)
    return ErrorCount(estimate, min(max(low, 0.0), estimate), max(min(high, float(n)), estimate))


def cautious(right: FloatVector, given: IntVector) -> FloatVector:
    """With higher odds of every label to be right, by as much as the model errs on data that break its assumptions.

    Where nearly all rows of a given label seem wrong, moreover, their number may be too high but not too low, and the
    expected number accounts for that. Else every row of a rare class would be wrong as soon as there is noise.
    """
    wrong = 1.0 - np.minimum(right, 1.0)
    careful = np.minimum(CAUTIOUS_ODDS * right / (CAUTIOUS_ODDS * right + wrong), 1.0)
    order = np.argsort(given, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(given[order])) + 1):
        careful[rows] = _raised(careful[rows], _expected_right(careful[rows]))
    return np.asarray(careful)


def _expected_right(right: FloatVector) -> float:
    """Mean number of right labels if that of wrong ones is normal with a standard error, and neither is below zero."""
    wrong = float((1.0 - right).sum())
    if wrong < TINY:
        return float(right.sum())
    spread = math.sqrt(wrong + (MISCOUNTED * wrong) ** 2)
    low, high = (wrong - len(right)) / spread, wrong / spread  # no right label and all of them, in standard errors
    densities = (math.exp(-(low**2) / 2) - math.exp(-(high**2) / 2)) / math.sqrt(2 * math.pi)
    return len(right) - wrong + spread * densities / float(ndtr(high) - ndtr(low))


def _raised(right: FloatVector, total: float) -> FloatVector:
    """With odds higher by a common factor, so that the sum is `total`, if that is more than it is."""
    scores = logit(right)

    def gap(shift: float) -> float:
        return float(expit(scores + shift).sum() - total)

    if gap(0.0) >= 0.0:
        return right
    highest = 40.0 - math.log(max(float(right.min()), 1e-300))
    return np.asarray(expit(scores + (highest if gap(highest) <= 0.0 else brentq(gap, 0.0, highest))))


def longest_list(right: FloatVector, max_fdr: float) -> int:
    """How many rows have an expected share of right labels of at most `max_fdr`; `right` has the worst first.

    One right label is added to every list: expectations about very few rows say little, so a short list is never
    within a small share.
    """
    if max_fdr >= 1.0:
        return len(right)
    shares = (np.cumsum(right) + EXTRA_FALSE_ALARMS) / np.arange(1, len(right) + 1)
    within = np.flatnonzero(shares <= max_fdr)
    return int(within[-1]) + 1 if len(within) else 0
