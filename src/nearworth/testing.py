"""The definition of the values, and checks of code that is not ours against it.

`knn_utility` and `exact_shapley` are slow on purpose: no closed form, no shortcut, any number type
(give fractions and get fractions). Nothing is shared with the engine, so that the two can be held
against each other. `check_values` and `check_searcher` take about a second, need no test runner,
and include awkward cases.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations
from math import comb, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import Semivalue, Task, Ties, Utility
from nearworth.inputs.parameters import PARAMETERS, is_whole
from nearworth.neighbors.exact import Sample
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.neighbors.searchers import as_points, check_answer

__all__ = ["check_searcher", "check_values", "exact_shapley", "knn_utility"]

MAX_PLAYERS = 24  # 2^24 evaluations are hours already
ROUNDING = 1e-3  # relative to the farthest neighbour: indexes work in 32 bits, or in fewer

Matrix = npt.NDArray[Any]


def knn_utility(
    subset: Iterable[int],
    distances: Sequence[Any],
    labels: Sequence[Any],
    label: Any,
    *,
    n_neighbors: int,
    task: Task = "classification",
    utility: Utility = "soft",
    n_classes: int | None = None,
    ties: Ties = "average",
) -> Any:
    """What a set of training points is worth for predicting one validation point.

    Classification: the share of the nearest neighbours that carry the right label, and 1/C, a
    random guess, for no points ("soft"); or their number over K, even when fewer than K are present
    ("original"). Regression: minus the squared error of the neighbours' mean ("soft"), or of their
    sum over K ("original"); the prediction is 0 for none.

    Parameters
    ----------
    subset : iterable of int
        0-based indices of the training points that are there.
    distances, labels : sequences
        Of all training points; `labels` are numbers in regression.
    label
        Of the validation point.
    n_neighbors, task, utility, n_classes, ties
        As in `KNNShapley`. Where the K-th neighbour falls among points at equal distance, the
        utility is the mean over all ways of choosing ("average"), or the earlier training points
        are taken ("index").
    """
    for name, given in (
        ("n_neighbors", n_neighbors),
        ("task", task),
        ("utility", utility),
        ("ties", ties),
    ):
        PARAMETERS[name](name, given)
    scores: list[Any] = []
    for top in _nearest(subset, distances, n_neighbors, ties):
        size = len(top) if utility == "soft" else n_neighbors
        if task == "regression":
            prediction = sum(labels[i] for i in top) / size if top else 0
            scores.append(-((prediction - label) ** 2))
        elif top:
            scores.append(Fraction(sum(int(labels[i] == label) for i in top), size))
        else:
            scores.append(
                Fraction(1, n_classes or len(set(labels))) if utility == "soft" else Fraction(0)
            )
    return sum(scores) / len(scores)


def _nearest(
    subset: Iterable[int], distances: Sequence[Any], n_neighbors: int, ties: Ties
) -> list[list[int]]:
    """All ways to choose the K nearest points of the subset: more than one only where tied points
    compete.
    """
    ranked = sorted(subset, key=lambda i: (distances[i], i))
    if ties == "index" or len(ranked) <= n_neighbors:
        return [ranked[:n_neighbors]]
    last = distances[ranked[n_neighbors - 1]]
    nearer = [i for i in ranked if distances[i] < last]
    tied = [i for i in ranked if distances[i] == last]
    return [nearer + list(choice) for choice in combinations(tied, n_neighbors - len(nearer))]


def exact_shapley(
    utility: Callable[[tuple[int, ...]], Any], n: int, *, semivalue: Semivalue = "shapley"
) -> npt.NDArray[Any]:
    """Shapley values by their definition, from the utility of every one of the 2^n subsets.

    Parameters
    ----------
    utility : callable
        Receives an increasing tuple of 0-based indices, `()` for the empty set, and returns a
        number. Called exactly once per subset.
    n : int
        Number of players, 1 to 24.
    semivalue : "shapley", "banzhaf", "loo", "composite", ("beta", a, b) or ("sizes", low, high)
        How marginal contributions are weighed.

    Returns
    -------
    ndarray of shape (n,)
        float64; or exact `fractions.Fraction` objects where the utility returns fractions or
        integers only.

    Examples
    --------
    A glove game: player 0 has a left glove, players 1 and 2 have right ones, a pair is worth 1.

    >>> exact_shapley(lambda S: float(0 in S and len(S) > 1), 3).round(4)
    array([0.6667, 0.1667, 0.1667])
    """
    if not is_whole(n) or not 1 <= n <= MAX_PLAYERS:
        raise ValueError(f"n must be a whole number of players from 1 to {MAX_PLAYERS}; got {n!r}.")
    weights = subset_weights(semivalue, n)
    utilities = [utility(tuple(i for i in range(n) if mask >> i & 1)) for mask in range(2**n)]
    exact = all(isinstance(v, Fraction | int) for v in utilities)
    dtype = object if exact else np.float64
    v = np.array(utilities if exact else [float(v) for v in utilities], dtype=dtype)
    w, masks = np.array(weights, dtype=dtype), np.arange(2**n)
    sizes = np.array([mask.bit_count() for mask in range(2**n)])
    values = []
    for i in range(n):
        without = masks[(masks >> i) & 1 == 0]
        values.append((w[sizes[without]] * (v[without | (1 << i)] - v[without])).sum())
    return np.array(values, dtype=dtype)


def subset_weights(semivalue: Semivalue, n: int) -> list[Fraction]:
    """Weight of a marginal contribution to s others, s = 0..n-1, exactly."""
    PARAMETERS["semivalue"]("semivalue", semivalue)
    if semivalue == "banzhaf":
        return [Fraction(1, 2 ** (n - 1))] * n
    if semivalue == "loo":
        return [Fraction(int(s == n - 1)) for s in range(n)]
    if semivalue == "composite":  # half of Beta(1, 2): the analyst is there, and is another player
        return [weight / 2 for weight in subset_weights(("beta", 1, 2), n)]
    law: Any = ("beta", 1, 1) if semivalue == "shapley" else semivalue
    if law[0] == "sizes":
        _, low, high = law
        sizes = range(low, n if high is None else min(high + 1, n))
        return [Fraction(int(s in sizes), len(sizes) * comb(n - 1, s)) for s in range(n)]
    a, b = map(Fraction, law[1:])
    return [_rising(b, s) * _rising(a, n - 1 - s) / _rising(a + b, n - 1) for s in range(n)]


def _rising(x: Fraction, count: int) -> Fraction:
    """The rising factorial x (x+1) ... (x+count-1)."""
    return prod((x + i for i in range(count)), start=Fraction(1))


def check_searcher(make_searcher: Callable[[], Any], *, recall: float = 0.5) -> None:
    """Raise an AssertionError that says what is wrong with the searchers that `make_searcher`
    makes, if anything is.

    An approximate searcher may miss neighbours, but not invent, repeat or disorder them.

    Parameters
    ----------
    make_searcher
        Makes a new searcher each time it is called.
    recall
        Share of the neighbours it must find on easy data: 1 for one that claims to be exact.

    Examples
    --------
    >>> from nearworth import LSHSearch
    >>> check_searcher(lambda: LSHSearch(random_state=0))
    """
    rng = np.random.default_rng(0)
    for question in _questions(rng):
        searcher = make_searcher()
        _check_question(searcher, *question)
    # On clusters that are far apart, neighbours are easy to find.
    centres = 20.0 * rng.normal(size=(20, 8))
    X = np.repeat(centres, 50, axis=0) + rng.normal(size=(1000, 8))
    Q = centres + rng.normal(size=(20, 8))
    _check_question(searcher, "fitted a second time, to well separated clusters", X, Q, 10)
    found = float(Sample(X, 10, Q).recall_of(searcher).mean())
    _require(
        found >= recall,
        f"{found:.0%} of the neighbours were found on easy data instead of {recall:.0%}",
    )


def _questions(rng: np.random.Generator) -> Iterator[tuple[str, Matrix, Matrix, int]]:
    """Data that searchers may fail on, each with a number of neighbours."""
    X, Q = rng.normal(size=(200, 5)), rng.normal(size=(20, 5))
    yield "ordinary points", X, Q, 10
    yield "one query", X, Q[:1], 10
    yield "all points asked for", X, Q, 200
    yield "more neighbours than points", X[:7], Q, 12
    yield "one training point", X[:1], Q, 3
    yield "queries that are training points", X, X[:20], 5
    yield "duplicates", np.repeat(X[:50], 4, axis=0), X[:20], 9
    yield "identical points", np.ones((60, 3)), np.ones((4, 3)), 5
    yield "one column", X[:, :1], Q[:, :1], 10
    yield "many columns", rng.normal(size=(200, 130)), rng.normal(size=(5, 130)), 10
    yield "points far from the origin", X + 1e5, Q + 1e5, 10
    yield "queries far from all points", X, Q + 1e4, 5
    yield "32-bit numbers", X.astype(np.float32), Q.astype(np.float32), 10
    yield "columns first in memory", np.asfortranarray(X), np.asfortranarray(Q), 10


def _check_question(searcher: Any, name: str, X: Matrix, Q: Matrix, k: int) -> None:
    """Any error is a failure of the searcher, reported with the question that caused it."""
    X_before, Q_before = X.copy(), Q.copy()
    try:
        _require(searcher.fit(X) is searcher, "fit must return the searcher itself")
        (indices, distances), (again, _) = searcher.search(Q, k), searcher.search(Q, k)
        _require(
            np.array_equal(X, X_before) and np.array_equal(Q, Q_before),
            "the searcher changed its input",
        )
        _require(np.array_equal(indices, again), "the same question got two different answers")
        _check_order(
            X,
            Q,
            check_answer(indices, distances, len(X), k, n_queries=len(Q), searcher=searcher).rows,
        )
    except Exception as error:
        raise AssertionError(
            f"{name} ({len(X)} points, {len(Q)} queries, k = {k}): {error}"
        ) from error


def _require(right: bool, wrong: str) -> None:
    if not right:
        raise AssertionError(wrong)


def _check_order(X: Matrix, Q: Matrix, indices: Matrix) -> None:
    """The neighbours returned must come nearest first by true distances, up to rounding."""
    keys = EuclideanKeys(as_points(X))
    far = keys.as_distances(keys.listed(Q, indices), Q)  # infinite where there is no neighbour
    size = np.max(far, where=np.isfinite(far), initial=0.0)
    rounding = ROUNDING * (
        size + ROUNDING * np.abs(X).max()
    )  # 32 bits tell no more far from the origin
    in_order = np.allclose(far, np.sort(far, axis=1), rtol=0.0, atol=rounding)
    _require(in_order, f"neighbours do not come nearest first; their true distances are {far}")


def check_values(
    function: Callable[..., Any],
    *,
    task: Task = "classification",
    utility: Utility = "soft",
    semivalue: Semivalue = "shapley",
    ties: Ties | None = "average",
    tolerance: float = 1e-9,
) -> None:
    """Raise an AssertionError that lists every small problem on which a function differs from the
    definition.

    Parameters
    ----------
    function
        Called as function(X, y, X_val, y_val, n_neighbors); returns the mean value over the
        validation points of each training point, under Euclidean distance.
    task, utility, semivalue
        The game whose values these should be; see `KNNShapley`.
    ties
        How points at equal distance should be treated; None leaves out the problems that have such
        points.
    tolerance
        The largest deviation of a value that passes.

    Examples
    --------
    >>> from nearworth import knn_shapley
    >>> check_values(knn_shapley)
    """
    wrong = []
    for name, X, y, X_val, y_val, k in _problems():
        distances = ((np.array(X_val)[:, None] - np.array(X)) ** 2).sum(axis=2).tolist()
        if ties is None and any(len(set(row)) < len(row) for row in distances):
            continue
        asked = {"n_neighbors": k, "task": task, "utility": utility, "ties": ties or "average"}
        game = partial(
            _mean_utility,
            distances=distances,
            labels=[Fraction(each) for each in y],
            y_val=y_val,
            **asked,
        )
        true = exact_shapley(game, len(y), semivalue=semivalue).astype(np.float64)
        try:
            with warnings.catch_warnings(
                action="ignore"
            ):  # of unseen labels, of divisions by zero: values tell
                found = function(
                    np.array(X, float), np.array(y), np.array(X_val, float), np.array(y_val), k
                )
        except Exception as error:  # whatever it raises is what it found
            found = f"{type(error).__name__}: {error}"
        if np.shape(found) != true.shape or not np.allclose(found, true, rtol=0.0, atol=tolerance):
            wrong.append(
                f"{name}: {X=}, {y=}, {X_val=}, {y_val=}, K={k}\n  defined {true}\n  found  "
                f" {found}"
            )
    _require(not wrong, f"{len(wrong)} problems differ from the definition\n" + "\n".join(wrong))


def _mean_utility(subset: Any, distances: Any, labels: Any, y_val: Any, **game: Any) -> Any:
    scores = [
        knn_utility(subset, row, labels, label, **game)
        for row, label in zip(distances, y_val, strict=True)
    ]
    return sum(scores) / len(scores)


def _problems() -> Iterator[tuple[str, list[Any], list[Any], list[Any], list[Any], int]]:
    """Small problems that implementations get wrong: X, y, X_val, y_val, K, in whole numbers, so
    that ties are ties.
    """
    points, y, y_val = [[3, 0], [1, 1], [0, 4], [6, 2], [5, 4]], [1, 0, 1, 2, 0], [0, 1, 2]
    queries = [[0, 0], [4, 1], [2, 7]]
    yield "ordinary points", points, y, queries, y_val, 2
    yield "one neighbour", points, y, queries, y_val, 1
    yield "as many neighbours as points", points, y, queries, y_val, 5
    yield "more neighbours than points", points, y, queries, y_val, 8
    yield "two points, three neighbours", [[1], [2]], [0, 1], [[0]], [1], 3
    yield "one training point", [[1]], [1], [[0]], [1], 1
    yield "one training point, two neighbours", [[1]], [1], [[0]], [1], 2
    yield "one label only", points, [1] * 5, queries, [1] * 3, 2
    yield "labels that do not count from 0", points, [3, 7, 3, 100, 7], queries, [3, 7, 100], 2
    yield "negative labels", points, [-1, 1, -1, 1, 1], queries, [1, -1, 1], 3
    yield (
        "far from the origin",
        [[x + 2**20, z - 2**20] for x, z in points],
        y,
        [[2**20, -(2**20)]],
        [1],
        2,
    )
    yield "identical rows, different labels", [[1], [1], [1], [2]], [0, 1, 1, 0], [[0]], [1], 2
    yield (
        "all rows at one distance",
        [[1, 0], [0, 1], [-1, 0], [0, -1]],
        [0, 1, 1, 2],
        [[0, 0]],
        [1],
        2,
    )
    yield "a validation label that no training point has", points, y, queries, [1, 9, 2], 2
