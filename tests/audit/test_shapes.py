"""What the spread of votes says about noise: the likelihood, and what it recovers from votes drawn by the model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import betabinom

from nearworth.audit import shapes
from nearworth.audit.levels import LEVELS
from nearworth.audit.shapes import read_shapes


def uniform_noise(level, n_classes):
    off = level / (n_classes - 1)
    return np.full((n_classes, n_classes), off) + (1.0 - level - off) * np.eye(n_classes)


def drawn(rng, size, confusion, n=3000, scales=(10, 30)):
    """Votes and given labels of rows around which classes are shared out by a Dirichlet distribution of this size."""
    n_classes = len(confusion)
    chances = rng.dirichlet(np.full(n_classes, size / n_classes), n) @ np.asarray(confusion)
    chances /= chances.sum(axis=1, keepdims=True)
    codes = np.array([rng.choice(n_classes, p=p) for p in chances])
    return [np.array([rng.multinomial(m, p) for p in chances]) for m in scales], codes


@pytest.mark.parametrize("mean", [0.05, 0.5, 0.8])
def test_without_noise_counts_are_beta_binomial(rng, mean):
    tosses = 11
    seen = rng.binomial(tosses, rng.beta(2 * mean, 2 * (1 - mean), 500))
    tally, heads = np.bincount(seen, minlength=tosses + 1).astype(float), np.arange(tosses + 1)
    share = seen.mean() / tosses
    choose = gammaln(tosses + 1) - gammaln(heads + 1) - gammaln(tosses - heads + 1)
    found = shapes._mixed(tally, np.zeros(1), [(1.0, np.zeros(1))])[0] * tosses
    likely = np.flatnonzero((shapes.SIZES > 0.2) & (shapes.SIZES < 10))
    for number in likely:
        size = shapes.SIZES[number]
        exact = tally @ (betabinom.logpmf(heads, tosses, share * size, (1 - share) * size) - choose)
        np.testing.assert_allclose(found[number], exact, rtol=3e-3)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("level", [0.002, 0.03, 0.1, 0.21])
def test_the_level_is_found(rng, n_classes, level):
    votes, codes = drawn(rng, 0.5, uniform_noise(level, n_classes))
    likelihood = read_shapes(votes, codes, LEVELS).likelihood
    best = LEVELS[likelihood.argmax()]
    assert level / 1.7 <= best <= max(1.7 * level, 0.01)
    assert likelihood.max() - likelihood[min(2 * level + 0.05, 0.42) < LEVELS].max() > 10


@pytest.mark.parametrize("size", [0.01, 1.0, 3.0])
def test_overlap_is_not_noise(rng, size):
    """However far classes overlap: nothing moves the ends of the distribution inwards."""
    votes, codes = drawn(rng, size, np.eye(2))
    likelihood = read_shapes(votes, codes, LEVELS).likelihood
    assert LEVELS[likelihood.argmax()] <= 0.02
    assert likelihood.max() - likelihood[LEVELS >= 0.1].max() > 3


def test_two_classes_that_lose_unequally(rng):
    votes, codes = drawn(rng, 0.4, [[0.97, 0.03], [0.27, 0.73]])
    found = read_shapes(votes, codes, LEVELS)
    off = found.off_level[found.likelihood.argmax()]
    assert off[0] < -0.4 < 0.4 < off[1]
    level = LEVELS[found.likelihood.argmax()]
    rates = 0.5 / (1 + np.exp(-(np.log(2 * level / (1 - 2 * level)) + off)))
    np.testing.assert_allclose(rates, (0.03, 0.27), atol=0.06)


def test_one_of_many_classes_loses_most(rng):
    confusion = uniform_noise(0.05, 4)
    confusion[2] = (0.1, 0.1, 0.7, 0.1)
    votes, codes = drawn(rng, 0.4, confusion)
    found = read_shapes(votes, codes, LEVELS)
    off = found.off_level[found.likelihood.argmax()]
    assert off.argmax() == 2
    assert off[2] > np.delete(off, 2).max() + 1


@pytest.mark.parametrize("n_classes", [2, 5, 25])
def test_offsets_are_off_the_level_in_both_directions(rng, n_classes):
    votes, codes = drawn(rng, 1.0, uniform_noise(0.1, n_classes), n=1500)
    shares = np.bincount(codes, minlength=n_classes) / len(codes)
    found = read_shapes(votes, codes, LEVELS)
    near = found.likelihood > found.likelihood.max() - 20
    np.testing.assert_allclose(found.off_level[near] @ shares, 0, atol=0.02)


def test_labels_by_another_name_say_the_same(rng):
    votes, codes = drawn(rng, 0.7, [[0.95, 0.05], [0.2, 0.8]], n=800)
    found = read_shapes(votes, codes, LEVELS)
    renamed = read_shapes([v[:, ::-1] for v in votes], 1 - codes, LEVELS)
    np.testing.assert_allclose(renamed.off_level[:, ::-1], found.off_level, atol=1e-6)
    np.testing.assert_allclose(renamed.likelihood, found.likelihood, atol=1e-6)


def test_rows_with_fewer_neighbours_are_left_out(rng):
    votes, codes = drawn(rng, 0.7, uniform_noise(0.1, 2), n=400)
    whole = read_shapes(votes, codes, LEVELS)
    short = [np.concatenate([v, np.zeros((50, 2), dtype=v.dtype)]) for v in votes]
    some = read_shapes(short, np.concatenate([codes, np.zeros(50, dtype=codes.dtype)]), LEVELS)
    assert LEVELS[some.likelihood.argmax()] == pytest.approx(LEVELS[whole.likelihood.argmax()], abs=0.05)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_handful_of_rows(n_classes):
    """Nothing to learn from is no reason to fail."""
    codes = np.arange(n_classes)
    found = read_shapes([np.eye(n_classes, dtype=np.intp)[::-1]], codes, LEVELS)
    assert np.isfinite(found.likelihood).all()
    assert np.isfinite(found.off_level).all()
