"""What we compare ourselves with computes the same thing."""

from __future__ import annotations

import numpy as np
import pytest

from nearworth.cli.speed import Data, packed_sort, strong_user, valuing


@pytest.mark.parametrize("baseline", [strong_user, packed_sort])
def test_baselines_are_right_to_the_precision_of_their_distances(baseline):
    data = Data.make(3_000, 70, 16)
    ours = valuing(data, utility="original")().values
    np.testing.assert_allclose(baseline(data), ours, rtol=0, atol=1e-3 * np.abs(ours).max())
