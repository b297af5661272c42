"""Nearest points picked up on the way are those that a plain sort finds."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from nearworth._common import native
from nearworth.engine.run import NearestLists
from nearworth.engine.value import value_and_nearest
from nearworth.neighbors.quantised import QuantisedKeys


def nearest(estimator, X, y, size, X_val=None, y_val=None):
    training = estimator.fit(X, y).training_set_
    parameters = estimator.get_params()
    return value_and_nearest(training.problem(X_val, y_val, None, parameters), size)


def squared(A, B):
    return ((A[:, None] - B[None]) ** 2).sum(axis=2)


@pytest.mark.parametrize(
    ("n", "size", "task"),
    [
        (n, size, task)
        for n, size in [(2, 5), (30, 7), (300, 40)]
        for task in ("classification", "regression")
    ]
    + [(2500, 20, "classification")],  # through a matrix product, which regression has not
)
def test_same_as_a_sort(rng, n, size, task):
    X = rng.normal(size=(n, 3))
    y = np.arange(n) % 2
    valuation, found = nearest(nw.KNNShapley(3, task=task), X, y, size)
    D = squared(X, X)
    np.fill_diagonal(D, np.inf)
    order = np.argsort(D, axis=1)[:, : min(size, n - 1)]
    assert (found.rows == order).all()
    np.testing.assert_allclose(found.keys, np.take_along_axis(D, order, axis=1), rtol=1e-12)
    assert (valuation.values == nw.KNNShapley(3, task=task).fit(X, y).value().values).all()


def test_against_validation_points(rng):
    X = rng.normal(size=(2500, 4))
    Q = rng.normal(size=(30, 4))
    y = rng.integers(0, 2, 2500)
    _, found = nearest(nw.KNNShapley(3), X, y, 9, Q, y[:30])
    assert (found.rows == np.argsort(squared(Q, X), axis=1)[:, :9]).all()


def test_lists_end_before_equals_that_do_not_all_fit():
    lists = NearestLists(1, 3, least=1)
    lists.keep(0, np.arange(5), np.array([2.0, 1.0, 2.0, 2.0, 3.0]))
    assert lists.found.rows[0].tolist() == [1, -1, -1]


def test_hashes_decide_where_the_list_would_be_too_short():
    firsts = set()
    for query in range(50):
        lists = NearestLists(query + 1, 2, least=2)
        lists.keep(query, np.arange(10), np.zeros(10))
        firsts.add(int(lists.found.rows[query, 0]))
        assert (lists.found.rows[query] >= 0).all()
    assert len(firsts) > 5


@pytest.mark.skipif(not native.available(), reason="the compiled library is not there")
def test_few_exact_keys_are_asked_for(rng):
    keys = rng.integers(0, 2**30, 100_000).astype(np.int32)
    asked = []

    def exact(rows):
        asked.append(len(rows))
        return keys[rows].astype(float)

    block = QuantisedKeys(
        qkeys=keys[None], tolerance=np.zeros(1, np.int32), usable=np.ones(1, bool), exact=[exact]
    )
    lists = NearestLists(1, 50)
    nobody = np.empty((1, 0), np.int32)
    block.nearest(
        np.arange(100_000, dtype=np.int32), nobody, lists.found, least=lists.least, first=0
    )
    assert len(asked) == 1
    assert asked[0] < 100


def test_a_query_that_is_recorded_again_leaves_nothing_of_the_first_time():
    """As happens when approximate keys prove inaccurate: the second list may be shorter."""
    lists = NearestLists(1, 4)
    lists.keep(0, np.arange(4), np.array([1.0, 2.0, 3.0, 4.0]))
    lists.keep(0, np.array([7, 8]), np.array([0.5, 0.6]))
    assert lists.found.rows[0].tolist() == [7, 8, -1, -1]
    assert lists.found.keys[0].tolist() == [0.5, 0.6, np.inf, np.inf]


@pytest.mark.skipif(not native.available(), reason="the compiled library is not there")
@pytest.mark.parametrize("source", ["points", "given", "exact"])
@pytest.mark.parametrize(
    ("n", "size", "least"), [(1, 3, 1), (7, 3, 1), (40, 60, 1), (500, 20, 5), (5000, 20, 20)]
)
@pytest.mark.parametrize("spread", [0, 2, 1000])  # of the coordinates: all equal, many ties, few
@pytest.mark.parametrize("n_excluded", [0, 1, 6])
def test_lists_from_quantised_keys_are_those_of_a_sort(
    rng, n, size, least, spread, source, n_excluded
):
    # Numbers of queries are part of the hashes.
    first = 100
    stop = 130
    order = rng.permutation(n).astype(np.int32)
    points = rng.integers(0, spread + 1, (n, 3)).astype(np.int16)
    queries = points[rng.integers(0, n, stop - first)].astype(np.float64)
    count = min(n_excluded, n - 1)
    excluded = np.array([rng.permutation(n)[:count] for _ in range(first, stop)], np.int32).reshape(
        stop - first, count
    )
    keys = squared(queries, points)
    tolerance = rng.choice([0, 1, 40], stop - first).astype(
        np.int32
    )  # by which two keys may be off against each other
    noisy = keys[:, order] + rng.integers(0, tolerance[:, None] + 1, keys.shape)
    qkeys = np.concatenate([noisy, np.zeros((stop - first, 5))], axis=1).astype(
        np.int32
    )  # the rest is never read
    exact = {
        "points": {"queries": queries, "points": points},
        "given": {"given": keys},
        "exact": {"exact": [row.__getitem__ for row in keys]},
    }[source]
    found = NearestLists(stop, size, least)
    expected = NearestLists(stop, size, least)
    block = QuantisedKeys(
        qkeys=qkeys, tolerance=tolerance, usable=np.ones(stop - first, dtype=bool), **exact
    )
    block.nearest(order, excluded, found.found.part(slice(first, stop)), least=least, first=first)
    for query, (row, positions) in enumerate(zip(keys, excluded, strict=True), start=first):
        rows = np.delete(np.arange(n), order[positions])
        expected.keep(query, rows, row[rows])
    np.testing.assert_array_equal(found.found.rows, expected.found.rows)
    np.testing.assert_array_equal(found.found.keys, expected.found.keys)
