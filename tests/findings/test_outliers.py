"""Rows far from all others are found; usual rows are not, in any unit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine

import nearworth as nw


def outliers(X, **parameters):
    return nw.scan(X, np.arange(len(X)) % 2, **parameters).outliers


@pytest.mark.parametrize("d", [1, 2, 4, 6, 20])
def test_few_or_none_on_clean_data(d, rng):
    assert len(outliers(rng.normal(size=(1000, d)))) <= 1
    assert len(outliers(rng.uniform(size=(1000, d)))) <= 1
    assert len(outliers(np.exp(rng.normal(size=(1000, d))))) <= 3


@pytest.mark.parametrize("load", [load_digits, load_iris, load_wine])
def test_few_on_clean_real_data(load):
    X = load().data
    assert len(outliers((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9))) <= 0.01 * len(X)


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_a_row_far_away_is_the_first_outlier(d, rng):
    X = rng.normal(size=(500, d))
    X[77] = 60.0
    found = outliers(X)
    assert found.rows[0] == 77
    assert found.scores.argmax() == 77


def test_a_row_in_a_direction_of_its_own(rng):
    X = np.zeros((500, 40))
    X[:, :5] = rng.normal(size=(500, 5))
    X[3] = 0.0
    X[3, 30] = 2.5  # no longer than other rows
    assert outliers(X).rows.tolist() == [3]


def test_scores_do_not_depend_on_units_or_place(rng):
    X = rng.normal(size=(200, 5))
    scores = outliers(X).scores
    assert np.allclose(outliers(1000.0 * X).scores, scores)
    assert np.allclose(outliers(X + 1000.0).scores, scores, atol=1e-6)


def test_rows_on_a_grid_and_few_rows_and_equal_rows(rng):
    grid = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), axis=-1).reshape(-1, 3)
    assert not len(outliers(grid))
    assert not len(outliers(rng.normal(size=(10, 3))))
    assert not len(outliers(np.ones((60, 5))))


def test_inner_products_are_no_distances(rng):
    X = rng.normal(size=(60, 5))
    assert not outliers(X, metric=lambda a, b: -float(a @ b)).scores.any()
