"""The contract of the whole package: values agree with the definition. Used by many tests, and
itself tested.

Everything here is slow and literal: distances and labels go into the plain utility, the utility
into the 2^n sum, in exact fractions.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations, product

import numpy as np

from nearworth import exact_shapley
from nearworth.games.classification import ClassificationGame
from nearworth.games.regression import RegressionGame
from nearworth.games.ties import TieBlocks
from nearworth.testing import knn_utility

SEMIVALUES = (
    "shapley",
    "banzhaf",
    "loo",
    ("beta", 4, 1),
    ("beta", 1, 4),
    ("beta", 16, 1),
    ("beta", 0.5, 0.5),
)
UTILITIES = ("soft", "original")


def utility_function(
    task, utility, distances, labels, label, n_neighbors, n_classes, ties="average"
):
    """One of the four utilities with its data bound, and each subset evaluated once."""
    keywords = {
        "n_neighbors": n_neighbors,
        "task": task,
        "utility": utility,
        "n_classes": n_classes,
        "ties": ties,
    }
    if task == "regression":
        labels, label = [Fraction(y) for y in labels], Fraction(label)
    return cache(lambda subset: knn_utility(subset, distances, labels, label, **keywords))


def defined_values(game, n, semivalue):
    return exact_shapley(game, n, semivalue=semivalue).astype(np.float64)


def utility_of_owners(blocks, n_neighbors):
    """The original utility of a coalition of owners, from counts: for each block of tied rows, near
    to far, how many rows and how many matches each owner has in it. Tied rows share the votes that
    are left for them.
    """

    def utility(owners):
        free, votes = n_neighbors, Fraction(0)
        for rows, matches in blocks:
            n_rows, n_matches = (
                sum(int(counts[owner]) for owner in owners) for counts in (rows, matches)
            )
            if n_rows:
                votes += Fraction(min(free, n_rows) * n_matches, n_rows)
            free -= min(free, n_rows)
        return votes / n_neighbors

    return utility


def nearest_sets(subset, distances, n_neighbors, ties):
    """All ways to choose the K nearest points of a subset: more than one only where tied points
    compete.
    """
    ranked = sorted(subset, key=lambda i: (distances[i], i))
    if ties == "index":
        return [ranked[:n_neighbors]]
    # Any choice serves that leaves no nearer point out.
    choices = combinations(ranked, min(n_neighbors, len(ranked)))
    level = sorted(distances[i] for i in ranked)[:n_neighbors]
    return [list(some) for some in choices if sorted(distances[i] for i in some) == level]


def paper_bound(n_players, n_neighbors, n_candidates):
    """Theorem 3's bound on the error of tail "paper" for the soft-label Shapley value, K* < N and K
    <= N.

    As its proof has it: the printed statement is the same for K >= 2 and larger by 1/(2N) for K =
    1.
    """
    harmonic = sum(1.0 / j for j in range(2, n_neighbors + 1))
    return (harmonic - 0.5) / n_players + 1.0 / max(n_candidates, n_neighbors)


def tie_patterns(n, rng, most=16):
    """Non-decreasing integer distances: every way to cut n ranks into blocks, or a sample of the
    ways.
    """
    cuts = list(product((0, 1), repeat=n - 1))
    if len(cuts) > most:
        middle = [
            cuts[i] for i in rng.choice(np.arange(1, len(cuts) - 1), size=most - 2, replace=False)
        ]
        cuts = [cuts[0], *middle, cuts[-1]]
    return [np.concatenate([[0], np.cumsum(cut)]).astype(int) for cut in cuts]


def rank_space_values(task, utility, distances, labels, label, n_neighbors, n_classes, semivalue):
    """The closed form, for points already in rank order."""
    first = np.concatenate([[True], np.diff(distances) != 0])[None, :]
    n = len(labels)
    if task == "classification":
        game = ClassificationGame(n, n_neighbors, n_classes, utility, semivalue)
    else:
        game = RegressionGame(n, n_neighbors, utility, semivalue)
    dtype = np.intp if task == "classification" else np.float64
    return game.values(
        np.array([labels], dtype=dtype), np.array([label], dtype=dtype), TieBlocks(first)
    )[0]


def check_closed_forms(task, utility, n, n_neighbors, rng, most_patterns=16, semivalues=SEMIVALUES):
    """Closed form against definition: tie patterns, random labels, every semivalue. Returns the
    number of cases.
    """
    cases = 0
    for distances in tie_patterns(n, rng, most_patterns):
        n_classes = int(rng.integers(2, 5))
        if task == "classification":
            labels, label = rng.integers(0, n_classes, n), int(rng.integers(0, n_classes))
        else:
            labels, label = rng.integers(-12, 13, n) / 4, int(rng.integers(-12, 13)) / 4
        data = (distances.tolist(), labels.tolist(), label, n_neighbors, n_classes)
        game = utility_function(task, utility, *data)
        for semivalue in semivalues:
            expected = defined_values(game, n, semivalue)
            found = rank_space_values(task, utility, *data, semivalue)
            np.testing.assert_allclose(
                found, expected, rtol=0, atol=1e-12, err_msg=f"{semivalue} {data}"
            )
            cases += 1
    return cases


def recall(found, exact):
    """Share of the exact neighbours that were found, by index; -1 stands for no neighbour and does
    not count.
    """
    hits = sum(len(np.intersect1d(f, e[e >= 0])) for f, e in zip(found, exact, strict=True))
    wanted = int(np.count_nonzero(exact >= 0))
    return hits / wanted if wanted else 1.0
