"""Values when only the nearest points of each query are ranked, found by exact search or by a
searcher.

A near point has a value of its own rank. A far point has one value if it is of the query's class
and another if not, so the sums over queries need one number per class, not one step per far point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from nearworth._common.memory import Memory
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.engine.problem import Problem
from nearworth.engine.run import NearestLists, Request, one_blas_thread
from nearworth.games.classification import ClassificationGame
from nearworth.games.truncation import Tail, TruncatedClassification
from nearworth.neighbors.exact import (
    ExactSearch,
    ask,
    recall_by_distance,
    search_bytes,
    upper_limit,
)
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.neighbors.searchers import Neighbours, Searcher, as_points
from nearworth.results.sums import Leaf

if TYPE_CHECKING:
    from nearworth.engine.plan import Plan

# Value, lower end, upper end: the leading axis of every array of values here.
N_ENDS = 3

# Queries put to a searcher at a time: whole leaves.
SEARCH_BLOCK = 1024

# Queries that are also searched exactly, and the probability with which the certificate holds.
SAMPLE_SIZE = 256
CONFIDENCE = 0.99

# The nearest training points of the validation points start..stop-1 whose ranks are known: complete
# blocks of ties.
Source: TypeAlias = Callable[[int, int], Neighbours]


@dataclass(frozen=True, kw_only=True)
class SearchReport:
    """What a searcher found, measured on a random sample of the validation points.

    Attributes
    ----------
    searcher : str
        Its name.
    n_candidates : int
        K*: the neighbours that were asked for.
    n_sampled : int
        Validation points that were also searched exactly.
    n_complete : int
        Of these, those for which the searcher found all K* neighbours.
    recall : float
        The mean share of the K* neighbours that it found for them.
    incomplete : int
        How many validation points may lack one of their K* nearest neighbours, at most, with
        probability CONFIDENCE. Sampled ones and those in `failed` do not: they were searched
        exactly, unless on_fail says otherwise.
    failed : array
        Validation points for which fewer than K* were found.
    tuning : object
        What the searcher reports of its own parameters, predicted recall included.
    """

    searcher: str
    n_candidates: int
    n_sampled: int
    n_complete: int
    recall: float
    incomplete: int
    failed: IntVector
    tuning: Any = None

    def __str__(self) -> str:
        found = (
            f"all {self.n_candidates:,} neighbours found for {self.n_complete} of {self.n_sampled}"
            " sampled queries"
        )
        return f"{self.searcher}: recall {self.recall:.3f}, {found}; failed for {len(self.failed)}"


def known_ranks(
    problem: Problem, k: int, found: Neighbours, *, by_index: bool = False
) -> Neighbours:
    """The first k found, cut in front of ties that may go on beyond them.

    With `by_index`, points equally far were found in the order of their rows. Where ties are broken
    by index, their ranks are then known.
    """
    n_found = found.sizes
    sizes = np.minimum(n_found, k)
    if by_index and problem.ties != "average":
        return found.first(sizes)
    # The key of the next point, or of the last one where no next is known.
    next_column = np.where(sizes < n_found, sizes, sizes - 1)
    next_key = found.keys[np.arange(len(sizes)), next_column]
    n_nearer = (found.keys < next_key[:, None]).sum(axis=1)
    return found.first(np.where(sizes < problem.game.n_players, n_nearer, sizes))


class ExactSource:
    """Nearest points by exact search: every distance is computed.

    Parameters
    ----------
    problem : Problem
    k : int
        How many of them are found for each query.
    plan : Plan, optional
        The precision of products and, for points that are read from a file, the size of a batch.
        By default products are in single precision and the search chooses the size.
    """

    def __init__(self, problem: Problem, k: int, plan: Plan | None = None) -> None:
        self._problem = problem
        self._k = k
        batch = plan.batch if plan is not None and problem.keys.streamed else None
        self._search = ExactSearch(
            problem.keys, problem.n_train, single=plan is None or plan.single, batch=batch
        )

    def __call__(self, start: int, stop: int) -> Neighbours:
        found = self.nearest(np.arange(start, stop))
        return known_ranks(self._problem, self._k, found, by_index=True)

    def nearest(self, queries: IntVector) -> Neighbours:
        """The k nearest of some validation points, and one more."""
        problem = self._problem
        # The one more shows whether others are tied with the last. With leave_one_out, the query
        # itself is found too.
        n_searched = min(self._k + 1, problem.game.n_players) + problem.leave_one_out
        found = self._search.nearest(problem.queries[queries], n_searched)
        return found.without(problem.self_rows(queries)) if problem.leave_one_out else found


class SearcherSource:
    """Nearest points that a searcher finds, in exact order.

    Its recall is measured on a random sample of the validation points, which get their exact
    neighbours.
    """

    def __init__(
        self,
        problem: Problem,
        searcher: Searcher,
        k: int,
        rng: np.random.Generator,
        listing: NearestLists | None,
    ) -> None:
        self._problem = problem
        self._searcher = searcher
        self.k = k
        self._listing = listing  # if given, it records what is found
        self._exact = ExactSource(problem, k)
        self._n_searched = min(k + 1, problem.game.n_players)
        points = as_points(problem.keys.data)
        self._distances = EuclideanKeys(points)
        self.failed = np.zeros(problem.n_val, dtype=bool)

        # An index may round differently in another batch. So the batches are always the same,
        # wherever a run was resumed.
        self._found_in_block = lru_cache(1)(self._search_block)

        n_sampled = min(SAMPLE_SIZE, problem.n_val)
        self._sampled = np.sort(rng.choice(problem.n_val, n_sampled, replace=False))
        self.n_sampled = n_sampled
        searcher.fit(points)
        with one_blas_thread():
            queries = np.asarray(problem.queries[self._sampled], dtype=np.float64)
            searcher.prepare(self._n_searched + problem.leave_one_out, queries)
            self._exact_sample = self._exact.nearest(self._sampled)
            self._found_sample = self._search(self._sampled)
        self._recall = recall_by_distance(
            self._found_sample.keys[:, :k], self._exact_sample.keys[:, :k]
        )
        self._n_complete = int(np.count_nonzero(self._recall >= 1.0))

    def __call__(self, start: int, stop: int) -> Neighbours:
        first = start - start % SEARCH_BLOCK
        found = self._found_in_block(first).part(np.arange(start, stop) - first)
        failed = found.sizes < self.k
        self.failed[start:stop] |= failed

        # Sampled queries were searched exactly before.
        a, b = np.searchsorted(self._sampled, (start, stop))
        sampled = self._sampled[a:b] - start
        found.rows[sampled] = self._exact_sample.rows[a:b]
        found.keys[sampled] = self._exact_sample.keys[a:b]
        failed[sampled] = False

        if failed.any() and self._searcher.on_fail == "exact":
            exact = self._exact.nearest(start + np.flatnonzero(failed))
            found.rows[failed] = exact.rows
            found.keys[failed] = exact.keys
        if self._listing is not None:
            for query, rows, keys in zip(range(start, stop), *found, strict=True):
                exists = rows >= 0
                self._listing.keep(query, rows[exists], keys[exists])
        return known_ranks(self._problem, self.k, found)

    def report(self) -> SearchReport:
        """What was found so far, and what may be missing."""
        n_val = self._problem.n_val
        n_sampled = self.n_sampled
        incomplete = 0
        if n_sampled < n_val:  # else all were searched exactly
            misses = n_sampled - self._n_complete
            share = upper_limit(misses, n_sampled, CONFIDENCE)
            incomplete = min(int(np.ceil(share * n_val)) - misses, n_val - n_sampled)
        return SearchReport(
            searcher=self._searcher.name,
            n_candidates=self.k,
            n_sampled=n_sampled,
            n_complete=self._n_complete,
            recall=float(self._recall.mean()),
            incomplete=incomplete,
            failed=np.flatnonzero(self.failed),
            tuning=self._searcher.tuning,
        )

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Problem, list[Source]]:
        """Some of the sampled queries, and two sources of their neighbours: those that they have in
        the run, and those that the searcher alone finds, as for queries that are not sampled.
        """
        n_chosen = min(size, self.n_sampled)
        chosen = np.sort(rng.choice(self.n_sampled, n_chosen, replace=False))
        exact = self._exact_sample.part(chosen)
        found = self._found_sample.part(chosen)
        if self._searcher.on_fail == "exact":
            failed = found.sizes < self.k
            found.rows[failed] = exact.rows[failed]
            found.keys[failed] = exact.keys[failed]
        problem = self._problem.some(self._sampled[chosen])

        def source_of(neighbours: Neighbours) -> Source:
            return lambda start, stop: known_ranks(
                problem, self.k, neighbours.part(slice(start, stop))
            )

        return problem, [source_of(exact), source_of(found)]

    def identity(self) -> str:
        """What must be the same before a run can be resumed: the searcher as built, and its recall
        on the sample.
        """
        assert self._searcher.fingerprint is not None
        complete = f"{self._n_complete} of {self.n_sampled} complete"
        return f"{self._searcher.name} {self._searcher.fingerprint()}, {complete}"

    def _search_block(self, first: int) -> Neighbours:
        return self._search(np.arange(first, min(first + SEARCH_BLOCK, self._problem.n_val)))

    def _search(self, queries: IntVector) -> Neighbours:
        """What the searcher finds for some validation points, and one neighbour more than k."""
        problem = self._problem
        excluded = queries if problem.leave_one_out else None
        points = problem.queries[queries]
        with one_blas_thread():
            return ask(self._searcher, self._distances, queries, points, self._n_searched, excluded)


class QueryValues(NamedTuple):
    """Values of one query.

    Attributes
    ----------
    query : int
        Its number.
    label : int
    near_rows : array of shape (k,)
        The points that are ranked.
    near : array of shape (3, k)
        Their values.
    match, other : arrays of shape (3,)
        The value of any far point that matches, and of any other.
    """

    query: int
    label: int
    near_rows: IntVector
    near: FloatMatrix
    match: FloatVector
    other: FloatVector

    def far(self, labels: IntVector) -> FloatMatrix:
        """Values of far points with these labels, shape (3, len(labels))."""
        return np.where(labels == self.label, self.match[:, None], self.other[:, None])


class TruncatedEvaluator:
    """Values and certified intervals from the nearest points that a source finds."""

    def __init__(self, problem: Problem, source: Source, tail: Tail) -> None:
        assert isinstance(problem.game, ClassificationGame)
        self._problem = problem
        self._source = source
        self._game = TruncatedClassification(problem.game, tail)
        self._class_sizes = np.bincount(problem.labels)

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        """See Evaluator. Far points cost time only if single values, groups or standard errors are
        wanted.
        """
        weights = self._problem.weights
        queries = list(self._query_values(start, stop))
        if request.excess is not None:
            request.excess[:, start:stop] = self._excess(queries)
        if request.needs_every_value:
            for query in queries:
                request.add(leaf, query.query, float(weights[query.query]), self._all_values(query))
                yield 0
        else:
            leaf.count(weights[start:stop])
        if request.groups is None:
            self._add_sums(queries, leaf)
        yield stop - start

    @staticmethod
    def memory(n_train: int, *, by_product: bool) -> Memory:
        """Bytes of the sums of one leaf and what it takes to continue them; per query its exact
        keys.
        """
        thread = 18 * 8 * n_train
        if by_product:
            return Memory(per_thread=thread + search_bytes(n_train))
        return Memory(per_thread=thread + 24 * n_train, per_query=20 * n_train)

    def _query_values(self, start: int, stop: int) -> Iterator[QueryValues]:
        """Values of each query; those with equally many near points are computed together."""
        found = self._source(start, stop)
        sizes = found.sizes.tolist()
        for size, run in groupby(range(start, stop), key=lambda query: sizes[query - start]):
            queries = list(run)
            columns = slice(queries[0] - start, queries[-1] - start + 1)
            near = Neighbours(found.rows[columns, :size], found.keys[columns, :size])
            yield from self._values_of_run(queries, near)

    def _values_of_run(self, queries: list[int], near: Neighbours) -> Iterator[QueryValues]:
        """Values of queries of which each has as many near points as the others."""
        problem = self._problem
        labels = problem.query_labels[queries]
        matches = problem.labels[near.rows] == labels[:, None]
        # Label -1 matches nothing.
        n_matches = np.where(labels >= 0, self._class_sizes[labels], 0) - problem.leave_one_out
        values = self._game.rows(matches, near.starts(problem.ties), n_matches)
        by_query = (np.moveaxis(array, 1, 0) for array in values)
        yield from map(QueryValues, queries, labels.tolist(), near.rows, *by_query)

    def _all_values(self, query: QueryValues) -> FloatVector:
        """Values of all training points for one query, shape (N,)."""
        problem = self._problem
        # In `far` and `near`, row 0 holds the values, and the others the ends of their intervals.
        # `far` fills all rows. Those of near points are then overwritten.
        values: FloatVector = query.far(problem.labels)[0]
        values[query.near_rows] = query.near[0]
        if problem.leave_one_out:
            values[problem.self_rows(query.query)] = 0.0
        return values

    def _add_sums(self, queries: list[QueryValues], leaf: Leaf) -> None:
        """Add the values of queries, and both ends, to the sums of a leaf."""
        problem = self._problem
        labels = problem.labels
        # `near` holds what near points have beyond a far point's value. Of `far`, column 0 counts
        # for every point, and column c + 1 also for those of class c.
        near = leaf.arrays.setdefault("near", np.zeros((N_ENDS, problem.n_train)))
        far = leaf.arrays.setdefault("far", np.zeros((N_ENDS, len(self._class_sizes) + 1)))
        for query in queries:
            weight = float(problem.weights[query.query])
            far[:, 0] += weight * query.other
            if query.label >= 0:
                far[:, query.label + 1] += weight * (query.match - query.other)
            near[:, query.near_rows] += weight * (query.near - query.far(labels[query.near_rows]))
            if problem.leave_one_out:
                itself = problem.self_rows(query.query)
                near[:, itself] -= weight * query.far(labels[[itself]])[:, 0]
        leaf.arrays["sums"] = near + (far[:, :1] + far[:, 1:])[:, labels]

    def _excess(self, queries: list[QueryValues]) -> FloatMatrix:
        """How much farther each query's ends would be if no rank were known: below and above,
        shape (2, Q).
        """
        labels = self._problem.labels
        no_neighbours = Neighbours.empty(len(queries), 0)
        blind_values = self._values_of_run([query.query for query in queries], no_neighbours)
        excess = np.empty((2, len(queries)))
        for i, (query, blind) in enumerate(zip(queries, blind_values, strict=True)):
            known = np.column_stack([query.near, query.match, query.other])
            blind_near = blind.far(labels[query.near_rows])
            unknown = np.column_stack([blind_near, blind.match, blind.other])
            excess[0, i] = (known[1] - unknown[1]).max()
            excess[1, i] = (unknown[2] - known[2]).max()
        return np.maximum(excess, 0.0)
