"""How much work is done: the exact distances that are computed, of all pairs of a query and a
training row.

Values are the same however many pairs qkeys leave open, so no test of values notices a map, a
tolerance or a scale that leaves all of them open. Then only the time grows. Counts are exact and
the same on every machine, so they are what is bounded here. Each bound is half as much again as
what is needed today.
"""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from nearworth._common import native
from nearworth.engine.value import value_and_nearest
from nearworth.neighbors.quantised import QuantisedKeys

N_TRAIN = 4_000
N_QUERIES = 64

pytestmark = pytest.mark.skipif(
    not native.available(), reason="compares everything without the compiled library"
)


class Work:
    """Exact distances that compiled functions took, as these functions report or ask for them."""

    def __init__(self):
        self.resolved = 0  # by classify_block, which returns it
        self.asked = 0  # by functions that get exact distances from Python: owners, nearest rows
        self.listed = 0  # of rows that are listed by qkeys and compared by distances

    def call(self, call, name, *arguments, **named):
        result = call(name, *arguments, **named)
        if name == "classify_block":
            self.resolved += result
        if name == "listed_pairs":
            self.listed += arguments[2].size
        return result

    def ask(self, ask, keys, query, rows, out):
        self.asked += len(rows)
        ask(keys, query, rows, out)


@pytest.fixture
def work(monkeypatch):
    counted = Work()
    call = native.call
    ask = QuantisedKeys.ask
    monkeypatch.setattr(
        native, "call", lambda *arguments, **named: counted.call(call, *arguments, **named)
    )
    monkeypatch.setattr(QuantisedKeys, "ask", lambda *arguments: counted.ask(ask, *arguments))
    return counted


def gaussian(n_classes=10, *, n_train=N_TRAIN, random_labels=False, offset=0.0):
    """Overlapping classes. Not from `rng`: a bound holds for these numbers, not for any."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((n_classes, 16))
    y = rng.integers(0, n_classes, n_train + N_QUERIES)
    X = centres[y] + rng.standard_normal((n_train + N_QUERIES, 16)) + offset
    if random_labels:
        y = rng.integers(0, n_classes, len(y))
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


DATA = {
    "classes": {},
    "random labels": {"random_labels": True},
    "two classes": {"n_classes": 2, "random_labels": True},
    "far from the origin": {"offset": 1e4},
}


@pytest.mark.parametrize(
    ("data", "most"),
    [
        ("classes", 1_100),
        ("random labels", 1_900),
        ("two classes", 5_600),
        ("far from the origin", 1_100),
    ],
)
def test_pairs_resolved_after_products_in_single_precision(work, data, most):
    X, y, Q, q = gaussian(**DATA[data])
    nw.KNNShapley(5, n_jobs=1).fit(X, y).value(Q, q)
    assert 0 < work.resolved <= most  # of 256,000


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("shift", [0.0, 50.0, -50.0])
def test_pairs_resolved_after_exact_keys(work, data, shift):
    """Distances of any level: a level changes no rank."""
    X, y, Q, q = gaussian(**DATA[data])
    D = ((Q[:, None, :] - X[None, :, :]) ** 2).sum(axis=2) + shift
    nw.KNNShapley(5, metric="precomputed", n_jobs=1).fit(None, y).value(D, q)
    assert work.resolved <= 32


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_pairs_resolved_for_certified_values(work, metric):
    X, y, Q, q = gaussian()
    nw.KNNShapley(5, metric=metric, max_error=0.01, n_jobs=1).fit(X, y).value(Q, q)
    assert work.resolved <= 32


@pytest.mark.parametrize(("n_train", "most"), [(N_TRAIN, 153), (20_000, 39)])
def test_pairs_resolved_where_the_cut_is_far_out(work, n_train, most):
    """Cells beyond the reach of matches are coarse, so this is where a wrong map of cells costs."""
    X, y, Q, q = gaussian(n_train=n_train)
    nw.KNNShapley(5, max_error=1e-3, n_jobs=1).fit(X, y).value(Q, q)
    assert work.resolved <= most


def test_directions_are_resolved_in_python_one_by_one(work):
    X, y, Q, q = gaussian()
    nw.KNNShapley(5, metric="cosine", n_jobs=1).fit(X, y).value(Q, q)
    assert 0 < work.resolved == work.asked <= 700


def test_nearest_rows_that_are_picked_up_on_the_way(work):
    X, y, Q, q = gaussian()
    est = nw.KNNShapley(5, metric="cosine", n_jobs=1).fit(X, y)
    value_and_nearest(est.training_set_.problem(Q, q, None, est.get_params()), 20)
    assert N_QUERIES * 20 <= work.asked - work.resolved <= N_QUERIES * 30


def test_rows_of_owners(work):
    X, y, Q, q = gaussian()
    nw.KNNShapley(5, metric="cosine", n_jobs=1).fit(X, y).value_owners(np.arange(N_TRAIN) % 7, Q, q)
    assert N_QUERIES * 7 * 5 <= work.asked <= 1.5 * N_QUERIES * 7 * 5  # the 5 nearest of each owner


def test_rows_nearer_than_the_fifth_that_is_owned(work):
    X, y, Q, q = gaussian()
    owned = np.arange(N_TRAIN) % 50 == 0
    nw.KNNShapley(5, n_jobs=1).fit(X, y).value(Q, q, owned=owned)
    nearer = np.sort(((Q[:, None, :] - X[None, owned, :]) ** 2).sum(axis=2), axis=1)[:, 4]
    needed = (((Q[:, None, :] - X[None, :, :]) ** 2).sum(axis=2) <= nearer[:, None]).sum()
    assert needed <= work.listed <= 1.5 * needed
