"""The model of wrong labels: its gradient, what it recovers, and how sure it says it is."""

from __future__ import annotations

import numpy as np
import pytest

from nearworth.audit.errors import ErrorCount, count_errors, longest_list
from nearworth.audit.noise import _loss, fit_noise, make_features


def drawn(rng, n=4000, rates=(0.05, 0.2, 0.3), sharpness=3.0):
    """True and given labels from the model itself, and the shares that were the evidence."""
    n_classes = len(rates)
    shares = rng.dirichlet(np.full(n_classes, 0.4), n) * 0.99 + 0.01 / n_classes
    evidence = shares**sharpness
    evidence /= evidence.sum(axis=1, keepdims=True)
    true = (rng.random(n)[:, None] > np.cumsum(evidence, axis=1)).sum(axis=1).clip(0, n_classes - 1)
    wrong = rng.random(n) < np.asarray(rates)[true]
    given = np.where(wrong, (true + rng.integers(1, n_classes, n)) % n_classes, true)
    return shares, true, given


def test_gradient(rng):
    shares, _, given = drawn(rng, 200)
    features = make_features([shares, shares[:, ::-1]], np.full(3, 1 / 3))
    at = rng.normal(size=6) * 0.5
    slope = _loss(at, features, given)[1]
    for j in range(len(at)):
        shift = np.zeros(len(at))
        shift[j] = 1e-5
        numeric = (_loss(at + shift, features, given)[0] - _loss(at - shift, features, given)[0]) / 2e-5
        np.testing.assert_allclose(slope[j], numeric, rtol=1e-4, atol=1e-4)


def test_recovers_its_own_parameters(rng):
    shares, true, given = drawn(rng)
    features = make_features([shares], np.full(3, 1 / 3))
    model = fit_noise(features, given)
    found = model.posterior(features, given)
    np.testing.assert_allclose(found.rates, (0.05, 0.2, 0.3), atol=0.08)
    np.testing.assert_allclose(model.weights[0], 3.0, atol=0.6)
    right = found.right(given)
    assert abs(right.mean() - (given == true).mean()) < 0.03
    for low in (0.0, 0.5, 0.9):  # calibrated
        some = (right >= low) & (right < low + 0.4)
        assert abs(right[some].mean() - (given == true)[some].mean()) < 0.08


def test_probabilities_of_labels_agree_with_those_of_being_right(rng):
    shares, _, given = drawn(rng, 300)
    features = make_features([shares], np.full(3, 1 / 3))
    found = fit_noise(features, given).posterior(features, given)
    labels = found.of_labels(given)
    np.testing.assert_allclose(labels.sum(axis=1), 1)
    np.testing.assert_allclose(labels[np.arange(300), given], found.right(given))


def test_evidence_without_information_says_nothing(rng):
    shares = np.full((500, 2), 0.5)
    given = rng.integers(0, 2, 500)
    features = make_features([shares], np.full(2, 0.5))
    right = fit_noise(features, given).posterior(features, given).right(given)
    assert right.min() > 0.5
    assert np.ptp(right[given == 0]) < 1e-9


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_interval_of_the_count(share):
    right = np.full(1000, 1 - share)
    count = count_errors(right, lambda p: float(share), np.zeros(1), np.eye(1))
    assert 0 <= count.lower <= count.estimate <= count.upper <= 1000
    np.testing.assert_allclose(count.estimate, 1000 * share)


def test_uncertain_parameters_widen_the_interval():
    right = np.full(1000, 0.9)

    def slope(p):
        return 0.1 + 0.01 * float(p[0])

    narrow, wide = (count_errors(right, slope, np.zeros(1), size * np.eye(1)) for size in (0.0, 25.0))
    assert wide.lower < narrow.lower < narrow.upper < wide.upper
    np.testing.assert_allclose(narrow.upper - narrow.lower, 2 * 1.96 * np.sqrt(90), rtol=0.05)


def test_longest_list_from_the_definition(rng):
    right = np.sort(rng.random(200) ** 2)
    order = np.arange(200)
    for asked in (0.05, 0.2, 0.3):
        n = longest_list(order, right, asked)
        expected = max([m for m in range(1, 201) if (right[:m].sum() + 1) / m <= asked], default=0)
        assert n == expected
    assert longest_list(order, right, 1.0) == 200
    assert longest_list(order, right, 0.0) == 0


def test_count_prints_itself():
    assert str(ErrorCount(12.4, 8.0, 20.0)) == "12 (95% interval 8 to 20)"
    assert float(ErrorCount(12.4, 8.0, 20.0)) == 12.4
