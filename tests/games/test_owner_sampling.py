"""Random orders of owners: each against the definition of a marginal contribution, their means
against exact values.
"""

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


@pytest.mark.parametrize("utility", ["soft", "original"])
def test_each_order_gives_what_owners_add_to_those_before_them(rng, utility):
    for _ in range(20):
        n = int(rng.integers(1, 9))
        n_owners = 4
        k = int(rng.integers(1, 6))
        # Some owners may have no row.
        owners = rng.integers(0, n_owners, n)
        labels = rng.integers(0, 2, n)
        game = utility_function(
            "classification", utility, list(range(n)), labels.tolist(), 1, k, 3, "index"
        )
        for order in permutations(range(n_owners)):
            expected = np.zeros(n_owners)
            there = set()
            for owner in order:
                before = game(tuple(sorted(there)))
                there |= set(np.flatnonzero(owners == owner).tolist())
                expected[owner] = game(tuple(sorted(there))) - before
            arrivals = np.argsort(order) / n_owners
            values = np.zeros(n_owners)
            add_votes(values, owners, labels / k, arrivals, k)
            if utility == "soft":
                counts = (
                    np.bincount(owners, minlength=n_owners),
                    np.bincount(owners, labels, n_owners),
                )
                add_small(values, *counts, arrivals, k, 3)
            np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)


def test_rows_beyond_the_first_look_are_seen(rng):
    """Many rows, of which the far ones are looked at in larger parts: against a plain walk through
    all rows.
    """
    n = 3000
    n_owners = 40
    k = 5
    owners = rng.integers(0, n_owners, n)
    votes = rng.random(n)
    arrivals = rng.random(n_owners)
    expected = np.zeros(n_owners)
    nearer = []
    for owner, vote in zip(owners.tolist(), votes, strict=True):
        before = sorted(nearer)[:k]
        if len(before) < k or arrivals[owner] < before[-1]:
            expected[owner] += vote
            if len(before) == k:
                expected[np.flatnonzero(arrivals == before[-1])] -= vote
        nearer.append(arrivals[owner])
    values = np.zeros(n_owners)
    add_votes(values, owners, votes, arrivals, k)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n_classes", [None, 3])
def test_means_over_orders_come_near_to_exact_values(rng, tied, n_classes):
    n = 14
    n_owners = 6
    k = 4
    owners = rng.integers(0, n_owners, n)
    gains = rng.integers(0, 2, n).astype(float)
    first = rng.random(n) < (0.5 if tied else 1.0)
    first[0] = True
    nodes = Nodes.of(Presence.of("shapley"), n_owners)
    exact = owner_values(owners, gains, first, k, nodes)
    if n_classes is not None:
        counts = (
            np.bincount(owners, minlength=n_owners),
            np.bincount(owners, gains, n_owners).astype(int),
        )
        exact = exact + SmallCoalitions(k, n_classes, nodes)(*counts)
    about = {"n_owners": n_owners, "n_neighbors": k, "n_classes": n_classes, "n_orders": 2}
    drawn = np.array([sampled_values(owners, gains, first, **about, rng=rng) for _ in range(3000)])
    error = drawn.std(axis=0) / np.sqrt(len(drawn)) + 1e-12
    assert (np.abs(drawn.mean(axis=0) - exact) < 5 * error).all()


def test_the_variance_falls_as_the_number_of_orders_rises(rng):
    n = 60
    n_owners = 20
    k = 3
    owners = rng.integers(0, n_owners, n)
    gains = rng.integers(0, 2, n).astype(float)
    first = np.ones(n, dtype=bool)
    about = {"n_owners": n_owners, "n_neighbors": k, "n_classes": None}

    def variance(n_orders):
        drawn = [
            sampled_values(owners, gains, first, **about, n_orders=n_orders, rng=rng)
            for _ in range(400)
        ]
        return np.var(drawn, axis=0).sum()

    assert variance(16) < 0.08 * variance(1)
