"""Games in which distances matter, not only ranks: every row within a radius votes; votes are weighed by distance.

Within a radius (threshold KNN-Shapley) rows beyond it are null players and the n within are those of the soft utility
with K = N = n: counts decide, no rank. Large Euclidean sets go through one matrix product, and rows whose approximate
distance leaves it open are measured exactly. Weights, which are not normalised, make matches real gains; all is ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common import native
from nearworth._common.memory import Memory
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.engine.classify import SharedTraining, SortedEvaluator
from nearworth.engine.problem import Problem
from nearworth.engine.run import Evaluator, Request
from nearworth.games.coefficients import Presence, classification_correction
from nearworth.games.ties import TieBlocks
from nearworth.neighbors.distances import distances_of_lists
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.neighbors.products import Products
from nearworth.neighbors.quantised import MARGIN, QuantisedKeys
from nearworth.neighbors.searchers import Neighbours
from nearworth.results.sums import Leaf

if TYPE_CHECKING:
    from nearworth.engine.plan import Plan

MANY_COUNTS = 2**14


@dataclass(frozen=True)
class RadiusRule:
    """Every row within the radius votes."""

    radius: float
    n_values = None
    identity = {}  # noqa: RUF012 - the radius is among the parameters

    def __str__(self) -> str:
        return f"every row within {self.radius:g} votes; no ranks"

    def evaluators(self, problem: Problem, plan: Plan, shared: SharedTraining | None) -> Callable[[], Evaluator]:
        products = None
        if plan.products and isinstance(problem.keys, EuclideanKeys) and native.available():
            products = (shared or SharedTraining(problem.keys, problem.labels)).products()
        single = products is not None and plan.single and products.single_precision
        return lambda: RadiusEvaluator(problem, self.radius, plan.batch, products, single)

    def memory(self, n_train: int, *, by_product: bool) -> Memory:
        return Memory(per_thread=40 * n_train, per_query=(4 if by_product else 16) * n_train)


class RadiusEvaluator:
    """Values of rows within the radius; see Evaluator in run.py. One per thread."""

    def __init__(
        self, problem: Problem, radius: float, batch: int, products: Products | None, single: bool
    ) -> None:
        self._problem, self._radius, self._batch = problem, radius, batch
        self._products, self._single = products, single
        self._every = np.arange(problem.n_train, dtype=np.int32)
        self._presence = Presence.of(problem.parameters["semivalue"])
        self._n_classes = problem.training.n_classes(problem.parameters["n_classes"])
        self._correction = lru_cache(MANY_COUNTS)(lambda n: classification_correction(self._presence, n, n))

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        problem = self._problem
        for query, rows in self._within(start, stop):
            excluded, weight = problem.excluded(query), float(problem.weights[query])
            near = rows[~np.isin(rows, excluded)] if len(excluded) else rows
            values = self._values(problem.labels[near] == problem.query_labels[query])
            if request.needs_every_value:
                every = np.zeros(problem.n_train)
                every[near] = values
                request.add(leaf, query, weight, every)
            else:
                leaf.total[near] += weight * values
                leaf.count(problem.weights[query : query + 1])
            yield 1

    def _values(self, matches: Any) -> FloatVector:
        n, total = len(matches), int(matches.sum())
        if n == 0:
            return np.zeros(0)
        added = self._correction(n)
        of_other = added.other * total - added.empty / self._n_classes
        return np.where(matches, of_other + added.own - added.other + self._presence.mass / n, of_other)

    def _within(self, start: int, stop: int) -> Iterator[tuple[int, IntVector]]:
        """The rows within the radius of each query."""
        problem, products = self._problem, self._products
        if products is None:
            for query, keys in problem.exact_keys(start, stop, self._batch):
                yield query, self._exactly(query, keys)
            return
        space = np.empty((min(self._batch, stop - start), problem.n_train), dtype=np.int32)
        for a in range(start, stop, self._batch):
            queries = np.ascontiguousarray(problem.queries[a : min(a + self._batch, stop)], dtype=np.float64)
            block = products(queries, self._every, self._every, space, single=self._single)
            for q in range(len(queries)):
                if block.usable[q]:
                    yield a + q, self._measured(queries[q : q + 1], block, q)
                else:
                    yield a + q, self._exactly(a + q, problem.keys(queries[q : q + 1])[0])

    def _exactly(self, query: int, keys: FloatVector) -> IntVector:
        problem = self._problem
        distances = problem.keys.as_distances(keys[None, :], problem.queries[query : query + 1])[0]
        return np.flatnonzero(distances <= self._radius)

    def _measured(self, point: FloatMatrix, block: QuantisedKeys, q: int) -> IntVector:
        """From qkeys, whose tolerance is that of two of them, so of one and of the radius too."""
        keys, tolerance = self._problem.keys, int(block.tolerance[q])
        assert block.scale is not None
        limit = MARGIN + min(self._key_of_radius * float(block.scale[q]), 2.0**31)
        rows = np.flatnonzero(block.qkeys[q] <= limit + tolerance)
        open_ = np.flatnonzero(block.qkeys[q][rows] >= limit - tolerance)
        measured = distances_of_lists(point, keys.data, rows[open_][None, :])
        return np.delete(rows, open_[keys.as_distances(measured, point)[0] > self._radius])

    @property
    def _key_of_radius(self) -> float:
        return self._radius if self._problem.keys.is_squared else self._radius**2


@dataclass(frozen=True)
class WeightRule:
    """A vote counts f(distance); f is a function of an array, or "distance" for 1 / (1 + distance)."""

    weights: Any
    n_values = None
    identity = {}  # noqa: RUF012

    def __str__(self) -> str:
        return "all neighbours ranked; votes weighed by distance"

    def evaluators(self, problem: Problem, plan: Plan, shared: SharedTraining | None) -> Callable[[], Evaluator]:  # noqa: ARG002
        return lambda: WeightedEvaluator(problem, plan.batch, self)

    def memory(self, n_train: int, *, by_product: bool) -> Memory:  # noqa: ARG002
        return SortedEvaluator.memory(n_train)

    def __call__(self, distances: FloatVector) -> FloatVector:
        if isinstance(self.weights, str):
            return 1.0 / (1.0 + distances)
        weights = np.asarray(self.weights(distances), dtype=np.float64)
        if weights.shape != distances.shape or not np.isfinite(weights).all():
            raise ValueError(
                "weights must give one finite number for each distance of an array; "
                f"got shape {weights.shape} for {distances.shape}, or NaN or infinity."
            )
        return weights


class WeightedEvaluator:
    """Values by the closed form with real gains, after a sort of all exact keys."""

    def __init__(self, problem: Problem, batch: int, rule: WeightRule) -> None:
        self._problem, self._batch, self._rule = problem, batch, rule

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        problem = self._problem
        for query, keys in problem.exact_keys(start, stop, self._batch):
            excluded = problem.excluded(query)
            distances = problem.keys.as_distances(keys[None, :], problem.queries[query : query + 1])[0]
            gains = np.where(problem.labels == problem.query_labels[query], self._rule(distances), 0.0)
            keys[excluded] = np.nan  # sorts behind everything, infinity included
            order = np.argsort(keys, kind="stable")[: problem.n_train - len(excluded)]
            ties = TieBlocks(Neighbours(order[None, :], keys[None, order]).starts(problem.ties))
            values = np.zeros(problem.n_train)
            values[order] = problem.game_without(len(excluded)).gain_values(gains[None, order], ties)[0]
            request.add(leaf, query, float(problem.weights[query]), values)
            yield 1
