"""Graphs that users bring."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.neighbors import NearestNeighbors, kneighbors_graph

from helpers.exact_searcher import ExactSearcher
from nearworth import GraphSearch, KNNShapley


@pytest.fixture
def points(rng):
    return rng.normal(size=(80, 3)), rng.normal(size=(15, 3))


def test_arrays_as_scikit_learn_gives_them(points):
    X, Q = points
    distances, indices = NearestNeighbors(n_neighbors=9).fit(X).kneighbors(Q)
    graph = GraphSearch(indices, distances).fit(X)
    np.testing.assert_array_equal(graph.search(Q, 4)[0], ExactSearcher().fit(X).search(Q, 4)[0])
    np.testing.assert_array_equal(
        graph.search_numbered(np.array([7, 2]), None, 6)[0], indices[[7, 2], :6]
    )


def test_csr_as_scikit_learn_gives_it(points):
    X, Q = points
    csr = NearestNeighbors(n_neighbors=9).fit(X).kneighbors_graph(Q, mode="distance")
    graph = GraphSearch.from_csr(csr).fit(X)
    expected = ExactSearcher().fit(X).search(Q, 9)
    np.testing.assert_array_equal(graph.search(Q, 9)[0], expected[0])
    np.testing.assert_allclose(graph.search(Q, 9)[1], expected[1])


@pytest.mark.parametrize("include_self", [True, False])
def test_every_point_asks_the_others(points, include_self):
    """Whether or not a point is in its own row, it takes no part in its own game."""
    X, _ = points
    y = np.arange(80) % 3
    graph = GraphSearch.from_csr(kneighbors_graph(X, 7, mode="distance", include_self=include_self))
    found = KNNShapley(2, search=graph, n_candidates=5).fit(X, y).value()
    exact = KNNShapley(2, n_candidates=5).fit(X, y).value()
    np.testing.assert_array_equal(found.values, exact.values)
    assert found.search.recall == 1


def test_order_of_the_entries_does_not_matter(rng, points):
    X, Q = points
    indices, distances = ExactSearcher().fit(X).search(Q, 9)
    shuffled = rng.permuted(np.tile(np.arange(9), (15, 1)), axis=1)
    graph = GraphSearch(*(np.take_along_axis(a, shuffled, axis=1) for a in (indices, distances)))
    np.testing.assert_array_equal(graph.search(Q, 9)[0], indices)


def test_rows_of_different_lengths_and_stored_zeros():
    csr = scipy.sparse.csr_array(
        (np.array([0.0, 2.0, 1.0]), np.array([4, 0, 1]), np.array([0, 3, 3])), shape=(2, 5)
    )
    graph = GraphSearch.from_csr(csr)
    found, far = graph.search([[0.0], [0.0]], 4)
    assert found.tolist() == [[4, 1, 0, -1], [-1, -1, -1, -1]]
    assert far[0].tolist() == [0.0, 1.0, 2.0, np.inf]
    assert graph.search_numbered(np.arange(0), None, 3)[0].shape == (0, 3)


def test_other_sparse_formats(points):
    X, Q = points
    csr = NearestNeighbors(n_neighbors=3).fit(X).kneighbors_graph(Q, mode="distance")
    coo = GraphSearch.from_csr(csr.tocoo())
    csr = GraphSearch.from_csr(csr)
    np.testing.assert_array_equal(coo.search(Q, 3)[0], csr.search(Q, 3)[0])


def test_a_graph_of_connections_is_noticed(points):
    with pytest.warns(UserWarning, match="mode='distance'"):
        GraphSearch.from_csr(kneighbors_graph(points[0], 3, mode="connectivity"))


def test_other_training_points_are_refused(points):
    X, Q = points
    graph = GraphSearch.from_csr(
        NearestNeighbors(n_neighbors=3).fit(X).kneighbors_graph(Q, mode="distance")
    )
    with pytest.raises(ValueError, match="80 training points, but X has 79"):
        graph.fit(X[:-1])
    with pytest.raises(ValueError, match="10 training points, but X has 5"):
        GraphSearch([[9]], [[1.0]]).fit(X[:5])
    GraphSearch([[9]], [[1.0]]).fit(X[:11])
    with pytest.raises(ValueError, match="15 rows and Q has 14"):
        graph.search(Q[1:], 2)
    with pytest.raises(ValueError, match="point 15 is not in a graph of 15 rows"):
        graph.search_numbered(np.array([3, 15]), None, 2)


@pytest.mark.parametrize(
    ("indices", "distances", "error", "message"),
    [
        ([[0, 1]], [[1.0]], ValueError, "one shape"),
        ([0, 1], [1.0, 2.0], ValueError, "matrices"),
        ([[0.0, 1.0]], [[1.0, 2.0]], ValueError, "whole numbers"),
        ([[0, 1]], [[1.0, np.nan]], ValueError, "not finite"),
        ([[1, 1]], [[1.0, 2.0]], ValueError, "twice"),
        ([[-3, 1]], [[1.0, 2.0]], ValueError, "outside"),
    ],
)
def test_bad_graphs_are_refused(indices, distances, error, message):
    with pytest.raises(error, match=message):
        GraphSearch(indices, distances)


def test_a_dense_matrix_is_no_graph():
    with pytest.raises(TypeError, match="sparse"):
        GraphSearch.from_csr(np.eye(3))
