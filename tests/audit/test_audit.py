"""The audit from end to end: what goes in, what comes out, and what it must find."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.stats import beta, spearmanr
from sklearn.metrics import average_precision_score

import nearworth as nw
from helpers.noisy_labels import blobs
from nearworth.audit import noise_level, votes
from nearworth.audit.noise_level import fitted_rows


def test_flipped_labels_come_first_and_get_their_label_back(noisy):
    X, y, clean = noisy
    audit = nw.audit_labels(X, y)
    wrong = y != clean
    assert wrong[audit.suspects(fraction=0.1)].mean() > 0.7
    assert (audit.suggested == clean)[wrong].mean() > 0.7
    assert audit.n_errors.lower <= wrong.sum() <= audit.n_errors.upper
    assert audit.quality[wrong].mean() < audit.quality[~wrong].mean()


def test_value_is_the_leave_one_out_value(noisy):
    X, y, _ = noisy
    assert (nw.audit_labels(X, y).value == nw.KNNShapley(10).fit(X, y).value().values).all()


def test_validation_rows_give_the_value_and_have_a_vote(rng, noisy):
    X, y, clean = noisy
    X_val = X + 0.1 * rng.normal(size=X.shape)
    y_val = clean
    audit = nw.audit_labels(X, y, X_val=X_val, y_val=y_val)
    assert (audit.value == nw.KNNShapley(10).fit(X, y).value(X_val, y_val).values).all()
    assert (y != clean)[audit.suspects(fraction=0.1)].mean() > 0.7
    assert audit.explain(3).others == "validation points"


def test_good_probabilities_are_believed(rng, noisy):
    """Neighbours know nothing here, the model everything."""
    _, y, clean = noisy
    X = rng.normal(size=(len(y), 3))
    probabilities = 0.9 * (clean[:, None] == np.unique(clean)) + 0.1 / 3
    wrong = y != clean
    assert (
        wrong[nw.audit_labels(X, y, pred_probs=probabilities).suspects(fraction=0.1)].mean() > 0.9
    )
    assert wrong[nw.audit_labels(X, y).suspects(fraction=0.1)].mean() < 0.5


def test_order_of_rows_does_not_matter(rng, noisy):
    X, y, _ = noisy
    order = rng.permutation(len(y))
    np.testing.assert_allclose(
        nw.audit_labels(X[order], y[order]).quality, nw.audit_labels(X, y).quality[order], atol=1e-9
    )


def test_identical_rows_are_judged_alike(rng):
    X, codes = blobs(rng, 60)
    X = np.repeat(X, 2, axis=0)
    y = np.repeat(nw.add_label_noise(codes, 0.2, random_state=rng), 2)
    audit = nw.audit_labels(X, y, n_neighbors=3)
    np.testing.assert_allclose(audit.quality[::2], audit.quality[1::2], rtol=1e-9)


def test_discrete_features_full_of_ties(rng):
    X = rng.integers(0, 2, (400, 3)).astype(float)
    clean = (X.sum(axis=1) > 1).astype(int)
    y = nw.add_label_noise(clean, 0.1, random_state=rng)
    audit = nw.audit_labels(X, y)
    assert (y != clean)[audit.suspects(fraction=0.1)].mean() > 0.9


@pytest.mark.parametrize("metric", ["cosine", "manhattan"])
def test_other_metrics(noisy, metric):
    X, y, clean = noisy
    audit = nw.audit_labels(X + 1.0, y, metric=metric)
    assert (y != clean)[audit.suspects(fraction=0.1)].mean() > 0.5


def test_precomputed_distances_are_the_same_audit(noisy):
    X, y, _ = noisy
    D = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    np.testing.assert_allclose(
        nw.audit_labels(D, y, metric="precomputed").quality,
        nw.audit_labels(X, y).quality,
        rtol=1e-6,
    )


@pytest.mark.parametrize("labels", [[0, 1], ["a", "b", "a"], [0, 0, 0, 1]])
def test_tiny_sets_and_lonely_classes(labels):
    audit = nw.audit_labels(np.arange(len(labels))[:, None] * 1.0, labels)
    assert np.isfinite(audit.quality).all()
    assert 0 <= audit.n_errors.lower <= audit.n_errors.upper <= len(labels)
    assert str(audit.explain(0))


def test_all_rows_alike(rng):
    y = rng.integers(0, 2, 40)
    y[:2] = 0, 1
    audit = nw.audit_labels(np.ones((40, 2)), y)
    assert np.ptp(audit.quality[y == 0]) < 1e-6


def test_memory_limit_shortens_the_lists_and_still_works(noisy):
    X, y, clean = noisy
    audit = nw.audit_labels(X, y, max_memory=600_000)
    assert audit._voters.rows.shape[1] < 100
    assert (y != clean)[audit.suspects(fraction=0.1)].mean() > 0.7


def test_bad_input_is_refused_by_name(noisy):
    X, y, _ = noisy
    with pytest.raises(ValueError, match="one class only"):
        nw.audit_labels(X, np.zeros(len(X), dtype=int))
    with pytest.raises(ValueError, match="at least 2 training points"):
        nw.audit_labels([[0.0]], [1.0], task="regression")
    with pytest.raises(ValueError, match="pred_probs.*shape"):
        nw.audit_labels(X, y, pred_probs=np.full((len(X), 2), 0.5))
    with pytest.raises(ValueError, match="pred_probs.*row 0"):
        nw.audit_labels(X, y, pred_probs=np.full((len(X), 3), 0.5))
    with pytest.raises(ValueError, match="pred_probs"):
        nw.audit_labels(X, np.arange(len(X)), task="regression", pred_probs=np.ones((len(X), 1)))
    with pytest.raises(ValueError, match="task"):
        nw.audit_labels(X, y, task="ranking")
    with pytest.raises(ValueError, match="X_val and y_val go together"):
        nw.audit_labels(X, y, X_val=X)
    audit = nw.audit_labels(X, y)
    with pytest.raises(ValueError, match="fraction and max_fdr"):
        audit.suspects(fraction=0.1, max_fdr=0.1)
    with pytest.raises(ValueError, match="max_fdr"):
        audit.suspects(max_fdr=2)
    with pytest.raises(ValueError, match="row number"):
        audit.explain(len(X))


def test_same_input_same_output_and_names_do_not_matter(noisy):
    X, y, _ = noisy
    first = nw.audit_labels(X, y)
    second = nw.audit_labels(X, y)
    assert (first.quality == second.quality).all()
    assert first.n_errors == second.n_errors
    renamed = nw.audit_labels(X, np.select([y == "cat", y == "cow"], ["z", "m"], "a"))
    np.testing.assert_allclose(renamed.quality, first.quality, atol=1e-3)


@pytest.mark.parametrize("n", [2, 3, 5, 20])
@pytest.mark.parametrize("kind", ["two classes", "all different", "one odd", "copies"])
def test_hostile_little_sets(rng, n, kind):
    X = np.zeros((n, 2)) if kind == "copies" else rng.normal(size=(n, 2))
    y = {
        "two classes": np.arange(n) % 2,
        "all different": np.arange(n),
        "one odd": np.arange(n) == 0,
    }
    labels = y.get(kind, np.arange(n) % 2)
    audit = nw.audit_labels(X, labels)
    assert ((audit.quality >= 0) & (audit.quality <= 1)).all()
    assert ((audit.confidence >= 0) & (audit.confidence <= 1)).all()
    count = audit.n_errors
    assert 0 <= count.lower <= count.upper <= n
    assert count.estimate is None or count.lower <= count.estimate <= count.upper
    assert len(audit.suspects(max_fdr=0.1)) == 0  # so few rows prove nothing


@pytest.mark.parametrize("kind", ["cyclic", "uniform"])
def test_wrong_labels_in_clean_clusters_are_listed(rng, kind):
    """Classes far apart, so that wrong labels are plain to see."""
    audit, wrong = audited_clusters(rng, kind, 30)
    assert set(audit.suspects(fraction=0.05)) == wrong
    assert len(set(audit.suspects()) & wrong) >= 20
    for listed in (audit.suspects(), audit.suspects(max_fdr=0.2)):
        assert len(set(listed) - wrong) <= 0.25 * len(listed)
    assert audit.n_errors.lower <= 30 <= audit.n_errors.upper


@pytest.mark.parametrize("count", [120, 240])
@pytest.mark.parametrize("kind", ["cyclic", "uniform"])
def test_much_noise_in_clean_clusters_is_not_taken_for_overlap(rng, kind, count):
    """Even where all wrong labels of a class are the same one, and so could be a second class that
    lives there.
    """
    audit, wrong = audited_clusters(rng, kind, count)
    listed = set(audit.suspects(max_fdr=0.2))
    assert len(listed & wrong) >= 0.6 * count
    assert len(listed - wrong) <= 0.25 * len(listed)
    assert 0.8 * count <= audit.n_errors.estimate <= 1.2 * count


def test_clean_clusters_have_no_errors(rng):
    audit, _ = audited_clusters(rng, "uniform", 0)
    assert audit.n_errors.upper < 4
    assert len(audit.suspects()) == 0


def audited_clusters(rng, kind, count):
    """Three classes far apart, `count` of 600 labels wrong, each the next class or any; and which
    ones.
    """
    true = np.arange(600) % 3
    X = 8.0 * np.eye(3)[true] + rng.normal(size=(600, 3))
    wrong = rng.choice(600, count, replace=False)
    y = true.copy()
    y[wrong] = (y[wrong] + (1 if kind == "cyclic" else rng.integers(1, 3, count))) % 3
    return nw.audit_labels(X, y), set(wrong.tolist())


def test_warnings_and_refusals_are_about_the_call(rng):
    X = rng.normal(size=(30, 2))
    y = np.arange(30) % 2
    with pytest.warns(
        UserWarning, match="y_val has 1 label that no training point carries"
    ) as caught:
        nw.audit_labels(X, y, n_neighbors=3, X_val=X[:5], y_val=[0, 1, 0, 1, 7])
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.raises(
        TypeError, match=r"n_neighbors must be a whole number, .* got ndarray of shape \(30, 2\)\.$"
    ):
        nw.audit_labels(X, y, n_neighbors=X, X_val=y)
    with pytest.raises(TypeError, match=r"got \[\[.* \.\.\. \(list\)\.$") as refused:
        nw.audit_labels(X, y, n_neighbors=X.tolist(), X_val=y)
    assert len(str(refused.value)) < 200


def two_classes(rng, n=800, noise=0.15, apart=2.0):
    true = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4))
    X[:, 0] += apart * (2 * true - 1)
    return X, true, np.where(rng.random(n) < noise, 1 - true, true)


@pytest.mark.parametrize("n_classes", [2, 4, 25])
def test_names_do_not_matter(rng, n_classes):
    """Among them more classes than votes are counted of, all of one size."""
    y = np.arange(600) % n_classes
    X = (1.2 * rng.normal(size=(n_classes, 4)))[y] + rng.normal(size=(600, 4))
    renamed = rng.permutation(n_classes)[y]
    np.testing.assert_allclose(
        nw.audit_labels(X, y).quality, nw.audit_labels(X, renamed).quality, atol=1e-9
    )


def test_order_of_rows_does_not_matter_where_classes_overlap(rng):
    X, _, y = two_classes(rng, 400, noise=0.3, apart=0.4)
    order = rng.permutation(400)
    shuffled = nw.audit_labels(X[order], y[order]).quality
    np.testing.assert_allclose(nw.audit_labels(X, y).quality[order], shuffled, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("with_probabilities", [False, True])
def test_the_last_bit_of_sums_does_not_matter(n_classes, with_probabilities):
    """Other orders of rows and columns round sums differently, as other processors do."""
    rng = np.random.default_rng(n_classes)
    clean = rng.integers(0, n_classes, 240)
    centres = 3.0 * rng.normal(size=(n_classes, 6))
    X = centres[clean] + rng.normal(size=(240, 6))
    y = clean.copy()
    # Wrong labels of one kind: preferences among them are what made fits differ.
    wrong = rng.permutation(240)[:24]
    y[wrong] = (y[wrong] + 1) % n_classes
    nearness = 1.0 / ((X[:, None, :] - centres) ** 2).sum(axis=2)
    probabilities = nearness / nearness.sum(axis=1, keepdims=True)
    rows = rng.permutation(240)
    columns = rng.permutation(6)
    audit = nw.audit_labels(X, y, pred_probs=probabilities if with_probabilities else None)
    shuffled = nw.audit_labels(
        X[rows][:, columns], y[rows], pred_probs=probabilities[rows] if with_probabilities else None
    )
    np.testing.assert_allclose(shuffled.quality, audit.quality[rows], atol=1e-10)
    np.testing.assert_allclose(
        shuffled.label_probabilities, audit.label_probabilities[rows], atol=1e-10
    )
    assert shuffled.n_errors.lower == pytest.approx(audit.n_errors.lower, abs=1e-8)
    assert shuffled.n_errors.upper == pytest.approx(audit.n_errors.upper, abs=1e-8)
    assert sorted(rows[shuffled.suspects(max_fdr=0.3)]) == sorted(audit.suspects(max_fdr=0.3))


def test_one_row_of_a_third_class_hides_no_errors(rng):
    X, true, y = two_classes(rng)
    wrong = int((y != true).sum())
    y[0] = 2
    count = nw.audit_labels(X, y).n_errors
    assert count.lower < wrong < count.upper
    assert 0.7 * wrong < count.estimate < 1.3 * wrong


@pytest.mark.parametrize("label", [1, 3])
def test_a_class_that_the_fit_never_sees(rng, label):
    n = 6_600
    X = rng.normal(size=(n, 3))
    y = 2 * (X[:, 0] > 0)
    y[np.setdiff1d(np.arange(n), fitted_rows(n))[0]] = label
    audit = nw.audit_labels(X, y)
    assert np.isfinite(audit.quality).all()
    assert audit.n_errors.lower < (1 - audit.quality).sum() < 60


def test_certain_labels_of_many_classes(rng):
    centres = 100 * rng.normal(size=(50, 4))
    y = np.arange(1500) % 50
    audit = nw.audit_labels(centres[y] + rng.normal(size=(1500, 4)), y)
    assert audit.quality.min() > 0.9
    assert audit.quality.max() <= 1


def test_very_many_classes_are_audited_as_few_are(rng, monkeypatch):
    """With columns for the classes that have votes: nearly the numbers of the audit with a column
    for each class.
    """
    X, true = blobs(rng, 1500, 70, 6)
    y = nw.add_label_noise(true, 0.1, random_state=1)
    probabilities = 0.8 * np.eye(70)[true] + 0.2 / 70
    for how in ({}, {"X_val": X[:200] + 0.1, "y_val": true[:200]}, {"pred_probs": probabilities}):
        found = nw.audit_labels(X, y, **how)
        with monkeypatch.context() as patch:
            patch.setattr(votes, "MOST_COLUMNS", 70)
            dense = nw.audit_labels(X, y, **how)
        assert np.abs(found.quality - dense.quality).mean() < 0.02
        assert (found.suggested == dense.suggested).mean() > 0.98
        assert (1 - found.quality).sum() == pytest.approx((1 - dense.quality).sum(), rel=0.15)
        assert average_precision_score(y != true, -found.quality) > 0.99
        assert found.label_probabilities.shape == (1500, 70)
        np.testing.assert_allclose(found.label_probabilities.sum(axis=1), 1.0)
        np.testing.assert_allclose(
            found.label_probabilities[np.arange(1500), y], found.quality, atol=1e-9
        )
        assert (y != true)[found.suspects()].mean() > 0.9


@pytest.mark.long
def test_votes_of_very_many_classes_take_little_memory():
    """3,000 rows of 1,000 classes: one table of them has 24 MB, and there used to be more than a
    dozen.
    """
    rng = np.random.default_rng(0)
    y = np.arange(3000) % 1000
    X = rng.normal(size=(1000, 8))[y] * 3 + rng.normal(size=(3000, 8))
    tracemalloc.start()
    audit = nw.audit_labels(X, y, task="classification")
    assert tracemalloc.get_traced_memory()[1] < 160e6
    tracemalloc.stop()
    new = audit.check(X[:5] + 0.01, y[:5])
    assert new.label_probabilities.shape == (5, 1000)
    assert len(audit.explain(0).value_by_label) == 1000


def defaults(rng, n=3000):
    """Rows of two classes drawn by lot: a chance of 0.2 to 0.6 for most, of 0.9 for a corner."""
    X = rng.random(size=(n, 2))
    chances = np.where(X[:, 0] > 0.85, beta.ppf(X[:, 1], 12, 1.5), beta.ppf(X[:, 1], 5, 8))
    return X, (rng.random(n) < chances).astype(int)


def test_outcomes_drawn_by_lot_are_not_counted_as_wrong(rng, monkeypatch):
    """The ranking is nearly the one there would be without this explanation; how sure it is
    changes.

    No count and no list, but no row is called right either: people who err where classes meet look
    the same. Only labels that are next to never drawn where they are remain suspect.
    """
    X, y = defaults(rng)
    audit = nw.audit_labels(X, y)
    assert audit.n_errors.estimate is None
    assert audit.n_errors.lower < 10
    assert len(audit.suspects()) < 10
    assert not len(audit.suspects(max_fdr=0.2))
    monkeypatch.setattr(noise_level, "ANY_SHAPE", np.inf)
    sure = nw.audit_labels(X, y)
    assert sure.n_errors.lower > 100
    assert len(sure.suspects()) > 100
    assert spearmanr(audit.quality, sure.quality).statistic > 0.999
    checked, sure_checked = (a.check(X[:300] + 0.01, y[:300]) for a in (audit, sure))
    assert checked.n_errors.lower < 1 <= sure_checked.n_errors.lower
    for doubtful, certain in ((audit, sure), (checked, sure_checked)):
        assert (doubtful.quality <= (1 + certain.quality) / 2 + 1e-12).all()
        common = doubtful.agreement > 0.3
        np.testing.assert_allclose(
            doubtful.quality[common], (1 + certain.quality[common]) / 2, atol=0.02
        )
