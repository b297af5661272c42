"""Values of documents by ranked lists and relevance judgments.

In the game of a query, the K top-ranked available documents answer it, and their score is the sum
of their gains over K. This is the closed form of `games/classification.py` with real gains.
Documents beyond a list can take at most the worth of its last rank from those in it, so that no
corpus and no index is needed.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np

from nearworth._common.frames import make_frame
from nearworth._common.text import one_line, refuse_alike
from nearworth._common.types import (
    BoolVector,
    FloatMatrix,
    FloatVector,
    IntMatrix32,
    IntVector,
    Semivalue,
    Ties,
)
from nearworth._common.warnings import warn_user
from nearworth.games.classification import linear_values
from nearworth.games.coefficients import Presence, RankWeights, rank_weights
from nearworth.games.owner_game import Nodes, owner_values
from nearworth.games.ties import TieBlocks
from nearworth.inputs.parameters import PARAMETERS
from nearworth.inputs.targets import check_owners
from nearworth.results.owners import (
    OwnerValues,
    owner_values_from_rows,
    owner_values_from_totals,
)

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame


class TrecFormat(NamedTuple):
    """A format of TREC files.

    Attributes
    ----------
    number : str
        The column of numbers, also in frames.
    layout : str
        All columns of a file.
    """

    number: str
    layout: str


FORMATS = {
    "run": TrecFormat("score", "query Q0 document rank score tag"),
    "qrels": TrecFormat("relevance", "query 0 document relevance"),
}

# Scores or relevance of documents, by query and document.
Numbers: TypeAlias = dict[Any, dict[Any, float]]
# A query, a document and its score or relevance, not checked yet.
Triples: TypeAlias = Iterable[tuple[Any, Any, Any]]
# What users may pass: a path, a mapping by query, or a frame.
ByQuery: TypeAlias = Mapping[Any, Mapping[Any, float] | Sequence[Any]]
Lists: TypeAlias = "str | os.PathLike[str] | ByQuery | IntoDataFrame"


@dataclass(frozen=True)
class _Games:
    """The games of all queries, and the pairs of queries and documents that take part.

    Attributes
    ----------
    n_neighbors : int
        K.
    presence : Presence
    gains : array of shape (pairs,)
        The gain of each listed document, query by query in rank order.
    is_first : bool array of shape (pairs,)
        Where blocks of ties begin.
    unlisted_gains : array of shape (2, queries)
        The largest and the smallest gain of judged documents that are not in the list. The largest
        is at least 0 and the smallest at most 0, because other documents have no gain.
    last_worth : array of shape (queries,)
        The worth of the last rank of each list.
    """

    n_neighbors: int
    presence: Presence
    gains: FloatVector
    is_first: BoolVector
    unlisted_gains: FloatMatrix
    last_worth: FloatVector


class RetrievalValues:
    """Values of the documents of all lists, the mean over queries. Made by `value_retrieval`.

    Values lie between `lower` and `upper`, because relevant documents that are not in a list may
    be anywhere behind it.

    Attributes
    ----------
    documents : list
        The names of the documents.
    queries : list
        The names of the queries.
    values : ndarray of shape (documents,)
        The value of each document.
    lower : ndarray of shape (documents,)
        Certified lower end of each value.
    upper : ndarray of shape (documents,)
        Certified upper end of each value.
    error_bound : float
        The largest possible error of a value. 0.0 where values are exact.
    n_queries : ndarray of shape (documents,)
        In how many lists each document is.
    pairs : ndarray of shape (2, pairs)
        Positions in `queries` and in `documents` of each entry of a list.
    contributions : ndarray of shape (pairs,)
        The value of the document of each pair in the game of its query.
    """

    def __init__(
        self,
        documents: list[Any],
        queries: list[Any],
        pairs: IntMatrix32,
        contributions: FloatVector,
        games: _Games,
    ) -> None:
        self.documents = documents
        self.queries = queries
        self.pairs = pairs
        self.contributions = contributions
        self._games = games
        self.values = self._mean(contributions)
        # The losses of all ranks beyond a list add up to at most the worth of its last rank.
        lowest, highest = -games.last_worth * games.unlisted_gains
        self.lower = self.values + self._mean(lowest[pairs[0]])
        self.upper = self.values + self._mean(highest[pairs[0]])
        errors = np.maximum(self.values - self.lower, self.upper - self.values)
        self.error_bound = float(errors.max())
        self.n_queries = np.bincount(pairs[1], minlength=len(documents))

    def _mean(self, numbers: FloatVector) -> FloatVector:
        """The mean over all queries, by document, of numbers of shape (pairs,)."""
        totals = np.bincount(self.pairs[1], weights=numbers, minlength=len(self.documents))
        return totals / len(self.queries)

    def harmful(self, n: int = 10) -> dict[Any, dict[Any, float]]:
        """Find the documents that hurt most.

        Parameters
        ----------
        n : int, default=10
            How many documents, at most. Only those of negative value count.

        Returns
        -------
        dict
            For each document, worst first, the queries that it hurts and its contribution to each.
        """
        worst = np.argsort(self.values, kind="stable")[:n]
        harm_by_document = {}
        for document in worst[self.values[worst] < 0]:
            is_harm = (self.pairs[1] == document) & (self.contributions < 0)
            positions = np.flatnonzero(is_harm)
            positions = positions[np.argsort(self.contributions[positions], kind="stable")]
            queries = [self.queries[query] for query in self.pairs[0, positions]]
            harm = self.contributions[positions].tolist()
            harm_by_document[self.documents[document]] = dict(zip(queries, harm, strict=True))
        return harm_by_document

    def value_owners(self, sources: Mapping[Any, Any]) -> OwnerValues:
        """Value the sources as players, each with all of its documents or none.

        Unlike the totals of `sum_by`, these gain next to nothing by copies of documents.

        Parameters
        ----------
        sources : dict
            The source of each document.

        Returns
        -------
        OwnerValues
        """
        labels, codes = self._codes_of(sources)
        stops = np.cumsum(np.bincount(self.pairs[0])).tolist()
        intervals = np.zeros((3, len(labels)))
        for query, (start, stop) in enumerate(pairwise([0, *stops])):
            self._add_source_values(query, slice(start, stop), codes, intervals)
        return owner_values_from_totals(
            labels,
            codes,
            intervals / len(self.queries),
            None,
            how=f"{len(labels):,} sources as players, each with all of its documents or none",
        )

    def _add_source_values(
        self, query: int, pairs: slice, codes: IntVector, intervals: FloatMatrix
    ) -> None:
        """Add the values of sources in the game of one query.

        Parameters
        ----------
        query : int
        pairs : slice
            The pairs of this query.
        codes : array of shape (documents,)
            The number of each document's source.
        intervals : array of shape (3, sources)
            Values, lower and upper ends. Changed in place.
        """
        games = self._games
        present, source_of_rank = np.unique(codes[self.pairs[1, pairs]], return_inverse=True)
        nodes = Nodes.of(games.presence, len(present))
        intervals[:, present] += owner_values(
            source_of_rank, games.gains[pairs], games.is_first[pairs], games.n_neighbors, nodes
        )
        # Documents beyond the list, of any source, count in coalitions with fewer than K documents
        # of the list.
        largest, smallest = games.unlisted_gains[:, query]
        spread = largest - smallest
        error = 0.0
        if spread:
            sizes = np.bincount(source_of_rank)
            error = spread * _chance_of_few(sizes, games.n_neighbors, nodes)
        intervals[1:] += np.array([[-error], [error]])

    def sum_by(self, sources: Mapping[Any, Any]) -> OwnerValues:
        """Add up the values of each source's documents.

        Parameters
        ----------
        sources : dict
            The source of each document.

        Returns
        -------
        OwnerValues
        """
        labels, codes = self._codes_of(sources)
        intervals = np.stack([self.values, self.lower, self.upper])
        how = "sum over documents, each a player"
        return owner_values_from_rows(labels, codes, intervals, None, how=how)

    def _codes_of(self, sources: Mapping[Any, Any]) -> tuple[list[Any], IntVector]:
        """The distinct sources, and the number of each document's source, shape (documents,)."""
        try:
            source_of_document = [sources[document] for document in self.documents]
        except KeyError as error:
            raise ValueError(
                f"sources must name a source for each document; {error} has none."
            ) from error
        return check_owners(source_of_document, len(self.documents), "sources")

    def to_frame(self, backend: str | None = None) -> Any:
        """Make a frame with one row per document.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default one that is installed.

        Returns
        -------
        frame
            The columns are `document`, `value`, `lower` and `upper` if values are not exact, and
            `n_queries`.
        """
        columns: dict[str, Any] = {"document": self.documents, "value": self.values}
        if self.error_bound > 0:
            columns["lower"] = self.lower
            columns["upper"] = self.upper
        columns["n_queries"] = self.n_queries
        return make_frame(columns, backend)

    def __repr__(self) -> str:
        size = f"{len(self.documents):,} documents in the lists of {len(self.queries):,} queries"
        negative = f"{(self.values < 0).sum():,} of negative value"
        return f"{size}; {negative}; certain to within {self.error_bound:.2g}"


def value_retrieval(
    run: Lists,
    qrels: Lists,
    n_neighbors: int = 10,
    semivalue: Semivalue = "banzhaf",
    *,
    ties: Ties = "average",
) -> RetrievalValues:
    """Value the documents of a corpus by ranked lists and relevance judgments.

    Parameters
    ----------
    run : path, dict or frame
        A TREC run ("query Q0 document rank score tag"), a dict from query to {document: score} or
        to a ranked list, or a frame with columns query, document and score.
    qrels : path, dict or frame
        TREC judgments ("query 0 document relevance"), a dict from query to {document: relevance},
        or a frame with columns query, document and relevance. Any real gains; documents without a
        judgment have none.
    n_neighbors : int, default=10
        K: how many documents answer a query.
    semivalue : default="banzhaf"
        As in `KNNShapley`, but for ("sizes", ...). Banzhaf values fade so fast that lists of 60 are
        exact at K = 5.
    ties : {"average", "index"}
        Documents of equal score share, or stand in the order of the run.

    Returns
    -------
    RetrievalValues

    Examples
    --------
    >>> import nearworth as nw
    >>> v = nw.value_retrieval({"q": ["a", "b", "c"]}, {"q": {"b": 1}}, n_neighbors=1)
    >>> dict(zip(v.documents, v.values.tolist()))
    {'a': -0.5, 'b': 0.5, 'c': 0.0}
    """
    PARAMETERS["n_neighbors"]("n_neighbors", n_neighbors)
    PARAMETERS["semivalue"]("semivalue", semivalue)
    PARAMETERS["ties"]("ties", ties)
    if semivalue[0] == "sizes":
        raise ValueError(
            "semivalue=('sizes', ...) depends on the size of the corpus, which lists do not tell."
        )
    scores = _by_query(run, "run")
    relevance = _by_query(qrels, "qrels")
    _check_names(scores, relevance)
    queries = [query for query in scores if query in relevance]
    _warn_of_queries_left_out(scores, relevance, len(queries))

    documents = list(dict.fromkeys(document for query in queries for document in scores[query]))
    codes = {document: code for code, document in enumerate(documents)}
    lists = [_RankedList.of(scores[query], relevance[query], ties) for query in queries]
    sizes = np.array([len(ranked.documents) for ranked in lists])
    listed = [codes[document] for ranked in lists for document in ranked.documents]
    pairs = np.array([np.repeat(np.arange(len(queries)), sizes), listed], dtype=np.int32)

    presence = Presence.of(semivalue)
    weights = rank_weights(presence, int(sizes.max()), int(n_neighbors))
    games = _Games(
        n_neighbors=int(n_neighbors),
        presence=presence,
        gains=np.concatenate([ranked.gains for ranked in lists]),
        is_first=np.concatenate([ranked.is_first for ranked in lists]),
        unlisted_gains=np.array([ranked.unlisted_gains for ranked in lists]).T,
        last_worth=weights.worth[sizes - 1],
    )
    contributions = np.concatenate([ranked.values(weights) for ranked in lists])
    return RetrievalValues(documents, queries, pairs, contributions, games)


def _check_names(scores: Numbers, relevance: Numbers) -> None:
    """Refuse lists and judgments without a common query, and names that print alike."""
    if scores.keys().isdisjoint(relevance):
        raise ValueError("run and qrels share no query. Are their query names of one kind?")
    refuse_alike(scores | relevance, "run and qrels, queries")
    by_query = (*scores.values(), *relevance.values())
    documents = dict.fromkeys(document for numbers in by_query for document in numbers)
    refuse_alike(documents, "run and qrels, documents")


def _warn_of_queries_left_out(scores: Numbers, relevance: Numbers, n_queries: int) -> None:
    """Warn of queries that lists and judgments do not have in common."""
    n_unjudged = len(scores) - n_queries
    n_unlisted = len(relevance) - n_queries
    if n_unjudged or n_unlisted:
        warn_user(
            f"{n_unjudged:,} queries of run have no judgments and {n_unlisted:,} of qrels no list:"
            " left out."
        )


@dataclass(frozen=True)
class _RankedList:
    """The list of one query.

    Attributes
    ----------
    documents : list
        Nearest first.
    gains : array of shape (documents,)
    is_first : bool array of shape (documents,)
        Where blocks of ties begin.
    unlisted_gains : (float, float)
        The largest and the smallest gain of documents that are not in the list, as in _Games.
    """

    documents: list[Any]
    gains: FloatVector
    is_first: BoolVector
    unlisted_gains: tuple[float, float]

    @classmethod
    def of(cls, scores: Mapping[Any, float], relevance: Mapping[Any, float], ties: Ties) -> Self:
        """The list of a query from the scores and the relevance of documents."""
        by_score = dict(sorted(scores.items(), key=lambda item: -item[1]))
        unlisted = dict(relevance)
        gains = np.array([unlisted.pop(document, 0.0) for document in by_score])
        is_new_score = np.diff(list(by_score.values())) != 0
        return cls(
            documents=list(by_score),
            gains=gains,
            is_first=np.append(True, is_new_score | (ties == "index")),
            unlisted_gains=(max([0.0, *unlisted.values()]), min([0.0, *unlisted.values()])),
        )

    def values(self, weights: RankWeights) -> FloatVector:
        """Values of the documents in the game of this query, given weights of as many ranks."""
        size = len(self.documents)
        by_rank = RankWeights(weights.worth[:size], weights.loss[:size])
        values = linear_values(self.gains[None], by_rank, TieBlocks(self.is_first[None]))
        return np.asarray(values[0])


def _chance_of_few(sizes: IntVector, n_neighbors: int, nodes: Nodes) -> float:
    """P(fewer than K documents are present beside those of one source), for any source.

    Parameters
    ----------
    sizes : array of shape (sources,)
        Number of documents of each source. The largest source is the one left out, which gives the
        largest probability.
    n_neighbors : int
        K.
    nodes : Nodes
        Of the integral over the probability that a source is present.
    """
    # Row j, below K, has the probability at each node that j documents are present.
    distribution = np.zeros((n_neighbors, len(nodes.t)))
    distribution[0] = 1.0
    for size in sorted(sizes.tolist())[:-1]:
        before = distribution
        distribution = (1.0 - nodes.t) * before
        distribution[size:] += nodes.t * before[: max(n_neighbors - size, 0)]
    return float(distribution.sum(axis=0) @ nodes.weights)


def _by_query(source: Any, name: str) -> Numbers:
    """The numbers of documents by query, from any form, checked.

    Parameters
    ----------
    source : path, mapping or frame
    name : {"run", "qrels"}
        What it is, which is also the name of the argument in messages.
    """
    by_query: Numbers = {}
    for query, document, number in _triples(source, name):
        numbers = by_query.setdefault(query, {})
        if document in numbers:
            raise ValueError(
                f"{name}: document {document!r} is listed twice for query {query!r}. List each"
                " once."
            )
        try:
            numbers[document] = float(number)
        except (TypeError, ValueError):
            numbers[document] = math.nan
        if not math.isfinite(numbers[document]):
            raise ValueError(
                f"{name}: the number of document {document!r} for query {query!r} is {number!r}."
            )
    if not by_query:
        raise ValueError(f"{name} is empty: it names no query and no document.")
    return by_query


def _triples(source: Any, name: str) -> Triples:
    """Query, document and number of each line or entry. Higher scores are nearer."""
    if isinstance(source, str | os.PathLike):
        return _read_file(source, name)
    if isinstance(source, Mapping):
        return _read_mapping(source, name)
    if hasattr(source, "columns"):
        return _read_frame(source, name)
    raise TypeError(
        f"{name} must be the path of a TREC file, a dict or a frame; got {type(source).__name__}."
    )


def _read_mapping(lists: Mapping[Any, Any], name: str) -> Triples:
    """Triples from a mapping of queries to {document: number}, or to a ranked list for a run."""
    for query, listed in lists.items():
        if isinstance(listed, Mapping):
            numbers: Iterable[tuple[Any, Any]] = listed.items()
        elif name == "run" and _is_list(listed):
            # Scores 0, -1, -2, ... keep the order of the list.
            numbers = zip(listed, count(0, -1), strict=False)
        else:
            wanted = f"{{document: {FORMATS[name].number}}}"
            if name == "run":
                wanted += " or a ranked list"
            raise TypeError(
                f"{name}: query {query!r} must have {wanted}; got {type(listed).__name__}."
            )
        for document, number in numbers:
            yield query, document, number


def _is_list(documents: Any) -> bool:
    """Whether these are several documents in an order. A text is one document."""
    is_unordered_or_text = isinstance(documents, str | set | frozenset)
    return isinstance(documents, Iterable) and not is_unordered_or_text


def _read_file(path: str | os.PathLike[str], name: str) -> Iterator[tuple[str, str, str]]:
    """Triples from a TREC file, which may be compressed."""
    number, layout = FORMATS[name]
    columns = layout.split()
    position = columns.index(number)
    shown_path = one_line(os.fspath(path))
    open_text = gzip.open if os.fspath(path).endswith(".gz") else open
    try:
        with open_text(path, "rt", encoding="utf-8-sig") as file:
            for line_number, line in enumerate(file, start=1):
                words = line.split()
                if not words:
                    continue
                if len(words) != len(columns):
                    raise ValueError(
                        f"{shown_path}, line {line_number}: has {len(words)} columns instead of"
                        f" {len(columns)}: {layout}."
                    )
                yield words[0], words[2], words[position]
    except UnicodeDecodeError as error:
        raise ValueError(f"{shown_path}: is not text in UTF-8, as TREC files are.") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{shown_path}: is cut short or damaged ({error}). Copy or download it again."
        ) from error


def _read_frame(frame: Any, name: str) -> Triples:
    """Triples from the columns of a frame of any library that narwhals knows."""
    import narwhals.stable.v2 as nwl

    table = nwl.from_native(frame, eager_only=True)
    wanted = ("query", "document", FORMATS[name].number)
    for column in wanted:
        if column not in table.columns:
            raise ValueError(f"{name} has no column {column!r}; it has {table.columns}.")
    return zip(*(table[column].to_list() for column in wanted), strict=True)
