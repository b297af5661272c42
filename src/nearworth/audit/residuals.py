"""Continuous targets: how far each is from what its neighbours suggest, and how likely that makes an error.

Right targets: (y - suggested) / (local scale) is Student-t with 8 degrees of freedom, times a common width.
Wrong targets are anywhere: Student-t with 5, one and a half times as wide as the targets themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.audit.evidence import Neighbours

LISTED = 2  # times K: how far down the lists residuals look
ROUNDS = 200
TAME_FREEDOM, WILD_FREEDOM = 8, 5  # degrees of freedom; with fewer, tails swallow every error
MEDIAN_SIZE = 0.706387  # median of |t| with 8 degrees of freedom
WILD = 1.5 * 1.4826  # times the median distance of targets from their median: how wide wrong targets spread
RANGE_QUANTILE = 1.859548  # 95 % of Student's t with 8 degrees of freedom: 90 % of right targets are in the range
PRIOR_WRONG, PRIOR_RIGHT = 0.5, 9.5  # what the share of wrong targets is worth before looking, in rows


@dataclass(frozen=True)
class TargetModel:
    """What neighbours suggest for each row, how sure they are, and what that makes of the target."""

    suggested: FloatVector
    scale: FloatVector
    agreement: FloatVector
    right: FloatVector
    share_wrong: float

    @property
    def ranges(self) -> FloatMatrix:
        """Low and high end of where nine in ten right targets would be."""
        reach = RANGE_QUANTILE * self.scale
        return np.stack([self.suggested - reach, self.suggested + reach], axis=1)


def fit_targets(neighbours: Neighbours, targets: FloatVector) -> TargetModel:
    """Suggestions from neighbours in both directions, and a mixture of right and wrong targets."""
    suggested = _suggestions(neighbours, targets)
    residuals = targets - suggested
    scale = _local_scales(neighbours, np.abs(residuals))
    wild = _wild_density(targets)
    # The width from the median, which a minority of wrong targets hardly moves.
    scale *= max(float(np.median(np.abs(residuals) / scale)), 1e-9) / MEDIAN_SIZE
    wrong = PRIOR_WRONG / (PRIOR_WRONG + PRIOR_RIGHT)
    for _ in range(ROUNDS):
        right = _share_right(residuals / scale, scale, wrong, wild)
        wrong = ((1.0 - right).sum() + PRIOR_WRONG) / (len(targets) + PRIOR_WRONG + PRIOR_RIGHT)
    return TargetModel(suggested, scale, 1.0 / (1.0 + np.abs(residuals) / scale), right, float(wrong))


def _suggestions(neighbours: Neighbours, targets: FloatVector) -> FloatVector:
    """Weighted mean of the targets of a row's neighbours and of those who have it as a neighbour."""
    points, weights = neighbours.points, neighbours.weights
    safe = np.maximum(points, 0)
    total = (weights * targets[safe]).sum(axis=1)
    total += np.bincount(safe.ravel(), weights=(weights * targets[:, None]).ravel(), minlength=len(targets))
    votes = weights.sum(axis=1) + np.bincount(safe.ravel(), weights=weights.ravel(), minlength=len(targets))
    return np.asarray(total / votes)


def _local_scales(neighbours: Neighbours, sizes: FloatVector) -> FloatVector:
    """Typical residual around each row: half from its neighbours, half from all."""
    there = neighbours.points >= 0
    near = np.where(there, sizes[np.maximum(neighbours.points, 0)], np.nan)
    typical = float(np.median(sizes)) or float(sizes.mean()) or 1.0
    return np.asarray(np.nanmedian(near, axis=1) + typical)


def _wild_density(targets: FloatVector) -> FloatVector:
    """Density of the targets if anything goes: around the median, wider than they are."""
    centre = float(np.median(targets))
    width = float(np.median(np.abs(targets - centre))) or float(np.abs(targets - centre).mean()) or 1.0
    width *= WILD
    return _student((targets - centre) / width, WILD_FREEDOM) / width


def _share_right(residuals: FloatVector, widths: FloatVector, wrong: float, wild: FloatVector) -> FloatVector:
    tame = _student(residuals, TAME_FREEDOM) / widths
    return np.asarray((1.0 - wrong) * tame / ((1.0 - wrong) * tame + wrong * wild))


def _student(x: FloatVector, freedom: int) -> FloatVector:
    """Density of Student's t."""
    half = freedom / 2
    constant = math.gamma(half + 0.5) / (math.gamma(half) * math.sqrt(freedom * math.pi))
    return np.asarray(constant * (1.0 + x**2 / freedom) ** -(half + 0.5))
