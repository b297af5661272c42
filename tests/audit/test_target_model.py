"""The audit of continuous targets."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw


@pytest.fixture
def shifted(rng):
    X = rng.uniform(-2, 2, (400, 2))
    clean = np.sin(X[:, 0]) + X[:, 1] + 0.05 * rng.normal(size=400)
    y = clean.copy()
    wrong = np.zeros(400, dtype=bool)
    wrong[rng.choice(400, 30, replace=False)] = True
    y[wrong] += rng.choice([-1, 1], 30) * rng.uniform(2, 4, 30)
    return X, y, clean, wrong


def test_shifted_targets_come_first_and_are_mended(shifted):
    X, y, clean, wrong = shifted
    audit = nw.audit_labels(X, y, task="regression")
    assert wrong[audit.suspects(fraction=30 / 400)].mean() > 0.8
    assert np.abs(audit.suggested - clean)[wrong].mean() < 0.3 * np.abs(y - clean)[wrong].mean()
    low, high = audit.suggested_range.T
    assert 0.8 < ((low <= clean) & (clean <= high)).mean() <= 1.0
    assert 15 < audit.n_errors.estimate < 60
    listed = audit.suspects(max_fdr=0.2)
    assert len(listed) > 10
    assert wrong[listed].mean() > 0.7


def test_value_and_validation_value(shifted):
    X, y, clean, _ = shifted
    assert (nw.audit_labels(X, y, task="regression").value
            == nw.KNNShapley(10, task="regression").fit(X, y).value().values).all()  # fmt: skip
    audit = nw.audit_labels(X, y, X_val=X[:50], y_val=clean[:50], task="regression")
    assert (audit.value == nw.KNNShapley(10, task="regression").fit(X, y).value(X[:50], clean[:50]).values).all()


def test_units_do_not_matter(shifted):
    X, y, _, _ = shifted
    one, other = (nw.audit_labels(X, scale * y + 7, task="regression") for scale in (1.0, 1e3))
    np.testing.assert_allclose(one.quality, other.quality, atol=1e-6)


@pytest.mark.parametrize("targets", [[1.0, 2.0], [3.0, 3.0, 3.0], [0.0, 0.0, 0.0, 0.0, 9.0]])
def test_tiny_and_constant_targets(targets):
    audit = nw.audit_labels(np.arange(len(targets))[:, None] * 1.0, targets, task="regression")
    assert np.isfinite(audit.quality).all()
    assert np.isfinite(audit.suggested_range).all()


def test_explanation_and_frame(shifted):
    X, y, _, _ = shifted
    audit = nw.audit_labels(X, y, task="regression")
    why = audit.explain(int(audit.ranking()[0]))
    assert "target" in why.sentence
    assert not why.value_under
    low, high = why.suggested_range
    assert low < why.suggested < high
    assert {"suggested_low", "suggested_high"} <= set(audit.to_frame("pandas").columns)
    assert "targets" in repr(audit)
