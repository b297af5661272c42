"""Digits with wrong labels, to try things on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, IntVector


class NoisyDigits(NamedTuple):
    """Handwritten digits, some of whose training labels were changed to a wrong one."""

    X: FloatMatrix
    y: npt.NDArray[np.int64]
    X_val: FloatMatrix
    y_val: npt.NDArray[np.int64]
    flipped: IntVector


def noisy_digits(fraction: float = 0.1, random_state: int = 0) -> NoisyDigits:
    """scikit-learn's 1,797 digits (8 x 8 pixels): two thirds to train on, with wrong labels, one third to validate.

    >>> digits = noisy_digits()
    >>> digits.X.shape, digits.X_val.shape, len(digits.flipped)
    ((1198, 64), (599, 64), 120)
    """
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(random_state)
    order = rng.permutation(len(y))
    train, val = order[: len(y) * 2 // 3], order[len(y) * 2 // 3 :]
    flipped = np.sort(rng.choice(len(train), size=round(fraction * len(train)), replace=False))
    noisy = y[train].copy()
    noisy[flipped] = (noisy[flipped] + rng.integers(1, 10, size=len(flipped))) % 10
    return NoisyDigits(X[train], noisy, X[val], y[val], flipped)
