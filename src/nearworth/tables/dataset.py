"""Dataset: the rows of a table or of arrays, from the files to the page."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.types import BoolVector, IntVector, Task

if TYPE_CHECKING:
    from nearworth.tables.labels import Target
    from nearworth.tables.prepare import TablePreparer
    from nearworth.tables.read import DataFile


@dataclass(frozen=True)
class Dataset:
    """Rows that are checked and prepared: their features, labels, names, cells and images.

    Rows are counted from 0 among all rows, with a label or without one. Everything is optional: a
    page of an audit of arrays knows little more than the features.

    Attributes
    ----------
    X : array of shape (n_rows, n_features)
        The numbers that rows are compared by, of all rows.
    target : str
        What the labels are called.
    labels : Target, optional
        The labels, and which rows have one. Without it all rows have one.
    validation : Dataset, optional
        Trusted rows, prepared alike.
    id_name, ids : optional
        Column that names the rows, as outputs call it, and its cells.
    names : tuple of str, optional
        What the columns of X are called.
    cells : dict
        Columns as they were in the file, for a page.
    image_shape : tuple of int, optional
        Shape of the image that each row of X is.
    image_names : optional
        A file name for each row, relative to `image_folder`.
    image_root : Path, optional
        The folder that image files must be in, by default `image_folder`.
    source : str
        What the data are called on a page.
    columns : list of str
        "name: treatment" for each column of the file.
    notes : list of str
        What people should know of labels and columns, line by line.
    groups : list of str, optional
        The group of each row that has a label.
    file : DataFile, optional
        The contents of the file that the rows are from.
    table, preparer : optional
        The table that X was made from, and what made it.
    backend, index : optional
        Library and index of the frame that the rows are from.
    """

    X: Any = None
    target: str = "label"
    _: KW_ONLY
    labels: Target | None = None
    validation: Dataset | None = None
    id_name: str | None = None
    ids: Any = None
    names: tuple[str, ...] | None = None
    cells: dict[str, Any] = field(default_factory=dict)
    image_shape: tuple[int, ...] | None = None
    image_names: Any = None
    image_folder: Path = Path()
    image_root: Path | None = None
    source: str = ""
    columns: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    groups: list[str] | None = None
    file: DataFile | None = None
    table: Any = None
    preparer: TablePreparer | None = None
    backend: str | None = None
    index: Any = None

    @property
    def known_labels(self) -> Target:
        """The labels of a dataset that was loaded with them."""
        if self.labels is None:
            raise ValueError("this dataset was made without labels.")
        return self.labels

    @property
    def has_label(self) -> BoolVector:
        """Which rows have a label, shape (n_rows,)."""
        return self.known_labels.labelled

    @property
    def labeled_rows(self) -> IntVector:
        """The rows that have a label."""
        return np.flatnonzero(self.has_label)

    @property
    def unlabeled_rows(self) -> IntVector:
        """The rows that have no label."""
        return np.flatnonzero(~self.has_label)

    @property
    def n_rows(self) -> int:
        return len(self.has_label)

    @property
    def task(self) -> Task:
        return self.known_labels.task

    @property
    def y(self) -> Any:
        """The label of each row that has one."""
        return self.known_labels.y

    @cached_property
    def X_labeled(self) -> Any:  # noqa: N802
        """The features of the rows that have a label. No copy is made if all have one."""
        return self.X if self.has_label.all() else self.X[self.has_label]

    @property
    def X_val(self) -> Any:  # noqa: N802
        """The features of the trusted rows that have a label, if there are trusted rows."""
        return None if self.validation is None else self.validation.X_labeled

    @property
    def y_val(self) -> Any:
        """The labels of the trusted rows, if there are any."""
        return None if self.validation is None else self.validation.y

    def texts(self) -> IntVector | None:
        """A number for each row with a label, the same for rows with the same texts.

        None if the features tell all texts apart.
        """
        if self.preparer is None:
            return None
        texts = self.preparer.texts(self.table)
        if texts is None or self.has_label.all():
            return texts
        return np.asarray(texts[self.has_label])

    def name_columns(self, rows: IntVector) -> dict[str, Any]:
        """The columns of an output that say which rows these are."""
        columns: dict[str, Any] = {"row": rows}
        if self.id_name is not None:
            columns[self.id_name] = self.ids.take(rows)
        return columns
