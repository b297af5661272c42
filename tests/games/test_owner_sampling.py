"""Random orders of owners: each order against the definition, their means against exact values."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from helpers.definition import utility_function
from nearworth.games.coefficients import Presence
from nearworth.games.owner_game import (
    Nodes,
    SmallCoalitions,
    add_small,
    add_votes,
    owner_values,
    sampled_values,
)


def defined_contributions(game, owners, order):
    """What each owner adds to the utility of the owners before it, shape (n_owners,)."""
    contributions = np.zeros(len(order))
    coalition = set()
    for owner in order:
        before = game(tuple(sorted(coalition)))
        coalition |= set(np.flatnonzero(owners == owner).tolist())
        contributions[owner] = game(tuple(sorted(coalition))) - before
    return contributions


@pytest.mark.parametrize("utility", ["soft", "original"])
def test_each_order_gives_what_owners_add_to_those_before_them(rng, utility):
    n_owners = 4
    n_classes = 3
    for _ in range(20):
        n = int(rng.integers(1, 9))
        k = int(rng.integers(1, 6))
        # Some owners may have no row.
        owners = rng.integers(0, n_owners, n)
        labels = rng.integers(0, 2, n)
        distances = list(range(n))
        game = utility_function(
            "classification", utility, distances, labels.tolist(), 1, k, n_classes, "index"
        )
        n_rows = np.bincount(owners, minlength=n_owners)
        n_matches = np.bincount(owners, labels, n_owners)
        for order in permutations(range(n_owners)):
            arrivals = np.argsort(order) / n_owners
            values = np.zeros(n_owners)
            add_votes(values, owners, labels / k, arrivals, k)
            if utility == "soft":
                add_small(values, n_rows, n_matches, arrivals, k, n_classes)
            expected = defined_contributions(game, owners, order)
            np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)


def walk_through_all_rows(owners, votes, arrivals, k):
    """Contributions of owners in one order, row by row from near to far."""
    contributions = np.zeros(len(arrivals))
    nearer_arrivals = []
    for owner, vote in zip(owners.tolist(), votes, strict=True):
        earliest = sorted(nearer_arrivals)[:k]
        has_vote = len(earliest) < k or arrivals[owner] < earliest[-1]
        if has_vote:
            contributions[owner] += vote
        if has_vote and len(earliest) == k:
            # The last of the k owners before it loses its vote to this row.
            contributions[np.flatnonzero(arrivals == earliest[-1])] -= vote
        nearer_arrivals.append(arrivals[owner])
    return contributions


def test_many_rows_give_the_values_of_a_walk_through_all_of_them(rng):
    """Far rows are read in larger parts than near ones."""
    n = 3000
    n_owners = 40
    k = 5
    owners = rng.integers(0, n_owners, n)
    votes = rng.random(n)
    arrivals = rng.random(n_owners)
    values = np.zeros(n_owners)
    add_votes(values, owners, votes, arrivals, k)
    expected = walk_through_all_rows(owners, votes, arrivals, k)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n_classes", [None, 3])
def test_means_over_orders_come_near_to_exact_values(rng, tied, n_classes):
    n = 14
    n_owners = 6
    k = 4
    owners = rng.integers(0, n_owners, n)
    gains = rng.integers(0, 2, n).astype(float)
    starts_block = rng.random(n) < (0.5 if tied else 1.0)
    starts_block[0] = True

    nodes = Nodes.of(Presence.of("shapley"), n_owners)
    exact = owner_values(owners, gains, starts_block, k, nodes)
    if n_classes is not None:
        n_rows = np.bincount(owners, minlength=n_owners)
        n_matches = np.bincount(owners, gains, n_owners).astype(int)
        exact = exact + SmallCoalitions(k, n_classes, nodes)(n_rows, n_matches)

    def sample():
        return sampled_values(
            owners,
            gains,
            starts_block,
            n_owners=n_owners,
            n_neighbors=k,
            n_classes=n_classes,
            n_orders=2,
            rng=rng,
        )

    samples = np.array([sample() for _ in range(3000)])
    standard_errors = samples.std(axis=0) / np.sqrt(len(samples)) + 1e-12
    assert (np.abs(samples.mean(axis=0) - exact) < 5 * standard_errors).all()


def test_the_variance_falls_as_the_number_of_orders_rises(rng):
    n = 60
    n_owners = 20
    owners = rng.integers(0, n_owners, n)
    gains = rng.integers(0, 2, n).astype(float)
    starts_block = np.ones(n, dtype=bool)

    def sample(n_orders):
        return sampled_values(
            owners,
            gains,
            starts_block,
            n_owners=n_owners,
            n_neighbors=3,
            n_classes=None,
            n_orders=n_orders,
            rng=rng,
        )

    def variance(n_orders):
        samples = [sample(n_orders) for _ in range(400)]
        return np.var(samples, axis=0).sum()

    assert variance(16) < 0.08 * variance(1)
