"""Values under other labels by changing them, and what an explanation says."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from nearworth.audit.explain import effects_of


@pytest.mark.parametrize("utility", ["soft", "original"])
@pytest.mark.parametrize("with_validation", [False, True])
@pytest.mark.parametrize("k", [1, 3, 40])
def test_value_under_other_labels(rng, k, with_validation, utility):
    """The same as valuing again with the label changed."""
    X = rng.integers(0, 4, (25, 2)).astype(float)  # ties and duplicates
    y = rng.integers(0, 3, 25)
    y[:6] = 0, 0, 1, 1, 2, 2
    validation = (
        (rng.integers(0, 4, (8, 2)).astype(float), rng.integers(0, 3, 8))
        if with_validation
        else (None, None)
    )
    estimator = nw.KNNShapley(k, utility=utility, n_classes=3).fit(X, y)
    for row in (0, 7):
        on_others, under = effects_of(estimator, row, *validation)
        for label in range(3):
            changed = y.copy()
            changed[row] = label
            values = (
                nw.KNNShapley(k, utility=utility, n_classes=3)
                .fit(X, changed)
                .value(*validation)
                .values
            )
            np.testing.assert_allclose(under[label], values[row], atol=1e-12)
        single = estimator.value(*validation, contributions=[row]).contributions[:, 0]
        np.testing.assert_allclose(on_others, single, atol=1e-12)


def test_explanation_names_those_helped_and_hurt(rng):
    X = np.concatenate([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 8])
    y = np.repeat(["left", "right"], 20)
    y[0] = "right"
    audit = nw.audit_labels(X, y, n_neighbors=4)
    why = audit.explain(0)
    assert why.suggested == "left"
    assert all(neighbour.label == "left" for neighbour in why.neighbors)
    assert all(np.diff([neighbour.distance for neighbour in why.neighbors]) >= 0)
    assert {effect.label for effect in why.hurt} == {"left"}
    assert why.value_by_label["left"] > 0 > why.value_by_label["right"]
    np.testing.assert_allclose(why.value_by_label["right"], why.value, atol=1e-12)
    assert "labelled right" in why.sentence
    assert "as left it would be worth" in str(why)
    i = 0
    j = why.neighbors[0].row
    np.testing.assert_allclose(why.neighbors[0].distance, np.linalg.norm(X[i] - X[j]))
