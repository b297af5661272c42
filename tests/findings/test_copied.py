"""Copies are grouped as the definition groups them, whatever their labels and types; leaks are found."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import nearworth as nw
from nearworth.audit.copies import first_copies


def groups_of(finding):
    return [group.tolist() for group in finding.groups]


def planted(rng, n=300, d=6):
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] > 0).astype(int)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40), st.integers(0, 2**32 - 1))
def test_identical_rows_are_those_of_the_definition(picks, seed):
    """Every pair is compared: equal, or one the other's rounding; groups are transitive."""
    source = np.random.default_rng(seed).normal(size=(7, 3)) * 10.0 ** np.arange(-3, 4)[:, None]
    X = np.array([source[k].astype(np.float32) if single else source[k] for k, single in picks], dtype=np.float64)
    group = np.arange(len(X))
    for i in range(len(X)):
        for j in range(i):
            a, b = X[i], X[j]
            if (a == b).all() or (a.astype(np.float32) == b).all() or (b.astype(np.float32) == a).all():
                group[group == group[i]] = group[j]
    found = first_copies(X)
    assert ((found[:, None] == found) == (group[:, None] == group)).all()


def test_rows_that_round_alike_are_no_copies():
    X = np.array([[1.0, 1.0 + 1e-9], [1.0, 1.0 + 2e-9], [3.0, 0.1], [2.0, 3.0]])
    assert first_copies(X).tolist() == [0, 1, 2, 3]
    assert first_copies(X[:2], X[:1].astype(np.float32)).tolist() == [0, 0, 0]  # here the rounding is a row itself


def test_minus_zero_and_types():
    assert first_copies(np.array([[0.0], [-0.0]])).tolist() == [0, 0]
    assert first_copies(np.array([[1], [2]]), np.array([[2.0]])).tolist() == [0, 1, 1]
    assert first_copies(scipy.sparse.csr_array(np.eye(3)[[0, 1, 0]])).tolist() == [0, 1, 0]


def test_planted_copies_are_all_found_and_none_invented(rng):
    X, y = planted(rng)
    order = rng.permutation(330)
    rows = np.concatenate([X, X[:10], X[10:20].astype(np.float32), X[20:30] + 1e-7])[order]
    labels = np.concatenate([y, 1 - y[:10], y[10:30]])[order]
    place = np.argsort(order)
    found = nw.scan(rows, labels)
    wanted = sorted(sorted(pair) for pair in zip(place[:30].tolist(), place[300:].tolist(), strict=True))
    assert groups_of(found.duplicates) == wanted
    assert groups_of(found.conflicts) == [pair for pair in wanted if labels[pair[0]] != labels[pair[1]]]
    assert len(found.conflicts.groups) == 10
    frame = found.duplicates.to_frame("pandas")
    assert frame["exact"].sum() == 40
    assert frame["extra"].sum() == 30
    assert (frame["score"] > 0.97).all()
    assert (found.conflicts.scores[found.conflicts.rows] == 1).all()
    assert "60 rows in 30 groups of copies, 40 identical" in found.summary()


def test_identical_rows_of_a_coarse_table_are_listed(rng):
    X = rng.integers(0, 2, (200, 2)).astype(float)
    found = nw.scan(X, rng.integers(0, 2, 200))
    assert found.labels.copies is None
    assert sorted(map(len, found.duplicates.groups)) == sorted(np.unique(X, axis=0, return_counts=True)[1])


def test_what_further_copies_draw(rng):
    X, y = planted(rng, 40)
    found = nw.scan(np.concatenate([X, X[:1], X[:1]]), np.concatenate([y, y[:1], y[:1]]), X[5:9] + 0.1, y[5:9])
    paid = np.maximum(found.labels.value, 0)
    share = paid[[40, 41]].sum() / paid.sum()
    assert f"draw {share:.1%} of payments" in found.duplicates.says


def test_of_copies_with_different_labels_the_most_valuable_is_not_extra(rng):
    X, y = planted(rng, 60)
    found = nw.scan(np.concatenate([X, X[:1]]), np.concatenate([y, 1 - y[:1]]))
    value = found.labels.value
    assert value[0] != value[60]
    assert found.duplicates.to_frame("pandas")["extra"].tolist() == [
        bool(value[0] < value[60]),
        bool(value[60] < value[0]),
    ]


def test_a_row_that_is_there_many_times_is_a_leak(rng):
    X, y = planted(rng, 60)
    X[:30] = X[0]  # all that are near are at the same place
    assert nw.scan(X, y, np.concatenate([X[:1], X[40:41] + 5.0]), y[[0, 40]]).leakage.rows.tolist() == [0]


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
def test_leaked_rows_are_found_and_no_others(metric, rng):
    X, y = planted(rng)
    X_val = np.concatenate([rng.normal(size=(60, 6)), X[:5], X[5:10].astype(np.float32), X[10:15] * (1 + 1e-9) + 1e-8])
    y_val = (X_val[:, 0] > 0).astype(int)
    leakage = nw.scan(X, y, X_val, y_val, metric=metric).leakage
    assert leakage.rows.tolist() == [*range(60, 75)]
    assert leakage.to_frame("pandas")["training_row"].tolist() == [*range(15)]
    assert leakage.to_frame("pandas")["exact"].tolist() == [True] * 10 + [False] * 5
    assert len(leakage.scores) == 75


def test_the_score_without_leaks_is_that_of_the_other_rows(rng):
    X, y = rng.normal(size=(100, 5)), rng.integers(0, 2, 100)
    X_val, y_val = np.concatenate([X[:10], rng.normal(size=(30, 5))]), np.concatenate([y[:10], rng.integers(0, 2, 30)])
    says = nw.scan(X, y, X_val, y_val, n_neighbors=3).leakage.says
    near = np.argsort(((X_val[:, None] - X) ** 2).sum(axis=2), axis=1)[:, :3]
    right = (y[near] == y_val[:, None]).mean(axis=1)
    assert f"{right.mean():.3f} of all cases, {right[10:].mean():.3f} without" in says


def test_all_validation_rows_may_be_leaked_and_none_given(rng):
    X, y = planted(rng, 50)
    assert len(nw.scan(X, y, X[:9], y[:9]).leakage.rows) == 9
    none = nw.scan(X, y).leakage
    assert not len(none)
    assert none.says == "no validation set was given"
    assert len(none.to_frame("pandas")) == 0
