"""How many labels are wrong, and lists of suspects with a limited share of false alarms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nearworth._typing import FloatMatrix, FloatVector, IntVector

LEVEL, DEVIATIONS = 0.95, 1.959964
CAUTION = 1.0


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


def count_errors(
    right: FloatVector, share_of: Callable[[FloatVector], float], best: FloatVector, covariance: FloatMatrix
) -> ErrorCount:
    """Expected number of wrong labels, given how likely each is right.

    The interval joins two uncertainties: which labels are wrong if the model is known (a sum of coin tosses), and the
    parameters of the model, by the slope of the share of errors (`share_of` the parameters) at the best ones. It is
    symmetric in the logit of the share.
    """
    n = len(right)
    estimate = float((1.0 - right).sum())
    share = min(max(estimate / n, 0.25 / n), 1.0 - 0.25 / n)
    slope = _slope(share_of, best)
    variance = float((right * (1.0 - right)).sum()) / n**2 + float(slope @ covariance @ slope)
    reach = DEVIATIONS * math.sqrt(variance) / (share * (1.0 - share))
    centre = math.log(share / (1.0 - share))
    lower, upper = (n / (1.0 + math.exp(-min(max(centre + side * reach, -700.0), 700.0))) for side in (-1, 1))
    return ErrorCount(estimate, min(lower, estimate), max(upper, estimate))


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


def _slope(function: Callable[[FloatVector], float], at: FloatVector, step: float = 1e-4) -> FloatVector:
    steps = step * np.eye(len(at))
    return np.array([(function(at + shift) - function(at - shift)) / (2 * step) for shift in steps])
