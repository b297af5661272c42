"""Which neighbours are ranked, and who finds them: from `search`, `n_candidates` and `max_error` to a choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from nearworth._typing import IntVector
from nearworth.engine.nearest import CONFIDENCE, ExactSource, SearcherSource, Source
from nearworth.engine.plan import SearchPlan
from nearworth.engine.problem import Problem
from nearworth.games.candidates import candidates_for_error
from nearworth.games.classification import ClassificationGame
from nearworth.games.regression import RegressionGame
from nearworth.neighbors.search import generator

# Ranking 20 neighbours costs a third of ranking all, 500 two thirds, 1,000 about as much.
FEW_CANDIDATES = 1_000
# An index must be built first: below these sizes every distance is computed sooner.
INDEX_POINTS, INDEX_QUERIES = 300_000, 4_000


@dataclass(frozen=True)
class Choice:
    """How many neighbours are ranked (None: all), who finds them (None: exact search), and why."""

    n_candidates: int | None
    searcher: Any
    reason: str

    @property
    def plan(self) -> SearchPlan:
        """The same in words."""
        return SearchPlan(self.n_candidates, type(self.searcher).__name__ if self.searcher else None, self.reason)


@dataclass(frozen=True)
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


def choose(
    parameters: Mapping[str, Any], game: ClassificationGame | RegressionGame, n_train: int, n_val: int, euclidean: bool
) -> Choice:
    """The cheapest way that gives what is asked for."""
    search = parameters["search"]
    if search not in ("exact", "auto") and not euclidean:
        raise ValueError("searchers find Euclidean neighbours; use search='exact' with other metrics and sparse data.")
    k, why = _how_many(parameters, game)
    if k is None or k >= game.n_players:
        return Choice(None, None, why if k is None else "all neighbours are ranked: there are no more")
    if search == "exact":
        return Choice(k, None, why)
    if search == "auto":
        return _automatic(k, why, n_train, n_val, euclidean)
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


def _how_many(parameters: Mapping[str, Any], game: ClassificationGame | RegressionGame) -> tuple[int | None, str]:
    wanted, max_error = parameters["n_candidates"], parameters["max_error"]
    if wanted is not None:
        return int(wanted), f"{wanted:,} neighbours were asked for"
    if max_error is None:
        return None, "exact values were asked for"
    if isinstance(game, RegressionGame):
        return None, "no bound is known beforehand for regression, so all neighbours are ranked"
    k = candidates_for_error(game, float(max_error), parameters["tail"])
    if parameters["search"] in ("exact", "auto") and k > FEW_CANDIDATES:
        return None, f"an error of {max_error:g} needs {k:,} neighbours: ranking all costs no more"
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
    return search


def make_source(problem: Problem, choice: Choice, random_state: Any) -> Source:
    """Who finds the neighbours of this problem."""
    assert choice.n_candidates is not None
    if choice.searcher is None:
        return ExactSource(problem, choice.n_candidates)
    on_fail: Any = getattr(choice.searcher, "on_fail", "exact")
    return SearcherSource(problem, choice.searcher, choice.n_candidates, on_fail, generator(random_state))


def identity_of(source: SearcherSource, choice: Choice) -> str:
    """What must be the same before a run can be taken up: the searcher as built, and how it was judged."""
    judged = source.judgement
    return (
        f"{type(choice.searcher).__name__} {choice.searcher.fingerprint()}, "
        f"{judged.n_complete} of {judged.n_sampled} complete"
    )


def report_of(source: Source, choice: Choice, n_val: int) -> SearchReport | None:
    """What was found and what may be missing; nothing to say of exact search."""
    if not isinstance(source, SearcherSource):
        return None
    judged, incomplete = source.judgement, source.judgement.incomplete(n_val)
    assert choice.n_candidates is not None
    return SearchReport(
        type(choice.searcher).__name__,
        choice.n_candidates,
        judged.n_sampled,
        judged.n_complete,
        judged.recall,
        incomplete,
        CONFIDENCE if incomplete else 1.0,
        np.flatnonzero(source.failed),
        getattr(choice.searcher, "tuning", None),
    )
