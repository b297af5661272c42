"""Which neighbours are ranked, and who finds them: from `search`, `n_candidates` and `max_error` to a choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from nearworth.engine.nearest import ExactSource, SearcherSource, Source
from nearworth.engine.nearest_lists import NearestLists
from nearworth.engine.plan import Plan, SearchPlan
from nearworth.engine.problem import Problem
from nearworth.games.candidates import candidates_for_error
from nearworth.neighbors.searchers import as_searcher, generator

# Of 100,000 points, ranking 20 costs a third of ranking all, 500 two thirds, 1,000 about as much.
MOST_CANDIDATES, SHARE_OF_ALL = 2_000, 0.01
# An index must be built first: below these sizes every distance is computed sooner.
INDEX_POINTS, INDEX_QUERIES = 500_000, 8_000


@dataclass(frozen=True)
class Choice:
    """How many neighbours are ranked (None: all), who finds them (None: exact search), and why.

    See `SearchPlan` for `whole_ties`.
    """

    n_candidates: int | None
    searcher: Any
    reason: str
    whole_ties: bool = False

    def listing(self, size: int) -> Choice:
        """For those who also want so many nearest points: all distances or a searcher's, but never a few only."""
        if self.searcher is None or self.n_candidates is None:
            return Choice(None, None, "all neighbours are ranked: the nearest are listed in the same pass")
        return replace(self, n_candidates=max(self.n_candidates, size))

    @property
    def plan(self) -> SearchPlan:
        """The same in words."""
        searcher = self.searcher.name if self.searcher else None
        return SearchPlan(self.n_candidates, searcher, self.reason, self.whole_ties)


def choose(
    parameters: Mapping[str, Any], make_game: Callable[[], Any], n_train: int, n_val: int, euclidean: bool
) -> Choice:
    """The cheapest way that gives what is asked for. The game, which takes memory, is made only if it is needed."""
    search = parameters["search"]
    if search not in ("exact", "auto") and not euclidean:
        raise ValueError("searchers find Euclidean neighbours; use search='exact' with other metrics and sparse data.")
    k, why = _how_many(parameters, make_game)
    if k is None or k >= n_train:
        return Choice(None, None, why if k is None else "all neighbours are ranked: there are no more")
    if search in ("exact", "auto") and parameters["max_error"] is not None:
        max_error = float(parameters["max_error"])
        if k > min(MOST_CANDIDATES, SHARE_OF_ALL * n_train):
            why = f"an error of {max_error:g} needs {k:,} neighbours: ranking all costs no more"
            return Choice(None, None, why)
    if search == "exact":
        return Choice(k, None, why, whole_ties=parameters["max_error"] is not None)
    if search == "auto":
        found = _automatic(k, why, n_train, n_val, euclidean)
        return replace(found, whole_ties=found.searcher is None and parameters["max_error"] is not None)
    return Choice(k, _searcher(search, parameters), why)


def check_request(parameters: Mapping[str, Any]) -> None:
    """Refuse what contradicts itself, before any data are seen."""
    search, wanted, max_error = parameters["search"], parameters["n_candidates"], parameters["max_error"]
    if wanted is not None and max_error is not None:
        raise ValueError(f"n_candidates={wanted} and max_error={max_error} were both given. Give one of them.")
    if search in ("lsh", "faiss") and wanted is None and max_error is None:
        raise ValueError(f"search={search!r} needs n_candidates or max_error, which say how far to search.")
    if not isinstance(search, str) and wanted is None and max_error is None:
        raise ValueError("search with a searcher needs n_candidates or max_error, which say how far to search.")


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


def _automatic(k: int, why: str, n_train: int, n_val: int, euclidean: bool) -> Choice:
    large = n_train >= INDEX_POINTS and n_val >= INDEX_QUERIES
    if large and euclidean and find_spec("faiss") is not None:
        return Choice(k, _searcher("faiss", {"random_state": 0}), f"{why}; an index pays for so many questions")
    return Choice(k, None, f"{why}; every distance is computed sooner than an index is built")


def _searcher(search: Any, parameters: Mapping[str, Any]) -> Any:
    if search == "lsh":
        from nearworth.neighbors.lsh import LSHSearch

        return LSHSearch(random_state=parameters["random_state"])
    if search == "faiss":
        from nearworth.neighbors.faiss_search import FaissSearch

        return FaissSearch()
    return as_searcher(search)


def make_source(
    problem: Problem, plan: Plan, choice: Choice, random_state: Any, nearest: NearestLists | None = None
) -> Source:
    """Who finds the neighbours of this problem; a searcher may take them down."""
    assert choice.n_candidates is not None
    if choice.searcher is None:
        return ExactSource(problem, choice.n_candidates, plan)
    source = SearcherSource(problem, choice.searcher, choice.n_candidates, generator(random_state))
    source.listing = nearest
    return source
