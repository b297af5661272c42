"""Values from counts in cells against every order that agrees with them: the certificate holds, and
is not idle.
"""

from __future__ import annotations

import inspect
from itertools import permutations
from types import ModuleType

import numpy as np
import pytest

from helpers import cells
from helpers.definition import SEMIVALUES, UTILITIES
from nearworth._common import native
from nearworth.games.classification import ClassificationGame, linear_values
from nearworth.games.coefficients import Presence, rank_weights, sum_after
from nearworth.games.ties import TieBlocks

PERMUTATIONS = {n: np.array(list(permutations(range(n)))) for n in range(1, 8)}


def counted(cell, matches, n_cells):
    """Matches and other points of each cell."""
    return tuple(np.bincount(cell[matches == wanted], minlength=n_cells) for wanted in (1, 0))


def in_order(u, weights):
    """Values of points in rank order, of the first ranks only."""
    k = u.shape[-1]
    return u * weights.worth[:k] - sum_after(u * weights.loss[:k])


def small_case(rng, tolerance, semivalue):
    """Up to seven points in cells with every admissible order of theirs, behind some whose order is
    certain.
    """
    n = int(rng.integers(2, 8))
    certain = int(rng.integers(0, 12))
    n_cells = int(rng.integers(1, 7))
    weights = rank_weights(Presence.of(semivalue), certain + n, int(rng.integers(1, 4)))
    gap = tolerance + 1
    cell = np.concatenate(
        [np.zeros(certain, dtype=int), gap + np.sort(rng.integers(0, n_cells, n))]
    )
    u = (rng.random(certain + n) < rng.choice([0.2, 0.5, 0.8])).astype(float)
    orders = PERMUTATIONS[n] + certain
    along = cell[orders]
    orders = orders[(np.maximum.accumulate(along, axis=1) - along <= tolerance).all(axis=1)]
    orders = np.concatenate([np.tile(np.arange(certain), (len(orders), 1)), orders], axis=1)
    return cell, u, gap + n_cells, weights, orders


def estimates(values, cut, cell, u, weights, orders):
    """Values of all points if each of these orders is the true one and the cells before the cut are
    resolved.
    """
    found = np.where(u > 0, values.match[cell], values.other[cell]) + np.zeros(orders.shape)
    resolved = orders[cell[orders] < cut].reshape(len(orders), -1)
    if resolved.size:
        np.put_along_axis(
            found, resolved, in_order(u[resolved], weights) - values.lost[cut], axis=1
        )
    return found


def check_all_orders(module, tolerance, semivalue, n_cases, seed=0):
    """No admissible order has a larger error than certified; returns the shares that are attained.

    The error of resolved points has a bound of its own, which others often hide.
    """
    rng = np.random.default_rng(seed)
    attained = []
    for _ in range(n_cases):
        cell, u, n_cells, weights, orders = small_case(rng, tolerance, semivalue)
        values = module.cell_values(*counted(cell, u, n_cells), weights, tolerance)
        resolved = module.Cells(*counted(cell, u, n_cells), weights, tolerance).error_of_resolved(
            values.lost
        )
        truth = np.empty(orders.shape)
        np.put_along_axis(truth, orders, in_order(u[orders], weights), axis=1)
        for cut in np.flatnonzero(np.isfinite(values.error[1:])) + 1:
            errors = np.abs(estimates(values, cut, cell, u, weights, orders) - truth).max(axis=0)
            worst = errors.max()
            assert worst <= values.error[cut] + 1e-14
            assert errors[cell < cut].max(initial=0.0) <= resolved[cut] + 1e-14
            if values.error[cut] > 1e-9:
                attained.append(worst / values.error[cut])
    return np.array(attained)


def check_a_wide_tail(module):
    """One point comes across the cut, and a wide cell behind it has its few points of that status
    in front.
    """
    cell = np.repeat([0, 2, 3, 4], [10, 3, 1, 100])
    order = np.r_[:10, 13, 10:13, 14:114]  # the point of cell 3 precedes those of cell 2
    weights = rank_weights(Presence(), len(cell), 5)
    for status in (1.0, 0.0):
        u = np.full(len(cell), 1.0 - status)
        u[13:24] = status
        values = module.cell_values(*counted(cell, u, 5), weights, 1)
        resolved = module.Cells(*counted(cell, u, 5), weights, 1).error_of_resolved(values.lost)
        truth = np.empty(len(cell))
        truth[order] = in_order(u[order], weights)
        errors = np.abs(estimates(values, 3, cell, u, weights, order[None])[0] - truth)[:13]
        assert 0.9 * resolved[3] <= errors.max() <= resolved[3]


def check(module):
    check_a_wide_tail(module)
    for tolerance in (1, 2):
        for semivalue in ("shapley", ("beta", 1, 4), ("beta", 4, 1)):
            check_all_orders(module, tolerance, semivalue, 1000)


def test_points_across_the_cut_in_front_of_a_wide_cell():
    check_a_wide_tail(cells)


@pytest.mark.parametrize("tolerance", [0, 1, 2])
@pytest.mark.parametrize("semivalue", SEMIVALUES)
def test_no_order_exceeds_the_certificate(semivalue, tolerance):
    attained = check_all_orders(cells, tolerance, semivalue, 150)
    if tolerance == 0:
        np.testing.assert_allclose(attained, 1.0, rtol=1e-6)
    elif semivalue == "shapley":
        assert attained.mean() > 0.6
        assert attained.max() > 0.999


# Changes of helpers/cells.py that make a certificate too small: what goes wrong, the code, and what
# stands there instead.
MUTATIONS = {
    "the tolerance is forgotten in front": ("self.others(-tolerance))", "self.others(0))"),
    "the tolerance is forgotten behind": ("self.others(tolerance + 1))", "self.others(1))"),
    "the point itself moves less": ("first = self.ranks(-t) + 1", "first = self.ranks() + 1"),
    "fewer matches come behind it": (
        "self.matches(1) + self.others(-t) + 1)",
        "self.matches() + self.others(-t) + 1)",
    ),
    "a point loses more at least": (
        "min_lost = _shifted(self._min_taken, t + 1)",
        "min_lost = _shifted(self._min_taken, t)",
    ),
    "the highest value of a match": (
        "- _shifted(self._min_taken, 1 - t)",
        "- _shifted(self._min_taken, -t)",
    ),
    "the lowest value of a match": (
        "- _shifted(self._max_taken, 2 * t + 1)",
        "- _shifted(self._max_taken, 2 * t + 2)",
    ),
    "only matches have an error": ("error_of_other * has_other", "0.0"),
    "only others have an error": ("error_of_match * has_match", "0.0"),
    "nothing is pushed back": (
        "n_misplaced = self.ranks(t) - ranks",
        "n_misplaced = 0 * ranks",
    ),
    "no resolved point falls behind": (
        "min_lost = np.where(other_is_near, _shifted(self._min_taken, t), self._min_taken)",
        "min_lost = self._min_taken",
    ),
    "no resolved match falls behind": ("match_is_near,\n", "match_is_near & False,\n"),
    "only others are pushed back": ("match_is_near * pushed", "0.0"),
    "only matches are pushed back": ("other_is_near * pushed", "0.0"),
    "resolved others are exact": ("match_is_near * pushed + lost - min_lost", "0.0"),
    "resolved matches are exact": ("other_is_near * pushed + kept - min_kept", "0.0"),
    "resolved points are exact": ("error = np.maximum(error, cells.error_of_resolved(lost))", ""),
    "the cell's own error only": ("np.maximum.accumulate(unresolved[::-1])[::-1]", "unresolved"),
    "losses that increase": ("error[cells.ranks(-tolerance) < weights.loss.argmax()] = np.inf", ""),
    "losses that increase near the cut": (
        "cells.ranks(-tolerance) < weights",
        "cells.ranks() < weights",
    ),
    "one percent too small": ("error[-1] = 0.0", "error *= 0.99"),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_certificate_is_noticed(mutation):
    source, (right, wrong) = inspect.getsource(cells), MUTATIONS[mutation]
    assert source.count(right) == 1
    module = ModuleType("mutated")
    exec(compile(source.replace(right, wrong), "mutated", "exec"), module.__dict__)
    with pytest.raises(AssertionError):
        check(module)


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("semivalue", SEMIVALUES)
def test_approximate_keys_and_ties_are_covered(utility, semivalue, rng):
    """Exact distances with ties, also across borders; keys with errors up to half a cell; values
    with constants.
    """
    for n, k in ((1, 1), (8, 3), (8, 20), (60, 1), (60, 5), (300, 5)):
        for n_distances in (2, n, 20 * n):
            game = ClassificationGame(n, k, 3, utility, semivalue)
            distances = np.sort(rng.integers(0, n_distances, n)) / n_distances
            labels = rng.integers(0, 3, n)
            ties = TieBlocks(np.append(True, np.diff(distances) > 0)[None, :])
            truth = game.values(labels[None, :], np.array([1]), ties)[0]
            n_cells = int(rng.integers(1, 40))
            keys = (
                distances + rng.choice([-1.0, 1.0], n) * rng.choice([0.0, 0.5, 0.499], n) / n_cells
            )
            cell = np.clip(np.floor(keys * n_cells), 0, n_cells - 1).astype(int)
            u = (labels == 1).astype(float)
            values = cells.cell_values(*counted(cell, u, n_cells), game.weights)
            added = np.where(u > 0, *game.added(u.sum()))
            for cut in np.flatnonzero(np.isfinite(values.error)):
                found = np.where(u > 0, values.match[cell], values.other[cell])
                near = np.flatnonzero(cell < cut)
                if near.size:
                    ties = TieBlocks(np.append(True, np.diff(distances[near]) > 0)[None, :])
                    weights = type(game.weights)(
                        game.weights.worth[: near.size], game.weights.loss[: near.size]
                    )
                    found[near] = linear_values(u[None, near], weights, ties)[0] - values.lost[cut]
                assert np.abs(found + added - truth).max() <= values.error[cut] + 1e-14


@pytest.mark.parametrize("labels", ["random", "alternating", "rare"])
def test_adversarial_keys_come_close(labels, rng):
    """Distances at the far end of the key error, matches one way and others the other: a large
    share of it.
    """
    n = 3000
    n_cells = 400
    weights = rank_weights(Presence.of("shapley"), n, 5)
    keys = np.sort(rng.random(n))
    u = {
        "random": rng.random(n) < 0.5,
        "alternating": np.arange(n) % 2 == 0,
        "rare": rng.random(n) < 0.05,
    }[labels]
    u = u.astype(float)
    cell = np.floor(keys * n_cells).astype(int)
    values = cells.cell_values(*counted(cell, u, n_cells), weights)
    for cut in (20, 100, 300):
        shares = []
        for sign in (1, -1):
            for alone in range(n_cells - cut)[:60]:
                distances = keys + sign * np.where(u > 0, -0.499, 0.499) / n_cells
                one = (
                    rng.choice(np.flatnonzero(cell == cut + alone))
                    if (cell == cut + alone).any()
                    else 0
                )
                distances[one] = keys[one] + sign * np.where(u[one] > 0, 0.499, -0.499) / n_cells
                order = np.argsort(distances)
                truth = np.empty(n)
                truth[order] = in_order(u[order], weights)
                resolved = order[cell[order] < cut]
                found = np.where(u > 0, values.match[cell], values.other[cell])
                found[resolved] = in_order(u[resolved], weights) - values.lost[cut]
                shares.append(np.abs(found - truth).max() / values.error[cut])
        assert 0.4 < max(shares) <= 1.0


def test_cells_of_one_point_are_exact_values(rng):
    for n, k in ((1, 1), (2, 1), (9, 3), (9, 12)):
        weights = rank_weights(Presence(), n, k)
        u = rng.integers(0, 2, n)
        values = cells.cell_values(u, 1 - u, weights, tolerance=0)
        np.testing.assert_allclose(
            np.where(u, values.match, values.other), in_order(u, weights), rtol=0, atol=1e-15
        )
        np.testing.assert_allclose(values.error[min(k, n) :], 0.0, atol=1e-15)


def test_values_are_those_of_ties_and_empty_cells_change_nothing(rng):
    weights = rank_weights(Presence(), 50, 4)
    u = rng.integers(0, 2, 50).astype(float)
    cell = np.sort(rng.integers(0, 12, 50)) * 3
    values = cells.cell_values(*counted(cell, u, 36), weights)
    ties = TieBlocks(np.append(True, np.diff(cell) > 0)[None, :])
    found = np.where(u > 0, values.match[cell], values.other[cell])
    np.testing.assert_allclose(
        found, linear_values(u[None, :], weights, ties)[0], rtol=0, atol=1e-15
    )
    apart = cells.cell_values(*counted(cell // 3, u, 12), weights, tolerance=0)
    np.testing.assert_allclose(
        values.error[::3], apart.error, rtol=0, atol=1e-15
    )  # no cell is within the tolerance


def test_the_cut_keeps_the_promise(rng):
    weights = rank_weights(Presence(), 20_000, 5)
    cell = np.sort(rng.integers(0, 2000, 20_000))
    u = rng.random(20_000) < 0.3
    values = cells.cell_values(*counted(cell, u, 2000), weights)
    cuts = [values.first_cut(error) for error in (1.0, 1e-4, 1e-5, 1e-6, 0.0)]
    assert cuts == sorted(cuts)
    assert cuts[-1] == 2000
    assert np.ptp(cuts) > 1000
    for cut, error in zip(cuts, (1.0, 1e-4, 1e-5, 1e-6, 0.0), strict=True):
        assert values.error[cut:].max() <= error
        assert cut == 0 or values.error[cut - 1] > error


def test_nothing_need_be_resolved_where_order_does_not_matter():
    weights = rank_weights(Presence(), 30, 50)  # K > N
    values = cells.cell_values(np.full(6, 2), np.full(6, 3), weights)
    assert values.first_cut(1e-15) == 0
    one_class = cells.cell_values(
        np.full(6, 5), np.zeros(6, dtype=int), rank_weights(Presence(), 30, 2), tolerance=0
    )
    assert one_class.error[1:].max() <= 1e-15


def scanned(matches, others, weights, max_error):
    """The compiled scan: cut, lost, error, values."""
    n = len(matches)
    worth = weights.worth
    match = np.full(n, np.nan)
    other = np.full(n, np.nan)
    result = np.zeros(2)
    tables = np.append(0.0, np.cumsum(worth)), np.concatenate([worth[:1], worth, [np.nan]])
    counts = matches.astype(np.uint32), others.astype(np.uint32)
    certain = int(weights.loss.argmax())
    cut = native.call("certified_cut", *counts, *tables, max_error, certain, match, other, result)
    return cut, *result, match, other


@pytest.mark.skipif(not native.available(), reason="no compiled library")
@pytest.mark.parametrize("semivalue", SEMIVALUES)
def test_the_compiled_scan_agrees(semivalue, rng):
    for n, k, n_cells in (
        (1, 1, 1),
        (5, 9, 3),
        (40, 3, 1),
        (40, 3, 60),
        (300, 5, 40),
        (5000, 5, 700),
        (5000, 200, 900),
    ):
        weights = rank_weights(Presence.of(semivalue), n, k)
        for share, length in (
            (0.0, 1),
            (0.02, 1),
            (0.5, 1),
            (1.0, 1),
            (0.5, 7),
            (0.5, 30),
            (0.1, 30),
        ):
            cell = np.sort((n_cells * rng.random(n) ** rng.choice([0.1, 1.0, 3.0])).astype(int))
            runs = np.repeat(rng.random(n) < share, length)[
                :n
            ]  # whole cells of one status beside those of the other
            matches, others = counted(cell, runs, n_cells)
            values = cells.cell_values(matches, others, weights)
            for max_error in 10.0 ** rng.uniform(-9, 0, 5):
                cut, lost, error, match, other = scanned(matches, others, weights, max_error)
                assert (
                    values.first_cut(max_error + 1e-14)
                    <= cut
                    <= values.first_cut(max_error - 1e-14)
                )
                assert (
                    values.error[cut] - 1e-14
                    <= error
                    <= max(values.error[cut], max_error / 2) + 1e-14
                )
                np.testing.assert_allclose(lost, values.lost[cut], rtol=0, atol=1e-14)
                some = (
                    (matches > 0) & (np.arange(n_cells) >= cut),
                    (others > 0) & (np.arange(n_cells) >= cut),
                )
                np.testing.assert_allclose(
                    match[some[0]], values.match[some[0]], rtol=0, atol=1e-14
                )
                np.testing.assert_allclose(
                    other[some[1]], values.other[some[1]], rtol=0, atol=1e-14
                )


@pytest.mark.skipif(not native.available(), reason="no compiled library")
def test_the_quick_bound_of_the_scan_counts_what_is_unknown_far_away():
    """Losses that fall slowly, and cells that span the same worth: each adds as much to what is
    unknown behind it.
    """
    weights = rank_weights(Presence.of(("beta", 1, 0.2)), 300_000, 5)
    worth = np.append(weights.worth[0], weights.worth)
    ends = np.searchsorted(-worth, -np.arange(worth[50], worth[-1], -5 * weights.loss[50]))
    sizes = np.diff(np.concatenate([[0], ends, [300_000]]))
    matches = sizes // 2
    values = cells.cell_values(matches, sizes - matches, weights)
    for max_error in worth[50] * np.geomspace(0.03, 1.0, 20):
        cut, _, error, _, _ = scanned(matches, sizes - matches, weights, max_error)
        assert values.error[cut] - 1e-14 <= error <= max_error


@pytest.mark.skipif(not native.available(), reason="no compiled library")
def test_the_compiled_scan_refuses_counts_of_other_points():
    weights = rank_weights(Presence(), 10, 2)
    assert scanned(np.array([3, 3]), np.array([3, 0]), weights, 0.1)[0] == -1
    assert scanned(np.array([], dtype=int), np.array([], dtype=int), weights, 0.1)[0] == -1
