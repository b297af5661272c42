"""What each kind of column becomes: numbers, 0/1 columns, an embedding, components of a text.

A column without a plain distance is prepared as well as can be, or left out. A strict preparer
refuses it with advice. For a further kind of column, write a subclass of Column and enter it in
COLUMNS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from nearworth._common.digits import float_holds
from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.tables import InputError, number_of
from nearworth.tables.readers import SAMPLE, NumberText, Reader, find_reader, kind_of

MILLISECONDS_PER_DAY = 86_400_000.0
# Texts of so many words on average are free text, and fewer are names.
MIN_PROSE_WORDS = 3.0
# A category of fewer rows is grouped with others.
MIN_CATEGORY_ROWS = 3
# Fewer rows may well differ all by chance.
MIN_ROWS_TO_DIFFER = 10
# The category of rare ones.
OTHER = "(other)"
# Words and components of a free text.
MAX_TERMS = 20_000
MAX_COMPONENTS = 50
# A free text counts as much as four numbers.
TEXT_VARIANCE = 4.0
# Share of rows with an id of their own in a column of ids. The others are duplicates.
MIN_DISTINCT_IDS = 0.98
ID_NAME = re.compile(
    r"(?i:(^|[^a-z])(id|ids|uuid|guid|index|idx|key|unnamed.*|ssn|phone|isbn|ean|sku)$)|[a-z]I[dD]$"
)
SAME_IN_EVERY_ROW = "the same in every row"
NUMERIC = {"number": "number", "date": "date, as days", "truth": "true/false, as 1/0"}


@dataclass(frozen=True)
class Column:
    """What a column of a table becomes. This class is for one that is left out.

    Attributes
    ----------
    name, kind : str
        The column of the table, and the kind of its cells.
    words : str
        What becomes of it, for people.
    names : tuple of str
        Its columns in the matrix.
    reader : Reader, optional
        How its cells are read. Without one they are taken for what they are.
    """

    name: str
    kind: str
    words: str
    names: tuple[str, ...] = ()
    reader: Reader | None = None

    @classmethod
    def learn(cls, name: str, kind: str, cells: Any, preparer: Any) -> Column:  # noqa: ARG003
        """What an Arrow column becomes, by the parameters of a TablePreparer.

        A column that a strict preparer cannot take is refused with advice.
        """
        return _left_out(name, kind)

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        """Write an Arrow column into `out` (rows, names)."""

    def check_kind(self, cells: Any) -> None:
        """Refuse cells of another kind than in training, unless they can be written as that."""
        kind = kind_of(cells)
        kinds = {kind, self.kind}
        is_usable = len(kinds) == 1 or "nothing" in kinds or kinds == {"number", "truth"}
        is_printable = self.kind == "text" and kind in NUMERIC
        if not is_usable and not is_printable:
            raise InputError(
                f"column {self.name!r} holds cells of type {self.kind} in training but {kind} here."
            )


def learn_column(name: str, cells: Any, preparer: Any) -> Column:
    """What becomes of a column, by what its cells stand for.

    A strict preparer takes cells for what they are.
    """
    reader = None if preparer.strict else find_reader(cells, preparer.na_values)
    if isinstance(reader, NumberText) and _names_by_digits(cells):
        reader = Reader(reader.nothing)
    read = cells if reader is None else reader(cells)
    kind = kind_of(read)
    if kind not in COLUMNS:
        if preparer.strict:
            raise InputError(
                f"column {name!r}: holds {kind}, which has no distance. Use --ignore {name!r}."
            )
        return _left_out(name, kind, f"{kind} has no distance")
    if reader is None:
        return COLUMNS[kind].learn(name, kind, read, preparer)

    may_be_ids = kind == "number" and not preparer.passthrough
    reason = names_rows(name, read) if may_be_ids else ""
    if reason:
        column = _left_out(name, kind, reason)
    else:
        column = COLUMNS[kind].learn(name, kind, read, preparer)
    words = column.words
    if column.names and reader.words:
        words += f"; {reader.words}"
    return replace(column, reader=reader, words=words)


def _names_by_digits(cells: Any) -> bool:
    """Whether most texts are numbers with more digits than floats have: names, no measurements."""
    if kind_of(cells) != "text":
        return False
    texts = [text for text in cells.slice(0, SAMPLE).to_pylist() if text]
    return sum(not float_holds(text) for text in texts) > len(texts) / 2


def names_rows(name: str, cells: Any) -> str:
    """Why whole numbers name rows rather than measure them, if they do; empty otherwise."""
    if not types.is_integer(cells.type) or cells.null_count or len(cells) < MIN_ROWS_TO_DIFFER:
        return ""
    values = cells.to_numpy()
    n_distinct = len(np.unique(values))
    width = int(values.max()) - int(values.min())
    if n_distinct == len(values) and width == len(values) - 1:
        return "it numbers the rows"
    is_id = ID_NAME.search(name) and n_distinct >= MIN_DISTINCT_IDS * len(values)
    return "an id, different in almost every row" if is_id else ""


def _left_out(name: str, kind: str, why: str = "every cell is empty") -> Column:
    return Column(name, kind, f"left out: {why}")


@dataclass(frozen=True)
class Numbers(Column):
    """Numbers, dates (as days) and truth values (0 and 1).

    They are standardised unless they are parts of an embedding. The median takes the place of
    missing values.
    """

    centre: float = 0.0
    scale: float = 1.0
    median: float = np.nan

    @classmethod
    def learn(cls, name: str, kind: str, cells: Any, preparer: Any) -> Column:
        values = _floats(cells, kind)
        known = values[~np.isnan(values)]
        if not known.size:
            return _left_out(name, kind)
        median = float(np.median(known))
        n_missing = values.size - known.size
        if preparer.passthrough:
            centre = 0.0
            scale = 1.0
            words = f"{NUMERIC[kind]}, used as it is"
        else:
            # The squares of large numbers would overflow.
            size = float(np.abs(known).max()) or 1.0
            centre = float((known / size).mean() * size)
            scale = float((known / size).std() * size)
            words = f"{NUMERIC[kind]}, standardised"
            if scale == 0 and not n_missing:
                return _left_out(name, kind, SAME_IN_EVERY_ROW)

        names: tuple[str, ...] = (name,)
        if n_missing:
            shown = np.datetime64(round(median), "D") if kind == "date" else f"{median:.6g}"
            words += f", missing filled with the median {shown}"
        if n_missing and not preparer.passthrough:
            names = (name, f"{name} is missing")
            words += f" and marked ({n_missing:,})"
        return cls(name, kind, words, names, centre=centre, scale=scale or 1.0, median=median)

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        values = _floats(cells, self.kind)
        missing = np.isnan(values)
        values[missing] = self.median
        out[:, 0] = (values - self.centre) / self.scale
        out[:, 1:] = missing[:, None]


@dataclass(frozen=True)
class Categories(Column):
    """Text from a short list: a 0/1 column for each category.

    All of them are 0 for a category that training did not have.
    """

    labels: tuple[str, ...] = ()

    @classmethod
    def learn(cls, name: str, kind: str, cells: Any, preparer: Any) -> Column:
        text = _text(cells)
        pairs = text.value_counts()
        counts = dict(zip(pairs.field(0).to_pylist(), pairs.field(1).to_pylist(), strict=True))
        if len(counts) == 1:
            is_empty = "" in counts
            return _left_out(name, kind) if is_empty else _left_out(name, kind, SAME_IN_EVERY_ROW)
        has_many = len(counts) > preparer.max_categories
        all_differ = len(counts) == len(text) and len(text) >= MIN_ROWS_TO_DIFFER
        if not preparer.strict and (has_many or all_differ):
            return cls._learn_many(name, text, counts, preparer)
        if has_many:
            raise InputError(
                f"column {name!r}: {len(counts):,} distinct texts, more than the"
                f" {preparer.max_categories} that may become 0/1 columns. Use --ignore {name!r},"
                f" --id {name!r} if it names the rows, or --max-categories."
            )
        labels = tuple(sorted(counts))
        remark = " (missing is one of them)" if "" in counts else ""
        words = f"{len(labels)} categories{remark}, one 0/1 column each"
        names = tuple(f"{name}={label}" for label in labels)
        return cls(name, kind, words, names, labels=labels)

    @classmethod
    def _learn_many(cls, name: str, text: Any, counts: dict[str, int], preparer: Any) -> Column:
        """Free text, categories of which rare ones are grouped, or names of rows."""
        known = text.filter(pc.not_equal(text, ""))
        mean_words = pc.mean(pc.count_substring_regex(known, r"\S+")).as_py()
        if mean_words >= MIN_PROSE_WORDS:
            return FreeText.learn(name, "text", text, preparer)
        by_count = sorted(counts, key=lambda label: (-counts[label], label))
        # One of the columns is for the others.
        candidates = by_count[: preparer.max_categories - 1]
        frequent = [label for label in candidates if counts[label] >= MIN_CATEGORY_ROWS]
        if not any(frequent):
            return _left_out(
                name, "text", "a different text in almost every row, as names and ids have"
            )
        words = (
            f"{len(counts):,} categories, a 0/1 column for each of {len(frequent)} frequent ones,"
            " one for the others"
        )
        labels = (*frequent, OTHER)
        names = tuple(f"{name}={label}" for label in labels)
        return cls(name, "text", words, names, labels=labels)

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        # The code of a category that training did not have: no column has the code -1.
        unknown = len(self.labels) - 1 if self.labels[-1] == OTHER else -1
        known = pc.index_in(_text(cells), value_set=pa.array(self.labels, pa.string()))
        codes = pc.fill_null(known, unknown)
        out[:] = codes.to_numpy()[:, None] == np.arange(len(self.labels))


@dataclass(frozen=True)
class FreeText(Column):
    """Sentences: principal components of weighted counts of words.

    Together they are as large as TEXT_VARIANCE numbers. `components` is a scikit-learn pipeline.
    """

    components: Any = None
    centre: Any = 0.0
    scale: float = 1.0

    @classmethod
    def learn(cls, name: str, kind: str, cells: Any, preparer: Any) -> Column:  # noqa: ARG003
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import Normalizer
        from threadpoolctl import threadpool_limits

        texts = _text(cells).to_pylist()
        vectorizer = TfidfVectorizer(
            sublinear_tf=True, min_df=2, max_df=0.9, max_features=MAX_TERMS
        )
        try:
            n_terms = vectorizer.fit_transform(texts).shape[1]
        except ValueError:
            # No word occurs twice.
            return _left_out(name, kind, "text without a word that two rows share")
        # Components need two words.
        if n_terms < 2:
            return _left_out(name, kind, "text with one word only that rows share")

        n = max(1, min(MAX_COMPONENTS, n_terms - 1, len(texts) - 1))
        components = make_pipeline(vectorizer, TruncatedSVD(n, random_state=0), Normalizer())
        # One thread: results are the same to the bit for any number of threads.
        with threadpool_limits(1, user_api="blas"):
            matrix = components.fit_transform(texts)
        weight = min(TEXT_VARIANCE, n)
        scale = float(np.sqrt(matrix.var(axis=0).sum() / weight)) or 1.0
        source = f"{number_of('component', n)} of its {n_terms:,} words"
        return cls(
            name,
            kind,
            f"free text, {source}, weighed like {number_of('number', round(weight))}",
            tuple(f"{name}~{i}" for i in range(n)),
            components=components,
            centre=matrix.mean(axis=0),
            scale=scale,
        )

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        out[:] = (self.components.transform(_text(cells).to_pylist()) - self.centre) / self.scale


@dataclass(frozen=True)
class Embedding(Column):
    """A list of numbers in each cell, used as it is. The mean takes the place of missing lists."""

    mean: Any = None

    @classmethod
    def learn(cls, name: str, kind: str, cells: Any, preparer: Any) -> Column:
        lengths = pc.drop_null(pc.list_value_length(cells))
        if not pc.max(lengths).as_py():
            return _left_out(name, kind)
        size = int(lengths[0].as_py())
        words = f"embedding of {size} numbers, used as it is"
        column = cls(name, kind, words, tuple(f"{name}[{i}]" for i in range(size)))
        matrix = np.empty((len(lengths), size))
        try:
            column.encode(cells.drop_null(), matrix)
        except InputError as error:
            if preparer.strict:
                raise
            # The first sentence, without the name of the column.
            problem = str(error).partition(": ")[2].partition(". ")[0]
            return _left_out(name, kind, problem.rstrip("."))
        if cells.null_count:
            words += f", {cells.null_count:,} missing filled with the mean"
        return replace(column, mean=matrix.mean(axis=0), words=words)

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        if cells.null_count:
            known = np.asarray(cells.is_valid().to_numpy(), dtype=bool)
            filled = np.empty((int(known.sum()), out.shape[1]))
            self.encode(cells.drop_null(), filled)
            out[:] = self.mean
            out[known] = filled
            return
        size = len(self.names)
        where = f"column {self.name!r}:"
        lengths = pc.list_value_length(cells).to_numpy()
        wrong = np.flatnonzero(lengths != size)
        if wrong.size:
            row = wrong[0]
            raise InputError(
                f"{where} row {row} holds {lengths[row]} numbers where others hold {size}. Lists"
                " must be equally long; drop or repair the row."
            )
        flat = pc.list_flatten(cells)
        if kind_of(flat) != "number":
            raise InputError(
                f"{where} holds lists of {flat.type}; only lists of numbers can be compared."
            )
        out[:] = np.asarray(flat.to_numpy(), dtype=np.float64).reshape(out.shape)
        broken = np.flatnonzero(~np.isfinite(out).all(axis=1))
        if broken.size:
            raise InputError(
                f"{where} the list in row {broken[0]} holds a missing or infinite number."
            )


COLUMNS: dict[str, type[Column]] = {
    **dict.fromkeys(NUMERIC, Numbers),
    "text": Categories,
    "list": Embedding,
    "nothing": Column,
}


def _text(cells: Any) -> Any:
    """Text cells, empty ones as "": a category of its own."""
    return pc.fill_null(cells.cast(pa.string()), "")


def _floats(cells: Any, kind: str) -> FloatVector:
    """Numbers, NaN where a cell is empty; always a copy."""
    if types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if kind == "date":
        moments = pa.timestamp("ms", tz=getattr(cells.type, "tz", None))
        milliseconds = cells.cast(moments, safe=False).cast(pa.int64())
        cells = pc.divide(pc.cast(milliseconds, pa.float64()), MILLISECONDS_PER_DAY)
    return np.array(cells.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
