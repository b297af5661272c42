"""Other games than that of all rows by rank, and how their validation points are valued.

    OwnedRule    some rows are always there (games/owned_game.py): a query needs its K nearest owned rows and the
                 candidates that are not beyond them
    RadiusRule   every row within a radius votes: rows beyond it are null players, and the n within are those of the
                 soft utility with K = N = n. Counts decide, no rank
    WeightRule   votes are weighed by distance, not normalised: matches become real gains

Owners as players are in owner_rule.py. Large Euclidean sets go through one matrix product here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nearworth._common import native
from nearworth._common.memory import Memory
from nearworth._common.types import BoolVector, FloatMatrix, FloatVector, IntVector
from nearworth.engine.classify import SharedTraining, SortedEvaluator
from nearworth.engine.problem import Problem
from nearworth.engine.run import Evaluator, Request
from nearworth.games.coefficients import Presence, classification_correction
from nearworth.games.owned_game import OwnedGame
from nearworth.inputs.features import fingerprint
from nearworth.neighbors.distances import distances_of_lists
from nearworth.neighbors.exact import PRODUCT_POINTS, ExactSearch, search_bytes
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.neighbors.quantised import MARGIN, QuantisedKeys
from nearworth.results.sums import Leaf

if TYPE_CHECKING:
    from nearworth.engine.plan import Plan

MANY_COUNTS = 2**14


class Rule:
    """A game for `Method`, which prints it, asks it for evaluators and sends it to workers."""

    n_values: int | None = None  # how many players there are; None: the training rows

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same where sums are combined, besides the parameters."""
        return {}

    def evaluators(self, problem: Problem, plan: Plan, shared: SharedTraining | None) -> Callable[[], Evaluator]:
        raise NotImplementedError

    def memory(self, n_train: int, *, by_product: bool) -> Memory:
        """Bytes of an evaluator; a copy of the owned rows, for searching them by products, is not in it."""
        searching = search_bytes(n_train) if by_product else 0
        return Memory(per_thread=40 * n_train + searching, per_query=(8 if by_product else 16) * n_train)


class NearEvaluator:
    """Values of a few rows near each query, the same for all others of a class; see Evaluator in run.py."""

    is_local = True  # rows that are not listed are worth nothing

    def __init__(self, problem: Problem, batch: int) -> None:
        self._problem, self._batch = problem, batch

    def near(self, start: int, stop: int) -> Iterator[tuple[int, IntVector, FloatVector]]:
        """For each query some rows and their values."""
        raise NotImplementedError

    def far(self, query: int) -> FloatVector:  # noqa: ARG002
        """Values of all rows, to which those of the near ones are added."""
        return np.zeros(self._problem.n_train)

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        for query, rows, near in self.near(start, stop):
            weight = float(self._problem.weights[query])
            if self.is_local and not request.needs_every_value:
                leaf.total[rows] += weight * near
                leaf.count(self._problem.weights[query : query + 1])
            else:
                values = self.far(query)
                values[rows] += near
                request.add(leaf, query, weight, values)
            yield 1


@dataclass(frozen=True, eq=False)
class OwnedRule(Rule):
    """The rows that are always there, as a mask of the training rows; the others are the players."""

    owned: BoolVector
    game: OwnedGame

    @classmethod
    def of(cls, owned: Any, problem: Problem) -> OwnedRule:
        mask, parameters = np.asarray(owned), problem.parameters
        if mask.dtype != bool or mask.shape != (problem.n_train,):
            raise ValueError(f"owned must be a mask, True or False for each of the {problem.n_train} training rows.")
        if mask.all():
            raise ValueError("owned: all training rows are owned, so that no candidate is left to value.")
        if parameters["task"] == "regression" or problem.leave_one_out or problem.groups is not None:
            raise ValueError("owned needs task='classification', X_val and y_val, and no groups.")
        for name in ("n_candidates", "max_error", "radius", "weights"):
            if parameters[name] is not None:
                raise ValueError(f"owned values are exact and have no form for {name}. Leave it None.")
        n_classes = problem.training.n_classes(parameters["n_classes"])
        about = {name: parameters[name] for name in ("n_neighbors", "utility", "semivalue")}
        return cls(mask, OwnedGame(int((~mask).sum()), int(mask.sum()), n_classes=n_classes, **about))

    @property
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
        return lambda: OwnedEvaluator(problem, plan.batch, self, search, few)


class OwnedEvaluator(NearEvaluator):
    """Values of candidates given owned rows."""

    def __init__(self, problem: Problem, batch: int, rule: OwnedRule, search: Any, few: Any) -> None:
        super().__init__(problem, batch)
        self._rule, self._search, self._few = rule, search, few
        self._owned, self._candidates = np.flatnonzero(rule.owned), np.flatnonzero(~rule.owned)
        self.is_local = rule.game.is_local

    def near(self, start: int, stop: int) -> Iterator[tuple[int, IntVector, FloatVector]]:
        problem, rule = self._problem, self._rule
        for query, rows, keys in self._not_beyond(start, stop):
            order = np.lexsort((rows, keys))
            rows, keys = rows[order], keys[order]
            first = np.append(True, (keys[1:] != keys[:-1]) | (problem.ties == "index"))[: len(rows)]
            gains = (problem.labels[rows] == problem.query_labels[query]).astype(np.float64)
            yield query, rows, rule.game.values(rule.owned[rows], gains, first)

    def far(self, query: int) -> FloatVector:
        """What any candidate has, however far, where few rows are owned."""
        matches, values = self._problem.labels == self._problem.query_labels[query], super().far(query)
        if not self.is_local:
            there, n_owned = matches[self._candidates], int(matches[self._owned].sum())
            values[self._candidates] = np.where(there, *self._rule.game.added(int(there.sum()), n_owned))
        return values

    def _not_beyond(self, start: int, stop: int) -> Iterator[tuple[int, IntVector, FloatVector]]:
        """For each query the rows that are not beyond its K-th owned one, with their keys."""
        problem, k = self._problem, self._rule.game.n_neighbors

        def exactly(query: int, keys: FloatVector) -> tuple[int, IntVector, FloatVector]:
            limit = np.inf if len(self._owned) < k else np.partition(keys[self._owned], k - 1)[k - 1]
            rows = np.flatnonzero(keys <= limit)
            return query, rows, keys[rows]

        if self._search is None:
            yield from (exactly(*each) for each in problem.exact_keys(start, stop, self._batch))
            return
        for a in range(start, stop, self._batch):
            queries = problem.queries[a : min(a + self._batch, stop)]
            found, few = self._search.nearest(queries, k + 1), self._few(queries)
            for query, owned, keys, others in zip(range(a, stop), *found, few, strict=False):
                if keys[k] == keys[k - 1]:  # more of them may be tied
                    yield exactly(query, problem.keys(problem.queries[query : query + 1])[0])
                    continue
                near = np.flatnonzero(others <= keys[k - 1])
                rows = np.concatenate([self._owned[owned[:k]], self._candidates[near]])
                yield query, rows, np.concatenate([keys[:k], others[near]])


@dataclass(frozen=True)
class RadiusRule(Rule):
    """Every row within the radius votes."""

    radius: float

    def __str__(self) -> str:
        return f"every row within {self.radius:g} votes; no ranks"

    def evaluators(self, problem: Problem, plan: Plan, shared: SharedTraining | None) -> Callable[[], Evaluator]:
        products = None
        if plan.products and isinstance(problem.keys, EuclideanKeys) and native.available():
            products = (shared or SharedTraining(problem.keys, problem.labels)).products()
        single = products is not None and plan.single and products.single_precision
        return lambda: RadiusEvaluator(problem, plan.batch, self.radius, products, single)


class RadiusEvaluator(NearEvaluator):
    """Values of the rows within a radius."""

    def __init__(self, problem: Problem, batch: int, radius: float, products: Any, single: bool) -> None:
        super().__init__(problem, batch)
        self._radius, self._products, self._single = radius, products, single
        presence = Presence.of(problem.parameters["semivalue"])
        self._mass, self._n_classes = presence.mass, problem.training.n_classes(problem.parameters["n_classes"])
        self._correction = lru_cache(MANY_COUNTS)(lambda n: classification_correction(presence, n, n))

    def near(self, start: int, stop: int) -> Iterator[tuple[int, IntVector, FloatVector]]:
        problem = self._problem
        for query, within in self._within(start, stop):
            excluded = problem.excluded(query)
            rows = within[~np.isin(within, excluded)] if len(excluded) else within
            matches, n = problem.labels[rows] == problem.query_labels[query], max(len(rows), 1)
            added = self._correction(n)
            of_other = added.other * int(matches.sum()) - added.empty / self._n_classes
            yield query, rows, np.where(matches, of_other + added.own - added.other + self._mass / n, of_other)

    def _within(self, start: int, stop: int) -> Iterator[tuple[int, IntVector]]:
        """The rows within the radius of each query."""
        problem = self._problem
        if self._products is None:
            yield from (
                (query, self._exactly(query, keys)) for query, keys in problem.exact_keys(start, stop, self._batch)
            )
            return
        space = np.empty((min(self._batch, stop - start), problem.n_train), dtype=np.int32)
        every = np.arange(problem.n_train, dtype=np.int32)
        for a in range(start, stop, self._batch):
            queries = np.ascontiguousarray(problem.queries[a : min(a + self._batch, stop)], dtype=np.float64)
            block = self._products(queries, every, every, space, single=self._single)
            for q, query in enumerate(range(a, a + len(queries))):
                point = queries[q : q + 1]
                rows = (
                    self._measured(point, block, q) if block.usable[q] else self._exactly(query, problem.keys(point)[0])
                )
                yield query, rows

    def _exactly(self, query: int, keys: FloatVector) -> IntVector:
        distances = self._problem.keys.as_distances(keys[None, :], self._problem.queries[query : query + 1])[0]
        return np.flatnonzero(distances <= self._radius)

    def _measured(self, point: FloatMatrix, block: QuantisedKeys, q: int) -> IntVector:
        """From qkeys: rows nearer to the radius than the tolerance, which is that of two qkeys, are measured."""
        keys, qkeys, tolerance = self._problem.keys, block.qkeys[q], int(block.tolerance[q])
        assert isinstance(keys, EuclideanKeys)
        assert block.scale is not None
        limit = MARGIN + min((self._radius if keys.is_squared else self._radius**2) * float(block.scale[q]), 2.0**31)
        rows = np.flatnonzero(qkeys <= limit + tolerance)
        unsure = np.flatnonzero(qkeys[rows] >= limit - tolerance)
        measured = keys.as_distances(distances_of_lists(point, keys.data, rows[unsure][None, :]), point)[0]
        return np.delete(rows, unsure[measured > self._radius])


@dataclass(frozen=True)
class WeightRule(Rule):
    """A vote counts f(distance); f is a function of an array, or "distance" for 1 / (1 + distance)."""

    weights: Any
    memory: ClassVar[Any] = staticmethod(lambda n_train, **_: SortedEvaluator.memory(n_train))

    def __str__(self) -> str:
        return "all neighbours ranked; votes weighed by distance"

    def evaluators(self, problem: Problem, plan: Plan, shared: SharedTraining | None) -> Callable[[], Evaluator]:  # noqa: ARG002
        return lambda: SortedEvaluator(problem, plan.batch, self)

    def __call__(self, distances: FloatVector) -> FloatVector:
        """The weights of distances."""
        if isinstance(self.weights, str):
            return 1.0 / (1.0 + distances)
        weights = np.asarray(self.weights(distances), dtype=np.float64)
        if weights.shape != distances.shape or not np.isfinite(weights).all():
            raise ValueError("weights must give one finite number for each distance of an array; it does not.")
        return weights
