"""Data to try things on.

`add_label_noise` makes labels of your data wrong on purpose, `noisy_digits` is a small set made that way, and `load`
has the thirteen datasets of Wang & Jia's Table 1, from a local folder or from OpenML.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, IntVector
from nearworth.inputs.parameters import as_generator, is_real, one_of
from nearworth.inputs.targets import check_classes

__all__ = ["NAMES", "DatasetUnavailableError", "NoisyDigits", "PaperDataset", "add_label_noise", "balance", "load"]
__all__ += ["noisy_digits"]

FOLDER = "NEARWORTH_DATA"
SEED = 999  # the authors' seed, throughout their experiment
MISSING = -1000.0  # the authors' marker; true values of the one dataset concerned are never negative
N_TRAIN_IMAGES = 60_000
OPENML_DIFFERS = "OpenML's rows, which differ from the authors' in order or in numbers"
OPENML_SAMPLED = (
    "the whole dataset of OpenML, of which the authors used a sample of 10,000 rows that is not published there"
)
Arrays = dict[str, npt.NDArray[Any]]
Noise = Literal["uniform", "pair", "class-dependent"]


def add_label_noise(
    y: Any, fraction: float = 0.1, kind: Noise = "uniform", random_state: Any = None
) -> npt.NDArray[Any]:
    """A copy of y with some labels changed, each to a wrong one.

    A changed label always differs from the true one, so `add_label_noise(y, ...) != y` is the mask of the changed rows.

    Parameters
    ----------
    y : array, series or list
        True labels: whole numbers, booleans, text or any one kind; at least two classes.
    fraction : float
        Share of the labels to change: exactly round(fraction * N) rows, if the limit below allows.
    kind : {"uniform", "pair", "class-dependent"}
        "uniform": rows drawn from all alike; every wrong class equally likely.
        "pair": rows drawn from all alike; each class turns into the next one in order, the last into the first.
        "class-dependent": every true class has its own share of changed rows, drawn at random, never more than half of
        them, and its own preferences among the wrong classes. `fraction` holds over all classes, 0.5 at most.
    random_state : int, generator or None
        Which rows, which labels, and for "class-dependent" also which shares and preferences.

    Returns
    -------
    ndarray
        One label per row, of y's dtype where y is a numpy array.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array(["cat", "dog", "cow", "cat", "dog"])
    >>> noisy = add_label_noise(y, 0.4, "pair", random_state=0)
    >>> int((noisy != y).sum())
    2
    """
    one_of("uniform", "pair", "class-dependent")("kind", kind)
    classes = check_classes(y, "y")
    n_classes = len(classes.labels)
    largest = 0.5 if kind == "class-dependent" else 1.0
    if not is_real(fraction) or not 0 <= fraction <= largest:
        raise ValueError(f"fraction must be a number from 0 to {largest:g} for kind={kind!r}; got {fraction!r}.")
    count = round(float(fraction) * len(classes.codes))
    if count and n_classes < 2:
        raise ValueError(
            f"y has one class only ({classes.labels.tolist()[0]!r}): there is no wrong label. Give two or more."
        )
    rng = as_generator(random_state)
    noisy = classes.codes.copy()
    weights = 1.0 - np.eye(n_classes)  # of the labels to draw, for each true class
    if kind == "class-dependent":
        rows = _class_rows(classes.codes, count, rng)
        weights *= rng.exponential(size=weights.shape)  # normalised, a distribution drawn uniformly
    else:
        rows = rng.choice(len(noisy), size=count, replace=False)
        weights = np.roll(np.eye(n_classes), 1, axis=1) if kind == "pair" else weights
    noisy[rows] = _draw(weights[noisy[rows]], rng)
    labels, dtype = classes.labels[noisy], getattr(y, "dtype", None)
    return labels.astype(dtype) if isinstance(dtype, np.dtype) else labels  # arrays of text lose their dtype on the way


class NoisyDigits(NamedTuple):
    """Handwritten digits, some of whose training labels were changed to a wrong one."""

    X: FloatMatrix
    y: npt.NDArray[np.int64]
    X_val: FloatMatrix
    y_val: npt.NDArray[np.int64]
    flipped: IntVector


def noisy_digits(fraction: float = 0.1, random_state: int = 0) -> NoisyDigits:
    """scikit-learn's 1,797 digits (8 x 8 pixels): two thirds to train on, with wrong labels, one third to validate.

    >>> digits = noisy_digits()
    >>> digits.X.shape, digits.X_val.shape, len(digits.flipped)
    ((1198, 64), (599, 64), 120)
    """
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(random_state)
    order = rng.permutation(len(y))
    train, val = order[: len(y) * 2 // 3], order[len(y) * 2 // 3 :]
    flipped = np.sort(rng.choice(len(train), size=round(fraction * len(train)), replace=False))
    noisy = y[train].copy()
    noisy[flipped] = (noisy[flipped] + rng.integers(1, 10, size=len(flipped))) % 10
    return NoisyDigits(X[train], noisy, X[val], y[val], flipped)


def _draw(weights: FloatMatrix, rng: np.random.Generator) -> IntVector:
    """One class per row, with probabilities in proportion to the row's weights; weight 0 is never drawn."""
    cumulative = np.cumsum(weights, axis=1)
    # In (0, total]: the first class whose cumulative weight is at least this has positive weight.
    levels = (1.0 - rng.random(len(weights))) * cumulative[:, -1]
    return np.asarray(np.argmax(cumulative >= levels[:, None], axis=1))


def _class_rows(codes: IntVector, count: int, rng: np.random.Generator) -> IntVector:
    """Rows to change, a share of its own from each class and never more than half of one."""
    sizes = np.bincount(codes)
    wanted = _spread(count, sizes // 2, sizes * rng.random(len(sizes)), rng)
    members = (np.flatnonzero(codes == code) for code in range(len(sizes)))
    chosen = [rng.choice(rows, size=n, replace=False) for rows, n in zip(members, wanted, strict=True)]
    return np.concatenate(chosen)


def _spread(count: int, room: IntVector, weights: npt.NDArray[np.float64], rng: np.random.Generator) -> IntVector:
    """`count` divided at random in proportion to the weights, each share at most its `room`; all room if it is less."""
    given = np.zeros_like(room)
    while (rest := min(count, int(room.sum())) - int(given.sum())) > 0:
        open_weights = np.where(given < room, np.maximum(weights, np.finfo(float).tiny), 0.0)
        more = rng.multinomial(rest, open_weights / open_weights.sum())
        given = np.minimum(given + more, room)
    return given


@dataclass(frozen=True)
class Entry:
    """One dataset.

    `sha256` is that of the arrays in the local file, `openml` the number of the dataset there and `positive` its
    positive class; images have ten classes and no positive one. `sampled`: the authors used some of OpenML's rows only.
    `stand_in` says why the local file is not the paper's data.
    """

    name: str
    sha256: str
    openml: int | None = None
    positive: str | None = None
    _: KW_ONLY
    sampled: bool = False
    subset: str = ""
    stand_in: str | None = None

    @property
    def file(self) -> str:
        """Its name in a local folder."""
        return f"{self.name}{self.subset}.npz"

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the arrays that count in the file."""
        return ("X", "y") if self.positive else ("x_train", "y_train", "x_test", "y_test")


_RESNET = "ResNet50 features in 512 dimensions; the authors' ResNet18 features are not to be had"
_OTHER_ROWS = "16,783 other rows of the same dataset; the authors' sample is not to be had"
# fmt: off
_ENTRIES = (
    Entry("mnist", "ba535720e34aa25563a612aab859d588ec5448d06a9cca40cdfce7f35d1e21c3", 554),
    Entry("fmnist", "8bb3dc657eddfbb8f4751b13fdd086f235802fa40592cee4205ff981905e3efa", 40996),
    Entry("cifar10", "d8d56414444c7aacca237c8e8bf5ee64b76e47feaab0a8f98be6d9123b221c62",
          subset="_catdog_features", stand_in=_RESNET),
    Entry("fraud", "e8c8af0dfbce37b8a36d13c0d82b0febe8b9f9e7c7c869d718ce5570d597a21a", 42397, "1", sampled=True),
    Entry("creditcard", "0edc764fa402bcd1f2d01c8f0d9f8b4fcbb3b0fe4161fffac3f1608159299d11", 42477, "1", sampled=True),
    Entry("vehicle", ""),  # Duarte and Hu's: to be had nowhere
    Entry("apsfail", "c2417564f01f9bf0802e4bcf0d4d317d66fccbed0f046d1e4ed507d38700f356", 41138, "pos", sampled=True,
          subset="_subset", stand_in=_OTHER_ROWS),
    Entry("click", "8a94dd104083caf62c92690e92d8f75b20a68922c00b0df2b55936f811edb621", 1218, "1", sampled=True),
    Entry("phoneme", "d4797f9ee3939ae7930715d8d1661e1f61fb61af5d83d920d2765fb50ebe0b31", 1489, "2"),
    Entry("wind", "e2931b2aef4778a23080bb9ee082360e24101784a4d2c021ce8275ca2b0f0e53", 847, "P"),
    Entry("pol", "485bb02b817705d3ee7a0835c5920d7014bed797e6d7a96d4f0130c13967f191", 722, "P", sampled=True),
    Entry("cpu", "13cb28708f6b68cffc52705eb357c8bc6e059ff2ee8774ca45b7bb19a99fc9e4", 761, "P"),
    Entry("2dplanes", "89a3ac5825aa89f379ec210d8947eb80ce34b23f1c3712d4dac687b44a5c7deb", 727, "P", sampled=True),
)
# fmt: on
CATALOGUE = {entry.name: entry for entry in _ENTRIES}
NAMES = tuple(CATALOGUE)


class DatasetUnavailableError(LookupError):
    """A dataset that cannot be had here; the message says why and what to do."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PaperDataset:
    """One of the paper's datasets, and how much of the paper's it is.

    `X`, `y` hold all rows, or the training images (one row of pixels or features each); `X_test`, `y_test` the test
    images. `source` says where they were read. `verified` is True where they hash to the arrays known to this version;
    `stand_in` is None where those are the authors' own, else it says what stands in for them.
    """

    name: str
    X: npt.NDArray[Any]
    y: npt.NDArray[np.int64]
    source: str
    verified: bool
    stand_in: str | None
    X_test: npt.NDArray[Any] | None = None
    y_test: npt.NDArray[np.int64] | None = None
    balanced: bool = False

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
    if not entry.sha256:
        raise DatasetUnavailableError(
            f"{name} is not available: it was not found, neither as the authors' file nor on OpenML."
        )
    folder = data_home if data_home is not None else os.environ.get(FOLDER) or None
    arrays, source = _from_openml(entry) if folder is None else _from_folder(entry, Path(folder))
    digest, stand_in = sha256_of(arrays), entry.stand_in
    verified = digest == entry.sha256
    if folder is None:
        stand_in = OPENML_SAMPLED if entry.sampled else None if verified else OPENML_DIFFERS
    elif not verified:
        raise ValueError(
            f"{source!r} does not hold the data it should: the SHA-256 of its arrays is {digest}, "
            f"not {entry.sha256}. Get the file again."
        )
    about: dict[str, Any] = {"name": name, "source": source, "verified": verified, "stand_in": stand_in}
    X, y, *test = arrays.values()
    if test:  # images as rows of pixels
        X, X_test = (images.reshape(len(images), -1) for images in (X, test[0]))
        return PaperDataset(X=X, y=y.astype(np.int64), X_test=X_test, y_test=test[1].astype(np.int64), **about)
    y = (y == 1).astype(np.int64)
    rows = _balanced_rows(y, np.random.RandomState(SEED)) if balance else slice(None)
    return PaperDataset(X=X[rows], y=y[rows], balanced=balance, **about)


def balance(
    X: npt.NDArray[Any], y: npt.NDArray[np.int64], rng: np.random.RandomState | None = None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Repeat rows of the smaller of the classes 0 and 1 until both have the same size, and shuffle all.

    Rows to repeat are drawn with replacement, by the authors' seed unless `rng` is given. The paper's text speaks of
    subsampling; the digits of its table come from this oversampling. Repeated rows are exact copies: do not split the
    result and take the parts for independent.
    """
    rows = _balanced_rows(y, np.random.RandomState(SEED) if rng is None else rng)
    return X[rows], y[rows]


def _balanced_rows(y: npt.NDArray[np.int64], rng: np.random.RandomState) -> IntVector:
    smaller = np.flatnonzero(y == smaller_class(y))
    drawn = rng.choice(smaller, size=len(y) - 2 * len(smaller), replace=True)
    return np.concatenate([np.arange(len(y)), drawn])[rng.permutation(len(y) + len(drawn))]


def smaller_class(y: npt.NDArray[np.int64]) -> int:
    """Which of the classes 0 and 1 has fewer rows; 0 when they are equal."""
    return int(2 * np.count_nonzero(y) < len(y))


def _from_folder(entry: Entry, folder: Path) -> tuple[Arrays, str]:
    path = folder / entry.file
    if not path.is_file():
        raise DatasetUnavailableError(
            f"{entry.name} is not available: there is no {entry.file} in {str(folder)!r}. Name another folder, or none "
            f"(data_home=None, {FOLDER} unset) to ask OpenML."
        )
    with np.load(path, allow_pickle=False) as archive:
        absent = [array for array in entry.arrays if array not in archive.files]
        if absent:
            raise ValueError(f"{str(path)!r} has no array {absent[0]!r}; it is not the file that was expected.")
        return {array: archive[array] for array in entry.arrays}, str(path)


def _from_openml(entry: Entry) -> tuple[Arrays, str]:
    """The arrays that the local file would hold, by way of scikit-learn and its cache."""
    from sklearn import datasets

    if entry.openml is None:
        raise DatasetUnavailableError(
            f"{entry.name} is not available from OpenML: {entry.stand_in}. Give data_home, a folder with {entry.file}."
        )
    try:
        bunch = datasets.fetch_openml(data_id=entry.openml, as_frame=False, parser="pandas")
    except ImportError as error:
        raise ImportError("Reading OpenML needs pandas: pip install pandas.") from error
    except OSError as error:
        raise DatasetUnavailableError(
            f"OpenML {entry.openml} could not be reached ({error}). Give data_home, a folder with {entry.file}."
        ) from error
    if entry.positive is not None:
        X = np.asarray(bunch.data, dtype=np.float64)
        X = np.asfortranarray(np.where(np.isnan(X), MISSING, X))  # the layout decides how distances round
        parts = [X, (bunch.target.astype(str) == entry.positive).astype(np.int64)]
    else:
        images = np.asarray(bunch.data, dtype=np.uint8).reshape(-1, 28, 28), bunch.target.astype(np.uint8)
        parts = [part[rows] for rows in (slice(N_TRAIN_IMAGES), slice(N_TRAIN_IMAGES, None)) for part in images]
    return dict(zip(entry.arrays, parts, strict=True)), f"OpenML {entry.openml}"


def sha256_of(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Hash of arrays with their names, types and shapes; layout in memory and byte order do not matter."""
    digest = hashlib.sha256()
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{name} {little.dtype.str} {little.shape} ".encode())
        digest.update(little.data)
    return digest.hexdigest()
