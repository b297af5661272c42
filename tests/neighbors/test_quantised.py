"""Quantised keys from products, and the bounds of their errors."""

from __future__ import annotations

import numpy as np
import pytest

from nearworth.neighbors.keys import make_keys


def quantised(keys, n_train, queries, *, single, order=None):
    """qkeys of all points; order[i] is the row at position i."""
    products = keys.products(single=True)
    order = np.arange(n_train, dtype=np.int32) if order is None else order
    space = np.empty((len(queries), n_train), np.int32)
    return products(queries, order, np.argsort(order).astype(np.int32), space, single=single)


def off_the_line(qkeys, exact):
    """How far the qkeys of a query are from the best line through them, at most."""
    scaled = (exact - exact.mean()) / np.abs(exact).max()
    slope, offset = np.polyfit(scaled, qkeys.astype(float), 1)
    return np.abs(qkeys - slope * scaled - offset).max()


def misplaced(qkeys, exact):
    """The largest difference of two qkeys that are in the wrong order."""
    ordered = qkeys[np.argsort(exact, kind="stable")]
    return int((np.maximum.accumulate(ordered) - ordered).max())


@pytest.mark.parametrize("exponent", [-1000, -400, 0, 290, 400])
def test_inner_products_stay_within_their_tolerance(rng, exponent):
    X = np.ldexp(rng.normal(size=(500, 300)), exponent)
    T = rng.normal(size=(20, 300))
    keys = make_keys(X, "inner_product", None)
    assert keys.has_products == (-430 < exponent < 300)  # beyond, exact keys of all points decide
    if not keys.has_products:
        return
    batch = quantised(keys, len(X), T, single=False)
    exact = keys(T)
    assert batch.usable.all()
    for q, own in enumerate(exact):
        assert misplaced(batch.qkeys[q], own) <= batch.tolerance[q] < 20
        assert 0 < off_the_line(batch.qkeys[q], own) <= batch.tolerance[q]
        assert np.ptp(batch.qkeys[q]) > 2**26
    rows = np.array([7, 3, 499, 3], dtype=np.int32)
    np.testing.assert_array_equal(batch.exact[5](rows), exact[5, rows])


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_stay_within_their_tolerance(rng, single, offset, dtype):
    X = (rng.normal(size=(500, 300)) + offset).astype(dtype)
    T = rng.normal(size=(20, 300)) + offset
    order = rng.permutation(500).astype(np.int32)
    keys = make_keys(X, "euclidean", None)
    batch = quantised(keys, len(X), T, single=single, order=order)
    exact = keys(T)[:, order]
    for q, own in enumerate(exact):
        assert misplaced(batch.qkeys[q], own) <= 0.375 * batch.tolerance[q] + 1
        assert 0 < off_the_line(batch.qkeys[q], own) <= 0.375 * batch.tolerance[q] + 1
        assert batch.tolerance[q] < (1e-4 if single else 1e-7) * 2**30


def test_products_of_codes_and_real_queries(rng):
    """Training data that 32 bits hold exactly, and queries that they do not."""
    codes = rng.choice([-1.0, 1.0], size=(20, 300))
    X = np.repeat(np.vstack([codes, -codes]), 60, axis=0) * np.where(
        rng.random((2_400, 300)) < 0.02, -1.0, 1.0
    )
    X[1200:] = -X[:1200]  # the mean is zero
    T = X[:64] + 0.03 * rng.normal(size=(64, 300))
    keys = make_keys(X, "euclidean", None)
    batch = quantised(keys, len(X), T, single=True)
    for qkeys, exact, tolerance in zip(batch.qkeys, keys(T), batch.tolerance, strict=True):
        assert misplaced(qkeys, exact) <= tolerance


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [(0, True), (290, True), (-400, True), (310, False), (-440, False), (-1000, False)],
)
def test_a_product_is_offered_where_squares_are_floats(rng, exponent, expected):
    """Elsewhere it would be made in vain: no query could use it."""
    X = np.ldexp(rng.uniform(1.0, 2.0, (30, 3)), exponent)
    keys = make_keys(X, "euclidean", None)
    assert keys.has_products == expected
    if expected:
        assert quantised(keys, len(X), X, single=False).usable.all()
