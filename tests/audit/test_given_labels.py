"""What predicts the given labels: the bound on errors, the ranking that joins it, and predictions
of models.
"""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import nearworth as nw
from helpers.noisy_labels import blobs, draw_columns
from nearworth.audit.noise_level import Posterior
from nearworth.audit.noise_model import NoiseModel
from nearworth.audit.predictions import concentration, judge, predict_given


def overlapping(rng, n=1500, apart=1.2):
    """Two classes that overlap along one of four features; labels as they are in the world."""
    true = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4))
    X[:, 0] += apart * (2 * true - 1)
    return X, true


def told(right, evidence=None):
    """What two hypotheses make of rows of two classes."""
    evidence = np.full((right.shape[1], 2), 0.5) if evidence is None else evidence
    return Posterior(
        [], [], np.array([0.75, 0.25]), right=right, evidence=evidence, labels=evidence
    )


def test_probabilities_are_calibrated(rng):
    truth = rng.dirichlet(np.ones(3), 5000)
    codes = draw_columns(rng, truth)
    blunt = truth**0.3
    noise = rng.dirichlet(np.ones(3), 5000)
    found = predict_given([blunt / blunt.sum(axis=1, keepdims=True), noise], codes)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(found.probabilities, truth, atol=0.05)
    assert found.n_against == pytest.approx((1 - truth.max(axis=1)).sum(), rel=0.05)


def test_of_labels_that_are_equally_probable_any_may_be_wrong():
    codes = np.arange(40) % 2
    assert predict_given([np.full((40, 2), 0.5)], codes).n_against == pytest.approx(20)


@pytest.mark.parametrize("rare", [2, 10])
def test_a_row_that_sees_fewer_of_its_own_class_is_not_told_by_that(rng, rare):
    """Features say nothing. Each row of the rare class sees one of its class less than all
    others do.
    """
    y = np.arange(60) < rare
    for how in ({}, {"pred_probs": np.full((60, 2), 0.5)}):
        count = nw.audit_labels(rng.normal(size=(60, 3)), y, **how).n_errors
        assert count.upper >= rare
        assert count.estimate is None


def test_labels_wrong_where_classes_meet_are_within_the_range(rng):
    """As people err: the nearer to the border the likelier. The model takes these for overlap, the
    range holds them.
    """
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
    X = digits.data[rows]
    true = digits.target[rows]
    y = nw.add_label_noise(true, 0.2, "pair", 3)
    audit = nw.audit_labels(X, y)
    wrong = y != true
    assert audit.n_errors.estimate == pytest.approx(wrong.sum(), rel=0.3)
    listed = audit.suspects(max_fdr=0.1)
    assert wrong[listed].mean() >= 0.85
    assert wrong[listed].sum() >= 0.6 * wrong.sum()


def test_predictions_do_not_set_the_level(rng, noisy):
    """A model that knows every given label, wrong ones too, makes no label right."""
    X, y, clean = noisy
    parrot = 0.98 * (y[:, None] == np.unique(y)) + 0.02 / 3
    alone = nw.audit_labels(X, y)
    helped = nw.audit_labels(X, y, pred_probs=parrot)
    assert helped.n_errors.lower == pytest.approx(alone.n_errors.lower)
    assert (1 - helped.quality).sum() == pytest.approx((1 - alone.quality).sum(), rel=1e-3)
    wrong = y != clean
    assert wrong[helped.suspects(fraction=0.1)].mean() > 0.7


def test_a_good_model_narrows_the_range_and_shortens_no_list(rng):
    X, true = overlapping(rng)
    wrong = rng.random(len(true)) < 0.15
    y = np.where(wrong, 1 - true, true)
    knows = 0.85 * np.eye(2)[true] + 0.15 * np.eye(2)[1 - true]
    alone = nw.audit_labels(X, y)
    helped = nw.audit_labels(X, y, pred_probs=knows)
    assert wrong.sum() <= helped.n_errors.upper < 1.3 * wrong.sum() < alone.n_errors.upper
    assert len(helped.suspects(max_fdr=0.2)) >= len(alone.suspects(max_fdr=0.2))
    assert (
        wrong[helped.suspects(fraction=0.1)].mean()
        > 0.95
        > wrong[alone.suspects(fraction=0.1)].mean()
    )


@pytest.mark.parametrize("direction", [1.0, -1.0])
def test_evidence_that_labels_hardly_confirm_is_not_left_out(rng, direction):
    """Weak evidence seems to speak against its label by chance. It still orders rows, and costs
    next to nothing.
    """
    towards = rng.normal(size=600)
    codes = (rng.random(600) < 1 / (1 + np.exp(-0.02 * direction * towards))).astype(int)
    weak = 1 / (1 + np.exp(-np.column_stack([-towards, towards])))
    free, kept = (predict_given([weak], codes, prior=prior) for prior in (0.0, 1.0))
    assert (
        free.loss <= kept.loss + 1e-6 < free.loss + 2.0
    )  # the loss is that of the labels, without the prior
    ones = codes == 1
    order = np.argsort(towards[ones])
    assert (np.diff(kept.of_given[ones][order]) > 0).all()


def several(rng, n=1600, n_classes=4, share=0.2):
    """Classes that overlap, with wrong labels of all kinds, and a model that sees other things than
    the neighbours.
    """
    true = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n, 6)) + 2.4 * np.eye(6)[true]
    seen = rng.normal(size=(n, n_classes)) + 2.4 * np.eye(n_classes)[true]
    probabilities = np.exp(1.5 * seen) / np.exp(1.5 * seen).sum(axis=1, keepdims=True)
    y = nw.add_label_noise(true, share, random_state=rng)
    return X, y, y != true, probabilities


def test_wrong_labels_of_several_classes_have_votes_and_model_against_them(rng):
    X, y, wrong, probabilities = several(rng)
    alone = nw.audit_labels(X, y)
    helped = nw.audit_labels(X, y, pred_probs=probabilities)
    both = nw.audit_labels(np.hstack([X, np.log(probabilities)]), y).n_errors.upper
    assert wrong.sum() <= helped.n_errors.upper <= 1.3 * wrong.sum()
    assert helped.n_errors.upper < min(alone.n_errors.upper, both)


@pytest.mark.parametrize("kind", ["useless", "constant", "weak"])
def test_predictions_worse_than_votes_leave_errors_within_the_range(rng, kind):
    X, y, wrong, good = several(rng, share=0.3)
    probabilities = {
        "useless": rng.dirichlet(np.ones(4), len(y)),
        "constant": np.tile([0.7, 0.1, 0.1, 0.1], (len(y), 1)),
        "weak": 0.2 * good + 0.8 * rng.dirichlet(np.ones(4), len(y)),
    }[kind]
    alone = nw.audit_labels(X, y).n_errors
    helped = nw.audit_labels(X, y, pred_probs=probabilities).n_errors
    assert helped.lower <= wrong.sum() <= helped.upper
    assert (
        helped.upper >= (0.9 if kind == "weak" else 0.98) * alone.upper
    )  # weak ones help votes a little


def test_of_two_classes_the_upper_end_is_the_lowest_of_one_kind(rng):
    """A model that errs names the wrong label, as the given one does: rows against all kinds would
    be too few.
    """
    X, true = overlapping(rng, apart=1.0)
    wrong = rng.random(len(true)) < 0.35
    y = np.where(wrong, 1 - true, true)
    towards = rng.normal(size=len(y)) + 1.0 * (2 * true - 1)
    probabilities = 1 / (1 + np.exp(-np.column_stack([-towards, towards])))
    assert nw.audit_labels(X, y, pred_probs=probabilities).n_errors.upper >= wrong.sum()


def test_chance_is_less_where_being_against_is_not_rare(rng):
    """So many independent events of probability p vary by n p (1 - p); votes alone keep the
    cautious n p.
    """
    codes = rng.integers(0, 2, 600)
    n = 600
    towards = 1.0 * (2 * codes - 1) + rng.normal(size=n)
    predicted = 1 / (1 + np.exp(-np.column_stack([-towards, towards])))
    evidence = rng.dirichlet([1, 1], n)
    models = [NoiseModel(np.ones(3), *[np.zeros(2)] * 3, np.full((2, 2), 0.5))]
    found = Posterior(
        [], models, np.ones(1), right=np.full((1, n), 0.8), evidence=evidence, labels=evidence
    )
    votes = predict_given([evidence], codes).n_against
    assert judge(found, None, codes, [], None, evidence)[2] == pytest.approx(
        votes + 2 * np.sqrt(votes)
    )
    kinds = [evidence], [predicted], [evidence, predicted]
    fewest = min(
        predict_given(kind, codes, prior=float(len(kind) > 1 or kind[0] is predicted)).n_against
        for kind in kinds
    )
    spread = (judge(found, found, codes, [predicted], None, evidence)[2] - fewest) / 2
    assert 0.5 * fewest < spread**2 < 0.95 * fewest


def test_votes_that_were_read_backwards_leave_the_ranking_to_predictions(rng):
    codes = rng.integers(0, 2, 200)
    own = rng.uniform(0.1, 0.9, 200)
    predicted = np.empty((200, 2))
    evidence = rng.dirichlet([1, 1], 200)
    predicted[np.arange(200), codes] = own
    predicted[np.arange(200), 1 - codes] = 1 - own
    right = np.vstack([rng.uniform(0.1, 0.9, 200)] * 2)
    models = [NoiseModel(np.ones(3), *[np.zeros(2)] * 3, np.array([[0.7, 0.3], [0.3, 0.7]]))] * 2
    for share, same in ((1 - evidence, True), (evidence, False)):
        found = Posterior(
            [], models, np.array([0.75, 0.25]), right=right, evidence=evidence, labels=evidence
        )
        quality = judge(found, found, codes, [predicted], None, share)[0]
        for label in (0, 1):
            ranks = np.argsort(quality[codes == label]), np.argsort(own[codes == label])
            assert (ranks[0] == ranks[1]).all() == same


def test_predictions_count_as_far_as_given_labels_can_be_predicted(rng):
    """Where nothing predicts a given label, predictions of it are chance, and the order stays that
    of the votes.
    """
    codes = rng.integers(0, 2, 600)
    n = 600
    evidence = rng.dirichlet([1, 1], n)
    right = rng.uniform(0.1, 0.9, (1, n))
    models = [NoiseModel(np.ones(3), *[np.zeros(2)] * 3, np.array([[0.7, 0.3], [0.3, 0.7]]))]
    found = Posterior([], models, np.ones(1), right=right, evidence=evidence, labels=evidence)
    alike = []
    for strength in (0.0, 2.0):
        towards = strength * (2 * codes - 1) + rng.normal(size=n)
        predicted = 1 / (1 + np.exp(-np.column_stack([-towards, towards])))
        quality = judge(found, found, codes, [predicted], None, evidence)[0]
        alike.append(
            np.corrcoef(np.argsort(np.argsort(quality)), np.argsort(np.argsort(right[0])))[0, 1]
        )
    assert alike[0] > 0.98
    assert alike[1] < 0.95


def test_a_prediction_counts_beside_votes_where_noise_makes_all_labels_hard_to_predict(rng):
    """With 35 % wrong the probability of a given label is near a half, whatever its logit of being
    right is.
    """
    n = 1200
    X = rng.normal(size=(n, 12))
    true = (X[:, :3].sum(axis=1) > 0).astype(int)
    wrong = rng.random(n) < 0.35
    y = np.where(wrong, 1 - true, true)
    one = 0.65 - 0.3 / (
        1 + np.exp(2.0 * X[:, :3].sum(axis=1))
    )  # as a model learns it from such labels
    probabilities = np.column_stack([1 - one, one])
    alone = nw.audit_labels(X, y)
    helped = nw.audit_labels(X, y, pred_probs=probabilities)
    own = probabilities[np.arange(n), y]
    found = [wrong[order[:300]].mean() for order in (alone.order, np.argsort(own), helped.order)]
    assert found[0] < 0.9 < found[1]
    assert found[2] >= found[1] - 0.02


def test_where_one_class_loses_most_labels_the_model_of_wrong_labels_keeps_its_weight(rng):
    """The class tells more than the prediction does: those of one class are nearly all right,
    others not.
    """
    true = np.arange(1200) % 2
    X = rng.normal(size=(1200, 4))
    X[:, 0] += 1.7 * (2 * true - 1)
    wrong = rng.random(1200) < np.where(true == 1, 0.4, 0.02)
    y = np.where(wrong, 1 - true, true)
    towards = 0.3 + 0.55 / (1 + np.exp(-3.4 * X[:, 0]))  # as a model learns it from such labels
    one = np.clip(towards + 0.02 * rng.normal(size=1200) - 0.28, 0.02, 0.98)
    alone = nw.audit_labels(X, y)
    helped = nw.audit_labels(X, y, pred_probs=np.column_stack([1 - one, one]))
    found = [wrong[audit.order[: wrong.sum()]].mean() for audit in (alone, helped)]
    assert found[1] >= found[0] - 0.01


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
    for audit in (
        nw.audit_labels(X, y),
        nw.audit_labels(X, y, pred_probs=rng.dirichlet([2, 2], 400)),
    ):
        np.testing.assert_allclose(audit.label_probabilities.sum(axis=1), 1.0)
        np.testing.assert_allclose(
            audit.label_probabilities[np.arange(400), y], audit.quality, atol=1e-9
        )


def test_lists_weigh_levels_more_sharply_and_quality_does_not():
    right = np.vstack([np.full(100, 0.1), np.full(100, 0.9)])
    codes = np.arange(100) % 2
    evidence = np.full((100, 2), 0.3)
    evidence[np.arange(100), 1 - codes] = 0.7
    quality, for_lists, _ = judge(told(right, evidence), None, codes, [], None, evidence)
    np.testing.assert_allclose(quality, 0.3)
    np.testing.assert_allclose(for_lists, (9 * 0.1 + 0.9) / 10)


def test_concentration_from_none_to_all(rng):
    codes = np.arange(400) % 4
    even = np.full((400, 4), 0.1)
    next_one = np.zeros((400, 4))
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
    alone = nw.audit_labels(X, y)
    helped = nw.audit_labels(X, y, models="auto")
    found = [wrong[audit.suspects(fraction=0.1)].mean() for audit in (alone, helped)]
    assert found[1] > 0.8
    assert found[0] < 0.7
    assert helped.n_errors.upper < alone.n_errors.upper
    wide = np.hstack([X, np.zeros((600, 300))])
    assert (
        nw.audit_labels(wide, y, models="auto").quality == nw.audit_labels(wide, y).quality
    ).all()


def test_models_are_refused_by_name(rng):
    X, codes = blobs(rng, 60)
    with pytest.raises(ValueError, match="models='best' is not known"):
        nw.audit_labels(X, codes, models="best")
    with pytest.raises(ValueError, match="models='auto' needs features"):
        nw.audit_labels(np.abs(X[:, :1] - X[:, 0]), codes, metric="precomputed", models="auto")


def test_columns_of_a_frame_are_taken_by_their_names(rng):
    X, codes = blobs(rng, 200, 3)[:2]
    y = np.array(["x", "y", "z"])[codes]
    p = rng.dirichlet(np.ones(3), 200)
    plain = nw.audit_labels(X, y, pred_probs=p).quality
    frame = pandas.DataFrame(p, columns=["x", "y", "z"])
    np.testing.assert_array_equal(
        nw.audit_labels(X, y, pred_probs=frame[["z", "x", "y"]]).quality, plain
    )
    table = pandas.DataFrame(X).add_prefix("c").assign(y=y)
    once, again = (
        nw.audit_labels(table, "y", pred_probs=each).quality
        for each in (frame, frame[["z", "x", "y"]])
    )
    np.testing.assert_array_equal(once, again)
    with pytest.warns(
        UserWarning,
        match="not named like the classes; they are taken in their order: 'x', 'y', 'z'",
    ):
        others = nw.audit_labels(X, y, pred_probs=frame.set_axis(["a", "b", "c"], axis=1)).quality
    np.testing.assert_array_equal(others, plain)


@pytest.mark.parametrize("labels", [[2, 3, 10], [2.0, 3.0, 10.0], ["2", "3", "10"], [False, True]])
@pytest.mark.parametrize("named", [str, lambda label: label])
def test_columns_may_be_named_by_numbers(rng, labels, named):
    """As a frame of what a classifier of scikit-learn predicts, columns=model.classes_."""
    n_classes = len(labels)
    X, codes = blobs(rng, 200, n_classes)[:2]
    classes = np.unique(np.array(labels))
    y = classes[codes]
    p = rng.dirichlet(np.ones(n_classes), 200)
    plain = nw.audit_labels(X, y, pred_probs=p).quality
    order = [*range(1, n_classes), 0]
    frame = pandas.DataFrame(p[:, order], columns=[named(classes[i]) for i in order])
    np.testing.assert_array_equal(nw.audit_labels(X, y, pred_probs=frame).quality, plain)
