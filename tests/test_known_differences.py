"""Where the paper's printed statements are wrong, shown on the printed formulas themselves.

The formulas are written down here as printed; the docs page "Known differences" quotes the numbers.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest

import nearworth as nw
from helpers.definition import defined_values, rank_space_values, utility_function


def printed_theorem_1(u, k):
    n = len(u)
    phi = [Fraction(0)] * n
    phi[-1] = Fraction(u[-1], max(k, n))
    for i in range(n - 1, 0, -1):
        phi[i - 1] = phi[i] + Fraction(u[i - 1] - u[i], k) * Fraction(min(k, i), i)
    return phi


def printed_theorem_2(u, k, c):
    n = len(u)
    phi = [Fraction(0)] * n
    phi[-1] = Fraction(1, n) * (u[-1] - Fraction(1, c))
    if n >= 2:
        tail = sum(Fraction(1, j + 1) for j in range(1, min(k, n)))
        phi[-1] += Fraction(1, n) * (u[-1] - Fraction(sum(u[:-1]), n - 1)) * tail
    harmonic = sum(Fraction(1, j) for j in range(1, min(k, n) + 1))
    for i in range(n - 1, 0, -1):
        bracket = harmonic + (
            Fraction(1, k) * (Fraction(min(i, k) * (n - 1), i) - k) if n >= k else 0
        )
        phi[i - 1] = phi[i] + Fraction(u[i - 1] - u[i], n - 1) * bracket
    return phi


def truth(u, k, c, utility="soft"):
    data = (list(range(len(u))), list(u), 1, k, c)
    return [
        *map(Fraction, nw.exact_shapley(utility_function("classification", utility, *data), len(u)))
    ]


def test_theorem_1_is_right():
    for n in range(1, 6):
        for k, u in product(range(1, n + 4), product((0, 1), repeat=n)):
            assert printed_theorem_1(u, k) == truth(u, k, 2, "original")


def test_theorem_2_is_right_for_n_at_least_k_and_wrong_below():
    for n in range(1, 6):
        for k, c in product(range(1, n + 4), (2, 3)):
            wrong = sum(
                printed_theorem_2(u, k, c) != truth(u, k, c) for u in product((0, 1), repeat=n)
            )
            assert (wrong == 0) == (n >= k or n == 1)


def test_the_smallest_wrong_number_of_theorem_2():
    assert printed_theorem_2((1, 0, 1), 5, 2)[1] == Fraction(-11, 18)
    assert truth((1, 0, 1), 5, 2)[1] == Fraction(-4, 9)
    ours = nw.knn_shapley([[0], [1], [2]], [1, 0, 1], [[0]], [1], n_neighbors=5)
    assert ours[1] == pytest.approx(-4 / 9, abs=1e-15)


def test_the_efficiency_axiom_needs_the_utility_of_nothing():
    """Values add up to v(all) - v(none). As printed, v(all) alone, the four axioms contradict each
    other.
    """
    values = nw.knn_shapley([[0], [1], [2]], [1, 0, 1], [[0]], [1], n_neighbors=2)
    everything = 1 / 2
    nothing = 1 / 2
    assert values.sum() == pytest.approx(everything - nothing, abs=1e-15)
    assert list(nw.exact_shapley(lambda subset: 7, 3)) == [
        0,
        0,
        0,
    ]  # a constant game is worth nothing to anybody


def printed_theorem_5(y, y_test, k):
    """Soft-label regression as printed, reading its 0/0 at i = 1 as 0; divides by N - 1 and by N
    - 2.
    """
    n = len(y)
    before = sum(y[:-1])
    squares = sum(value**2 for value in y[:-1])
    star = Fraction(0)
    for j in range(1, k):
        pairs = Fraction(j * (j - 1), (n - 1) * (n - 2)) * before**2
        single = Fraction(j * (n - j - 1), (n - 1) * (n - 2)) * squares
        star += Fraction(2 * j + 1, j**2 * (j + 1) ** 2) * (pairs + single)
        star += (
            (-2 * y[-1] / (j + 1) ** 2 - 2 * y_test / (j * (j + 1))) * Fraction(j, n - 1) * before
        )
        star += (y[-1] / (j + 1) - 2 * y_test) * (-y[-1] / (j + 1))
    phi = [Fraction(0)] * n
    phi[-1] = (star + y_test**2 - (y[-1] - y_test) ** 2) / n
    for i in range(n - 1, 0, -1):
        phi[i - 1] = phi[i] + (y[i] - y[i - 1]) / (n - 1) * _bracket_5(y, y_test, k, i)
    return phi


def _bracket_5(y, y_test, k, i):
    n = len(y)

    def together(rank):
        both = Fraction((n - 1) * min(k, rank) * min(k - 1, rank - 1), 2 * (rank - 1) * rank)
        return both - Fraction((k - 1) * k, 2 * (n - 2))

    a1 = (
        sum(Fraction(1, j**2) for j in range(1, k + 1))
        + (Fraction((n - 1) * min(k, i), i) - k) / k**2
    )
    a2 = (sum(y) - y[i - 1] - y[i]) / (n - 2) * sum(Fraction(j, (j + 1) ** 2) for j in range(1, k))
    nearer = sum(y[: i - 1]) * together(i) if i > 1 else 0
    a2 += (nearer + sum(y[rank - 1] * together(rank - 1) for rank in range(i + 2, n + 1))) / k**2
    a3 = sum(Fraction(1, j) for j in range(1, k + 1)) + Fraction(min(k, i) * (n - 1), i * k) - 1
    return (y[i - 1] + y[i]) * a1 + 2 * a2 - 2 * y_test * a3


def test_theorem_5_is_right_for_n_at_least_k_and_3_and_wrong_or_undefined_below(rng):
    for n in range(1, 7):
        for k in range(1, n + 3):
            y = [Fraction(int(value), 4) for value in rng.integers(1, 40, n)]
            y_test = Fraction(int(rng.integers(1, 40)), 4)
            game = utility_function("regression", "soft", list(range(n)), y, y_test, k, None)
            expected = list(nw.exact_shapley(game, n))
            ours = rank_space_values(
                "regression",
                "soft",
                np.arange(n),
                [*map(float, y)],
                float(y_test),
                k,
                None,
                "shapley",
            )
            np.testing.assert_allclose(ours, np.array(expected, dtype=float), rtol=0, atol=1e-11)
            if n == 2 or (n == 1 and k > 1):
                with pytest.raises(ZeroDivisionError):
                    printed_theorem_5(y, y_test, k)
            else:
                assert (printed_theorem_5(y, y_test, k) == expected) == (n >= k)


def published_threshold_values(u, n_train, n_classes):
    """Wang et al. 2023, from the matches of the rows within the threshold and the number of all
    rows.
    """
    n = len(u)
    values = []
    chances = sum(
        (1 - Fraction(comb(n_train - 1 - j, n), comb(n_train, n))) / (j + 1) for j in range(n_train)
    )
    for own in u:
        values.append((own - Fraction(1, n_classes)) / n)
        if n > 1:
            values[-1] += (Fraction(own, n) - Fraction(sum(u) - own, n * (n - 1))) * (chances - 1)
    return values


def test_published_threshold_values_are_ours():
    for n, outside in product(range(1, 6), range(1, 5)):
        for u in product((0, 1), repeat=n):
            X = [[0.5]] * n + [[9.0]] * outside
            y = [*u, *[1] * outside]
            found = nw.knn_shapley(X, y, [[0.0]], [1], radius=1.0, n_classes=3)
            expected = published_threshold_values(u, n + outside, 3) + [0] * outside
            np.testing.assert_allclose(found, np.array(expected, dtype=float), rtol=0, atol=1e-14)


def test_soft_and_original_are_the_same_ranking_inside_a_class():
    """The difference is a class constant, so the smallest example of a change of order has two
    classes.
    """
    data = (list(range(6)), [1, 0, 1, 1, 0, 1], 1, 3, 2)
    soft = defined_values(utility_function("classification", "soft", *data), 6, "shapley")
    original = defined_values(utility_function("classification", "original", *data), 6, "shapley")
    difference = soft - original
    assert np.ptp(difference[[0, 2, 3, 5]]) < 1e-15
    assert np.ptp(difference[[1, 4]]) < 1e-15
    assert abs(difference[0] - difference[1]) > 0.01
