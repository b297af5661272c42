"""What predicts the given labels: the bound on errors, the ranking that joins it, and predictions of models."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from nearworth.audit.noise_level import Posterior
from nearworth.audit.predictions import concentration, judge, predict_given
from noisy_labels import blobs, pick


def overlapping(rng, n=1500, apart=1.2):
    """Two classes that overlap along one of four features; labels as they are in the world."""
    true = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4))
    X[:, 0] += apart * (2 * true - 1)
    return X, true


def told(right, evidence=None):
    """What two hypotheses make of rows of two classes."""
    evidence = np.full((right.shape[1], 2), 0.5) if evidence is None else evidence
    return Posterior([], [], np.array([0.75, 0.25]), right, evidence, evidence)


def test_probabilities_are_calibrated(rng):
    truth = rng.dirichlet(np.ones(3), 5000)
    codes = pick(rng, truth)
    blunt, noise = truth**0.3, rng.dirichlet(np.ones(3), 5000)
    found = predict_given([blunt / blunt.sum(axis=1, keepdims=True), noise], codes)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(found.probabilities, truth, atol=0.05)
    assert found.n_against == pytest.approx((1 - truth.max(axis=1)).sum(), rel=0.05)


def test_of_labels_that_are_equally_probable_any_may_be_wrong():
    codes = np.arange(40) % 2
    assert predict_given([np.full((40, 2), 0.5)], codes).n_against == pytest.approx(20)


@pytest.mark.parametrize("rare", [2, 10])
def test_a_row_that_sees_fewer_of_its_own_class_is_not_told_by_that(rng, rare):
    """Features say nothing. Each row of the rare class sees one of its class less than all others do."""
    y = np.arange(60) < rare
    for how in ({}, {"pred_probs": np.full((60, 2), 0.5)}):
        count = nw.audit_labels(rng.normal(size=(60, 3)), y, **how).n_errors
        assert count.upper >= rare
        assert count.estimate is None


def test_labels_wrong_where_classes_meet_are_within_the_range(rng):
    """As people err: the nearer to the border the likelier. The model takes these for overlap, the range holds them."""
    X, true = overlapping(rng, apart=2.0)
    wrong = rng.random(len(true)) < 0.4 * np.exp(-np.abs(X[:, 0]))
    count = nw.audit_labels(X, np.where(wrong, 1 - true, true)).n_errors
    assert count.lower <= wrong.sum() <= count.upper
    assert count.estimate is None
    assert "if the commonest label around a row is right" in str(count)


def test_overlap_without_errors_has_no_estimate(rng):
    X, true = overlapping(rng)
    audit = nw.audit_labels(X, true)
    assert audit.n_errors.estimate is None
    assert audit.n_errors.lower < 10
    assert len(audit.suspects(max_fdr=0.2)) == 0


def test_planted_errors_in_clear_classes_are_estimated(noisy):
    X, y, clean = noisy
    count = nw.audit_labels(X, y).n_errors
    wrong = (y != clean).sum()
    assert count.estimate == pytest.approx(wrong, rel=0.3)
    assert count.lower <= wrong <= count.upper <= 2 * wrong


@pytest.mark.parametrize("n_rows", [500, 900])
def test_labels_that_all_go_to_the_next_class_are_counted_and_listed(n_rows):
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    rows = np.random.default_rng(21).permutation(len(digits.target))[:n_rows]
    X, true = digits.data[rows], digits.target[rows]
    y = nw.add_label_noise(true, 0.2, "pair", 3)
    audit, wrong = nw.audit_labels(X, y), y != true
    assert audit.n_errors.estimate == pytest.approx(wrong.sum(), rel=0.3)
    listed = audit.suspects(max_fdr=0.1)
    assert wrong[listed].mean() >= 0.85
    assert wrong[listed].sum() >= 0.6 * wrong.sum()


def test_predictions_do_not_set_the_level(rng, noisy):
    """A model that knows every given label, wrong ones too, makes no label right."""
    X, y, clean = noisy
    parrot = 0.98 * (y[:, None] == np.unique(y)) + 0.02 / 3
    alone, helped = nw.audit_labels(X, y), nw.audit_labels(X, y, pred_probs=parrot)
    assert helped.n_errors.lower == pytest.approx(alone.n_errors.lower)
    assert (1 - helped.quality).sum() == pytest.approx((1 - alone.quality).sum(), rel=1e-3)
    wrong = y != clean
    assert wrong[helped.suspects(fraction=0.1)].mean() > 0.7


def test_a_good_model_narrows_the_range_and_shortens_no_list(rng):
    X, true = overlapping(rng)
    wrong = rng.random(len(true)) < 0.15
    y = np.where(wrong, 1 - true, true)
    knows = 0.85 * np.eye(2)[true] + 0.15 * np.eye(2)[1 - true]
    alone, helped = nw.audit_labels(X, y), nw.audit_labels(X, y, pred_probs=knows)
    assert wrong.sum() <= helped.n_errors.upper < 1.3 * wrong.sum() < alone.n_errors.upper
    assert len(helped.suspects(max_fdr=0.2)) >= len(alone.suspects(max_fdr=0.2))
    assert wrong[helped.suspects(fraction=0.1)].mean() > 0.95 > wrong[alone.suspects(fraction=0.1)].mean()


@pytest.mark.parametrize("kind", ["useless", "constant", "certain", "uniform"])
def test_bad_predictions_do_little_harm(rng, noisy, kind):
    X, y, clean = noisy
    probabilities = {
        "useless": rng.dirichlet(np.ones(3), len(y)),
        "constant": np.tile([1.0, 0.0, 0.0], (len(y), 1)),
        "certain": np.eye(3)[rng.integers(0, 3, len(y))],
        "uniform": np.full((len(y), 3), 1 / 3),
    }[kind]
    audit = nw.audit_labels(X, y, pred_probs=probabilities)
    assert np.isfinite(audit.quality).all()
    assert ((audit.label_probabilities >= 0) & (audit.label_probabilities <= 1)).all()
    assert (y != clean)[audit.suspects(fraction=0.1)].mean() > 0.7


def test_probabilities_of_labels_agree_with_quality(rng):
    X, true = overlapping(rng, 400)
    y = nw.add_label_noise(true, 0.2, random_state=rng)
    for audit in (nw.audit_labels(X, y), nw.audit_labels(X, y, pred_probs=rng.dirichlet([2, 2], 400))):
        np.testing.assert_allclose(audit.label_probabilities.sum(axis=1), 1.0)
        np.testing.assert_allclose(audit.label_probabilities[np.arange(400), y], audit.quality, atol=1e-9)


def test_lists_weigh_levels_more_sharply_and_quality_does_not():
    right = np.vstack([np.full(100, 0.1), np.full(100, 0.9)])
    codes = np.arange(100) % 2
    evidence = np.full((100, 2), 0.3)
    evidence[np.arange(100), 1 - codes] = 0.7
    quality, for_lists, _ = judge(told(right, evidence), None, codes, [], None)
    np.testing.assert_allclose(quality, 0.3)
    np.testing.assert_allclose(for_lists, (9 * 0.1 + 0.9) / 10)


def test_concentration_from_none_to_all(rng):
    codes = np.arange(400) % 4
    even, next_one = np.full((400, 4), 0.1), np.zeros((400, 4))
    even[np.arange(400), codes] = 0.7
    next_one[np.arange(400), codes] = 0.7
    next_one[np.arange(400), (codes + 3) % 4] = 0.3
    assert concentration(even, codes) == pytest.approx(0.0, abs=1e-6)
    assert concentration(next_one, codes) == pytest.approx(1.0)
    assert concentration(np.eye(4)[codes], codes) == 0.0


def test_models_help_on_tables_and_are_left_out_where_they_do_not_pay(rng):
    X = rng.normal(size=(600, 40))
    true = (X[:, 0] > 0).astype(int)  # one feature of forty counts: neighbours hardly see it
    wrong = rng.random(600) < 0.1
    y = np.where(wrong, 1 - true, true)
    alone, helped = nw.audit_labels(X, y), nw.audit_labels(X, y, models="auto")
    found = [wrong[audit.suspects(fraction=0.1)].mean() for audit in (alone, helped)]
    assert found[1] > 0.8
    assert found[0] < 0.7
    assert helped.n_errors.upper < alone.n_errors.upper
    wide = np.hstack([X, np.zeros((600, 300))])
    assert (nw.audit_labels(wide, y, models="auto").quality == nw.audit_labels(wide, y).quality).all()


def test_models_are_refused_by_name(rng):
    X, codes = blobs(rng, 60)
    with pytest.raises(ValueError, match="models='best' is not known"):
        nw.audit_labels(X, codes, models="best")
    with pytest.raises(ValueError, match="models='auto' needs features"):
        nw.audit_labels(np.abs(X[:, :1] - X[:, 0]), codes, metric="precomputed", models="auto")
