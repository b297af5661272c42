"""Which classes the columns of the evidence about a row stand for: all of them or, of very many, those with votes.

A row has at most some tens of neighbours, so of a thousand classes nearly all have no vote about it. These are taken
together: they share one share of the evidence as they share the rows. Which classes have a column of their own must not
depend on the row's own label, or the columns would tell it. So a given label without votes is one of the others, and
has as much of them as its class has of their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector

MOST_CLASSES = 64  # up to which each has a column
N_COLUMNS = 32  # else: thirty classes with votes, and two for the others
AT_ONCE = 2**20  # rows x classes whose votes are counted together then
LEAST_SHARE = 1e-12


@dataclass(frozen=True)
class Columns:
    """One for each class, the same for all rows."""

    n_classes: int

    def given(self, codes: IntVector) -> IntVector:
        """The column of each row's given label."""
        return codes

    def some(self, rows: Any) -> Columns:  # noqa: ARG002
        """Of some rows."""
        return self

    def shifted(self, scores: FloatMatrix, shifts: FloatVector) -> FloatMatrix:
        """Scores, changed in place, with the shift of each class."""
        scores += shifts
        return scores

    def add_up(self, cells: FloatMatrix) -> FloatVector:
        """Sums over rows, by class."""
        return np.asarray(cells.sum(axis=0))

    def take(self, shares: FloatMatrix) -> FloatMatrix:
        """Shares of the columns, from those of all classes; one line may stand for all rows."""
        return shares

    def merged(self, shares: FloatMatrix) -> FloatMatrix:
        """Shares of the columns as `take` gives them, from ones that add up to one in each row."""
        return shares

    def best(self, shares: FloatMatrix) -> IntVector:
        """The column with the largest share."""
        return np.asarray(shares.argmax(axis=1))

    def classes(self, columns: IntVector) -> IntVector:
        """The class that a column of each row stands for."""
        return columns

    def put_back(self, shares: FloatMatrix, priors: FloatVector) -> FloatMatrix:  # noqa: ARG002
        """Shares of all classes, from those of the columns that add up to one."""
        return shares


@dataclass(frozen=True, eq=False)
class FewColumns(Columns):
    """Different ones for each row. The others count as one more class, the last, which no row is labelled with.

    The first column is the given label if it is one of the others, the last all others but that; before they are split
    both have the evidence of all others.
    """

    of_row: IntMatrix
    codes: IntVector  # of the given labels
    at: IntVector  # their columns
    splits: FloatMatrix  # logarithms of the parts of the others that the first and the last column are

    @classmethod
    def of_most(cls, worth: FloatMatrix, codes: IntVector, priors: FloatVector) -> FewColumns:
        """For the classes that are worth most."""
        n_classes, size = len(priors), N_COLUMNS - 2
        named = np.argpartition(worth, -size, axis=1)[:, -size:]
        of_row = np.pad(named, ((0, 0), (1, 1)), constant_values=n_classes)
        at = (of_row == codes[:, None]).argmax(axis=1)
        part = np.where(at > 0, 0.0, priors[codes] / np.maximum(1.0 - priors[named].sum(axis=1), LEAST_SHARE))
        part = np.minimum(part, 1.0 - LEAST_SHARE)
        with np.errstate(divide="ignore"):
            return cls(n_classes + 1, of_row, codes, at, np.log([part, 1.0 - part]).T)

    @classmethod
    def joined(cls, parts: Sequence[FewColumns]) -> FewColumns:
        fields = zip(*((part.of_row, part.codes, part.at, part.splits) for part in parts), strict=True)
        return cls(parts[0].n_classes, *(np.concatenate(field) for field in fields))

    def given(self, codes: IntVector) -> IntVector:  # noqa: ARG002
        return self.at

    def some(self, rows: Any) -> FewColumns:
        return FewColumns(self.n_classes, self.of_row[rows], self.codes[rows], self.at[rows], self.splits[rows])

    def shifted(self, scores: FloatMatrix, shifts: FloatVector) -> FloatMatrix:
        scores += shifts[self.of_row]
        scores[:, [0, -1]] += self.splits
        return scores

    def add_up(self, cells: FloatMatrix) -> FloatVector:
        return np.bincount(self.of_row.ravel(), cells.ravel(), self.n_classes).astype(np.float64)

    def take(self, shares: FloatMatrix) -> FloatMatrix:
        every = np.broadcast_to(shares, (len(self.at), shares.shape[-1]))
        named = np.take_along_axis(every, self.of_row[:, 1:-1], 1)
        others = np.maximum(1.0 - named.sum(axis=1), LEAST_SHARE)
        return np.column_stack([others, named, others])

    def merged(self, shares: FloatMatrix) -> FloatMatrix:
        others = shares[:, 0] + shares[:, -1]
        return np.column_stack([others, shares[:, 1:-1], others])

    def best(self, shares: FloatMatrix) -> IntVector:
        return np.asarray(shares[:, :-1].argmax(axis=1))  # that it is some other class is no answer

    def classes(self, columns: IntVector) -> IntVector:
        return np.where(columns > 0, self.of_row[np.arange(len(columns)), columns], self.codes)

    def put_back(self, shares: FloatMatrix, priors: FloatVector) -> FloatMatrix:
        every, rows = np.tile(priors, (len(shares), 1)), np.arange(len(shares))
        every[rows, self.codes] = 0.0
        np.put_along_axis(every, self.of_row[:, 1:-1], 0.0, 1)
        every *= shares[:, -1:] / every.sum(axis=1, keepdims=True)
        np.put_along_axis(every, self.of_row[:, 1:-1], shares[:, 1:-1], 1)
        every[rows, self.codes] = shares[rows, self.at]
        return every


def evidence_about(
    codes: IntVector,
    priors: FloatVector,
    shares_of: Callable[[int, int], list[FloatMatrix]],
    predictions: Sequence[FloatMatrix] = (),
) -> tuple[list[FloatMatrix], Columns]:
    """Kinds of evidence about all rows, and what their columns are; `shares_of` has them of rows from one to another.

    The third kind, and predictions for each class, say which of very many classes have columns of their own.
    """
    if len(priors) <= MOST_CLASSES:
        return shares_of(0, len(codes)), Columns(len(priors))
    kinds: list[list[FloatMatrix]] = []
    columns, step = [], max(1, AT_ONCE // len(priors))
    for start in range(0, len(codes), step):
        part = slice(start, min(start + step, len(codes)))
        shares = shares_of(part.start, part.stop)
        columns.append(FewColumns.of_most(sum((p[part] for p in predictions), shares[2]), codes[part], priors))
        kinds.append([columns[-1].take(share) for share in shares])
    return [np.concatenate(kind) for kind in zip(*kinds, strict=True)], FewColumns.joined(columns)
