"""What must not matter to an audit does not: names, order of rows, a class that next to nobody has."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from nearworth.audit.errors import cautious
from nearworth.audit.levels import fitted_rows


def two_classes(rng, n=800, noise=0.15, apart=2.0):
    true = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4))
    X[:, 0] += apart * (2 * true - 1)
    return X, true, np.where(rng.random(n) < noise, 1 - true, true)


@pytest.mark.parametrize("n_classes", [2, 4, 25])
def test_names_do_not_matter(rng, n_classes):
    """More classes than shapes are read of among them, all of one size."""
    y = np.arange(600) % n_classes
    X = (1.2 * rng.normal(size=(n_classes, 4)))[y] + rng.normal(size=(600, 4))
    renamed = rng.permutation(n_classes)[y]
    np.testing.assert_allclose(nw.audit_labels(X, y).quality, nw.audit_labels(X, renamed).quality, atol=1e-3)


def test_order_of_rows_does_not_matter(rng):
    X, _, y = two_classes(rng, 400, noise=0.3, apart=0.4)
    order = rng.permutation(400)
    shuffled = nw.audit_labels(X[order], y[order]).quality
    np.testing.assert_allclose(nw.audit_labels(X, y).quality[order], shuffled, atol=1e-3)


def test_one_row_of_a_third_class_hides_no_errors(rng):
    X, true, y = two_classes(rng)
    wrong = int((y != true).sum())
    y[0] = 2
    count = nw.audit_labels(X, y).n_errors
    assert count.lower < wrong < count.upper
    assert 0.7 * wrong < count.estimate < 1.3 * wrong


@pytest.mark.parametrize("label", [1, 3])
def test_a_class_that_the_fit_never_sees(rng, label):
    n = 6_600
    X = rng.normal(size=(n, 3))
    y = 2 * (X[:, 0] > 0)
    y[np.setdiff1d(np.arange(n), fitted_rows(n))[0]] = label
    audit = nw.audit_labels(X, y)
    assert np.isfinite(audit.quality).all()
    assert audit.n_errors.estimate < 60


def test_certain_labels_of_many_classes(rng):
    centres = 100 * rng.normal(size=(50, 4))
    y = np.arange(1500) % 50
    audit = nw.audit_labels(centres[y] + rng.normal(size=(1500, 4)), y)
    assert audit.quality.min() > 0.9
    assert audit.quality.max() <= 1


def test_caution_survives_rounding():
    np.testing.assert_allclose(cautious(np.array([1 - 1e-16, 1 + 2.3e-16]), np.array([0, 1])), 1.0)
    lonely = cautious(np.array([1e-30]), np.array([0]))
    assert 0.3 < lonely[0] < 0.7  # one row of its class, whatever is thought of it
