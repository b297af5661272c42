"""Values by their definition: the contract that all methods are tested against.

Everything here is slow and literal. Distances and labels go into the plain utility. The utility
goes into the sum over 2^n subsets, in exact fractions.
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
        labels = [Fraction(y) for y in labels]
        label = Fraction(label)

    @cache
    def utility_of(subset):
        return knn_utility(subset, distances, labels, label, **keywords)

    return utility_of


def defined_values(game, n, semivalue):
    """Values of n players by the sum over all subsets, shape (n,)."""
    return exact_shapley(game, n, semivalue=semivalue).astype(np.float64)


def utility_of_owners(blocks, n_neighbors):
    """The original utility of a coalition of owners, from counts.

    `blocks` has a pair of counts by owner for each block of tied rows, near to far: rows, and rows
    with the label of the query. Tied rows share the votes that are left for them.
    """

    def utility(owners):
        votes_left = n_neighbors
        votes_for_label = Fraction(0)
        for rows, matches in blocks:
            n_rows = sum(int(rows[owner]) for owner in owners)
            n_matches = sum(int(matches[owner]) for owner in owners)
            n_votes = min(votes_left, n_rows)
            if n_rows:
                votes_for_label += Fraction(n_votes * n_matches, n_rows)
            votes_left -= n_votes
        return votes_for_label / n_neighbors

    return utility


def nearest_sets(subset, distances, n_neighbors, ties):
    """All ways to choose the K nearest points of a subset.

    There is more than one way only where tied points compete.
    """
    ranked = sorted(subset, key=lambda i: (distances[i], i))
    if ties == "index":
        return [ranked[:n_neighbors]]
    # A choice is one of the nearest sets if it leaves no nearer point out.
    nearest_distances = sorted(distances[i] for i in ranked)[:n_neighbors]

    def is_nearest(choice):
        return sorted(distances[i] for i in choice) == nearest_distances

    choices = combinations(ranked, min(n_neighbors, len(ranked)))
    return [list(choice) for choice in choices if is_nearest(choice)]


def paper_bound(n_players, n_neighbors, n_candidates):
    """Theorem 3's bound on the error of tail "paper", for K* < N and K <= N.

    It holds for the soft-label Shapley value. This is the bound of the proof. The printed statement
    is the same for K >= 2 and larger by 1/(2N) for K = 1.
    """
    harmonic = sum(1.0 / j for j in range(2, n_neighbors + 1))
    return (harmonic - 0.5) / n_players + 1.0 / max(n_candidates, n_neighbors)


def tie_patterns(n, rng, max_patterns=16):
    """Non-decreasing integer distances for every way to cut n ranks into blocks, or for a sample.

    A sample always has the ways with one block and with n blocks.
    """
    cuts = list(product((0, 1), repeat=n - 1))
    if len(cuts) > max_patterns:
        between = np.arange(1, len(cuts) - 1)
        sample = rng.choice(between, size=max_patterns - 2, replace=False)
        cuts = [cuts[0], *[cuts[i] for i in sample], cuts[-1]]
    return [np.concatenate([[0], np.cumsum(cut)]).astype(int) for cut in cuts]


def rank_space_values(task, utility, distances, labels, label, n_neighbors, n_classes, semivalue):
    """Values by the closed form, for points already in rank order, shape (n,)."""
    starts_block = np.concatenate([[True], np.diff(distances) != 0])[None, :]
    n = len(labels)
    if task == "classification":
        dtype = np.intp
        game = ClassificationGame(n, n_neighbors, n_classes, utility, semivalue)
    else:
        dtype = np.float64
        game = RegressionGame(n, n_neighbors, utility, semivalue)
    ranked = np.array([labels], dtype=dtype)
    query = np.array([label], dtype=dtype)
    return game.values(ranked, query, TieBlocks(starts_block))[0]


def check_closed_forms(task, utility, n, n_neighbors, rng, max_patterns=16, semivalues=SEMIVALUES):
    """Compare the closed form with the definition; the number of compared cases.

    The cases are all tie patterns, or a sample of them, with random labels and every semivalue.
    """
    n_cases = 0
    for distances in tie_patterns(n, rng, max_patterns):
        n_classes = int(rng.integers(2, 5))
        if task == "classification":
            labels = rng.integers(0, n_classes, n)
            label = int(rng.integers(0, n_classes))
        else:
            labels = rng.integers(-12, 13, n) / 4
            label = int(rng.integers(-12, 13)) / 4
        data = (distances.tolist(), labels.tolist(), label, n_neighbors, n_classes)
        game = utility_function(task, utility, *data)
        for semivalue in semivalues:
            np.testing.assert_allclose(
                rank_space_values(task, utility, *data, semivalue),
                defined_values(game, n, semivalue),
                rtol=0,
                atol=1e-12,
                err_msg=f"{semivalue} {data}",
            )
            n_cases += 1
    return n_cases


def recall(neighbors, exact_neighbors):
    """Share of the exact neighbors that are among `neighbors`, by row number.

    -1 stands for no neighbor and does not count.
    """
    n_exact = int(np.count_nonzero(exact_neighbors >= 0))
    if not n_exact:
        return 1.0
    n_hits = 0
    for rows, exact_rows in zip(neighbors, exact_neighbors, strict=True):
        n_hits += len(np.intersect1d(rows, exact_rows[exact_rows >= 0]))
    return n_hits / n_exact
