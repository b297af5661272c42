"""The utilities, against numbers worked out by hand from the paper's equations."""

from __future__ import annotations

from fractions import Fraction

import pytest

from nearworth import utilities as u

DISTANCES = [1, 2, 3, 4]
LABELS = ["a", "b", "a", "a"]
TARGETS = [Fraction(1), Fraction(4), Fraction(2), Fraction(-3)]


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
    assert u.soft_classification(subset, DISTANCES, LABELS, "a", n_neighbors=2, n_classes=3) == soft
    assert u.original_classification(subset, DISTANCES, LABELS, "a", n_neighbors=2) == original


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
    assert u.soft_regression(subset, DISTANCES, TARGETS, Fraction(3), n_neighbors=2) == soft
    assert u.original_regression(subset, DISTANCES, TARGETS, Fraction(3), n_neighbors=2) == original


def test_tied_points_are_averaged_over_the_ways_to_choose():
    # One slot left, three tied points of which two match: two thirds of a vote.
    distances, labels = [0, 5, 5, 5], ["b", "a", "a", "b"]
    value = u.soft_classification((0, 1, 2, 3), distances, labels, "a", n_neighbors=2, n_classes=2)
    assert value == Fraction(1, 2) * Fraction(2, 3)
    # Squared errors are averaged, not predictions: the mean of 0 and 4, not the square of the mean.
    assert u.soft_regression((0, 1), [7, 7], [Fraction(1), Fraction(3)], Fraction(1), n_neighbors=1) == -2


def test_ties_by_index_take_the_earlier_point():
    assert u.soft_classification((0, 1), [5, 5], ["b", "a"], "a", n_neighbors=1, n_classes=2, ties="index") == 0
    assert u.soft_classification((1, 0), [5, 5], ["a", "b"], "a", n_neighbors=1, n_classes=2, ties="index") == 1


@pytest.mark.parametrize("wrong", [{"ties": "indx", "n_neighbors": 1}, {"n_neighbors": 0}])
def test_refuses_what_it_does_not_know(wrong):
    with pytest.raises(ValueError, match="Use ties='average' or 'index' and n_neighbors >= 1"):
        u.original_classification((0,), [1], ["a"], "a", **wrong)
