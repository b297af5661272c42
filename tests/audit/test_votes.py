"""Votes from the definition, and columns of the evidence where classes are very many."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from nearworth.audit import votes
from nearworth.audit.votes import Columns, Voters, rank_weights, vote_evidence, vote_shares


def test_votes_from_the_definition(rng):
    n = 12
    size = 5
    n_classes = 3
    k = 2
    points = np.array([rng.permutation(n)[:size] for _ in range(n)]).astype(np.int32)
    points[3, 3:] = -1
    keys = np.sort(rng.random((n, size)), axis=1)
    codes = rng.integers(0, n_classes, n)
    voters = Voters.of(points, keys, k)
    forward = np.zeros((n, n_classes))
    reverse = np.zeros((n, n_classes))
    for query in range(n):
        for rank, point in enumerate(points[query], start=1):
            if point >= 0:
                forward[query, codes[point]] += 1 / max(k, rank)
                reverse[point, codes[query]] += 1 / max(k, rank)
    np.testing.assert_allclose(voters.forward(codes, n_classes).weights, forward)
    np.testing.assert_allclose(voters.reverse(codes, n, n_classes).weights, reverse)


def test_unknown_labels_do_not_vote():
    voters = Voters.of(np.array([[0], [1]], dtype=np.int32), np.zeros((2, 1)), 1)
    votes = voters.reverse(np.array([-1, 1]), 2, 2)
    assert votes.weights.tolist() == votes.counts.tolist() == [[0, 0], [0, 1]]


def test_rows_at_equal_distance_share_their_weights():
    weights = rank_weights(np.array([[0.0, 1.0, 1.0, 2.0], [0.0, 0.0, 0.0, 0.0]]), 1)
    np.testing.assert_allclose(weights[0], [1, (1 / 2 + 1 / 3) / 2, (1 / 2 + 1 / 3) / 2, 1 / 4])
    np.testing.assert_allclose(weights[1], (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_groups_share_one_vote_at_the_rank_of_their_first_rows(k, rng):
    rows = np.array([rng.permutation(30)[:12] for _ in range(20)]).astype(np.int32)
    keys = np.sort(rng.integers(0, 8, (20, 12)), axis=1).astype(float)
    rows[4, 9:] = -1
    keys[4, 9:] = np.inf
    group = rng.integers(0, 6, 30)
    found = Voters.of(rows, keys, k).with_one_vote_per_group(group, k)
    for at, near, weights, first in zip(keys, rows, found.weights, found.first, strict=True):
        places = {
            g: np.flatnonzero((group[near] == g) & (near >= 0)) for g in group[near[near >= 0]]
        }
        alone = rank_weights(at[[[of[0] for of in places.values()]]], k)[
            0
        ]  # of their first rows only
        expected = np.zeros(12)
        for of, weight in zip(places.values(), alone, strict=True):
            expected[of] = weight / len(of)
            assert first[of].tolist() == [True] + [False] * (len(of) - 1)
        np.testing.assert_allclose(weights, expected)


def test_shares_sum_to_one_and_no_votes_are_the_prior():
    priors = np.array([0.2, 0.8])
    shares = vote_shares(np.array([[0.0, 0.0], [5.0, 1.0]]), priors)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(shares[0], priors)


def test_counts_of_labels_and_equal_weights():
    rows = np.array([[1, 2, 3], [0, 2, -1]], dtype=np.int32)
    voters = Voters.of(rows, np.tile([0.0, 1.0, 2.0], (2, 1)), 1)
    codes = np.array([0, 1, 1, 0])
    assert voters.label_counts(np.array([0, 1]), codes, 2, 2).tolist() == [[0, 2], [1, 1]]
    assert voters.label_counts(np.array([1, 0]), codes, 2, 3).tolist() == [[1, 1], [1, 2]]
    counts = [voters.forward(codes, 2).counts, voters.reverse(codes[:2], 4, 2).counts]
    assert [count.tolist() for count in counts] == [
        [[1, 2], [1, 1]],
        [[0, 1], [1, 0], [1, 1], [1, 0]],
    ]
    equal = voters.with_equal_weights(counts[0])
    np.testing.assert_allclose(equal.sum(), voters.weights.sum())
    np.testing.assert_allclose(equal, counts[0] * equal[1, 0])


def random_voters(rng, n, size, k=2):
    points = np.array(
        [rng.permutation(np.setdiff1d(np.arange(n), query))[:size] for query in range(n)]
    )
    return Voters.of(points.astype(np.int32), np.sort(rng.random((n, size)), axis=1), k)


@pytest.mark.parametrize("at_once", [1, 50, 10**9])
def test_very_many_classes_have_columns_for_those_with_most_votes(rng, monkeypatch, at_once):
    """The same shares as with a column for each class, whatever the number of rows that are looked
    at together.
    """
    n = 60
    n_classes = 12
    codes = rng.permutation(np.arange(n) % n_classes)
    voters = random_voters(rng, n, 4)
    trusted = (random_voters(rng, n, 3), rng.integers(-1, n_classes, n))
    priors = np.bincount(codes) / n
    reverse_of = lambda start, stop: voters.reverse(codes, stop - start, n_classes, start)  # noqa: E731
    dense, nothing = vote_evidence(voters, codes, codes, voters, reverse_of, trusted)
    monkeypatch.setattr(votes, "MOST_COLUMNS", 11)
    monkeypatch.setattr(votes, "N_COLUMNS", 6)
    monkeypatch.setattr(votes, "AT_ONCE", at_once)
    shares, columns = vote_evidence(voters, codes, codes, voters, reverse_of, trusted)
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
        assert (
            columns.given[row] == 5
            if codes[row] in rest
            else named[columns.given[row]] == codes[row]
        )
        if codes[row] in rest:
            np.testing.assert_allclose(columns.part[row], priors[codes[row]] / priors[rest].sum())


def test_columns_by_class_and_back():
    """Five classes, two of them with columns. The second row's label is one of the others, and all
    of their share.
    """
    priors = np.array([0.1, 0.2, 0.3, 0.3, 0.1])
    classes = np.array([[2, 0], [0, 2]])
    rows = np.array([[0.3, 0.1, 0.6], [0.1, 0.3, 0.6]])
    columns = Columns(classes, np.array([2, 4]), np.array([0, 2]), rows)
    shares = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    best = columns.best(shares)
    assert best[0].tolist() == [0, 1]
    assert best[1].tolist() == [2, 2]
    back = columns.put_back(shares, priors)
    np.testing.assert_allclose(
        back[0], [0.3, 0.2 * 0.2 / 0.6, 0.5, 0.2 * 0.3 / 0.6, 0.2 * 0.1 / 0.6]
    )
    np.testing.assert_allclose(back[1], [0.2, 0, 0.3, 0, 0.5])
    np.testing.assert_allclose(columns.take(back), shares)


@pytest.mark.parametrize("seed", range(3))
def test_which_of_many_classes_have_columns_does_not_depend_on_their_names(seed):
    """Most classes have no votes about a row, and are as common as each other."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4))
    codes = rng.permutation(300) % 150
    names = rng.permutation(150)
    found, renamed = (
        nw.audit_labels(X, labels, task="classification") for labels in (codes, names[codes])
    )
    np.testing.assert_allclose(renamed.quality, found.quality, atol=1e-6)
    np.testing.assert_allclose(renamed.confidence, found.confidence, atol=1e-6)
    np.testing.assert_array_equal(renamed.suggested, names[found.suggested])
