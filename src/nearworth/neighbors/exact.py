"""The nearest training points of each query, all of them and in exact order, by the keys of any metric.

ExactSearch     one pass over the training points: quantised keys from a matrix product drop nearly all of them,
                exact keys of the others decide. What other searchers are measured against.
TrueDistances   exact distances of chosen pairs: they put in order what other searchers found.
ask             the answer of a searcher, checked and in exact order.
Sample          queries with their exact neighbours: the recall of a searcher, and what it says about other queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nearworth._common import native
from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector
from nearworth.neighbors.distances import ExactDistances, distances_of_lists, scaled
from nearworth.neighbors.keys import EuclideanKeys, Keys
from nearworth.neighbors.quantised import Products
from nearworth.neighbors.searchers import Neighbours, Searcher, as_points, check_answer

PRODUCT_POINTS = 2048  # from here on, a matrix product and what it leaves ambiguous are faster than exact keys
BATCH, BLOCK_PAIRS = 64, 2**21
QKEYS, LEAST_BATCH = 2**22, 16  # qkeys made at a time; queries for which rows are read together, at least


class ExactSearch(Searcher):
    """Exact neighbours; equal keys by index.

    One pass over the training points serves BATCH queries, or `batch` where all their exact keys are made. `single`
    allows products in single precision, which are faster.
    """

    def __init__(self, *, single: bool = True, batch: int | None = None) -> None:
        self._single, self._batch = single, batch

    def fit(self, X: Any) -> Self:
        """Take the training points, for Euclidean distances."""
        self._distances = TrueDistances(X)
        return self.fit_keys(self._distances, len(X))

    def fit_keys(self, keys: Keys, n_train: int) -> Self:
        """Take the keys of any metric, which know the training points."""
        self._keys, self._n_train = keys, n_train
        wanted = keys.has_products and n_train >= PRODUCT_POINTS and native.available()
        self._products = keys.products(single=self._single) if wanted else None
        return self

    def search(self, Q: Any, k: int) -> Neighbours:
        """The k nearest with their Euclidean distances, after `fit`."""
        found = self.nearest(Q, k)
        return Neighbours(found.rows, self._distances.unsquared(Q, found.keys))

    def nearest(self, queries: Any, k: int) -> Neighbours:
        """The k nearest with their keys. Sparse queries are fine if the keys take them. Several threads may ask."""
        found, size = Neighbours.empty(queries.shape[0], k, dtype=np.int32), min(k, self._n_train)
        batch = self._batch or max(1, min(BATCH, BLOCK_PAIRS // self._n_train))
        if self._products is not None:
            batch = _product_batch(self._n_train)
            queries = np.ascontiguousarray(queries, dtype=np.float64)
            space = np.empty((min(batch, len(queries)), self._n_train), dtype=np.int32)
        for start in range(0, queries.shape[0], batch):
            some, part = queries[start : start + batch], found.part(slice(start, start + batch))
            by_pair: Sequence[int] = range(some.shape[0])
            if self._products is not None:
                by_pair = self._by_product(self._products, some, part, space)
            for q, keys in zip(by_pair, self._keys(some[by_pair]) if len(by_pair) else (), strict=True):
                part.rows[q, :size], part.keys[q, :size] = smallest(keys, np.arange(len(keys)), size)
        return Neighbours(found.rows.astype(np.intp), found.keys)

    def _by_product(
        self, products: Products, queries: FloatMatrix, found: Neighbours, space: npt.NDArray[np.int32]
    ) -> Sequence[int]:
        """Fill in the nearest by qkeys of all points; returns the queries for which these are of no use."""
        every = np.arange(self._n_train, dtype=np.int32)
        block = products(queries, every, every, space, single=products.single_precision)
        block.nearest(every, np.empty((len(queries), 0), dtype=np.int32), found, least=found.rows.shape[1])
        return list(np.flatnonzero(~block.usable))


def _product_batch(n_train: int) -> int:
    return max(LEAST_BATCH, min(BATCH, QKEYS // n_train))


def search_bytes(n_train: int) -> int:
    """What exact search by products takes in each thread: qkeys, and the candidates of a query."""
    return (4 * _product_batch(n_train) + 4 + 8) * n_train


class TrueDistances(EuclideanKeys):
    """Squared distances of chosen pairs, equal to the bit to those of all pairs."""

    def __init__(self, X: Any) -> None:
        super().__init__(as_points(X))

    @property
    def points(self) -> npt.NDArray[Any]:
        return self.data  # type: ignore[no-any-return]

    def keys(self, queries: Any, indices: IntMatrix) -> FloatMatrix:
        """Squared distances of each query to its own list of points, infinity for -1; scaled as those of all pairs."""
        queries, factor = np.ascontiguousarray(queries, dtype=np.float64), self._underflow.factor
        keys = distances_of_lists(queries, self.points, indices)
        for q in np.flatnonzero(self._underflow.concerns(queries)):
            there = indices[q] >= 0
            exact = ExactDistances(queries[q] * factor, scaled(self.points, factor))
            keys[q, there] = exact(indices[q][there].astype(np.int32))
        return keys

    def order(self, queries: Any, indices: IntMatrix) -> Neighbours:
        """The points found for each query, by squared distance and then index."""
        keys = self.keys(queries, indices)
        order = np.argsort(keys, axis=1)
        ordered = np.take_along_axis(keys, order, axis=1)
        tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if len(tied):  # rare, and the slower of the two sorts
            order[tied] = np.lexsort((indices[tied], keys[tied]), axis=1)
        return Neighbours(np.take_along_axis(indices, order, axis=1).astype(np.intp), ordered)

    def unsquared(self, queries: Any, keys: FloatMatrix) -> FloatMatrix:
        """Distances from squared ones."""
        small = self._underflow.concerns(np.asarray(queries, dtype=np.float64))
        return np.sqrt(keys) / np.where(small, self._underflow.factor, 1.0)[:, None]


def ask(
    searcher: Any,
    distances: TrueDistances,
    queries: Any,
    k: int,
    *,
    numbers: IntVector | None = None,
    excluded: IntVector | None = None,
) -> Neighbours:
    """The k nearest that a fitted searcher finds, checked and by exact squared distances.

    `numbers` are those of the queries among the validation points. `excluded` names a training point per query that
    is not wanted, so that the searcher is asked for one more.
    """
    k += excluded is not None
    if numbers is None:
        indices, far = searcher.search(queries, k)
    else:
        indices, far = searcher.search_numbered(numbers, queries, k)
    found = check_answer(indices, far, len(distances.points), k, n_queries=len(queries), searcher=searcher)
    ranked = distances.order(queries, found.rows)
    return ranked if excluded is None else ranked.without(excluded)


def recall_by_distance(found: FloatMatrix, exact: FloatMatrix) -> FloatVector:
    """Share found for each query, by exact distances: a point as near as the farthest wanted is as good as it."""
    wanted = np.isfinite(exact).sum(axis=1)
    farthest = np.where(np.isfinite(exact), exact, -np.inf).max(axis=1, initial=-np.inf)
    hits = (found <= farthest[:, None]).sum(axis=1)
    return np.asarray(np.minimum(hits, wanted) / np.maximum(wanted, 1) + (wanted == 0))


def upper_limit(misses: int, n: int, confidence: float = 0.99) -> float:
    """Largest share of misses that agrees with so many among n drawn at random (Clopper and Pearson, one-sided).

    With this confidence the true share is not larger. The limit also holds for draws without replacement.
    """
    from scipy.stats import beta

    return 1.0 if misses == n else float(beta.ppf(confidence, misses + 1, n - misses))


@dataclass(frozen=True)
class Sample:
    """Queries with their exact neighbours: indices and squared distances, (S, k)."""

    truth: TrueDistances
    queries: FloatMatrix
    indices: IntMatrix
    keys: FloatMatrix
    rows: IntVector | None  # if the queries are training points: which, each excluded from its own neighbours

    @classmethod
    def of_queries(cls, X: npt.NDArray[Any], queries: npt.NDArray[Any], k: int) -> Self:
        """Queries that are no training points."""
        truth, rows = TrueDistances(X), np.ascontiguousarray(queries, dtype=np.float64)
        return cls(truth, rows, *_exact(truth).nearest(rows, k), None)

    @classmethod
    def of_training(cls, X: npt.NDArray[Any], k: int, size: int, rng: np.random.Generator) -> Self:
        """Training points drawn at random, with the nearest of the others."""
        rows = np.sort(rng.choice(len(X), min(size, len(X)), replace=False)).astype(np.intp)
        truth, queries = TrueDistances(X), np.ascontiguousarray(X[rows], dtype=np.float64)
        return cls(truth, queries, *_exact(truth).nearest(queries, k + 1).without(rows), rows)

    @property
    def k(self) -> int:
        return int(self.indices.shape[1])

    @property
    def distances(self) -> FloatMatrix:
        return self.truth.unsquared(self.queries, self.keys)

    def recall_of(self, searcher: Any) -> FloatVector:
        """Share of the exact neighbours that a fitted searcher finds, for each query."""
        return recall_by_distance(ask(searcher, self.truth, self.queries, self.k, excluded=self.rows).keys, self.keys)


def _exact(truth: TrueDistances) -> ExactSearch:
    """Without a copy in single precision, which would not pay for a few queries."""
    return ExactSearch(single=False).fit_keys(truth, len(truth.points))


def smallest(keys: FloatVector, rows: npt.NDArray[Any], k: int) -> tuple[IntVector, FloatVector]:
    """The rows of the k smallest keys, smaller rows first among equals, and their keys, in order."""
    limit = np.partition(keys, k - 1)[k - 1]
    near = np.flatnonzero(keys <= limit)
    chosen = near[np.lexsort((rows[near], keys[near]))][:k]
    return rows[chosen].astype(np.intp), keys[chosen]
