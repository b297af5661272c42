"""The result object."""

from __future__ import annotations

import json
import pickle
import zipfile
from dataclasses import FrozenInstanceError
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import nearworth as nw
from nearworth._common.files import read_archive, write_archive
from nearworth._common.frames import index_to_bytes


@pytest.fixture
def problem(rng):
    return (
        rng.normal(size=(80, 2)),
        rng.integers(0, 3, 80),
        rng.normal(size=(150, 2)),
        rng.integers(0, 3, 150),
    )


@pytest.fixture
def est(problem):
    return nw.KNNShapley(4, standard_errors=True).fit(*problem[:2])


def test_fields_and_origin(est, problem):
    v = est.value(*problem[2:])
    assert v.values.shape == v.standard_errors.shape == (80,)
    assert v.values.dtype == np.float64
    assert v.error_bound == 0.0
    assert v.confidence == 1.0
    assert (len(v), v.n_train, v.n_val) == (80, 80, 150)
    np.testing.assert_array_equal(v.lower, v.values)
    np.testing.assert_array_equal(v.upper, v.values)
    np.testing.assert_array_equal(np.asarray(v), v.values)
    p = v.origin
    assert (p.version, p.n_train, p.n_val, p.n_classes) == (nw.__version__, 80, 150, 3)
    assert p.parameters["n_neighbors"] == 4
    assert p.training == est.value().origin.training
    assert p.validation != est.value(problem[2] + 1, problem[3]).origin.validation
    assert est.value().origin.is_leave_one_out
    assert not p.is_leave_one_out


def test_fingerprints_know_data_from_containers(problem):
    X, y, X_val, y_val = problem

    def made_from(X, y):
        return nw.KNNShapley().fit(X, y).value(X_val, y_val).origin.training

    assert (
        made_from(X, y) == made_from(np.asfortranarray(X), y.tolist()) == made_from(X.tolist(), y)
    )
    assert made_from(X, y) != made_from(X + 1e-12, y)
    assert made_from(X, y) != made_from(X, y[::-1])


def test_frozen(est, problem):
    v = est.value(*problem[2:])
    with pytest.raises(FrozenInstanceError):
        v.origin = None


def test_ranking_top_bottom(est, problem):
    v = est.value(*problem[2:])
    assert (np.diff(v.values[v.order]) <= 0).all()
    assert v.top(3).tolist() == v.order[:3].tolist()
    assert v.values[v.bottom(1)[0]] == v.values.min()
    assert (np.diff(v.values[v.bottom(80)]) >= 0).all()
    assert v.top(0).size == 0
    assert v.top(1000).size == 80


@pytest.mark.parametrize(
    ("backend", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)]
)
def test_to_frame(est, problem, backend, kind):
    v = est.value(*problem[2:])
    frame = v.to_frame(backend)
    assert isinstance(frame, kind)
    columns = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert columns == ["row", "value", "standard_error", "rank"]
    np.testing.assert_array_equal(np.asarray(frame["value"]), v.values)
    ranks = np.asarray(frame["rank"])
    assert ranks[v.order[0]] == 1
    assert ranks[v.order[-1]] == 80
    with pytest.raises(ValueError, match="backend='numpy' is not known"):
        v.to_frame("numpy")


def test_equal_values_share_a_rank():
    v = nw.KNNShapley(1).fit([[0], [0], [1]], [1, 1, 0]).value([[0]], [1])
    assert v.to_frame("pyarrow")["rank"].to_pylist() == [1, 1, 3]
    assert "standard_error" not in v.to_frame("pyarrow").column_names


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
def test_valuations_on_different_validation_sets_add_up(problem, aggregate, rng):
    X, y, X_val, y_val = problem
    weights = rng.uniform(0, 3, 150)
    est = nw.KNNShapley(4, standard_errors=True, aggregate=aggregate).fit(X, y)
    whole = est.value(X_val, y_val, weights)
    parts = [est.value(X_val[s], y_val[s], weights[s]) for s in np.array_split(np.arange(150), 4)]
    added = reduce(add, parts)
    np.testing.assert_allclose(added.values, whole.values, rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(added.standard_errors, whole.standard_errors, rtol=1e-12)
    assert added.n_val == 150
    single = est.value(X_val[:1], y_val[:1], weights[:1]) + est.value(
        X_val[1:], y_val[1:], weights[1:]
    )
    np.testing.assert_allclose(single.standard_errors, whole.standard_errors, rtol=1e-12)


def test_sum_adds_valuations(est, problem):
    X_val, y_val = problem[2:]
    parts = [est.value(X_val[s], y_val[s]) for s in (slice(0, 50), slice(50, 90), slice(90, 150))]
    added = sum(parts)
    expected = parts[0] + parts[1] + parts[2]
    np.testing.assert_array_equal(added.values, expected.values)
    np.testing.assert_array_equal(added.standard_errors, expected.standard_errors)
    assert added.origin == expected.origin
    assert sum(parts[:1]) is parts[0]
    for start in (1, 0.5, "text"):
        with pytest.raises(TypeError):
            start + parts[0]


def test_what_does_not_belong_together_does_not_add_up(problem):
    X, y, X_val, y_val = problem
    a = nw.KNNShapley(4).fit(X, y).value(X_val, y_val)
    with pytest.raises(ValueError, match="they differ in n_neighbors: 4 and 5"):
        a + nw.KNNShapley(5).fit(X, y).value(X_val, y_val)
    with pytest.raises(ValueError, match="they differ in the training data"):
        a + nw.KNNShapley(4).fit(X + 1, y).value(X_val, y_val)
    with pytest.raises(TypeError):
        a + 1
    with pytest.raises(ValueError, match="share a validation set"):
        a + nw.KNNShapley(4).fit(X, y).value(X_val, y_val)
    # how it was computed is not what was computed
    assert (
        a + nw.KNNShapley(4, max_memory="1GB", n_jobs=1).fit(X, y).value(X_val + 1, y_val)
    ).n_val == 300
    by_function = [
        nw.KNNShapley(metric=m).fit(X, y).value(X_val[:5], y_val[:5])
        for m in (lambda a, b: a @ b, lambda a, b: a @ b + 1)
    ]
    with pytest.raises(ValueError, match="they differ in metric"):
        by_function[0] + by_function[1]


def test_save_and_load(est, problem, tmp_path):
    v = est.value(*problem[2:])
    path = tmp_path / "values.npz"
    v.save(path)
    again = nw.Valuation.load(path)
    np.testing.assert_array_equal(again.values, v.values)
    np.testing.assert_array_equal(again.standard_errors, v.standard_errors)
    assert again.origin == v.origin
    assert repr(again) == repr(v)
    assert (again + est.value(problem[2] + 1, problem[3])).n_val == 300
    assert [p.name for p in tmp_path.iterdir()] == ["values.npz"]


def test_the_file_is_open_to_all(est, problem, tmp_path):
    """A zip of .npy files and one JSON text: readable without this package and without pickle."""
    v = est.value(*problem[2:])
    v.save(tmp_path / "v.npz")
    assert zipfile.is_zipfile(tmp_path / "v.npz")
    with np.load(tmp_path / "v.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["values"], v.values)
        assert json.loads(str(archive["description"]))["origin"]["parameters"]["n_neighbors"] == 4


def test_a_failing_save_leaves_the_old_file(est, problem, tmp_path, monkeypatch):
    v = est.value(*problem[2:])
    v.save(tmp_path / "v.npz")
    before = (tmp_path / "v.npz").read_bytes()

    def full_disk(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(OSError, match="No space left"):
        v.save(tmp_path / "v.npz")
    assert (tmp_path / "v.npz").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_loading_something_else(tmp_path):
    with pytest.raises(FileNotFoundError):
        nw.Valuation.load(tmp_path / "nothing.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(ValueError, match="text.npz' is not a valuation saved by nearworth"):
        nw.Valuation.load(tmp_path / "text.npz")
    np.savez(tmp_path / "other.npz", values=np.ones(3))
    with pytest.raises(ValueError, match="is not a valuation saved by nearworth"):
        nw.Valuation.load(tmp_path / "other.npz")
    np.savez_compressed(
        tmp_path / "old.npz", description='{"format": "nearworth valuation 1"}', total=np.ones(3)
    )
    with pytest.raises(ValueError, match="its arrays claim to be larger than the file"):
        nw.Valuation.load(tmp_path / "old.npz")
    nw.Partial().save(tmp_path / "a.part")
    with pytest.raises(
        ValueError,
        match="its format is 'nearworth part 2', this version reads 'nearworth valuation 2'",
    ):
        nw.Valuation.load(tmp_path / "a.part")


def test_a_damaged_file_is_refused(est, problem, tmp_path, rng):
    path = tmp_path / "v.npz"
    v = est.value(*problem[2:])
    v.save(path)
    whole = path.read_bytes()
    for position in rng.integers(0, len(whole), 200):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            found = nw.Valuation.load(path)
        except ValueError as error:
            assert "or it is damaged" in str(error)  # noqa: PT017 - dates in the archive may change
        else:
            np.testing.assert_array_equal(found.values, v.values)
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="or it is damaged"):
            nw.Valuation.load(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"total": np.ones(79)}, "'centre' has shape|'spread' has shape"),
        ({"total": np.ones((1, 80))}, "'total' has shape"),
        ({"centre": np.ones(80, dtype="f4")}, "'centre' has shape"),
        ({"ends": np.ones((3, 80))}, "'ends' has shape"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(est, problem, tmp_path, arrays, message):
    """Whole files, but not what `save` writes."""
    est.value(*problem[2:]).save(tmp_path / "v.npz")
    description, found = read_archive(tmp_path / "v.npz", "valuation", lambda *read: read)
    write_archive(tmp_path / "v.npz", "valuation", description, {**found, **arrays})
    with pytest.raises(ValueError, match=message):
        nw.Valuation.load(tmp_path / "v.npz")


def test_descriptions_that_do_not_fit_are_refused(est, problem, tmp_path):
    est.value(*problem[2:]).save(tmp_path / "v.npz")
    description, arrays = read_archive(tmp_path / "v.npz", "valuation", lambda *read: read)
    origin = description["origin"]
    changes = [
        {"sums": []},
        {"sums": [150, 150, 0, 0, 0]},
        {"sums": [149, 149, 149.0, 149.0, 0.0]},
        {"backend": 3},
        {"confidence": "high"},
        {"origin": {}},
        {"origin": {**origin, "n_train": 81}},
        {"origin": {**origin, "n_train": "many"}},
        {"origin": {**origin, "validation": [[0, "150", "hash"]]}},
        {"origin": {**origin, "parameters": {}}},
        {"origin": {**origin, "surplus": 1}},
        {"origin": None},
    ]
    for change in changes:
        write_archive(tmp_path / "v.npz", "valuation", {**description, **change}, arrays)
        with pytest.raises(
            ValueError, match="is not a valuation saved by nearworth, or it is damaged: "
        ):
            nw.Valuation.load(tmp_path / "v.npz")
    for name in arrays:
        less = {other: array for other, array in arrays.items() if other != name}
        write_archive(tmp_path / "v.npz", "valuation", description, less)
        if name != "total":  # what is there is whole
            assert nw.Valuation.load(tmp_path / "v.npz").n_val == 150
            continue
        with pytest.raises(
            ValueError, match="is not a valuation saved by nearworth, or it is damaged: "
        ):
            nw.Valuation.load(tmp_path / "v.npz")


def test_callable_metrics_and_arrays_in_parameters_can_be_saved(problem, tmp_path):
    X, y, X_val, y_val = problem
    for parameters in (
        {"metric": lambda a, b: abs(a - b).sum()},
        {"metric": "seuclidean", "metric_params": {"V": np.ones(2)}},
        {"semivalue": ("beta", np.float64(2), 1)},
        {"semivalue": ("beta", Fraction(1, 2), 1)},
        {"n_neighbors": np.int64(3)},
    ):
        v = nw.KNNShapley(**parameters).fit(X, y).value(X_val[:3], y_val[:3])
        v.save(tmp_path / "v.npz")
        assert nw.Valuation.load(tmp_path / "v.npz").origin == v.origin


def test_pickle(est, problem):
    v = est.value(*problem[2:])
    again = pickle.loads(pickle.dumps(v))
    np.testing.assert_array_equal(again.values, v.values)
    assert np.isnan(again.sum_by(["a"] * 80)["a"].standard_error)


def test_repr_says_what_matters(est, problem):
    text = repr(est.value(*problem[2:]))
    assert "80 training points on 150 validation points" in text
    assert "classification, soft utility, shapley, K = 4" in text
    assert "exact" in text
    assert "each other (leave-one-out)" in repr(est.value())


def test_repr_names_the_parameters_that_define_the_votes(problem):
    X, y, X_val, y_val = problem
    plain = repr(nw.KNNShapley(4).fit(X, y).value(X_val, y_val))
    assert "radius" not in plain
    assert "weights" not in plain
    with_radius = nw.KNNShapley(4, radius=0.5).fit(X, y).value(X_val, y_val)
    assert "shapley, radius = 0.5, euclidean" in repr(with_radius)
    assert "K = " not in repr(with_radius)
    by_distance = nw.KNNShapley(4, utility="original", weights="inverse").fit(X, y)
    assert "shapley, K = 4, weights = inverse, euclidean" in repr(by_distance.value(X_val, y_val))

    def halved(distances):
        return np.full(len(distances), 0.5)

    by_function = nw.KNNShapley(4, utility="original", weights=halved).fit(X, y)
    assert "halved" in repr(by_function.value(X_val, y_val))


def test_sum_by(est, problem):
    v = est.value(*problem[2:])
    owners = ["ann", "bob"] * 40
    table = v.sum_by(owners)
    assert list(table) == ["ann", "bob"]
    assert table["ann"].total == pytest.approx(v.values[::2].sum())
    assert sum(row.total for row in table.values()) == pytest.approx(v.values.sum())
    assert sum(row.share for row in table.values()) == pytest.approx(1)
    singles = v.sum_by(np.arange(80))
    np.testing.assert_allclose(
        [row.standard_error for row in singles.values()], v.standard_errors, rtol=1e-12
    )
    frame = table.to_frame("pandas")
    assert frame.columns.tolist() == ["owner", "total", "standard_error", "share", "n_rows"]
    assert "ann" in repr(table)
    everybody = v.sum_by(np.zeros(80, dtype=int))[0]
    assert everybody.share == pytest.approx(1)


def test_sum_by_without_standard_errors(problem):
    v = nw.KNNShapley().fit(*problem[:2]).value(*problem[2:])
    assert np.isnan(v.sum_by(["a"] * 80)["a"].standard_error)


def test_sum_by_in_self_valuation(problem):
    X, y, _, _ = problem
    v = nw.KNNShapley(3, standard_errors=True).fit(X, y).value(contributions="all")
    owners = np.arange(80) % 3
    for owner, row in v.sum_by(owners).items():
        single = v.contributions[:, owners == owner].sum(axis=1)
        assert row.total == pytest.approx(single.mean(), rel=1e-10)
        assert row.standard_error == pytest.approx(single.std(ddof=1) / np.sqrt(80), rel=1e-10)


def test_owners_may_be_dates(est, problem):
    dates = np.array(["2024-01-01", "2024-06-01"] * 40, dtype="M8[ns]")
    assert [str(owner)[:10] for owner in est.value(*problem[2:]).sum_by(dates)] == [
        "2024-01-01",
        "2024-06-01",
    ]


def test_totals_of_owners_keep_the_certificate(rng):
    X = rng.normal(size=(900, 3))
    X_val = rng.normal(size=(20, 3))
    y = rng.integers(0, 2, 900)
    y_val = rng.integers(0, 2, 20)
    owners = np.arange(900) % 3
    exact = nw.KNNShapley(3).fit(X, y).value(X_val, y_val).sum_by(owners)
    assert all(row.lower == row.total == row.upper for row in exact.values())
    assert "lower" not in exact.to_frame("pandas").columns
    rough = nw.KNNShapley(3, n_candidates=30).fit(X, y).value(X_val, y_val).sum_by(owners)
    assert "not exact" in repr(rough)
    for owner, row in rough.items():
        assert row.lower <= exact[owner].total <= row.upper
        assert row.lower <= row.total <= row.upper


@pytest.fixture
def indexed(rng):
    """A valuation of rows in a pandas frame, whose index has a name and labels that occur twice."""
    index = pd.Index([f"row {i % 37}" for i in range(40)], name="value")
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"], index=index)
    return nw.KNNShapley(3).fit(X, rng.integers(0, 2, 40)).value()


def test_frames_have_the_index_of_the_data(indexed, tmp_path):
    indexed.save(tmp_path / "v.npz")
    again = nw.Valuation.load(tmp_path / "v.npz")
    for v in (indexed, again, pickle.loads(pickle.dumps(indexed))):
        frame = v.to_frame()
        pd.testing.assert_index_equal(frame.index, indexed.index)
        assert frame["row"].tolist() == list(range(40))
        np.testing.assert_array_equal(frame["value"], indexed.values)
    assert indexed.to_frame("polars").columns == ["row", "value", "rank"]


def test_indexes_that_files_cannot_hold_are_lost(rng, tmp_path):
    X = pd.DataFrame({"a": rng.normal(size=3)}, index=[1, "a", (2,)])
    v = nw.KNNShapley(1).fit(X, [0, 1, 0]).value()
    v.save(tmp_path / "v.npz")
    assert v.to_frame().index.tolist() == [1, "a", (2,)]
    assert nw.Valuation.load(tmp_path / "v.npz").to_frame().index.tolist() == [0, 1, 2]


def test_an_index_of_another_length_is_no_index_of_these_rows(indexed, tmp_path):
    description, arrays = indexed.to_archive()
    write_archive(
        tmp_path / "v.npz", "valuation", description, arrays | index_to_bytes(indexed.index[1:])
    )
    with pytest.raises(ValueError, match="its index has 39 labels for 40 rows"):
        nw.Valuation.load(tmp_path / "v.npz")
    write_archive(
        tmp_path / "v.npz", "valuation", description, arrays | {"index": arrays["index"][:-50]}
    )
    with pytest.raises(ValueError, match="is not a valuation saved by nearworth, or it is damaged"):
        nw.Valuation.load(tmp_path / "v.npz")


def test_a_valuation_is_read_as_the_array_of_its_values(indexed):
    v = indexed
    values = indexed.values
    assert (v[3], v[-1]) == (values[3], values[-1])
    np.testing.assert_array_equal(v[values < 0], values[values < 0])
    np.testing.assert_array_equal(list(v), values)
    np.testing.assert_array_equal(v[1:5], values[1:5])
    for found, expected in (
        (v < 0, values < 0),
        (v <= values[3], values <= values[3]),
        (v > 0, values > 0),
        (v >= values, values >= values),
        (v == values[3], values == values[3]),
        (v != v, values != values),
        (v == "text", np.zeros(40, dtype=bool)),
    ):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(IndexError):
        v[40]
    assert len({v, v}) == 1
    assert v in [v]


def test_html_is_inert(rng):
    est = nw.KNNShapley(1).fit(rng.normal(size=(4, 1)), [0, 1, 0, 1])
    owners = est.value().sum_by(["<script>", "<script>", "&", "&"])._repr_html_()
    plan = est.plan(8)._repr_html_()
    assert "&lt;script&gt;" in owners
    assert "<script" not in owners
    assert owners.count("<tr>") == 3
    assert ">threads</th><td" in plan
    assert "color" not in owners + plan  # the notebook's own, light or dark
