"""Data to try things on: label noise for data of your own, and a small data set with such noise."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.inputs.parameters import as_generator, is_real, one_of
from nearworth.inputs.targets import check_classes

__all__ = ["NoisyDigits", "add_label_noise", "noisy_digits"]

Noise: TypeAlias = Literal["uniform", "pair", "class-dependent"]
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def add_label_noise(
    y: npt.ArrayLike,
    fraction: float = 0.1,
    kind: Noise = "uniform",
    random_state: RandomState = None,
) -> npt.NDArray[Any]:
    """A copy of y with some labels changed, each to a wrong one.

    A changed label always differs from the true one, so `add_label_noise(y, ...) != y` is the mask
    of the changed rows.

    Parameters
    ----------
    y : array, series or list
        True labels: whole numbers, booleans, text or any one kind; at least two classes.
    fraction : float
        Share of the labels to change: exactly round(fraction * N) rows, if the limit below allows.
    kind : {"uniform", "pair", "class-dependent"}
        "uniform": every row and every wrong class is equally likely. "pair": every row is equally
        likely, and each class turns into the next one in order, the last into the first.
        "class-dependent": every true class has its own share of changed rows, drawn at random,
        never more than half of them, and its own preferences among the wrong classes. `fraction`
        holds over all classes, 0.5 at most.
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
    codes = classes.codes
    max_fraction = 0.5 if kind == "class-dependent" else 1.0
    if not is_real(fraction) or not 0 <= fraction <= max_fraction:
        raise ValueError(
            f"fraction must be a number from 0 to {max_fraction:g} for kind={kind!r}; got"
            f" {fraction!r}."
        )
    count = round(float(fraction) * len(codes))
    n_classes = len(classes.labels)
    if count and n_classes < 2:
        raise ValueError(
            f"y has one class only, {classes.labels.tolist()[0]!r}: there is no wrong label."
        )

    rng = as_generator(random_state)
    if kind == "class-dependent":
        rows = _draw_rows_by_class(codes, count, n_classes, rng)
        # Exponential numbers in proportion are a distribution drawn uniformly from all.
        weights = (1.0 - np.eye(n_classes)) * rng.exponential(size=(n_classes, n_classes))
    else:
        rows = rng.choice(len(codes), size=count, replace=False)
        is_pair = kind == "pair"
        weights = np.roll(np.eye(n_classes), 1, axis=1) if is_pair else 1.0 - np.eye(n_classes)
    noisy_codes = codes.copy()
    noisy_codes[rows] = _draw_classes(weights[codes[rows]], rng)
    noisy = classes.labels[noisy_codes]
    # Arrays of text have lost their dtype.
    dtype = getattr(y, "dtype", None)
    return noisy.astype(dtype) if isinstance(dtype, np.dtype) else noisy


def _draw_rows_by_class(
    codes: IntVector, count: int, n_classes: int, rng: np.random.Generator
) -> IntVector:
    """Draw `count` rows, with a random share of each class and never more than half of a class."""
    sizes = np.bincount(codes)
    counts = _spread(count, sizes // 2, sizes * rng.random(n_classes), rng)
    rows_by_class = [
        rng.choice(np.flatnonzero(codes == code), n_rows, replace=False)
        for code, n_rows in enumerate(counts)
    ]
    return np.concatenate(rows_by_class)


def _draw_classes(weights: FloatMatrix, rng: np.random.Generator) -> IntVector:
    """Draw a class for each row of `weights`, of shape (rows, classes), in proportion to them."""
    cumulative = np.cumsum(weights, axis=1)
    # A level in (0, total]: the first class whose cumulative weight reaches it has positive weight.
    levels = (1.0 - rng.random(len(weights))) * cumulative[:, -1]
    return np.asarray(np.argmax(cumulative >= levels[:, None], axis=1))


class NoisyDigits(NamedTuple):
    """Handwritten digits, with some training labels changed to a wrong one.

    Attributes
    ----------
    X : ndarray of shape (1198, 64)
        Pixels of the training images.
    y : ndarray of shape (1198,)
        Their labels, some of them wrong.
    X_val : ndarray of shape (599, 64)
        Pixels of the validation images.
    y_val : ndarray of shape (599,)
        Their labels, all of them right.
    flipped : ndarray
        Numbers of the training rows with a wrong label, in order.
    """

    X: FloatMatrix
    y: npt.NDArray[np.int64]
    X_val: FloatMatrix
    y_val: npt.NDArray[np.int64]
    flipped: IntVector


def noisy_digits(fraction: float = 0.1, random_state: int = 0) -> NoisyDigits:
    """Load scikit-learn's 1,797 digits (8 x 8 pixels), with wrong labels in the training set.

    Two thirds are the training set, one third the validation set.

    Parameters
    ----------
    fraction : float, default=0.1
        Share of the training labels to change.
    random_state : int, default=0
        Which rows are training rows, and which labels change.

    Returns
    -------
    NoisyDigits

    Examples
    --------
    >>> digits = noisy_digits()
    >>> digits.X.shape, digits.X_val.shape, len(digits.flipped)
    ((1198, 64), (599, 64), 120)
    """
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(random_state)
    order = rng.permutation(len(y))
    n_train = len(y) * 2 // 3
    train = order[:n_train]
    validation = order[n_train:]
    n_wrong = round(fraction * n_train)
    flipped = np.sort(rng.choice(n_train, size=n_wrong, replace=False))
    noisy = y[train].copy()
    # A shift by 1 to 9 among ten classes never ends at the class itself.
    noisy[flipped] = (noisy[flipped] + rng.integers(1, 10, size=n_wrong)) % 10
    return NoisyDigits(X[train], noisy, X[validation], y[validation], flipped)


def _spread(
    count: int, capacity: IntVector, weights: FloatVector, rng: np.random.Generator
) -> IntVector:
    """Divide `count` at random in proportion to the weights, each part at most its capacity.

    All of the capacity is used if it is less than `count`.
    """
    total = min(count, int(capacity.sum()))
    parts = np.zeros_like(capacity)
    while (n_left := total - int(parts.sum())) > 0:
        is_open = parts < capacity
        # Tiny numbers in place of zeros, because the sum of the open weights must not be 0.
        open_weights = np.where(is_open, np.maximum(weights, np.finfo(float).tiny), 0.0)
        more = rng.multinomial(n_left, open_weights / open_weights.sum())
        parts = np.minimum(parts + more, capacity)
    return parts
