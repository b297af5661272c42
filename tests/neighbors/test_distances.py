"""Exact distances and inner products: one order of summation, whatever computes them and however
rows are stored.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from nearworth._common import native
from nearworth.inputs.file_rows import FileRows
from nearworth.neighbors.distances import (
    all_pairs,
    count_copied,
    first_duplicates,
    first_equal,
    listed_pairs,
    pairs_with,
    readable,
    sparse_distances,
    squared_distances,
)
from nearworth.neighbors.keys import EuclideanKeys

TYPES = ["f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "bool", "f2", ">f8", ">i2"]


def in_eight_lanes(terms):
    """The definition, one number after the other."""
    sums = [0.0] * 8
    for column, term in enumerate(terms):
        sums[column % 8] += float(term)
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))


def by_definition(queries, points, kind="distances"):
    with np.errstate(all="ignore"):
        rows = [
            [(t * x if kind == "products" else (x - t) ** 2) for x in points.astype(float)]
            for t in queries
        ]
    return np.array([[in_eight_lanes(terms) for terms in row] for row in rows]).reshape(
        len(queries), len(points)
    )


def assert_all_ways_agree(queries, points, rng):
    """All pairs, chosen rows and lists, of distances and of inner products, to the bit."""
    stored = readable(points)
    expected = by_definition(queries, points)
    products = by_definition(queries, points, "products")
    np.testing.assert_array_equal(squared_distances(queries, stored), expected)
    np.testing.assert_array_equal(all_pairs(queries, stored, product=True), products)
    rows = rng.integers(0, len(points), (len(queries), 11)).astype(np.int32)
    for query, some, distances, inner in zip(queries, rows, expected, products, strict=True):
        np.testing.assert_array_equal(pairs_with(query, stored, some), distances[some])
        np.testing.assert_array_equal(pairs_with(query, stored, some, product=True), inner[some])
    np.testing.assert_array_equal(
        listed_pairs(queries, stored[:], rows), np.take_along_axis(expected, rows, axis=1)
    )


@pytest.mark.parametrize("width", [*range(41), 255, 256, 257, 515])
def test_any_width(variant, rng, width):
    for n_queries, n_points in ((1, 1), (3, 17), (7, 35)):
        queries = rng.normal(size=(n_queries, width))
        points = rng.normal(size=(n_points, width))
        assert_all_ways_agree(queries, points, rng)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("width", [3, 8, 29, 300])
def test_any_type(variant, rng, kind, width):
    points = 50 * rng.normal(size=(21, width))
    if np.dtype(kind).kind in "iu":
        limits = np.iinfo(kind)
        points = rng.integers(
            limits.min,
            limits.max,
            (21, width),
            dtype=np.dtype(kind).newbyteorder("="),
            endpoint=True,
        )
    assert_all_ways_agree(50 * rng.normal(size=(5, width)), points.astype(kind), rng)


SCALES = {
    "huge": 1e150,
    "too large": 1e200,
    "tiny": 1e-150,
    "subnormal": 1e-310,
    "mixed": 10.0 ** np.arange(-150, 151, 20),
}


@pytest.mark.parametrize("scale", SCALES)
def test_extreme_numbers(variant, rng, scale):
    factor = SCALES[scale]
    points = rng.normal(size=(19, 16)) * factor
    queries = rng.normal(size=(6, 16)) * factor
    assert_all_ways_agree(queries, points, rng)


def test_infinite_and_missing_numbers(variant, rng):
    points = rng.normal(size=(19, 13))
    queries = rng.normal(size=(6, 13))
    points[3, 2] = np.nan
    points[4, 12] = np.inf
    points[5, 0] = -np.inf
    queries[1, 2] = np.inf
    assert_all_ways_agree(queries, points, rng)
    assert np.isnan(squared_distances(queries, points)[0]).tolist() == [
        row == 3 for row in range(19)
    ]


@pytest.mark.parametrize("n_queries", [1, 63, 64, 65, 130])
@pytest.mark.parametrize("width", [1, 10, 260])
def test_blocks_of_queries_and_points_do_not_show(variant, rng, n_queries, width):
    queries = rng.normal(size=(n_queries, width))
    points = rng.normal(size=(301, width)).astype(np.float32)
    found = squared_distances(queries, points)
    order = rng.permutation(301)
    np.testing.assert_array_equal(squared_distances(queries, points[order]), found[:, order])
    for q in {0, n_queries // 2, n_queries - 1}:
        np.testing.assert_array_equal(
            squared_distances(queries[q : q + 1], points), found[q : q + 1]
        )
        np.testing.assert_array_equal(
            pairs_with(queries[q], points, order.astype(np.int32)), found[q, order]
        )
    np.testing.assert_allclose(found, ((queries[:, None] - points) ** 2).sum(axis=2), rtol=1e-13)


def test_very_long_rows(variant, rng):
    queries = rng.normal(size=(5, 100_003))
    points = rng.normal(size=(9, 100_003)).astype(np.float32)
    found = squared_distances(queries, points)
    np.testing.assert_array_equal(found[3:, 2:], by_definition(queries[3:], points[2:]))
    np.testing.assert_array_equal(
        pairs_with(queries[4], points, np.array([8, 0], dtype=np.int32)), found[4, [8, 0]]
    )


def test_duplicates_are_equally_far(variant, rng):
    points = np.repeat(rng.normal(size=(40, 23)), 7, axis=0)
    found = squared_distances(rng.normal(size=(9, 23)), points).reshape(9, 40, 7)
    assert (found == found[:, :, :1]).all()
    assert (squared_distances(points[:7], points)[:, :7] == 0).all()


def unaligned(array):
    copy = np.frombuffer(b"x" + array.tobytes(), dtype=np.uint8)[1:]
    return copy.view(array.dtype).reshape(array.shape)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "columns backwards": lambda X: X[:, ::-1].copy()[:, ::-1],
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "rows of a wider matrix": lambda X: np.hstack([X, X])[:, : X.shape[1]],
    "unaligned": unaligned,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout(variant, rng, layout):
    points = rng.normal(size=(50, 12))
    stored = LAYOUTS[layout](points)
    assert not (stored.flags.c_contiguous and stored.flags.aligned)
    np.testing.assert_array_equal(stored, points)
    assert_all_ways_agree(rng.normal(size=(4, 12)), stored, rng)


def test_rows_in_a_file(variant, rng, tmp_path):
    points = rng.normal(size=(5000, 40))
    queries = rng.normal(size=(5, 40))
    points.tofile(tmp_path / "rows")
    stored = FileRows.open(tmp_path / "rows", np.float64, points.shape)
    rows = rng.integers(0, 5000, 3000).astype(np.int32)
    np.testing.assert_array_equal(
        squared_distances(queries, stored), squared_distances(queries, points)
    )
    np.testing.assert_array_equal(
        pairs_with(queries[0], stored, rows), pairs_with(queries[0], points, rows)
    )


@pytest.mark.parametrize("position", [0, 3, 4, 8])
def test_rows_that_were_not_found_are_infinitely_far(variant, rng, position):
    queries = rng.normal(size=(2, 9))
    points = rng.normal(size=(20, 9))
    rows = rng.integers(0, 20, (2, 9))
    rows[1, position] = -1
    found = EuclideanKeys(points).listed(queries, rows)
    assert np.argwhere(np.isinf(found)).tolist() == [[1, position]]


def sparse(rng, n, width, share):
    X = rng.normal(size=(n, width)) * (rng.random((n, width)) < share)
    return scipy.sparse.csr_array(X), X


@pytest.mark.parametrize("width", [1, 7, 8, 9, 30, 400])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_sparse_rows_agree_with_dense_ones(variant, rng, width, share):
    (Q, queries), (X, points) = sparse(rng, 6, width, 0.3), sparse(rng, 40, width, share)
    np.testing.assert_array_equal(squared_distances(Q, X), squared_distances(queries, points))
    absolute = np.array([[sum(map(abs, (x - t).tolist())) for x in points] for t in queries])
    np.testing.assert_array_equal(sparse_distances(Q, X, 1), absolute)
    wide = [
        scipy.sparse.csr_array(
            (s.data, s.indices.astype(np.int64), s.indptr.astype(np.int64)), s.shape
        )
        for s in (Q, X)
    ]
    np.testing.assert_array_equal(squared_distances(*wide), squared_distances(Q, X))


def test_more_columns_than_32_bits_count(variant):
    columns = np.array([3, 2**40 + 3, 2**40 + 4], dtype=np.int64)
    X = scipy.sparse.csr_array(
        (np.array([1.0, 2.0, 5.0]), columns, np.array([0, 2, 3])), shape=(2, 2**41)
    )
    assert squared_distances(X, X).tolist() == [[0.0, 30.0], [30.0, 0.0]]
    assert sparse_distances(X, X, 1).tolist() == [[0.0, 8.0], [8.0, 0.0]]


@pytest.mark.skipif(not native.available(), reason="the library was not built")
def test_rows_outside_are_never_read(rng):
    points = rng.normal(size=(5, 4))
    out = np.empty(6)
    rows = np.array([0, 5, -(2**31), 2**31 - 1, 4, -1], dtype=np.int32)
    native.call("listed_pairs", points[:1], points, rows[None], False, out[None])
    assert np.isinf(out).tolist() == [False, True, True, True, False, True]


@pytest.mark.skipif(not native.available(), reason="the library was not built")
@pytest.mark.parametrize("first", [-1, 2, 2**62, -(2**63), 2**63 - 1])
def test_columns_outside_are_never_written(first):
    out = np.zeros((1, 4))
    native.call("all_pairs", np.ones((1, 2)), np.zeros((3, 2)), first, 0, out)
    assert not out.any()


@pytest.mark.parametrize(
    "container", [np.array, np.asfortranarray, scipy.sparse.csr_array, lambda X: X.astype(">f4")]
)
def test_first_duplicates(container):
    X = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, -0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    if container is scipy.sparse.csr_array:
        X = np.abs(X)
    assert first_duplicates(container(X)).tolist() == [0, 1, 0, 3, 1, 5]


def test_first_equal_looks_at_all_columns():
    assert first_equal(np.array([1, 1, 2, 1]), np.array([0.5, 0.5, 0.5, 0.25])).tolist() == [
        0,
        0,
        2,
        3,
    ]


def test_copies_among_the_points_are_counted(rng):
    points = rng.normal(size=(400, 5))
    points[7, 0] = np.nan
    strangers = points[:6] + np.eye(5)[1]  # the same in the column that is looked at first
    queries = np.concatenate([points[20:50], rng.normal(size=(40, 5)), strangers])
    assert count_copied(points, queries) == 30
    assert count_copied(points, queries[30:]) == 0
    assert count_copied(points[:1], points[:1]) == 1
    coarse = np.ones((100, 5))
    assert count_copied(coarse, coarse) == 0  # no column tells half of the rows apart
