"""The model of wrong labels: its gradient, and what it recovers."""

from __future__ import annotations

import numpy as np
import pytest

from nearworth.audit.columns import FewColumns
from nearworth.audit.noise_model import NoiseFit, NoiseModel, make_features
from noisy_labels import drawn


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


def few_columns(rng, given, n_classes, n_columns):
    """Of random classes, whether the given one is among them or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearworth.audit.columns.N_COLUMNS", n_columns)
        priors = rng.dirichlet(np.full(n_classes, 5.0))
        return FewColumns.of_most(rng.random((len(given), n_classes)), given, priors), priors


def test_gradient_with_few_columns(rng):
    given = rng.permutation(np.arange(200) % 7)
    columns, _ = few_columns(rng, given, 7, 5)
    assert 0 < (columns.at == 0).sum() < 200
    shares = [columns.take(share) for share in rng.dirichlet(np.ones(7), (2, 200))]
    fit = NoiseFit(make_features(shares), given, columns)
    assert_gradient(fit, fit.at + rng.normal(size=len(fit.at)) * 0.5)


def test_few_columns_are_the_same_model_of_classes_taken_together(rng):
    """From the definition: the others share their evidence as they share the rows, wrong labels go to all alike."""
    n_classes, given = 7, rng.permutation(np.arange(60) % 7)
    columns, priors = few_columns(rng, given, n_classes, 5)
    shares = rng.dirichlet(np.ones(n_classes), 60)
    weight, shifts, rates = 1.7, rng.normal(size=8), rng.uniform(0.1, 0.3, 8)
    model = NoiseModel(np.array([weight]), shifts, rates, np.append(np.full(7, 1 / 7), 0.0))
    evidence, labels = model.posterior(make_features([columns.take(shares)]), given, columns)
    for row in range(60):
        named = columns.of_row[row, 1:-1]
        others = np.setdiff1d(np.arange(n_classes), named)
        true, wrong = np.empty(n_classes), np.empty(n_classes)
        true[named] = shares[row, named] ** weight * np.exp(shifts[named])
        true[others] = shares[row, others].sum() ** weight * np.exp(shifts[7]) * priors[others] / priors[others].sum()
        true /= true.sum()
        wrong[named], wrong[others] = rates[named] / 6, rates[7] / 7  # of seven others no one is left out
        wrong[given[row]] = 1 - rates[given[row]]
        joint = true * wrong / (true @ wrong)
        np.testing.assert_allclose(evidence[row, 1:-1], true[named])
        np.testing.assert_allclose(labels[row, 1:-1], joint[named])
        np.testing.assert_allclose(labels[row, columns.at[row]], joint[given[row]])
        np.testing.assert_allclose(labels[row].sum(), 1.0)


def test_columns_do_not_tell_the_given_label(rng):
    """Labels that are drawn by lot: what classes have columns says nothing about them."""
    given = rng.integers(0, 100, 3000)
    shares = rng.dirichlet(np.full(100, 0.3), 3000)
    columns = FewColumns.of_most(shares, given, np.full(100, 0.01))
    model = NoiseFit(make_features([columns.take(shares)]), given, columns).model(0.05, np.zeros(101))[0]
    chances = model.posterior(make_features([columns.take(shares)]), given, columns)[0][np.arange(3000), columns.at]
    np.testing.assert_allclose(np.log(chances).mean(), np.log(0.01), atol=0.05)


def test_gradient_with_classes_off_the_level(rng):
    shares, _, given = drawn(rng, 300)
    fit = NoiseFit(make_features([shares], squared=shares), given)
    assert_gradient(fit, fit.at + rng.normal(size=len(fit.at)) * 0.3, np.array([0.5, -0.2, 0.1]))


def test_cheap_preferences_cost_less_and_go_further(rng):
    shares, _, given = drawn(rng, 300)
    features, none = make_features([shares]), np.zeros(3)
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
    shares, _, given = drawn(rng)
    model, _ = NoiseFit(make_features([shares]), given).model(0.15, np.zeros(3))
    np.testing.assert_allclose(1.0 - np.diag(model.confusion), (0.05, 0.2, 0.3), atol=0.08)
    np.testing.assert_allclose(model.weights[0], 3.0, atol=0.6)
    np.testing.assert_allclose(model.confusion.sum(axis=1), 1.0)
    assert model.confusion[0, 1] > 2 * model.confusion[0, 2]
    assert model.confusion[2, 1] > 1.5 * model.confusion[2, 0]
