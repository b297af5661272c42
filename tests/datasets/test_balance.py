"""Two classes of equal size."""

from __future__ import annotations

import numpy as np

from nearworth.datasets import balance


def test_balance_repeats_the_smaller_class(rng):
    for minority in (0, 1):
        y = np.where(rng.permutation(100) < 30, minority, 1 - minority)
        X = np.arange(100)[:, None]
        rows, labels = balance(X, y)
        assert np.bincount(labels).tolist() == [70, 70]
        assert set(rows.ravel()) == set(range(100))
        np.testing.assert_array_equal(y[rows.ravel()], labels)
        assert np.unique(rows[labels != minority]).size == 70
