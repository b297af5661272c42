"""Votes from the definition."""

from __future__ import annotations

import numpy as np

from nearworth.audit.votes import Voters, rank_weights, vote_shares


def test_votes_from_the_definition(rng):
    n, size, n_classes, k = 12, 5, 3, 2
    points = np.array([rng.permutation(n)[:size] for _ in range(n)]).astype(np.int32)
    points[3, 3:] = -1
    keys = np.sort(rng.random((n, size)), axis=1)
    codes = rng.integers(0, n_classes, n)
    voters = Voters.of(points, keys, k)
    forward, reverse = np.zeros((n, n_classes)), np.zeros((n, n_classes))
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
    assert [count.tolist() for count in counts] == [[[1, 2], [1, 1]], [[0, 1], [1, 0], [1, 1], [1, 0]]]
    equal = voters.with_equal_weights(counts[0])
    np.testing.assert_allclose(equal.sum(), voters.weights.sum())
    np.testing.assert_allclose(equal, counts[0] * equal[1, 0])
