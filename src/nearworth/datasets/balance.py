"""Two classes of equal size, the paper's way."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import IntVector

SEED = 999  # the authors' seed, throughout their experiment


def balance(
    X: npt.NDArray[Any], y: npt.NDArray[np.int64], rng: np.random.RandomState | None = None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Repeat rows of the smaller of the classes 0 and 1 until both have the same size, and shuffle all.

    Rows to repeat are drawn with replacement, by the authors' seed unless `rng` is given. The paper's text speaks of
    subsampling; the digits of its table come from this oversampling. Repeated rows are exact copies: do not split the
    result and take the parts for independent.
    """
    rng = np.random.RandomState(SEED) if rng is None else rng
    smaller = rows_of(y, smaller_class(y))
    drawn = rng.choice(smaller, size=len(y) - 2 * len(smaller), replace=True)
    order = np.concatenate([np.arange(len(y)), drawn])[rng.permutation(len(y) + len(drawn))]
    return X[order], y[order]


def smaller_class(y: npt.NDArray[np.int64]) -> int:
    """Which of the classes 0 and 1 has fewer rows; 0 when they are equal."""
    return int(2 * np.count_nonzero(y) < len(y))


def rows_of(y: npt.NDArray[Any], label: int) -> IntVector:
    return np.flatnonzero(y == label)
