"""The nearest training points of each query in true order, from exact search or from a searcher nobody believes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolVector, FloatMatrix, IntMatrix, IntVector, Ties
from nearworth.engine.nearest_lists import NearestLists
from nearworth.engine.problem import Problem
from nearworth.engine.run import one_blas_thread
from nearworth.neighbors.certify import recall_by_distance, upper_limit
from nearworth.neighbors.exact import NearestKeys
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.neighbors.search import MISSING, Answer, TrueDistances, check_answer, check_points, drop_self

if TYPE_CHECKING:
    from nearworth.engine.plan import Plan

OnFail: TypeAlias = Literal["exact", "partial", "raise"]
AHEAD = 1024  # queries put to a searcher at a time
SAMPLED, CONFIDENCE = 256, 0.99  # queries whose neighbours are searched exactly to judge a searcher, and how sure it is


class Near(NamedTuple):
    """Known ranks of one query: the points, and where blocks of tied ones begin."""

    rows: IntVector
    first: BoolVector


@dataclass(frozen=True, kw_only=True)
class SearchReport:
    """What a searcher found, judged on a random sample of the validation points.

    `incomplete` is how many validation points may lack one of their K* nearest neighbours, at most, with probability
    `confidence`; sampled ones and those in `failed` (fewer than K* found) were searched exactly, unless on_fail says
    otherwise. `tuning` is what the searcher says of itself, predicted recall included.
    """

    searcher: str
    n_candidates: int
    n_sampled: int
    n_complete: int
    recall: float
    incomplete: int
    confidence: float
    failed: IntVector
    tuning: Any = None

    def __str__(self) -> str:
        return (
            f"{self.searcher}: recall {self.recall:.3f}, all {self.n_candidates:,} neighbours found for "
            f"{self.n_complete} of {self.n_sampled} sampled queries; failed for {len(self.failed)}"
        )


class Source(Protocol):
    """Finds the nearest points of queries."""

    def report(self) -> SearchReport | None:
        """What was found and what may be missing; None for exact search."""
        ...

    def __call__(self, start: int, stop: int) -> list[Near]:
        """Those of the validation points start..stop-1: complete blocks of ties, nearest first."""
        ...


def known_ranks(rows: IntVector, keys: npt.NDArray[Any], k: int, n_players: int, ties: Ties, *, sure: bool) -> Near:
    """The first k of a sorted list that may be longer, cut before a tie that may go on beyond what is known.

    Ranking by index needs no cut if it is `sure` that equally far points were chosen by their index.
    """
    found = int(np.count_nonzero(rows >= 0))
    size = min(k, found)
    if size < n_players and (ties == "average" or not sure):
        beyond = keys[size] if size < found else keys[size - 1] if size else np.inf
        size = int(np.searchsorted(keys[:size], beyond))
    keys = keys[:size]
    first = np.ones(size, dtype=bool)
    if ties == "average":
        first[1:] = keys[1:] != keys[:-1]
    return Near(rows[:size], first)


def points_of(problem: Problem) -> npt.NDArray[Any]:
    """The training points of a Euclidean problem, as searchers take them."""
    if not isinstance(problem.keys, EuclideanKeys):
        raise ValueError("searchers find Euclidean neighbours; use search='exact' with other metrics and sparse data.")
    return check_points(problem.keys.data)


class ExactSource:
    """Every distance is computed."""

    def __init__(self, problem: Problem, k: int, plan: Plan | None = None) -> None:
        self._problem, self._k = problem, k
        narrow = plan is None or plan.single
        batch = plan.batch if plan is not None and problem.keys.streamed else None
        self._nearest = NearestKeys(problem.keys, problem.n_train, narrow=narrow, batch=batch)
        self._whole_ties = plan is not None and plan.method.whole_ties and problem.ties == "average"

    def __call__(self, start: int, stop: int) -> list[Near]:
        """See Source."""
        return [
            self._to_the_end_of_its_tie(query, known)
            if self._whole_ties and len(known.rows) < min(self._k, self._problem.game.n_players)
            else known
            for query, known in enumerate(self._known(start, stop), start=start)
        ]

    def report(self) -> SearchReport | None:
        """See Source."""
        return None

    def _known(self, start: int, stop: int) -> list[Near]:
        problem = self._problem
        indices, keys = self.answer(np.arange(start, stop))
        return [
            known_ranks(rows, row, self._k, problem.game.n_players, problem.ties, sure=True)
            for rows, row in zip(indices, keys, strict=True)
        ]

    def _to_the_end_of_its_tie(self, query: int, known: Near) -> Near:
        """The known ranks and the whole block of equally far points behind them, which begins among the k nearest."""
        problem = self._problem
        keys = np.array(problem.keys(problem.queries[query : query + 1])[0])  # they may be the user's own
        if problem.leave_one_out:
            keys[query] = np.nan
        keys[known.rows] = np.nan
        tied = np.flatnonzero(keys == np.nanmin(keys))
        return Near(np.concatenate([known.rows, tied]), np.concatenate([known.first, np.arange(len(tied)) == 0]))

    def answer(self, queries: IntVector) -> Answer:
        """The k + 1 nearest of some validation points with their keys, one more than wanted to see whether it ties."""
        problem = self._problem
        wanted = min(self._k + 1, problem.game.n_players)
        found = self._nearest.ranked(problem.queries[queries], wanted + problem.leave_one_out)
        return drop_self(*found, queries) if problem.leave_one_out else found


@dataclass
class Judgement:
    """What a sample of queries says of a searcher."""

    n_sampled: int
    n_complete: int
    recall: float

    def incomplete(self, n_queries: int) -> int:
        """How many of all queries may lack a neighbour, at most, with `CONFIDENCE`; sampled ones have been mended."""
        if self.n_sampled >= n_queries:
            return 0
        misses = self.n_sampled - self.n_complete
        share = upper_limit(misses, self.n_sampled, CONFIDENCE)
        return min(int(np.ceil(share * n_queries)) - misses, n_queries - self.n_sampled)


class SearcherSource:
    """What a searcher finds, ranked anew by true distances; judged on a sample, which is then answered truly."""

    def __init__(self, problem: Problem, searcher: Any, k: int, on_fail: OnFail, rng: np.random.Generator) -> None:
        self._problem, self._searcher, self._k, self._on_fail = problem, searcher, k, on_fail
        points = points_of(problem)
        self._truth = TrueDistances(points)
        self._exact = ExactSource(problem, k)
        self.failed = np.zeros(problem.n_val, dtype=bool)
        self._sampled = np.sort(rng.choice(problem.n_val, min(SAMPLED, problem.n_val), replace=False))
        self.listing: NearestLists | None = None  # takes down what is found, if somebody wants it
        self._asked: tuple[int, int] = (0, -1)
        self._answers: Answer = (np.zeros((0, 0), dtype=np.intp), np.zeros((0, 0)))
        self._prepare(points)
        self.judgement = self._judge()

    def __call__(self, start: int, stop: int) -> list[Near]:
        """See Source."""
        problem, queries = self._problem, np.arange(start, stop)
        indices, keys = self._ask_ahead(start, stop)
        failed = self._failed(indices)
        self.failed[start:stop] |= failed
        if self._on_fail == "raise" and failed.any():
            raise ValueError(
                f"{type(self._searcher).__name__} found {int((indices[failed] >= 0).sum(axis=1)[0])} of {self._k} "
                f"neighbours of validation point {queries[failed][0]}. Use on_fail='exact' or 'partial'."
            )
        mend = np.isin(queries, self._sampled) | (failed if self._on_fail == "exact" else False)
        if mend.any():
            indices[mend], keys[mend] = self._exact.answer(queries[mend])
        if self.listing is not None:
            for query, rows, row in zip(queries.tolist(), indices, keys, strict=True):
                self.listing.keep(query, rows[rows >= 0], row[rows >= 0])
        return [
            known_ranks(rows, row, self._k, problem.game.n_players, problem.ties, sure=False)
            for rows, row in zip(indices, keys, strict=True)
        ]

    def report(self) -> SearchReport | None:
        """See Source."""
        judged, incomplete = self.judgement, self.judgement.incomplete(self._problem.n_val)
        return SearchReport(
            searcher=type(self._searcher).__name__,
            n_candidates=self._k,
            n_sampled=judged.n_sampled,
            n_complete=judged.n_complete,
            recall=judged.recall,
            incomplete=incomplete,
            confidence=CONFIDENCE if incomplete else 1.0,
            failed=np.flatnonzero(self.failed),
            tuning=getattr(self._searcher, "tuning", None),
        )

    def identity(self) -> str:
        """What must be the same before a run can be resumed: the searcher as built, and how it was judged."""
        judged, name = self.judgement, type(self._searcher).__name__
        return f"{name} {self._searcher.fingerprint()}, {judged.n_complete} of {judged.n_sampled} complete"

    def _prepare(self, points: npt.NDArray[Any]) -> None:
        self._searcher.fit(points)
        if hasattr(self._searcher, "prepare"):
            with one_blas_thread():
                sample = np.asarray(self._problem.queries[self._sampled], dtype=np.float64)
                self._searcher.prepare(self._wanted + self._problem.leave_one_out, sample)

    def _ask_ahead(self, start: int, stop: int) -> tuple[IntMatrix, FloatMatrix]:
        """Searchers like many questions at a time: asks a whole block and keeps the answers to the rest of it.

        Always the same blocks, wherever a run was taken up: an index may round otherwise in other company.
        """
        if not self._asked[0] <= start <= stop <= self._asked[1]:
            first = start - start % AHEAD
            last = min(max(stop, first + AHEAD), self._problem.n_val)
            self._asked, self._answers = (first, last), self._ask(np.arange(first, last))
        part = slice(start - self._asked[0], stop - self._asked[0])
        return self._answers[0][part].copy(), self._answers[1][part].copy()

    @property
    def _wanted(self) -> int:
        return int(min(self._k + 1, self._problem.game.n_players))

    def _failed(self, indices: IntMatrix) -> BoolVector:
        wanted = min(self._k, self._problem.game.n_players)
        return np.asarray((indices[:, :wanted] == MISSING).any(axis=1))

    def _ask(self, queries: IntVector) -> tuple[IntMatrix, FloatMatrix]:
        problem, k = self._problem, self._wanted + self._problem.leave_one_out
        points = problem.queries[queries]
        if getattr(self._searcher, "precomputed", False):
            answer = self._searcher.search_rows(int(queries[0]), int(queries[-1]) + 1, k)
        else:
            answer = self._searcher.search(points, k)
        indices, distances = answer
        found, _ = check_answer(indices, distances, problem.n_train, k, n_queries=len(queries), searcher=self._searcher)
        ranked = self._truth.order(points, found)
        return drop_self(*ranked, queries) if problem.leave_one_out else ranked

    def _judge(self) -> Judgement:
        by_range = getattr(self._searcher, "precomputed", False)  # a graph is asked by range
        parts = _consecutive(self._sampled) if by_range else [self._sampled]
        with one_blas_thread():
            recall = np.concatenate([self._share_found(part) for part in parts])
        return Judgement(len(recall), int(np.count_nonzero(recall >= 1.0)), float(recall.mean()))

    def _share_found(self, queries: IntVector) -> npt.NDArray[Any]:
        k = min(self._k, self._problem.game.n_players)
        return recall_by_distance(self._ask(queries)[1][:, :k], self._exact.answer(queries)[1][:, :k])


def _consecutive(queries: IntVector) -> Iterator[IntVector]:
    """Runs of consecutive numbers."""
    yield from np.split(queries, np.flatnonzero(np.diff(queries) != 1) + 1)
