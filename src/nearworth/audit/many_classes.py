"""Very many classes: evidence about a row has columns for the classes with most votes, and one for all others together.

A row has at most some tens of neighbours, so of a thousand classes nearly all have no vote about it. The columns of a
row are in the order of its votes, most first, and the model of few classes is fitted to columns as if they were
classes. Which classes have columns must not depend on the row's own label, or the columns would tell it: a label
without votes is one of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector

MOST_COLUMNS = 64  # classes up to which each has one
N_COLUMNS = 32  # else: so many, the last for all others
AT_ONCE = 2**20  # rows x classes whose votes are counted together then
LEAST_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class Columns:
    """The classes that columns stand for, by row, and the given label among them."""

    classes: IntMatrix  # without the last column
    codes: IntVector  # classes of the given labels
    given: IntVector  # their columns
    rows: FloatMatrix  # share of all rows that the classes of each column have

    @classmethod
    def of_most(cls, shares: FloatMatrix, codes: IntVector, priors: FloatVector) -> Columns:
        """For the classes with the largest shares of the votes, largest first."""
        size = N_COLUMNS - 1
        most = np.argpartition(shares, -size, axis=1)[:, -size:]
        order = np.argsort(-np.take_along_axis(shares, most, 1), axis=1, kind="stable")
        classes = np.take_along_axis(most, order, 1)
        is_given = classes == codes[:, None]
        given = np.where(is_given.any(axis=1), is_given.argmax(axis=1), size)
        return cls(classes, codes, given, _with_others(priors[classes]))

    @property
    def part(self) -> FloatVector:
        """How much of the last column the given label is, if it is there."""
        priors = np.bincount(self.codes) / len(self.codes)
        return np.asarray(priors[self.codes] / self.rows[:, -1])

    def take(self, shares: FloatMatrix) -> FloatMatrix:
        """Shares of the columns, from those of all classes, which add up to one."""
        return _with_others(np.take_along_axis(shares, self.classes, 1))

    def best(self, shares: FloatMatrix) -> tuple[IntVector, IntVector]:
        """The column with the largest share, not the last, and its class."""
        columns = shares[:, :-1].argmax(axis=1)
        return columns, self.classes[np.arange(len(columns)), columns]

    def put_back(self, shares: FloatMatrix, priors: FloatVector) -> FloatMatrix:
        """Shares of all classes. The last column is the given label, if that is there, else what others share."""
        every, rows = np.tile(priors, (len(shares), 1)), np.arange(len(shares))
        other = self.given == self.classes.shape[1]
        np.put_along_axis(every, self.classes, 0.0, 1)
        every[other] = 0.0
        every[rows[other], self.codes[other]] = 1.0
        every *= shares[:, -1:] / every.sum(axis=1, keepdims=True)
        np.put_along_axis(every, self.classes, shares[:, :-1], 1)
        return every


def _with_others(shares: FloatMatrix) -> FloatMatrix:
    return np.column_stack([shares, np.maximum(1.0 - shares.sum(axis=1), LEAST_SHARE)])


def evidence_about(
    codes: IntVector, priors: FloatVector, shares_of: Callable[[int, int], list[FloatMatrix]]
) -> tuple[list[FloatMatrix], Columns | None]:
    """Kinds of evidence about all rows, and their columns if classes are very many; `shares_of` has those of some rows.

    The third kind says which classes have columns.
    """
    if len(priors) <= MOST_COLUMNS:
        return shares_of(0, len(codes)), None
    kinds: list[list[FloatMatrix]] = []
    parts, step = [], max(1, AT_ONCE // len(priors))
    for start in range(0, len(codes), step):
        stop = min(start + step, len(codes))
        shares = shares_of(start, stop)
        parts.append(Columns.of_most(shares[2], codes[start:stop], priors))
        kinds.append([parts[-1].take(share) for share in shares])
    fields = zip(*((part.classes, part.codes, part.given, part.rows) for part in parts), strict=True)
    columns = Columns(*(np.concatenate(field) for field in fields))
    return [np.concatenate(kind) for kind in zip(*kinds, strict=True)], columns
