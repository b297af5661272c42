"""What a row of a page is called, in one place: everything that a page is made from asks here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.types import BoolVector, IntVector

if TYPE_CHECKING:
    from nearworth.tables.dataset import Dataset


@dataclass(frozen=True)
class RowNumbers:
    """The three ways to count rows, and how to get from one to another.

    A file row counts all rows of the file from 0. The page shows this number, and decisions are
    exported with it.

    A labeled row counts the rows that have a label from 0. The audit knows no other rows.

    A shown row counts the rows that are on the page from 0, the listed ones first. Lists in the
    data of a page are in this order. `web/rows.js` is the only part of the script that uses it: all
    others know rows by their file rows.

    Attributes
    ----------
    file_row_of_labeled : array of shape (n labeled rows,)
    labeled_row_of_file : array of shape (n file rows,)
        -1 for rows without a label.
    """

    file_row_of_labeled: IntVector
    labeled_row_of_file: IntVector

    @classmethod
    def make(
        cls, n_labeled: int, file_rows: Any = None, n_file_rows: int | None = None
    ) -> RowNumbers:
        """From the file row of each labeled row; without them all rows have a label."""
        if file_rows is None:
            file_rows = np.arange(n_labeled)
        file_row_of_labeled = np.asarray(file_rows, dtype=np.intp)
        labeled_row_of_file = np.full(n_file_rows or n_labeled, -1, dtype=np.intp)
        labeled_row_of_file[file_row_of_labeled] = np.arange(n_labeled)
        return cls(file_row_of_labeled, labeled_row_of_file)

    @classmethod
    def of(cls, dataset: Dataset, n_labeled: int) -> RowNumbers:
        """The numbers of the rows of a dataset. Without labels in it all rows have one."""
        if dataset.labels is None:
            return cls.make(n_labeled)
        return cls.make(n_labeled, dataset.labeled_rows, dataset.n_rows)

    @property
    def n_labeled(self) -> int:
        return len(self.file_row_of_labeled)

    @property
    def n_file_rows(self) -> int:
        return len(self.labeled_row_of_file)

    def file_rows(self, labeled_rows: Any) -> IntVector:
        """The file rows of some labeled rows.

        >>> RowNumbers.make(3, [0, 2, 5], 6).file_rows([2, 0])
        array([5, 0])
        """
        return np.asarray(self.file_row_of_labeled[np.asarray(labeled_rows, dtype=np.intp)])

    def has_label(self, file_rows: Any) -> BoolVector:
        """Which of some file rows have a label.

        >>> RowNumbers.make(3, [0, 2, 5], 6).has_label([0, 1, 2])
        array([ True, False,  True])
        """
        return np.asarray(self.labeled_row_of_file[np.asarray(file_rows, dtype=np.intp)] >= 0)

    def labeled_rows(self, file_rows: Any) -> IntVector:
        """The labeled rows that some file rows are; all of them must have a label.

        >>> RowNumbers.make(3, [0, 2, 5], 6).labeled_rows([5, 2])
        array([2, 1])
        """
        rows = self.labeled_row_of_file[np.asarray(file_rows, dtype=np.intp)]
        if (rows < 0).any():
            raise ValueError("file_rows: a row without a label is no row of the audit.")
        return np.asarray(rows)
