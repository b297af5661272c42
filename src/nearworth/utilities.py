"""The definition: the paper's utilities as plainly as they can be written, and a semivalue from all 2^n subsets.

What is a set S of training points worth for predicting one validation point? Four functions answer that, one for
each utility. They are slow on purpose: no closed form, no shortcut, any number type (give fractions and get fractions).
Bind the data and hand the rest to `exact_shapley`:

    exact_shapley(lambda S: soft_classification(S, distances, labels, label, n_neighbors=3, n_classes=2), n)

`subset` holds 0-based indices of training points; `distances`, `labels` and `targets` are theirs, and `label`
or `target` belongs to the validation point. Points at equal distance are tied: where the K-th neighbour falls
among them, the utility is the mean over all ways of choosing (`ties="average"`), or the earlier training
points are taken (`ties="index"`).

This module shares nothing with the closed forms, so that the two can be held against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb, prod
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common.types import Semivalue, Ties

__all__ = ["original_classification", "original_regression", "soft_classification", "soft_regression"]

MAX_PLAYERS = 24  # 2^24 evaluations are hours already

Subset: TypeAlias = Iterable[int]
PerPoint: TypeAlias = Sequence[Any]


def soft_classification(
    subset: Subset,
    distances: PerPoint,
    labels: PerPoint,
    label: Any,
    *,
    n_neighbors: int,
    n_classes: int,
    ties: Ties = "average",
) -> Any:
    """Share of the neighbours that carry the right label; 1/C, a random guess, for no neighbours."""
    return _mean(
        Fraction(sum(int(labels[i] == label) for i in top), len(top)) if top else Fraction(1, n_classes)
        for top in _nearest(subset, distances, n_neighbors, ties)
    )


def original_classification(
    subset: Subset, distances: PerPoint, labels: PerPoint, label: Any, *, n_neighbors: int, ties: Ties = "average"
) -> Any:
    """Number of neighbours that carry the right label, over K even when fewer than K are present."""
    return _mean(
        Fraction(sum(int(labels[i] == label) for i in top), n_neighbors)
        for top in _nearest(subset, distances, n_neighbors, ties)
    )


def soft_regression(
    subset: Subset, distances: PerPoint, targets: PerPoint, target: Any, *, n_neighbors: int, ties: Ties = "average"
) -> Any:
    """Minus the squared error of the neighbours' mean; the prediction is 0 for no neighbours."""
    return _mean(
        -(((sum(targets[i] for i in top) / len(top) if top else 0) - target) ** 2)
        for top in _nearest(subset, distances, n_neighbors, ties)
    )


def original_regression(
    subset: Subset, distances: PerPoint, targets: PerPoint, target: Any, *, n_neighbors: int, ties: Ties = "average"
) -> Any:
    """Minus the squared error of the neighbours' sum over K, even when fewer than K are present."""
    return _mean(
        -(((sum(targets[i] for i in top) / n_neighbors if top else 0) - target) ** 2)
        for top in _nearest(subset, distances, n_neighbors, ties)
    )


def _nearest(subset: Subset, distances: PerPoint, n_neighbors: int, ties: Ties) -> list[list[int]]:
    """All ways to choose the K nearest points of the subset: more than one only where tied points compete."""
    if ties not in ("average", "index") or n_neighbors < 1:
        raise ValueError(f"Use ties='average' or 'index' and n_neighbors >= 1; got ties={ties!r}, {n_neighbors=}.")
    ranked = sorted(subset, key=lambda i: (distances[i], i))
    if ties == "index" or len(ranked) <= n_neighbors:
        return [ranked[:n_neighbors]]
    last = distances[ranked[n_neighbors - 1]]
    nearer = [i for i in ranked if distances[i] < last]
    tied = [i for i in ranked if distances[i] == last]
    return [nearer + list(choice) for choice in combinations(tied, n_neighbors - len(nearer))]


def _mean(scores: Iterable[Any]) -> Any:
    listed = list(scores)
    return sum(listed) / len(listed)


def exact_shapley(
    utility: Callable[[tuple[int, ...]], Any], n: int, *, semivalue: Semivalue = "shapley"
) -> npt.NDArray[Any]:
    """Shapley values by their definition, from the utility of every one of the 2^n subsets.

    Parameters
    ----------
    utility : callable
        Receives an increasing tuple of 0-based indices, `()` for the empty set, and returns a number.
        Called exactly once per subset.
    n : int
        Number of players, 1 to 24.
    semivalue : "shapley", "banzhaf", "loo", "composite", ("beta", a, b) or ("sizes", low, high)
        How marginal contributions are weighed.

    Returns
    -------
    ndarray of shape (n,)
        float64; or exact `fractions.Fraction` objects where the utility returns fractions or integers only.

    Examples
    --------
    A glove game: player 0 has a left glove, players 1 and 2 have right ones, a pair is worth 1.

    >>> exact_shapley(lambda S: float(0 in S and len(S) > 1), 3).round(4)
    array([0.6667, 0.1667, 0.1667])
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= MAX_PLAYERS:
        raise ValueError(
            f"n must be a whole number of players from 1 to {MAX_PLAYERS} (2^n subsets are evaluated); got {n!r}."
        )
    weights = subset_weights(semivalue, n)
    utilities = [utility(tuple(i for i in range(n) if mask >> i & 1)) for mask in range(2**n)]
    strange = [v for v in utilities if not isinstance(v, Real)]
    if strange:
        raise TypeError(f"utility must return a real number for every subset; got {strange[0]!r}.")
    dtype = object if all(isinstance(v, Fraction | int) for v in utilities) else np.float64
    v, w, masks = np.array(utilities, dtype=dtype), np.array(weights, dtype=dtype), np.arange(2**n)
    sizes = np.array([mask.bit_count() for mask in range(2**n)])
    values = []
    for i in range(n):
        without = masks[(masks >> i) & 1 == 0]
        values.append((w[sizes[without]] * (v[without | (1 << i)] - v[without])).sum())
    return np.array(values, dtype=dtype)


def subset_weights(semivalue: Semivalue, n: int) -> list[Fraction]:
    """Weight of a marginal contribution to s others, s = 0..n-1, exactly."""
    if semivalue == "banzhaf":
        return [Fraction(1, 2 ** (n - 1))] * n
    if semivalue == "loo":
        return [Fraction(int(s == n - 1)) for s in range(n)]
    if semivalue == "composite":  # half of Beta(1, 2): the analyst is there, and is another player
        return [weight / 2 for weight in subset_weights(("beta", 1, 2), n)]
    if isinstance(semivalue, tuple) and len(semivalue) == 3 and semivalue[0] == "sizes":
        sizes = range(semivalue[1], (n - 1 if semivalue[2] is None else min(semivalue[2], n - 1)) + 1)
        return [Fraction(int(s in sizes), len(sizes) * comb(n - 1, s)) for s in range(n)]
    beta = ("beta", 1, 1) if semivalue == "shapley" else semivalue
    if not (isinstance(beta, tuple) and len(beta) == 3 and beta[0] == "beta" and min(beta[1:]) > 0):
        raise ValueError(
            'semivalue must be "shapley", "banzhaf", "loo", "composite", ("sizes", low, high) or ("beta", a, b) with '
            f"a, b > 0; got {semivalue!r}."
        )
    a, b = map(Fraction, beta[1:])
    return [_rising(b, s) * _rising(a, n - 1 - s) / _rising(a + b, n - 1) for s in range(n)]


def _rising(x: Fraction, count: int) -> Fraction:
    """The rising factorial x (x+1) ... (x+count-1)."""
    return prod((x + i for i in range(count)), start=Fraction(1))
