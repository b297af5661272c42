"""The compiled loops of classification, run as plain Python where their steps are to be counted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nearworth

COUNT_LINES = """
import threading
import numpy as np
import nearworth as nw
import nearworth._common.compile as module

module.compiled = lambda function: function  # before any kernel is imported

def lines_run(n):
    count = 0
    def trace(frame, event, _):
        nonlocal count
        count += event == "line" and frame.f_code.co_filename.endswith("kernels.py")
        return trace
    est = nw.KNNShapley(2, metric="precomputed", n_jobs=1).fit(None, np.arange(n) % 2)
    est.value(np.zeros((1, n)), [0])
    threading.settrace(trace)
    est.value(np.zeros((1, n)), [0])
    threading.settrace(None)
    return count

print(lines_run(100), lines_run(800))
"""


def test_the_work_for_a_tie_grows_with_its_size_not_with_its_square():
    """All points at one distance, the kernels without their compiler: executed lines, not seconds."""
    environment = os.environ | {"PYTHONPATH": str(Path(nearworth.__file__).parents[1])}
    command = [sys.executable, "-c", COUNT_LINES]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    small, large = map(int, done.stdout.split())
    assert small > 100
    assert large < 12 * small  # eight times the points
