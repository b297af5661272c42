"""Sums over validation points: right, steady against rounding, and blind to points of weight zero."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from nearworth.results.moments import Leaf, Moments


def summed(values, weights, spread=True):
    leaf = Leaf(values.shape[1], spread=spread)
    for row, weight in zip(values, weights, strict=True):
        leaf.add_values(row, float(weight))
    return leaf


def test_large_means_do_not_drown_small_spreads(rng):
    values = 1e6 + 1e-6 * rng.normal(size=(500, 3))
    errors = summed(values, np.ones(500)).moments().standard_errors()
    np.testing.assert_allclose(errors, values.std(axis=0, ddof=1) / np.sqrt(500), rtol=1e-3)


def test_weights_of_zero_do_not_move_the_centre(rng):
    values = rng.normal(size=(6, 3))
    weights = np.array([1.0, 0, 2, 0, 0, 1])
    moments = summed(values[1:2], weights[1:2]).moments() + summed(values, weights).moments()
    assert (moments.count, moments.positive) == (7, 3)
    np.testing.assert_allclose(moments.centre, (weights**2 @ values) / (weights**2).sum(), rtol=1e-12)


@pytest.mark.parametrize("parameters", [{}, {"task": "regression"}, {"n_candidates": 9}, {"aggregate": "sum"}])
def test_a_point_of_weight_zero_is_as_if_it_were_not_there(parameters, rng):
    """Also where it comes first, and where its own values are enormous."""
    X, y, X_val = rng.normal(size=(40, 2)), rng.integers(0, 3, 40), rng.normal(size=(90, 2))
    y_val, weights = rng.integers(0, 3, 90).astype(float), rng.uniform(0.5, 2, 90)
    weights[[0, 1, 40, 64, 89]] = 0.0
    if "task" in parameters:
        y_val[[0, 40]] = 1e6
    there = weights > 0
    est = nw.KNNShapley(3, standard_errors=True, **parameters).fit(X, y)
    found, expected = est.value(X_val, y_val, weights), est.value(X_val[there], y_val[there], weights[there])
    for name in ("values", "standard_errors", "lower", "upper"):
        scale = np.abs(getattr(expected, name)).max()
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-13 * scale)
    owners = np.arange(40) % 3
    np.testing.assert_allclose(
        [row.standard_error for row in found.sum_by(owners).values()],
        [row.standard_error for row in expected.sum_by(owners).values()],
        rtol=1e-12,
    )
    assert found.n_val == 90
    alone = est.value(X_val, y_val, np.arange(90) == 7)
    assert np.isnan(alone.standard_errors).all()
    np.testing.assert_allclose(alone.values, est.value(X_val[7:8], y_val[7:8]).values, rtol=1e-13)


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("truncated", [False, True])
def test_moments_take_no_more_than_they_say(spread, truncated, rng):
    X, y = rng.normal(size=(1_000, 2)), rng.integers(0, 2, 1_000)
    est = nw.KNNShapley(3, standard_errors=spread, n_candidates=9 if truncated else None).fit(X, y)
    moments = est.value(X[:10] + 0.1, y[:10]).moments
    size = sum(array.nbytes for array in moments.arrays().values())
    said = Leaf.bytes(1_000, spread=spread, truncated=truncated)
    assert 0.75 * said <= size <= said


def test_states_that_no_sums_can_be_in(rng):
    moments = summed(rng.normal(size=(4, 3)), np.ones(4)).moments()
    numbers, arrays = moments.state()
    for wrong in ([4, 5, 1.0, 1.0], [-1, 0, 1.0, 1.0], [4, 4, np.nan, 1.0], [4, 4, 1.0], [4.0, 4, 1.0, 1.0]):
        with pytest.raises(ValueError, match="it counts|sums of weights"):
            Moments.of_state(wrong, arrays)
    for change in (
        {"spread": np.ones(2)},
        {"ends": np.ones((3, 3))},
        {"total": np.ones((1, 3))},
        {"centre": np.ones(3, "f4")},
    ):
        with pytest.raises(ValueError, match="has shape"):
            Moments.of_state(numbers, {**arrays, **change})
    with pytest.raises(ValueError, match="others are missing"):
        Moments.of_state(numbers, {"total": arrays["total"], "centre": arrays["centre"]})
    with pytest.raises(ValueError, match="others are missing"):
        Leaf.of_state(numbers, {})
