"""Continuous targets: how far each is from what others suggest, and how likely that makes an error.

A row's suggestion is the mean target of its neighbours in both directions, weighted as votes are.
They lie elsewhere: differences from their targets are regressed on differences from their features
(a partially linear model). Predictions of models are joined with it. Right targets are Student-t
around it, in units of the local scale. Wrong ones are anywhere: nine in ten Student-t and wider
than the targets themselves, one in ten at any order of magnitude. If many are right once divided by
10, 100, 1000, a tenth ... or -1, a slip of that kind is a third possibility. All of this holds for
targets as they are or for their asinh, around zero or the median, whichever fits best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls
from scipy.sparse import csr_array, diags_array
from scipy.special import beta

from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.audit.error_count import ErrorCount
from nearworth.audit.votes import Voters

LISTED_FOR_TARGETS = 2  # times K: how many neighbours suggest a target
ROUNDS = 200
RIGHT_FREEDOM, WRONG_FREEDOM = 8, 5  # degrees of freedom; with fewer, tails swallow every error
MEDIAN_SIZE = 0.706387  # median of |t| with 8 degrees of freedom
DEVIATION = 1.4826  # standard deviations in a median distance from the median, were targets normal
WRONG_WIDTH = 1.5  # standard deviations: how wide wrong targets spread
# standard deviations from the median: as far as the targets of others may pull a suggestion
FENCE = 4.0
NEAR_FENCE = 3.0  # then, deviations from what their own neighbours suggest
FAR_SHARE, FAR_RANGE = (
    0.1,
    1e4,
)  # wrong targets of any size: their share, and up to how many standard deviations away
# 95 % of Student's t with 8 degrees of freedom: 90 % of right targets are in the range
RANGE_QUANTILE = 1.859548
PRIOR_RIGHT, PRIOR_WRONG, PRIOR_SLIP = (
    9.5,
    0.5,
    0.1,
)  # what the share of each is worth before looking, in rows
GAIN = 3.0  # nats by which asinh must fit better, and per row, around zero and around the median:
GAIN_AROUND_ZERO, GAIN_AROUND_MEDIAN = (
    0.03,
    0.15,
)  # more for the second, whose tails wrong targets can feign
FACTORS = (10.0, 100.0, 1000.0, 0.1, 0.01, 0.001, -1.0)  # decimal points and signs
SLIP_GAIN, SLIP_GAIN_EACH, BESIDE = (
    10.0,
    0.2,
    2.0,
)  # nats, in all and per slip, beyond half and twice the factor
MOST_SLIPS, LITTLE = (
    0.1,
    1e-6,
)  # of the rows: more are no slips; rows that a prior of no weight counts for
ODD_SHARE = 0.02  # of right targets may look wrong
OVERCOUNT, UNDERCOUNT = (
    2.0,
    4.0,
)  # factors by which the number of wrong targets may be too high beyond these, too low
KNOTS, ROWS_PER_COLUMN, MOST_NUMBERS = (
    6,
    100,
    2**24,
)  # pieces of slopes per column; none for few rows, fewer for many
RIDGE, ROUNDING = (
    0.005,
    1e-12,
)  # penalties on slopes: of the square sums of differences, and of features


class Space(NamedTuple):
    """Targets as they are (no width), or their asinh: logarithms of either sign beyond a width
    around a centre.
    """

    centre: float = 0.0
    width: float | None = None

    def of(self, targets: FloatVector) -> FloatVector:
        return targets if self.width is None else np.arcsinh((targets - self.centre) / self.width)

    def back(self, points: FloatMatrix) -> FloatMatrix:
        return (
            points
            if self.width is None
            else self.centre + self.width * np.sinh(np.clip(points, -300, 300))
        )

    def slope(self, targets: FloatVector) -> FloatVector:
        """Derivative of `of`."""
        return (
            np.ones_like(targets)
            if self.width is None
            else 1.0 / np.hypot(targets - self.centre, self.width)
        )


Predict = Callable[
    [Space, FloatVector], Sequence[FloatVector]
]  # from targets drawn in to predictions, all in a space


class _Ground(NamedTuple):
    """What rows are judged by: all targets together, drawn in, how far they are from
    suggestions.
    """

    space: Space
    targets: FloatVector
    near: FloatVector  # in the space, drawn in, less the trend
    sizes: FloatVector  # of residuals
    width: float  # of right residuals, in units of the local scale
    knots: FloatMatrix  # of the trend
    slopes: FloatVector


class _Fit(NamedTuple):
    """Densities of targets, if right and if wrong, and what they rest on."""

    ground: _Ground
    suggested: FloatVector
    scale: FloatVector
    densities: FloatMatrix

    @classmethod
    def of(
        cls, ground: _Ground, targets: FloatVector, suggested: FloatVector, scale: FloatVector
    ) -> _Fit:
        space = ground.space
        centre, width = _centre_and_width(space.of(ground.targets))
        points, spread = space.of(targets), WRONG_WIDTH * width
        if_right = _student_density((points - suggested) / scale, RIGHT_FREEDOM) / scale
        if_wrong = (
            (1.0 - FAR_SHARE) * _student_density((points - centre) / spread, WRONG_FREEDOM) / spread
        )
        # Far targets: one over the distance from the median, so that every order of magnitude is
        # equally likely.
        centre, width = _centre_and_width(ground.targets)
        far = 1.0 / (2 * (1 + np.log(FAR_RANGE)) * np.maximum(np.abs(targets - centre), width))
        if_wrong += FAR_SHARE * far / space.slope(targets)
        return cls(ground, suggested, scale, np.stack([if_right, if_wrong]))


class TargetModel(NamedTuple):
    """What a LabelAudit says of each row, and what that rests on."""

    answers: dict[str, Any]
    ground: _Ground
    factors: list[float]  # of slips
    weights: FloatVector  # shares of right, wrong and slipped targets

    def check(
        self, targets: FloatVector, voters: Voters, means: FloatVector, columns: FloatMatrix
    ) -> TargetModel:
        """New targets, from their features, their neighbours among the rows of the fit, and the
        means of `near`.
        """
        ground = self.ground
        suggested = means + _bent(columns, ground.knots) @ ground.slopes
        fit = _Fit.of(ground, targets, suggested, _local_scale(ground.sizes, voters) * ground.width)
        return _answer(fit, targets, self.factors, self.weights)


def fit_targets(
    voters: Voters, targets: FloatVector, X: FloatMatrix, predict: Predict | None = None
) -> TargetModel:
    """Suggestions in the space that fits best, and a mixture of right, wrong and slipped targets,
    fitted by EM.
    """
    around = _Around.of(voters, X)
    fit = _fit(around, targets, _best_space(around, targets), predict)
    return _answer(fit, targets, _slips(fit, targets))


class _Around(NamedTuple):
    """Of each row, its neighbours and the rows that have it as one; and how its features differ
    from theirs.
    """

    voters: Voters
    means: Any  # sparse: from targets to weighted means of those around each row
    knots: FloatMatrix
    bent: FloatMatrix
    moved: FloatMatrix
    gram: FloatMatrix  # of `moved`, with a ridge

    @classmethod
    def of(cls, voters: Voters, X: FloatMatrix) -> _Around:
        n, size = voters.rows.shape
        found = (
            voters.weights.ravel(),
            np.maximum(voters.rows, 0).ravel(),
            np.arange(0, n * size + 1, size),
        )
        votes = csr_array(found, shape=(n, n))
        means = diags_array(1.0 / (votes + votes.T).sum(axis=1)) @ (votes + votes.T)
        n_knots = (
            min(KNOTS, MOST_NUMBERS // max(1, X.size)) if n >= ROWS_PER_COLUMN * X.shape[1] else 0
        )
        columns, pieces = (X, n_knots) if n_knots > 0 else (X[:, :0], 1)
        knots = np.quantile(columns, np.arange(pieces) / pieces, axis=0)
        bent = _bent(columns, knots)
        moved = bent - means @ bent
        gram = moved.T @ moved
        penalty = RIDGE * gram.diagonal() + ROUNDING * (bent**2).sum(axis=0)
        return cls(
            voters, means, knots, bent, moved, gram + np.diag(np.where(penalty > 0.0, penalty, 1.0))
        )


def _bent(columns: FloatMatrix, knots: FloatMatrix) -> FloatMatrix:
    """By how much columns are above each knot: sums of these are piecewise linear in each
    column.
    """
    return np.concatenate(
        [np.maximum(columns[:, : len(knot)] - knot, 0.0) for knot in knots], axis=1
    )


def _answer(
    fit: _Fit, targets: FloatVector, factors: list[float], weights: FloatVector | None = None
) -> TargetModel:
    """By weights of right, wrong and slipped targets that are known, or fitted here."""
    densities = np.stack(
        [*fit.densities, *(_slip_density(fit, targets, factor) for factor in factors)]
    )
    if weights is None:
        prior = [PRIOR_RIGHT, PRIOR_WRONG] + [PRIOR_SLIP] * len(factors)
        posterior, _, weights = _shares(densities, prior)
    else:
        joint = weights[:, None] * densities
        posterior = joint / joint.sum(axis=0)
    half, space = RANGE_QUANTILE * fit.scale, fit.ground.space
    ranges = space.back(np.stack([fit.suggested - half, fit.suggested + half], axis=1))
    suggested = space.back(fit.suggested)
    for factor, share in zip(factors, posterior[2:], strict=True):
        mended = targets / factor
        sure = (share > 0.5) & (ranges[:, 0] <= mended) & (mended <= ranges[:, 1])
        suggested = np.where(sure, mended, suggested)
    # A wide range: tails of right targets look wrong, but for slips, and wrong targets near the
    # suggested ones look right. At most all of those outside the usual width are wrong, if wrong
    # targets are outside.
    n, count, sizes = (
        len(targets),
        float((1.0 - posterior[0]).sum()),
        np.abs(space.of(targets) - fit.suggested),
    )
    slipped = float(posterior[2:].sum())
    lower = (max(0.0, count - slipped - ODD_SHARE * n) + slipped) / OVERCOUNT
    outside = float(np.count_nonzero(sizes > fit.scale))
    answers = {
        "given": targets,
        "quality": posterior[0],
        "agreement": 1.0 / (1.0 + sizes / fit.scale),
        "suggested": suggested,
        "confidence": np.full(n, 0.9),
        "n_errors": ErrorCount(count, lower, min(float(n), max(1.0 + UNDERCOUNT * count, outside))),
        "suggested_range": ranges,
    }
    return TargetModel(answers, fit.ground, factors, weights)


def _best_space(around: _Around, targets: FloatVector) -> Space:
    """By the likelihood of the targets given their neighbours, if that is plainly better than as
    they are.
    """
    centre, width = _centre_and_width(targets)
    low = float(np.quantile(np.abs(targets), 0.25)) or _typical(np.abs(targets))
    candidates = [
        (Space(), 0.0),
        (Space(0.0, low), GAIN + GAIN_AROUND_ZERO * len(targets)),
        (Space(centre, width / DEVIATION), GAIN + GAIN_AROUND_MEDIAN * len(targets)),
    ]

    def gain(candidate: tuple[Space, float]) -> float:
        space, needed = candidate
        total = _shares(_fit(around, targets, space).densities, [PRIOR_RIGHT, PRIOR_WRONG])[1]
        return float(np.log(total * space.slope(targets)).sum()) - needed

    return max(candidates, key=gain)[0]


def _fit(
    around: _Around, targets: FloatVector, space: Space, predict: Predict | None = None
) -> _Fit:
    points, voters = space.of(targets), around.voters
    centre, width = _centre_and_width(points)
    fence = centre - FENCE * width, centre + FENCE * width
    near = np.clip(points, *fence)
    first = around.means @ near
    least = ROUNDING * float(np.abs(points).max())
    usual = _local_scale(np.maximum(np.abs(near - first), least), voters) * DEVIATION / 2
    nearer = np.clip(near, first - NEAR_FENCE * usual, first + NEAR_FENCE * usual)
    slopes = np.linalg.solve(around.gram, around.moved.T @ (nearer - around.means @ nearer))
    by_trend = around.bent @ slopes
    suggested = by_trend + around.means @ (nearer - by_trend)
    if predict is not None:
        layers = np.clip(np.stack([suggested, *predict(space, near)], axis=1), *fence) - centre
        layers = np.where(
            np.isnan(layers), layers[:, :1], layers
        )  # what neighbours suggest, where nothing is predicted
        weights = nnls(layers, near - centre)[
            0
        ]  # of the sum that comes nearest to the targets, none negative
        suggested = (layers @ weights if weights.any() else layers.mean(axis=1)) + centre
    sizes = np.maximum(np.abs(points - suggested), least)
    scale = _local_scale(sizes, voters)
    # The width from the median, which a minority of wrong targets hardly moves, unless that is
    # rounding.
    width = _typical(np.where(sizes > least, sizes, 0.0) / scale) / MEDIAN_SIZE
    ground = _Ground(space, targets, nearer - by_trend, sizes, width, around.knots, slopes)
    return _Fit.of(ground, targets, suggested, scale * width)


def _local_scale(sizes: FloatVector, voters: Voters) -> FloatVector:
    """Typical size of residuals: half from the neighbours, half from all."""
    near = np.nanmedian(np.where(voters.rows >= 0, sizes[voters.rows], np.nan), axis=1)
    return np.asarray(near + _typical(sizes))


def _student_density(points: FloatVector, freedom: int) -> FloatVector:
    """Student's t, written out: scipy.stats would take longer to load than an audit takes."""
    return np.asarray(
        (1.0 + points**2 / freedom) ** (-0.5 * (freedom + 1))
        / (freedom**0.5 * beta(0.5, freedom / 2))
    )


def _slips(fit: _Fit, targets: FloatVector) -> list[float]:
    """Factors by which some targets are too large.

    A factor counts if it explains the targets plainly better than its half and its double do:
    skewed right targets are explained by all three alike.
    """
    total, found = _shares(fit.densities, [PRIOR_RIGHT, PRIOR_WRONG])[1], []

    def gain(factor: float) -> tuple[float, float]:
        joint = np.stack([total, _slip_density(fit, targets, factor)])
        _, with_slips, weights = _shares(joint, [0.99 * LITTLE, 0.01 * LITTLE])
        return float(np.log(with_slips / total).sum()), float(
            weights[1]
        )  # nats gained, and the share

    for factor in FACTORS:
        (gained, share), *beside = (gain(factor * by) for by in (1.0, BESIDE, 1 / BESIDE))
        least = max(SLIP_GAIN, SLIP_GAIN_EACH * share * len(targets))
        if gained - max(0.0, *(other for other, _ in beside)) > least and share < MOST_SLIPS:
            found.append(factor)
    return found


def _slip_density(fit: _Fit, targets: FloatVector, factor: float) -> FloatVector:
    meant, space = targets / factor, fit.ground.space
    density = (
        _student_density((space.of(meant) - fit.suggested) / fit.scale, RIGHT_FREEDOM) / fit.scale
    )
    return np.asarray(density * space.slope(meant) / (abs(factor) * space.slope(targets)))


def _shares(
    densities: FloatMatrix, prior: Sequence[float]
) -> tuple[FloatMatrix, FloatVector, FloatVector]:
    """Posterior shares of components whose weights are fitted, the density of the mixture, and the
    weights.
    """
    rows = np.array(prior)
    weights = rows / rows.sum()
    for _ in range(ROUNDS):
        joint = weights[:, None] * densities
        total = joint.sum(axis=0)
        posterior = joint / total
        weights = (posterior.sum(axis=1) + rows) / (densities.shape[1] + rows.sum())
    return posterior, total, weights


def _centre_and_width(points: FloatVector) -> tuple[float, float]:
    centre = float(np.median(points))
    return centre, DEVIATION * _typical(np.abs(points - centre))


def _typical(sizes: FloatVector) -> float:
    """The median, or the mean if half of them are the least."""
    median = float(np.median(sizes))
    return (median if median > sizes.min() else float(sizes.mean())) or 1.0
