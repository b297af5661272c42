"""The level of noise from counts of votes, and probabilities averaged over the levels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import betabinom

import nearworth as nw
from helpers.noisy_labels import draw_noisy_labels
from nearworth.audit import noise_level
from nearworth.audit.noise_level import LEVELS, label_posterior, level_likelihood
from nearworth.audit.noise_model import make_features


def uniform_noise(level, n_classes):
    off = level / (n_classes - 1)
    return np.full((n_classes, n_classes), off) + (1.0 - level - off) * np.eye(n_classes)


def drawn_votes(rng, size, confusion, n=3000, scales=(10, 30)):
    """Votes and given labels of rows around which classes are shared out by a Dirichlet
    distribution of this size.
    """
    n_classes = len(confusion)
    chances = rng.dirichlet(np.full(n_classes, size / n_classes), n) @ np.asarray(confusion)
    chances /= chances.sum(axis=1, keepdims=True)
    codes = np.array([rng.choice(n_classes, p=p) for p in chances])
    return [np.array([rng.multinomial(m, p) for p in chances]) for m in scales], codes


@pytest.mark.parametrize("mean", [0.05, 0.5, 0.8])
def test_without_noise_counts_are_beta_binomial(rng, mean):
    trials = 11
    seen = rng.binomial(trials, rng.beta(2 * mean, 2 * (1 - mean), 500))
    tally = np.bincount(seen, minlength=trials + 1).astype(float)
    counts = np.arange(trials + 1)
    share = seen.mean() / trials
    choose = gammaln(trials + 1) - gammaln(counts + 1) - gammaln(trials - counts + 1)
    found = (
        noise_level.tally_likelihoods(tally[None], np.zeros(1), [(1.0, np.zeros(1))])[0, 0] * trials
    )
    likely = np.flatnonzero((noise_level.SIZES > 0.2) & (noise_level.SIZES < 10))
    for number in likely:
        size = noise_level.SIZES[number]
        exact = tally @ (
            betabinom.logpmf(counts, trials, share * size, (1 - share) * size) - choose
        )
        np.testing.assert_allclose(found[number], exact, rtol=3e-3)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("level", [0.002, 0.03, 0.1, 0.21])
def test_the_level_is_found(rng, n_classes, level):
    votes, codes = drawn_votes(rng, 0.5, uniform_noise(level, n_classes))
    likelihood = level_likelihood(votes, codes).likelihood
    best = LEVELS[likelihood.argmax()]
    assert level / 1.7 <= best <= max(1.7 * level, 0.01)
    assert likelihood.max() - likelihood[min(2 * level + 0.05, 0.42) < LEVELS].max() > 10


@pytest.mark.parametrize("size", [0.01, 1.0, 3.0])
def test_overlap_is_not_noise(rng, size):
    """However far classes overlap: nothing moves the ends of the distribution inwards."""
    votes, codes = drawn_votes(rng, size, np.eye(2))
    likelihood = level_likelihood(votes, codes).likelihood
    assert LEVELS[likelihood.argmax()] <= 0.02
    assert likelihood.max() - likelihood[LEVELS >= 0.1].max() > 3


def lot(rng, n=6000, scales=(10, 30)):
    """Votes and labels drawn by lot, like credit card defaults: most rows have a chance of 0.2 to
    0.6, some of 0.9.
    """
    chances = np.where(rng.random(n) < 0.85, rng.beta(7, 11.5, n), rng.beta(12, 1.5, n))
    codes = (rng.random(n) < chances).astype(int)
    seen = [rng.binomial(m, chances) for m in scales]
    return [np.stack([m - ones, ones], axis=1) for m, ones in zip(scales, seen, strict=True)], codes


def test_outcomes_drawn_by_lot_are_not_noise(rng):
    """No Beta distribution has such humps. Noise explains them in part, overlap of another shape
    fully.
    """
    found = level_likelihood(*lot(rng))
    assert found.by_lot - found.likelihood.max() > 2
    assert LEVELS[found.likelihood.argmax()] > 0.1


def test_more_classes_have_no_such_explanation(rng):
    assert level_likelihood(*drawn_votes(rng, 0.5, uniform_noise(0.1, 3), n=300)).by_lot == -np.inf


@pytest.mark.parametrize(("level", "size"), [(0.1, 0.5), (0.1, 1.5), (0.25, 0.5)])
@pytest.mark.parametrize("n", [1000, 6000])
def test_noise_is_not_taken_for_overlap_of_any_shape(rng, level, size, n):
    votes, codes = drawn_votes(rng, size, uniform_noise(level, 2), n)
    found = level_likelihood(votes, codes)
    assert found.likelihood.max() - found.by_lot > 2


@pytest.mark.parametrize(
    "chances", [[0.5], [0.3, 0.7], [0.0, 0.12, 0.9], np.linspace(0.05, 0.6, 30)]
)
def test_no_distribution_of_chances_fits_better_than_any_shape(rng, chances):
    trials = 31
    n = 400
    tally = np.bincount(rng.binomial(trials, rng.choice(chances, n)), minlength=trials + 1).astype(
        float
    )
    best = noise_level.any_shape_likelihood(tally) * trials
    rates = np.repeat([0.0, 0.1, 0.3], 3)
    inflows = np.tile([0.0, 0.1, 0.3], 3)
    assert (
        best
        > noise_level.tally_likelihoods(tally[None], rates, [(1.0, inflows)]).max() * trials - 1.0
    )
    counts = np.arange(trials + 1)
    choose = gammaln(trials + 1) - gammaln(counts + 1) - gammaln(trials - counts + 1)
    assert (
        best <= tally @ np.log(np.maximum(tally, 1) / n) - tally @ choose
    )  # the shares themselves


def test_two_classes_that_lose_unequally(rng):
    votes, codes = drawn_votes(rng, 0.4, [[0.97, 0.03], [0.27, 0.73]])
    found = level_likelihood(votes, codes)
    off = found.offsets[found.likelihood.argmax()]
    assert off[0] < -0.4 < 0.4 < off[1]
    level = LEVELS[found.likelihood.argmax()]
    rates = 0.5 / (1 + np.exp(-(np.log(2 * level / (1 - 2 * level)) + off)))
    np.testing.assert_allclose(rates, (0.03, 0.27), atol=0.06)


def test_one_of_many_classes_loses_most(rng):
    confusion = uniform_noise(0.05, 4)
    confusion[2] = (0.1, 0.1, 0.7, 0.1)
    votes, codes = drawn_votes(rng, 0.4, confusion)
    found = level_likelihood(votes, codes)
    off = found.offsets[found.likelihood.argmax()]
    assert off.argmax() == 2
    assert off[2] > np.delete(off, 2).max() + 1


@pytest.mark.parametrize("n_classes", [2, 5, 25])
def test_offsets_are_off_the_level_in_both_directions(rng, n_classes):
    votes, codes = drawn_votes(rng, 1.0, uniform_noise(0.1, n_classes), n=1500)
    shares = np.bincount(codes, minlength=n_classes) / len(codes)
    found = level_likelihood(votes, codes)
    near = found.likelihood > found.likelihood.max() - 20
    np.testing.assert_allclose(found.offsets[near] @ shares, 0, atol=0.02)


@pytest.mark.parametrize("off_by", [0.0, 0.8, 1.6])
@pytest.mark.parametrize(
    ("n_classes", "offset_tolerance", "nats"), [(2, 0.07, 0.15), (4, 0.015, 0.04)]
)
def test_offsets_are_normal_before_looking(monkeypatch, off_by, n_classes, offset_tolerance, nats):
    """With deviation 0.8: a grid of offsets that is six times as fine, and wider, says the same."""
    rng = np.random.default_rng(n_classes + int(10 * off_by))
    rates = np.full(n_classes, 0.1)
    rates[0] = 0.5 / (1.0 + np.exp(-(np.log(0.2 / 0.8) + off_by)))
    others = (1.0 - np.eye(n_classes)) / (n_classes - 1)
    confusion = rates[:, None] * others + np.diag(1.0 - rates)
    votes, codes = drawn_votes(rng, 0.5, confusion, n=300)
    found = level_likelihood(votes, codes)
    monkeypatch.setattr(noise_level, "OFFSETS", np.linspace(-3.75, 3.75, 61))
    monkeypatch.setattr(noise_level, "OFFSET_SPREAD", 0.8)
    finer = level_likelihood(votes, codes)
    near = finer.likelihood > finer.likelihood.max() - 10
    np.testing.assert_allclose(found.offsets[near], finer.offsets[near], atol=offset_tolerance)
    difference = found.likelihood - finer.likelihood
    np.testing.assert_allclose(difference[near], difference[finer.likelihood.argmax()], atol=nats)


def test_labels_by_another_name_say_the_same(rng):
    votes, codes = drawn_votes(rng, 0.7, [[0.95, 0.05], [0.2, 0.8]], n=800)
    found = level_likelihood(votes, codes)
    renamed = level_likelihood([v[:, ::-1] for v in votes], 1 - codes)
    np.testing.assert_allclose(renamed.offsets[:, ::-1], found.offsets, atol=1e-6)
    np.testing.assert_allclose(renamed.likelihood, found.likelihood, atol=1e-6)


def test_rows_with_fewer_neighbours_are_left_out(rng):
    votes, codes = drawn_votes(rng, 0.7, uniform_noise(0.1, 2), n=400)
    whole = level_likelihood(votes, codes)
    short = [np.concatenate([v, np.zeros((50, 2), dtype=v.dtype)]) for v in votes]
    some = level_likelihood(short, np.concatenate([codes, np.zeros(50, dtype=codes.dtype)]))
    assert LEVELS[some.likelihood.argmax()] == pytest.approx(
        LEVELS[whole.likelihood.argmax()], abs=0.05
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("agree", [True, False])
def test_one_row_of_each_class_says_little_and_the_right_thing(n_classes, agree):
    """Each has one neighbour. If that has the same label there is less noise, else there is
    more.
    """
    codes = np.arange(n_classes)
    votes = np.eye(n_classes, dtype=np.intp)
    found = level_likelihood([votes if agree else np.roll(votes, 1, axis=0)], codes)
    rises = found.likelihood[-1] - found.likelihood[0]
    assert -4.0 < rises < 0.0 if agree else 0.0 < rises < 4.0
    np.testing.assert_allclose(found.offsets, 0.0, atol=1e-6)  # the classes are alike


@pytest.mark.parametrize(
    "rates",
    [
        pytest.param((0.02, 0.02, 0.02), marks=pytest.mark.long),
        (0.05, 0.2, 0.3),
        pytest.param((0.4, 0.4, 0.4), marks=pytest.mark.long),
    ],
)
def test_calibrated_whatever_the_level(rng, rates):
    shares, true, given = draw_noisy_labels(rng, rates=rates)
    quality = label_posterior(make_features([shares]), given).quality
    assert abs(quality.mean() - (given == true).mean()) < 0.03
    for low in (0.0, 0.5, 0.9):
        some = (quality >= low) & (quality < low + 0.4)
        if some.sum() > 300:
            assert abs(quality[some].mean() - (given == true)[some].mean()) < 0.1


def test_votes_that_lean_are_righted(rng):
    """One class loses more labels than the other: where votes are split evenly, it is the likelier
    one.
    """
    n = 4000
    true = rng.integers(0, 2, n)
    given = np.where(rng.random(n) < np.where(true == 1, 0.35, 0.05), 1 - true, true)
    votes = rng.binomial(60, np.where(true == 1, 0.65, 0.05)) / 60
    posterior = label_posterior(
        make_features([0.99 * np.stack([1 - votes, votes], axis=1) + 0.005]), given
    )
    assert (posterior.evidence.argmax(axis=1) == true).mean() > 0.95
    wrong = given != true
    assert posterior.quality[wrong].mean() < 0.4 < 0.8 < posterior.quality[~wrong].mean()


@pytest.mark.long
def test_levels_that_explain_nothing_get_no_weight(rng):
    shares, true, given = draw_noisy_labels(rng, rates=(0.05, 0.05, 0.05))
    posterior = label_posterior(make_features([shares]), given)
    np.testing.assert_allclose(posterior.weights.sum(), 1.0)
    errors = (1.0 - posterior.right).sum(axis=1)
    assert posterior.weights[errors > 4 * (given != true).sum()].sum() < 0.01


def test_probabilities_of_labels_agree_with_those_of_being_right(rng):
    shares, _, given = draw_noisy_labels(rng, 300)
    posterior = label_posterior(make_features([shares]), given)
    np.testing.assert_allclose(posterior.labels.sum(axis=1), 1)
    np.testing.assert_allclose(posterior.evidence.sum(axis=1), 1)
    np.testing.assert_allclose(posterior.labels[np.arange(300), given], posterior.quality)


def test_evidence_without_information_says_nothing(rng):
    given = rng.integers(0, 2, 500)
    quality = label_posterior(make_features([np.full((500, 2), 0.5)]), given).quality
    assert quality.min() > 0.5
    assert np.ptp(quality[given == 0]) < 1e-9


def test_a_rare_outcome_drawn_by_lot_is_seldom_drawn_everywhere(rng):
    """Three in a thousand have it, wherever they are: few around a row do, and none of them need be
    wrong.
    """
    X = rng.normal(size=(12_000, 4))
    y = rng.random(12_000) < 1 / (1 + np.exp(-np.log(0.003) - X[:, 0]))
    audit = nw.audit_labels(X, y)
    assert audit.n_errors.lower < 5
    assert len(audit.suspects()) < 0.1 * y.sum()
