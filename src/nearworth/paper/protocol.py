"""Training and validation sets of the paper's experiment, drawn as the authors' code draws them.

All randomness comes from numpy's legacy generator with the authors' seed, so the rows are the authors' rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolVector, IntVector
from nearworth.datasets import SEED, PaperDataset, balance, smaller_class
from nearworth.inputs.parameters import one_of

Protocol = Literal["table", "released"]
Flip = Literal["first", "last"]
Labels = npt.NDArray[np.int64]
Sets = tuple[npt.NDArray[Any], Labels, npt.NDArray[Any], Labels]  # X, y, X_val, y_val

N_TRAIN = 2_000
N_FLIPPED = 200
N_VAL = 200  # of tables
N_VAL_IMAGES = 2_000


@dataclass(frozen=True, eq=False)
class Split:
    """Training and validation rows: `y` holds the noisy labels, `flipped` is True where they are wrong."""

    X: npt.NDArray[Any]
    y: Labels
    X_val: npt.NDArray[Any]
    y_val: Labels
    flipped: BoolVector


def make_split(dataset: PaperDataset, protocol: Protocol = "table", n_val: int = N_VAL, flip: Flip = "first") -> Split:
    """The 2,000 training rows with 200 wrong labels, and the validation rows, of one dataset.

    Parameters
    ----------
    dataset : PaperDataset
        As `load(name, balance=False)` gives it; the balancing of tables is a step of the protocol.
    protocol : {"table", "released"}
        For tables; images have one protocol only. "table" gives the printed digits: validation rows first, training
        rows drawn class by class from the rest, so that all flipped labels come from one class. "released" is what
        the published code runs: the first rows train, the next ones validate.
    n_val : int
        Number of validation rows of tables; images have 2,000.
    flip : {"first", "last"}
        Which 200 training rows get a wrong label. The paper's are the first; "last" are, in the protocol "table", rows
        of the other class.
    """
    one_of("table", "released")("protocol", protocol)
    one_of("first", "last")("flip", flip)
    if dataset.X_test is not None:
        X, y, X_val, y_val = _images(dataset)
    elif dataset.balanced:
        raise ValueError(f"{dataset.name} is balanced already. Load it with balance=False.")
    else:
        X, y, X_val, y_val = _table(dataset, n_val, protocol)
    flipped = (np.arange(len(y)) < N_FLIPPED)[:: 1 if flip == "first" else -1]
    rng, labels, noisy = np.random.RandomState(SEED), np.unique(y), y.copy()
    noisy[flipped] = [rng.choice(np.setdiff1d(labels, [label])) for label in y[flipped]]
    return Split(X, noisy, X_val, y_val, flipped)


def _table(dataset: PaperDataset, n_val: int, protocol: Protocol) -> Sets:
    rng = np.random.RandomState(SEED)
    X, y = balance(dataset.X, dataset.y, rng)
    if protocol == "released":
        train, val = np.arange(N_TRAIN), np.arange(N_TRAIN, N_TRAIN + n_val)
        scaled = _standardised(X, train)
        return scaled[train], y[train], scaled[val], y[val]
    pool = np.arange(n_val, len(y))
    scaled = _standardised(X, pool)
    first = smaller_class(y[pool])
    train = pool[_equally_many(y[pool], [first, 1 - first], N_TRAIN, rng)]
    return scaled[train], y[train], scaled[:n_val], y[:n_val]


def _standardised(X: npt.NDArray[Any], reference: IntVector) -> npt.NDArray[Any]:
    """All rows, by the means and deviations of the reference rows."""
    rows = X[reference]
    return np.asarray((X - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 1e-12))


def _images(dataset: PaperDataset) -> Sets:
    rng = np.random.RandomState(SEED)
    scale = np.float32(255 if dataset.X.dtype == np.uint8 else 1)  # pixels from 0 to 1; features as they are
    parts: Any = ((dataset.X, dataset.y, N_TRAIN), (dataset.X_test, dataset.y_test, N_VAL_IMAGES))
    sets: list[Any] = []
    for X, y, n in parts:
        rows = _equally_many(y, np.unique(y).tolist(), n, rng)[rng.permutation(n)]
        sets += [X[rows].astype(np.float32) / scale, y[rows]]
    return tuple(sets)


def _equally_many(y: Labels, labels: list[int], n: int, rng: np.random.RandomState) -> IntVector:
    """`n` row numbers, equally many of each label, one label after the other."""
    parts = [rng.choice(np.flatnonzero(y == label), size=n // len(labels), replace=False) for label in labels]
    return np.concatenate(parts)
