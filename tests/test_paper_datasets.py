"""The paper's datasets: local, from OpenML (a fake one), or not to be had."""

from __future__ import annotations

from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets

from helpers.paper_data import FOLDER, needs_data, paper

load = paper.load
COMPLETE = (
    "mnist",
    "fmnist",
    "fraud",
    "creditcard",
    "click",
    "phoneme",
    "wind",
    "pol",
    "cpu",
    "2dplanes",
)


@pytest.fixture(autouse=True)
def _no_folder_by_default(monkeypatch):
    monkeypatch.delenv("NEARWORTH_DATA", raising=False)


@pytest.fixture
def openml(monkeypatch):
    """A fake OpenML: what it is asked for, and what it answers. The real one cannot be reached from
    a test.
    """
    fake = SimpleNamespace(asked=[], answer=None)

    def fetch(**request):
        fake.asked.append(request)
        if isinstance(fake.answer, Exception):
            raise fake.answer
        return fake.answer

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    return fake


@needs_data
@pytest.mark.parametrize("name", sorted(set(paper.CATALOGUE) - {"vehicle"}))
def test_local_files_are_what_they_should_be(name):
    dataset = load(name, FOLDER, balance=False)
    assert dataset.verified
    assert dataset.complete == (name in COMPLETE)
    assert (dataset.stand_in is None) == (name in COMPLETE)
    assert dataset.source == str(FOLDER / paper.CATALOGUE[name].file)
    assert len(dataset.X) == len(dataset.y)
    if dataset.X_test is not None:
        assert dataset.X.shape[1:] == dataset.X_test.shape[1:]
        assert len(dataset.X_test) == len(dataset.y_test)
    else:
        assert set(dataset.y) == {0, 1}
    assert name in repr(dataset)
    assert ("authors' data" if dataset.complete else "stand-in") in repr(dataset)


@needs_data
def test_tables_come_balanced_unless_asked_otherwise(monkeypatch):
    monkeypatch.setenv("NEARWORTH_DATA", str(FOLDER))
    raw = load("phoneme", balance=False)
    dataset = load("phoneme")
    assert (raw.balanced, dataset.balanced) == (False, True)
    assert np.bincount(raw.y).tolist() == [3818, 1586]
    assert np.bincount(dataset.y).tolist() == [3818, 3818]
    X, y = paper.balance(raw.X, raw.y)
    np.testing.assert_array_equal(dataset.X, X)
    np.testing.assert_array_equal(dataset.y, y)


@needs_data
def test_a_changed_file_is_refused(tmp_path):
    with np.load(FOLDER / "phoneme.npz", allow_pickle=False) as archive:
        arrays = dict(archive)
    np.savez(tmp_path / "phoneme.npz", **arrays)  # another file, the same numbers
    assert load("phoneme", tmp_path).complete
    arrays["X"][17, 3] = np.nextafter(arrays["X"][17, 3], np.inf)
    np.savez(tmp_path / "phoneme.npz", **arrays)
    with pytest.raises(ValueError, match=r"SHA-256 of its arrays is .*, not d4797f9e"):
        load("phoneme", tmp_path)


def test_other_files_are_refused(tmp_path):
    np.savez(tmp_path / "wind.npz", data=np.zeros(3))
    with pytest.raises(ValueError, match=r"wind\.npz' has no array 'X'"):
        load("wind", tmp_path)
    with pytest.raises(paper.DatasetUnavailableError, match=r"there is no pol\.npz in"):
        load("pol", tmp_path)


def test_what_cannot_be_had_says_so(tmp_path, openml):
    assert len(paper.NAMES) == 13
    for folder in (tmp_path, None):
        with pytest.raises(
            paper.DatasetUnavailableError, match="vehicle is not available: .* not found"
        ):
            load("vehicle", folder)
    with pytest.raises(
        paper.DatasetUnavailableError,
        match=r"not available from OpenML: .*ResNet18.*cifar10_catdog",
    ):
        load("cifar10")
    assert openml.asked == []
    with pytest.raises(ValueError, match="Did you mean 'phoneme'"):
        load("phonem")


def test_a_table_from_openml(openml, rng):
    X = rng.normal(size=(30, 5))
    X[4, 2] = np.nan
    target = np.array(["2"] * 10 + ["1"] * 20, dtype=object)
    openml.answer = SimpleNamespace(data=X.astype(object), target=target)
    dataset = load("phoneme", balance=False)
    assert openml.asked == [{"data_id": 1489, "as_frame": False, "parser": "pandas"}]
    assert dataset.source == "OpenML 1489"
    assert dataset.y.tolist() == [1] * 10 + [0] * 20
    assert dataset.X[4, 2] == -1000
    assert not dataset.verified
    assert "differ from the authors'" in dataset.stand_in
    assert np.bincount(load("phoneme").y).tolist() == [20, 20]
    openml.answer.target = np.where(target == "2", "pos", "neg")
    assert "sample of 10,000 rows" in load("apsfail").stand_in


@needs_data
def test_the_authors_rows_are_known_wherever_they_come_from(openml):
    local = load("cpu", FOLDER, balance=False)
    openml.answer = SimpleNamespace(
        data=np.ascontiguousarray(local.X), target=np.array(["N", "P"])[local.y]
    )
    dataset = load("cpu", balance=False)
    assert (dataset.source, dataset.complete) == ("OpenML 761", True)
    np.testing.assert_array_equal(dataset.X, local.X)


def test_images_from_openml(openml, rng):
    pixels = rng.integers(0, 256, size=(60_003, 784))
    labels = rng.integers(0, 10, size=60_003)
    openml.answer = SimpleNamespace(data=pixels, target=labels.astype(str).astype(object))
    dataset = load("mnist")
    assert (dataset.X.shape, dataset.X_test.shape, dataset.X.dtype) == (
        (60_000, 784),
        (3, 784),
        np.uint8,
    )
    np.testing.assert_array_equal(dataset.X_test, pixels[60_000:])
    np.testing.assert_array_equal(dataset.y_test, labels[60_000:])
    assert not dataset.complete


def test_openml_out_of_reach(openml):
    openml.answer = URLError("no route")
    with pytest.raises(
        paper.DatasetUnavailableError,
        match=r"OpenML 554 could not be reached .*no route.*mnist\.npz",
    ):
        load("mnist")
    openml.answer = ImportError("pandas is missing")
    with pytest.raises(ImportError, match="pip install pandas"):
        load("wind")


def test_hash_of_arrays():
    X = np.arange(6.0).reshape(2, 3)
    known = paper.sha256_of({"X": X})
    assert paper.sha256_of({"X": np.asfortranarray(X)}) == known
    assert paper.sha256_of({"X": X.astype(">f8")}) == known
    for other in (
        {"Y": X},
        {"X": X.astype(np.float32)},
        {"X": X.T},
        {"X": X.reshape(3, 2)},
        {"X": X + 1e-15},
    ):
        assert paper.sha256_of(other) != known


def test_balance_repeats_the_smaller_class(rng):
    for minority in (0, 1):
        y = np.where(rng.permutation(100) < 30, minority, 1 - minority)
        X = np.arange(100)[:, None]
        rows, labels = paper.balance(X, y)
        assert np.bincount(labels).tolist() == [70, 70]
        assert set(rows.ravel()) == set(range(100))
        np.testing.assert_array_equal(y[rows.ravel()], labels)
        assert np.unique(rows[labels != minority]).size == 70
