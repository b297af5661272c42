"""Rules that turn values into suspects. Equal values are judged alike, so that "ranking" may flag
fewer than asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatVector, IntVector
from nearworth.inputs.parameters import condition, is_real, one_of

RULES = ("ranking", "cluster", "lower-cluster")
DEFAULT_FRACTION = 0.1
# Splits whose scores differ by less than rounding are equally good; then the one that flags fewer
# rows is taken.
ROUNDING = 1e-12

check_fraction = condition(
    lambda x: is_real(x) and 0 <= x <= 1,
    "a number from 0 to 1, the share of rows to flag",
    ValueError,
)


@dataclass(frozen=True, eq=False, repr=False)
class Detection:
    """Rows that a rule flags: those whose value is strictly below `threshold`.

    `mask` has one entry per training row; `len()` is the number of flagged rows and `indices` are
    their numbers. For the worst first: `valuation.bottom(len(detection))` holds the same rows.
    """

    mask: npt.NDArray[np.bool_]
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


def detect(
    given: npt.ArrayLike, rule: str = "ranking", *, fraction: float | None = None
) -> Detection:
    """What `Valuation.detect` does, for any values; the two clusters are the exact optimum of
    2-means.
    """
    one_of(*RULES)("rule", rule)
    values = np.asarray(given, dtype=np.float64)
    if rule == "ranking":
        share = DEFAULT_FRACTION if fraction is None else fraction
        check_fraction("fraction", share)
        count = math.floor(round(float(share) * len(values), 6))  # 0.29 * 100 is 28.999999999999996
        threshold = float(np.sort(values)[count]) if count < len(values) else math.inf
        return Detection(values < threshold, threshold, rule, float(share))
    if fraction is not None:
        raise ValueError(
            f"fraction={fraction!r} has no meaning for rule={rule!r}, which finds its own. Leave it"
            " out."
        )
    centre, _, boundary = two_means(values)
    threshold = centre if rule == "cluster" else boundary
    return Detection(values < threshold, threshold, rule)


def two_means(values: FloatVector) -> tuple[float, float, float]:
    """Both centres of the best two clusters, and where the upper one begins to be nearer, in O(N
    log N).
    """
    ordered = np.sort(values)
    if ordered[0] == ordered[-1]:
        return (float(ordered[0]),) * 3  # one cluster, and nothing lies below it
    n = len(ordered)
    deviations = ordered - ordered[0]
    deviations /= deviations[-1]  # squares of huge or tiny values stay finite
    deviations -= deviations.mean()
    # For all splits the sum of squares between clusters: with S the sum of the first k deviations,
    # S^2 n / (k (n - k)).
    sizes = np.arange(1, n)
    between = np.cumsum(deviations)[:-1] ** 2 / (sizes * (n - sizes))
    between[ordered[1:] == ordered[:-1]] = -1.0  # equal values stay together
    n_lower = int(np.argmax(between >= between.max() * (1 - ROUNDING))) + 1
    lower, upper = ordered[:n_lower], ordered[n_lower:]
    # Rounding must not move a mean out of its cluster, nor the middle, which lies strictly between
    # them, across a row.
    below, above = (
        float(np.clip(cluster.mean(), cluster[0], cluster[-1])) for cluster in (lower, upper)
    )
    middle = below + (above - below) / 2
    boundary = min(max(middle, float(np.nextafter(lower[-1], np.inf))), float(upper[0]))
    return below, above, boundary
