"""What the page shows, as data."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import nearworth as nw
from nearworth.report import content
from nearworth.report.content import project


def test_projection_has_most_variance_and_a_fixed_sign(rng):
    X = rng.normal(size=(300, 6)) * [1, 9, 2, 5, 1, 1]
    found = project(X, np.arange(300))
    centred = X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    np.testing.assert_allclose((found**2).sum(axis=0), values[::-1][:2])
    for number in (0, 1):
        direction = vectors[:, -1 - number]
        direction *= np.sign(direction[np.abs(direction).argmax()])
        np.testing.assert_allclose(found[:, number], centred @ direction, atol=1e-8)


def test_projection_of_sparse_wide_and_equal_rows(rng, monkeypatch):
    X = rng.normal(size=(30, 5))
    np.testing.assert_allclose(project(sp.csr_array(X), np.arange(9)), project(X, np.arange(9)), atol=1e-9)
    assert project(rng.normal(size=(20, 2000)), np.array([3, 1])).shape == (2, 2)
    assert (project(np.ones((5, 3)), np.arange(5)) == 0).all()
    monkeypatch.setattr(content, "FIT_ROWS", 20)
    assert np.isfinite(project(X, np.arange(30))).all()


def test_missing_values_are_drawn_at_the_mean(rng, tmp_path):
    X = rng.normal(size=(40, 3))
    X[3, 1] = np.nan
    filled = X.copy()
    filled[3, 1] = np.nanmean(X[:, 1])
    np.testing.assert_allclose(project(X, np.arange(40)), project(filled, np.arange(40)), atol=1e-9)
    audit = nw.audit_labels(X, np.arange(40) % 2, 3, metric="nan_euclidean")
    audit.report(tmp_path / "report.html", fraction=0.1)
    assert "Map of the rows" in (tmp_path / "report.html").read_text()
