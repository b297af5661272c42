"""faiss behind the contract: how hard it tries, and true distances."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import re
import sys

import numpy as np
import pytest

from helpers.definition import recall
from helpers.exact_searcher import ExactSearcher
from nearworth import FaissSearch
from nearworth.neighbors import faiss_search
from nearworth.neighbors.exact import Sample
from nearworth.neighbors.faiss_search import import_faiss


def test_absence_is_told_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"pip install 'nearworth\[faiss\]'"):
        FaissSearch().fit(np.eye(3))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"factory": 3}, "factory"),
        ({"recall": 95}, "recall"),
        ({"n_threads": 0}, "n_threads"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises((TypeError, ValueError), match=message):
        FaissSearch(**parameters)


faiss_needed = pytest.mark.skipif(importlib.util.find_spec("faiss") is None, reason="needs faiss")


@pytest.fixture
def points(rng):
    return rng.normal(size=(3000, 8)), rng.normal(size=(100, 8))


@faiss_needed
@pytest.mark.parametrize(
    "factory", ["Flat", "HNSW16", "IVF32,Flat", "PQ4x4fs", "IVF16,PQ4x4fs", "SQ8", "PCA6,Flat"]
)
def test_any_index_reaches_the_recall_and_tells_true_distances(points, factory):
    X, Q = points
    searcher = FaissSearch(factory, recall=0.9, n_threads=1).fit(X).prepare(10, Q)
    exact, _ = ExactSearcher().fit(X).search(Q, 10)
    indices, distances = searcher.search(Q, 10)
    assert searcher.tuning.warning is None
    assert recall(indices, exact) >= 0.9  # the sample is all of the queries
    assert recall(indices, exact) == pytest.approx(searcher.tuning.recall, abs=0.01)
    np.testing.assert_allclose(
        distances, np.linalg.norm(Q[:, None] - X[indices], axis=2), rtol=1e-12
    )
    assert factory in str(searcher.tuning)


@faiss_needed
def test_flat_is_exact_search(points):
    X, Q = points
    indices, distances = FaissSearch("Flat", n_threads=1).fit(X).search(Q, 25)
    exact, far = ExactSearcher().fit(X).search(Q, 25)
    np.testing.assert_array_equal(indices, exact)
    np.testing.assert_array_equal(distances, far)


@faiss_needed
@pytest.mark.parametrize(
    "change", [lambda X: X + 1e6, lambda X: X * 1e40, lambda X: X * 1e-40, lambda X: X * 2.0**-1000]
)
def test_numbers_that_32_bits_cannot_hold(points, change):
    X, Q = map(change, points)
    assert (
        recall(FaissSearch("Flat").fit(X).search(Q, 10)[0], ExactSearcher().fit(X).search(Q, 10)[0])
        > 0.999
    )


@faiss_needed
def test_effort_grows_with_the_recall(points):
    X, _ = points
    low, high = (FaissSearch("IVF64,Flat", recall=r).fit(X).prepare(10).tuning for r in (0.5, 0.99))
    assert low.parameters["nprobe"] < high.parameters["nprobe"]
    assert low.recall < high.recall


@faiss_needed
def test_what_cannot_be_reached_is_said(points, monkeypatch):
    monkeypatch.setattr(faiss_search, "MAX_FETCHED", 10)
    tuning = FaissSearch("PQ2x4fs", recall=0.99).fit(points[0]).prepare(10).tuning
    assert "99.0% were asked for" in tuning.warning
    assert tuning.warning in str(tuning)


@faiss_needed
def test_auto_goes_by_size(rng, monkeypatch):
    X = rng.normal(size=(3000, 9))
    assert FaissSearch().fit(X).prepare(5).tuning.parameters["factory"] == "Flat"
    monkeypatch.setattr(faiss_search, "FLAT_POINTS", 1000)
    assert FaissSearch().fit(X).prepare(5).tuning.parameters["factory"] == "Pad10,PQ5x4fs"
    assert FaissSearch().fit(X[:, :3]).prepare(5).tuning.parameters["factory"] == "IVF64,Flat"
    monkeypatch.setattr(faiss_search, "LISTS_POINTS", 1000)
    searcher = FaissSearch().fit(X).prepare(5)
    assert searcher.tuning.parameters["factory"] == "Pad10,IVF16,PQ5x4fs"
    assert searcher.tuning.warning is None


@pytest.mark.parametrize("n_columns", [8, 63, 64, 65, 127, 129, 784])
def test_codes_cover_all_columns(n_columns):
    *padding, codes = re.findall(r"\d+(?=,|x)", faiss_search.automatic_factory(50_000, n_columns))
    padded = int(padding[0]) if padding else n_columns
    assert int(codes) <= faiss_search.MAX_CODES
    assert padded % int(codes) == 0
    assert n_columns <= padded < n_columns + padded // int(codes)


@faiss_needed
@pytest.mark.parametrize("factory", ["IVF16,PQ4x4fs", "HNSW8"])
def test_threads_and_batches_do_not_show(points, factory):
    X, Q = points
    faiss = import_faiss()
    before = faiss.omp_get_max_threads()
    one, two = (FaissSearch(factory, n_threads=n).fit(X).prepare(5) for n in (1, 2))
    np.testing.assert_array_equal(one.search(Q, 5)[0], two.search(Q, 5)[0])
    parts = [one.search(Q[a : a + 30], 5)[0] for a in range(0, 100, 30)]
    np.testing.assert_array_equal(np.concatenate(parts), one.search(Q, 5)[0])
    assert faiss.omp_get_max_threads() == before


@faiss_needed
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_answer_alike(points, copied):
    X, Q = points
    searcher = FaissSearch("HNSW8").fit(X).prepare(5)
    np.testing.assert_array_equal(copied(searcher).search(Q, 5)[0], searcher.search(Q, 5)[0])
    copied(FaissSearch())


@faiss_needed
@pytest.mark.parametrize("factory", ["Nonsense", "PQ3x4fs", "IVF9999,Flat"])
def test_bad_factories(points, factory):
    with pytest.raises(
        ValueError, match=f"factory='{factory}' does not work for 3,000 points of 8 columns"
    ):
        FaissSearch(factory).fit(points[0])


@faiss_needed
def test_hostile_data(rng):
    for X in (
        np.ones((40, 3)),
        rng.normal(size=(1, 4)),
        rng.integers(0, 2, (50, 1)),
        rng.random((30, 5)) < 0.5,
    ):
        searcher = FaissSearch().fit(X).prepare(60)
        sample = Sample(np.asarray(X, dtype=float), 60, X)
        assert (sample.recall_of(searcher) == 1).all()
    assert searcher.search(np.zeros((0, 5)), 3)[0].shape == (0, 3)
