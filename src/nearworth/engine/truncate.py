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

ENDS = 3  # value, lower end, upper end: the leading axis of every array here
BLOCK = 1024  # queries put to a searcher at a time: whole leaves
SAMPLED, CONFIDENCE = (
    256,
    0.99,
)  # queries that are also searched exactly, and how sure the certificate is

# The nearest training points of the validation points start..stop-1 whose ranks are known: complete
# blocks of ties.
Source: TypeAlias = Callable[[int, int], Neighbours]


@dataclass(frozen=True, kw_only=True)
class SearchReport:
    """What a searcher found, judged on a random sample of the validation points.

    `incomplete` is how many validation points may lack one of their K* nearest neighbours, at most,
    with probability CONFIDENCE; sampled ones and those in `failed` (fewer than K* found) were
    searched exactly, unless on_fail says otherwise. `tuning` is what the searcher reports of its
    own parameters, predicted recall included.
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
    """The first k found, cut before ties that may go on beyond them, unless these rank and were
    found by index.
    """
    n_found = found.sizes
    sizes = np.minimum(n_found, k)
    if problem.ties == "average" or not by_index:
        # The key of the next point, or of the last one where no next is known.
        next_key = found.keys[np.arange(len(sizes)), np.where(sizes < n_found, sizes, sizes - 1)]
        sizes = np.where(
            sizes < problem.game.n_players, (found.keys < next_key[:, None]).sum(axis=1), sizes
        )
    return found.first(sizes)


class ExactSource:
    """Every distance is computed."""

    def __init__(self, problem: Problem, k: int, plan: Plan | None = None) -> None:
        self._problem, self._k = problem, k
        batch = plan.batch if plan is not None and problem.keys.streamed else None
        self._search = ExactSearch(
            problem.keys, problem.n_train, single=plan is None or plan.single, batch=batch
        )

    def __call__(self, start: int, stop: int) -> Neighbours:
        return known_ranks(
            self._problem, self._k, self.nearest(np.arange(start, stop)), by_index=True
        )

    def nearest(self, queries: IntVector) -> Neighbours:
        """The nearest of some validation points, and one more, which shows whether others are tied
        with the last.
        """
        problem = self._problem
        n_searched = min(self._k + 1, problem.game.n_players) + problem.leave_one_out
        found = self._search.nearest(problem.queries[queries], n_searched)
        return found.without(problem.self_rows(queries)) if problem.leave_one_out else found


class SearcherSource:
    """What a searcher finds, in exact order; exact neighbours for a random sample, on which its
    recall is measured.
    """

    def __init__(
        self,
        problem: Problem,
        searcher: Searcher,
        k: int,
        rng: np.random.Generator,
        listing: NearestLists | None,
    ) -> None:
        self._problem, self._searcher, self.k, self._exact = (
            problem,
            searcher,
            k,
            ExactSource(problem, k),
        )
        self._n_searched = min(k + 1, problem.game.n_players)
        points = as_points(problem.keys.data)
        self._distances = EuclideanKeys(points)
        self.failed = np.zeros(problem.n_val, dtype=bool)
        self._listing = listing  # gets what is found, if given
        # Always the same blocks, wherever a run was resumed: an index may round differently in
        # another batch.
        self._answers = lru_cache(1)(
            lambda first: self._ask(np.arange(first, min(first + BLOCK, problem.n_val)))
        )
        self._sampled = np.sort(
            rng.choice(problem.n_val, min(SAMPLED, problem.n_val), replace=False)
        )
        self.n_sampled = len(self._sampled)
        searcher.fit(points)
        with one_blas_thread():
            queries = np.asarray(problem.queries[self._sampled], dtype=np.float64)
            searcher.prepare(self._n_searched + problem.leave_one_out, queries)
            self._sample = self._exact.nearest(self._sampled)
            self._found = self._ask(self._sampled)
        self._recall = recall_by_distance(self._found.keys[:, :k], self._sample.keys[:, :k])
        self._n_complete = int(np.count_nonzero(self._recall >= 1.0))

    def __call__(self, start: int, stop: int) -> Neighbours:
        first = start - start % BLOCK
        found = self._answers(first).part(np.arange(start, stop) - first)
        failed = found.sizes < self.k
        self.failed[start:stop] |= failed
        a, b = np.searchsorted(self._sampled, (start, stop))
        sampled = self._sampled[a:b] - start  # these were searched exactly before
        found.rows[sampled], found.keys[sampled] = self._sample.rows[a:b], self._sample.keys[a:b]
        failed[sampled] = False
        if failed.any() and self._searcher.on_fail == "exact":
            found.rows[failed], found.keys[failed] = self._exact.nearest(
                start + np.flatnonzero(failed)
            )
        if self._listing is not None:
            for query, rows, keys in zip(range(start, stop), *found, strict=True):
                self._listing.keep(query, rows[rows >= 0], keys[rows >= 0])
        return known_ranks(self._problem, self.k, found)

    def report(self) -> SearchReport:
        """What was found so far, and what may be missing."""
        n_val, n_sampled = self._problem.n_val, self.n_sampled
        misses, incomplete = n_sampled - self._n_complete, 0
        if n_sampled < n_val:  # else all were searched exactly
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
        """Some of the sampled queries, with their neighbours in the run and those that others like
        them have there.
        """
        some = np.sort(rng.choice(self.n_sampled, min(size, self.n_sampled), replace=False))
        exact, found = self._sample.part(some), self._found.part(some)
        if self._searcher.on_fail == "exact":
            failed = found.sizes < self.k
            found.rows[failed], found.keys[failed] = exact.rows[failed], exact.keys[failed]
        problem = self._problem.some(self._sampled[some])

        def known(each: Neighbours) -> Source:
            return lambda start, stop: known_ranks(problem, self.k, each.part(slice(start, stop)))

        return problem, [known(exact), known(found)]

    def identity(self) -> str:
        """What must be the same before a run can be resumed: the searcher as built, and its recall
        on the sample.
        """
        assert self._searcher.fingerprint is not None
        complete = f"{self._n_complete} of {self.n_sampled} complete"
        return f"{self._searcher.name} {self._searcher.fingerprint()}, {complete}"

    def _ask(self, queries: IntVector) -> Neighbours:
        problem, excluded = self._problem, queries if self._problem.leave_one_out else None
        points = problem.queries[queries]
        with one_blas_thread():
            return ask(self._searcher, self._distances, queries, points, self._n_searched, excluded)


class QueryValues(NamedTuple):
    """Values of one query: of its near points (3, k), and of any far point that matches or does not
    (3,).
    """

    query: int
    label: int
    near_rows: IntVector
    near: FloatMatrix
    match: FloatVector
    other: FloatVector

    def far(self, labels: IntVector) -> FloatMatrix:
        """What points with these labels are worth if they are far, (3, len(labels))."""
        return np.where(labels == self.label, self.match[:, None], self.other[:, None])


class TruncatedEvaluator:
    """Values and certified intervals from the nearest points that a source finds."""

    def __init__(self, problem: Problem, source: Source, tail: Tail) -> None:
        assert isinstance(problem.game, ClassificationGame)
        self._problem, self._source = problem, source
        self._game = TruncatedClassification(problem.game, tail)
        self._class_sizes = np.bincount(problem.labels)

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        """See Evaluator. Far points cost time only if single values, groups or standard errors are
        wanted.
        """
        weights, rows = self._problem.weights, list(self._rows(start, stop))
        if request.excess is not None:
            request.excess[:, start:stop] = self._excess(rows)
        if request.needs_every_value:
            for row in rows:
                values: FloatVector = row.far(self._problem.labels)[0]
                values[row.near_rows] = row.near[0]
                if self._problem.leave_one_out:
                    values[self._problem.self_rows(row.query)] = 0.0
                request.add(leaf, row.query, float(weights[row.query]), values)
                yield 0
        else:
            leaf.count(weights[start:stop])
        if request.groups is None:
            self._add_sums(rows, leaf)
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

    def _rows(self, start: int, stop: int) -> Iterator[QueryValues]:
        """Queries with equally many near points are valued together."""
        found = self._source(start, stop)
        sizes = found.sizes.tolist()
        for size, group in groupby(range(start, stop), key=lambda query: sizes[query - start]):
            queries = list(group)
            part = slice(queries[0] - start, queries[-1] - start + 1)
            yield from self._valued(
                queries, Neighbours(found.rows[part, :size], found.keys[part, :size])
            )

    def _valued(self, queries: list[int], near: Neighbours) -> Iterator[QueryValues]:
        problem = self._problem
        labels = problem.query_labels[queries]
        matches = problem.labels[near.rows] == labels[:, None]
        n_matches = np.where(labels >= 0, self._class_sizes[labels], 0) - problem.leave_one_out
        values = self._game.rows(matches, near.starts(problem.ties), n_matches)
        by_query = (np.moveaxis(array, 1, 0) for array in values)
        yield from map(QueryValues, queries, labels.tolist(), near.rows, *by_query)

    def _add_sums(self, rows: list[QueryValues], leaf: Leaf) -> None:
        """Add the values of queries, and both ends, to the sums of a leaf."""
        problem, labels = self._problem, self._problem.labels
        # `near` holds what near points have beyond a far point's value; of `far`, column 0 counts
        # for every point and column c + 1 also for those of class c.
        near = leaf.arrays.setdefault("near", np.zeros((ENDS, problem.n_train)))
        far = leaf.arrays.setdefault("far", np.zeros((ENDS, len(self._class_sizes) + 1)))
        for row in rows:
            weight = float(problem.weights[row.query])
            far[:, 0] += weight * row.other
            if row.label >= 0:
                far[:, row.label + 1] += weight * (row.match - row.other)
            near[:, row.near_rows] += weight * (row.near - row.far(labels[row.near_rows]))
            if problem.leave_one_out:
                itself = problem.self_rows(row.query)
                near[:, itself] -= weight * row.far(labels[[itself]])[:, 0]
        leaf.arrays["sums"] = near + (far[:, :1] + far[:, 1:])[:, labels]

    def _excess(self, rows: list[QueryValues]) -> FloatMatrix:
        """How much farther each query's ends would be if it knew no rank at all: below and above,
        (2, queries).
        """
        labels, excess, nothing = self._problem.labels, [], Neighbours.empty(len(rows), 0)
        for row, blind in zip(
            rows, self._valued([row.query for row in rows], nothing), strict=True
        ):
            known = np.column_stack([row.near, row.match, row.other])
            unknown = np.column_stack([blind.far(labels[row.near_rows]), blind.match, blind.other])
            excess.append([(known[1] - unknown[1]).max(), (unknown[2] - known[2]).max()])
        return np.maximum(np.array(excess).T, 0.0)
