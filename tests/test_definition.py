"""The definition itself: games whose values are known without it, utilities worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from nearworth import exact_shapley
from nearworth.testing import knn_utility, subset_weights

DISTANCES = [1, 2, 3, 4]
LABELS = ["a", "b", "a", "a"]
TARGETS = [Fraction(1), Fraction(4), Fraction(2), Fraction(-3)]


def by_permutations(utility, n):
    """Shapley's other definition: the mean marginal contribution over all arrival orders."""
    values = [Fraction(0)] * n
    orders = list(permutations(range(n)))
    for order in orders:
        for position, player in enumerate(order):
            before = tuple(sorted(order[:position]))
            values[player] += Fraction(utility(tuple(sorted((*before, player))))) - Fraction(
                utility(before)
            )
    return [value / len(orders) for value in values]


@pytest.mark.parametrize("n", range(1, 6))
def test_equals_the_mean_over_arrival_orders(n, rng):
    table = {}

    def utility(subset):
        return table.setdefault(subset, int(rng.integers(-100, 100)))

    values = exact_shapley(utility, n)
    assert values.dtype == object
    assert list(values) == by_permutations(utility, n)


def test_sees_increasing_tuples_each_subset_once():
    seen = []
    exact_shapley(lambda subset: seen.append(subset) or 0.0, 4)
    assert len(seen) == len(set(seen)) == 16
    assert () in seen
    assert all(list(subset) == sorted(subset) for subset in seen)


def test_floats_give_floats():
    values = exact_shapley(lambda subset: len(subset) / 3, 3)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, 1 / 3)


def test_additive_game_has_its_weights_under_every_semivalue():
    weights = [3, -1, 4, 1, -5]
    for semivalue in ("shapley", "banzhaf", "loo", ("beta", 4, 1), ("beta", 0.5, 2.5)):
        values = exact_shapley(
            lambda subset: sum(weights[i] for i in subset), 5, semivalue=semivalue
        )
        assert list(values) == weights


def test_leave_one_out_is_the_loss_without_the_point():
    values = exact_shapley(lambda subset: len(subset) ** 2, 4, semivalue="loo")
    assert list(values) == [16 - 9] * 4


def test_beta_one_one_is_shapley_and_weights_are_a_law():
    assert subset_weights(("beta", 1, 1), 7) == subset_weights("shapley", 7)
    from math import comb

    for semivalue in (
        "shapley",
        "banzhaf",
        "loo",
        ("beta", 4, 1),
        ("beta", 1, 16),
        ("beta", 0.25, 3),
    ):
        assert sum(comb(6, s) * w for s, w in enumerate(subset_weights(semivalue, 7))) == 1


def test_beta_four_one_prefers_small_coalitions():
    small_first = subset_weights(("beta", 4, 1), 6)
    assert all(a > b for a, b in zip(small_first[:3], small_first[1:4], strict=True))


@pytest.mark.parametrize("n", [0, -1, 25, 2.0, True, None])
def test_refuses_a_strange_number_of_players(n):
    with pytest.raises(ValueError, match="n must be a whole number of players from 1 to 24"):
        exact_shapley(lambda subset: 0, n)


@pytest.mark.parametrize("semivalue", ["banzaf", ("beta", -1, 2), ("beta", 1), ("gamma", 1, 1)])
def test_refuses_an_unknown_semivalue(semivalue):
    with pytest.raises(ValueError, match="semivalue"):
        exact_shapley(lambda subset: 0, 2, semivalue=semivalue)


def test_refuses_a_utility_that_is_no_number():
    with pytest.raises(TypeError, match="not 'NoneType'"):
        exact_shapley(lambda subset: None, 2)


@pytest.mark.parametrize(
    ("subset", "soft", "original"),
    [
        ((), Fraction(1, 3), 0),
        ((0,), 1, Fraction(1, 2)),
        ((1,), 0, 0),
        ((0, 1), Fraction(1, 2), Fraction(1, 2)),
        ((2, 3), 1, 1),
        ((0, 1, 2, 3), Fraction(1, 2), Fraction(1, 2)),
        ((1, 2, 3), Fraction(1, 2), Fraction(1, 2)),
    ],
)
def test_classification(subset, soft, original):
    assert knn_utility(subset, DISTANCES, LABELS, "a", n_neighbors=2, n_classes=3) == soft
    assert (
        knn_utility(subset, DISTANCES, LABELS, "a", n_neighbors=2, utility="original") == original
    )


@pytest.mark.parametrize(
    ("subset", "soft", "original"),
    [
        ((), -9, -9),
        ((0,), -4, -Fraction(25, 4)),  # predicts 1 and 1/2 where 3 is right
        ((0, 1), -Fraction(1, 4), -Fraction(1, 4)),
        ((3, 2, 1), 0, 0),  # the two nearest of the three are 4 and 2
    ],
)
def test_regression(subset, soft, original):
    data = DISTANCES, TARGETS, Fraction(3)
    assert knn_utility(subset, *data, n_neighbors=2, task="regression") == soft
    assert (
        knn_utility(subset, *data, n_neighbors=2, task="regression", utility="original") == original
    )


def test_tied_points_are_averaged_over_the_ways_to_choose():
    # One slot left, three tied points of which two match: two thirds of a vote.
    distances = [0, 5, 5, 5]
    labels = ["b", "a", "a", "b"]
    value = knn_utility((0, 1, 2, 3), distances, labels, "a", n_neighbors=2, n_classes=2)
    assert value == Fraction(1, 2) * Fraction(2, 3)
    # Squared errors are averaged, not predictions: the mean of 0 and 4, not the square of the mean.
    assert (
        knn_utility(
            (0, 1),
            [7, 7],
            [Fraction(1), Fraction(3)],
            Fraction(1),
            n_neighbors=1,
            task="regression",
        )
        == -2
    )


def test_ties_by_index_take_the_earlier_point():
    assert (
        knn_utility((0, 1), [5, 5], ["b", "a"], "a", n_neighbors=1, n_classes=2, ties="index") == 0
    )
    assert (
        knn_utility((1, 0), [5, 5], ["a", "b"], "a", n_neighbors=1, n_classes=2, ties="index") == 1
    )


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("ties", "indx"), ("n_neighbors", 0), ("task", "regresion"), ("utility", "sofft")],
)
def test_refuses_what_it_does_not_know(name, wrong):
    with pytest.raises(ValueError, match=name):
        knn_utility((0,), [1], ["a"], "a", **{"n_neighbors": 1, name: wrong})
