"""Columns of the evidence where classes are very many."""

from __future__ import annotations

import numpy as np
import pytest

from nearworth.audit import many_classes as few
from nearworth.audit.many_classes import Columns
from nearworth.audit.votes import Voters, vote_evidence


def random_voters(rng, n, size, k=2):
    points = np.array([rng.permutation(np.setdiff1d(np.arange(n), query))[:size] for query in range(n)])
    return Voters.of(points.astype(np.int32), np.sort(rng.random((n, size)), axis=1), k)


@pytest.mark.parametrize("at_once", [1, 50, 10**9])
def test_very_many_classes_have_columns_for_those_with_most_votes(rng, monkeypatch, at_once):
    """The same shares as with a column for each class, whatever the number of rows that are looked at together."""
    n, n_classes = 60, 12
    codes = rng.permutation(np.arange(n) % n_classes)
    voters, trusted = random_voters(rng, n, 4), [(random_voters(rng, n, 3), rng.integers(-1, n_classes, n))]
    priors = np.bincount(codes) / n
    dense, nothing = vote_evidence(voters, codes, priors, trusted)
    monkeypatch.setattr(few, "MOST_COLUMNS", 11)
    monkeypatch.setattr(few, "N_COLUMNS", 6)
    monkeypatch.setattr(few, "AT_ONCE", at_once)
    shares, columns = vote_evidence(voters, codes, priors, trusted)
    assert nothing is None
    assert 0 < (columns.given == 5).sum() < n
    for row in range(n):
        named = columns.classes[row]
        rest = np.setdiff1d(np.arange(n_classes), named)
        assert len(rest) == n_classes - 5
        assert (np.diff(dense[2][row, named]) <= 0).all()
        assert dense[2][row, named].min() >= dense[2][row, rest].max()
        for kind, all_of_kind in zip(shares, dense, strict=True):
            np.testing.assert_array_equal(kind[row, :-1], all_of_kind[row, named])
            np.testing.assert_allclose(kind[row, -1], all_of_kind[row, rest].sum())
        np.testing.assert_allclose(columns.rows[row], [*priors[named], priors[rest].sum()])
        assert columns.given[row] == 5 if codes[row] in rest else named[columns.given[row]] == codes[row]
        if codes[row] in rest:
            np.testing.assert_allclose(columns.part[row], priors[codes[row]] / priors[rest].sum())


def test_columns_by_class_and_back():
    """Five classes, two of them with columns. The second row's label is one of the others, and all of their share."""
    priors = np.array([0.1, 0.2, 0.3, 0.3, 0.1])
    classes = np.array([[2, 0], [0, 2]])
    rows = np.array([[0.3, 0.1, 0.6], [0.1, 0.3, 0.6]])
    columns = Columns(classes, np.array([2, 4]), np.array([0, 2]), rows)
    shares = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    best = columns.best(shares)
    assert best[0].tolist() == [0, 1]
    assert best[1].tolist() == [2, 2]
    back = columns.put_back(shares, priors)
    np.testing.assert_allclose(back[0], [0.3, 0.2 * 0.2 / 0.6, 0.5, 0.2 * 0.3 / 0.6, 0.2 * 0.1 / 0.6])
    np.testing.assert_allclose(back[1], [0.2, 0, 0.3, 0, 0.5])
    np.testing.assert_allclose(columns.take(back), shares)
