"""Columns of the evidence where classes are very many."""

from __future__ import annotations

import numpy as np
import pytest

from nearworth.audit import columns as few
from nearworth.audit.columns import Columns, FewColumns
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
    dense, all_columns = vote_evidence(voters, codes, priors, trusted)
    monkeypatch.setattr(few, "MOST_CLASSES", 11)
    monkeypatch.setattr(few, "N_COLUMNS", 7)
    monkeypatch.setattr(few, "AT_ONCE", at_once)
    shares, columns = vote_evidence(voters, codes, priors, trusted)
    assert all_columns == Columns(n_classes)
    assert columns.n_classes == n_classes + 1
    assert (columns.of_row[:, [0, -1]] == n_classes).all()
    assert 0 < (columns.at == 0).sum() < n
    for row in range(n):
        named = columns.of_row[row, 1:-1]
        rest = np.setdiff1d(np.arange(n_classes), named)
        assert len(rest) == n_classes - 5
        assert dense[2][row, named].min() >= dense[2][row, rest].max()
        for kind, all_of_kind in zip(shares, dense, strict=True):
            np.testing.assert_array_equal(kind[row, 1:-1], all_of_kind[row, named])
            np.testing.assert_allclose(kind[row, [0, -1]], all_of_kind[row, rest].sum())
        part = priors[codes[row]] / priors[rest].sum() if codes[row] in rest else 0.0
        np.testing.assert_allclose(np.exp(columns.splits[row]), [part, 1 - part])


def test_columns_by_class_and_back():
    """Five classes: two named for each row, and two columns for the others."""
    parts = np.log([[0.0 + 1e-300, 1.0], [0.25, 0.75]])
    columns = FewColumns(6, np.array([[5, 2, 0, 5], [5, 0, 2, 5]]), np.array([2, 4]), np.array([1, 0]), parts)
    cells = np.array([[0.0, 0.5, 0.3, 0.2], [0.1, 0.2, 0.3, 0.4]])
    assert columns.given(columns.codes).tolist() == [1, 0]
    assert columns.classes(np.array([2, 0])).tolist() == [0, 4]
    assert columns.best(np.array([[0.0, 0.1, 0.2, 0.7], [0.3, 0.1, 0.1, 0.5]])).tolist() == [2, 0]
    np.testing.assert_allclose(columns.add_up(cells), [0.5, 0, 0.8, 0, 0, 0.7])
    np.testing.assert_allclose(
        columns.shifted(np.zeros((2, 4)), np.arange(6.0))[1], [5 + np.log(0.25), 0, 2, 5 + np.log(0.75)]
    )
    priors = np.array([0.1, 0.2, 0.3, 0.3, 0.1])
    back = columns.put_back(cells, priors)
    np.testing.assert_allclose(back[0], [0.3, 0.2 * 0.2 / 0.6, 0.5, 0.2 * 0.3 / 0.6, 0.2 * 0.1 / 0.6])
    np.testing.assert_allclose(back[1], [0.2, 0.4 * 0.2 / 0.5, 0.3, 0.4 * 0.3 / 0.5, 0.1])
    np.testing.assert_allclose(columns.take(back), columns.merged(cells))
    np.testing.assert_allclose(columns.take(priors)[0], [0.6, 0.3, 0.1, 0.6])
