"""Does a searcher keep the contract? `check_searcher(lambda: YourSearcher())` needs a second and no test runner.

It asks small questions with known answers, awkward ones among them: more neighbours than points, duplicates, one point,
one column. An approximate searcher may miss neighbours, but not invent, repeat or disorder them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth.neighbors.exact import Sample
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.neighbors.searchers import as_points, check_answer

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
    far = np.sqrt(EuclideanKeys(as_points(X)).listed(Q, indices))
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
        found = float(Sample(X, 10, Q).recall_of(searcher.fit(X)).mean())
        _require(found >= wanted, f"{found:.0%} of the neighbours were found, at least {wanted:.0%} are wanted")
