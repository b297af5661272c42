"""Warnings point at the caller's own line."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw


def test_a_warning_from_deep_inside_names_this_file():
    est = nw.KNNShapley(1).fit(np.eye(3), [0, 1, 1])
    with pytest.warns(UserWarning, match="no training point carries") as found:
        est.value(np.eye(3), [0, 1, 7])
    assert [warning.filename for warning in found] == [__file__]
