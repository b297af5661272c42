"""Data that stay on disk: whatever holds them, the values are those of the same numbers in
memory.
"""

from __future__ import annotations

import os
import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import nearworth as nw
from nearworth.inputs.file_rows import FileRows

BUDGET = "8MB"


N = 400
WIDTH = 20
N_VAL = 70


@pytest.fixture
def data(rng):
    X = rng.normal(size=(N, WIDTH)).astype(np.float32)
    X[::5] = X[0]  # ties, and rows that occur many times
    return (
        X,
        rng.integers(0, 3, N),
        rng.normal(size=(N_VAL, WIDTH)).astype(np.float32),
        rng.integers(0, 3, N_VAL),
    )


@pytest.fixture
def in_memory(data):
    return nw.knn_shapley(*data)


def on_disk(X, **parameters):
    """An estimator that must not take X into memory."""
    return nw.KNNShapley(max_memory=BUDGET, n_jobs=1, **parameters)


def vectors(X):
    return pa.FixedSizeListArray.from_arrays(X.ravel(), X.shape[1])


def write_npy(path, X, y):
    np.save(path / "X.npy", X)
    return path / "X.npy"


def write_fortran(path, X, y):
    np.save(path / "F.npy", np.asfortranarray(X))
    return str(path / "F.npy")


def write_map(path, X, y):
    write_npy(path, X, y)
    return np.load(path / "X.npy", mmap_mode="r")


def write_copied_map(path, X, y):
    """Changes of a copy-on-write map are in memory only."""
    write_npy(path, X + 1, y)
    mapped = np.load(path / "X.npy", mmap_mode="c")
    mapped[:] = X
    return mapped


def write_parquet(path, X, y):
    pq.write_table(
        pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])}),
        path / "X.parquet",
        row_group_size=37,
    )
    return path / "X.parquet"


def write_vectors(path, X, y):
    pq.write_table(
        pa.table({"id": list(map(str, y)), "embedding": vectors(X)}),
        path / "v.pq",
        row_group_size=41,
    )
    return path / "v.pq"


def write_lists(path, X, y):
    pq.write_table(pa.table({"embedding": [row.tolist() for row in X]}), path / "l.parquet")
    return str(path / "l.parquet")


def write_folder(path, X, y):
    (path / "folder").mkdir()
    for part, rows in enumerate(np.array_split(X, 3)):
        pq.write_table(pa.table({"embedding": vectors(rows)}), path / "folder" / f"{part}.parquet")
    return path / "folder"


def write_feather(path, X, y):
    feather.write_feather(pa.table({"embedding": vectors(X)}), path / "X.feather", chunksize=53)
    return path / "X.feather"


def write_reader(path, X, y):
    return pa.table({"embedding": vectors(X)}).to_reader(max_chunksize=29)


def write_scanner(path, X, y):
    return ds.dataset(pa.table({"embedding": vectors(X), "y": y, "z": y})).scanner(
        columns=["embedding"]
    )


def write_zarr(path, X, y):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(store=path / "X.zarr", shape=X.shape, chunks=(33, 7), dtype=X.dtype)
    array[:] = X
    return path / "X.zarr"


def write_zarr_array(path, X, y):
    zarr = pytest.importorskip("zarr")
    return zarr.open(write_zarr(path, X, y), mode="r")


def write_hdf5(path, X, y):
    h5py = pytest.importorskip("h5py")
    return h5py.File(path / "X.h5", "w").create_dataset("X", data=X, chunks=(50, WIDTH))


WRITERS = [
    write_npy,
    write_fortran,
    write_map,
    write_copied_map,
    write_parquet,
    write_vectors,
    write_lists,
    write_folder,
    write_feather,
    write_reader,
    write_scanner,
    write_zarr,
    write_zarr_array,
    write_hdf5,
]


@pytest.mark.parametrize("write", WRITERS)
def test_every_source_gives_the_values_of_the_same_numbers_in_memory(
    data, in_memory, tmp_path, write
):
    X, y, X_val, y_val = data
    source = write(tmp_path, X, y)
    est = on_disk(X).fit(source, y)
    assert isinstance(
        est.training_set_.features.data, np.memmap if write is write_copied_map else FileRows
    )
    assert (
        est.training_set_.features.data.dtype == np.float32 or write is write_lists
    )  # narrow stays narrow
    X_val = (
        pd.DataFrame(X_val, columns=[f"c{j}" for j in range(WIDTH)])
        if write is write_parquet
        else X_val
    )
    np.testing.assert_array_equal(est.value(X_val, y_val).values, in_memory)


@pytest.mark.parametrize("write", WRITERS)
def test_validation_sets_may_lie_anywhere_too(data, in_memory, tmp_path, write):
    X, y, X_val, y_val = data
    X = pd.DataFrame(X, columns=[f"c{j}" for j in range(WIDTH)]) if write is write_parquet else X
    source = write(tmp_path, X_val, y_val)
    np.testing.assert_array_equal(on_disk(X).fit(X, y).value(source, y_val).values, in_memory)


def test_small_files_are_read_unless_memory_is_limited(data, in_memory, tmp_path):
    X, y, X_val, y_val = data
    est = nw.KNNShapley().fit(write_npy(tmp_path, X, y), y)
    assert type(est.training_set_.features.data) is np.ndarray
    np.testing.assert_array_equal(est.value(X_val, y_val).values, in_memory)


def test_labels_from_a_file(data, in_memory, tmp_path):
    X, y, X_val, y_val = data
    for name, array in {"X": X, "y": y, "X_val": X_val, "y_val": y_val}.items():
        np.save(tmp_path / f"{name}.npy", array)
    est = on_disk(X).fit(tmp_path / "X.npy", tmp_path / "y.npy")
    values = est.value(str(tmp_path / "X_val.npy"), str(tmp_path / "y_val.npy")).values
    np.testing.assert_array_equal(values, in_memory)


@pytest.mark.parametrize("kind", ["dataset", "path", "wide", "pandas", "polars", "arrow"])
def test_labels_from_a_column(data, in_memory, tmp_path, kind):
    X, y, X_val, y_val = data

    def made(X, y, name):
        columns = (
            {f"c{j}": X[:, j] for j in range(X.shape[1])}
            if kind != "dataset"
            else {"embedding": vectors(X)}
        )
        table = pa.table(columns | {"label": [f"class {label}" for label in y]})
        if kind in ("pandas", "polars", "arrow"):
            return {
                "pandas": table.to_pandas,
                "polars": lambda: pl.from_arrow(table),
                "arrow": lambda: table,
            }[kind]()
        pq.write_table(table, tmp_path / name, row_group_size=90)
        return ds.dataset(tmp_path / name) if kind == "dataset" else tmp_path / name

    est = on_disk(X).fit(made(X, y, "train.parquet"), "label")
    assert est.classes_.tolist() == ["class 0", "class 1", "class 2"]
    np.testing.assert_array_equal(
        est.value(made(X_val, y_val, "val.parquet"), "label").values, in_memory
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"standard_errors": True},
        {"task": "regression"},
        {"metric": "manhattan"},
        {"metric": "cosine"},
        {"metric": "correlation", "task": "regression"},
        {"metric": "inner_product"},
        {"metric": "seuclidean", "metric_params": {"V": np.arange(1.0, 13.0)}},
        {"ties": "index"},
        {"n_candidates": 7},
        {"n_candidates": 7, "metric": "manhattan"},
        {"task": "regression", "standard_errors": True},
        {"n_candidates": 7, "standard_errors": True},
        {"search": "lsh", "n_candidates": 9, "random_state": 0},
    ],
)
def test_every_kind_of_value_is_the_same_to_the_bit(rng, tmp_path, parameters):
    """Enough points for a matrix product; four threads, and batches of few."""
    n = 3_000
    dtype = rng.choice(["<f4", "<f2", "<i1", ">f8"])
    X = (3 * rng.normal(size=(n, 12))).astype(dtype)
    X[::3] = X[1]
    y = rng.integers(0, 3, n)
    X_val = rng.normal(size=(130, 12))
    y_val = rng.integers(0, 3, 130)
    np.save(tmp_path / "X.npy", X)
    expected = nw.KNNShapley(**parameters).fit(X, y).value(X_val, y_val)
    for n_jobs, budget in ((1, "1.6MB"), (4, "9MB")):
        est = nw.KNNShapley(max_memory=budget, n_jobs=n_jobs, **parameters).fit(
            tmp_path / "X.npy", y
        )
        assert isinstance(est.training_set_.features.data, FileRows)
        found = est.value(X_val, y_val)
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.lower, expected.lower)
        if expected.standard_errors is not None:
            np.testing.assert_array_equal(found.standard_errors, expected.standard_errors)
    assert found.origin.training == expected.origin.training


def test_certified_values_of_a_file_are_certain_too(rng, tmp_path):
    """Their bits depend on how distances were rounded: in single precision in memory, in double
    from a file.
    """
    X = rng.normal(size=(3_000, 12))
    y = rng.integers(0, 3, 3_000)
    X_val = rng.normal(size=(130, 12))
    y_val = rng.integers(0, 3, 130)
    np.save(tmp_path / "X.npy", X)
    exact = nw.KNNShapley().fit(X, y).value(X_val, y_val).values
    found = [
        nw.KNNShapley(max_error=1e-4, max_memory="9MB", n_jobs=n_jobs)
        .fit(tmp_path / "X.npy", y)
        .value(X_val, y_val)
        for n_jobs in (1, 4)
    ]
    assert 0 < found[0].error_bound <= 1e-4
    assert 0 < np.abs(found[0].values - exact).max() <= found[0].error_bound
    np.testing.assert_array_equal(found[1].values, found[0].values)
    np.testing.assert_array_equal(found[1].lower, found[0].lower)


@pytest.mark.parametrize("ties", ["average", "index"])
def test_a_file_valued_on_itself(data, tmp_path, ties):
    X, y, _, _ = data
    expected = nw.KNNShapley(ties=ties).fit(X, y).value().values
    values = on_disk(X, ties=ties).fit(write_npy(tmp_path, X, y), y).value().values
    np.testing.assert_array_equal(values, expected)
    assert ties == "index" or len(np.unique(values[::5][y[::5] == y[0]])) == 1


def test_plans_contributions_checkpoints_and_pickles(data, in_memory, tmp_path):
    X, y, X_val, y_val = data
    est = on_disk(X).fit(write_npy(tmp_path, X, y), y)
    assert est.plan(1_000).seconds > 0
    v = est.value(X_val, y_val, contributions=[3, 5])
    np.testing.assert_allclose(v.contributions.mean(axis=0), in_memory[[3, 5]], rtol=1e-12)
    for _ in range(2):
        kept = est.value(X_val, y_val, checkpoint=tmp_path / "kept")
    assert kept.resumed == N_VAL
    np.testing.assert_array_equal(kept.values, in_memory)
    for fitted in (est, on_disk(X).fit(write_folder(tmp_path, X, y), y)):
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.value(X_val, y_val).values, in_memory)


@pytest.mark.parametrize("write", [write_npy, write_vectors])
def test_workers_read_files_where_they_are(data, in_memory, tmp_path, write):
    X, y, X_val, y_val = data
    (tmp_path / "scratch").mkdir()
    est = on_disk(X).fit(write(tmp_path, X, y), y)
    with ThreadPoolExecutor(2) as executor:
        there = est.value(X_val, y_val, executor=executor, scratch=tmp_path / "scratch")
    np.testing.assert_array_equal(there.values, in_memory)
    copies = [path.name for path in (tmp_path / "scratch").rglob("points.npy")]
    assert len(copies) == (write is not write_npy)


# What cannot be read


def test_numbers_that_cannot_be_compared_are_named(data, tmp_path):
    X, y, _, _ = data
    X[123, 4] = np.nan
    with pytest.raises(ValueError, match="X contains NaN at row 123, column 4"):
        on_disk(X).fit(write_npy(tmp_path, X, y), y)
    with pytest.raises(ValueError, match="X contains NaN at row 123, column 'c4'"):
        on_disk(X).fit(write_parquet(tmp_path, X, y), y)
    large = np.full((5, 2), 2**60)
    np.save(tmp_path / "large.npy", large)
    with pytest.raises(ValueError, match=r"beyond 2\*\*53"):
        on_disk(X).fit(tmp_path / "large.npy", [0, 1, 0, 1, 0])


def bad_tables():
    numbers = {"a": [1.0, 2.0], "b": [1, 2]}
    yield "not numeric: 'c'", numbers | {"c": ["x", "y"]}, None
    yield "missing values in column 'b' at row 1", numbers | {"b": pa.array([1, None])}, None
    yield "no column 'label'", numbers, "label"
    yield "several columns of vectors", {"a": [[1.0], [2.0]], "b": [[1.0], [2.0]]}, None
    yield (
        "different lengths in column 'a': most have 1 numbers, row 1 has 2",
        {"a": [[1.0], [1.0, 2.0]]},
        None,
    )
    yield "no vector in column 'a' at row 1", {"a": [[1.0], None]}, None
    yield "no column to compare rows by", {"label": [1, 2]}, "label"
    yield "0 sample", {"a": pa.array([], pa.float32())}, None


@pytest.mark.parametrize(("message", "columns", "label"), list(bad_tables()))
def test_tables_that_are_no_matrix_are_refused(tmp_path, message, columns, label):
    pq.write_table(pa.table(columns), tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match=message):
        nw.KNNShapley().fit(tmp_path / "bad.parquet", [0, 1] if label is None else label)


def test_paths_that_lead_nowhere_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="X: there is no file or folder"):
        nw.KNNShapley().fit(tmp_path / "none.npy", [0])
    (tmp_path / "notes.md").write_text("hello")
    with pytest.raises(ValueError, match=r"X: .*notes.md' is not known as data"):
        nw.KNNShapley().fit(tmp_path / "notes.md", [0])
    (tmp_path / "broken.npy").write_bytes(b"not numpy at all")
    with pytest.raises(ValueError, match="broken.npy is not a numpy file"):
        nw.KNNShapley().fit(tmp_path / "broken.npy", [0])
    np.save(tmp_path / "cut.npy", np.eye(100))
    os.truncate(tmp_path / "cut.npy", 5_000)
    with pytest.raises(ValueError, match="cut"):
        nw.KNNShapley().fit(tmp_path / "cut.npy", [0] * 100)
    np.save(tmp_path / "good.npy", np.eye(4))
    with pytest.raises(ValueError, match="y='label' names a column, but X has no named columns"):
        nw.KNNShapley().fit(tmp_path / "good.npy", "label")
    with pytest.raises(ValueError, match="y='label' names a column, but X has no named columns"):
        nw.KNNShapley().fit(np.eye(4), "label")
    with pytest.raises(ValueError, match="has no column 'label'"):
        nw.KNNShapley().fit(pd.DataFrame({"a": [1.0, 2.0]}), "label")


def test_the_command_line_leaves_arrays_on_disk(data, tmp_path):
    from nearworth.cli import main

    X, y, _, _ = data
    source = str(write_npy(tmp_path, X, y))
    labels = str(tmp_path / "y.npy")
    np.save(labels, y)
    for name, more in {"a.csv": [], "b.csv": ["--max-memory", BUDGET]}.items():
        with pytest.raises(SystemExit) as left:
            main(
                ["value", source, "-t", labels, "-o", str(tmp_path / name), "-q", *more],
                prog_name="nearworth",
            )
        assert not left.value.code
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_the_index_of_pandas_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "label": [0, 1, 0, 1]}, index=[7, 9, 12, 40])
    frame.to_parquet(tmp_path / "with-index.parquet")
    est = nw.KNNShapley(1).fit(tmp_path / "with-index.parquet", "label")
    assert est.feature_names_in_.tolist() == ["a"]


def test_a_missing_number_in_a_vector_is_named_by_its_row(tmp_path):
    vectors = [[1, 2, 3]] * 10
    vectors[6] = [1, None, 3]
    pq.write_table(
        pa.table({"e": pa.array(vectors, pa.list_(pa.int32())), "y": [0, 1] * 5}),
        tmp_path / "v.parquet",
    )
    with pytest.raises(ValueError, match="at row 6"):
        nw.KNNShapley(1).fit(tmp_path / "v.parquet", "y")


@pytest.mark.parametrize("name", ["junk.parquet", "folder.npy", "missing.npy", "archive.npy"])
def test_what_cannot_be_read_names_the_argument(tmp_path, name):
    path = tmp_path / name
    if name == "junk.parquet":
        path.write_bytes(b"junk")
    elif name == "folder.npy":
        path.mkdir()
    elif name == "archive.npy":
        np.savez(tmp_path / "archive.npz", a=np.zeros(3))
        (tmp_path / "archive.npz").rename(path)
    with pytest.raises((ValueError, OSError), match=r"^X"):
        nw.KNNShapley(1).fit(path, [0, 1])
    if name.endswith(".npy"):
        with pytest.raises((ValueError, OSError), match=r"^y"):
            nw.KNNShapley(1).fit(np.zeros((2, 1)), path)


def matrices(X):
    """Each row as a matrix, in every form that a table has for it."""
    nested = X.reshape(len(X), 2, -1)
    return {
        "lists of lists": pa.array(nested.tolist(), pa.list_(pa.list_(pa.float64()))),
        "lists of fixed lists": pa.array(
            nested.tolist(), pa.list_(pa.list_(pa.float64(), nested.shape[2]), 2)
        ),
        "tensors": pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(nested)),
        "sliced": pa.array(
            [[[9.0]], *nested.tolist()], pa.large_list(pa.list_(pa.float64()))
        ).slice(1),
    }


@pytest.mark.parametrize("kind", ["lists of lists", "lists of fixed lists", "tensors", "sliced"])
def test_a_column_of_matrices_is_one_of_vectors(rng, kind):
    X = rng.normal(size=(30, 6))
    y = rng.integers(0, 2, 30)
    table = pa.table({"image": matrices(X)[kind], "label": y})
    np.testing.assert_array_equal(
        nw.KNNShapley(3).fit(table, "label").value().values,
        nw.KNNShapley(3).fit(X, y).value().values,
    )


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            [[[1.0, 2.0], [3.0]], [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]],
            "different lengths in column 'e'",
        ),
        (
            [[[1.0, 2.0], None], [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]],
            "different lengths in column 'e'",
        ),
        (
            [None, [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]],
            "no vector in column 'e' at row 0",
        ),
        ([[["a"]], [["b"]], [["c"]]], "'e' (string)"),
    ],
)
def test_odd_matrices_are_refused(cells, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        nw.KNNShapley(1).fit(pa.table({"e": cells, "label": [0, 1, 1]}), "label")


def test_a_label_column_that_is_not_there():
    table = pa.table({"size": [1.0, 2.0], "Label ": [0, 1]})
    with pytest.raises(
        ValueError, match=re.escape("no column 'lable' for the labels; it has 'size', 'Label '.")
    ):
        nw.KNNShapley(1).fit(table, "lable")


def test_datasets_of_hugging_face(rng):
    pytest.importorskip(
        "datasets.arrow_dataset", reason="datasets is not installed: pip install datasets"
    )
    import datasets

    X = rng.normal(size=(30, 6)).astype(np.float32)
    y = rng.integers(0, 2, 30)
    expected = nw.KNNShapley(3).fit(X, y).value().values
    kinds = {
        "image": datasets.Array2D((2, 3), "float32"),
        "label": datasets.ClassLabel(names=["no", "yes"]),
    }
    images = datasets.Dataset.from_dict(
        {"image": X.reshape(-1, 2, 3), "label": y}, features=datasets.Features(kinds)
    )
    lists = datasets.Dataset.from_dict({"vector": X.tolist(), "label": y})
    for found in (images, images.with_format("numpy"), lists):
        np.testing.assert_array_equal(nw.KNNShapley(3).fit(found, "label").value().values, expected)
    chosen = nw.KNNShapley(3).fit(images.select(range(29, -1, -1)), "label").value()
    np.testing.assert_allclose(chosen.values[::-1], expected, rtol=1e-12)
    with pytest.raises(
        TypeError, match=r"X is a DatasetDict, not one table of rows. Give a Dataset: X\['train'\]"
    ):
        nw.KNNShapley(3).fit(datasets.DatasetDict(train=images), "label")
    with pytest.raises(TypeError, match="X is a IterableDataset, not one table"):
        nw.KNNShapley(3).fit(images.to_iterable_dataset(), "label")


def test_torch_tensors(rng):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    X = rng.normal(size=(30, 6)).astype(np.float32)
    y = rng.integers(0, 2, 30)
    expected = nw.knn_shapley(X, y, n_neighbors=3)
    with_gradient = torch.tensor(X, requires_grad=True)
    for tensor in (
        torch.tensor(X),
        with_gradient,
        torch.nn.Parameter(with_gradient),
        with_gradient.to_sparse(),
    ):
        np.testing.assert_array_equal(
            nw.knn_shapley(tensor, torch.tensor(y), n_neighbors=3), expected
        )
    narrow = with_gradient.bfloat16()
    np.testing.assert_array_equal(
        nw.knn_shapley(narrow, y, n_neighbors=3),
        nw.knn_shapley(narrow.detach().float().numpy(), y, n_neighbors=3),
    )
    with pytest.raises(ValueError, match="X must have two dimensions"):
        nw.knn_shapley(torch.zeros(30, 2, 2), y)
    with pytest.raises(ValueError, match="Complex data not supported"):
        nw.knn_shapley(torch.complex(with_gradient, with_gradient), y)
