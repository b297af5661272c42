"""The typical error of approximate values: its root mean square over training rows, estimated from
a sample.

Of M validation points, S drawn at random are searched exactly and m of these are also valued
exactly. With weight w_q, W the sum of all weights, and both times minus the exact values of q,

    a_q    w_q/W times the values of q that enter the mean if q is among the S
    d_q    w_q/W times those that enter it if q is not,

the error of the mean is E = (sum of a_q over the S) + (sum of d_q over the others). A point is
among the S with probability S/M, a pair with S(S-1)/(M(M-1)), and so on, so the expected square of
E is the sum over points of (S/M) |a_q|^2 + (1 - S/M) |d_q|^2, and over pairs q != r of the like
products. The m points are a random sample too: means over them and over their pairs, times M and
M(M-1), estimate these sums without bias. With b_q = S a_q + (M-S) d_q

    mean over q of (S |a_q|^2 + (M-S) |d_q|^2)  +  mean over q != r of (b_q b_r - S a_q a_r - (M-S)
    d_q d_r).

No square of a single point enters the second mean: that is what keeps the noise of few points out
of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector

LEVEL, QUANTILE = 0.95, 1.96  # of the interval
LEAST, MOST, ENTRIES = (
    64,
    256,
    2**23,
)  # validation points valued exactly, and the most values of them that are kept


class TypicalError(NamedTuple):
    """The mean square over training rows of the error of the mean value, and half the length of its
    interval.
    """

    square: float
    margin: float

    @property
    def root(self) -> float:
        return float(
            max(self.square, 0.0) ** 0.5
        )  # an estimate without bias may be negative where the error is small

    @property
    def interval(self) -> tuple[float, float]:
        low, high = (max(self.square + sign * self.margin, 0.0) for sign in (-1, 1))
        return low**0.5, high**0.5

    def times(self, factor: float) -> TypicalError:
        return TypicalError(self.square * factor**2, self.margin * factor**2)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.root:.2g} ({LEVEL:.0%} interval {low:.2g} to {high:.2g})"


def sample_sizes(n_val: int, n_train: int, max_memory: int | None = None) -> tuple[int, int]:
    """How many validation points are valued exactly, and for how many training rows: all, unless
    these are many.
    """
    entries = ENTRIES if max_memory is None else min(ENTRIES, max_memory // 64)
    size = min(n_val, max(LEAST, min(MOST, entries // n_train)))
    return size, max(1, min(n_train, entries // size))


def estimate_error(kept: FloatMatrix, found: FloatMatrix, n_kept: int, n_all: int) -> TypicalError:
    """From a_q (`kept`) and d_q (`found`) of the sample, (points, rows), where S = n_kept and M =
    n_all.
    """
    m, others = len(kept), n_all - n_kept
    if m == n_all:  # nothing is left to estimate
        return TypicalError(float((kept.sum(axis=0) ** 2).mean()), 0.0)
    alone = (n_kept * _squares(kept) + others * _squares(found)) / kept.shape[1]
    pairs = _pairs(n_kept * kept + others * found) - n_kept * _pairs(kept) - others * _pairs(found)
    pairs /= kept.shape[1]
    square = alone.mean() + pairs.sum() / (m * (m - 1))
    without = (alone.sum() - alone) / (m - 1) + (pairs.sum() - 2 * pairs) / ((m - 1) * (m - 2))
    # The jackknife tells the spread over samples. The error aimed at is that of these very
    # validation points: where all enter alike the sample is part of them, else it stands for the
    # others, whose own spread comes on top.
    unknown = (n_all - m) / n_all
    variance = (m - 1) * without.var() * (unknown if n_kept == n_all else 1 / unknown)
    return TypicalError(float(square), QUANTILE * float(np.sqrt(variance)))


def _squares(rows: FloatMatrix) -> FloatVector:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _pairs(rows: FloatMatrix) -> FloatVector:
    """The product of each row with the sum of the others."""
    return np.asarray(rows @ rows.sum(axis=0) - _squares(rows))
