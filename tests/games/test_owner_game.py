"""Owners as players, in rank space: against the 2^M definition in exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from helpers.definition import SEMIVALUES, UTILITIES, defined_values, utility_function
from nearworth.games.coefficients import Presence
from nearworth.games.owner_game import Nodes, SmallCoalitions, all_but_one, owner_values

ALL_SEMIVALUES = (*SEMIVALUES, "composite")


def values_of_owners(
    owners, distances, labels, label, *, k, utility, semivalue, n_classes, ties, n_owners
):
    """By the closed form, for rows in any order."""
    nodes = Nodes.of(Presence.of(semivalue), n_owners)
    order = np.argsort(distances, kind="stable")
    ranked = np.asarray(distances)[order]
    first = np.append(True, (np.diff(ranked) != 0) | (ties == "index"))
    matches = np.asarray(labels) == label
    values = owner_values(owners[order], matches[order].astype(float), first, k, nodes)
    if utility == "soft":
        small = SmallCoalitions(k, n_classes, nodes)
        values = values + small(
            np.bincount(owners, minlength=n_owners),
            np.bincount(owners[matches], minlength=n_owners),
        )
    return values


def values_by_definition(
    owners, distances, labels, label, *, k, utility, semivalue, n_classes, ties, n_owners
):
    game = utility_function("classification", utility, distances, labels, label, k, n_classes, ties)
    rows = [np.flatnonzero(owners == owner).tolist() for owner in range(n_owners)]
    return defined_values(
        lambda members: game(tuple(sorted(i for o in members for i in rows[o]))),
        n_owners,
        semivalue,
    )


def check(owners, distances, labels, label, **game):
    owners, game["n_owners"] = np.asarray(owners), game.get("n_owners", max(owners) + 1)
    found = values_of_owners(owners, distances, labels, label, **game)
    expected = values_by_definition(owners, distances, labels, label, **game)
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=1e-12, err_msg=f"{owners} {distances} {labels} {game}"
    )


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("ties", ["average", "index"])
def test_every_semivalue_agrees_with_the_definition(rng, utility, ties):
    for _ in range(20):
        n_owners = int(rng.integers(1, 6))
        n = int(rng.integers(n_owners, 10))
        owners = rng.permutation(
            np.append(np.arange(n_owners), rng.integers(0, n_owners, n - n_owners))
        )
        distances = rng.integers(0, rng.choice([1, 3, 100]), n).tolist()
        labels = rng.integers(0, 2, n).tolist()
        n_classes = int(rng.integers(2, 5))
        k = int(rng.integers(1, 7))
        for semivalue in ALL_SEMIVALUES:
            game = {
                "k": k,
                "utility": utility,
                "semivalue": semivalue,
                "n_classes": n_classes,
                "ties": ties,
            }
            check(owners, distances, labels, 1, **game)


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize(
    ("owners", "distances", "labels"),
    [
        ([0, 0, 0], [1, 2, 3], [1, 0, 1]),  # one owner
        ([0], [1], [1]),  # one row
        ([0, 1, 2, 3], [1, 2, 3, 4], [1, 0, 1, 0]),  # as many owners as rows
        ([0, 0, 0, 0, 1, 1], [1] * 6, [1, 1, 0, 0, 1, 0]),  # all tied, across owners
        ([0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 1, 1], [1] * 6),  # copies of one owner, tied with another
        ([0, 1, 1, 1], [1, 2, 2, 3], [0, 0, 0, 0]),  # nothing matches
        ([0, 2, 2], [1, 2, 3], [1, 0, 1]),  # owner 1 has no rows
    ],
)
def test_hostile_cases(utility, owners, distances, labels):
    for k in (1, 2, 3, 9):
        for semivalue in ("shapley", "banzhaf"):
            for ties in ("average", "index"):
                game = {
                    "k": k,
                    "utility": utility,
                    "semivalue": semivalue,
                    "n_classes": 2,
                    "ties": ties,
                }
                check(owners, distances, labels, 1, **game)


def test_an_owner_without_rows_gets_nothing_and_all_add_up(rng):
    owners = rng.choice([0, 1, 3], 12)
    labels = rng.integers(0, 2, 12)
    game = {
        "k": 3,
        "utility": "soft",
        "semivalue": "shapley",
        "n_classes": 2,
        "ties": "average",
        "n_owners": 4,
    }
    values = values_of_owners(owners, rng.random(12), labels, 1, **game)
    assert values[2] == 0.0
    near = utility_function("classification", "soft", list(range(12)), [1] * 12, 1, 3, 2)
    assert near(()) == Fraction(1, 2)
    ones = values_of_owners(owners, rng.random(12), np.ones(12), 1, **game)
    np.testing.assert_allclose(ones.sum(), 0.5, atol=1e-14)


def test_nodes_keep_their_promise():
    """Fewer nodes than degree/2 against the exact number, on a law of presence of many owners."""
    for presence in (Presence(), Presence.of(("beta", 4, 1)), Presence.of("composite")):
        rough = Nodes.of(presence, 120, 1e-4)
        fine = Nodes.of(presence, 120, 0.0)
        assert len(rough.t) < len(fine.t)
        assert 0.0 < rough.error <= 1e-4
        assert fine.error == 0.0
        rng = np.random.default_rng(0)
        owners = rng.integers(0, 120, 30)
        gains = rng.integers(0, 2, 30).astype(float)
        first = np.ones(30, dtype=bool)
        difference = owner_values(owners, gains, first, 3, rough) - owner_values(
            owners, gains, first, 3, fine
        )
        assert np.abs(difference).max() <= rough.error
    assert len(Nodes.of(Presence(), 1000).t) < 200


def test_all_but_one():
    assert list(all_but_one(1, [2, 3, 5, 7], lambda law, factor: law * factor)) == [105, 70, 42, 30]
    assert list(all_but_one(1, [], max)) == []
