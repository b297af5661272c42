"""Numbers of all sizes that are allowed, and their distances as exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import nearworth as nw

# The smallest positive float.
SMALLEST = 5e-324
# Right triangles: distances that are whole numbers.
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
    """Zeros and numbers of both signs, from the smallest float to 1e149."""
    # Few magnitudes and factors, so that differences cancel.
    magnitudes = 10.0 ** rng.uniform(-323, 149, 4)
    factors = [1.0, -1.0, 1.0 + 2.0**-52, 0.75, 3.0]
    numbers = rng.choice(magnitudes, shape) * rng.choice(factors, shape)
    numbers[rng.random(shape) < 0.2] = 0.0
    numbers[rng.random(shape) < 0.05] = SMALLEST
    return numbers


def exact_squares(X, query):
    """Squared distances as fractions, from differences in floats."""
    return [sum(Fraction(float(difference)) ** 2 for difference in row - query) for row in X]


def check_ranks(keys, exact):
    """Keys of one query have the order of exact squares that differ by more than rounding."""
    order = sorted(range(len(exact)), key=lambda i: exact[i])
    largest_before = -np.inf
    for i, j in zip(order, order[1:], strict=False):
        largest_before = max(largest_before, keys[i])
        if exact[j] - exact[i] > exact[j] * Fraction(1, 10**13):
            assert largest_before < keys[j], (i, j, keys)


def check_distances(distances, exact):
    """Distances are the roots of exact squares, up to the last bit."""
    for distance, square in zip(distances.tolist(), exact, strict=True):
        rounding = Fraction(SMALLEST) * (2 * Fraction(distance) + Fraction(SMALLEST))
        assert abs(Fraction(distance) ** 2 - square) <= square * Fraction(1, 10**14) + rounding


def voters(X, query, radius, metric="euclidean", **parameters):
    """Which rows have a vote, shape (n,)."""
    # All rows have one label, so that the values of voters are positive and all others are 0.
    y = np.ones(X.shape[0], dtype=int)
    y_val = np.ones(query.shape[0], dtype=int)
    est = nw.KNNShapley(radius=radius, metric=metric, n_classes=3, **parameters)
    return est.fit(X, y).value(query, y_val).values != 0.0
