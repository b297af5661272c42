"""TablePreparer: a mixed table becomes the matrix that distances are taken in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nwl
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearworth._common.text import one_line
from nearworth._common.types import BoolVector, FloatMatrix, IntVector
from nearworth.inputs.arrow import flat_vectors
from nearworth.inputs.parameters import whole_number
from nearworth.inputs.sources import as_table
from nearworth.tables import InputError, listed
from nearworth.tables.columns import OTHER, Column, FreeText, learn_column
from nearworth.tables.readers import missing_cells

# Columns that a message names.
MAX_NAMED = 5


class TablePreparer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a table of mixed columns into numbers whose distances mean something.

    Numbers are standardised (dates are days, truth values 0 and 1), text from a short list becomes
    a 0/1 column for each category, free text some components of its words, lists of numbers are
    embeddings and used as they are. Text such as "$1,234.50", "45 %", "31/12/2020" or "?" is taken
    for what it stands for. Missing numbers are filled with the median and marked by a 0/1 column,
    missing text is a category of its own. Columns that number or name the rows, or never change,
    are left out. `describe()` says what became of each column.

    Parameters
    ----------
    max_categories : int, default=40
        Of text columns with more distinct values, rare ones are grouped.
    passthrough : bool, default=False
        Take all numbers as they are, as parts of an embedding.
    strict : bool, default=False
        Guess nothing: refuse missing values, long lists of categories, free text, infinite numbers,
        and cells of other types than numbers, dates, truth values, text and lists.
    na_values : sequence of str, default=()
        Further texts and numbers that stand for missing values, besides "?", "-", "None", "n/a" and
        the like.

    Examples
    --------
    >>> import pyarrow as pa, nearworth as nw
    >>> table = pa.table({"size": [1.0, 2.0, 3.0], "colour": ["red", "blue", "red"]})
    >>> nw.TablePreparer().fit_transform(table).round(2)
    array([[-1.22,  0.  ,  1.  ],
           [ 0.  ,  1.  ,  0.  ],
           [ 1.22,  0.  ,  1.  ]])
    """

    def __init__(
        self,
        max_categories: int = 40,
        passthrough: bool = False,
        strict: bool = False,
        na_values: Sequence[str] = (),
    ) -> None:
        self.max_categories = max_categories
        self.passthrough = passthrough
        self.strict = strict
        self.na_values = na_values

    def fit(self, X: Any, y: Any = None) -> TablePreparer:  # noqa: ARG002
        """Learn from a training table (pandas, polars, pyarrow) what each column becomes."""
        whole_number(1)("max_categories", self.max_categories)
        table = _as_arrow(X)
        cells = dict(zip(table.column_names, table.columns, strict=True))
        if self.strict:
            # Columns with nothing in them are left out.
            _refuse_missing({name: c for name, c in cells.items() if not missing_cells(c).all()})
        self.columns_: list[Column] = [learn_column(name, c, self) for name, c in cells.items()]
        self.feature_names_in_ = np.array(table.column_names, dtype=object)
        self.n_features_in_ = table.num_columns
        if not any(column.names for column in self.columns_):
            reasons = "; ".join(
                f"{column.name!r} is {column.words}" for column in self.columns_[:MAX_NAMED]
            )
            raise InputError(f"no column is left to compare rows by: {reasons}.")
        return self

    def transform(self, X: Any) -> FloatMatrix:
        """The matrix (N, columns made), float64.

        Columns may come in any order, but all must be there.
        """
        check_is_fitted(self)
        table = _as_arrow(X)
        trained = {*self.feature_names_in_}
        given = {*table.column_names}
        if trained != given:
            missing = sorted(trained - given)[:MAX_NAMED]
            extra = sorted(given - trained)[:MAX_NAMED]
            raise InputError(f"columns differ from training. Missing: {missing}; further: {extra}.")

        used = [column for column in self.columns_ if column.names]
        cells: dict[str, Any] = {}
        for column in used:
            written = table[column.name]
            cells[column.name] = column.reader(written) if column.reader else written
        for column in used:
            column.check_kind(cells[column.name])
        if self.strict:
            _refuse_missing(cells)

        matrix = np.empty((table.num_rows, len(self.get_feature_names_out())))
        ends = np.cumsum([len(column.names) for column in used])
        blocks = np.split(matrix, ends[:-1], axis=1)
        for column, block in zip(used, blocks, strict=True):
            column.encode(cells[column.name], block)
        return matrix

    def texts(self, X: Any) -> IntVector | None:
        """A number for each row, the same for rows with the same texts.

        The matrix may not tell texts apart. None where no column is free text or groups rare
        categories. Case and white space do not count. Rows that have only texts, all of them empty,
        have nothing that could be the same.
        """
        table = _as_arrow(X)
        codes: list[IntVector] = []
        only_texts = all(isinstance(column, FreeText) for column in self.columns_ if column.names)
        is_empty = np.full(table.num_rows, only_texts)
        for column in self.columns_:
            groups_rare = getattr(column, "labels", ())[-1:] == (OTHER,)
            if not isinstance(column, FreeText) and not groups_rare:
                continue
            cells = table[column.name].to_pylist()
            words = [" ".join(str(text or "").casefold().split()) for text in cells]
            texts = np.array(words, dtype=object)
            codes.append(np.unique(texts, return_inverse=True)[1])
            is_empty &= texts == ""
        if not codes:
            return None
        # Empty rows differ from one another.
        codes.append(np.cumsum(is_empty) * is_empty)
        return np.unique(np.stack(codes), axis=1, return_inverse=True)[1].ravel()

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:  # noqa: ARG002
        """Names of the columns of the matrix."""
        check_is_fitted(self)
        return np.array([name for column in self.columns_ for name in column.names], dtype=object)

    def describe(self) -> list[str]:
        """What became of each column, one line each."""
        check_is_fitted(self)
        return [one_line(f"{column.name}: {column.words}") for column in self.columns_]


def _refuse_missing(columns: dict[str, Any]) -> None:
    """Refuse empty cells and infinite numbers."""
    masks: dict[str, BoolVector] = {}
    for name, cells in columns.items():
        is_missing = missing_cells(cells)
        if is_missing.any():
            masks[name] = is_missing
    if masks:
        rows = np.flatnonzero(np.logical_or.reduce(list(masks.values()))).tolist()
        raise InputError(
            f"missing or infinite values in column {listed(masks)} at row {listed(rows)} (0-based)."
            " Drop or fill these rows, or --ignore the column."
        )


def _as_arrow(X: Any) -> Any:
    """A table of any library as an Arrow table."""
    try:
        frame = nwl.from_native(as_table(X, "X"), eager_only=True)
    except TypeError:
        raise TypeError(
            f"X must be a table: pandas, polars or pyarrow; got {type(X).__name__}."
        ) from None
    return flat_vectors(to_arrow(frame))


def to_arrow(frame: Any) -> Any:
    """A frame as an Arrow table; columns that Arrow has no type for become text.

    These are objects of several types, and integers beyond 64 bits, which would lose digits as
    floats.
    """
    frame = nwl.maybe_reset_index(frame)
    try:
        return frame.to_arrow()
    except (pa.ArrowException, OverflowError):
        return pa.table({name: _column_to_arrow(frame.get_column(name)) for name in frame.columns})


def _column_to_arrow(series: Any) -> Any:
    try:
        return series.to_arrow()
    except (pa.ArrowException, OverflowError):
        pairs = zip(series.to_list(), series.is_null().to_list(), strict=True)
        texts = [None if is_missing else str(cell) for cell, is_missing in pairs]
        return pa.array(texts, pa.string())
