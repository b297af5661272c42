"""Axioms, where 2^N cannot go."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import nearworth as nw

TASKS = ("classification", "regression")
UTILITIES = ("soft", "original")


def blobs(rng, n, n_val, task, dimensions=3):
    """Overlapping classes, some duplicated rows, a few ties."""
    X = rng.normal(size=(n, dimensions))
    X_val = rng.normal(size=(n_val, dimensions))
    X[n // 2 :: 7] = np.round(X[n // 2 :: 7], 1)
    X[1 : n // 5 : 3] = X[0 : n // 5 - 1 : 3][: len(X[1 : n // 5 : 3])]
    target = X[:, 0] + 0.5 * rng.normal(size=n)
    target_val = X_val[:, 0] + 0.5 * rng.normal(size=n_val)
    if task == "regression":
        return X, 3 + target, X_val, 3 + target_val
    return X, np.digitize(target, [-0.5, 0.5]), X_val, np.digitize(target_val, [-0.5, 0.5])


def gain(task, utility, X, y, X_val, y_val, k):
    """Utility of all minus utility of none, from scikit-learn's own neighbours."""
    if task == "regression":
        predicted = KNeighborsRegressor(k).fit(X, y).predict(X_val)
        return np.mean(y_val**2 - (predicted - y_val) ** 2)
    votes = KNeighborsClassifier(k).fit(X, y)
    right = votes.predict_proba(X_val)[
        np.arange(len(y_val)), np.searchsorted(votes.classes_, y_val)
    ]
    return np.mean(right) - (1 / len(votes.classes_) if utility == "soft" else 0)


@pytest.mark.parametrize(("n", "n_val"), [(2_000, 60), (20_000, 12)])
@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("task", TASKS)
def test_efficiency(task, utility, k, n, n_val, rng):
    X, y, X_val, y_val = blobs(rng, n, n_val, task)
    X = X + 1e-9 * rng.normal(size=X.shape)  # no ties: scikit-learn breaks them its own way
    values = nw.knn_shapley(X, y, X_val, y_val, n_neighbors=k, task=task, utility=utility)
    assert values.sum() == pytest.approx(gain(task, utility, X, y, X_val, y_val, k), abs=1e-10)


@pytest.mark.parametrize("n", [2_000, 20_000])
@pytest.mark.parametrize("task", TASKS)
def test_efficiency_with_ties_does_not_depend_on_their_order(task, n, rng):
    X, y, X_val, y_val = blobs(rng, n, 8, task)
    X = np.round(X)  # nearly everything tied
    total = nw.knn_shapley(X, y, X_val, y_val, n_neighbors=5, task=task).sum()
    order = rng.permutation(n)
    again = nw.knn_shapley(X[order], y[order], X_val, y_val, n_neighbors=5, task=task).sum()
    by_index = [
        nw.knn_shapley(X[o], y[o], X_val, y_val, n_neighbors=5, task=task, ties="index").sum()
        for o in _orders(rng, n)
    ]
    assert total == pytest.approx(again, abs=1e-10)
    if task == "classification":  # the mean over orders lies among them
        assert min(by_index) - 1e-10 <= total <= max(by_index) + 1e-10


def _orders(rng, n):
    return [rng.permutation(n) for _ in range(12)]


@pytest.mark.parametrize("n", [2_000, 20_000])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", ("beta", 4, 1), "loo"])
def test_symmetry_identical_rows_with_identical_labels(task, semivalue, n, rng):
    X, y, X_val, y_val = blobs(rng, n, 5, task)
    X[n // 2 :] = X[: n // 2]
    y[n // 2 :] = y[: n // 2]
    order = rng.permutation(n)
    values = np.empty(n)
    values[order] = nw.knn_shapley(
        X[order], y[order], X_val, y_val, n_neighbors=5, task=task, semivalue=semivalue
    )
    np.testing.assert_array_equal(values[: n // 2], values[n // 2 :])


@pytest.mark.parametrize("task", TASKS)
def test_symmetry_in_self_valuation(task, rng):
    X, y, _, _ = blobs(rng, 400, 5, task)
    X[200:] = X[:200]
    y[200:] = y[:200]
    order = rng.permutation(400)
    v = nw.KNNShapley(5, task=task, standard_errors=True).fit(X[order], y[order]).value()
    back = np.argsort(order)
    np.testing.assert_array_equal(v.values[back[:200]], v.values[back[200:]])
    np.testing.assert_array_equal(v.standard_errors[back[:200]], v.standard_errors[back[200:]])


def test_null_player_original_utility(rng):
    """A label that no validation point has, on the farthest points, changes nothing: it is worth
    exactly 0.
    """
    X = rng.normal(size=(2_000, 2))
    X_val = rng.normal(size=(20, 2))
    y = rng.integers(0, 2, 2_000)
    y_val = rng.integers(0, 2, 20)
    X[-50:] += 1e4
    y[-50:] = 7
    values = nw.knn_shapley(X, y, X_val, y_val, n_neighbors=5, utility="original")
    assert (values[-50:] == 0).all()


@pytest.mark.parametrize("task", TASKS)
def test_linearity_in_the_validation_set(task, rng):
    X, y, X_val, y_val = blobs(rng, 2_000, 150, task)
    est = nw.KNNShapley(5, task=task).fit(X, y)
    whole = est.value(X_val, y_val).values
    parts = [
        est.value(X_val[s], y_val[s]).values
        for s in (slice(0, 30), slice(30, 110), slice(110, 150))
    ]
    np.testing.assert_allclose(
        np.average(parts, axis=0, weights=[30, 80, 40]), whole, rtol=0, atol=1e-14 * 40
    )
    doubled = est.value(X_val, y_val, np.full(150, 2.0)).values
    np.testing.assert_array_equal(doubled, whole)
    twice = est.value(np.vstack([X_val, X_val[:10]]), np.concatenate([y_val, y_val[:10]])).values
    weights = np.where(np.arange(150) < 10, 2.0, 1.0)
    np.testing.assert_allclose(est.value(X_val, y_val, weights).values, twice, rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", [2_000, 20_000])
@pytest.mark.parametrize("task", TASKS)
def test_input_order_does_not_matter(task, n, rng):
    X, y, X_val, y_val = blobs(rng, n, 10, task)
    values = nw.knn_shapley(X, y, X_val, y_val, n_neighbors=5, task=task)
    order = rng.permutation(n)
    order_val = rng.permutation(10)
    shuffled = np.empty(n)
    shuffled[order] = nw.knn_shapley(
        X[order], y[order], X_val[order_val], y_val[order_val], n_neighbors=5, task=task
    )
    np.testing.assert_allclose(shuffled, values, rtol=0, atol=1e-12 * np.abs(values).max())


def test_soft_and_original_differ_by_a_class_constant(rng):
    """Corollary B of the formulas, which explains the paper's whole comparison."""
    X, y, X_val, y_val = blobs(rng, 2_000, 90, "classification")
    n = 2_000
    k = 7
    c = 3
    difference = nw.knn_shapley(X, y, X_val, y_val, n_neighbors=k) - nw.knn_shapley(
        X, y, X_val, y_val, n_neighbors=k, utility="original"
    )
    share = np.bincount(y_val, minlength=c) / len(y_val)
    harmonic = sum(1 / j for j in range(2, k + 1))
    expected = harmonic / (n - 1) * (share[y] - share @ np.bincount(y, minlength=c) / n) - 1 / (
        c * n
    )
    np.testing.assert_allclose(difference, expected, rtol=0, atol=1e-15)
