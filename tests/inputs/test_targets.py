"""Labels, targets, weights, owners and row numbers of every kind, and what is said about those that
cannot be used.
"""

from __future__ import annotations

import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import nearworth as nw
from nearworth.inputs.targets import are_amounts, check_classes

X = np.arange(12.0).reshape(6, 2)
Y = np.array([0, 1, 0, 1, 0, 1])
X_VAL = X[:2] + 0.25
Y_VAL = Y[:2]


@pytest.fixture
def data(rng):
    return (
        rng.normal(size=(60, 3)),
        rng.integers(0, 3, 60),
        rng.normal(size=(8, 3)),
        rng.integers(0, 3, 8),
    )


def changed(array, index, value):
    copy = np.array(array, dtype=float)
    copy[index] = value
    return copy


LABELS = {
    "ints": lambda y: y,
    "int8": lambda y: y.astype(np.int8),
    "shifted": lambda y: y * 50 - 7,
    "floats": lambda y: y.astype(float),
    "list": lambda y: y.tolist(),
    "tuple": lambda y: tuple(y.tolist()),
    "column": lambda y: y[:, None],
    "strings": lambda y: np.array(["red", "green", "blue"])[y],
    "object strings": lambda y: np.array(["red", "green", "blue"], dtype=object)[y],
    "list of strings": lambda y: np.array(["red", "green", "blue"])[y].tolist(),
    "object ints": lambda y: y.astype(object),
    "pandas strings": lambda y: pd.Series(np.array(["red", "green", "blue"])[y]),
    "pandas categorical": lambda y: pd.Series(
        np.array(["red", "green", "blue"])[y], dtype="category"
    ),
    "pandas categorical of ints": lambda y: pd.Series(y, dtype="category"),
    "pandas Categorical": lambda y: pd.Categorical(np.array(["red", "green", "blue"])[y]),
    "pandas index": lambda y: pd.Index(y),
    "pandas frame": lambda y: pd.DataFrame({"label": y}),
    "polars strings": lambda y: pl.Series(np.array(["red", "green", "blue"])[y].tolist()),
    "polars categorical": lambda y: pl.Series(
        np.array(["red", "green", "blue"])[y].tolist(), dtype=pl.Categorical
    ),
    "polars enum": lambda y: pl.Series(
        np.array(["red", "green", "blue"])[y].tolist(), dtype=pl.Enum(["red", "green", "blue"])
    ),
    "pyarrow strings": lambda y: pa.chunked_array([np.array(["red", "green", "blue"])[y].tolist()]),
    "pyarrow dictionary": lambda y: pa.chunked_array(
        [
            pa.array(
                ["red", "green", "blue"] * 0 + np.array(["red", "green", "blue"])[y].tolist()
            ).dictionary_encode()
        ]
    ),
    "pyarrow array": lambda y: pa.array(y),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind(data, kind):
    X, y, X_val, y_val = data
    expected = nw.knn_shapley(X, y, X_val, y_val)
    make = LABELS[kind]
    np.testing.assert_array_equal(nw.knn_shapley(X, make(y), X_val, make(y_val)), expected)


def test_boolean_labels_and_their_classes(data):
    X, y, X_val, y_val = data
    est = nw.KNNShapley().fit(X, y > 0)
    assert est.classes_.dtype == bool
    expected = nw.knn_shapley(X, (y > 0).astype(int), X_val, (y_val > 0).astype(int))
    np.testing.assert_array_equal(est.value(X_val, y_val > 0).values, expected)
    np.testing.assert_array_equal(est.value(X_val, (y_val > 0).tolist()).values, expected)


def test_number_types_of_labels_may_differ_but_not_kinds(data):
    X, y, X_val, y_val = data
    est = nw.KNNShapley().fit(X, y)
    np.testing.assert_array_equal(
        est.value(X_val, y_val.astype(float)).values, est.value(X_val, y_val).values
    )
    with pytest.raises(TypeError, match="y_val holds text, but y in fit held numbers"):
        est.value(X_val, y_val.astype(str))


@pytest.mark.parametrize(
    "make",
    [
        lambda y: y.astype(np.float32),
        lambda y: y.tolist(),
        lambda y: pd.Series(y),
        lambda y: pl.Series(y),
        lambda y: pa.chunked_array([y]),
        lambda y: y.astype(object),
        lambda y: np.array([Decimal(float(v)) for v in y], dtype=object),
        lambda y: y.astype(int),
        lambda y: y.astype(bool),
    ],
)
def test_targets_of_every_kind(data, make):
    X, _, X_val, _ = data
    y = np.arange(60.0) % 2
    y_val = np.arange(8.0) % 2
    expected = nw.knn_shapley(X, y, X_val, y_val, task="regression")
    np.testing.assert_array_equal(
        nw.knn_shapley(X, make(y), X_val, make(y_val), task="regression"), expected
    )


@pytest.mark.parametrize("fitted", [np.int8, np.uint64, np.int64, np.float32, np.float64, bool])
@pytest.mark.parametrize("given", [np.int16, np.uint64, np.int64, np.float64, bool])
def test_codes_of_numbers_of_any_type(fitted, given):
    classes = check_classes(np.array([1, 0, 1], dtype=fitted), "y")
    codes, unseen = classes.encode(np.array([0, 1, 1], dtype=given), "y_val", 3)
    assert codes.tolist() == [0, 1, 1]
    assert not unseen


def test_codes_of_large_and_unseen_numbers():
    large = [2**53, 2**53 + 1, -(2**63), 2**63 - 1]
    classes = check_classes(np.array(large), "y")
    codes, unseen = classes.encode(np.array([2**53 + 2, -5, *large, 2**62]), "y_val", 7)
    assert [classes.labels[code] if code >= 0 else None for code in codes] == [
        None,
        None,
        *large,
        None,
    ]
    assert unseen == [2**53 + 2, -5, 2**62]


def test_weights_and_owners_from_series(data):
    X, y, X_val, y_val = data
    weights = np.arange(1.0, 9.0)
    v = nw.KNNShapley().fit(X, y).value(X_val, y_val, pl.Series(weights))
    np.testing.assert_array_equal(
        v.values, nw.knn_shapley(X, y, X_val, y_val, sample_weight=weights)
    )
    assert set(v.sum_by(pd.Series(["a", "b"] * 30))) == {"a", "b"}


# What cannot be used


TRAINING = [
    (X, None, "This estimator requires y to be passed, but the target y is None"),
    (X, Y[:5], "y has 5 entries for 6 rows: inconsistent numbers of samples"),
    (X, np.stack([Y, Y], axis=1), "y must be one-dimensional, one entry per row; got shape (6, 2)"),
    (X, pd.DataFrame({"a": Y, "b": Y}), "y is a frame of 2 columns; give one column"),
    (
        X,
        Y + 0.5,
        "y holds continuous values (0.5 at row 0), but task='classification' needs classes",
    ),
    (X, changed(Y, 2, np.nan), "y has NaN or infinity at row 2"),
    (X, [0, 1, None, 1, 0, None], "y has missing values at rows 2, 5"),
    (X, ["a", "b", None, "a", "b", float("nan")], "y has missing values at rows 2, 5"),
    (X, pd.Series(["a", "b", None, "a", "b", "c"]), "y has missing values at row 2"),
    (X, pl.Series(["a", "b", None, "a", "b", None]), "y has missing values at rows 2, 5"),
    (X, np.ma.masked_equal(Y, 1), "y has masked entries at rows 1, 3, 5"),
    (X, [0, "a", 1, "b", 0, 1], "y holds labels of the types int, str. Use numbers or strings"),
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
    (
        X,
        np.array(["2024-01-01", "NaT"] * 3, dtype="M8[D]").astype(object),
        "y has missing values at rows 1, 3, 5",
    ),
]

if hasattr(np.dtypes, "StringDType"):
    text = np.array(["a", None] * 3, dtype=np.dtypes.StringDType(na_object=None))
    TRAINING.append((X, text, "y has missing values at rows 1, 3, 5"))


@pytest.mark.parametrize(("X", "y", "message"), TRAINING, ids=[t[2][:50] for t in TRAINING])
def test_training_labels(X, y, message):
    est = nw.KNNShapley()
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        est.fit(X, y)
    assert not hasattr(est, "classes_")
    assert not hasattr(est, "n_features_in_")


REGRESSION = [
    (list("abcdef"), "y must be numbers for task='regression'; got str such as 'a'"),
    (
        np.array(["1", "2", "3", "4", "5", "6"]),
        "y must be numbers for task='regression'; got str such as '1'",
    ),
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
    ((X_VAL, Y_VAL[:1]), "y_val has 1 entries for 2 rows: inconsistent numbers of samples"),
    ((X_VAL, Y_VAL, [1, -1]), "sample_weight must not be negative; got -1 at row 1"),
    ((X_VAL, Y_VAL, [1, np.nan]), "sample_weight has NaN or infinity at row 1"),
    (
        (X_VAL, Y_VAL, [0, 0]),
        "sample_weight is zero everywhere. At least one validation point must count",
    ),
    ((X_VAL, Y_VAL, [1, 1, 1]), "sample_weight has 3 entries for 2 rows"),
    (
        (X_VAL, Y_VAL, ["a", "b"]),
        "sample_weight must be numbers, one per validation point; got str such as 'a'",
    ),
    (
        (X_VAL, Y_VAL, ["1", "2"]),
        "sample_weight must be numbers, one per validation point; got str such as '1'",
    ),
    ((X_VAL, Y_VAL, [1, None]), "sample_weight has missing values at row 1"),
    ((X_VAL, Y_VAL, Y_VAL.astype("m8[ns]")), "sample_weight must be numbers"),
    (
        (X_VAL, Y_VAL, [1e308, 1]),
        "sample_weight ranges from 1 to 1e+308, too far for sums of squares",
    ),
    ((X_VAL, Y_VAL, [1e-200, 1]), "sample_weight ranges from 1e-200 to 1"),
    ((X_VAL, [0.5, 1]), "y_val holds continuous values"),
    ((X_VAL, ["a", "b"]), "y_val holds text, but y in fit held numbers"),
]


@pytest.mark.parametrize(("arguments", "message"), VALIDATION, ids=[t[1][:50] for t in VALIDATION])
def test_validation_labels_and_weights(arguments, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        nw.KNNShapley().fit(X, Y).value(*arguments)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([6], "contributions must be row numbers of training points (0 to 5)"),
        ([-7], "index -7 is out of bounds"),
        ([0.5], "contributions must be row numbers of training points"),
        ("some", "contributions must be row numbers of training points"),
        (np.zeros((2, 1)), "contributions must be row numbers of training points"),
        (slice("a"), "contributions must be row numbers of training points"),
    ],
)
def test_contributions(rows, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        nw.KNNShapley().fit(X, Y).value(X_VAL, Y_VAL, contributions=rows)


def test_owners():
    v = nw.KNNShapley().fit(X, Y).value(X_VAL, Y_VAL)
    with pytest.raises(ValueError, match="owners has 2 entries for 6 rows"):
        v.sum_by(["a", "b"])
    with pytest.raises(ValueError, match="owners has missing owners at row 1"):
        v.sum_by(["a", None, "a", "a", "b", "b"])
    est = nw.KNNShapley().fit(X, Y)
    dates = np.array(["2026-01-01", "NaT", *["2026-02-01"] * 4], dtype="datetime64[D]")
    for missing in (np.array([1.0, np.nan, 1, 1, 2, 2]), dates):
        with pytest.raises(ValueError, match="owner_of_row has missing owners at row 1"):
            est.value_owners(missing, X_VAL, Y_VAL)


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ("Acme", "acme ", True),
        ("A  b", "a b", True),
        ("bob", "bob\u200d", True),  # an invisible character
        ("\u00e9", "e\u0301", True),  # one character, and a letter with an accent
        ("ab", "a b", False),
        (1, "2", False),
    ],
)
def test_owners_spelled_nearly_alike_are_told(first, second, alike):
    v = nw.KNNShapley().fit(X, Y).value(X_VAL, Y_VAL)
    owners = np.array([first, second, first, second, first, "other"], dtype=object)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(v.sum_by(owners)) == 3
    said = (
        f"owners: {first!r} and {second!r} count as two. Write them alike if they are the same"
        " owner."
    )
    assert [str(each.message) for each in caught] == [said] * alike


def test_amounts_are_told_from_classes(rng):
    prices = (rng.lognormal(7, 1, 20_000).round(-1)).astype(int)  # many share one, most are rare
    assert len(np.unique(prices)) * 5 < len(prices)
    assert are_amounts(prices)
    assert not are_amounts(np.arange(20_000) % 2_000)  # codes without a gap, ten rows of each
    assert not are_amounts(37 * (np.arange(20_000) % 1_000))  # twenty rows of each
    assert not are_amounts(
        37 * rng.zipf(1.5, 2_000).clip(max=60)
    )  # few products, most of them rare
    far = np.concatenate([np.arange(250), [-(2**62), 2**62]]).astype(
        np.int64
    )  # whose range is no 64-bit integer
    assert are_amounts(np.repeat(far, 6))
    assert are_amounts(np.arange(30))
    assert are_amounts(np.array([1.5, 1.5, 2.0]))


def test_values_that_overflow_are_refused():
    with pytest.raises(ValueError, match="y_val holds values too large for 64-bit squares"):
        nw.knn_shapley(X, Y, X_VAL, [1e153, 1], task="regression")
