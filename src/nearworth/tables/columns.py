"""What each kind of column becomes: numbers, 0/1 columns, an embedding, components of a text, or
nothing.

What has no plain distance is prepared as well as can be, or left out; a strict preparer refuses it
with advice. For a further kind of column, write a subclass of Column and enter it in COLUMNS.
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
from nearworth.tables import InputError
from nearworth.tables.readers import SAMPLE, NumberText, Reader, find_reader, kind_of

MILLISECONDS_PER_DAY = 86_400_000.0
PROSE = 3.0  # words on average: free text, not a name
RARE = 3  # a category of fewer rows is grouped with others
FEW_ROWS = 10  # so few rows may well differ all by chance
OTHER = "(other)"  # the category of rare ones
N_TERMS, N_COMPONENTS = 20_000, 50  # of a free text
TEXT_VARIANCE = 4.0  # a free text counts as much as four numbers
MOSTLY_DISTINCT = 0.98  # of the rows have an id of their own; the others are copies
ID_NAME = re.compile(
    r"(?i:(^|[^a-z])(id|ids|uuid|guid|index|idx|key|unnamed.*|ssn|phone|isbn|ean|sku)$)|[a-z]I[dD]$"
)
NUMERIC = {"number": "number", "date": "date, as days", "truth": "true/false, as 1/0"}


@dataclass(frozen=True)
class Column:
    """What a column of a table becomes, in words, and its columns in the matrix; this class is for
    one left out.
    """

    name: str
    kind: str
    words: str
    names: tuple[str, ...] = ()
    reader: Reader | None = None  # of the cells; None where they are taken for what they are

    @classmethod
    def learn(cls, name: str, kind: str, cells: Any, preparer: Any) -> Column:  # noqa: ARG003
        """What an Arrow column becomes by the parameters of a TablePreparer; or a refusal with
        advice.
        """
        return _left_out(name, kind)

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        """Write an Arrow column into `out` (rows, names)."""

    def check_kind(self, cells: Any) -> None:
        """Refuse cells of another kind than in training, unless they can be written as that."""
        found, kind = kind_of(cells), self.kind
        usable = found == kind or "nothing" in (found, kind) or {found, kind} == {"number", "truth"}
        if not usable and not (kind == "text" and found in NUMERIC):
            raise InputError(
                f"column {self.name!r} holds cells of type {kind} in training but {found} here."
            )


def learn_column(name: str, cells: Any, preparer: Any) -> Column:
    """The column by what its cells stand for, left out where they tell nothing; a strict preparer
    takes no guess.
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
    why = names_rows(name, read) if kind == "number" and not preparer.as_they_are else ""
    column = _left_out(name, kind, why) if why else COLUMNS[kind].learn(name, kind, read, preparer)
    more = f"; {reader.words}" if column.names and reader.words else ""
    return replace(column, reader=reader, words=column.words + more)


def _names_by_digits(cells: Any) -> bool:
    """Whether most texts are whole numbers with more digits than floats have: these are names, no
    measurements.
    """
    if kind_of(cells) != "text":
        return False
    texts = [text for text in cells.slice(0, SAMPLE).to_pylist() if text]
    return sum(not float_holds(text) for text in texts) > len(texts) / 2


def names_rows(name: str, cells: Any) -> str:
    """Why whole numbers name rows rather than measure them, if they do; empty otherwise."""
    if not types.is_integer(cells.type) or cells.null_count or len(cells) < FEW_ROWS:
        return ""
    values = cells.to_numpy()
    n_distinct = len(np.unique(values))
    if n_distinct == len(values) and int(values.max()) - int(values.min()) == len(values) - 1:
        return "it numbers the rows"
    is_id = ID_NAME.search(name) and n_distinct >= MOSTLY_DISTINCT * len(values)
    return "an id, different in almost every row" if is_id else ""


def _left_out(name: str, kind: str, why: str = "every cell is empty") -> Column:
    return Column(name, kind, f"left out: {why}")


@dataclass(frozen=True)
class Numbers(Column):
    """Numbers, dates (as days) and truth values (0 and 1), standardised unless they are parts of an
    embedding.
    """

    centre: float = 0.0
    scale: float = 1.0
    median: float = np.nan  # takes the place of missing values

    @classmethod
    def learn(cls, name: str, kind: str, cells: Any, preparer: Any) -> Column:
        values = _floats(cells, kind)
        known = values[~np.isnan(values)]
        if not known.size:
            return _left_out(name, kind)
        median, words = float(np.median(known)), f"{NUMERIC[kind]}, standardised"
        size = float(np.abs(known).max()) or 1.0  # the squares of large numbers would overflow
        centre, scale = float((known / size).mean() * size), float((known / size).std() * size)
        if preparer.as_they_are:
            centre, scale, words = 0.0, 1.0, f"{NUMERIC[kind]}, used as it is"
        elif scale == 0 and known.size == values.size:
            return _left_out(name, kind, "the same in every row")
        names: tuple[str, ...] = (name,)
        if known.size < values.size:
            middle = np.datetime64(round(median), "D") if kind == "date" else f"{median:.6g}"
            words += f", missing filled with the median {middle}"
            if not preparer.as_they_are:
                names, words = (
                    (name, f"{name} is missing"),
                    f"{words} and marked ({values.size - known.size:,})",
                )
        return cls(name, kind, words, names, centre=centre, scale=scale or 1.0, median=median)

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        values = _floats(cells, self.kind)
        missing = np.isnan(values)
        values[missing] = self.median
        out[:, 0] = (values - self.centre) / self.scale
        out[:, 1:] = missing[:, None]


@dataclass(frozen=True)
class Categories(Column):
    """Text from a short list: a 0/1 column for each category, all 0 for a category that training
    did not have.
    """

    labels: tuple[str, ...] = ()

    @classmethod
    def learn(cls, name: str, kind: str, cells: Any, preparer: Any) -> Column:
        text = _text(cells)
        found = text.value_counts()
        count = dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))
        if len(count) == 1:
            return (
                _left_out(name, kind, "the same in every row")
                if "" not in count
                else _left_out(name, kind)
            )
        if not preparer.strict and (
            len(count) > preparer.max_categories or len(count) == len(text) >= FEW_ROWS
        ):
            return cls._learn_many(name, text, count, preparer)
        if len(count) > preparer.max_categories:
            raise InputError(
                f"column {name!r}: {len(count):,} distinct texts, more than the"
                f" {preparer.max_categories} that may become 0/1 columns. Use --ignore {name!r},"
                f" --id {name!r} if it names the rows, or --max-categories."
            )
        labels = tuple(sorted(count))
        words = (
            f"{len(labels)} categories{' (missing is one of them)' * ('' in count)}, one 0/1 column"
            " each"
        )
        return cls(name, kind, words, tuple(f"{name}={label}" for label in labels), labels=labels)

    @classmethod
    def _learn_many(cls, name: str, text: Any, count: dict[str, int], preparer: Any) -> Column:
        """Free text, categories of which rare ones are grouped, or names of rows."""
        known = text.filter(pc.not_equal(text, ""))
        if pc.mean(pc.count_substring_regex(known, r"\S+")).as_py() >= PROSE:
            return FreeText.learn(name, "text", text, preparer)
        frequent = sorted(count, key=lambda label: (-count[label], label))[
            : preparer.max_categories - 1
        ]
        labels = tuple(label for label in frequent if count[label] >= RARE)
        if not any(labels):
            return _left_out(
                name, "text", "a different text in almost every row, as names and ids have"
            )
        words = (
            f"{len(count):,} categories, a 0/1 column for each of {len(labels)} frequent ones, one"
            " for the others"
        )
        labels = (*labels, OTHER)
        return cls(name, "text", words, tuple(f"{name}={label}" for label in labels), labels=labels)

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        other = len(self.labels) - 1 if self.labels[-1] == OTHER else -1
        codes = pc.fill_null(
            pc.index_in(_text(cells), value_set=pa.array(self.labels, pa.string())), other
        )
        out[:] = codes.to_numpy()[:, None] == np.arange(len(self.labels))


@dataclass(frozen=True)
class FreeText(Column):
    """Sentences: principal components of weighted counts of words, together as large as
    TEXT_VARIANCE numbers.
    """

    components: Any = None  # a scikit-learn pipeline
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
        words = TfidfVectorizer(sublinear_tf=True, min_df=2, max_df=0.9, max_features=N_TERMS)
        try:
            counts = words.fit_transform(texts)
        except ValueError:  # no word occurs twice
            return _left_out(name, kind, "text without a word that two rows share")
        if counts.shape[1] < 2:  # components need two
            return _left_out(name, kind, "text with one word only that rows share")
        n = max(1, min(N_COMPONENTS, counts.shape[1] - 1, len(texts) - 1))
        components = make_pipeline(words, TruncatedSVD(n, random_state=0), Normalizer())
        with threadpool_limits(1, user_api="blas"):  # the same to the bit for any number of threads
            matrix = components.fit_transform(texts)
        weight = min(TEXT_VARIANCE, n)
        scale = float(np.sqrt(matrix.var(axis=0).sum() / weight)) or 1.0
        parts = f"{n} component{'s' * (n != 1)} of its {counts.shape[1]:,} words"
        says = f"free text, {parts}, weighed like {weight:.0f} number{'s' * (weight != 1)}"
        names = tuple(f"{name}~{i}" for i in range(n))
        return cls(
            name, kind, says, names, components=components, centre=matrix.mean(axis=0), scale=scale
        )

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        out[:] = (self.components.transform(_text(cells).to_pylist()) - self.centre) / self.scale


@dataclass(frozen=True)
class Embedding(Column):
    """A list of numbers in each cell, used as it is."""

    mean: Any = None  # takes the place of missing lists

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
        except InputError as problem:
            if preparer.strict:
                raise
            return _left_out(
                name, kind, str(problem).partition(": ")[2].partition(". ")[0].rstrip(".")
            )
        missing = f", {cells.null_count:,} missing filled with the mean" * bool(cells.null_count)
        return replace(column, mean=matrix.mean(axis=0), words=words + missing)

    def encode(self, cells: Any, out: FloatMatrix) -> None:
        if cells.null_count:
            known = np.asarray(cells.is_valid().to_numpy(), dtype=bool)
            filled = np.empty((int(known.sum()), out.shape[1]))
            self.encode(cells.drop_null(), filled)
            out[:], out[known] = self.mean, filled
            return
        size, where = len(self.names), f"column {self.name!r}:"
        lengths = pc.list_value_length(cells).to_numpy()
        wrong = np.flatnonzero(lengths != size)
        if wrong.size:
            problem = f"row {wrong[0]} holds {lengths[wrong[0]]} numbers where others hold {size}"
            raise InputError(
                f"{where} {problem}. Lists must be equally long; drop or repair the row."
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
        moments = cells.cast(
            pa.timestamp("ms", tz=getattr(cells.type, "tz", None)), safe=False
        ).cast(pa.int64())
        cells = pc.divide(pc.cast(moments, pa.float64()), MILLISECONDS_PER_DAY)
    return np.array(cells.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
