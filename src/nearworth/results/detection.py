"""Rules that turn values into suspects.

Equal values are treated alike, so that "ranking" may flag fewer rows than asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolVector, FloatVector, IntVector
from nearworth.inputs.parameters import condition, is_real, one_of

RULES = ("ranking", "cluster", "lower-cluster")
DEFAULT_FRACTION = 0.1
# Splits whose scores differ by less than rounding are equally good. Of these, the split that flags
# the fewest rows is taken.
MAX_RELATIVE_ROUNDING = 1e-12
# Digits of a number of rows to keep before it is rounded down: 0.29 * 100 is 28.999999999999996.
COUNT_DIGITS = 6

check_fraction = condition(
    lambda x: is_real(x) and 0 <= x <= 1,
    "a number from 0 to 1, the share of rows to flag",
    ValueError,
)


@dataclass(frozen=True, eq=False, repr=False)
class Detection:
    """Rows that a rule flags: those whose value is strictly below a threshold.

    `len()` is the number of flagged rows. For the worst first, `valuation.bottom(len(detection))`
    has the same rows.

    Attributes
    ----------
    mask : bool ndarray of shape (N,)
        Which rows are flagged.
    threshold : float
        Rows of lower value are flagged.
    rule : {"ranking", "cluster", "lower-cluster"}
        See `Valuation.detect`.
    fraction : float or None
        The share of rows asked for. None for the other rules.
    indices : ndarray
        Numbers of the flagged rows, in order.
    """

    mask: BoolVector
    threshold: float
    rule: str
    fraction: float | None = None

    @property
    def indices(self) -> IntVector:
        """Numbers of the flagged rows, in order."""
        return np.flatnonzero(self.mask)

    def __len__(self) -> int:
        return int(np.count_nonzero(self.mask))

    def __repr__(self) -> str:
        flagged = f"{len(self):,} of {len(self.mask):,} rows flagged"
        return f"Detection({self.rule!r}): {flagged}, value below {self.threshold:.6g}"


class TwoMeans(NamedTuple):
    """The best two clusters of numbers.

    Attributes
    ----------
    lower_center, upper_center : float
        Means of the clusters.
    boundary : float
        Numbers from here on belong to the upper cluster.
    """

    lower_center: float
    upper_center: float
    boundary: float


def detect(
    values: npt.ArrayLike, rule: str = "ranking", *, fraction: float | None = None
) -> Detection:
    """Flag low values, as `Valuation.detect` does."""
    one_of(*RULES)("rule", rule)
    values = np.asarray(values, dtype=np.float64)
    if rule == "ranking":
        return _lowest(values, DEFAULT_FRACTION if fraction is None else fraction)
    if fraction is not None:
        raise ValueError(
            f"fraction={fraction!r} has no meaning for rule={rule!r}, which finds its own. Leave it"
            " out."
        )
    clusters = two_means(values)
    threshold = clusters.lower_center if rule == "cluster" else clusters.boundary
    return Detection(values < threshold, threshold, rule)


def _lowest(values: FloatVector, fraction: float) -> Detection:
    """Flag this share of the rows, or fewer where values tie with the next one."""
    check_fraction("fraction", fraction)
    count = math.floor(round(float(fraction) * len(values), COUNT_DIGITS))
    threshold = float(np.sort(values)[count]) if count < len(values) else math.inf
    return Detection(values < threshold, threshold, "ranking", float(fraction))


def two_means(values: FloatVector) -> TwoMeans:
    """The exact optimum of 2-means for numbers, in O(N log N)."""
    ordered = np.sort(values)
    if ordered[0] == ordered[-1]:
        # One cluster, and no value lies below its center.
        center = float(ordered[0])
        return TwoMeans(center, center, center)
    n_lower = _best_split(ordered)
    lower = ordered[:n_lower]
    upper = ordered[n_lower:]
    lower_center = _mean_within(lower)
    upper_center = _mean_within(upper)
    # Rounding must not move the boundary, which lies strictly between the clusters, across a row.
    middle = lower_center + (upper_center - lower_center) / 2
    above_lower = float(np.nextafter(lower[-1], np.inf))
    boundary = min(max(middle, above_lower), float(upper[0]))
    return TwoMeans(lower_center, upper_center, boundary)


def _best_split(ordered: FloatVector) -> int:
    """How many of these ordered numbers, which are not all equal, are in the lower cluster."""
    # On a scale from 0 to 1, squares of huge or tiny values stay finite.
    deviations = ordered - ordered[0]
    deviations /= deviations[-1]
    deviations -= deviations.mean()

    # With S the sum of the first k deviations, the sum of squares between the clusters of a split
    # after k values is S^2 n / (k (n - k)). Its maximum is the optimum of 2-means.
    n = len(ordered)
    k = np.arange(1, n)
    S = np.cumsum(deviations)[:-1]
    between = S**2 / (k * (n - k))
    # Equal values stay together.
    between[ordered[1:] == ordered[:-1]] = -1.0
    is_best = between >= between.max() * (1 - MAX_RELATIVE_ROUNDING)
    return int(np.argmax(is_best)) + 1


def _mean_within(ordered: FloatVector) -> float:
    """The mean of ordered numbers, which rounding must not move out of their range."""
    return float(np.clip(ordered.mean(), ordered[0], ordered[-1]))
