"""Truncated regression: the mean over all far orders, and an interval that holds all of them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from definition import SEMIVALUES, UTILITIES, defined_values, utility_function
from nearworth.games.far_residuals import FarResiduals, PairSums
from nearworth.games.regression import RegressionGame
from nearworth.games.ties import TieBlocks
from nearworth.games.truncated_regression import TruncatedRegression, evaluate


def exact_values(game, targets, target, first=None):
    first = np.ones(targets.shape, dtype=bool) if first is None else first
    return game.values(targets, target, TieBlocks(first))


def random_targets(n, rng):
    """Targets of many kinds: offsets, outliers, few values, and a query inside or outside their range."""
    y = rng.normal(size=n) * rng.choice([0.1, 1.0, 4.0])
    y = rng.choice([y, np.round(y), y**3]) + rng.choice([0.0, 3.0, -5.0])
    return y, float(rng.choice([rng.normal(), y[0], 6.0]))


def of_far(row, targets):
    """Value, lower and upper of far points with these targets (F,), one query."""
    return [evaluate(part[0], targets - row.center) for part in row.far]


@pytest.mark.parametrize("semivalue", SEMIVALUES)
@pytest.mark.parametrize("utility", UTILITIES)
def test_all_far_orders(utility, semivalue, rng):
    """Mean and interval over every order of the far points; all K and K* for N up to 6, some for N = 7."""
    cases = [(n, v, k) for n in range(1, 7) for v in range(1, n + 3) for k in range(n + 1)]
    some = rng.choice(len(cases), 60, replace=False)
    for n, n_neighbors, k in [*(cases[i] for i in some), (7, 2, 1), (7, 3, 2), (7, 9, 3)]:
        game = RegressionGame(n, n_neighbors, utility, semivalue)
        y, target = random_targets(n, rng)
        order = np.array([[*range(k), *far] for far in permutations(range(k, n))])
        ranked = exact_values(game, y[order], np.full(len(order), target))
        values = np.empty_like(ranked)
        np.put_along_axis(values, order, ranked, axis=1)
        row = TruncatedRegression(game, y).rows(y[None, :k], None, np.array([target]))
        found = [np.concatenate([near[0], far]) for near, far in zip(row.near, of_far(row, y[k:]), strict=True)]
        tolerance = 1e-12 * (1 + np.abs(values).max() + target**2)
        np.testing.assert_allclose(found[0], values.mean(axis=0), rtol=0, atol=tolerance)
        assert (found[1] <= values.min(axis=0) + tolerance).all()
        assert (found[2] >= values.max(axis=0) - tolerance).all()


@pytest.mark.parametrize("utility", UTILITIES)
def test_against_the_definition(utility, rng):
    """Everything ranked but one: exact, from utilities and subsets alone."""
    n = 6
    for n_neighbors in (1, 2, 4, 8):
        y, target = rng.integers(-8, 9, n) / 4, 0.75
        game = RegressionGame(n, n_neighbors, utility)
        utility_of = utility_function("regression", utility, list(range(n)), y.tolist(), target, n_neighbors, 2)
        truth = defined_values(utility_of, n, "shapley")
        for k in (n - 1, n):
            row = TruncatedRegression(game, y).rows(y[None, :k], None, np.array([target]))
            for near, far in zip(row.near, of_far(row, y[k:]), strict=True):
                np.testing.assert_allclose(np.concatenate([near[0], far]), truth, rtol=0, atol=1e-12)


@pytest.mark.parametrize("utility", UTILITIES)
def test_ties_near_and_far(utility, rng):
    n = 12
    for _ in range(60):
        semivalue = SEMIVALUES[rng.integers(len(SEMIVALUES))]
        game = RegressionGame(n, int(rng.integers(1, n + 3)), utility, semivalue)
        y, target = random_targets(n, rng)
        first = rng.random((1, n)) < 0.5
        first[0, 0] = True
        truth = exact_values(game, y[None], np.array([target]), first)[0]
        tolerance = 1e-11 * (1 + np.abs(truth).max() + target**2)
        for k in (*np.flatnonzero(first), n):
            row = TruncatedRegression(game, y).rows(y[None, :k], first[:, :k], np.array([target]))
            _, lower, upper = (
                np.concatenate([near[0], far]) for near, far in zip(row.near, of_far(row, y[k:]), strict=True)
            )
            assert (lower <= truth + tolerance).all()
            assert (truth <= upper + tolerance).all()


@pytest.mark.parametrize("semivalue", SEMIVALUES)
def test_the_quadratic_part_alone(semivalue, rng):
    """Far residuals of mean 0 and a near one of 0: all that moves is sum f_l x_l (x_{k+1} + ... + x_{l-1})."""
    for n, n_neighbors, k in ((3, 2, 1), (8, 3, 6), (40, 5, 38), (9, 4, 5), (9, 5, 3), (60, 3, 56)):
        weights = RegressionGame(n, n_neighbors, "soft", semivalue).pair
        x = rng.normal(size=n - k) ** int(rng.integers(1, 4))
        x -= x.mean()
        far = FarResiduals(n - k, *(np.array([part]) for part in (x.sum(), x @ x, x.min(), x.max())))
        order = np.array(list(permutations(x)))
        sums = (weights.loss[k:] * order * (np.cumsum(order, axis=1) - order)).sum(axis=1)
        moved = sums.mean() - sums
        found = PairSums(weights).near_range(k, np.zeros((1, 1)), np.zeros(1), far)
        assert found.low[0, 0] <= moved.min() + 1e-14
        assert found.high[0, 0] >= moved.max() - 1e-14


def test_a_left_out_point_is_no_player(rng):
    n, k = 9, 4
    y, queries = rng.normal(size=n) + 2, np.array([3, 5])
    game = RegressionGame(n - 1, 3)
    others = [np.delete(np.arange(n), q) for q in queries]
    ranked = np.array([rng.permutation(o) for o in others])
    target = np.array([1.5, y[5]])
    row = TruncatedRegression(game, y).rows(y[ranked[:, :k]], None, target, left_out=y[queries])
    for i in range(2):
        alone = TruncatedRegression(game, y[others[i]]).rows(y[ranked[i : i + 1, :k]], None, target[i : i + 1])
        np.testing.assert_allclose(row.near.value[i], alone.near.value[0], rtol=0, atol=1e-13)
        far = y[ranked[i, k:]]
        np.testing.assert_allclose(
            evaluate(row.far.value[i], far - row.center), of_far(alone, far)[0], rtol=0, atol=1e-13
        )
        assert (row.near.lower[i] <= alone.near.lower[0] + 1e-13).all()


@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", ("beta", 4, 1)])
@pytest.mark.parametrize("utility", UTILITIES)
def test_large_and_hostile(utility, semivalue, rng):
    """N = 2000, skewed targets, far points sorted, reversed, alternating: intervals hold, and shrink with K*."""
    n, queries = 2000, 3
    game = RegressionGame(n, 5, utility, semivalue)
    y = rng.exponential(size=n) ** 1.5 - 1
    target = rng.normal(size=queries)
    widths = []
    for k in (20, 200, 1000):
        far = np.sort(y[k:])
        orders = [y[k:], far, far[::-1], np.stack([far[: len(far) // 2], far[::-1][: len(far) // 2]], 1).ravel()]
        for order in orders:
            ranked = np.tile(np.concatenate([y[:k], order]), (queries, 1))
            truth = exact_values(game, ranked, target)
            row = TruncatedRegression(game, y).rows(ranked[:, :k], None, target)
            assert (row.near.lower <= truth[:, :k] + 1e-10).all()
            assert (truth[:, :k] <= row.near.upper + 1e-10).all()
            _, lower, upper = (evaluate(part[:, None, :], order - row.center) for part in row.far)
            assert (lower <= truth[:, k:] + 1e-10).all()
            assert (truth[:, k:] <= upper + 1e-10).all()
        widths.append((row.near.upper - row.near.lower).max())
    assert widths[0] > widths[1] > widths[2]


def test_coefficients_add_up_over_queries(rng):
    """Far points cost nothing per pair: the sum of the queries' quadratics is the quadratic of their sum."""
    n, k = 300, 10
    y, target = rng.normal(size=n) + 50, rng.normal(size=8) + 50
    ranked = np.array([rng.permutation(n) for _ in range(8)])
    row = TruncatedRegression(RegressionGame(n, 5), y).rows(y[ranked[:, :k]], None, target)
    for part in row.far:
        each = evaluate(part[:, None, :], y - row.center).sum(axis=0)
        np.testing.assert_allclose(evaluate(part.sum(axis=0), y - row.center), each, rtol=0, atol=1e-11)


def test_constant_targets_are_certain():
    n, k = 40, 6
    row = TruncatedRegression(RegressionGame(n, 3), np.full(n, 2.5)).rows(np.full((1, k), 2.5), None, np.array([1.0]))
    np.testing.assert_allclose(row.near.lower, row.near.upper, rtol=0, atol=1e-15)
    np.testing.assert_allclose(row.far.lower[:, 0], row.far.upper[:, 0], rtol=0, atol=1e-15)


def test_bad_input_is_named(rng):
    truncated = TruncatedRegression(RegressionGame(10, 3), rng.normal(size=12))
    with pytest.raises(ValueError, match="targets"):
        truncated.rows(np.zeros((1, 4)), None, np.zeros(1))
