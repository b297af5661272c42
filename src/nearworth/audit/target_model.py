"""Continuous targets: how far each is from what its neighbours suggest, and how likely that makes an error.

Right targets: (y - suggested) / (local scale) is Student-t with 8 degrees of freedom, times a common width.
Wrong targets are anywhere: Student-t with 5, one and a half times as wide as the targets themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.audit.error_count import ErrorCount
from nearworth.audit.votes import Voters

LISTED = 2  # times K: how many neighbours suggest a target
ROUNDS = 200
RIGHT_FREEDOM, WRONG_FREEDOM = 8, 5  # degrees of freedom; with fewer, tails swallow every error
MEDIAN_SIZE = 0.706387  # median of |t| with 8 degrees of freedom
WRONG_WIDTH = 1.5 * 1.4826  # times the median distance of targets from their median: how wide wrong targets spread
RANGE_QUANTILE = 1.859548  # 95 % of Student's t with 8 degrees of freedom: 90 % of right targets are in the range
PRIOR_WRONG, PRIOR_RIGHT = 0.5, 9.5  # what the share of wrong targets is worth before looking, in rows
MISCOUNT = 4.0  # factor by which the number of wrong targets may be off: tails of right ones look alike


@dataclass(frozen=True)
class TargetModel:
    """What neighbours suggest for each row, with what scale, and how likely its target is right."""

    suggested: FloatVector
    scale: FloatVector
    agreement: FloatVector
    right: FloatVector

    @property
    def ranges(self) -> FloatMatrix:
        """Low and high end of where nine in ten right targets would be."""
        half = RANGE_QUANTILE * self.scale
        return np.stack([self.suggested - half, self.suggested + half], axis=1)

    @property
    def n_errors(self) -> ErrorCount:
        """Expected number of wrong targets, with a wide interval."""
        wrong = float((1.0 - self.right).sum())
        return ErrorCount(wrong, wrong / MISCOUNT, min(float(len(self.right)), 1.0 + wrong * MISCOUNT))


def fit_targets(voters: Voters, targets: FloatVector) -> TargetModel:
    """Suggestions from neighbours in both directions, and a mixture of right and wrong targets, fitted by EM."""
    suggested = _suggestions(voters, targets)
    residuals = targets - suggested
    scale = _local_scales(voters, np.abs(residuals))
    # The width from the median, which a minority of wrong targets hardly moves.
    scale *= max(float(np.median(np.abs(residuals) / scale)), 1e-9) / MEDIAN_SIZE
    if_right = student.pdf(residuals / scale, RIGHT_FREEDOM) / scale
    if_wrong = _density_if_wrong(targets)
    wrong = PRIOR_WRONG / (PRIOR_WRONG + PRIOR_RIGHT)
    for _ in range(ROUNDS):
        right = (1.0 - wrong) * if_right / ((1.0 - wrong) * if_right + wrong * if_wrong)
        wrong = float((1.0 - right).sum() + PRIOR_WRONG) / (len(targets) + PRIOR_WRONG + PRIOR_RIGHT)
    return TargetModel(suggested, scale, agreement=1.0 / (1.0 + np.abs(residuals) / scale), right=right)


def _suggestions(voters: Voters, targets: FloatVector) -> FloatVector:
    """Weighted mean of the targets of a row's neighbours and of the rows that have it as a neighbour."""
    rows, weights = np.maximum(voters.rows, 0), voters.weights
    total = (weights * targets[rows]).sum(axis=1)
    total += np.bincount(rows.ravel(), weights=(weights * targets[:, None]).ravel(), minlength=len(targets))
    votes = weights.sum(axis=1) + np.bincount(rows.ravel(), weights=weights.ravel(), minlength=len(targets))
    return np.asarray(total / votes)


def _local_scales(voters: Voters, sizes: FloatVector) -> FloatVector:
    """Typical residual around each row: half from its neighbours, half from all."""
    near = np.where(voters.rows >= 0, sizes[voters.rows], np.nan)
    typical = float(np.median(sizes)) or float(sizes.mean()) or 1.0
    return np.asarray(np.nanmedian(near, axis=1) + typical)


def _density_if_wrong(targets: FloatVector) -> FloatVector:
    """Density of the targets if they may be anything: around the median, wider than they are."""
    centre = float(np.median(targets))
    width = float(np.median(np.abs(targets - centre))) or float(np.abs(targets - centre).mean()) or 1.0
    width *= WRONG_WIDTH
    return np.asarray(student.pdf((targets - centre) / width, WRONG_FREEDOM) / width)
