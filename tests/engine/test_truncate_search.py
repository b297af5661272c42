"""Checkpoints of runs whose neighbours a searcher finds: the same bits, certificate and report
included.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

import nearworth as nw
from helpers.runs import (
    InlineExecutor,
    InterruptedByUserError,
    assert_same_valuation,
    interrupt_after,
)


def data(rng, n_train=1500, n_val=1800):
    X = rng.normal(size=(n_train, 6))
    X_val = rng.normal(size=(n_val, 6))
    return X, rng.integers(0, 3, n_train), X_val, rng.integers(0, 3, n_val)


def graph(X, X_val):
    far, found = NearestNeighbors(n_neighbors=15).fit(X).kneighbors(X_val)
    found[::7, 10:] = -1  # some know less
    return nw.GraphSearch(found, far)


class Forgetful:
    """Finds the nearest but one, and nothing at all for some."""

    random_state = 3

    def fit(self, X):
        self._index = NearestNeighbors().fit(X)
        return self

    def search(self, Q, k):
        far, found = self._index.kneighbors(Q, k + 1)
        found[np.abs(Q[:, 0]) > 2] = -1
        return found[:, 1:], np.where(found[:, 1:] < 0, np.inf, far[:, 1:])

    def fingerprint(self):
        return "forgets the nearest"


def hash_tables(X, X_val):
    searcher = nw.LSHSearch(4, 4, 2.0, random_state=1)
    searcher.on_fail = "partial"
    return searcher


SEARCHERS = {
    "lsh": hash_tables,
    "named": lambda X, X_val: "lsh",
    "graph": graph,
    "own": lambda X, X_val: Forgetful(),
    "faiss": lambda X, X_val: nw.FaissSearch("IVF16,Flat", recall=0.5),
    "hnsw": lambda X, X_val: nw.FaissSearch("HNSW8", recall=0.5),
}


def need(kind):
    if kind in ("faiss", "hnsw"):
        pytest.importorskip("faiss")


@pytest.mark.parametrize("kind", SEARCHERS)
def test_the_same_bits_and_the_same_certificate(kind, rng, tmp_path):
    need(kind)
    X, y, X_val, y_val = data(rng)
    weights = rng.uniform(0, 2, len(y_val))

    def estimator(progress=None):
        search = SEARCHERS[kind](X, X_val)
        return nw.KNNShapley(
            3,
            n_candidates=12,
            search=search,
            random_state=7,
            progress=progress,
            standard_errors=True,
        ).fit(X, y)

    expected = estimator().value(X_val, y_val, weights)
    for points in (200, 1200):
        with pytest.raises(InterruptedByUserError):
            estimator(interrupt_after(points)).value(X_val, y_val, weights, checkpoint=tmp_path)
    for at_least in (1000, len(y_val)):
        valuation = estimator().value(X_val, y_val, weights, checkpoint=tmp_path)
        assert at_least <= valuation.resumed
        assert_same_valuation(valuation, expected)
        assert str(valuation.search) == str(expected.search)
        np.testing.assert_array_equal(valuation.search.failed, expected.search.failed)
        assert (valuation.confidence, valuation.search.incomplete) == (
            expected.confidence,
            expected.search.incomplete,
        )
    if kind in ("lsh", "own", "faiss"):
        assert expected.search.incomplete > 0  # or this test would show little


def test_a_training_set_valued_on_itself(rng, tmp_path):
    X, y, _, _ = data(rng)
    est = nw.KNNShapley(
        3, n_candidates=8, search=nw.LSHSearch(3, 4, 2.0, random_state=1), random_state=0, n_jobs=1
    )
    expected = est.fit(X, y).value()
    est.progress = interrupt_after(500)
    with pytest.raises(InterruptedByUserError):
        est.value(checkpoint=tmp_path)
    est.progress = None
    valuation = est.value(checkpoint=tmp_path)
    assert 0 < valuation.resumed < len(y)
    assert_same_valuation(valuation, expected)


def test_another_searcher_is_refused(rng, tmp_path):
    X, y, X_val, y_val = data(rng, n_val=300)
    fit = {"n_candidates": 8, "random_state": 0}
    nw.KNNShapley(3, search=nw.LSHSearch(random_state=1), **fit).fit(X, y).value(
        X_val, y_val, checkpoint=tmp_path
    )
    other = nw.KNNShapley(3, search=nw.LSHSearch(random_state=2), **fit).fit(X, y)
    with pytest.raises(
        ValueError, match="belongs to another run; it differs in search: 'LSHSearch"
    ):
        other.value(X_val, y_val, checkpoint=tmp_path)
    with pytest.raises(
        ValueError, match="belongs to another run; it differs in search: 'LSHSearch .* and None"
    ):
        nw.KNNShapley(3, **fit).fit(X, y).value(X_val, y_val, checkpoint=tmp_path)


def test_what_cannot_be_repeated_is_refused(rng, tmp_path):
    X, y, X_val, y_val = data(rng, n_val=300)

    def refused(message, search, random_state=0, **more):
        est = nw.KNNShapley(3, n_candidates=8, search=search, random_state=random_state).fit(X, y)
        with pytest.raises(ValueError, match=message):
            est.value(X_val, y_val, **{"checkpoint": tmp_path} | more)

    refused(r"numbers as random_state, .*; got \(None", "lsh", None)
    refused(r"numbers as random_state, .*; got \(0, None\)", nw.LSHSearch())
    refused(r"numbers as random_state, .*; got \(Generator", "lsh", np.random.default_rng(0))
    nameless = type("Nameless", (), {"fit": Forgetful.fit, "search": Forgetful.search})
    refused(r"checkpoint: .* takes fingerprint\(\) of Nameless", nameless())
    refused("executor needs search='exact'", "lsh", executor=InlineExecutor())
    est = nw.KNNShapley(3, n_candidates=8, search="lsh", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="partial needs search='exact'"):
        est.partial(X_val, y_val)
    assert list(tmp_path.iterdir()) == []


def test_its_checkpoint_is_no_part_to_finish(rng, tmp_path):
    """The intervals need what is known of every single validation point."""
    X, y, X_val, y_val = data(rng, n_val=300)
    nw.KNNShapley(3, n_candidates=8, search="lsh", random_state=0).fit(X, y).value(
        X_val, y_val, checkpoint=tmp_path
    )
    with pytest.raises(ValueError, match=r"only value\(checkpoint=...\) can finish"):
        nw.Valuation.from_partial(nw.Partial.load(tmp_path / "progress.part"))
