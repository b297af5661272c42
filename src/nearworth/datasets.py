"""Data to try things on: labels of your own made wrong on purpose, and a small set made that
way.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.inputs.parameters import as_generator, is_real, one_of
from nearworth.inputs.targets import check_classes

__all__ = ["NoisyDigits", "add_label_noise", "noisy_digits"]

Noise = Literal["uniform", "pair", "class-dependent"]


def add_label_noise(
    y: Any, fraction: float = 0.1, kind: Noise = "uniform", random_state: Any = None
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
        "uniform": rows drawn from all alike; every wrong class equally likely. "pair": rows drawn
        from all alike; each class turns into the next one in order, the last into the first.
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
    n_classes = len(classes.labels)
    largest = 0.5 if kind == "class-dependent" else 1.0
    if not is_real(fraction) or not 0 <= fraction <= largest:
        raise ValueError(
            f"fraction must be a number from 0 to {largest:g} for kind={kind!r}; got {fraction!r}."
        )
    count = round(float(fraction) * len(classes.codes))
    if count and n_classes < 2:
        raise ValueError(
            f"y has one class only, {classes.labels.tolist()[0]!r}: there is no wrong label."
        )
    rng = as_generator(random_state)
    noisy = classes.codes.copy()
    weights = 1.0 - np.eye(n_classes)  # of the labels to draw, for each true class
    if kind == "class-dependent":
        sizes = np.bincount(noisy)
        counts = _spread(
            count, sizes // 2, sizes * rng.random(n_classes), rng
        )  # never more than half of a class
        chosen = [
            rng.choice(np.flatnonzero(noisy == code), n, replace=False)
            for code, n in enumerate(counts)
        ]
        rows = np.concatenate(chosen)
        weights *= rng.exponential(size=weights.shape)  # normalised, a distribution drawn uniformly
    else:
        rows = rng.choice(len(noisy), size=count, replace=False)
        weights = np.roll(np.eye(n_classes), 1, axis=1) if kind == "pair" else weights
    cumulative = np.cumsum(weights[noisy[rows]], axis=1)
    # In (0, total]: the first class whose cumulative weight is at least this has positive weight.
    levels = (1.0 - rng.random(len(rows))) * cumulative[:, -1]
    noisy[rows] = np.argmax(cumulative >= levels[:, None], axis=1)
    labels, dtype = classes.labels[noisy], getattr(y, "dtype", None)
    return (
        labels.astype(dtype) if isinstance(dtype, np.dtype) else labels
    )  # arrays of text lose their dtype on the way


class NoisyDigits(NamedTuple):
    """Handwritten digits, some of whose training labels were changed to a wrong one."""

    X: FloatMatrix
    y: npt.NDArray[np.int64]
    X_val: FloatMatrix
    y_val: npt.NDArray[np.int64]
    flipped: IntVector


def noisy_digits(fraction: float = 0.1, random_state: int = 0) -> NoisyDigits:
    """scikit-learn's 1,797 digits (8 x 8 pixels): two thirds to train on, with wrong labels, one
    third to validate.

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


def _spread(
    count: int, room: IntVector, weights: FloatVector, rng: np.random.Generator
) -> IntVector:
    """`count` divided at random in proportion to the weights, each share at most its `room`; all
    room if it is less.
    """
    given = np.zeros_like(room)
    while (rest := min(count, int(room.sum())) - int(given.sum())) > 0:
        open_weights = np.where(given < room, np.maximum(weights, np.finfo(float).tiny), 0.0)
        more = rng.multinomial(rest, open_weights / open_weights.sum())
        given = np.minimum(given + more, room)
    return given
