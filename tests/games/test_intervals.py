"""Extreme sums of losses against sorting."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.definition import SEMIVALUES
from nearworth.games.coefficients import Presence, rank_weights
from nearworth.games.truncation import FarRanks


@pytest.mark.parametrize("semivalue", [*SEMIVALUES, ("beta", 3, 2), ("beta", 0.2, 7)])
def test_sums_are_those_of_the_sorted_losses(semivalue):
    for n, k in ((1, 1), (2, 1), (9, 2), (9, 4), (9, 9), (9, 12), (60, 5), (60, 25)):
        weights = rank_weights(Presence.of(semivalue), n, k)
        ranks = FarRanks(weights)
        for after in range(n):
            losses = np.sort(weights.loss[after:])
            count = np.arange(n - after + 1)
            smallest = np.concatenate([[0.0], np.cumsum(losses)])
            largest = np.concatenate([[0.0], np.cumsum(losses[::-1])])
            np.testing.assert_allclose(
                ranks.smallest_losses(count, after), smallest, rtol=0, atol=1e-15
            )
            np.testing.assert_allclose(
                ranks.largest_losses(count, after), largest, rtol=0, atol=1e-15
            )
            np.testing.assert_allclose(ranks.total_loss(after, n), losses.sum(), rtol=0, atol=1e-15)
