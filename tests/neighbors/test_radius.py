"""What is within a radius: rows exactly at it, at every scale, and whatever other rows there
are.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

import nearworth as nw
from helpers.extreme import TRIPLES, voters
from nearworth._common import native

HOSTILE = [
    [1.0, 0.5],
    [1.0, 0.0],
    [0.0, 0.0],
    [5e-324, 0.0],
    [1e-300, 1e-310],
    [1e149, -1e149],
    [1e8 + 0.5, 3.0],
    [1 / 3, 0.1],
    [2.0**60, 1.0],
]


@pytest.mark.parametrize("scale", [1.0, 0.1, 1 / 3, 1e-170, 1e100])
@pytest.mark.parametrize("container", [np.array, scipy.sparse.csr_array])
def test_a_row_at_an_angle_of_exactly_the_radius_votes(scale, container):
    """Whole numbers or not; and beside any row that has a fraction."""
    for a, b, c in TRIPLES:
        radius = float(1 - Fraction(a, c))
        X = np.array([[a, b], [0.0, 1.0], [a, 1.01 * b]])
        X[0] *= scale
        for query in ([1.0, 0.0], [0.3, 0.0]):
            found = voters(container(X), container(np.array([query])), radius, "cosine")
            assert found.tolist() == [True, False, False]


@pytest.mark.parametrize("metric", ["cosine", "correlation"])
@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_right_angles_and_opposite_directions_at_the_radius(metric, fraction):
    """A row without a direction is at distance 1, as right angles are."""
    X = np.array([[1.0, 2.0, 3.0], [1.0, -2.0, 1.0], [0.0, 0.0, 0.0], [3.0, 2.0, 1.0]]) * (
        1.0 + fraction
    )
    query = np.array([[1.0, 2.0, 3.0]])
    if metric == "cosine":
        X[1] = [3.0 + fraction, 0.0, -(3.0 + fraction) / 3]
        X[3] = -X[0]
    assert voters(X, query, 1.0, metric).tolist() == [True, True, True, False]
    assert voters(X, query, 1.0 - 1e-9, metric).tolist() == [True, False, False, False]
    assert voters(X, query, 2.0, metric).all()
    assert not voters(X, query, 2.0 - 1e-9, metric)[3]
    assert voters(X, query, 1e300, metric).all()


def test_the_distance_of_a_right_angle_is_1():
    X = np.array([[0.0, 1.5], [0.0, 0.0], [-0.5, 0.0], [2.5, 0.0]])
    seen = []
    nw.KNNShapley(weights=lambda d: seen.append(d) or np.ones_like(d), metric="cosine").fit(
        X, [0, 1, 0, 1]
    ).value([[1.0, 0.0]], [0])
    assert seen[0].tolist() == [0.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize("exponent", [-1050, -600, -400, -20, 0, 3, 400])
@pytest.mark.parametrize("metric", ["euclidean", "nan_euclidean", "sparse"])
def test_a_row_at_exactly_the_radius_votes_at_every_scale(exponent, metric):
    container = scipy.sparse.csr_array if metric == "sparse" else np.array
    name = "euclidean" if metric == "sparse" else metric
    scale = 2.0**exponent
    for a, b, c in TRIPLES:
        X = np.array([[a, b], [a, b + 1], [-b, a], [0, c], [0, 0]]) * scale
        expected = [True, False, True, True, True]
        for query in (np.zeros((1, 2)), np.array([[16.0, -32.0]]) * scale):
            moved = X + query
            assert voters(container(moved), container(query), c * scale, name).tolist() == expected
            squared = c * c * scale * scale
            if squared > 0.0 and metric == "euclidean":
                assert voters(moved, query, squared, "sqeuclidean").tolist() == expected


@pytest.mark.parametrize(
    "metric", ["euclidean", "sqeuclidean", "cosine", "nan_euclidean", "manhattan"]
)
def test_all_rows_are_within_the_largest_radius(metric):
    X = np.array([[0.0, 1.0], [1e149, -1e149], [5e-324, 0.0]])
    assert voters(X, np.array([[-1e149, 1e149]]), np.finfo(float).max, metric).all()


def test_a_radius_smaller_than_a_square_can_be():
    """Training rows without tiny numbers, and a query with them."""
    X = np.array([[0.0, 1.0], [0.0, 2.0]])
    query = np.array([[1e-200, 1.0]])
    assert voters(X, query, 1e-200).tolist() == [True, False]
    assert voters(X, query, 9e-201).tolist() == [False, False]
    assert voters(X, query, 1.0).tolist() == [True, True]


@pytest.mark.parametrize(
    "radius", [1e-250, 1e-100, 0.3, 1 - 8 / 17 - 3e-13, 1 - 8 / 17, 1.0, 4.0, 1e120]
)
@pytest.mark.parametrize(
    "metric", ["euclidean", "sqeuclidean", "cosine", "correlation", "manhattan", "nan_euclidean"]
)
def test_other_rows_do_not_decide_who_votes(rng, metric, radius):
    """Each row alone, and beside each row that changes what the set as a whole is like."""
    X = np.vstack(
        [rng.integers(-3, 4, (6, 2)), [[8, 15], [0, 1], [1, 0]], rng.normal(size=(3, 2))]
    ).astype(float)
    X[5] = [1.0, 1e-250]
    third = np.arange(len(X))[:, None] % 4 + 1.0  # correlations of two numbers are 1 and -1
    queries = np.array([[1.0, 0.0, 2.0], [1.0, 2e-250, 1.0]])
    with np.errstate(all="ignore"):
        for query in queries:
            if metric == "correlation" and radius < 1e-3:
                continue  # constant rows
            alone = [
                bool(voters(np.append(row, t)[None], query[None], radius, metric)[0])
                for row, t in zip(X, third, strict=True)
            ]
            for others in (HOSTILE[0:1], HOSTILE[3:4], HOSTILE[5:6], HOSTILE):
                together = np.column_stack(
                    [np.vstack([X, others]), np.resize(third, (len(X) + len(others), 1))]
                )
                found = voters(together, query[None], radius, metric)
                assert found[: len(X)].tolist() == alone, (query, others)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_with_privacy_other_rows_do_not_decide_who_votes(metric):
    """Without any noise, the row of another owner would tell something about itself."""
    pytest.importorskip(
        "dp_accounting", reason="dp-accounting is not installed: pip install 'nearworth[privacy]'"
    )
    X = np.array([[8.0, 15.0]] * 40)
    radius = 1 - 8 / 17 if metric == "cosine" else math.sqrt(7.0**2 + 15.0**2)
    for other in (HOSTILE[0], HOSTILE[3]):
        found = voters(
            np.vstack([X, [other]]), np.array([[1.0, 0.0]]), radius, metric, privacy=(0.5, 1e-6)
        )
        assert found[:40].all()


@pytest.mark.skipif(not native.available(), reason="needs compiled code")
@pytest.mark.parametrize("other", [None, *HOSTILE])
def test_other_rows_do_not_decide_where_a_product_serves(rng, other):
    """Rows within a hair's breadth of the radius, on both sides of it."""
    X = rng.normal(size=(3_000, 2))
    X[:200] /= np.sqrt((X[:200] ** 2).sum(axis=1, keepdims=True))
    X[200:400] = X[:200] * (1.0 + 1e-15)
    query = np.zeros((40, 2))
    expected = np.array([math.hypot(*row) <= 1.0 for row in X])
    expected[:400] = [
        math.sqrt(row[0] * row[0] + row[1] * row[1]) <= 1.0 for row in X[:400].tolist()
    ]
    rows = X if other is None else np.vstack([X, [other]])
    np.testing.assert_array_equal(voters(rows, query, 1.0)[:3_000], expected)


def test_the_rows_that_vote_are_those_of_the_ranks(rng):
    """No row outside is nearer, or as near, as one inside; weights are equal where ranks are."""
    for scale in (1.0, 0.1):
        X = rng.integers(-4, 5, (60, 2)) * scale
        query = np.array([[1.0, 0.0]])
        for metric in ("euclidean", "cosine"):
            keys = nw.KNNShapley(metric=metric).fit(X, np.zeros(60, dtype=int)).training_set_.keys
            own = keys(query)[0]
            for radius in (1 - 3 / 5, 1.0, 0.5, 2 * scale, 5 * scale, 1.5):
                inside = voters(X, query, radius, metric)
                if inside.any() and not inside.all():
                    assert own[inside].max() < own[~inside].min()
            distances = keys.as_distances(own[None], query)[0]
            order = np.argsort(own)
            assert (np.diff(distances[order]) >= 0).all()
