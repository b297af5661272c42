"""Approximate keys and the bounds of their errors."""

from __future__ import annotations

import numpy as np
import pytest

from nearworth.neighbors.keys import make_keys
from nearworth.neighbors.products import panel_size


def approximate_keys(batch):
    panels = batch.panels(np.empty(panel_size(batch.n_queries, batch.width)))
    return np.hstack([panel.astype(float) for _, panel in panels]) + batch.norms


@pytest.mark.parametrize("exponent", [-1000, -564, 0, 300])
def test_inner_products_stay_within_their_tolerance(rng, exponent):
    X, T = np.ldexp(rng.normal(size=(500, 300)), exponent), rng.normal(size=(20, 300))
    keys = make_keys(X, "inner_product", None)
    batch, exact = keys.products(single=True)(T, single=False), keys(T)
    errors = np.abs(approximate_keys(batch) - exact)
    assert errors.max() > 0
    assert (errors <= 0.5 * batch.tolerance[:, None]).all()
    assert (batch.tolerance < 1e-12 * batch.high).all()
    assert (np.abs(exact) <= batch.high[:, None]).all()
    assert batch.usable.all()
    rows = np.array([7, 3, 499, 3], dtype=np.int32)
    np.testing.assert_array_equal(batch.exact[5](rows), exact[5, rows])


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_distances_stay_within_their_tolerance(rng, single, offset):
    X, T = rng.normal(size=(500, 300)) + offset, rng.normal(size=(20, 300)) + offset
    keys = make_keys(X, "euclidean", None)
    batch, exact = keys.products(single=True)(T, single=single), keys(T)
    errors = np.abs(approximate_keys(batch) - batch.low[:, None] - exact)
    assert errors.max() > 0
    assert (errors <= 0.375 * batch.tolerance[:, None]).all()
    assert (batch.tolerance < (1e-4 if single else 1e-7) * (batch.high - batch.low)).all()


def test_a_bound_that_does_not_hold_is_noticed(rng):
    X, T = rng.normal(size=(50, 3)), rng.normal(size=(2, 3))
    batch = make_keys(X, "euclidean", None).products(single=True)(T, single=True)
    rows, keys = np.arange(50, dtype=np.int32), approximate_keys(batch)[1]
    np.testing.assert_allclose(batch.resolve(1, rows, keys), ((X - T[1]) ** 2).sum(axis=1), rtol=1e-14)
    keys[17] += batch.tolerance[1]
    assert batch.resolve(1, rows, keys) is None


@pytest.mark.parametrize(
    ("exponent", "expected"), [(0, True), (290, True), (-400, True), (310, False), (-440, False), (-1000, False)]
)
def test_a_product_is_offered_where_squares_are_floats(rng, exponent, expected):
    """Elsewhere it would be made in vain: no query could use it."""
    X = np.ldexp(rng.uniform(1.0, 2.0, (30, 3)), exponent)
    keys = make_keys(X, "euclidean", None)
    assert keys.has_products == expected
    if expected:
        assert keys.products(single=True)(X, single=False).usable.all()
