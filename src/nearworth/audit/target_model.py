"""Continuous targets: how far each is from what its neighbours suggest, and how likely that makes an error.

Right targets: (y - suggested) / (local scale) is Student-t with 8 degrees of freedom, times a common width.
Wrong targets are anywhere: Student-t with 5, one and a half times as wide as the targets themselves.
"""

from __future__ import annotations

from typing import NamedTuple

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


class TargetModel(NamedTuple):
    """What neighbours suggest for each row, where nine in ten right targets would be, and how likely its own is."""

    suggested: FloatVector
    ranges: FloatMatrix
    agreement: FloatVector
    right: FloatVector
    n_errors: ErrorCount


def fit_targets(voters: Voters, targets: FloatVector) -> TargetModel:
    """Suggestions from neighbours in both directions, and a mixture of right and wrong targets, fitted by EM."""
    n_rows = len(targets)
    suggested = _suggestions(voters, targets)
    residuals = targets - suggested
    sizes = np.abs(residuals)
    near = np.where(voters.rows >= 0, sizes[voters.rows], np.nan)
    scale = np.nanmedian(near, axis=1) + _typical(sizes)  # half from the neighbours, half from all
    # The width from the median, which a minority of wrong targets hardly moves.
    scale *= max(float(np.median(sizes / scale)), 1e-9) / MEDIAN_SIZE
    if_right = student.pdf(residuals / scale, RIGHT_FREEDOM) / scale
    centred = targets - float(np.median(targets))
    width = _typical(np.abs(centred)) * WRONG_WIDTH
    if_wrong = student.pdf(centred / width, WRONG_FREEDOM) / width
    wrong = PRIOR_WRONG / (PRIOR_WRONG + PRIOR_RIGHT)
    for _ in range(ROUNDS):
        right = (1.0 - wrong) * if_right / ((1.0 - wrong) * if_right + wrong * if_wrong)
        wrong = float((1.0 - right).sum() + PRIOR_WRONG) / (n_rows + PRIOR_WRONG + PRIOR_RIGHT)
    count, half = float((1.0 - right).sum()), RANGE_QUANTILE * scale
    return TargetModel(
        suggested=suggested,
        ranges=np.stack([suggested - half, suggested + half], axis=1),
        agreement=1.0 / (1.0 + sizes / scale),
        right=right,
        n_errors=ErrorCount(count, count / MISCOUNT, min(float(n_rows), 1.0 + count * MISCOUNT)),
    )


def _suggestions(voters: Voters, targets: FloatVector) -> FloatVector:
    """Weighted mean of the targets of a row's neighbours and of the rows that have it as a neighbour."""
    rows, weights = np.maximum(voters.rows, 0), voters.weights
    total = (weights * targets[rows]).sum(axis=1)
    total += np.bincount(rows.ravel(), weights=(weights * targets[:, None]).ravel(), minlength=len(targets))
    votes = weights.sum(axis=1) + np.bincount(rows.ravel(), weights=weights.ravel(), minlength=len(targets))
    return np.asarray(total / votes)


def _typical(sizes: FloatVector) -> float:
    return float(np.median(sizes)) or float(sizes.mean()) or 1.0
