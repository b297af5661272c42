"""How validation points are valued if some training rows are always there: see games/owned_game.py.

The value is local: a query needs its K nearest owned rows and the candidates that are not beyond them. Large Euclidean
sets are searched by matrix products; the few candidates are compared one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.memory import Memory
from nearworth._common.types import BoolVector, FloatVector, IntVector
from nearworth.engine.classify import SharedTraining
from nearworth.engine.problem import Problem
from nearworth.engine.run import Evaluator, Request
from nearworth.games.owned_game import OwnedGame
from nearworth.inputs.features import fingerprint
from nearworth.neighbors.exact import PRODUCT_POINTS, ExactSearch, search_bytes
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.results.sums import Leaf

if TYPE_CHECKING:
    from nearworth.engine.plan import Plan


@dataclass(frozen=True, eq=False)
class OwnedRule:
    """The rows that are always there, as a mask of the training rows; the others are the players."""

    owned: BoolVector
    game: OwnedGame
    n_values: int | None = None

    @cached_property
    def identity(self) -> dict[str, Any]:
        return {"owned": fingerprint(self.owned)}

    def __str__(self) -> str:
        count = int(self.owned.sum())
        return f"{len(self.owned) - count:,} candidates given {count:,} owned rows: the K nearest of these decide"

    def evaluators(self, problem: Problem, plan: Plan, shared: SharedTraining | None) -> Callable[[], Evaluator]:  # noqa: ARG002
        n_owned, keys, search, few = int(self.owned.sum()), problem.keys, None, None
        if n_owned >= PRODUCT_POINTS and isinstance(keys, EuclideanKeys) and plan.products and not keys.streamed:
            owned, few = keys.some(np.flatnonzero(self.owned)), keys.some(np.flatnonzero(~self.owned))
            search = ExactSearch(single=plan.single).fit_keys(owned, n_owned)
        return lambda: OwnedEvaluator(problem, self, plan.batch, search, few)

    def memory(self, n_train: int, *, by_product: bool) -> Memory:
        """Bytes per thread and query; searching by products takes a copy of the owned rows, which is not in it."""
        return Memory(
            per_thread=40 * n_train + (search_bytes(n_train) if by_product else 0),
            per_query=(8 if by_product else 16) * n_train,
        )


def owned_rule(owned: Any, problem: Problem) -> OwnedRule:
    """The rule for these owned rows, checked."""
    mask, parameters = np.asarray(owned), problem.parameters
    if mask.dtype != bool or mask.shape != (problem.n_train,):
        raise ValueError(f"owned must be a mask, True or False for each of the {problem.n_train} training rows.")
    if mask.all():
        raise ValueError("owned: all training rows are owned, so that no candidate is left to value.")
    if parameters["task"] == "regression":
        raise ValueError("owned needs task='classification': no closed form is known for regression.")
    if problem.leave_one_out or problem.groups is not None:
        raise ValueError("owned needs X_val and y_val, and no groups.")
    for name in ("n_candidates", "max_error", "radius", "weights"):
        if parameters.get(name) is not None:
            raise ValueError(f"owned values are exact and need no {name}. Leave it None.")
    return OwnedRule(mask, OwnedGame(int((~mask).sum()), int(mask.sum()), **_about(problem.training, parameters)))


def _about(training: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "n_neighbors": int(parameters["n_neighbors"]),
        "n_classes": training.n_classes(parameters["n_classes"]),
        "utility": parameters["utility"],
        "semivalue": parameters["semivalue"],
    }


class OwnedEvaluator:
    """Values of candidates; see Evaluator in run.py. One per thread."""

    def __init__(
        self, problem: Problem, rule: OwnedRule, batch: int, search: ExactSearch | None, few: EuclideanKeys | None
    ) -> None:
        self._problem, self._rule, self._batch, self._search, self._few = problem, rule, batch, search, few
        self._owned, self._candidates = np.flatnonzero(rule.owned), np.flatnonzero(~rule.owned)
        self._labels = problem.labels[self._candidates]

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        problem, rule = self._problem, self._rule
        sparse = rule.game.is_local and not request.needs_every_value
        for query, rows, keys in self._near(start, stop):
            order = np.lexsort((rows, keys))
            rows, keys = rows[order], keys[order]
            first = np.append(True, (keys[1:] != keys[:-1]) | (problem.ties == "index"))[: len(rows)]
            gains = (problem.labels[rows] == problem.query_labels[query]).astype(np.float64)
            near, weight = rule.game.values(rule.owned[rows], gains, first), float(problem.weights[query])
            if sparse:
                leaf.total[rows] += weight * near
                leaf.count(problem.weights[query : query + 1])
            else:
                values = self._far(query)
                values[rows] += near
                request.add(leaf, query, weight, values)
            yield 1

    def _far(self, query: int) -> FloatVector:
        """What any candidate has, however far, where few rows are owned."""
        problem, values, label = self._problem, np.zeros(self._problem.n_train), self._problem.query_labels[query]
        matches = self._labels == label
        if not self._rule.game.is_local:
            n_owned = int((problem.labels[self._owned] == label).sum())
            values[self._candidates] = np.where(matches, *self._rule.game.added(int(matches.sum()), n_owned))
        return values

    def _near(self, start: int, stop: int) -> Iterator[tuple[int, IntVector, FloatVector]]:
        """For each query the rows that are not beyond its K-th owned one, with their keys."""
        problem, k = self._problem, self._rule.game.n_neighbors
        if self._search is None or self._few is None:
            for query, keys in problem.exact_keys(start, stop, self._batch):
                limit = np.inf if len(self._owned) < k else np.partition(keys[self._owned], k - 1)[k - 1]
                rows = np.flatnonzero(keys <= limit)
                yield query, rows, keys[rows]
            return
        for a in range(start, stop, self._batch):
            queries = problem.queries[a : min(a + self._batch, stop)]
            found, few = self._search.nearest(queries, k + 1), self._few(queries)
            for query, owned, keys, others in zip(range(a, stop), *found, few, strict=False):
                limit = keys[k - 1]
                if keys[k] == limit:  # others may be tied with it
                    every = problem.keys(problem.queries[query : query + 1])[0]
                    rows = np.flatnonzero(every <= limit)
                    yield query, rows, every[rows]
                else:
                    near = np.flatnonzero(others <= limit)
                    rows = np.concatenate([self._owned[owned[:k]], self._candidates[near]])
                    yield query, rows, np.concatenate([keys[:k], others[near]])
