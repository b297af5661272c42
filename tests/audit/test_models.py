"""Out-of-fold models: what they learn, and what they must not know."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse

from nearworth.audit import predictions as models
from nearworth.audit.predictions import FOLDS, draw_folds, out_of_fold, worthwhile

QUIET = {"progress": False}


@pytest.fixture
def table(rng):
    X = rng.normal(size=(150, 3)) * [1.0, 1e3, 1e-3]
    return X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 500), X[:, 0] + X[:, 1] / 1e3


def test_models_learn_classes_and_targets(table):
    X, codes, targets = table
    for found in out_of_fold(X, codes, task="classification", **QUIET):
        assert found.shape == (150, 3)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert found.min() > 0
        assert (found.argmax(axis=1) == codes).mean() > 0.75
    for found in out_of_fold(X, targets, task="regression", **QUIET):
        assert found.shape == (150,)
        assert np.corrcoef(found, targets)[0, 1] > 0.85


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_row_does_not_know_its_own_label(table, task):
    """With groups, folds are drawn without the labels, so that nothing else changes either."""
    X, codes, targets = table
    y = codes if task == "classification" else targets
    groups = np.arange(150)
    before = out_of_fold(X, y, task=task, groups=groups, **QUIET)
    for row in (3, 77):
        other = y.copy()
        other[row] = (y[row] + 1) % 3 if task == "classification" else 1e6
        after = out_of_fold(X, other, task=task, groups=groups, **QUIET)
        for one, two in zip(before, after, strict=True):
            assert (one[row] == two[row]).all()
            assert not (one == two).all()


def test_a_row_of_its_group_is_not_known_either(rng):
    """Labels are coins, and every row stands twice: a model that saw the copy would know them."""
    X = np.repeat(rng.normal(size=(80, 4)), 2, axis=0)
    codes = np.repeat(rng.integers(0, 2, 80), 2)

    def hits(groups):
        found = out_of_fold(X, codes, task="classification", groups=groups, **QUIET)[2]
        return (found.argmax(axis=1) == codes).mean()

    assert hits(None) > 0.75
    assert hits(np.repeat(np.arange(80), 2)) < 0.65


@pytest.mark.parametrize(
    "task", ["classification", pytest.param("regression", marks=pytest.mark.long)]
)
def test_the_same_for_any_number_of_jobs(table, task, monkeypatch):
    monkeypatch.setattr(models, "FEW_CELLS", 0)  # so that processes are started
    X, codes, targets = table
    y = codes if task == "classification" else targets
    one, two = (out_of_fold(X, y, task=task, n_jobs=jobs, **QUIET) for jobs in (1, 3))
    assert all((a == b).all() for a, b in zip(one, two, strict=True))


def test_folds_share_out_classes_and_keep_groups_together(rng):
    codes = rng.permutation(np.repeat([0, 1, 2], [50, 23, 2]))
    folds = draw_folds(codes, None)
    for code in range(3):
        sizes = np.bincount(folds[codes == code], minlength=FOLDS)
        assert np.ptp(sizes) <= 1
    groups = rng.integers(0, 12, 75)
    folds = draw_folds(codes, groups)
    assert all(len(np.unique(folds[groups == group])) == 1 for group in range(12))
    assert len(np.unique(folds)) == FOLDS


@pytest.mark.parametrize("sizes", [(30, 1), (30, 2, 1, 1), (2, 1), (1, 1), (1,) * 9, (40, 3)])
def test_tiny_classes(rng, sizes):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    for found in out_of_fold(
        rng.normal(size=(len(codes), 2)), codes, task="classification", **QUIET
    ):
        assert found.shape == (len(codes), len(sizes))
        assert ((found > 0) & (found < 1)).all()
        np.testing.assert_allclose(found.sum(axis=1), 1.0)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_constant_targets_are_predicted_as_they_are(rng, n):
    for found in out_of_fold(rng.normal(size=(n, 1)), np.full(n, 4.0), task="regression", **QUIET):
        np.testing.assert_allclose(found, 4.0, rtol=1e-9)


def test_of_two_rows_each_is_predicted_by_the_other(rng):
    for found in out_of_fold(
        rng.normal(size=(2, 1)), np.array([5.0, -3.0]), task="regression", **QUIET
    ):
        np.testing.assert_allclose(found, [-3.0, 5.0], rtol=1e-9)


@pytest.mark.parametrize("n", [3, 7])
def test_predictions_for_few_rows_come_from_the_targets_of_others(n):
    """One row is far off in its target only. Its own prediction is the one that does not follow."""
    y = np.arange(n) * 1.0
    y[0] = 1e6
    X = np.arange(n)[:, None] * 1.0
    for found in out_of_fold(X, y, task="regression", groups=np.arange(n), **QUIET):
        assert abs(found[0]) < 2 * n
        assert np.abs(found[1:]).max() > 1e4


def test_two_groups_of_unequal_size_and_one(rng):
    X = rng.normal(size=(40, 2))
    codes = np.arange(40) % 2
    groups = np.repeat([7, 9], [37, 3])
    assert all(
        np.isfinite(found).all()
        for found in out_of_fold(X, codes, task="classification", groups=groups)
    )
    with pytest.raises(ValueError, match="groups has one group only"):
        out_of_fold(X, codes, task="classification", groups=np.zeros(40), **QUIET)


def test_sparse_features(table):
    X, codes, _ = table
    small = out_of_fold(scipy.sparse.csr_array(X), codes, task="classification", **QUIET)
    for one, two in zip(small, out_of_fold(X, codes, task="classification", **QUIET), strict=True):
        assert (one == two).all()


def test_huge_and_constant_columns(table):
    X, codes, _ = table
    X = np.column_stack([X * [1e140, 1.0, 1.0], np.full(150, 7.0), np.full(150, 1.6e9) + X[:, 0]])
    for found in out_of_fold(X.astype(np.float64), codes, task="classification", **QUIET):
        assert (found.argmax(axis=1) == codes).mean() > 0.75


def test_progress_is_reported_and_warnings_are_kept_in(table):
    """Classes that a plane can tell apart need more steps than there are; the filters are as they
    were afterwards.
    """
    X, codes, _ = table
    seen = []
    filters = list(warnings.filters)
    out_of_fold(
        X, codes, task="classification", progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(done, 3 * FOLDS) for done in range(1, 3 * FOLDS + 1)]
    assert warnings.filters == filters


def test_models_pay_on_tables():
    assert worthwhile(5_000, 20)
    assert worthwhile(1_000, 64, 10)
    assert not worthwhile(5_000, 768)
    assert not worthwhile(1_000_000, 50)
    assert not worthwhile(10, 2)
