"""Copies are found, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.neighbors import NearestNeighbors

from nearworth.audit.copies import Copies, exact_copies, near_copies
from nearworth.neighbors.distances import first_duplicates


def nearest(X, size=40):
    distances, rows = NearestNeighbors(n_neighbors=size + 1).fit(X).kneighbors(X)
    return rows[:, 1:].astype(np.int32), distances[:, 1:]


def smooth(kind, rng):
    if kind == "digits":
        return load_digits().data
    if kind == "wine":
        X = load_wine().data
        return (X - X.mean(axis=0)) / X.std(axis=0)
    return {"normal": rng.normal(size=(2000, 5)), "skew": np.exp(2 * rng.normal(size=(2000, 4)))}[kind]


@pytest.mark.parametrize("kind", ["digits", "wine", "normal", "skew"])
def test_near_copies_are_found_and_none_invented(kind, rng):
    X = smooth(kind, rng)
    clean = near_copies(*nearest(X), None)
    assert clean is None or sum(map(len, clean.groups)) <= 0.002 * len(X)
    rows = rng.permutation(len(X))[:40]
    noise = rng.normal(size=(40, X.shape[1]))
    noise *= 0.01 * nearest(X)[1][rows, :1] / np.linalg.norm(noise, axis=1, keepdims=True)
    found = near_copies(*nearest(np.concatenate([X, X[rows] + noise])), None)
    assert (found.group[len(X) :] == found.group[rows]).sum() >= 39


def test_near_copies_join_groups_of_exact_ones(rng):
    X = rng.normal(size=(300, 4))
    X = np.concatenate([X, X[:1], X[:1] + 1e-5])  # row 300 is row 0, row 301 nearly
    exact = exact_copies(first_duplicates(X))
    assert [rows.tolist() for rows in exact.groups] == [[0, 300]]
    rows, distances = nearest(X)
    distances[rows == np.where(np.arange(302) == 0, 300, 0)[:, None]] = np.inf  # as the engine lists: no exact copies
    order = np.argsort(distances, axis=1, kind="stable")
    found = near_copies(np.take_along_axis(rows, order, 1), np.take_along_axis(distances, order, 1), exact)
    assert [rows.tolist() for rows in found.groups] == [[0, 300, 301]]


def test_cells_of_a_coarse_table_are_no_copies(rng):
    assert exact_copies(first_duplicates(rng.integers(0, 2, (500, 2)))) is None
    assert exact_copies(first_duplicates(rng.normal(size=(500, 2)))) is None


def test_contradictions():
    copies = Copies(np.array([0, 1, 0, 2, 2, 2, 3]))
    labels = np.array(["a", "b", "a", "x", "y", "x", "b"])
    assert [rows.tolist() for rows in copies.groups] == [[0, 2], [3, 4, 5]]
    assert [rows.tolist() for rows in copies.contradictions(labels)] == [[3, 4, 5]]
    assert copies.fewest_errors(labels) == 1
