"""Every container that users have their data in."""

from __future__ import annotations

import enum
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import nearworth as nw

COLUMNS = ["width", "height", "depth"]


@pytest.fixture
def data(rng):
    return rng.normal(size=(60, 3)), rng.integers(0, 3, 60), rng.normal(size=(8, 3)), rng.integers(0, 3, 8)


FRAMES = {
    "pandas": lambda X: pd.DataFrame(X, columns=COLUMNS),
    "polars": lambda X: pl.DataFrame(dict(zip(COLUMNS, X.T, strict=True))),
    "pyarrow": lambda X: pa.table(dict(zip(COLUMNS, X.T, strict=True))),
}
SERIES = {
    "pandas": pd.Series,
    "polars": lambda y: pl.Series("y", y),
    "pyarrow": lambda y: pa.chunked_array([y[:20], y[20:]]) if len(y) > 20 else pa.chunked_array([y]),
}


@pytest.mark.parametrize("library", FRAMES)
def test_frames(data, library):
    X, y, X_val, y_val = data
    frame, series = FRAMES[library], SERIES[library]
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
    expected = nw.KNNShapley().fit(np.column_stack([c.astype(float) for c in columns.values()]), y).value().values
    np.testing.assert_array_equal(nw.KNNShapley().fit(make(columns), y).value().values, expected)


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


class Colour(enum.Enum):
    RED = 1
    GREEN = 2
    BLUE = 3


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
    "bytes": lambda y: np.array([b"red", b"green", b"blue"])[y],
    "object ints": lambda y: y.astype(object),
    "enum": lambda y: [list(Colour)[i] for i in y],
    "tuples": lambda y: _objects([(i, "x") for i in y]),
    "pandas strings": lambda y: pd.Series(np.array(["red", "green", "blue"])[y]),
    "pandas categorical": lambda y: pd.Series(np.array(["red", "green", "blue"])[y], dtype="category"),
    "pandas categorical of ints": lambda y: pd.Series(y, dtype="category"),
    "pandas Categorical": lambda y: pd.Categorical(np.array(["red", "green", "blue"])[y]),
    "pandas index": lambda y: pd.Index(y),
    "pandas frame": lambda y: pd.DataFrame({"label": y}),
    "polars strings": lambda y: pl.Series(np.array(["red", "green", "blue"])[y].tolist()),
    "polars categorical": lambda y: pl.Series(np.array(["red", "green", "blue"])[y].tolist(), dtype=pl.Categorical),
    "polars enum": lambda y: pl.Series(
        np.array(["red", "green", "blue"])[y].tolist(), dtype=pl.Enum(["red", "green", "blue"])
    ),
    "pyarrow strings": lambda y: pa.chunked_array([np.array(["red", "green", "blue"])[y].tolist()]),
    "pyarrow dictionary": lambda y: pa.chunked_array(
        [pa.array(["red", "green", "blue"] * 0 + np.array(["red", "green", "blue"])[y].tolist()).dictionary_encode()]
    ),
    "pyarrow array": lambda y: pa.array(y),
}


def _objects(items):
    column = np.empty(len(items), dtype=object)
    column[:] = items
    return column


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
    np.testing.assert_array_equal(est.value(X_val, y_val.astype(float)).values, est.value(X_val, y_val).values)
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
    y, y_val = np.arange(60.0) % 2, np.arange(8.0) % 2
    expected = nw.knn_shapley(X, y, X_val, y_val, task="regression")
    np.testing.assert_array_equal(nw.knn_shapley(X, make(y), X_val, make(y_val), task="regression"), expected)


def test_memory_maps_are_not_read_into_a_copy_by_the_door(data, tmp_path):
    X, y, X_val, y_val = data
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    est = nw.KNNShapley().fit(mapped, y)
    assert isinstance(est.training_set_.features.data, np.memmap)
    expected = nw.knn_shapley(X.astype(np.float32), y, X_val, y_val)
    np.testing.assert_array_equal(est.value(X_val, y_val).values, expected)


def test_weights_and_owners_from_series(data):
    X, y, X_val, y_val = data
    weights = np.arange(1.0, 9.0)
    v = nw.KNNShapley().fit(X, y).value(X_val, y_val, pl.Series(weights))
    np.testing.assert_array_equal(v.values, nw.knn_shapley(X, y, X_val, y_val, sample_weight=weights))
    assert set(v.sum_by(pd.Series(["a", "b"] * 30))) == {"a", "b"}


def test_works_without_pandas_and_polars():
    """Frames go through narwhals; neither library may be imported, let alone needed."""
    code = """
import sys
from importlib.machinery import PathFinder
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, *rest):
        return None if name.split(".")[0] in ("pandas", "polars") else super().find_spec(name, *rest)
sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
import numpy as np, pyarrow as pa, nearworth as nw
X = pa.table({"a": [0.0, 1.0, 2.0], "b": [1, 0, 1]})
v = nw.KNNShapley(1).fit(X, pa.chunked_array([["p", "q", "p"]])).value(X, ["p", "q", "q"])
assert isinstance(v.to_frame(), pa.Table) and np.isfinite(v.values).all()
assert isinstance(nw.KNNShapley(1).fit(np.eye(3), [0, 1, 1]).value().to_frame(), pa.Table)
assert "pandas" not in sys.modules and "polars" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
