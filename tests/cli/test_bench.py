"""nearworth bench: its table, and a baseline that computes the same thing."""

from __future__ import annotations

import re

import numpy as np

from helpers.command_line import installed
from nearworth.cli.bench import Blobs, strong_user, valuing


def test_the_numpy_user_is_right_to_the_precision_of_the_distances():
    data = Blobs.make(3_000, 70, 16)
    ours = valuing(data, utility="original")().values
    np.testing.assert_allclose(strong_user(data), ours, rtol=0, atol=1e-3 * np.abs(ours).max())


def test_bench_speed_prints_its_table():
    done = installed("bench", "speed", "--quick")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all(re.search(r"\d+\.\d+ +\d+\.\d+ +\d+\.\d+   ", line) for line in lines[1:])
