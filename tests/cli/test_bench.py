"""nearworth bench: its table, and baselines that compute the same thing."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cli.command_line import installed
from nearworth.cli.bench import Blobs, packed_sort, strong_user, valuing


@pytest.mark.parametrize("baseline", [strong_user, packed_sort])
def test_baselines_are_right_to_the_precision_of_their_distances(baseline):
    data = Blobs.make(3_000, 70, 16)
    ours = valuing(data, utility="original")().values
    np.testing.assert_allclose(baseline(data), ours, rtol=0, atol=1e-3 * np.abs(ours).max())


def test_bench_speed_prints_its_table():
    done = installed("bench", "speed", "--quick")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 9
    assert all(re.search(r"\d+\.\d+ +\d+\.\d+ +\d+\.\d+   ", line) for line in lines[1:])
