"""Rows that arrived later, judged against audited ones."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score

import nearworth as nw
from nearworth.audit import audit as check


@pytest.fixture(scope="module")
def digits():
    rng = np.random.default_rng(3)
    data = load_digits()
    order = rng.permutation(len(data.target))
    X = data.data[order]
    y = data.target[order].copy()
    wrong = rng.random(len(y)) < 0.1
    y[wrong] = (y[wrong] + rng.integers(1, 10, wrong.sum())) % 10
    return X, y, wrong


def test_new_rows_are_judged_about_as_well_as_if_all_were_audited(digits):
    X, y, wrong = digits
    audit = nw.audit_labels(X[:1200], y[:1200])
    new = audit.check(X[1200:], y[1200:])
    everything = nw.audit_labels(X, y)
    assert len(new) == len(y) - 1200
    found, best = (
        average_precision_score(wrong[1200:], -q) for q in (new.quality, everything.quality[1200:])
    )
    assert found > best - 0.05
    suspects = new.suspects()
    assert wrong[1200:][suspects].mean() > 0.85
    assert (new.suggested[suspects] != y[1200:][suspects]).all()
    assert new.n_errors.lower <= wrong[1200:].sum() <= new.n_errors.upper


def test_a_row_is_judged_on_its_own(digits):
    X, y, _ = digits
    audit = nw.audit_labels(X[:500], y[:500])
    many = audit.check(X[500:560], y[500:560])
    one = audit.check(X[510:511], y[510:511])
    assert many.quality[10] == pytest.approx(one.quality[0], abs=1e-12)
    assert [n.row for n in many.nearest(10)] == [n.row for n in one.nearest(0)]
    assert all(n.label == y[n.row] for n in one.nearest(0))
    assert "of its 10 nearest rows" in one.why(0)


def test_many_rows_are_looked_at_in_blocks(digits, monkeypatch):
    X, y, _ = digits
    audit = nw.audit_labels(X[:500], y[:500])
    at_once = audit.check(X[500:560], y[500:560])
    monkeypatch.setattr(check, "AT_ONCE", 2_000)  # four rows
    np.testing.assert_allclose(
        audit.check(X[500:560], y[500:560]).quality, at_once.quality, atol=1e-12
    )


def test_values_are_those_of_the_new_rows_for_the_audited_ones(digits):
    X, y, _ = digits
    audit = nw.audit_labels(X[:300], y[:300])
    new = audit.check(X[300:400], y[300:400])
    expected = nw.knn_shapley(X[300:400], y[300:400], X[:300], y[:300], n_neighbors=10)
    np.testing.assert_allclose(new.value, expected, atol=1e-15)


@pytest.fixture(scope="module")
def targets():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1200, 4))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.2 * rng.normal(size=1200) + 5.0
    wrong = rng.random(1200) < 0.05
    return X, np.where(wrong, 10 * y, y), wrong


def test_new_targets_are_judged_about_as_well_as_if_all_were_audited(targets):
    X, y, wrong = targets
    new = nw.audit_labels(X[:900], y[:900], task="regression").check(X[900:], y[900:])
    everything = nw.audit_labels(X, y, task="regression")
    assert average_precision_score(wrong[900:], -new.quality) > 0.95
    np.testing.assert_allclose(
        new.suggested[~wrong[900:]], everything.suggested[900:][~wrong[900:]], atol=1.5
    )
    assert np.abs(new.suggested[wrong[900:]] - y[900:][wrong[900:]] / 10).max() < 1.5
    inside = (new.suggested_range[:, 0] <= y[900:]) & (y[900:] <= new.suggested_range[:, 1])
    assert 0.8 < inside[~wrong[900:]].mean() < 0.98
    assert new.n_errors.lower <= wrong[900:].sum() <= new.n_errors.upper
    assert "rows like it are mostly between" in new.why(0)
    expected = nw.knn_shapley(X[900:], y[900:], X[:900], y[:900], n_neighbors=10, task="regression")
    np.testing.assert_allclose(new.value, expected, atol=1e-12)


def test_a_target_is_judged_by_votes_and_on_its_own(targets, monkeypatch):
    """Predictions of the audit have no part in it; rows are looked at in blocks."""
    X, y, _ = targets
    audit = nw.audit_labels(X[:500], y[:500], task="regression")
    many = audit.check(X[500:560], y[500:560])
    one = audit.check(X[510:511], y[510:511])
    assert many.quality[10] == pytest.approx(one.quality[0], abs=1e-12)
    helped = nw.audit_labels(X[:500], y[:500], task="regression", predictions=X[:500, 0] + 5)
    assert (helped.check(X[500:560], y[500:560]).quality == many.quality).all()
    monkeypatch.setattr(check, "AT_ONCE", 2_000)
    np.testing.assert_allclose(
        audit.check(X[500:560], y[500:560]).quality, many.quality, atol=1e-12
    )


def test_the_suggested_target_from_the_definition(rng):
    """Neighbours in both directions, were the row added alone."""
    X = rng.normal(size=(30, 2))
    y = rng.normal(size=30)
    k = 3
    audit = nw.audit_labels(X, y, n_neighbors=k, task="regression")
    point = rng.normal(size=2)
    near = audit._model.ground.near
    size = 2 * k
    distances = ((X - point) ** 2).sum(axis=1)
    votes = {
        int(row): 1 / max(k, rank) for rank, row in enumerate(np.argsort(distances)[:size], start=1)
    }
    total = sum(w * near[row] for row, w in votes.items())
    weight = sum(votes.values())
    for row in range(30):
        others = np.sort(np.delete(((X - X[row]) ** 2).sum(axis=1), row))
        rank = 1 + int((others < distances[row]).sum())
        if rank <= size:
            total = total + near[row] / max(k, rank)
            weight = weight + 1 / max(k, rank)
    new = audit.check(point[None], [0.0])
    np.testing.assert_allclose(
        new.suggested[0], audit._model.ground.space.back(np.array([total / weight]))[0]
    )


def test_what_cannot_be_checked_is_refused(digits):
    X, y, _ = digits
    audit = nw.audit_labels(X[:300], y[:300])
    with pytest.raises(ValueError, match="y_new has labels that no audited row carries \\(77\\)"):
        audit.check(X[300:302], [77, 1])
    new = audit.check(X[300:302], y[300:302])
    with pytest.raises(ValueError, match="explain is for audited rows"):
        new.explain(0)
    with pytest.raises(ValueError, match="report is for audited rows"):
        new.report("page.html")
    distances = np.abs(X[:300, None, 20] - X[None, :300, 20])
    with pytest.raises(ValueError, match="check is for audits with features"):
        nw.audit_labels(distances, y[:300], metric="precomputed").check(distances[:2], y[:2])
    with pytest.raises(ValueError, match="check is for audited rows"):
        new.check(X[300:302], y[300:302])


def test_wrong_labels_of_new_rows_are_found_where_the_audited_ones_are_clean(rng):
    """Nothing speaks for noise there, but no lot draws a label that no row around has."""
    X = rng.normal(size=(700, 4)) + 6 * (np.arange(700) % 2)[:, None]
    y = np.arange(700) % 2
    audit = nw.audit_labels(X[:600], y[:600])
    assert not len(audit.suspects())
    assert audit.check(X[600:], y[600:]).quality.min() > 0.5
    wrong = audit.check(X[600:], 1 - y[600:])
    assert len(wrong.suspects()) == 100
    assert len(wrong.suspects(max_fdr=0.1)) > 50


def test_copies_among_audited_rows_share_one_vote_about_new_rows(digits):
    """New rows agree with their neighbours as if each of these were there once."""
    X, y, _ = digits
    once = nw.audit_labels(X[:300], y[:300])
    rows = np.repeat(np.arange(300), np.arange(300) % 7 + 1)
    copied = nw.audit_labels(X[rows], y[rows])
    found, expected = (audit.check(X[300:500], y[300:500]) for audit in (copied, once))
    np.testing.assert_allclose(
        found.agreement, expected.agreement, atol=0.02
    )  # lists end at other rows
