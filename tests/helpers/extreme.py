"""Numbers of all sizes that are allowed, their distances as exact fractions, and who votes within a
radius.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import nearworth as nw

SMALLEST = 5e-324
TRIPLES = [
    (3, 4, 5),
    (5, 12, 13),
    (8, 15, 17),
    (7, 24, 25),
    (20, 21, 29),
    (9, 40, 41),
    (119, 120, 169),
]


def numbers_of_all_sizes(rng, shape):
    """Zeros, both signs, from the smallest float to 1e149; a few magnitudes per set, so that
    differences cancel.
    """
    magnitudes = 10.0 ** rng.uniform(-323, 149, 4)
    drawn = rng.choice(magnitudes, shape) * rng.choice(
        [1.0, -1.0, 1.0 + 2.0**-52, 0.75, 3.0], shape
    )
    drawn[rng.random(shape) < 0.2] = 0.0
    drawn[rng.random(shape) < 0.05] = SMALLEST
    return drawn


def exact_squares(X, query):
    """Squared distances as fractions, from differences in floats."""
    return [sum(Fraction(float(difference)) ** 2 for difference in row - query) for row in X]


def check_ranks(keys, exact):
    """Keys of one query are in the order of exact squares that differ by more than rounding can."""
    order = sorted(range(len(exact)), key=lambda i: exact[i])
    largest_before = -np.inf
    for i, j in zip(order, order[1:], strict=False):
        largest_before = max(largest_before, keys[i])
        if exact[j] - exact[i] > exact[j] * Fraction(1, 10**13):
            assert largest_before < keys[j], (i, j, keys)


def check_distances(distances, exact):
    """Distances are the roots of exact squares, but for the last bit."""
    for distance, square in zip(distances.tolist(), exact, strict=True):
        rounding = Fraction(SMALLEST) * (2 * Fraction(distance) + Fraction(SMALLEST))
        assert abs(Fraction(distance) ** 2 - square) <= square * Fraction(1, 10**14) + rounding


def voters(X, query, radius, metric="euclidean", **parameters):
    """Which rows have a vote: with one label for all, a value is above 0 for those and 0 for
    others.
    """
    est = nw.KNNShapley(radius=radius, metric=metric, n_classes=3, **parameters).fit(
        X, np.ones(X.shape[0], dtype=int)
    )
    return est.value(query, np.ones(query.shape[0], dtype=int)).values != 0.0
