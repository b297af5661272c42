"""The model of wrong labels: its gradient, and what it recovers."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.noisy_labels import draw_noisy_labels
from nearworth.audit.noise_model import NoiseFit, make_features
from nearworth.audit.votes import Columns


def assert_gradient(fit, at, offsets=None, price=1.0):
    """The slope of the loss is what differences of the loss say."""
    offsets = np.zeros(fit.n_classes) if offsets is None else offsets
    loss = lambda at: fit.loss(at, -1.0, offsets, price)  # noqa: E731
    slope = loss(at)[1]
    for j in range(len(at)):
        shift = np.zeros(len(at))
        shift[j] = 1e-5
        numeric = (loss(at + shift)[0] - loss(at - shift)[0]) / 2e-5
        np.testing.assert_allclose(slope[j], numeric, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3, 41])
def test_gradient(rng, n_classes):
    """Two classes and very many have no preferences among wrong labels, the rest do."""
    shares = rng.dirichlet(np.ones(n_classes), (2, 200))
    given = rng.permutation(np.arange(200) % n_classes)
    fit = NoiseFit(make_features(list(shares)), given)
    assert_gradient(fit, fit.at + rng.normal(size=len(fit.at)) * 0.5)


def test_gradient_with_popularity(rng):
    """No preferences are learnt then."""
    shares, _, given = draw_noisy_labels(rng, 300)
    fit = NoiseFit(make_features([shares]), given, np.array([0.1, 0.2, 0.7]))
    assert_gradient(fit, fit.at + rng.normal(size=len(fit.at)) * 0.3)
    model = fit.model(0.1, np.zeros(3))[0]
    np.testing.assert_allclose(
        model.preferences, [[0, 2 / 9, 7 / 9], [1 / 8, 0, 7 / 8], [1 / 3, 2 / 3, 0]]
    )


def test_columns_do_not_tell_the_given_label(rng):
    """Labels that are drawn by lot: which classes have columns says nothing about them."""
    given = rng.integers(0, 100, 3000)
    columns = Columns.of_most(rng.dirichlet(np.full(100, 0.3), 3000), given, np.full(100, 0.01))
    features = make_features([columns.take(rng.dirichlet(np.full(100, 0.3), 3000))])
    model = NoiseFit(features, columns.given, columns.rows.mean(axis=0)).model(0.05, np.zeros(32))[
        0
    ]
    chances = model.posterior(features, columns.given)[0]
    np.testing.assert_allclose(chances.mean(axis=0), np.append(np.full(31, 0.01), 0.69), atol=0.05)
    assert (
        np.log(chances[np.arange(3000), columns.given]).mean()
        < 0.69 * np.log(0.69) + 0.31 * np.log(0.01) + 0.05
    )


def test_gradient_with_classes_off_the_level(rng):
    shares, _, given = draw_noisy_labels(rng, 300)
    fit = NoiseFit(make_features([shares], squared=shares), given)
    assert_gradient(fit, fit.at + rng.normal(size=len(fit.at)) * 0.3, np.array([0.5, -0.2, 0.1]))


def test_cheap_preferences_cost_less_and_go_further(rng):
    shares, _, given = draw_noisy_labels(rng, 300)
    features = make_features([shares])
    none = np.zeros(3)
    fit = NoiseFit(features, given)
    assert_gradient(fit, fit.at + rng.normal(size=len(fit.at)) * 0.3, price=0.35)
    dear, cheap = (NoiseFit(features, given).model(0.2, none, price) for price in (1.0, 0.35))
    assert cheap[1] < dear[1]
    assert cheap[0].preferences[0, 1] > dear[0].preferences[0, 1] > 0.5


def test_gradient_without_rows_of_a_class(rng):
    given = rng.choice([0, 2], 200)
    fit = NoiseFit(make_features([rng.dirichlet(np.ones(3), 200)]), given)
    assert_gradient(fit, fit.at + rng.normal(size=len(fit.at)) * 0.5)


def test_error_rates_stay_near_those_that_are_given(rng):
    """Where labels say nothing about it."""
    given = rng.integers(0, 2, 400)
    fit = NoiseFit(make_features([np.full((400, 2), 0.5)]), given)
    off = np.array([0.7, -0.7])
    rates = 1.0 - np.diag(fit.model(0.1, off)[0].confusion)
    odds = np.log(2 * 0.1 / (1 - 2 * 0.1)) + off - off @ (np.bincount(given) / 400)
    np.testing.assert_allclose(rates, 0.5 / (1 + np.exp(-odds)), rtol=0.05)


def test_recovers_its_own_parameters(rng):
    shares, _, given = draw_noisy_labels(rng)
    model, _ = NoiseFit(make_features([shares]), given).model(0.15, np.zeros(3))
    np.testing.assert_allclose(1.0 - np.diag(model.confusion), (0.05, 0.2, 0.3), atol=0.08)
    np.testing.assert_allclose(model.weights[0], 3.0, atol=0.6)
    np.testing.assert_allclose(model.confusion.sum(axis=1), 1.0)
    assert model.confusion[0, 1] > 2 * model.confusion[0, 2]
    assert model.confusion[2, 1] > 1.5 * model.confusion[2, 0]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("price", [1.0, 0.35])
def test_fits_end_where_the_loss_has_no_slope(rng, n_classes, price):
    """At every level, whatever fits came before: preferences too, which have a saddle at none."""
    confusion = 0.8 * np.eye(n_classes) + 0.2 * np.roll(np.eye(n_classes), 1, axis=1)
    true = rng.integers(0, n_classes, 400)
    given = np.array([rng.choice(n_classes, p=p) for p in confusion[true]])
    shares = rng.dirichlet(np.ones(n_classes), 400) + 3.0 * np.eye(n_classes)[true]
    shares /= shares.sum(axis=1, keepdims=True)
    none = np.zeros(n_classes)
    fit = NoiseFit(make_features([shares], squared=shares), given)
    for level in (0.02, 0.1, 0.2, 0.3, 0.4):
        _, loss = fit.model(level, none, price)
        level_logit = np.log(2.0 * level / (1.0 - 2.0 * level))
        value, slope = fit.loss(fit.at, level_logit, none, price)
        assert loss == value
        np.testing.assert_allclose(slope, 0.0, atol=1e-9)
