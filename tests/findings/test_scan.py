"""One scan holds the audit as it would be alone, and takes any input that an audit takes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import pairwise_distances

import nearworth as nw

KINDS = ["duplicates", "conflicts", "outliers", "leakage", "imbalance"]


def test_the_audit_is_the_audit(rng):
    X, y = rng.normal(size=(150, 4)), rng.integers(0, 3, 150)
    found, audit = nw.scan(X, y), nw.audit_labels(X, y)
    assert np.array_equal(found.labels.quality, audit.quality)
    assert np.array_equal(found.labels.value, audit.value)
    assert [line.split(":")[0] for line in found.summary().splitlines()] == ["labels", *KINDS]
    assert repr(found) == found.summary()


@pytest.mark.parametrize("kind", ["strings", "targets", "sparse", "precomputed", "frame", "cosine", "far", "float32"])
def test_any_input_of_an_audit(kind, rng):
    X, y, keywords = rng.normal(size=(90, 5)), rng.integers(0, 2, 90), {}
    X[3] = X[4]
    if kind == "strings":
        y = np.array(["no", "yes"])[y]
    if kind == "targets":
        y, keywords = rng.normal(size=90), {"task": "regression"}
    if kind == "sparse":
        X = scipy.sparse.csr_array(X)
    if kind == "precomputed":
        X, keywords = pairwise_distances(X), {"metric": "precomputed"}
    if kind == "frame":
        X = pytest.importorskip("pandas").DataFrame(X)
    if kind == "cosine":
        keywords = {"metric": "cosine"}
    if kind == "far":
        X = X + 1e6
    if kind == "float32":
        X = X.astype(np.float32)
    found = nw.scan(X, y, **keywords)
    if kind != "precomputed":
        assert [group.tolist() for group in found.duplicates.groups] == [[3, 4]]
    for name in KINDS:
        finding = getattr(found, name)
        assert len(finding.to_frame()) == len(finding)
        assert name == "leakage" or len(finding.scores) == 90


@pytest.mark.parametrize("n", [2, 3, 12])
def test_few_rows(n, rng):
    found = nw.scan(rng.normal(size=(n, 2)), np.arange(n) % 2, n_neighbors=20)
    assert not len(found.outliers)
    assert not len(found.duplicates)


def test_same_on_any_number_of_threads(rng):
    X, y = rng.normal(size=(300, 5)), rng.integers(0, 2, 300)
    one, two = nw.scan(X, y, n_jobs=1), nw.scan(X, y, n_jobs=2)
    assert all(np.array_equal(getattr(one, kind).scores, getattr(two, kind).scores) for kind in KINDS)
