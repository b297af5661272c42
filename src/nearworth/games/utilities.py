"""The paper's utilities, as plainly as they can be written.

What is a set S of training points worth for predicting one validation point? Each function below answers
that for one of the four utilities. They are slow on purpose: no closed form, no shortcut, any number type
(give fractions and get fractions). Bind the data and hand the rest to `nearworth.exact_shapley`:

    exact_shapley(lambda S: soft_classification(S, distances, labels, label, n_neighbors=3, n_classes=2), n)

`subset` holds 0-based indices of training points; `distances`, `labels` and `targets` are theirs, and `label`
or `target` belongs to the validation point. Points at equal distance are tied: where the K-th neighbour falls
among them, the utility is the mean over all ways of choosing (`ties="average"`), or the earlier training
points are taken (`ties="index"`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

from nearworth._common.types import Ties


def soft_classification(
    subset: Iterable[int],
    distances: Sequence[Any],
    labels: Sequence[Any],
    label: Any,
    *,
    n_neighbors: int,
    n_classes: int,
    ties: Ties = "average",
) -> Any:
    """Share of the neighbours that carry the right label; 1/C, a random guess, for no neighbours."""
    votes = [int(other == label) for other in labels]
    return _mean_over_choices(
        subset,
        distances,
        n_neighbors,
        ties,
        lambda top: Fraction(sum(votes[i] for i in top), len(top)),
        Fraction(1, n_classes),
    )


def original_classification(
    subset: Iterable[int],
    distances: Sequence[Any],
    labels: Sequence[Any],
    label: Any,
    *,
    n_neighbors: int,
    ties: Ties = "average",
) -> Any:
    """Number of neighbours that carry the right label, over K even when fewer than K are present."""
    votes = [int(other == label) for other in labels]
    return _mean_over_choices(
        subset, distances, n_neighbors, ties, lambda top: Fraction(sum(votes[i] for i in top), n_neighbors), Fraction(0)
    )


def soft_regression(
    subset: Iterable[int],
    distances: Sequence[Any],
    targets: Sequence[Any],
    target: Any,
    *,
    n_neighbors: int,
    ties: Ties = "average",
) -> Any:
    """Minus the squared error of the neighbours' mean; the prediction is 0 for no neighbours."""
    return _mean_over_choices(
        subset,
        distances,
        n_neighbors,
        ties,
        lambda top: -((sum(targets[i] for i in top) / len(top) - target) ** 2),
        -(target**2),
    )


def original_regression(
    subset: Iterable[int],
    distances: Sequence[Any],
    targets: Sequence[Any],
    target: Any,
    *,
    n_neighbors: int,
    ties: Ties = "average",
) -> Any:
    """Minus the squared error of the neighbours' sum over K, even when fewer than K are present."""
    return _mean_over_choices(
        subset,
        distances,
        n_neighbors,
        ties,
        lambda top: -((sum(targets[i] for i in top) / n_neighbors - target) ** 2),
        -(target**2),
    )


def _mean_over_choices(
    subset: Iterable[int],
    distances: Sequence[Any],
    n_neighbors: int,
    ties: Ties,
    score: Callable[[list[int]], Any],
    empty: Any,
) -> Any:
    """The score of the K nearest points of the subset, averaged over the ways to choose among tied ones."""
    if ties not in ("average", "index") or n_neighbors < 1:
        raise ValueError(f"Use ties='average' or 'index' and n_neighbors >= 1; got ties={ties!r}, {n_neighbors=}.")
    ranked = sorted(subset, key=lambda i: (distances[i], i))
    if not ranked:
        return empty
    if ties == "index" or len(ranked) <= n_neighbors:
        return score(ranked[:n_neighbors])
    last = distances[ranked[n_neighbors - 1]]
    nearer = [i for i in ranked if distances[i] < last]
    tied = [i for i in ranked if distances[i] == last]
    scores = [score(nearer + list(choice)) for choice in combinations(tied, n_neighbors - len(nearer))]
    return sum(scores) / len(scores)
