"""What happens to a model when rows go, by value or at random."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

import nearworth as nw

N = 20


class Witness(BaseEstimator):
    """A model whose score tells exactly which rows it saw: row i counts 2^i."""

    def fit(self, X, y):
        self.seen_ = float(np.sum(2.0 ** np.asarray(X)[:, 0]))
        assert len(X) == len(y)
        return self

    def score(self, X, y):
        return self.seen_


def rows_of(score):
    return {i for i in range(N) if int(score) >> i & 1}


def witness(values, **options):
    X = np.arange(N)[:, None]
    return nw.removal_curve(values, Witness(), X, np.zeros(N), X[:1], [0], **options)


def test_the_right_rows_go(rng):
    values = rng.normal(size=N)
    curve = witness(values, fractions=[0, 0.1, 0.25, 0.5], n_repeats=7)
    order = np.argsort(values)
    for j, gone in enumerate([0, 2, 5, 10]):
        assert rows_of(curve.lowest[j]) == set(order[gone:])
        assert rows_of(curve.highest[j]) == set(order[: N - gone])
        assert {len(rows_of(score)) for score in curve.random[:, j]} == {N - gone}
    for path in curve.random:  # what is gone stays gone
        sets = [rows_of(score) for score in path]
        assert all(later < earlier for earlier, later in zip(sets, sets[1:], strict=False))
    assert len(set(curve.random[:, 2])) > 1
    np.testing.assert_allclose(curve.random_mean, curve.random.mean(axis=0))
    np.testing.assert_allclose(curve.random_spread, curve.random.std(axis=0, ddof=1))


def test_without_fraction_zero_every_order_is_its_own(rng):
    values = rng.normal(size=N)
    curve = witness(values, fractions=[0.5])
    assert rows_of(curve.lowest[0]) == set(np.argsort(values)[N // 2 :])
    assert rows_of(curve.highest[0]) == set(np.argsort(values)[: N // 2])
    assert len(set(curve.random[:, 0])) > 1


def test_rows_of_equal_value_go_in_random_order():
    curves = [witness(np.zeros(N), fractions=[0.5], random_state=seed) for seed in range(5)]
    assert len({curve.lowest[0] for curve in curves}) > 1


def test_seeds_repeats_and_the_last_row(rng):
    values = rng.normal(size=N)
    one, same, other = (witness(values, fractions=[0.99], random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.random, same.random)
    assert (one.random != other.random).any()
    assert rows_of(one.lowest[0]) == {values.argmax()}  # one row always stays
    single = witness(values, n_repeats=1)
    assert single.random.shape == (1, 11)
    assert (single.random_spread == 0).all()


def test_wrong_labels_go_first_and_the_model_gains():
    X, y, X_val, y_val, _ = nw.datasets.noisy_digits(0.2)
    v = nw.KNNShapley(5).fit(X, y).value(X_val[::2], y_val[::2])
    model, test = KNeighborsClassifier(1), (X_val[1::2], y_val[1::2])
    curve = nw.removal_curve(v, model, X, y, *test, fractions=[0, 0.1, 0.2], n_repeats=3)
    assert curve.lowest[2] > curve.lowest[0] + 0.08
    assert curve.highest[2] < curve.random_mean[2] - 3 * curve.random_spread[2]
    assert curve.lowest[0] == curve.highest[0] == curve.random_mean[0] == model.fit(X, y).score(*test)
    assert curve.scoring == "accuracy"
    assert repr(curve).count("\n") == 3


@pytest.mark.parametrize("kind", ["pandas", "polars", "sparse", "lists"])
def test_any_container(kind, rng):
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
    v = nw.KNNShapley(3).fit(X, y).value()
    given = {
        "pandas": lambda: (pd.DataFrame(X, index=range(100, 140)), pd.Series(y, index=range(100, 140))),
        "polars": lambda: (pl.DataFrame(X), pl.Series(y)),
        "sparse": lambda: (scipy.sparse.csr_matrix(X), y),
        "lists": lambda: (X.tolist(), y.tolist()),
    }[kind]()
    options = {"fractions": [0, 0.3], "n_repeats": 2}
    expected = nw.removal_curve(v, KNeighborsClassifier(3), X, y, X, y, **options)
    curve = nw.removal_curve(v, KNeighborsClassifier(3), *given, *given, **options)
    np.testing.assert_array_equal(curve.lowest, expected.lowest)
    np.testing.assert_array_equal(curve.random, expected.random)


def test_regression_scoring_and_threads(rng):
    X = rng.normal(size=(50, 2))
    y = X[:, 0] + rng.normal(size=50) / 9
    v = nw.KNNShapley(3, task="regression").fit(X, y).value()
    arguments = (v, Ridge(), X, y, X, y)
    curve = nw.removal_curve(*arguments, scoring="neg_mean_absolute_error", fractions=[0, 0.2])
    assert (curve.lowest < 0).all()
    assert curve.scoring == "neg_mean_absolute_error"
    with joblib.parallel_config("threading"):  # processes take seconds to start
        parallel = nw.removal_curve(*arguments, scoring="neg_mean_absolute_error", fractions=[0, 0.2], n_jobs=2)
    np.testing.assert_array_equal(parallel.random, curve.random)
    assert nw.removal_curve(*arguments, fractions=[0.1]).scoring == "R²"


def test_one_class_left_is_no_score_but_no_crash(rng):
    y = np.repeat([0, 1], 10)
    X, values = rng.normal(size=(20, 2)), np.arange(20.0)
    with pytest.warns(UserWarning, match="only one class was left"):
        curve = nw.removal_curve(values, LogisticRegression(), X, y, X, y, fractions=[0.1, 0.6])
    assert np.isnan(curve.lowest).tolist() == [False, True]
    with pytest.raises(ValueError, match="NaN"):  # any other failure is the user's to see
        nw.removal_curve(values, LogisticRegression(), np.full((20, 2), np.nan), y, X, y)


def test_frames(rng):
    curve = witness(rng.normal(size=N), fractions=[0, 0.5])
    names = ["fraction", "lowest", "highest", "random_mean", "random_spread"]
    assert list(curve.to_frame().columns) == names
    assert isinstance(curve.to_frame("polars"), pl.DataFrame)
    assert isinstance(curve.to_frame("pyarrow"), pa.Table)
    np.testing.assert_array_equal(curve.to_frame("pandas")["lowest"], curve.lowest)


def test_bad_arguments(rng):
    values = rng.normal(size=N)
    for fractions in ([], [0.5, 0.1], [0.1, 0.1], [1.0], [-0.1], ["x"]):
        with pytest.raises(ValueError, match="fractions must be increasing numbers from 0 to below 1"):
            witness(values, fractions=fractions)
    with pytest.raises(ValueError, match="v has 19 entries for 20 rows"):
        witness(values[1:])
    with pytest.raises(ValueError, match="v has NaN or infinity at row 19"):
        witness(np.append(values[1:], np.nan))
    with pytest.raises(ValueError, match="n_repeats"):
        witness(values, n_repeats=0)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        nw.removal_curve(values, Witness(), np.zeros((N, 1)), np.zeros(N - 1), None, None)
