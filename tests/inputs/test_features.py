"""X in every container that users have, and what is said about X that cannot be used."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import nearworth as nw
from nearworth.inputs.features import check_features

X = np.arange(12.0).reshape(6, 2)
Y = np.array([0, 1, 0, 1, 0, 1])
X_VAL = X[:2] + 0.25
Y_VAL = Y[:2]
COLUMNS = ["width", "height", "depth"]


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


FRAMES = {
    "pandas": lambda X: pd.DataFrame(X, columns=COLUMNS),
    "polars": lambda X: pl.DataFrame(dict(zip(COLUMNS, X.T, strict=True))),
    "pyarrow": lambda X: pa.table(dict(zip(COLUMNS, X.T, strict=True))),
}


SERIES = {
    "pandas": pd.Series,
    "polars": lambda y: pl.Series("y", y),
    "pyarrow": lambda y: (
        pa.chunked_array([y[:20], y[20:]]) if len(y) > 20 else pa.chunked_array([y])
    ),
}


@pytest.mark.parametrize("library", FRAMES)
def test_frames(data, library):
    X, y, X_val, y_val = data
    frame = FRAMES[library]
    series = SERIES[library]
    est = nw.KNNShapley().fit(frame(X), series(y))
    v = est.value(frame(X_val), series(y_val))
    np.testing.assert_array_equal(v.values, nw.knn_shapley(X, y, X_val, y_val))
    assert est.feature_names_in_.tolist() == COLUMNS
    assert est.n_features_in_ == 3
    assert type(v.to_frame()) is type(frame(X))
    assert type(v.sum_by(series(y)).to_frame()) is type(frame(X))


@pytest.mark.parametrize("library", FRAMES)
def test_frame_columns_of_every_numeric_type(data, library, rng):
    columns = {
        "int8": rng.integers(0, 5, 30).astype(np.int8),
        "uint64": rng.integers(0, 5, 30).astype(np.uint64),
        "float32": rng.normal(size=30).astype(np.float32),
        "bool": rng.integers(0, 2, 30).astype(bool),
    }
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library]
    y = rng.integers(0, 2, 30)
    expected = (
        nw.KNNShapley()
        .fit(np.column_stack([c.astype(float) for c in columns.values()]), y)
        .value()
        .values
    )
    np.testing.assert_array_equal(nw.KNNShapley().fit(make(columns), y).value().values, expected)


@pytest.mark.parametrize("library", FRAMES)
def test_a_frame_with_a_column_of_vectors(data, library):
    X, y, X_val, y_val = data
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library]
    frames = [
        make({"name": list(map(str, labels)), "vector": rows.tolist()})
        for rows, labels in ((X, y), (X_val, y_val))
    ]
    np.testing.assert_array_equal(
        nw.knn_shapley(frames[0], y, frames[1], y_val), nw.knn_shapley(X, y, X_val, y_val)
    )


def test_nullable_pandas_columns(data):
    X, y, _, _ = data
    frame = pd.DataFrame(X, columns=COLUMNS).convert_dtypes()
    labels = pd.Series(y, dtype="Int64")
    values = nw.KNNShapley().fit(frame, labels).value(frame.iloc[:8], labels.iloc[:8]).values
    np.testing.assert_array_equal(values, nw.knn_shapley(X, y, X[:8], y[:8]))
    frame.iloc[[3, 7], 1] = pd.NA
    with pytest.raises(ValueError, match=r"X .*'height'.*row"):
        nw.KNNShapley().fit(frame, labels)
    labels.iloc[[2, 5]] = pd.NA
    with pytest.raises(ValueError, match="y has missing values at rows 2, 5"):
        nw.KNNShapley().fit(X, labels)


def test_memory_maps_are_not_read_into_a_copy_by_validation(data, tmp_path):
    X, y, X_val, y_val = data
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    est = nw.KNNShapley().fit(mapped, y)
    assert isinstance(est.training_set_.features.data, np.memmap)
    expected = nw.knn_shapley(X.astype(np.float32), y, X_val, y_val)
    np.testing.assert_array_equal(est.value(X_val, y_val).values, expected)


def test_works_without_pandas_and_polars():
    """Frames go through narwhals; neither library may be imported, let alone needed."""
    code = """
import sys
from importlib.machinery import PathFinder
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, *rest):
        if name.split(".")[0] in ("pandas", "polars"):
            return None
        return super().find_spec(name, *rest)
sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
import numpy as np, pyarrow as pa, nearworth as nw
X = pa.table({"a": [0.0, 1.0, 2.0], "b": [1, 0, 1]})
v = nw.KNNShapley(1).fit(X, pa.chunked_array([["p", "q", "p"]])).value(X, ["p", "q", "q"])
assert isinstance(v.to_frame(), pa.Table) and np.isfinite(v.values).all()
assert isinstance(nw.KNNShapley(1).fit(np.eye(3), [0, 1, 1]).value().to_frame(), pa.Table)
assert "pandas" not in sys.modules and "polars" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# What cannot be used


TRAINING = [
    (changed(X, (3, 1), np.nan), Y, "X contains NaN at row 3, column 1"),
    (changed(X, (2, 0), np.inf), Y, "X contains infinity (inf) at row 2, column 0"),
    (changed(X, (2, 0), -np.inf), Y, "X contains infinity (inf) at row 2, column 0"),
    (
        changed(X, (4, 1), 1e200),
        Y,
        "X holds values too large for 64-bit distances: 1e+200 at row 4, column 1",
    ),
    (
        pd.DataFrame(changed(X, (3, 1), np.nan), columns=["a", "b"]),
        Y,
        "X contains NaN at row 3, column 'b'",
    ),
    (pl.DataFrame({"a": [1.0, None, 3, 4, 5, 6]}), Y, "X contains NaN at row 1, column 'a'"),
    (
        pl.DataFrame({"a": [1, None, 3, 4, None, 6]}),
        Y,
        "X has missing values in column 'a' at rows 1, 4",
    ),
    (
        pd.DataFrame({"a": range(6), "b": list("uvwxyz")}),
        Y,
        "X has a column that is not numeric: 'b'",
    ),
    (
        pd.DataFrame({"a": pd.Categorical([1, 2] * 3)}),
        Y,
        "X has a column that is not numeric: 'a' (dictionary",
    ),
    (
        pd.DataFrame({"a": [0, 1, "x", 2, 3, []]}),
        Y,
        "X has a column that cannot be read as numbers",
    ),
    (pl.DataFrame({"a": range(6)}).lazy(), Y, "X is a lazy frame. Call .collect()"),
    (scipy.sparse.csr_array(changed(X, (3, 1), np.nan)), Y, "X contains NaN at row 3, column 1"),
    (scipy.sparse.csr_array(X + 1j), Y, "Complex data not supported"),
    (X + 1j, Y, "Complex data not supported"),
    (
        X[:, 0],
        Y,
        "X must have two dimensions, one row per point; got shape (6,). Reshape your data",
    ),
    (X[None], Y, "X must have two dimensions, one row per point; got shape (1, 6, 2)"),
    (np.empty((0, 2)), Y[:0], "X has 0 sample(s) (shape=(0, 2)) while a minimum of 1 is required"),
    (np.empty((6, 0)), Y, "X has 0 feature(s) (shape=(6, 0)) while a minimum of 1 is required"),
    ([[1, 2], [3]], [0, 1], "X is not a rectangular array"),
    ([["a", "b"], ["c", "d"]], [0, 1], "X must hold numbers; got dtype <U1"),
    (
        np.array([["a", 1], ["c", 2]], dtype=object),
        [0, 1],
        "X has entries that are not 64-bit numbers",
    ),
    (X.astype("datetime64[s]"), Y, "X must hold numbers; got dtype datetime64"),
    (np.ma.masked_greater(X, 9), Y, "X is a masked array with 2 masked entries"),
    (None, Y, "X is None"),
    (pd.DataFrame(X, columns=["a", "a"]), Y, "X has two columns of one name"),
    (np.array([[2**60], [2**60 + 1]]), [0, 1], "X holds whole numbers beyond 2**53"),
    (np.array([[10**400, 1]], dtype=object), [0], "X has entries that are not 64-bit numbers"),
]


@pytest.mark.parametrize(("X", "y", "message"), TRAINING, ids=[t[2][:50] for t in TRAINING])
def test_training_features(X, y, message):
    est = nw.KNNShapley()
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        est.fit(X, y)
    assert not hasattr(est, "classes_")
    assert not hasattr(est, "n_features_in_")


VALIDATION = [
    ((X_VAL[:, :1], Y_VAL), "X_val has 1 features, but X had 2 features when fit was called"),
    ((changed(X_VAL, (1, 1), np.nan), Y_VAL), "X_val contains NaN at row 1, column 1"),
    ((X_VAL, None), "X_val and y_val go together: give both, or neither"),
    ((None, Y_VAL), "X_val and y_val go together: give both, or neither"),
    ((scipy.sparse.csr_array(X_VAL), Y_VAL), "One of X and X_val is sparse. Use X_val.toarray()"),
    ((np.empty((0, 2)), []), "X_val has 0 sample(s)"),
]


@pytest.mark.parametrize(("arguments", "message"), VALIDATION, ids=[t[1][:50] for t in VALIDATION])
def test_validation_features(arguments, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        nw.KNNShapley().fit(X, Y).value(*arguments)


def test_feature_names():
    train = pd.DataFrame(X, columns=["a", "b"])
    est = nw.KNNShapley().fit(train, Y)
    with pytest.raises(
        ValueError, match="X_val has other feature names than X in fit. Their order differs"
    ):
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
    with pytest.raises(
        ValueError, match=r"X must be 6 x 6 distances between training points; got \(6, 2\)"
    ):
        est.fit(X, Y)
    with pytest.raises(
        ValueError, match=r"X_val must be validation points x 6 distances; got \(2, 5\)"
    ):
        est.fit(D, Y).value(D[:2, :5], Y_VAL)
    with pytest.raises(ValueError, match="needs distances between training points: fit"):
        est.fit(None, Y).value()
    with pytest.raises(
        TypeError, match="X_val is sparse, but metric='precomputed' needs every distance"
    ):
        est.fit(None, Y).value(scipy.sparse.csr_array(D[:2]), Y_VAL)
    with pytest.raises(ValueError, match="y has 5 entries for 6 rows"):
        est.fit(D, Y[:5])


def test_sparse_metrics():
    with pytest.raises(
        ValueError, match="metric='chebyshev' does not work on sparse data. Use one of 'euclidean'"
    ):
        nw.KNNShapley(metric="chebyshev").fit(scipy.sparse.csr_array(X), Y)
    with pytest.raises(TypeError, match="One of X and X_val is sparse"):
        nw.KNNShapley().fit(scipy.sparse.csr_array(X), Y).value(X_VAL, Y_VAL)


def test_self_valuation_of_one_point():
    with pytest.raises(ValueError, match="needs at least 2 training points. Give X_val and y_val"):
        nw.KNNShapley().fit(X[:1], Y[:1]).value()


def test_a_failed_fit_leaves_the_earlier_one(rng):
    est = nw.KNNShapley().fit(X, Y)
    before = est.value(X_VAL, Y_VAL).values
    with pytest.raises(ValueError, match="NaN"):
        est.fit(changed(X, (0, 0), np.nan), Y)
    np.testing.assert_array_equal(est.value(X_VAL, Y_VAL).values, before)


def test_scales_of_metrics_that_do_not_exist():
    with pytest.raises(ValueError, match="metric='seuclidean' needs a scale, such as"):
        nw.KNNShapley(metric="seuclidean").fit(X, Y)
    with pytest.raises(ValueError, match="metric='minkowski' gives infinity"):
        nw.KNNShapley(metric="minkowski", metric_params={"p": 3}).fit(X * 1e120, Y).value(
            X_VAL, Y_VAL
        )
    with pytest.raises(ValueError, match="metric='minkowski' does not work on these data") as error:
        nw.KNNShapley(metric="minkowski", metric_params={"q": 3}).fit(X, Y)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    "index",
    [
        pd.Index(["a", "a", "b", "c"]),
        pd.Index(["a", None, "b", "c"]),
        pd.Index([1, "a", 2.0, (3,)]),
        pd.MultiIndex.from_tuples([("a", 1), ("a", 1), (None, 2), ("b", 3)]),
        pd.Index([3, 2, 1, 0], name="x"),
    ],
)
def test_an_index_of_any_kind_is_kept_and_is_no_feature(index):
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}, index=index)
    features = check_features(frame, "X")
    assert features.data.tolist() == [[1.0], [2.0], [3.0], [4.0]]
    assert features.index is frame.index


@pytest.mark.parametrize(
    "frame", [pd.DataFrame(), pd.DataFrame({"x": []}), pd.DataFrame(index=[1, 2])]
)
def test_empty_frames_are_refused(frame):
    with pytest.raises(ValueError, match="X has"):
        check_features(frame, "X")
