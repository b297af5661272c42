"""Method: which neighbours of a validation point are ranked, what finds them, what stands for the others, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from nearworth._common.memory import Memory
from nearworth._common.types import Task
from nearworth.engine.classify import ClassificationEvaluator, SharedTraining
from nearworth.engine.nearest import ExactSource, SearcherSource, Source
from nearworth.engine.nearest_lists import NearestLists
from nearworth.engine.problem import Problem
from nearworth.engine.regress import RegressionEvaluator
from nearworth.engine.truncate import TruncatedEvaluator
from nearworth.games.truncation import Tail, candidates_for_error
from nearworth.inputs.parameters import as_generator
from nearworth.neighbors.searchers import Searcher, as_searcher

if TYPE_CHECKING:
    from nearworth.engine.plan import Plan

# Of 100,000 points, ranking 20 costs a third of ranking all, 500 two thirds, 1,000 about as much.
MOST_CANDIDATES, SHARE_OF_ALL = 2_000, 0.01
# An index must be built first: below these sizes every distance is computed sooner.
INDEX_POINTS, INDEX_QUERIES = 500_000, 8_000


@dataclass(frozen=True, kw_only=True)
class Method:
    """How values are computed; prints itself, picks the evaluator, goes into the origin and travels to workers.

    `n_candidates` neighbours are ranked (None: all), found by the `searcher` (None: every distance is computed); `tail`
    stands for the others. With `whole_ties`, a block of ties that begins among the candidates is ranked to its end, so
    that no tie costs certainty.
    """

    n_candidates: int | None = None
    searcher: Searcher | None = field(default=None, compare=False)
    tail: Tail = "local"
    whole_ties: bool = False
    reason: str = "exact values were asked for"

    def __str__(self) -> str:
        if self.n_candidates is None:
            return f"all neighbours ranked: {self.reason}"
        how = "every distance computed" if self.searcher is None else f"found by {self.searcher.name}"
        return f"{self.n_candidates:,} nearest ranked, {how}: {self.reason}"

    def with_lists(self, size: int) -> Method:
        """The method for a run that also lists the nearest points: all are ranked, or those that a searcher finds."""
        if self.searcher is None or self.n_candidates is None:
            return Method(reason="all neighbours are ranked: the nearest are listed in the same pass")
        return replace(self, n_candidates=max(self.n_candidates, size))

    def source(
        self, problem: Problem, plan: Plan, random_state: Any = None, nearest: NearestLists | None = None
    ) -> Source | None:
        """What finds the candidates of this problem; None where all neighbours are ranked."""
        if self.n_candidates is None:
            return None
        if self.searcher is None:
            return ExactSource(problem, self.n_candidates, plan)
        source = SearcherSource(problem, self.searcher, self.n_candidates, as_generator(random_state))
        source.listing = nearest
        return source

    def evaluators(
        self, problem: Problem, plan: Plan, source: Source | None = None, shared: SharedTraining | None = None
    ) -> Callable[[], Any]:
        """A maker of evaluators, one for each thread."""
        if source is not None:
            return lambda: TruncatedEvaluator(problem, source, self.tail)
        if problem.game.TASK == "regression":
            return lambda: RegressionEvaluator(problem, plan.batch)
        shared = shared or SharedTraining(problem.keys, problem.labels)
        products = shared.products(single=plan.single) if plan.products else None
        return lambda: ClassificationEvaluator(problem, shared, products, plan.batch)

    def memory(self, task: Task, n_train: int, pivot_share: float, *, by_product: bool) -> Memory:
        """Bytes of the evaluators."""
        if self.n_candidates is not None:
            return TruncatedEvaluator.memory(n_train, by_product=by_product)
        if task == "regression":
            return RegressionEvaluator.memory(n_train)
        return ClassificationEvaluator.memory(n_train, int(pivot_share * n_train), by_product=by_product)


def check_request(parameters: Mapping[str, Any]) -> None:
    """Refuse what contradicts itself, before any data are seen."""
    search, wanted, max_error = parameters["search"], parameters["n_candidates"], parameters["max_error"]
    if wanted is not None and max_error is not None:
        raise ValueError(f"n_candidates={wanted} and max_error={max_error} were both given. Give one of them.")
    if search not in ("exact", "auto") and wanted is None and max_error is None:
        name = f"search={search!r}" if isinstance(search, str) else "search with a searcher"
        raise ValueError(f"{name} needs n_candidates or max_error, which say how far to search.")
    if parameters["task"] == "regression" and (wanted is not None or search not in ("exact", "auto")):
        found = f"n_candidates={wanted}" if wanted is not None else f"search={search!r}"
        raise ValueError(
            f"{found} needs task='classification': regression ranks all neighbours. "
            "Leave n_candidates=None and search='exact'."
        )


def choose_method(
    parameters: Mapping[str, Any], make_game: Callable[[], Any], n_train: int, n_val: int, *, euclidean: bool
) -> Method:
    """The cheapest method that gives what is asked for. The game, which takes memory, is made only if needed."""
    search, max_error = parameters["search"], parameters["max_error"]
    exact = search in ("exact", "auto")
    if not exact and not euclidean:
        raise ValueError("searchers find Euclidean neighbours; use search='exact' with other metrics and sparse data.")
    k, why = _how_many(parameters, make_game)
    if k is None or k >= n_train:
        return Method(reason=why if k is None else "all neighbours are ranked: there are no more")
    if exact and max_error is not None and k > min(MOST_CANDIDATES, SHARE_OF_ALL * n_train):
        return Method(reason=f"an error of {max_error:g} needs {k:,} neighbours: ranking all costs no more")
    searcher = _searcher(search, parameters)
    if search == "auto":
        searcher, why = _automatic(why, n_train, n_val, euclidean)
    return Method(
        n_candidates=k,
        searcher=searcher,
        tail=parameters["tail"],
        whole_ties=searcher is None and max_error is not None,
        reason=why,
    )


def _how_many(parameters: Mapping[str, Any], make_game: Callable[[], Any]) -> tuple[int | None, str]:
    wanted, max_error = parameters["n_candidates"], parameters["max_error"]
    if wanted is not None:
        return int(wanted), f"{wanted:,} neighbours were asked for"
    if max_error is None:
        return None, "exact values were asked for"
    if parameters["task"] == "regression":
        return None, "no bound is known beforehand for regression, so all neighbours are ranked"
    k = candidates_for_error(make_game(), float(max_error), parameters["tail"])
    return k, f"{k:,} neighbours make an error of {max_error:g} certain"


def _automatic(why: str, n_train: int, n_val: int, euclidean: bool) -> tuple[Searcher | None, str]:
    large = n_train >= INDEX_POINTS and n_val >= INDEX_QUERIES
    if large and euclidean and find_spec("faiss") is not None:
        return _searcher("faiss", {}), f"{why}; an index pays for so many questions"
    return None, f"{why}; every distance is computed sooner than an index is built"


def _searcher(search: Any, parameters: Mapping[str, Any]) -> Searcher | None:
    if search == "lsh":
        from nearworth.neighbors.lsh import LSHSearch

        return LSHSearch(random_state=parameters["random_state"])
    if search == "faiss":
        from nearworth.neighbors.faiss_search import FaissSearch

        return FaissSearch()
    return None if isinstance(search, str) else as_searcher(search)
