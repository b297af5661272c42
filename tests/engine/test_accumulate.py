"""Sums that do not depend on how the work was cut."""

from __future__ import annotations

import numpy as np
import pytest

from nearworth.results.moments import CHUNK, Moments
from nearworth.results.partial import Partial


def leaves(rng, count, spread=True):
    values = [rng.normal(size=(CHUNK, 5)) * 10.0 ** rng.integers(-8, 8) for _ in range(count)]
    weights = [rng.uniform(0, 2, CHUNK) for _ in range(count)]
    return [Moments.of(v, w, spread=spread) for v, w in zip(values, weights, strict=True)], values, weights


def same(a, b):
    assert (a.count, a.weight, a.weight_squares) == (b.count, b.weight, b.weight_squares)
    for name in ("total", "centre", "spread"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 13])
def test_any_order_and_any_grouping_bit_for_bit(count, rng):
    moments, _, _ = leaves(rng, count)
    straight = Partial()
    for i, m in enumerate(moments):
        straight.add(i, m)
    expected = straight.finish()
    for _ in range(10):
        parts = [Partial() for _ in range(3)]
        for i in rng.permutation(count):
            parts[rng.integers(3)].add(int(i), moments[i])
        order = rng.permutation(3)
        merged = parts[order[0]].merge([parts[order[1]].merge([parts[order[2]]])])
        same(merged.finish(), expected)


def test_the_sum_is_right(rng):
    moments, values, weights = leaves(rng, 11)
    partial = Partial()
    for i, m in enumerate(moments):
        partial.add(i, m)
    result = partial.finish()
    V, w = np.vstack(values), np.concatenate(weights)
    mean = w @ V / w.sum()
    n = len(w)
    np.testing.assert_allclose(result.total / result.weight, mean, rtol=1e-12)
    np.testing.assert_allclose(
        result.standard_errors(), np.sqrt(n / (n - 1) * (w**2 @ (V - mean) ** 2)) / w.sum(), rtol=1e-12
    )


def test_work_in_order_keeps_few_nodes(rng):
    partial = Partial()
    moment = Moments.of(rng.normal(size=(2, 3)), np.ones(2), spread=False)
    for i in range(1000):
        partial.add(i, moment)
        assert len(partial._nodes) <= 10  # log2(1000)


def test_nothing_is_counted_twice(rng):
    moment = Moments.of(rng.normal(size=(2, 3)), np.ones(2), spread=False)
    partial = Partial()
    partial.add(3, moment)
    with pytest.raises(ValueError, match="leaf 3 were already added"):
        partial.add(3, moment)


def test_large_means_do_not_drown_small_spreads(rng):
    values = 1e6 + 1e-6 * rng.normal(size=(500, 3))
    moments = Moments.of(values, np.ones(500), spread=True)
    np.testing.assert_allclose(moments.standard_errors(), values.std(axis=0, ddof=1) / np.sqrt(500), rtol=1e-3)


def test_weights_of_zero_change_nothing_but_the_count(rng):
    values = rng.normal(size=(6, 3))
    weights = np.array([1.0, 0, 2, 0, 0, 1])
    with_zeros = Moments.of(values[1:2], weights[1:2], spread=True) + Moments.of(values, weights, spread=True)
    np.testing.assert_allclose(with_zeros.centre, (weights**2 @ values) / (weights**2).sum(), rtol=1e-12)
