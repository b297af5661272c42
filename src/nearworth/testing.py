"""Checks for code that is not ours; each takes about a second and needs no test runner.

`check_values(your_function)` holds any implementation of K-nearest-neighbour Shapley values against the definition, the
sum over all subsets in exact fractions. `check_searcher(lambda: YourSearcher())` asks whether a searcher keeps the
contract: an approximate one may miss neighbours, but not invent, repeat or disorder them. Both include awkward cases:
more neighbours than points, duplicates, ties, one point.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import Semivalue, Task, Ties, Utility
from nearworth.games import definition
from nearworth.neighbors.exact import Sample, TrueDistances
from nearworth.neighbors.searchers import check_answer

ROUNDING = 1e-3  # relative to the farthest neighbour: indexes work in 32 bits, or in fewer

Matrix = npt.NDArray[Any]


def check_searcher(make_searcher: Callable[[], Any], *, recall: float = 0.5, seed: int = 0) -> None:
    """Raise an AssertionError that says what is wrong with the searchers that `make_searcher` makes, if anything is.

    Parameters
    ----------
    make_searcher
        Makes a new searcher each time it is called.
    recall
        Share of the neighbours it must find on easy data: 1 for one that claims to be exact.
    seed
        Of the random points.

    Examples
    --------
    >>> from nearworth import LSHSearch
    >>> check_searcher(lambda: LSHSearch(random_state=0))
    """
    rng = np.random.default_rng(seed)
    for name, X, Q, k in _questions(rng):
        _check_question(name, make_searcher(), X, Q, k)
    _check_recall(make_searcher(), rng, recall)
    few, more = rng.normal(size=(50, 3)), rng.normal(size=(120, 4))
    searcher = make_searcher().fit(few)
    searcher.search(few[:5], 4)
    _check_question("fitted a second time, to other points", searcher, more, more[:5], 120)


def _questions(rng: np.random.Generator) -> Iterator[tuple[str, Matrix, Matrix, int]]:
    """Data that searchers may fail on, each with a number of neighbours."""
    X, Q = rng.normal(size=(200, 5)), rng.normal(size=(20, 5))
    yield "ordinary points", X, Q, 10
    yield "one neighbour", X, Q, 1
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
    yield "large numbers", X * 1e6, Q * 1e6, 10
    yield "queries far from all points", X, Q + 1e4, 5
    yield "32-bit numbers", X.astype(np.float32), Q.astype(np.float32), 10
    yield "columns first in memory", np.asfortranarray(X), np.asfortranarray(Q), 10


def _check_question(name: str, searcher: Any, X: Matrix, Q: Matrix, k: int) -> None:
    X_before, Q_before = X.copy(), Q.copy()
    with _blame(f"{name} ({len(X)} points, {len(Q)} queries, k = {k})"):
        _require(searcher.fit(X) is searcher, "fit must return the searcher itself")
        (indices, distances), (again, _) = searcher.search(Q, k), searcher.search(Q, k)
        _require(np.array_equal(X, X_before) and np.array_equal(Q, Q_before), "the searcher changed its input")
        _require(np.array_equal(indices, again), "the same question got two different answers")
        _check_order(X, Q, check_answer(indices, distances, len(X), k, n_queries=len(Q), searcher=searcher).rows)


@contextmanager
def _blame(question: str) -> Iterator[None]:
    """Any error is a failure of the searcher, reported with the question that caused it."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{question}: {error}") from error


def _require(right: bool, wrong: str) -> None:
    if not right:
        raise AssertionError(wrong)


def _check_order(X: Matrix, Q: Matrix, indices: Matrix) -> None:
    """The neighbours returned must come nearest first by true distances, up to rounding."""
    far = np.sqrt(TrueDistances(X).keys(Q, indices))
    here = np.isfinite(far)
    size = np.where(here, far, 0.0).max(axis=1) + ROUNDING * np.abs(X).max()  # 32 bits tell no more far from the origin
    falls = np.where(here[:, 1:], far[:, :-1], 0.0) - np.where(here[:, 1:], far[:, 1:], 0.0)
    wrong = np.flatnonzero((falls > ROUNDING * size[:, None]).any(axis=1))
    _require(
        not wrong.size,
        f"neighbours do not come nearest first; the true distances of those returned for query {wrong[:1]} are "
        f"{np.array2string(far[wrong[:1]], precision=4, threshold=20)}",
    )


def _check_recall(searcher: Any, rng: np.random.Generator, wanted: float) -> None:
    """On clusters that are far apart, neighbours are easy to find."""
    centres = 20.0 * rng.normal(size=(20, 8))
    X = np.repeat(centres, 50, axis=0) + rng.normal(size=(1000, 8))
    Q = centres + rng.normal(size=(20, 8))
    with _blame("well separated clusters (1000 points, 20 queries, k = 10)"):
        found = float(Sample.of_queries(X, Q, 10).recall_of(searcher.fit(X)).mean())
        _require(found >= wanted, f"{found:.0%} of the neighbours were found, at least {wanted:.0%} are wanted")


def check_values(
    function: Callable[..., Any],
    *,
    task: Task = "classification",
    utility: Utility = "soft",
    semivalue: Semivalue = "shapley",
    ties: Ties | None = "average",
    tolerance: float = 1e-9,
) -> None:
    """Raise an AssertionError that lists every small problem on which a function differs from the definition.

    Parameters
    ----------
    function
        Called as function(X, y, X_val, y_val, n_neighbors); returns the mean value over the validation points of each
        training point, under Euclidean distance.
    task, utility, semivalue
        The game whose values these should be; see `KNNShapley`.
    ties
        How points at equal distance should be treated; None leaves out the problems that have such points.
    tolerance
        The largest deviation of a value that passes.

    Examples
    --------
    >>> from nearworth import knn_shapley
    >>> check_values(knn_shapley)
    """
    wrong = []
    for name, X, y, X_val, y_val, k in _problems(task == "classification"):
        distances = ((np.array(X_val)[:, None] - np.array(X)) ** 2).sum(axis=2).tolist()
        if ties is None and any(len(set(row)) < len(row) for row in distances):
            continue
        games = [
            _game(f"{utility}_{task}", row, y, target, n_neighbors=k, ties=ties or "average")
            for row, target in zip(distances, y_val, strict=True)
        ]
        values = np.sum([definition.exact_shapley(game, len(y), semivalue=semivalue) for game in games], axis=0)
        true = (values / len(games)).astype(np.float64)
        found = _outcome(function, np.array(X, float), np.array(y), np.array(X_val, float), np.array(y_val), k)
        if np.shape(found) != true.shape or not np.allclose(found, true, rtol=0.0, atol=tolerance):
            wrong.append(f"{name}: {X=}, {y=}, {X_val=}, {y_val=}, K={k}\n  defined {true}\n  found   {found}")
    _require(not wrong, f"{len(wrong)} problems differ from the definition\n" + "\n".join(wrong))


def _problems(classes: bool) -> Iterator[tuple[str, list[Any], list[Any], list[Any], list[Any], int]]:
    """Small problems that implementations get wrong: X, y, X_val, y_val, K, in whole numbers, so that ties are ties."""
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
    yield "far from the origin", [[x + 2**20, z - 2**20] for x, z in points], y, [[2**20, -(2**20)]], [1], 2
    yield "identical rows, different labels", [[1], [1], [1], [2]], [0, 1, 1, 0], [[0]], [1], 2
    yield "all rows at one distance", [[1, 0], [0, 1], [-1, 0], [0, -1]], [0, 1, 1, 2], [[0, 0]], [1], 2
    if classes:
        yield "a validation label that no training point has", points, y, queries, [1, 9, 2], 2


def _game(name: str, distances: list[Any], y: list[int], target: int, **keywords: Any) -> Callable[..., Any]:
    """One of the four utilities of a set of training points, in exact fractions."""
    if name == "soft_classification":
        keywords["n_classes"] = len(set(y))
    labels = y if name.endswith("classification") else [Fraction(number) for number in y]
    return lambda subset: getattr(definition, name)(subset, distances, labels, target, **keywords)


def _outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of labels unseen in training, of divisions by zero: values tell
            return np.asarray(function(*arguments), dtype=np.float64)
    except Exception as error:  # whatever it raises is what it found
        return f"{type(error).__name__}: {error}"
