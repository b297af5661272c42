"""The model of wrong labels: its gradient, what it recovers, and how sure it says it is."""

from __future__ import annotations

import numpy as np
import pytest

from nearworth.audit.errors import ErrorCount, cautious, count_errors, longest_list
from nearworth.audit.levels import believe
from nearworth.audit.noise import NoiseFit, make_features

PREFERENCES = np.array([[0.0, 0.9, 0.1], [0.5, 0.0, 0.5], [0.2, 0.8, 0.0]])


def drawn(rng, n=4000, rates=(0.05, 0.2, 0.3), sharpness=3.0, preferences=PREFERENCES):
    """True and given labels from the model itself, and the shares that were the evidence."""
    n_classes = len(rates)
    shares = rng.dirichlet(np.full(n_classes, 0.4), n) * 0.99 + 0.01 / n_classes
    evidence = shares**sharpness
    evidence /= evidence.sum(axis=1, keepdims=True)
    true = pick(rng, evidence)
    wrong = rng.random(n) < np.asarray(rates)[true]
    return shares, true, np.where(wrong, pick(rng, preferences[true]), true)


def pick(rng, probabilities):
    """One column per row, as likely as it says."""
    marks = rng.random(len(probabilities))[:, None]
    return (marks > np.cumsum(probabilities, axis=1)).sum(axis=1).clip(0, probabilities.shape[1] - 1)


def assert_gradient(fit, at):
    """The slope of the loss is what differences of the loss say."""
    slope = fit.loss(at, -1.0)[1]
    for j in range(len(at)):
        shift = np.zeros(len(at))
        shift[j] = 1e-5
        numeric = (fit.loss(at + shift, -1.0)[0] - fit.loss(at - shift, -1.0)[0]) / 2e-5
        np.testing.assert_allclose(slope[j], numeric, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3, 41])
def test_gradient(rng, n_classes):
    """Two classes and very many have no preferences among wrong labels, the rest do."""
    shares = rng.dirichlet(np.ones(n_classes), (2, 200))
    given = rng.permutation(np.arange(200) % n_classes)
    fit = NoiseFit(make_features(list(shares)), given)
    assert_gradient(fit, fit.at + rng.normal(size=len(fit.at)) * 0.5)


def test_gradient_with_classes_off_the_level(rng):
    shares, _, given = drawn(rng, 300)
    fit = NoiseFit(make_features([shares], bent=shares), given)
    fit.off_level = np.array([0.5, -0.2, 0.1])
    assert_gradient(fit, fit.at + rng.normal(size=len(fit.at)) * 0.3)


def test_gradient_without_rows_of_a_class(rng):
    given = rng.choice([0, 2], 200)
    fit = NoiseFit(make_features([rng.dirichlet(np.ones(3), 200)]), given)
    assert_gradient(fit, fit.at + rng.normal(size=len(fit.at)) * 0.5)


def test_error_rates_stay_near_those_that_are_given(rng):
    """Where labels say nothing about it."""
    given = rng.integers(0, 2, 400)
    fit = NoiseFit(make_features([np.full((400, 2), 0.5)]), given)
    off = np.array([0.7, -0.7])
    rates = 1.0 - np.diag(fit.model(0.1, off).confusion)
    odds = np.log(2 * 0.1 / (1 - 2 * 0.1)) + off - off @ (np.bincount(given) / 400)
    np.testing.assert_allclose(rates, 0.5 / (1 + np.exp(-odds)), rtol=0.05)


def test_recovers_its_own_parameters(rng):
    shares, _, given = drawn(rng)
    model = NoiseFit(make_features([shares]), given).model(0.15)
    np.testing.assert_allclose(1.0 - np.diag(model.confusion), (0.05, 0.2, 0.3), atol=0.08)
    np.testing.assert_allclose(model.weights[0], 3.0, atol=0.6)
    np.testing.assert_allclose(model.confusion.sum(axis=1), 1.0)
    assert model.confusion[0, 1] > 2 * model.confusion[0, 2]
    assert model.confusion[2, 1] > 1.5 * model.confusion[2, 0]


@pytest.mark.parametrize("rates", [(0.02, 0.02, 0.02), (0.05, 0.2, 0.3), (0.4, 0.4, 0.4)])
def test_calibrated_whatever_the_level(rng, rates):
    shares, true, given = drawn(rng, rates=rates)
    quality = believe(make_features([shares]), given).quality
    assert abs(quality.mean() - (given == true).mean()) < 0.03
    for low in (0.0, 0.5, 0.9):
        some = (quality >= low) & (quality < low + 0.4)
        if some.sum() > 300:
            assert abs(quality[some].mean() - (given == true)[some].mean()) < 0.1


def test_votes_that_lean_are_righted(rng):
    """One class loses more labels than the other: where votes are split evenly, it is the likelier one."""
    n = 4000
    true = rng.integers(0, 2, n)
    given = np.where(rng.random(n) < np.where(true == 1, 0.35, 0.05), 1 - true, true)
    votes = rng.binomial(60, np.where(true == 1, 0.65, 0.05)) / 60
    belief = believe(make_features([0.99 * np.stack([1 - votes, votes], axis=1) + 0.005]), given)
    assert (belief.evidence.argmax(axis=1) == true).mean() > 0.95
    wrong = given != true
    assert belief.quality[wrong].mean() < 0.4 < 0.8 < belief.quality[~wrong].mean()


def test_levels_that_explain_nothing_are_not_believed(rng):
    shares, true, given = drawn(rng, rates=(0.05, 0.05, 0.05))
    belief = believe(make_features([shares]), given)
    np.testing.assert_allclose(belief.weights.sum(), 1.0)
    errors = (1.0 - belief.right).sum(axis=1)
    assert belief.weights[errors > 4 * (given != true).sum()].sum() < 0.01


def test_probabilities_of_labels_agree_with_those_of_being_right(rng):
    shares, _, given = drawn(rng, 300)
    belief = believe(make_features([shares]), given)
    np.testing.assert_allclose(belief.labels.sum(axis=1), 1)
    np.testing.assert_allclose(belief.evidence.sum(axis=1), 1)
    np.testing.assert_allclose(belief.labels[np.arange(300), given], belief.quality)


def test_evidence_without_information_says_nothing(rng):
    given = rng.integers(0, 2, 500)
    quality = believe(make_features([np.full((500, 2), 0.5)]), given).quality
    assert quality.min() > 0.5
    assert np.ptp(quality[given == 0]) < 1e-9


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_interval_of_the_count(share):
    count = count_errors(np.full((1, 1000), 1 - share), np.ones(1))
    assert 0 <= count.lower <= count.estimate <= count.upper <= 1000
    np.testing.assert_allclose(count.estimate, 1000 * share)


def test_models_that_disagree_widen_the_interval():
    right = np.array([np.full(1000, 0.9), np.full(1000, 0.6)])
    alone = [count_errors(right[[number]], np.ones(1)) for number in (0, 1)]
    both = count_errors(right, np.array([0.5, 0.5]))
    np.testing.assert_allclose(both.estimate, 250)
    assert both.lower < 100
    assert both.upper > 400
    # The outer halves of each alone are all that remains of the tails.
    assert both.lower > alone[0].lower
    assert both.upper < alone[1].upper


def test_caution_keeps_the_order_and_the_certain(rng):
    right, given = np.sort(rng.random(50)), np.zeros(50, dtype=int)
    assert (cautious(right, given) > right).all()
    assert (np.diff(cautious(right, given)) > 0).all()
    np.testing.assert_allclose(cautious(np.array([0.0, 1.0]), np.array([0, 0])), [0.0, 1.0])


def test_a_rare_class_is_not_wrong_altogether(rng):
    """Twenty rows with one label, all of which seem wrong: as many wrong ones were to be expected, but not for sure."""
    given = np.repeat([0, 1], [980, 20])
    right = np.concatenate([rng.uniform(0.9, 1.0, 980), rng.uniform(0.0, 0.05, 20)])
    careful = cautious(right, given)
    # A normal variable with mean 0 and spread s is 0.8 s on the average of its upper half.
    assert careful[given == 1].sum() == pytest.approx(0.8 * np.sqrt(19 + (0.3 * 19) ** 2), rel=0.2)
    alone = cautious(right[given == 0], given[given == 0])
    np.testing.assert_allclose(careful[given == 0], alone)


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
