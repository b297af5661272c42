"""Recall, and what a sample says about the rest."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from nearworth.neighbors.exact import ExactSearch
from nearworth.neighbors.recall import Sample, recall_by_distance, upper_limit


def test_recall_by_distance_takes_ties_as_found():
    exact = np.array([[0.0, 1.0, 1.0], [2.0, 3.0, np.inf]])
    found = np.array([[1.0, 1.0, 1.0], [2.0, 3.5, np.inf]])
    np.testing.assert_allclose(recall_by_distance(found, exact), [1.0, 0.5])
    np.testing.assert_allclose(recall_by_distance(found[:, :1], exact), [1 / 3, 1 / 2])
    np.testing.assert_allclose(recall_by_distance(np.full((1, 2), np.inf), np.full((1, 2), np.inf)), [1.0])


@pytest.mark.parametrize("n", [1, 5, 40])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.999])
def test_upper_limit_holds_as_often_as_it_says(n, confidence):
    limits = np.array([upper_limit(misses, n, confidence) for misses in range(n + 1)])
    assert (np.diff(limits) > 0).all()
    assert limits[-1] == 1.0
    for share in np.linspace(0, 1, 201):
        covered = binom.pmf(np.arange(n + 1), n, share)[share <= limits + 1e-12].sum()
        assert covered >= confidence - 1e-9
    # sharp: a share just above the limit would give so few misses too rarely
    np.testing.assert_allclose(binom.cdf(np.arange(n), n, limits[:-1]), 1 - confidence, rtol=1e-8)


class Forgetful(ExactSearch):
    """Never finds the nearest one."""

    def search(self, Q, k):
        indices, distances = super().search(Q, k + 1)
        return indices[:, 1:], distances[:, 1:]


def test_sample_of_queries_measures_recall(rng):
    X, Q = rng.normal(size=(300, 4)), rng.normal(size=(50, 4))
    sample = Sample.of_queries(X, Q, 10)
    assert (sample.recall_of(ExactSearch().fit(X)) == 1).all()
    np.testing.assert_allclose(sample.recall_of(Forgetful().fit(X)), 0.9)


def test_sample_of_training_points_leaves_them_out(rng):
    X = rng.normal(size=(200, 3))
    sample = Sample.of_training(X, 5, 40, rng)
    assert sample.queries.shape == (40, 3)
    assert not (sample.indices == sample.rows[:, None]).any()
    assert (sample.distances > 0).all()
    assert (sample.recall_of(ExactSearch().fit(X)) == 1).all()
    assert (sample.recall_of(Forgetful().fit(X)) == 1).all()  # it only forgets the point that asks


def test_sample_of_few_points(rng):
    sample = Sample.of_training(rng.normal(size=(3, 2)), 5, 40, rng)
    assert (np.isfinite(sample.keys).sum(axis=1) == 2).all()


def test_a_wrong_searcher_is_refused(rng):
    class Repeats(ExactSearch):
        def search(self, Q, k):
            indices, distances = super().search(Q, k)
            return np.repeat(indices[:, :1], k, axis=1), distances

    X = rng.normal(size=(50, 2))
    with pytest.raises(ValueError, match="Repeats.search returned a neighbour twice"):
        Sample.of_queries(X, X[:5], 4).recall_of(Repeats().fit(X))
