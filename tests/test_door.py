"""Bad input: what is wrong, where, and what to do, and nothing else happens."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import nearworth as nw

X = np.arange(12.0).reshape(6, 2)
Y = np.array([0, 1, 0, 1, 0, 1])
X_VAL, Y_VAL = X[:2] + 0.25, Y[:2]


def changed(array, index, value):
    copy = np.array(array, dtype=float)
    copy[index] = value
    return copy


PARAMETERS = [
    ({"n_neighbors": 0}, "n_neighbors must be 1 or more (and a 64-bit number); got 0"),
    ({"n_neighbors": -3}, "n_neighbors must be 1 or more (and a 64-bit number); got -3"),
    ({"n_neighbors": 2.5}, "n_neighbors must be a whole number, 1 or more; got 2.5"),
    ({"n_neighbors": True}, "n_neighbors must be a whole number, 1 or more; got True"),
    ({"n_neighbors": "5"}, "n_neighbors must be a whole number"),
    ({"n_neighbors": None}, "n_neighbors must be a whole number"),
    ({"task": "clasification"}, "task='clasification' is not known. Did you mean 'classification'?"),
    ({"task": 3}, "task must be one of 'classification', 'regression'; got 3"),
    ({"utility": "softlabel"}, "utility='softlabel' is not known. Did you mean 'soft'?"),
    ({"semivalue": "shapely"}, "semivalue='shapely' is not known. Did you mean 'shapley'?"),
    ({"semivalue": "beta"}, "needs its two parameters"),
    ({"semivalue": ("beta", 1)}, 'must be ("beta", a, b)'),
    ({"semivalue": ("beta", 0, 1)}, "needs two positive numbers"),
    ({"semivalue": ("beta", 1, float("inf"))}, "needs two positive numbers"),
    ({"semivalue": 7}, "semivalue must be one of"),
    ({"semivalue": np.array([1, 2, 3])}, "semivalue must be one of"),
    ({"semivalue": ("beta", 1e308, 1)}, "needs two positive numbers (1e-100 to 1e100)"),
    ({"n_neighbors": 10**400}, "n_neighbors must be 1 or more (and a 64-bit number)"),
    ({"max_error": 10**400}, "max_error must be a positive number or None"),
    ({"metric": "euclidian"}, "metric='euclidian' is not known. Did you mean 'euclidean'?"),
    ({"metric": 2}, "metric must be the name of a metric or a function"),
    ({"metric_params": {"p": 3}}, "has no meaning for metric='euclidean'"),
    ({"metric_params": 3}, "metric_params must be a dict"),
    ({"search": "exat"}, "search='exat' is not known. Did you mean 'exact'?"),
    ({"search": 1}, "search must be a name or an object with fit(X) and search(Q, k)"),
    ({"search": "lsh"}, "search='lsh' needs n_candidates or max_error"),
    ({"search": "faiss"}, "search='faiss' needs n_candidates or max_error"),
    ({"n_candidates": 0}, "n_candidates must be 1 or more"),
    ({"max_error": 0}, "max_error must be a positive number or None; got 0"),
    ({"max_error": float("nan")}, "max_error must be a positive number"),
    ({"tail": "papers"}, "tail='papers' is not known. Did you mean 'paper'?"),
    ({"n_classes": 1}, "n_classes=1 is smaller than the 2 distinct labels in y"),
    ({"n_classes": 2.0}, "n_classes must be a whole number"),
    ({"ties": "mean"}, "ties='mean' is not known. Use one of 'average', 'index'"),
    ({"aggregate": "average"}, "aggregate='average' is not known"),
    ({"aggregate": "means"}, "Did you mean 'mean'?"),
    ({"standard_errors": "yes"}, "standard_errors must be True or False"),
    ({"max_memory": "lots"}, "max_memory must be a positive number of bytes or a size such as '2GB'"),
    ({"max_memory": -5}, "max_memory must be a positive number of bytes"),
    ({"max_memory": 1.5}, "max_memory must be a positive number of bytes"),
    ({"n_jobs": 0}, "n_jobs=0 means no worker at all"),
    ({"n_jobs": 1.0}, "n_jobs must be a whole number or None"),
    ({"random_state": -1}, "random_state must be a whole number from 0"),
    ({"progress": 3}, "progress must be True, False, None or a function"),
]


@pytest.mark.parametrize(("parameters", "message"), PARAMETERS, ids=lambda p: str(p)[:40])
def test_parameters(parameters, message):
    est = nw.KNNShapley(**parameters)  # scikit-learn: the constructor only stores
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        est.fit(X, Y)


READ_BY_VALUE = [(p, m) for p, m in PARAMETERS if not p.keys() & {"metric", "metric_params"}]


@pytest.mark.parametrize(("parameters", "message"), READ_BY_VALUE, ids=lambda p: str(p)[:40])
def test_parameters_changed_after_fit_are_checked_again(parameters, message):
    est = nw.KNNShapley().fit(X, Y).set_params(**parameters)
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        est.value(X_VAL, Y_VAL)


@pytest.mark.parametrize("parameters", [{"metric": "cosine"}, {"task": "regression"}, {"metric_params": {"p": 1}}])
def test_what_fit_depends_on_cannot_change_after_it(parameters):
    est = nw.KNNShapley(metric="minkowski", metric_params={"p": 3}).fit(X, Y).set_params(**parameters)
    with pytest.raises(ValueError, match=r"changed to .* after fit. Call fit again"):
        est.value(X_VAL, Y_VAL)


def test_how_far_to_search_is_said_once():
    with pytest.raises(ValueError, match="both given"):
        nw.KNNShapley(n_candidates=5, max_error=0.1).fit(X, Y)


TRAINING = [
    (changed(X, (3, 1), np.nan), Y, "X contains NaN at row 3, column 1"),
    (changed(X, (2, 0), np.inf), Y, "X contains infinity (inf) at row 2, column 0"),
    (changed(X, (2, 0), -np.inf), Y, "X contains infinity (inf) at row 2, column 0"),
    (changed(X, (4, 1), 1e200), Y, "X holds values too large for 64-bit distances: 1e+200 at row 4, column 1"),
    (pd.DataFrame(changed(X, (3, 1), np.nan), columns=["a", "b"]), Y, "X contains NaN at row 3, column 'b'"),
    (pl.DataFrame({"a": [1.0, None, 3, 4, 5, 6]}), Y, "X contains NaN at row 1, column 'a'"),
    (pl.DataFrame({"a": [1, None, 3, 4, None, 6]}), Y, "X has missing values in column 'a' at rows 1, 4"),
    (pd.DataFrame({"a": range(6), "b": list("uvwxyz")}), Y, "X has a column that is not numeric: 'b'"),
    (pd.DataFrame({"a": range(6), 3: range(6)}), Y, "X has column names of several types"),
    (pl.DataFrame({"a": range(6)}).lazy(), Y, "X is a lazy frame. Call .collect()"),
    (scipy.sparse.csr_array(changed(X, (3, 1), np.nan)), Y, "X contains NaN at row 3, column 1"),
    (scipy.sparse.csr_array(X + 1j), Y, "Complex data not supported"),
    (X + 1j, Y, "Complex data not supported"),
    (X[:, 0], Y, "X must have two dimensions, one row per point; got shape (6,). Reshape your data"),
    (X[None], Y, "X must have two dimensions, one row per point; got shape (1, 6, 2)"),
    (np.empty((0, 2)), Y[:0], "X has 0 sample(s) (shape=(0, 2)) while a minimum of 1 is required"),
    (np.empty((6, 0)), Y, "X has 0 feature(s) (shape=(6, 0)) while a minimum of 1 is required"),
    ([[1, 2], [3]], [0, 1], "X is not a rectangular array"),
    ([["a", "b"], ["c", "d"]], [0, 1], "X must hold numbers; got dtype <U1"),
    (np.array([["a", 1], ["c", 2]], dtype=object), [0, 1], "X has entries that are not 64-bit numbers"),
    (X.astype("datetime64[s]"), Y, "X must hold numbers; got dtype datetime64"),
    (np.ma.masked_greater(X, 9), Y, "X is a masked array with 2 masked entries"),
    (None, Y, "X is None"),
    (X, None, "This estimator requires y to be passed, but the target y is None"),
    (X, Y[:5], "y has 5 entries for 6 rows: inconsistent numbers of samples"),
    (X, np.stack([Y, Y], axis=1), "y must be one-dimensional, one entry per row; got shape (6, 2)"),
    (X, pd.DataFrame({"a": Y, "b": Y}), "y is a frame of 2 columns; give one column"),
    (X, Y + 0.5, "y holds continuous values (0.5 at row 0), but task='classification' needs classes"),
    (X, changed(Y, 2, np.nan), "y has NaN or infinity at row 2"),
    (X, [0, 1, None, 1, 0, None], "y has missing values at rows 2, 5"),
    (X, ["a", "b", None, "a", "b", float("nan")], "y has missing values at rows 2, 5"),
    (X, pd.Series(["a", "b", None, "a", "b", "c"]), "y has missing values at row 2"),
    (X, pl.Series(["a", "b", None, "a", "b", None]), "y has missing values at rows 2, 5"),
    (X, np.ma.masked_equal(Y, 1), "y has masked entries at rows 1, 3, 5"),
    (X, [0, "a", 1, "b", 0, 1], "y mixes labels of several kinds (int, str)"),
    (X, [[1], [2], [1], [2], [1], {}], "y"),
    (X, Y.astype("datetime64[s]"), "y has dtype datetime64[s], which cannot name classes"),
    (X, Y + 1j, "y has dtype complex128, which cannot name classes"),
    (X, [2**70] * 6, "y holds labels beyond 64-bit integers"),
    (X, [2**53, 2**53 + 1, 2**53, 1.0, 2, 3], "y holds labels beyond 64-bit integers"),
    (
        X,
        [[1, 2], [3], [1], [2], [1], [2]],
        "y must be one-dimensional, one entry per row; its entries differ in length",
    ),
    (X, np.array(["2024-01-01", "NaT"] * 3, dtype="M8[D]").astype(object), "y has missing values at rows 1, 3, 5"),
    (pd.DataFrame(X, columns=["a", "a"]), Y, "X has two columns of one name"),
    (np.array([[2**60], [2**60 + 1]]), [0, 1], "X holds whole numbers beyond 2**53"),
    (np.array([[10**400, 1]], dtype=object), [0], "X has entries that are not 64-bit numbers"),
]


@pytest.mark.parametrize(("X", "y", "message"), TRAINING, ids=[t[2][:50] for t in TRAINING])
def test_training_data(X, y, message):
    est = nw.KNNShapley()
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        est.fit(X, y)
    assert not hasattr(est, "classes_")
    assert not hasattr(est, "n_features_in_")


REGRESSION = [
    (list("abcdef"), "y must be numbers for task='regression'; got str such as 'a'"),
    (np.array(["1", "2", "3", "4", "5", "6"]), "y must be numbers for task='regression'; got str such as '1'"),
    (changed(Y, 1, np.inf), "y has NaN or infinity at row 1"),
    ([0, 1, None, 1, 0, None], "y has missing values at rows 2, 5"),
    (changed(Y, 3, 1e200), "y holds values too large for 64-bit squares: 1e+200 at row 3"),
    (Y + 1j, "y must be numbers for task='regression'; got complex"),
    (Y.astype("M8[ns]"), "y must be numbers for task='regression'; got str such as '1970-01-01"),
    (pd.Series(Y).astype("timedelta64[ns]"), "y must be numbers for task='regression'"),
    ([10**400, 1, 2, 3, 4, 5], "y holds numbers beyond 64-bit floats"),
]


@pytest.mark.parametrize(("y", "message"), REGRESSION, ids=[t[1][:50] for t in REGRESSION])
def test_regression_targets(y, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        nw.KNNShapley(task="regression").fit(X, y)


VALIDATION = [
    ((X_VAL[:, :1], Y_VAL), "X_val has 1 features, but X had 2 features when fit was called"),
    ((changed(X_VAL, (1, 1), np.nan), Y_VAL), "X_val contains NaN at row 1, column 1"),
    ((X_VAL, Y_VAL[:1]), "y_val has 1 entries for 2 rows: inconsistent numbers of samples"),
    ((X_VAL, None), "X_val was given without y_val. Give both, or neither"),
    ((None, Y_VAL), "y_val was given without X_val. Give both, or neither"),
    ((X_VAL, Y_VAL, [1, -1]), "sample_weight must not be negative; got -1 at row 1"),
    ((X_VAL, Y_VAL, [1, np.nan]), "sample_weight has NaN or infinity at row 1"),
    ((X_VAL, Y_VAL, [0, 0]), "sample_weight is zero everywhere. At least one validation point must count"),
    ((X_VAL, Y_VAL, [1, 1, 1]), "sample_weight has 3 entries for 2 rows"),
    ((X_VAL, Y_VAL, ["a", "b"]), "sample_weight must be numbers, one per validation point; got 'a'"),
    ((X_VAL, Y_VAL, ["1", "2"]), "sample_weight must be numbers, one per validation point; got '1'"),
    ((X_VAL, Y_VAL, Y_VAL.astype("m8[ns]")), "sample_weight must be numbers"),
    ((X_VAL, Y_VAL, [1e308, 1]), "sample_weight ranges from 1 to 1e+308, too far for sums of squares"),
    ((X_VAL, Y_VAL, [1e-200, 1]), "sample_weight ranges from 1e-200 to 1"),
    ((X_VAL, [0.5, 1]), "y_val holds continuous values"),
    ((X_VAL, ["a", "b"]), "y_val holds text, but y in fit held numbers"),
    ((scipy.sparse.csr_array(X_VAL), Y_VAL), "X_val is sparse, but X in fit was not. Use X_val.toarray()"),
    ((np.empty((0, 2)), []), "X_val has 0 sample(s)"),
]


@pytest.mark.parametrize(("arguments", "message"), VALIDATION, ids=[t[1][:50] for t in VALIDATION])
def test_validation_data(arguments, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        nw.KNNShapley().fit(X, Y).value(*arguments)


def test_feature_names():
    train = pd.DataFrame(X, columns=["a", "b"])
    est = nw.KNNShapley().fit(train, Y)
    with pytest.raises(ValueError, match=r"X_val has the columns of fit in another order. Reorder it"):
        est.value(train[["b", "a"]], Y)
    with pytest.raises(ValueError, match=r"Missing: \['b'\]; unexpected: \['c'\]"):
        est.value(train.rename(columns={"b": "c"}), Y)
    with pytest.warns(UserWarning, match="X_val has no feature names, but X in fit had them"):
        est.value(X, Y)
    with pytest.warns(UserWarning, match="X_val has feature names, but X in fit had none"):
        nw.KNNShapley().fit(X, Y).value(train, Y)


def test_precomputed_shapes():
    D = np.zeros((6, 6))
    est = nw.KNNShapley(metric="precomputed")
    with pytest.raises(ValueError, match=r"X must hold distances between training points, 6 x 6; got shape \(6, 2\)"):
        est.fit(X, Y)
    with pytest.raises(ValueError, match=r"one column per training point \(6\); got shape \(2, 5\)"):
        est.fit(D, Y).value(D[:2, :5], Y_VAL)
    with pytest.raises(ValueError, match="needs distances between training points: fit"):
        est.fit(None, Y).value()
    with pytest.raises(TypeError, match="X_val is sparse, but metric='precomputed' needs every distance"):
        est.fit(None, Y).value(scipy.sparse.csr_array(D[:2]), Y_VAL)
    with pytest.raises(ValueError, match="y has 5 entries for 6 rows"):
        est.fit(D, Y[:5])


def test_sparse_metrics():
    with pytest.raises(ValueError, match="metric='chebyshev' does not work on sparse data. Use one of 'euclidean'"):
        nw.KNNShapley(metric="chebyshev").fit(scipy.sparse.csr_array(X), Y)
    with pytest.raises(TypeError, match="X_val is dense, but X in fit was sparse"):
        nw.KNNShapley().fit(scipy.sparse.csr_array(X), Y).value(X_VAL, Y_VAL)


def test_self_valuation_of_one_point():
    with pytest.raises(ValueError, match="needs at least 2 training points; there is 1. Give X_val and y_val"):
        nw.KNNShapley().fit(X[:1], Y[:1]).value()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([6], "contributions names row 6, but there are 6 training points (0 to 5)"),
        ([-7], "contributions names row -7"),
        ([0.5], "contributions must be row numbers of training points"),
        ("some", "contributions must be row numbers of training points"),
        (np.zeros((2, 0)), "contributions must be row numbers of training points"),
        (slice("a"), "contributions must be row numbers of training points"),
    ],
)
def test_contributions(rows, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        nw.KNNShapley().fit(X, Y).value(X_VAL, Y_VAL, contributions=rows)


def test_contributions_that_would_not_fit_are_refused_before_the_work():
    done = []
    est = nw.KNNShapley(max_memory=40_000, progress=lambda *step: done.append(step)).fit(X, Y)
    with pytest.raises(
        ValueError, match=r"contributions of 6 training points for 1,000 validation points need \d\d,\d+"
    ):
        est.value(np.tile(X_VAL, (500, 1)), np.tile(Y_VAL, 500), contributions="all")
    assert done == []


def test_too_little_memory_says_how_much_is_needed():
    with pytest.raises(ValueError, match=r"max_memory=100 bytes is too little for 6 training points: .* needs [\d,]+"):
        nw.KNNShapley(max_memory=100).fit(X, Y).value(X_VAL, Y_VAL)


def test_owners():
    v = nw.KNNShapley().fit(X, Y).value(X_VAL, Y_VAL)
    with pytest.raises(ValueError, match="owners has 2 entries for 6 rows"):
        v.sum_by(["a", "b"])
    with pytest.raises(ValueError, match="owners has missing owners at row 1"):
        v.sum_by(["a", None, "a", "a", "b", "b"])


def test_a_failed_fit_leaves_the_earlier_one(rng):
    est = nw.KNNShapley().fit(X, Y)
    before = est.value(X_VAL, Y_VAL).values
    with pytest.raises(ValueError, match="NaN"):
        est.fit(changed(X, (0, 0), np.nan), Y)
    np.testing.assert_array_equal(est.value(X_VAL, Y_VAL).values, before)


@pytest.mark.parametrize("n_val", [0, -1, 2.5, True, "x", None])
def test_plan_for_a_strange_number_of_points(n_val):
    with pytest.raises((ValueError, TypeError), match="n_val must be"):
        nw.KNNShapley().fit(X, Y).plan(n_val)


def test_scales_of_metrics_that_do_not_exist():
    twice = np.column_stack([X[:, 0], X[:, 0]])
    with pytest.raises(ValueError, match="metric='mahalanobis' cannot invert the covariance of X"):
        nw.KNNShapley(metric="mahalanobis").fit(twice, Y)
    with pytest.raises(ValueError, match="metric='seuclidean' takes its scale from at least 2 training points"):
        nw.KNNShapley(metric="seuclidean").fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match="metric='minkowski' gives infinity"):
        nw.KNNShapley(metric="minkowski", metric_params={"p": 3}).fit(X * 1e120, Y).value(X_VAL, Y_VAL)
    with pytest.raises(ValueError, match="metric='minkowski' does not work on these data") as error:
        nw.KNNShapley(metric="minkowski", metric_params={"q": 3}).fit(X, Y)
    assert len(str(error.value)) < 300


def test_values_that_overflow_are_refused():
    with pytest.raises(ValueError, match="y_val holds values too large for 64-bit squares"):
        nw.knn_shapley(X, Y, X_VAL, [1e153, 1], task="regression")
