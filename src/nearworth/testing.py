"""The definition of the values, and checks of your own code against it.

`knn_utility` and `exact_shapley` are slow on purpose: they use no closed form and no shortcut, and
take any number type, so that fractions give fractions. They share no code with the engine, so that
each can test the other. `check_values` and `check_searcher` take about a second, need no test
runner, and include awkward cases.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations
from math import comb, prod
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common.types import Semivalue, Task, Ties, Utility
from nearworth.inputs.parameters import PARAMETERS, is_whole
from nearworth.neighbors.exact import Sample
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.neighbors.searchers import as_points, check_answer

__all__ = ["check_searcher", "check_values", "exact_shapley", "knn_utility"]

# 2^24 evaluations take hours already.
MAX_PLAYERS = 24
# Relative to the farthest neighbor. Indexes compute distances in 32 bits, or in fewer.
MAX_RELATIVE_ROUNDING = 1e-3

Matrix = npt.NDArray[Any]
# Receives the numbers of the players that are present, in increasing order.
SetFunction: TypeAlias = Callable[[tuple[int, ...]], Any]
# Called as function(X, y, X_val, y_val, n_neighbors=K).
ValueFunction: TypeAlias = Callable[..., npt.ArrayLike]


class SearcherLike(Protocol):
    """What `check_searcher` checks: see `nearworth.neighbors.searchers.Searcher`."""

    def fit(self, X: Matrix) -> Any:
        """Prepare for searches, and return self."""

    def search(self, Q: Matrix, k: int) -> Any:
        """Return indices and distances of neighbors, nearest first."""


class SearchProblem(NamedTuple):
    """Data that searchers may fail on.

    Attributes
    ----------
    name : str
    X : array of shape (N, columns)
        Training points.
    Q : array of shape (queries, columns)
    k : int
        Number of neighbors.
    """

    name: str
    X: Matrix
    Q: Matrix
    k: int


class ValueProblem(NamedTuple):
    """Data that implementations of values may fail on, in whole numbers, so that ties are ties.

    Attributes
    ----------
    name : str
    X, X_val : list of points
    y, y_val : list of int
    n_neighbors : int
    """

    name: str
    X: list[list[int]]
    y: list[int]
    X_val: list[list[int]]
    y_val: list[int]
    n_neighbors: int

    @property
    def squared_distances(self) -> list[list[int]]:
        """For each validation point, its squared distance to each training point."""
        differences = np.array(self.X_val)[:, None] - np.array(self.X)
        distances: list[list[int]] = (differences**2).sum(axis=2).tolist()
        return distances


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
    """The utility of a set of training points for predicting one validation point.

    In classification it is the share of the nearest neighbors that have the right label, and 1/C,
    as of a random guess, without points ("soft"). Or it is their number over K, even when fewer
    than K are present ("original"). In regression it is minus the squared error of the neighbors'
    mean ("soft"), or of their sum over K ("original"). The prediction without points is 0.

    Parameters
    ----------
    subset : iterable of int
        0-based indices of the training points that are present.
    distances, labels : sequences
        Of all training points; `labels` are numbers in regression.
    label
        Of the validation point.
    n_neighbors, task, utility, n_classes, ties
        As in `KNNShapley`. Where the K-th neighbor falls among points at equal distance, the
        utility is the mean over all ways of choosing ("average"), or the earlier training points
        are taken ("index").

    Returns
    -------
    number
        A fraction in classification. In regression, of the type of the labels.
    """
    PARAMETERS["n_neighbors"]("n_neighbors", n_neighbors)
    PARAMETERS["task"]("task", task)
    PARAMETERS["utility"]("utility", utility)
    PARAMETERS["ties"]("ties", ties)
    choices = _nearest(subset, distances, n_neighbors, ties)
    scores: list[Any] = []
    for neighbors in choices:
        n_votes = len(neighbors) if utility == "soft" else n_neighbors
        if task == "regression":
            scores.append(_regression_score([labels[i] for i in neighbors], n_votes, label))
        elif neighbors:
            n_right = sum(int(labels[i] == label) for i in neighbors)
            scores.append(Fraction(n_right, n_votes))
        elif utility == "soft":
            scores.append(Fraction(1, n_classes or len(set(labels))))
        else:
            scores.append(Fraction(0))
    return sum(scores) / len(scores)


def _regression_score(targets: Sequence[Any], n_votes: int, target: Any) -> Any:
    """Minus the squared error of the prediction from the targets of the neighbors."""
    prediction = sum(targets) / n_votes if targets else 0
    return -((prediction - target) ** 2)


def _nearest(
    subset: Iterable[int], distances: Sequence[Any], n_neighbors: int, ties: Ties
) -> list[list[int]]:
    """All ways to choose the K nearest points of the subset, over which the utility is averaged.

    There is more than one only where points at equal distance compete for the last places. With
    ties="index" the first ones win, so that there is one way.
    """
    ranked = sorted(subset, key=lambda i: (distances[i], i))
    if ties == "index" or len(ranked) <= n_neighbors:
        return [ranked[:n_neighbors]]
    kth_distance = distances[ranked[n_neighbors - 1]]
    nearer = [i for i in ranked if distances[i] < kth_distance]
    tied = [i for i in ranked if distances[i] == kth_distance]
    n_places = n_neighbors - len(nearer)
    return [nearer + list(choice) for choice in combinations(tied, n_places)]


def exact_shapley(
    utility: SetFunction, n: int, *, semivalue: Semivalue = "shapley"
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
    # A set of players is the number whose bit i is set where player i is present.
    utilities = [utility(_players_of(players, n)) for players in range(2**n)]
    is_exact = all(isinstance(number, Fraction | int) for number in utilities)
    if not is_exact:
        utilities = [float(number) for number in utilities]
    dtype = object if is_exact else np.float64
    v = np.array(utilities, dtype=dtype)
    w = np.array(weights, dtype=dtype)
    sets = np.arange(2**n)
    sizes = np.array([players.bit_count() for players in range(2**n)])
    values = []
    for i in range(n):
        without_i = sets[(sets >> i) & 1 == 0]
        with_i = without_i | (1 << i)
        values.append((w[sizes[without_i]] * (v[with_i] - v[without_i])).sum())
    return np.array(values, dtype=dtype)


def _players_of(players: int, n: int) -> tuple[int, ...]:
    """The numbers of the bits that are set, of n bits."""
    return tuple(i for i in range(n) if players >> i & 1)


def subset_weights(semivalue: Semivalue, n: int) -> list[Fraction]:
    """Weight of a marginal contribution to s others, s = 0..n-1, exactly."""
    PARAMETERS["semivalue"]("semivalue", semivalue)
    if semivalue == "banzhaf":
        return [Fraction(1, 2 ** (n - 1))] * n
    if semivalue == "loo":
        return [Fraction(int(s == n - 1)) for s in range(n)]
    # Half of Beta(1, 2), because the analyst must be present and is another player.
    if semivalue == "composite":
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


def check_searcher(make_searcher: Callable[[], SearcherLike], *, recall: float = 0.5) -> None:
    """Check a searcher of your own on awkward data.

    An approximate searcher may miss neighbors, but not invent, repeat or disorder them.

    Parameters
    ----------
    make_searcher : callable
        Makes a new searcher each time it is called. See `Searcher` for what it must have.
    recall : float, default=0.5
        Share of the neighbors it must find on easy data: 1 for one that claims to be exact.

    Raises
    ------
    AssertionError
        With what is wrong, and on which data.

    Examples
    --------
    >>> from nearworth import LSHSearch
    >>> check_searcher(lambda: LSHSearch(random_state=0))
    """
    rng = np.random.default_rng(0)
    for problem in _search_problems(rng):
        searcher = make_searcher()
        _check_search(searcher, problem)

    # On clusters that are far apart, neighbors are easy to find.
    centers = 20.0 * rng.normal(size=(20, 8))
    X = np.repeat(centers, 50, axis=0) + rng.normal(size=(1000, 8))
    Q = centers + rng.normal(size=(20, 8))
    name = "fitted a second time, to well separated clusters"
    _check_search(searcher, SearchProblem(name, X, Q, 10))
    measured_recall = float(Sample(X, 10, Q).recall_of(searcher).mean())
    _require(
        measured_recall >= recall,
        f"{measured_recall:.0%} of the neighbors were found on easy data instead of {recall:.0%}",
    )


def _search_problems(rng: np.random.Generator) -> Iterator[SearchProblem]:
    """Data that searchers may fail on."""
    X = rng.normal(size=(200, 5))
    Q = rng.normal(size=(20, 5))
    yield SearchProblem("ordinary points", X, Q, 10)
    yield SearchProblem("one query", X, Q[:1], 10)
    yield SearchProblem("all points asked for", X, Q, 200)
    yield SearchProblem("more neighbors than points", X[:7], Q, 12)
    yield SearchProblem("one training point", X[:1], Q, 3)
    yield SearchProblem("queries that are training points", X, X[:20], 5)
    yield SearchProblem("duplicates", np.repeat(X[:50], 4, axis=0), X[:20], 9)
    yield SearchProblem("identical points", np.ones((60, 3)), np.ones((4, 3)), 5)
    yield SearchProblem("one column", X[:, :1], Q[:, :1], 10)
    yield SearchProblem("many columns", rng.normal(size=(200, 130)), rng.normal(size=(5, 130)), 10)
    yield SearchProblem("points far from the origin", X + 1e5, Q + 1e5, 10)
    yield SearchProblem("queries far from all points", X, Q + 1e4, 5)
    yield SearchProblem("32-bit numbers", X.astype(np.float32), Q.astype(np.float32), 10)
    yield SearchProblem("columns first in memory", np.asfortranarray(X), np.asfortranarray(Q), 10)


def _check_search(searcher: SearcherLike, problem: SearchProblem) -> None:
    """Check one search. Whatever error there is, it is reported with the problem that caused it."""
    name, X, Q, k = problem
    X_before = X.copy()
    Q_before = Q.copy()
    try:
        _require(searcher.fit(X) is searcher, "fit must return the searcher itself")
        indices, distances = searcher.search(Q, k)
        indices_again, _ = searcher.search(Q, k)
        is_unchanged = np.array_equal(X, X_before) and np.array_equal(Q, Q_before)
        _require(is_unchanged, "the searcher changed its input")
        is_repeated = np.array_equal(indices, indices_again)
        _require(is_repeated, "the same question got two different answers")
        answer = check_answer(indices, distances, len(X), k, n_queries=len(Q), searcher=searcher)
        _check_order(X, Q, answer.rows)
    except Exception as error:
        raise AssertionError(
            f"{name} ({len(X)} points, {len(Q)} queries, k = {k}): {error}"
        ) from error


def _require(condition: bool, failure: str) -> None:
    if not condition:
        raise AssertionError(failure)


def _check_order(X: Matrix, Q: Matrix, indices: Matrix) -> None:
    """Neighbors must come nearest first by true distances, up to rounding."""
    keys = EuclideanKeys(as_points(X))
    # Infinite where there is no neighbor.
    distances = keys.as_distances(keys.listed(Q, indices), Q)
    farthest = np.max(distances, where=np.isfinite(distances), initial=0.0)
    # Far from the origin, coordinates in 32 bits are themselves rounded.
    rounding = MAX_RELATIVE_ROUNDING * (farthest + MAX_RELATIVE_ROUNDING * np.abs(X).max())
    in_order = np.allclose(distances, np.sort(distances, axis=1), rtol=0.0, atol=rounding)
    _require(in_order, f"neighbors do not come nearest first; their true distances are {distances}")


def check_values(
    function: ValueFunction,
    *,
    task: Task = "classification",
    utility: Utility = "soft",
    semivalue: Semivalue = "shapley",
    ties: Ties | None = "average",
    tolerance: float = 1e-9,
) -> None:
    """Check an implementation of your own against the definition, on small awkward problems.

    Parameters
    ----------
    function : callable
        Called as function(X, y, X_val, y_val, n_neighbors=K). It returns the mean value over the
        validation points of each training point, under Euclidean distance.
    task, utility, semivalue
        The game whose values these should be; see `KNNShapley`.
    ties : {"average", "index"} or None
        How points at equal distance should be treated. None leaves out the problems that have such
        points.
    tolerance : float, default=1e-9
        The largest deviation of a value that passes.

    Raises
    ------
    AssertionError
        With every problem on which the function differs from the definition.

    Examples
    --------
    >>> from nearworth import knn_shapley
    >>> check_values(knn_shapley)
    """
    failures = []
    for problem in _value_problems():
        if ties is None and any(len(set(row)) < len(row) for row in problem.squared_distances):
            continue
        utility_of_set = partial(
            _mean_utility, problem=problem, task=task, utility=utility, ties=ties or "average"
        )
        defined = exact_shapley(utility_of_set, len(problem.y), semivalue=semivalue)
        defined = defined.astype(np.float64)
        returned = _call(function, problem)
        is_right = np.shape(returned) == defined.shape and np.allclose(
            returned, defined, rtol=0.0, atol=tolerance
        )
        if not is_right:
            name, X, y, X_val, y_val, k = problem
            failures.append(
                f"{name}: {X=}, {y=}, {X_val=}, {y_val=}, K={k}\n  defined {defined}\n  found  "
                f" {returned}"
            )
    count = f"{len(failures)} problems differ from the definition\n"
    _require(not failures, count + "\n".join(failures))


def _call(function: ValueFunction, problem: ValueProblem) -> Any:
    """The values that a function returns, or its exception as text."""
    X = np.array(problem.X, float)
    y = np.array(problem.y)
    X_val = np.array(problem.X_val, float)
    y_val = np.array(problem.y_val)
    try:
        # Warnings, such as of unseen labels and of divisions by zero, are not the subject here.
        with warnings.catch_warnings(action="ignore"):
            return function(X, y, X_val, y_val, n_neighbors=problem.n_neighbors)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _mean_utility(
    subset: tuple[int, ...], problem: ValueProblem, task: Task, utility: Utility, ties: Ties
) -> Any:
    """The mean utility of a set of training points over the validation points, as a fraction."""
    labels = [Fraction(label) for label in problem.y]
    scores = [
        knn_utility(
            subset,
            distances,
            labels,
            label,
            n_neighbors=problem.n_neighbors,
            task=task,
            utility=utility,
            ties=ties,
        )
        for distances, label in zip(problem.squared_distances, problem.y_val, strict=True)
    ]
    return sum(scores) / len(scores)


def _value_problems() -> Iterator[ValueProblem]:
    """Small problems that implementations get wrong."""
    points = [[3, 0], [1, 1], [0, 4], [6, 2], [5, 4]]
    y = [1, 0, 1, 2, 0]
    queries = [[0, 0], [4, 1], [2, 7]]
    y_val = [0, 1, 2]
    far_points = [[x + 2**20, z - 2**20] for x, z in points]
    far_query = [[2**20, -(2**20)]]
    circle = [[1, 0], [0, 1], [-1, 0], [0, -1]]
    yield ValueProblem("ordinary points", points, y, queries, y_val, 2)
    yield ValueProblem("one neighbor", points, y, queries, y_val, 1)
    yield ValueProblem("as many neighbors as points", points, y, queries, y_val, 5)
    yield ValueProblem("more neighbors than points", points, y, queries, y_val, 8)
    yield ValueProblem("two points, three neighbors", [[1], [2]], [0, 1], [[0]], [1], 3)
    yield ValueProblem("one training point", [[1]], [1], [[0]], [1], 1)
    yield ValueProblem("one training point, two neighbors", [[1]], [1], [[0]], [1], 2)
    yield ValueProblem("one label only", points, [1] * 5, queries, [1] * 3, 2)
    labels = [3, 7, 3, 100, 7]
    yield ValueProblem("labels that do not count from 0", points, labels, queries, [3, 7, 100], 2)
    yield ValueProblem("negative labels", points, [-1, 1, -1, 1, 1], queries, [1, -1, 1], 3)
    yield ValueProblem("far from the origin", far_points, y, far_query, [1], 2)
    identical = [[1], [1], [1], [2]]
    yield ValueProblem("identical rows, different labels", identical, [0, 1, 1, 0], [[0]], [1], 2)
    yield ValueProblem("all rows at one distance", circle, [0, 1, 1, 2], [[0, 0]], [1], 2)
    name = "a validation label that no training point has"
    yield ValueProblem(name, points, y, queries, [1, 9, 2], 2)
