"""Minima are found to rounding, however flat the loss is and wherever the search stops."""

from __future__ import annotations

import numpy as np
import pytest

from nearworth.audit import minimum
from nearworth.audit.minimum import find_minimum


def make_loss(rng, size=6, flattest=1e-2):
    """A convex loss of about a thousand: flat in one direction, steep in others, not quadratic."""
    axes = np.linalg.qr(rng.normal(size=(size, size)))[0]
    curvature = axes @ np.diag(np.geomspace(flattest, 10.0, size)) @ axes.T
    lowest = rng.normal(size=size)

    def loss(at):
        off = at - lowest
        hyperbola = np.sqrt(1.0 + off**2)
        value = 1000.0 + off @ curvature @ off / 2.0 + hyperbola.sum() / 100.0
        return float(value), curvature @ off + off / hyperbola / 100.0

    return loss, lowest


def test_a_flat_minimum_is_found_to_rounding(rng):
    loss, lowest = make_loss(rng)
    at, value = find_minimum(loss, np.zeros(6))
    np.testing.assert_allclose(at, lowest, atol=1e-9)
    assert value == loss(at)[0]


@pytest.mark.parametrize("precision", [1e-4, 1e-7, 1e-12])
def test_where_the_search_stops_does_not_matter(rng, monkeypatch, precision):
    loss, lowest = make_loss(rng)
    monkeypatch.setattr(minimum, "SEARCH_PRECISION", precision)
    at, _ = find_minimum(loss, rng.normal(size=6))
    np.testing.assert_allclose(at, lowest, atol=1e-9)


def test_what_is_least_at_its_bound_stays_there(rng):
    """The minimum of the others is then that with the bound put in."""
    loss, lowest = make_loss(rng)
    bound = lowest[0] + 0.5
    lower = np.full(6, -np.inf)
    lower[0] = bound
    at, _ = find_minimum(loss, np.full(6, bound), lower=lower)
    assert at[0] == bound
    slope = loss(at)[1]
    assert slope[0] > 0.0
    np.testing.assert_allclose(slope[1:], 0.0, atol=1e-9)


def test_a_bound_below_the_minimum_changes_nothing(rng):
    loss, lowest = make_loss(rng)
    at, _ = find_minimum(loss, lowest + 1.0, lower=lowest - 0.1)
    np.testing.assert_allclose(at, lowest, atol=1e-9)


def test_steps_that_lead_too_far_are_cut_short(monkeypatch):
    """Newton's whole step from 2 overshoots this minimum by ever more; it is at 0.3."""
    monkeypatch.setattr(minimum, "MOST_SEARCH_STEPS", 0)

    def loss(at):
        off = at - 0.3
        return float(np.sqrt(1.0 + off**2).sum()), off / np.sqrt(1.0 + off**2)

    at, _ = find_minimum(loss, np.array([2.0]))
    np.testing.assert_allclose(at, 0.3, atol=1e-9)


def test_a_hill_is_not_climbed():
    """Without a minimum, the answer is no worse than where the search stopped."""

    def loss(at):
        return float(-np.log1p(at**2).sum()), -2.0 * at / (1.0 + at**2)

    start = np.array([0.5, -0.2])
    at, value = find_minimum(loss, start)
    assert np.isfinite(at).all()
    assert value <= loss(start)[0]


def test_arguments_are_handed_on():
    def loss(at, middle, factor):
        return float(factor * ((at - middle) ** 2).sum()), 2.0 * factor * (at - middle)

    at, value = find_minimum(loss, np.zeros(2), (np.array([1.0, 2.0]), 3.0))
    np.testing.assert_allclose(at, [1.0, 2.0], atol=1e-12)
    assert value < 1e-20
