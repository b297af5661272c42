"""The paper's datasets, from a local folder or from OpenML."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth.datasets.balance import balance as balanced_rows
from nearworth.datasets.catalogue import CATALOGUE, NAMES, Entry, sha256_of
from nearworth.inputs.parameters import one_of

FOLDER = "NEARWORTH_DATA"
MISSING = -1000.0  # the authors' marker; true values of the one dataset concerned are never negative
N_TRAIN_IMAGES = 60_000
Arrays = dict[str, npt.NDArray[Any]]


class DatasetUnavailableError(LookupError):
    """A dataset that cannot be had here; the message says why and what to do."""


@dataclass(frozen=True, eq=False, repr=False)
class PaperDataset:
    """One of the paper's datasets, and how much of the paper's it is.

    `X`, `y` hold all rows, or the training images (one row of pixels or features each); `X_test`, `y_test` the test
    images. `source` says where they were read. `verified` is True where they hash to the arrays known to this version;
    `stand_in` is None where those are the authors' own, else it says what stands in for them.
    """

    name: str
    X: npt.NDArray[Any]
    y: npt.NDArray[np.int64]
    X_test: npt.NDArray[Any] | None
    y_test: npt.NDArray[np.int64] | None
    source: str
    verified: bool
    stand_in: str | None
    balanced: bool

    @property
    def complete(self) -> bool:
        """Whether this is the authors' data, to the last bit."""
        return self.verified and self.stand_in is None

    def __repr__(self) -> str:
        state = "the authors' data" if self.complete else f"stand-in: {self.stand_in}"
        test = f" and {len(self.y_test):,} test" if self.y_test is not None else ""
        made = "balanced " if self.balanced else ""
        rows = f"{made}{len(self.y):,}{test} rows x {self.X.shape[1]:,}"
        return f"PaperDataset({self.name!r}): {rows}, {np.unique(self.y).size} classes, from {self.source}; {state}"


def load(name: str, data_home: str | os.PathLike[str] | None = None, *, balance: bool = True) -> PaperDataset:
    """One of the thirteen datasets of Wang & Jia's Table 1.

    Parameters
    ----------
    name : str
        One of `nearworth.datasets.NAMES`.
    data_home : path, optional
        A folder of .npz files, one per dataset. Without it, the folder that the environment variable NEARWORTH_DATA
        names; without that too, OpenML through scikit-learn (and its cache), which needs pandas.
    balance : bool, default=True
        Make the two classes of a table equally large as the paper did: rows of the smaller one are repeated and all are
        shuffled, by the authors' seed. Images come as they are; the experiment draws equally many of each class.

    Returns
    -------
    PaperDataset
        Tables have labels 0 and 1 (the positive class).

    Raises
    ------
    DatasetUnavailableError
        Where a dataset cannot be had; "vehicle" never can.
    ValueError
        Where a local file holds other numbers than it should.
    """
    one_of(*NAMES)("name", name)
    entry = CATALOGUE[name]
    if entry.unavailable is not None:
        raise DatasetUnavailableError(f"{name} is not available: {entry.unavailable}.")
    folder = data_home if data_home is not None else os.environ.get(FOLDER) or None
    dataset = _from_openml(name, entry) if folder is None else _from_folder(name, entry, Path(folder))
    return _balanced(dataset) if balance and not entry.images else dataset


def _from_folder(name: str, entry: Entry, folder: Path) -> PaperDataset:
    assert entry.file is not None
    path = folder / entry.file
    if not path.is_file():
        raise DatasetUnavailableError(
            f"{name} is not available: there is no {entry.file} in {str(folder)!r}. Name another folder, or none "
            f"(data_home=None, {FOLDER} unset) to ask OpenML."
        )
    with np.load(path, allow_pickle=False) as archive:
        absent = [array for array in entry.arrays if array not in archive.files]
        if absent:
            raise ValueError(f"{str(path)!r} has no array {absent[0]!r}; it is not the file that was expected.")
        arrays = {array: archive[array] for array in entry.arrays}
    found = sha256_of(arrays)
    if found != entry.sha256:
        raise ValueError(
            f"{str(path)!r} does not hold the data it should: the SHA-256 of its arrays is {found}, "
            f"not {entry.sha256}. Get the file again."
        )
    return _dataset(name, arrays, str(path), True, entry.stand_in)


def _from_openml(name: str, entry: Entry) -> PaperDataset:
    if entry.openml is None:
        raise DatasetUnavailableError(
            f"{name} is not available from OpenML: {entry.stand_in}. Give data_home, a folder with {entry.file}."
        )
    arrays = _images_of(entry) if entry.images else _table_of(entry)
    verified = sha256_of(arrays) == entry.sha256
    stand_in = entry.openml_stand_in
    if stand_in is None and not verified:
        stand_in = "OpenML's rows, which differ from the authors' in order or in numbers"
    return _dataset(name, arrays, f"OpenML {entry.openml}", verified, stand_in)


def _table_of(entry: Entry) -> Arrays:
    features, target = _fetch(entry)
    X = np.asfortranarray(features, dtype=np.float64)
    X = np.where(np.isnan(X), MISSING, X)
    return {"X": np.asfortranarray(X), "y": (target.astype(str) == entry.positive).astype(np.int64)}


def _images_of(entry: Entry) -> Arrays:
    features, target = _fetch(entry)
    pixels = np.asarray(features, dtype=np.uint8).reshape(len(target), 28, 28)
    labels = target.astype(np.uint8)
    train, test = slice(N_TRAIN_IMAGES), slice(N_TRAIN_IMAGES, None)
    return {"x_train": pixels[train], "y_train": labels[train], "x_test": pixels[test], "y_test": labels[test]}


def _fetch(entry: Entry) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Features and labels as OpenML has them, by way of scikit-learn and its cache."""
    from sklearn import datasets

    try:
        bunch = datasets.fetch_openml(data_id=entry.openml, as_frame=False, parser="pandas")
    except ImportError as error:
        raise ImportError("Reading OpenML needs pandas: pip install pandas.") from error
    except OSError as error:
        raise DatasetUnavailableError(
            f"OpenML {entry.openml} could not be reached ({error}). Give data_home, a folder with {entry.file}."
        ) from error
    return bunch.data, bunch.target


def _dataset(name: str, arrays: Arrays, source: str, verified: bool, stand_in: str | None) -> PaperDataset:
    parts = list(arrays.values())
    X, y = _flat(parts[0]), parts[1].astype(np.int64)
    if len(parts) == 2:
        return PaperDataset(name, X, (y == 1).astype(np.int64), None, None, source, verified, stand_in, False)
    return PaperDataset(name, X, y, _flat(parts[2]), parts[3].astype(np.int64), source, verified, stand_in, False)


def _flat(X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return X.reshape(len(X), -1) if X.ndim > 2 else X


def _balanced(dataset: PaperDataset) -> PaperDataset:
    X, y = balanced_rows(dataset.X, dataset.y)
    return replace(dataset, X=X, y=y, balanced=True)
