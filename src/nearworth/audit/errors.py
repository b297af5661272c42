"""How many labels are wrong, and lists of suspects with a limited share of false alarms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector, IntVector

LEVEL = 0.95
TINY = 1e-9
CAUTION, CAUTIOUS_ODDS = 1.0, 1.35
MISCOUNTED = 0.3  # relative standard error of the number of wrong labels among those with one given label
MISFIT = 0.25  # relative standard error of the number of errors from what no model here has: measured, docs/audit.md


@dataclass(frozen=True)
class ErrorCount:
    """An estimated number of wrong labels with an interval; `level` is its intended coverage."""

    estimate: float
    lower: float
    upper: float
    level: float = LEVEL

    def __float__(self) -> float:
        return self.estimate

    def __str__(self) -> str:
        return f"{self.estimate:,.0f} ({self.level:.0%} interval {self.lower:,.0f} to {self.upper:,.0f})"


def count_errors(right: FloatMatrix, weights: FloatVector) -> ErrorCount:
    """Expected number of wrong labels, given how likely each is right under each model, and weights of the models.

    The interval joins three uncertainties: which model holds, which labels are wrong if it does (a sum of coin tosses),
    and that models are only models.
    """
    n = right.shape[1]
    means = n - right.sum(axis=1)
    spreads = np.sqrt((right * (1.0 - right)).sum(axis=1) + (MISFIT * means) ** 2 + 1.0)
    estimate = float(weights @ means)
    low, high = (_quantile(share, weights, means, spreads) for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return ErrorCount(estimate, min(max(low, 0.0), estimate), max(min(high, float(n)), estimate))


def cautious(right: FloatVector, given: IntVector) -> FloatVector:
    """With higher odds of every label to be right: so far the model errs on data that are not as it assumes.

    Where nearly all rows of a given label seem wrong, moreover, their number may well be too high but not too low. The
    expectation has to mind that: else rare classes would be wrong altogether as soon as there is noise.
    """
    wrong = 1.0 - np.minimum(right, 1.0)
    careful = np.minimum(CAUTIOUS_ODDS * right / (CAUTIOUS_ODDS * right + wrong), 1.0)
    order = np.argsort(given, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(given[order])) + 1):
        careful[rows] = _raised(careful[rows], _expected_right(careful[rows]))
    return np.asarray(careful)


def _expected_right(right: FloatVector) -> float:
    """Of how many rows, if the number of the others has a standard error but neither can be below zero."""
    wrong = float((1.0 - right).sum())
    if wrong < TINY:
        return float(right.sum())
    spread = math.sqrt(wrong + (MISCOUNTED * wrong) ** 2)
    none, all_of_them = (wrong - len(right)) / spread, wrong / spread  # right ones, in standard errors
    inside = math.erfc(-all_of_them / math.sqrt(2)) / 2 - math.erfc(-none / math.sqrt(2)) / 2
    densities = (math.exp(-(none**2) / 2) - math.exp(-(all_of_them**2) / 2)) / math.sqrt(2 * math.pi)
    return len(right) - wrong + spread * densities / max(inside, TINY)


def _raised(right: FloatVector, total: float) -> FloatVector:
    """With such odds, all higher by the same factor, that the sum is `total`, if that is more than it is."""
    if right.sum() >= total:
        return right
    low, high = 0.0, 40.0 - math.log(max(float(right.min()), 1e-300))
    for _ in range(60):
        middle = (low + high) / 2
        raised = right / np.maximum(right + (1.0 - right) * math.exp(-middle), 1e-300)
        low, high = (middle, high) if raised.sum() < total else (low, middle)
    return np.asarray(raised)


def longest_list(order: IntVector, right: FloatVector, max_fdr: float) -> int:
    """How many rows, worst first, have an expected share of right labels of at most `max_fdr`.

    One right label is added to every list, so that a few rows alone are never within a small share: what is expected
    of a few says little about them.
    """
    if max_fdr >= 1.0:
        return len(order)
    shares = (np.cumsum(right[order]) + CAUTION) / np.arange(1, len(order) + 1)
    within = np.flatnonzero(shares <= max_fdr)
    return int(within[-1]) + 1 if len(within) else 0


def _quantile(share: float, weights: FloatVector, means: FloatVector, spreads: FloatVector) -> float:
    """Of a mixture of normal distributions, by halving."""
    low, high = float((means - 9 * spreads).min()), float((means + 9 * spreads).max())
    for _ in range(60):
        middle = (low + high) / 2
        parts = zip(weights, (means - middle) / spreads, strict=True)
        below = sum(weight * math.erfc(distance / math.sqrt(2)) / 2 for weight, distance in parts)
        low, high = (middle, high) if below < share else (low, middle)
    return (low + high) / 2
