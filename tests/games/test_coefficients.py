"""The coefficient sequences, in exact fractions where cheap and by their laws where N is large."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from nearworth.games.coefficients import (
    Presence,
    classification_correction,
    pair_weights,
    rank_weights,
    regression_correction,
    size_distribution,
)

TINY = [
    ("beta", 1e-3, 1e-3),
    ("beta", 1e-12, 1e-12),
    ("beta", 1e-90, 1e-90),
    ("beta", 1000, 1),
    ("beta", 1e12, 3),
]
LAWS = [
    "shapley",
    "banzhaf",
    "loo",
    ("beta", 4, 1),
    ("beta", 1, 4),
    ("beta", 16, 1),
    ("beta", 0.5, 0.5),
    ("beta", 3, 2),
]


def moment(semivalue, present, absent):
    """E[t^present (1-t)^absent], exactly."""
    if semivalue in ("banzhaf", "loo"):
        t = Fraction(1, 2) if semivalue == "banzhaf" else Fraction(1)
        return t**present * (1 - t) ** absent
    a, b = (1, 1) if semivalue == "shapley" else semivalue[1:]
    result = Fraction(1)
    for i in range(present):
        result *= (Fraction(b) + i) / (Fraction(a) + Fraction(b) + i)
    for i in range(absent):
        result *= (Fraction(a) + i) / (Fraction(a) + Fraction(b) + present + i)
    return result


def worth(semivalue, rank, k):
    """c_l by definition."""
    return (
        sum(comb(rank - 1, j) * moment(semivalue, j, rank - 1 - j) for j in range(min(k, rank))) / k
    )


def pair_worth(semivalue, rank, k):
    """e_l by definition."""
    return sum(
        comb(rank - 2, j) * moment(semivalue, j + 1, rank - 2 - j)
        for j in range(min(k - 1, rank - 1))
    )


@pytest.mark.parametrize("semivalue", LAWS + TINY)
@pytest.mark.parametrize(
    ("n", "k"), [(1, 1), (2, 1), (1, 3), (30, 1), (30, 2), (30, 7), (30, 29), (30, 30), (30, 40)]
)
def test_sequences_in_exact_fractions(semivalue, n, k):
    presence = Presence.of(semivalue)
    single = rank_weights(presence, n, k)
    pair = pair_weights(presence, n, k)
    c = [worth(semivalue, rank, k) for rank in range(1, n + 1)]
    np.testing.assert_allclose(single.worth, np.array(c, dtype=float), rtol=1e-13)
    np.testing.assert_allclose(
        single.loss[1:],
        np.array([float(a - b) for a, b in zip(c, c[1:], strict=False)]),
        rtol=1e-12,
        atol=1e-300,
    )
    e = [pair_worth(semivalue, rank, k) for rank in range(2, n + 1)]
    np.testing.assert_allclose(pair.worth[1:], np.array(e, dtype=float), rtol=1e-13)
    np.testing.assert_allclose(
        pair.loss[2:],
        np.array([float(a - b) for a, b in zip(e, e[1:], strict=False)]),
        rtol=1e-12,
        atol=1e-300,
    )


def test_shapley_is_the_closed_form_to_the_last_bit():
    weights = rank_weights(Presence.of("shapley"), 10**6, 5)
    rank = np.arange(1, 10**6 + 1)
    np.testing.assert_allclose(weights.worth, 1.0 / np.maximum(rank, 5), rtol=3e-16)
    np.testing.assert_allclose(weights.loss[5:], 1.0 / (rank[5:] * (rank[5:] - 1.0)), rtol=5e-16)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (1, 2)])
def test_recursion_meets_the_closed_form(a, b):
    """Beta(1, 1) and Beta(1, 2) have closed forms; a law next to them takes the general way."""
    near = np.nextafter(float(b), 9.0)
    exact = rank_weights(Presence.of(("beta", a, b)), 10**6, 5)
    general = rank_weights(Presence.of(("beta", a, near)), 10**6, 5)
    np.testing.assert_allclose(general.worth, exact.worth, rtol=1e-11)
    np.testing.assert_allclose(general.loss, exact.loss, rtol=1e-11)


@pytest.mark.parametrize("semivalue", LAWS)
@pytest.mark.parametrize("k", [1, 5, 1500])
def test_large_n_keeps_the_laws(semivalue, k):
    """No overflow, no cancellation at N = 10^6: sizes are a distribution, c falls from 1/K by d,
    everything is >= 0.
    """
    n = 10**6
    presence = Presence.of(semivalue)
    with np.errstate(over="raise", invalid="raise"):
        weights = rank_weights(presence, n, k)
        pair = pair_weights(presence, n, k)
        sizes = size_distribution(presence, n - 1)
    assert sizes.min() >= 0
    assert sizes.sum() == pytest.approx(1, abs=1e-12)
    for w, top in ((weights, 1 / k), (pair, presence.mean if k > 1 else 0.0)):
        assert w.worth[0] == pytest.approx(top, rel=1e-12)
        assert w.loss.min() >= 0
        assert (np.diff(w.worth) <= 1e-14 * top).all()
        np.testing.assert_allclose(-np.diff(w.worth), w.loss[1:], atol=1e-14 * top, rtol=0)
        assert w.worth[-1] + w.loss.sum() == pytest.approx(top, rel=1e-12)


def test_banzhaf_with_many_neighbours_does_not_underflow():
    """2^-K is no 64-bit number for K > 1074, yet the sequence is alive around rank 2K."""
    weights = rank_weights(Presence.of("banzhaf"), 10_000, 2_000)
    assert weights.worth[3_999] * 2_000 == pytest.approx(
        0.5, abs=0.01
    )  # half of 4,000 points are present
    assert weights.loss.argmax() == pytest.approx(4_000, abs=3)


def test_ten_million_points():
    n = 10**7
    k = 10
    weights = rank_weights(Presence.of(("beta", 4, 1)), n, k)
    # t ~ Beta(1, 4): P(t < K/n) is about 4 K/n, and K c_n is about its mean over the K places: 4
    # K/n.
    assert weights.worth[-1] == pytest.approx(4.0 / n, rel=1e-4)
    shapley = classification_correction(Presence.of("shapley"), n, k)
    assert shapley.own == pytest.approx((sum(1 / j for j in range(1, k + 1)) - 1) / n, rel=1e-12)
    assert shapley.other == pytest.approx(-shapley.own / (n - 1), rel=1e-12)


def test_shapley_corrections_have_the_closed_forms_of_the_formulas():
    n = 50
    k = 7
    h2 = sum(1 / j**2 for j in range(1, k + 1))
    correction = regression_correction(Presence.of("shapley"), n, k)
    assert correction.own == pytest.approx((h2 - 1 / k) / n, rel=1e-12)
    pair = (
        sum(1 / j for j in range(1, k))
        - sum(1 / j**2 for j in range(1, k))
        - (k - 1) * (k - 2) / (2 * k**2)
    ) / (n * (n - 1))
    assert correction.cross == pytest.approx(pair, rel=1e-12)
    assert correction.others == pytest.approx(-correction.own / (n - 1), rel=1e-12)
    assert correction.pairs == pytest.approx(-2 * pair / (n - 2), rel=1e-12)
