"""The suites that users run on their searchers and values: ours pass, wrong ones are caught."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import nearworth as nw
from helpers.exact_searcher import ExactSearcher
from nearworth import FaissSearch, GraphSearch, LSHSearch
from nearworth.testing import check_searcher, check_values


class ThroughGraph(ExactSearcher):
    """Writes the exact neighbours into a graph and reads them from there."""

    def search(self, Q, k):
        return GraphSearch(*super().search(Q, k)).fit(self.distances.data).search(Q, k)


@pytest.mark.parametrize("make", [ExactSearcher, ThroughGraph])
def test_exact_searchers_pass(make):
    check_searcher(make, recall=1.0)


@pytest.mark.parametrize(
    "parameters", [{}, {"n_tables": 3, "n_hashes": 2, "width": 1.0}, {"recall": 0.5}]
)
def test_lsh_passes(parameters):
    check_searcher(
        lambda: LSHSearch(random_state=0, **parameters),
        recall=0.0 if "width" in parameters else 0.5,
    )


@pytest.mark.parametrize("factory", ["auto", "HNSW16"])
def test_faiss_passes(factory):
    pytest.importorskip("faiss")
    check_searcher(lambda: FaissSearch(factory, n_threads=1), recall=0.9)


def broken(change):
    """An exact searcher whose answers go through a change."""

    class Broken(ExactSearcher):
        def search(self, Q, k):
            return change(self, Q, *super().search(Q, k))

    return Broken


def repeats(self, Q, indices, distances):
    return np.where(indices >= 0, indices[:, :1], -1), distances


def shuffled(self, Q, indices, distances):
    indices = indices.copy()
    found = (indices >= 0).sum(axis=1).min()
    indices[:, :found] = indices[:, :found][:, ::-1]
    return indices, distances


def unordered(self, Q, indices, distances):
    return indices[:, ::-1], distances[:, ::-1]


def strangers(self, Q, indices, distances):
    """The farthest points, in their right order."""
    n_train = len(self.distances.data)
    k = indices.shape[1]
    far, keys = self._search.nearest(Q, n_train)
    return (far[:, -k:], keys[:, -k:]) if k < n_train else (indices, distances)


def off_by_one(self, Q, indices, distances):
    return np.where(indices >= 0, indices + 1, -1), distances


def squeezed(self, Q, indices, distances):
    return indices[:, : len(self.distances.data)], distances[:, : len(self.distances.data)]


def padded_with_zero(self, Q, indices, distances):
    return np.maximum(indices, 0), np.where(indices >= 0, distances, distances[:, :1].max())


def moody(self, Q, indices, distances):
    self.mood = not getattr(self, "mood", False)
    return (indices, distances) if self.mood else (indices[::-1], distances[::-1])


def meddling(self, Q, indices, distances):
    Q += 1.0
    return indices, distances


CAUGHT = {
    repeats: "a neighbour twice",
    shuffled: "nearest first",
    unordered: "a neighbour after -1|a farther point before",
    strangers: "0% of the neighbors",
    off_by_one: "nearest first|outside",
    squeezed: "instead of",
    padded_with_zero: "a neighbour twice|farther point",
    moody: "two different answers",
    meddling: "changed its input",
}


@pytest.mark.parametrize("change", CAUGHT, ids=lambda change: change.__name__)
def test_wrong_searchers_are_caught(change):
    with pytest.raises(AssertionError, match=CAUGHT[change]):
        check_searcher(broken(change))


def test_a_crash_is_told_with_its_question():
    class Impatient(ExactSearcher):
        def search(self, Q, k):
            if k > len(self.distances.data):
                raise RuntimeError("k is too large")
            return super().search(Q, k)

    with pytest.raises(
        AssertionError, match="more neighbors than points .7 points, 20 queries, k = 12.: k is too"
    ):
        check_searcher(Impatient)


def test_fit_must_return_the_searcher():
    class Silent(ExactSearcher):
        def fit(self, X):
            super().fit(X)

    with pytest.raises(AssertionError, match="fit must return"):
        check_searcher(Silent)


def test_a_searcher_stuck_to_its_first_points_is_caught():
    class Stuck(ExactSearcher):
        def fit(self, X):
            return self if hasattr(self, "distances") else super().fit(X)

    with pytest.raises(AssertionError, match="second time"):
        check_searcher(Stuck)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("utility", ["soft", "original"])
@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", "loo", ("beta", 4, 1)])
@pytest.mark.parametrize("ties", ["average", "index"])
def test_our_own_values_pass(task, utility, semivalue, ties):
    keywords = {"task": task, "utility": utility, "semivalue": semivalue, "ties": ties}
    check_values(partial(nw.knn_shapley, **keywords), **keywords)


def recursion(X, y, X_val, y_val, n_neighbors):
    """The usual implementation of the original value, which starts at u/N whatever K is and breaks
    ties by sorting.
    """
    total = np.zeros(len(y))
    n = len(y)
    for query, label in zip(X_val, y_val, strict=True):
        order = np.argsort(((X - query) ** 2).sum(axis=1), kind="stable")
        match = (y[order] == label).astype(float)
        values = np.zeros(n)
        values[order[-1]] = match[-1] / n
        for i in range(n - 2, -1, -1):
            step = min(n_neighbors, i + 1) / (i + 1) / n_neighbors
            values[order[i]] = values[order[i + 1]] + (match[i] - match[i + 1]) * step
        total += values
    return total / len(y_val)


def test_values_of_the_usual_recursion_fail_where_points_are_few_and_tied():
    with pytest.raises(AssertionError) as caught:
        check_values(recursion, utility="original")
    text = str(caught.value)
    for name in (
        "more neighbors than points",
        "one training point, two neighbors",
        "identical rows",
        "one distance",
    ):
        assert name in text
    assert "ordinary points" not in text
    assert text.startswith("5 problems differ")


def test_tied_problems_are_left_out_on_request():
    with pytest.raises(AssertionError) as caught:
        check_values(recursion, utility="original", ties=None)
    assert "at one distance" not in str(caught.value)
    assert "identical rows" not in str(caught.value)


def test_functions_that_raise_or_return_another_shape_fail():
    with pytest.raises(AssertionError, match="ZeroDivisionError: division by zero"):
        check_values(lambda *_, n_neighbors: 1 / 0)
    with pytest.raises(AssertionError, match="14 problems"):
        check_values(lambda *_, n_neighbors: 0.0)
