"""What each document of a corpus is worth to the answers drawn from it, from ranked lists and
relevance judgements.

The game of a query: the first K documents that are present answer it, and score the sum of their
gains over K. This is the closed form of `games/classification.py` with real gains. What documents
beyond a list could take from those in it is bounded by what a rank there is worth, so that no
corpus and no index is needed.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import count, pairwise
from typing import Any, NamedTuple

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

# The name of the number in frames, and the columns of TREC files.
FORMATS = {
    "run": ("score", "query Q0 document rank score tag"),
    "qrels": ("relevance", "query 0 document relevance"),
}


class _Games(NamedTuple):
    """The games of all queries, what documents in lists gain and where ties begin, query by query
    as in `pairs`.
    """

    n_neighbors: int
    presence: Presence
    gains: FloatVector
    first: BoolVector
    # (2, queries): the largest and the smallest gain of documents that no list has, or 0
    beyond: FloatMatrix
    last_worth: FloatVector  # of the last rank of each list


class RetrievalValues:
    """Values of the `documents` of all lists, the mean over queries; made by `value_retrieval`.

    They lie between `lower` and `upper`: documents judged relevant that no list has stand somewhere
    behind it. The largest possible distance from a value to the true one is `error_bound`, 0.0 when
    exact. `n_queries` says how many lists each document is in; single contributions are in
    `contributions`, of the (query, document) codes in `pairs`.
    """

    def __init__(
        self,
        documents: list[Any],
        queries: list[Any],
        pairs: IntMatrix32,
        contributions: FloatVector,
        games: _Games,
    ) -> None:
        self.documents, self.queries, self.pairs, self.contributions = (
            documents,
            queries,
            pairs,
            contributions,
        )
        self._games, self.values = games, self._mean(contributions)
        # The losses of all ranks beyond a list add up to what its last rank is worth, at most.
        ends = -games.last_worth * games.beyond
        self.lower, self.upper = (self.values + self._mean(end[pairs[0]]) for end in ends)
        self.error_bound = float(
            np.maximum(self.values - self.lower, self.upper - self.values).max()
        )
        self.n_queries = np.bincount(pairs[1], minlength=len(documents))

    def _mean(self, numbers: FloatVector) -> FloatVector:
        return np.bincount(self.pairs[1], weights=numbers, minlength=len(self.documents)) / len(
            self.queries
        )

    def harmful(self, n: int = 10) -> dict[Any, dict[Any, float]]:
        """The n documents of lowest value, if negative, each with the queries that it hurts and how
        much.
        """
        worst, listed = np.argsort(self.values, kind="stable")[:n], {}
        for document in worst[self.values[worst] < 0]:
            there = np.flatnonzero((self.pairs[1] == document) & (self.contributions < 0))
            there = there[np.argsort(self.contributions[there], kind="stable")]
            queries = (self.queries[code] for code in self.pairs[0, there])
            listed[self.documents[document]] = dict(
                zip(queries, self.contributions[there].tolist(), strict=True)
            )
        return listed

    def value_owners(self, sources: Mapping[Any, Any]) -> OwnerValues:
        """Values of sources as players, each with all of its documents or none, from a mapping of
        documents to sources.

        Unlike the totals of `sum_by`, these gain next to nothing by copies of documents.
        """
        labels, codes = self._codes_of(sources)
        games, ends = self._games, np.cumsum(np.bincount(self.pairs[0])).tolist()
        totals = np.zeros((3, len(labels)))
        for query, (start, stop) in enumerate(pairwise([0, *ends])):
            there, owners = np.unique(codes[self.pairs[1, start:stop]], return_inverse=True)
            nodes = Nodes.of(games.presence, len(there))
            part = slice(start, stop)
            totals[:, there] += owner_values(
                owners, games.gains[part], games.first[part], games.n_neighbors, nodes
            )
            # Documents beyond the list, of any source, count in coalitions with fewer than K
            # documents of it.
            spread = games.beyond[0, query] - games.beyond[1, query]
            off = (
                spread * _chance_of_few(np.bincount(owners), games.n_neighbors, nodes)
                if spread
                else 0.0
            )
            totals[1:] += np.array([[-off], [off]])
        about = {
            "how": f"{len(labels):,} sources as players, each with all of its documents or none"
        }
        return owner_values_from_totals(labels, codes, totals / len(self.queries), None, **about)

    def sum_by(self, sources: Mapping[Any, Any]) -> OwnerValues:
        """Totals by source, from a mapping of documents to sources."""
        labels, codes = self._codes_of(sources)
        intervals = np.stack([self.values, self.lower, self.upper])
        return owner_values_from_rows(
            labels, codes, intervals, None, how="sum over documents, each a player"
        )

    def _codes_of(self, sources: Mapping[Any, Any]) -> tuple[list[Any], IntVector]:
        try:
            return check_owners(
                [sources[document] for document in self.documents], len(self.documents), "sources"
            )
        except KeyError as error:
            raise ValueError(
                f"sources must name a source for each document; {error} has none."
            ) from error

    def to_frame(self, backend: str | None = None) -> Any:
        """A frame with document, value, lower and upper if not exact, and n_queries."""
        ends = {"lower": self.lower, "upper": self.upper} if self.error_bound > 0 else {}
        columns = {
            "document": self.documents,
            "value": self.values,
            **ends,
            "n_queries": self.n_queries,
        }
        return make_frame(columns, backend)

    def __repr__(self) -> str:
        size = f"{len(self.documents):,} documents in the lists of {len(self.queries):,} queries"
        return (
            f"{size}; {(self.values < 0).sum():,} of negative value; certain to within"
            f" {self.error_bound:.2g}"
        )


def value_retrieval(
    run: Any,
    qrels: Any,
    n_neighbors: int = 10,
    semivalue: Semivalue = "banzhaf",
    *,
    ties: Ties = "average",
) -> RetrievalValues:
    """Value the documents of a corpus by ranked lists and relevance judgements.

    Parameters
    ----------
    run : path, dict or frame
        A TREC run ("query Q0 document rank score tag"), a dict from query to {document: score} or
        to a ranked list, or a frame with columns query, document and score.
    qrels : path, dict or frame
        TREC judgements ("query 0 document relevance"), a dict from query to {document: relevance},
        or a frame with columns query, document and relevance. Any real gains; documents without a
        judgement have none.
    n_neighbors : int, default=10
        K: how many documents answer a query.
    semivalue : default="banzhaf"
        As in `KNNShapley`, but for ("sizes", ...). Banzhaf values fade so fast that lists of 60 are
        exact at K = 5.
    ties : {"average", "index"}
        Documents of equal score share, or stand in the order of the run.

    Examples
    --------
    >>> import nearworth as nw
    >>> v = nw.value_retrieval({"q": ["a", "b", "c"]}, {"q": {"b": 1}}, n_neighbors=1)
    >>> dict(zip(v.documents, v.values.tolist()))
    {'a': -0.5, 'b': 0.5, 'c': 0.0}
    """
    for name, given in (("n_neighbors", n_neighbors), ("semivalue", semivalue), ("ties", ties)):
        PARAMETERS[name](name, given)
    if semivalue[0] == "sizes":
        raise ValueError(
            "semivalue=('sizes', ...) depends on the size of the corpus, which lists do not tell."
        )
    lists, judged = _by_query(run, "run"), _by_query(qrels, "qrels")
    queries = [query for query in lists if query in judged]
    if not queries:
        raise ValueError("run and qrels share no query. Are their query names of one kind?")
    refuse_alike(lists | judged, "run and qrels, queries")
    named = (document for numbers in (*lists.values(), *judged.values()) for document in numbers)
    refuse_alike(dict.fromkeys(named), "run and qrels, documents")
    unjudged, lacking = len(lists) - len(queries), len(judged) - len(queries)
    if unjudged or lacking:
        warn_user(
            f"{unjudged:,} queries of run have no judgements and {lacking:,} of qrels no list: left"
            " out."
        )
    sizes = [len(lists[query]) for query in queries]
    presence = Presence.of(semivalue)
    weights = rank_weights(presence, max(sizes), int(n_neighbors))
    documents = list(dict.fromkeys(document for query in queries for document in lists[query]))
    codes = {document: code for code, document in enumerate(documents)}
    listed, values, all_gains, all_first, beyond = [], [], [], [], np.zeros((2, len(queries)))
    for number, (query, size) in enumerate(zip(queries, sizes, strict=True)):
        ranked = dict(sorted(lists[query].items(), key=lambda pair: -pair[1]))
        missing = dict(judged[query])
        all_gains.append(np.array([missing.pop(document, 0.0) for document in ranked]))
        all_first.append(np.append(True, (np.diff(list(ranked.values())) != 0) | (ties == "index")))
        by_rank = RankWeights(weights.worth[:size], weights.loss[:size])
        values.append(
            linear_values(all_gains[-1][None], by_rank, TieBlocks(all_first[-1][None]))[0]
        )
        beyond[:, number] = max([0.0, *missing.values()]), min([0.0, *missing.values()])
        listed += [codes[document] for document in ranked]
    pairs = np.array([np.repeat(np.arange(len(queries)), sizes), listed], dtype=np.int32)
    about = (
        np.concatenate(all_gains),
        np.concatenate(all_first),
        beyond,
        weights.worth[np.array(sizes) - 1],
    )
    games = _Games(int(n_neighbors), presence, *about)
    return RetrievalValues(documents, queries, pairs, np.concatenate(values), games)


def _chance_of_few(sizes: IntVector, n_neighbors: int, nodes: Nodes) -> float:
    """P(fewer than K documents are present beside those of one source), whichever source that
    is.
    """
    law = np.zeros((n_neighbors, len(nodes.t)))
    law[0] = 1.0
    for size in sorted(sizes.tolist())[:-1]:
        before, law = law, (1.0 - nodes.t) * law
        law[size:] += nodes.t * before[: max(n_neighbors - size, 0)]
    return float(law.sum(axis=0) @ nodes.weights)


def _by_query(source: Any, name: str) -> dict[Any, dict[Any, float]]:
    """The numbers of documents by query, from any form; higher scores are nearer."""
    if isinstance(source, str | os.PathLike):
        triples: Iterable[tuple[Any, Any, Any]] = _of_file(source, name)
    elif isinstance(source, Mapping):
        triples = _of_mapping(source, name)
    elif hasattr(source, "columns"):
        triples = _of_frame(source, name)
    else:
        raise TypeError(
            f"{name} must be the path of a TREC file, a dict or a frame; got"
            f" {type(source).__name__}."
        )
    found: dict[Any, dict[Any, float]] = {}
    for query, document, number in triples:
        numbers = found.setdefault(query, {})
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
    if not found:
        raise ValueError(f"{name} is empty: it names no query and no document.")
    return found


def _of_mapping(lists: Mapping[Any, Any], name: str) -> Iterator[tuple[Any, Any, Any]]:
    for query, listed in lists.items():
        is_list = isinstance(listed, Iterable) and not isinstance(listed, str | set | frozenset)
        if not isinstance(listed, Mapping) and (name == "qrels" or not is_list):
            wanted = f"{{document: {FORMATS[name][0]}}}{' or a ranked list' * (name == 'run')}"
            raise TypeError(
                f"{name}: query {query!r} must have {wanted}; got {type(listed).__name__}."
            )
        ranked = (
            listed.items()
            if isinstance(listed, Mapping)
            else zip(listed, count(0, -1), strict=False)
        )
        yield from ((query, document, number) for document, number in ranked)


def _of_file(path: str | os.PathLike[str], name: str) -> Iterator[tuple[str, str, str]]:
    number, layout = FORMATS[name]
    columns, where = layout.split(), one_line(os.fspath(path))
    size, place = len(columns), columns.index(number)
    try:
        with (gzip.open if os.fspath(path).endswith(".gz") else open)(
            path, "rt", encoding="utf-8-sig"
        ) as file:
            for n, line in enumerate(file, start=1):
                words = line.split()
                if words and len(words) != size:
                    raise ValueError(
                        f"{where}, line {n}: has {len(words)} columns instead of {size}: {layout}."
                    )
                if words:
                    yield words[0], words[2], words[place]
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: is not text in UTF-8, as TREC files are.") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{where}: is cut short or damaged ({error}). Copy or download it again."
        ) from error


def _of_frame(frame: Any, name: str) -> Iterator[tuple[Any, Any, Any]]:
    import narwhals.stable.v2 as nwl

    table, wanted = nwl.from_native(frame, eager_only=True), ("query", "document", FORMATS[name][0])
    for column in wanted:
        if column not in table.columns:
            raise ValueError(f"{name} has no column {column!r}; it has {table.columns}.")
    return zip(*(table[column].to_list() for column in wanted), strict=True)
