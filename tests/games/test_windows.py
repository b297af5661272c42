"""Extreme sums of losses against sorting, and the linear programme against its corners."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from definition import SEMIVALUES
from nearworth.games.coefficients import Presence, pair_weights, rank_weights
from nearworth.games.windows import LossWindows


@pytest.mark.parametrize("weights", [rank_weights, pair_weights])
@pytest.mark.parametrize("semivalue", [*SEMIVALUES, ("beta", 3, 2), ("beta", 0.2, 7)])
def test_sums_are_those_of_the_sorted_losses(semivalue, weights):
    for n, k in ((1, 1), (2, 1), (9, 2), (9, 4), (9, 9), (9, 12), (60, 5), (60, 25)):
        sequence = weights(Presence.of(semivalue), n, k)
        windows = LossWindows(sequence)
        for after, last in product(range(0, n, 1 + n // 9), range(1, n + 1, 1 + n // 9)):
            if after < last:
                losses = np.sort(sequence.loss[after:last])
                count = np.arange(last - after + 1)
                smallest = np.concatenate([[0.0], np.cumsum(losses)])
                largest = np.concatenate([[0.0], np.cumsum(losses[::-1])])
                np.testing.assert_allclose(windows.smallest(count, after, last), smallest, rtol=0, atol=1e-15)
                np.testing.assert_allclose(windows.largest(count, after, last), largest, rtol=0, atol=1e-15)
                assert windows.falls_after(after) or np.diff(sequence.loss[after:]).max() > 0


@pytest.mark.parametrize("semivalue", SEMIVALUES)
def test_weighted_sums_stay_in_their_range(semivalue, rng):
    """Random points inside never leave the range, and filling up the largest or smallest losses reaches it."""
    n, after = 14, 3
    sequence = rank_weights(Presence.of(semivalue), n, 4)
    losses, windows = sequence.loss[after:], LossWindows(sequence)
    for _ in range(40):
        low, high = np.sort(rng.normal(size=2))
        x = rng.uniform(low, high, n - after)
        least, most = windows.range_of_weighted_sum(x.sum(), low, high, after, n)
        assert least - 1e-14 <= losses @ x <= most + 1e-14
        rest = (x.sum() - (n - after) * low) / (high - low)
        filled = low + (high - low) * np.clip(rest - np.arange(n - after), 0.0, 1.0)
        assert most == pytest.approx(np.sort(losses)[::-1] @ filled, abs=1e-14)
        assert least == pytest.approx(np.sort(losses) @ filled, abs=1e-14)
