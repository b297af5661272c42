"""The typical error of approximate values: its root mean square over training rows, from a sample.

Of M validation points, S drawn at random are searched exactly and m of these are also valued
exactly. With weight w_q, W the sum of all weights, and both times minus the exact values of q,

    a_q    w_q/W times the values of q that enter the mean if q is among the S
    d_q    w_q/W times those that enter it if q is not,

the error of the mean is E = (sum of a_q over the S) + (sum of d_q over the others). A point is
among the S with probability S/M, a pair with S(S-1)/(M(M-1)), and so on, so the expected square of
E is the sum over points of (S/M) |a_q|^2 + (1 - S/M) |d_q|^2, and over pairs q != r of the like
products. The m points are a random sample too: means over them and over their pairs, times M and
M(M-1), estimate these sums without bias. With b_q = S a_q + (M-S) d_q

    mean over q of (S |a_q|^2 + (M-S) |d_q|^2)
        + mean over q != r of (b_q b_r - S a_q a_r - (M-S) d_q d_r).

No square of a single point enters the second mean. That keeps the noise of few points out of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector

# The confidence level of the interval, and the quantile of the normal distribution that belongs to
# it.
LEVEL = 0.95
QUANTILE = 1.96
# Validation points that are valued exactly.
MIN_POINTS = 64
MAX_POINTS = 256
# Values of these points that are kept.
MAX_ENTRIES = 2**23
# Under a limit of memory, one entry is allowed for so many bytes of it.
BYTES_PER_ENTRY = 64


class TypicalError(NamedTuple):
    """An estimate of the mean square, over training rows, of the error of the mean value.

    Attributes
    ----------
    square : float
        The estimate. It is unbiased, so it may be negative where the error is small.
    margin : float
        Half the length of its interval.
    """

    square: float
    margin: float

    @property
    def root(self) -> float:
        """Root mean square error."""
        return float(max(self.square, 0.0) ** 0.5)

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends of the interval of the root mean square error."""
        low = max(self.square - self.margin, 0.0)
        high = max(self.square + self.margin, 0.0)
        return low**0.5, high**0.5

    def times(self, factor: float) -> TypicalError:
        """The estimate for values multiplied by a factor."""
        return TypicalError(self.square * factor**2, self.margin * factor**2)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.root:.2g} ({LEVEL:.0%} interval {low:.2g} to {high:.2g})"


def sample_sizes(n_val: int, n_train: int, max_memory: int | None = None) -> tuple[int, int]:
    """How many validation points are valued exactly, and for how many training rows.

    Parameters
    ----------
    n_val, n_train : int
        Numbers of validation points and of training rows.
    max_memory : int, optional
        Bytes.

    Returns
    -------
    n_points, n_rows : int
        All training rows, unless `n_points` of them would be too many values.
    """
    max_entries = MAX_ENTRIES
    if max_memory is not None:
        max_entries = min(MAX_ENTRIES, max_memory // BYTES_PER_ENTRY)
    n_points = min(n_val, max(MIN_POINTS, min(MAX_POINTS, max_entries // n_train)))
    n_rows = max(1, min(n_train, max_entries // n_points))
    return n_points, n_rows


def estimate_error(a: FloatMatrix, d: FloatMatrix, n_exact: int, n_val: int) -> TypicalError:
    """Estimate the typical error, with the symbols of this module.

    Parameters
    ----------
    a, d : array of shape (m, rows)
        a_q and d_q of the sampled validation points.
    n_exact : int
        S, how many validation points were searched exactly.
    n_val : int
        M, how many validation points there are.
    """
    m = len(a)
    n_rows = a.shape[1]
    n_others = n_val - n_exact
    # The sample has all points, so that the error is known.
    if m == n_val:
        return TypicalError(float((a.sum(axis=0) ** 2).mean()), 0.0)

    squares = (n_exact * _squares(a) + n_others * _squares(d)) / n_rows
    b = n_exact * a + n_others * d
    pairs = _pair_products(b) - n_exact * _pair_products(a) - n_others * _pair_products(d)
    pairs /= n_rows
    estimate = squares.mean() + pairs.sum() / (m * (m - 1))

    # The jackknife, which leaves out one point at a time, estimates the variance over samples.
    without_squares = (squares.sum() - squares) / (m - 1)
    without_pairs = (pairs.sum() - 2 * pairs) / ((m - 1) * (m - 2))
    jackknife = (without_squares + without_pairs).var()
    # The error to estimate is that of these very validation points. Where all enter the mean in the
    # same way, the sample is part of them. Else it stands for the others, whose own variance is
    # added.
    share_unknown = (n_val - m) / n_val
    variance = (m - 1) * jackknife * (share_unknown if n_exact == n_val else 1 / share_unknown)
    return TypicalError(float(estimate), QUANTILE * float(np.sqrt(variance)))


def _squares(rows: FloatMatrix) -> FloatVector:
    """The sum of squares of each row."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _pair_products(rows: FloatMatrix) -> FloatVector:
    """The scalar product of each row with the sum of the other rows."""
    return np.asarray(rows @ rows.sum(axis=0) - _squares(rows))
