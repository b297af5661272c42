"""scikit-learn manners."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context, set_config
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

import nearworth as nw
from nearworth.inputs.parameters import PARAMETERS

with (
    warnings.catch_warnings()
):  # it has the manners of a BaseEstimator without being one: decision 022
    warnings.filterwarnings(
        "ignore", "Estimator KNNShapley does not inherit from `sklearn.base.BaseEstimator`"
    )
    scikit_learns_checks = parametrize_with_checks(
        [nw.KNNShapley(), nw.KNNShapley(task="regression")]
    )


@scikit_learns_checks
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return train_test_split(X, y, random_state=0)


def test_every_parameter_is_in_the_table_and_nothing_else():
    assert list(nw.KNNShapley().get_params()) == sorted(PARAMETERS)


def test_get_set_clone_repr():
    est = nw.KNNShapley(7, semivalue=("beta", 4, 1), metric_params=None)
    assert est.get_params()["n_neighbors"] == 7
    assert repr(est) == "KNNShapley(n_neighbors=7, semivalue=('beta', 4, 1))"
    copy = clone(est).set_params(n_neighbors=3)
    assert (est.n_neighbors, copy.n_neighbors, copy.semivalue) == (7, 3, ("beta", 4, 1))
    with pytest.raises(ValueError, match="Invalid parameter"):
        est.set_params(neighbours=3)


def test_not_fitted():
    with pytest.raises(NotFittedError):
        nw.KNNShapley().value([[0.0]], [0])
    with pytest.raises(NotFittedError):
        nw.KNNShapley().plan(10)


def test_pickle_keeps_the_fit(iris):
    X, X_val, y, y_val = iris
    est = nw.KNNShapley().fit(X, y)
    again = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(again.value(X_val, y_val).values, est.value(X_val, y_val).values)


def test_refit_forgets(iris):
    X, _, y, _ = iris
    est = nw.KNNShapley().fit(X, y)
    assert est.classes_.tolist() == [0, 1, 2]
    est.set_params(task="regression").fit(X.to_numpy(), y)
    assert not hasattr(est, "classes_")
    assert not hasattr(est, "feature_names_in_")


def test_parameters_read_by_value_may_change_without_a_new_fit(iris):
    X, X_val, y, y_val = iris
    est = nw.KNNShapley(3).fit(X, y)
    expected = nw.knn_shapley(X, y, X_val, y_val, n_neighbors=9, utility="original")
    np.testing.assert_array_equal(
        est.set_params(n_neighbors=9, utility="original").value(X_val, y_val).values, expected
    )


def test_last_step_of_a_pipeline(iris):
    X, X_val, y, y_val = iris
    pipe = make_pipeline(StandardScaler(), PCA(2, random_state=0), nw.KNNShapley(n_neighbors=4))
    pipe.fit(X, y)
    values = pipe[-1].value(pipe[:-1].transform(X_val), y_val).values
    by_hand = make_pipeline(StandardScaler(), PCA(2, random_state=0))
    expected = nw.knn_shapley(
        by_hand.fit_transform(X), y, by_hand.transform(X_val), y_val, n_neighbors=4
    )
    np.testing.assert_array_equal(values, expected)


def test_scikit_learn_shows_routes_and_sets_it_as_its_own(iris):
    X, _, y, _ = iris
    pipe = make_pipeline(StandardScaler(), nw.KNNShapley(3))
    assert "KNNShapley" in pipe._repr_html_()
    assert repr(pipe.set_params(knnshapley__n_neighbors=9)[-1]) == "KNNShapley(n_neighbors=9)"
    with config_context(enable_metadata_routing=True):
        pipe.fit(X, y).get_metadata_routing()
    check_is_fitted(pipe[-1])
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(pipe[-1]))


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_pipeline_that_passes_frames(iris, output):
    X, X_val, y, y_val = iris
    expected = nw.knn_shapley(*_scaled(X, X_val, y, y_val))
    try:
        set_config(transform_output=output)
        pipe = make_pipeline(StandardScaler(), nw.KNNShapley()).fit(X, y)
        v = pipe[-1].value(pipe[:-1].transform(X_val), y_val)
    finally:
        set_config(transform_output="default")
    np.testing.assert_array_equal(v.values, expected)
    assert pipe[-1].feature_names_in_.tolist() == X.columns.tolist()
    assert type(v.to_frame()).__module__.split(".")[0] == output


def _scaled(X, X_val, y, y_val):
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(X_val), y_val


def test_inputs_are_left_alone(iris):
    X, X_val, y, y_val = (np.array(part) for part in iris)
    before = [part.copy() for part in (X, X_val, y, y_val)]
    D = np.abs(X_val[:, None, 0] - X[None, :, 0])
    D_before = D.copy()
    est = nw.KNNShapley().fit(X, y)
    est.value(X_val, y_val)
    est.value()
    nw.knn_shapley(None, y, D, y_val, metric="precomputed")
    nw.KNNShapley(metric="precomputed").fit(np.abs(X[:, None, 0] - X[None, :, 0]), y).value()
    for part, old in zip((X, X_val, y, y_val, D), (*before, D_before), strict=True):
        np.testing.assert_array_equal(part, old)


def test_index_of_a_frame_does_not_matter(iris):
    X, X_val, y, y_val = iris
    shuffled = y.set_axis(np.arange(len(y))[::-1])
    np.testing.assert_array_equal(
        nw.KNNShapley().fit(X, shuffled).value(X_val, y_val).values,
        nw.KNNShapley().fit(X, y).value(X_val, y_val).values,
    )
    assert isinstance(y, pd.Series)


def test_many_training_rows_in_the_validation_set_are_warned_of(rng):
    X = rng.normal(size=(100, 3))
    y = rng.integers(0, 2, 100)
    est = nw.KNNShapley().fit(X, y)
    others = rng.normal(size=(70, 3))
    est.value(np.concatenate([X[:20], others]), np.zeros(90, dtype=int))  # few
    with pytest.warns(UserWarning, match=r"X_val: 30 of 100 rows are training rows too"):
        est.value(np.concatenate([X[:30], others]), np.zeros(100, dtype=int))
    coarse = rng.integers(0, 2, (100, 3))  # rows like these meet by chance
    nw.KNNShapley().fit(coarse, y).value(coarse[:50], y[:50])
    est.value(X[:50], y[:50], groups=(np.arange(100), np.arange(50)))  # copies do not vote
