"""Plans for data that are not here yet: only their shape is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearworth.engine.calibrate import TRIAL_POINTS
from nearworth.engine.plan import Plan
from nearworth.estimator import KNNShapley


def plan_for(n_train: int, n_val: int, n_features: int, n_classes: int, parameters: Mapping[str, Any]) -> Plan:
    """The plan of a valuation of so many rows, tried out on fewer random ones; parameters are those of KNNShapley."""
    rng = np.random.default_rng(0)
    n_tried = min(n_train, TRIAL_POINTS, max(64, 2**25 // n_features))
    X, y = rng.normal(size=(n_tried, n_features)), rng.integers(0, n_classes, n_tried)
    return KNNShapley(**parameters).fit(X, y).plan(n_val, n_train=n_train)
