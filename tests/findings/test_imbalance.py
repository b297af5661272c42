from __future__ import annotations

import numpy as np

import nearworth as nw


def test_small_classes_come_smallest_first(rng):
    y = np.repeat(["a", "b", "c"], [150, 15, 5])
    found = nw.scan(rng.normal(size=(170, 4)), y).imbalance
    assert [len(group) for group in found.groups] == [5, 15]
    assert found.says == "2 classes with fewer than 20 rows, 1 with 10 or fewer"
    frame = found.to_frame("pandas")
    assert frame["of"].unique().tolist() == ["class c", "class b"]
    assert found.scores[0] == 0
    assert found.scores[-1] == 0.75


def test_the_group_that_makes_the_score(rng):
    """One small group is right, the labels of the others are drawn by lot."""
    X = rng.normal(size=(300, 3))
    y, groups = (X[:, 0] > 0).astype(int), np.repeat(["good", "bad"], [100, 200])
    y[100:] = rng.integers(0, 2, 200)
    X_val = rng.normal(size=(200, 3))
    found = nw.scan(X, y, X_val, (X_val[:, 0] > 0).astype(int), groups=groups).imbalance
    assert found.groups[-1].tolist() == [*range(100)]
    assert "group good makes" in found.says
    assert not nw.scan(X, y, groups=np.arange(300) % 3).imbalance.groups


def test_targets_have_no_classes(rng):
    found = nw.scan(rng.normal(size=(60, 3)), rng.normal(size=60), task="regression").imbalance
    assert not found.groups
    assert found.says == ""
