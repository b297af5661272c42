"""Rows far from all others.

Two distances are looked at: the mean distance to the K nearest rows, and the mean angle between a row and its 30
nearest as seen from the centre of the data. The first finds what is far out; the second what lies where no other row
lies without being far out (most rows that come from elsewhere are of this kind). How far usual rows may be comes from
the rows between the middle and the farthest tenth: their logarithms of distance continue as an exponential tail, their
angles as a normal one. The score is -log10 of the share of usual rows that would be as far: 4 is one row in 10,000.
Rows that are nearer to others than three quarters of the rows are no outliers whatever their angles: from the centre,
rows around it lie in all directions. Rows that are far from their own class only are a matter for the audit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.audit.result import LabelAudit
from nearworth.audit.votes import Voters
from nearworth.findings.finding import Finding, counted
from nearworth.inputs.features import row_chunks

ANGLES_OF, LEAST_COLUMNS = 30, 6  # neighbours; in fewer dimensions angles say little
EXPECTED = 0.05  # usual rows that are called outliers, in all
FEWEST_ROWS, NOT_NEAR = 30, 0.75
FAR, MIDDLE, NORMAL_FAR = 0.9, 0.5, 1.2815515655446004  # quantiles; the standard normal's at FAR
LEAST_SLOPE = 0.05  # of logarithms: rows on a grid are all equally far
TINY = 1e-12


def find_outliers(audit: LabelAudit) -> Finding:
    scores, is_far = outlier_scores(audit)
    limit = np.log10(2 * len(audit) / EXPECTED)
    rows = np.argsort(-scores, kind="stable")
    rows = rows[(scores[rows] > limit) & is_far[rows]]
    says = f"{counted(len(rows), 'row')} so far from all others that one usual row in {10**limit:,.0f} would be"
    return Finding(rows=rows, scores=scores, says=says)


def outlier_scores(audit: LabelAudit) -> tuple[FloatVector, npt.NDArray[np.bool_]]:
    """-log10 of the share of usual rows that would be as far from others as each row; which are not near to others."""
    voters, metric, k = audit._voters, audit._estimator.metric, audit._estimator.n_neighbors
    distances, present = voters.distances(metric), voters.rows >= 0
    if len(audit) < FEWEST_ROWS or (distances[present] < 0).any():  # inner products are no distances
        return np.zeros(len(audit)), np.zeros(len(audit), dtype=bool)
    nearest = np.where(present, distances, 0.0)[:, :k].sum(axis=1) / np.maximum(present[:, :k].sum(axis=1), 1)
    logs = np.log(np.maximum(nearest, max(TINY * float(np.median(nearest)), np.finfo(float).tiny)))
    middle, far = np.quantile(logs, [MIDDLE, FAR])
    slope = max((far - middle) / np.log((1 - MIDDLE) / (1 - FAR)), LEAST_SLOPE)
    scores = -np.log10(1 - FAR) + (logs - far) / slope / np.log(10)
    features = audit._features
    if metric in ("euclidean", "l2") and features.data.shape[1] >= LEAST_COLUMNS and not features.is_sparse:
        scores = np.maximum(scores, _angle_scores(features.data, voters))
    return np.maximum(scores, 0.0), logs >= np.quantile(logs, NOT_NEAR)


def _angle_scores(X: Any, voters: Voters) -> FloatVector:
    angles = _angles(X, voters.rows[:, :ANGLES_OF], voters.keys[:, :ANGLES_OF])
    middle, far = np.quantile(angles, [MIDDLE, FAR])
    spread = max((far - middle) / NORMAL_FAR, TINY)
    return np.asarray(-log_ndtr((middle - angles) / spread) / np.log(10))


def _angles(X: Any, near: npt.NDArray[np.int32], squares: FloatMatrix) -> FloatVector:
    """1 - cosine between each row and its nearest, seen from the mean row: by the law of cosines, from distances."""
    centre = sum(chunk.sum(axis=0, dtype=np.float64) for _, chunk in row_chunks(X)) / X.shape[0]
    norms = np.concatenate([np.linalg.norm(chunk - centre, axis=1) for _, chunk in row_chunks(X)])
    own, others = norms[:, None], norms[near]
    least = TINY * max(float(norms.max()), np.finfo(float).tiny)
    with np.errstate(invalid="ignore"):
        cosines = (squares - (own - others) ** 2) / np.maximum(2 * own * others, least**2)
    found = np.where((near >= 0) & (own > least) & (others > least), np.clip(cosines, 0.0, 2.0), 0.0)
    return np.asarray(found.sum(axis=1) / np.maximum((near >= 0).sum(axis=1), 1))
