"""Bucketed classification: certificates against every order inside the buckets, and the promised error."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from definition import SEMIVALUES, UTILITIES
from nearworth.games.buckets import BucketedClassification, BucketRule, bucket_edges
from nearworth.games.classification import ClassificationGame
from nearworth.games.ties import TieBlocks


def exact_values(game, matches, first=None):
    first = np.ones(matches.shape, dtype=bool) if first is None else first
    return game.values(matches, np.ones(len(matches), dtype=np.intp), TieBlocks(first))


def counts(matches, sizes):
    """Matches per bucket (Q, B) of labels in rank order (Q, N)."""
    starts = np.cumsum(sizes) - sizes
    return np.add.reduceat(matches, starts, axis=1)


def per_point(row, matches, sizes):
    """Value, lower, upper of each rank."""
    bucket = np.repeat(np.arange(len(sizes)), sizes)
    return [np.where(matches == 1, m[:, bucket], o[:, bucket]) for m, o in zip(row.match, row.other, strict=True)]


def bucketed(game, matches, sizes, tied=None):
    tied = None if tied is None else np.broadcast_to(tied, (len(matches), len(sizes)))
    all_sizes = np.broadcast_to(sizes, (len(matches), len(sizes)))
    row = BucketedClassification(game).rows(all_sizes, counts(matches, sizes), tied)
    return per_point(row, matches, np.asarray(sizes))


@pytest.mark.parametrize("semivalue", SEMIVALUES)
@pytest.mark.parametrize("utility", UTILITIES)
def test_sharp_over_all_orders_inside_the_buckets(utility, semivalue, rng):
    n = 7
    labels = np.array(list(product((0, 1), repeat=n)))
    for sizes in ([7], [1, 6], [3, 4], [2, 1, 4], [1, 1, 2, 3], [1] * 7):
        game = ClassificationGame(n, int(rng.integers(1, 9)), 3, utility, semivalue)
        truth = exact_values(game, labels)
        value, lower, upper = bucketed(game, labels, sizes)
        known = counts(labels, sizes)
        bucket = np.repeat(np.arange(len(sizes)), sizes)
        for group in np.unique(known, axis=0):
            same = (known == group).all(axis=1)
            for b, match in product(range(len(sizes)), (0, 1)):
                where = same[:, None] & (bucket == b) & (labels == match)
                if where.any():
                    for end, expected in (
                        (value, truth[where].mean()),
                        (lower, truth[where].min()),
                        (upper, truth[where].max()),
                    ):
                        np.testing.assert_allclose(end[where], expected, rtol=0, atol=1e-13)


def test_a_tied_bucket_is_exact(rng):
    """Ties inside buckets are covered; a bucket that is one tie costs nothing."""
    n = 30
    for _ in range(20):
        game = ClassificationGame(n, int(rng.integers(1, 9)), 2, "soft", SEMIVALUES[rng.integers(len(SEMIVALUES))])
        labels = rng.integers(0, 2, (1, n))
        sizes = np.array([1, 4, 5, 8, 12])
        first = rng.random((1, n)) < 0.4
        first[0, np.cumsum(sizes) - sizes] = True
        value, lower, upper = bucketed(game, labels, sizes)
        truth = exact_values(game, labels, first)
        assert (lower - 1e-13 <= truth).all()
        assert (truth <= upper + 1e-13).all()

        whole = np.zeros((1, n), dtype=bool)
        whole[0, np.cumsum(sizes) - sizes] = True
        value, lower, upper = bucketed(game, labels, sizes, tied=np.ones(5, dtype=bool))
        np.testing.assert_allclose(value, exact_values(game, labels, whole), rtol=0, atol=1e-13)
        np.testing.assert_array_equal(lower, value)
        np.testing.assert_array_equal(upper, value)


def test_pure_buckets_cost_nothing(rng):
    game = ClassificationGame(100, 5, 2)
    sizes = np.array([3, 17, 30, 50])
    labels = np.repeat([[0, 1, 0, 1]], sizes, axis=1)
    value, lower, upper = bucketed(game, labels, sizes)
    np.testing.assert_allclose(value, exact_values(game, labels), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(lower, value)
    np.testing.assert_array_equal(upper, value)


def test_empty_buckets_are_nothing(rng):
    game = ClassificationGame(20, 5, 2)
    row = BucketedClassification(game).rows([[8, 12]], [[3, 5]])
    gaps = BucketedClassification(game).rows([[0, 8, 0, 0, 12, 0]], [[0, 3, 0, 0, 5, 0]])
    for with_gaps, without in zip(gaps.match + gaps.other, row.match + row.other, strict=True):
        np.testing.assert_array_equal(with_gaps[:, [1, 4]], without)


def hostile_labels(n, sizes, rng):
    """Random rates, and in every bucket some matches first, or last: the orders that move values most."""
    rates = rng.random((12, 1)) ** 2
    labels = (rng.random((12, n)) < rates).astype(np.intp)
    starts = np.cumsum(sizes) - sizes
    position = np.arange(n) - np.repeat(starts, sizes)
    share = np.ceil(np.repeat(sizes, sizes) * rng.choice([0.1, 0.3, 0.5, 0.8], (3, n)))
    first = position < share
    return np.concatenate([labels, first, ~first])


def prefix_and(edges):
    """Sizes of single ranks up to the first edge, then of the buckets."""
    return np.concatenate([np.ones(edges[0], dtype=np.intp), np.diff(edges)])


@pytest.mark.parametrize("semivalue", SEMIVALUES)
@pytest.mark.parametrize("max_error", [1e-2, 1e-3, 3e-5])
def test_edges_keep_their_promise(semivalue, max_error, rng):
    """Certificate and true error, random and hostile orders, N about 2000."""
    n = 2000 + int(rng.integers(100))
    game = ClassificationGame(n, 5, 2, "soft", semivalue)
    edges = bucket_edges(game, max_error)
    assert edges[-1] == n
    sizes = prefix_and(edges)
    labels = hostile_labels(n, sizes, rng)
    value, lower, upper = bucketed(game, labels, sizes)
    truth = exact_values(game, labels)
    assert max((upper - value).max(), (value - lower).max()) <= max_error + 1e-13
    assert np.abs(truth - value).max() <= max_error + 1e-13
    assert (lower - 1e-13 <= truth).all()
    assert (truth <= upper + 1e-13).all()


@pytest.mark.parametrize("max_error", [1e-2, 1e-3, 1e-4, 1e-5])
def test_any_cut_that_keeps_the_rule(max_error, rng):
    """Buckets as wide as the rule allows, or narrower at random; the worst number of matches in each bucket."""
    n, n_neighbors = 2000, int(rng.integers(1, 30))
    rule = BucketRule.of(n, n_neighbors, max_error)
    game = ClassificationGame(n, n_neighbors, 2)
    for narrower in (False, True):
        edges = [rule.prefix]
        while edges[-1] < n:
            width = int(rule.widest(edges[-1]))
            width = int(rng.integers(1, width + 1)) if narrower else width
            edges.append(min(edges[-1] + width, n))
        sizes = prefix_and(np.array(edges))
        for share in (0.0, 0.1, 0.3, 0.5, 0.7, 1.0):
            matches = np.clip(np.rint(share * sizes + rng.uniform(-0.5, 0.5, sizes.shape)), 0, sizes)
            matches = np.where(sizes > 1, np.clip(matches, 1, sizes - 1), matches)
            row = BucketedClassification(game).rows(sizes[None], matches[None])
            for interval in row:
                assert (
                    max((interval.upper - interval.value).max(), (interval.value - interval.lower).max()) <= max_error
                )


def test_few_cells_are_enough():
    """About eps^(-1/2) of them, where a sort has N."""
    for n, max_error in ((10**4, 1e-4), (10**5, 1e-4), (10**5, 1e-6)):
        edges = bucket_edges(ClassificationGame(n, 5, 2), max_error)
        assert len(edges) + edges[0] < 4 * max_error**-0.5
        assert BucketRule.of(n, 5, max_error).prefix < 2 * max_error**-0.5


def test_ends_of_the_scale():
    for n, n_neighbors in ((1, 1), (1, 5), (3, 5), (50, 5)):
        game = ClassificationGame(n, n_neighbors, 2)
        exact, coarse = bucket_edges(game, 0.0), bucket_edges(game, 10.0)
        assert coarse.tolist() == [0, n] or n == 1
        _, lower, upper = bucketed(game, np.eye(1, n, dtype=np.intp), prefix_and(exact))
        np.testing.assert_array_equal(lower, upper)
        assert BucketRule.of(n, n_neighbors, 0.0).prefix == n
        assert BucketRule.of(n, n_neighbors, 10.0).prefix <= n


def test_bad_input_is_named():
    game = ClassificationGame(10, 3, 2)
    with pytest.raises(ValueError, match="sizes"):
        BucketedClassification(game).rows([[4, 5]], [[1, 1]])
    with pytest.raises(ValueError, match="matches"):
        BucketedClassification(game).rows([[4, 6]], [[5, 1]])
    for bad in (-1e-3, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="max_error"):
            bucket_edges(game, bad)
        with pytest.raises(ValueError, match="max_error"):
            BucketRule.of(10, 3, bad)
