"""Exact search: the nearest training points of each query, in exact order, by the keys of any
metric.

Other searchers are measured against it; what those that are tuned to a recall have in common is
here too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from nearworth._common import native
from nearworth._common.memory import usable_threads
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.inputs.features import check_features
from nearworth.inputs.parameters import share, whole_number
from nearworth.neighbors.keys import EuclideanKeys, Keys
from nearworth.neighbors.searchers import (
    Neighbours,
    Searcher,
    as_points,
    as_searcher,
    check_answer,
    check_queries,
)

PRODUCT_POINTS = (
    2048  # from here on, a matrix product and what it leaves ambiguous are faster than exact keys
)
BATCH, BLOCK_PAIRS = 64, 2**21
QKEYS, LEAST_BATCH = (
    2**22,
    16,
)  # qkeys made at a time; queries for which rows are read together, at least
SAMPLED_QUERIES, TOGETHER = (
    128,
    256,
)  # queries that an index is tuned on, and that are put to it at a time


class ExactSearch:
    """Exact neighbours by the keys of any metric, which know the training points; equal keys by
    index.

    One pass over the training points serves BATCH queries: quantised keys from a matrix product
    drop nearly all points, exact keys of the others decide. Where all exact keys are made, it
    serves `batch` queries. `single` allows products in single precision, which are faster.
    """

    def __init__(
        self, keys: Keys, n_train: int, *, single: bool = True, batch: int | None = None
    ) -> None:
        self._keys, self._n_train, self._batch = keys, n_train, batch
        wanted = keys.has_products and n_train >= PRODUCT_POINTS and native.available()
        self._products = keys.products(single=single) if wanted else None

    def nearest(self, queries: Any, k: int) -> Neighbours:
        """The k nearest with their keys. Sparse queries are fine if the keys take them. Several
        threads may ask.
        """
        found, size = Neighbours.empty(queries.shape[0], k, dtype=np.int32), min(k, self._n_train)
        batch = self._batch or max(1, min(BATCH, BLOCK_PAIRS // self._n_train))
        if self._products is not None:
            batch = _product_batch(self._n_train)
            queries, every = (
                np.ascontiguousarray(queries, dtype=np.float64),
                np.arange(self._n_train, dtype=np.int32),
            )
            space = np.empty((min(batch, len(queries)), self._n_train), dtype=np.int32)
        for start in range(0, queries.shape[0], batch):
            some, part = queries[start : start + batch], found.part(slice(start, start + batch))
            by_pair: Sequence[int] = range(some.shape[0])
            if self._products is not None:
                block = self._products(
                    some, every, every, space, single=self._products.single_precision
                )
                block.nearest(every, np.empty((len(some), 0), dtype=np.int32), part, least=k)
                by_pair = list(np.flatnonzero(~block.usable))  # for which qkeys are of no use
            for q, keys in zip(
                by_pair, self._keys(some[by_pair]) if len(by_pair) else (), strict=True
            ):
                part.rows[q, :size], part.keys[q, :size] = smallest(
                    keys, np.arange(len(keys)), size
                )
        return Neighbours(found.rows.astype(np.intp), found.keys)


def _product_batch(n_train: int) -> int:
    return max(LEAST_BATCH, min(BATCH, QKEYS // n_train))


def search_bytes(n_train: int) -> int:
    """What exact search by products takes in each thread: qkeys, and the candidates of a query."""
    return (4 * _product_batch(n_train) + 4 + 8) * n_train


def ask(
    searcher: Searcher,
    distances: EuclideanKeys,
    numbers: IntVector,
    queries: Any,
    k: int,
    excluded: IntVector | None,
) -> Neighbours:
    """The k nearest that a fitted searcher finds for validation points of these numbers, by exact
    squared distances.
    """
    k += excluded is not None  # a training point per query that is not wanted
    answer = searcher.search_numbered(numbers, queries, k)
    found = check_answer(*answer, len(distances.data), k, n_queries=len(queries), searcher=searcher)
    ranked = distances.order(queries, found.rows)
    return ranked if excluded is None else ranked.without(excluded)


def recall_by_distance(found: FloatMatrix, exact: FloatMatrix) -> FloatVector:
    """Share found for each query, by exact distances: a point as near as the farthest wanted is as
    good as it.
    """
    there = exact < np.inf
    wanted = there.sum(axis=1)
    farthest = np.where(there, exact, -np.inf).max(axis=1, initial=-np.inf)
    hits = (found <= farthest[:, None]).sum(axis=1)
    return np.asarray(np.minimum(hits, wanted) / np.maximum(wanted, 1) + (wanted == 0))


def upper_limit(misses: int, n: int, confidence: float = 0.99) -> float:
    """Largest share of misses that agrees with so many of n drawn, replaced or not (Clopper and
    Pearson, one-sided).
    """
    from scipy.stats import beta

    return 1.0 if misses == n else float(beta.ppf(confidence, misses + 1, n - misses))


class Sample:
    """Queries, or the training points in `rows` without themselves; their exact neighbours and
    squared distances.
    """

    def __init__(
        self, X: Any, k: int, queries: Any = None, *, rows: IntVector | None = None
    ) -> None:
        self.truth, self.k, self.rows = EuclideanKeys(X), k, rows
        self.queries = np.ascontiguousarray(
            self.truth.data[rows] if queries is None else queries, dtype=np.float64
        )
        # Without a copy in single precision, which would not pay for a few queries.
        found = ExactSearch(self.truth, len(X), single=False).nearest(
            self.queries, k + (rows is not None)
        )
        self.indices, self.keys = found if rows is None else found.without(rows)

    @property
    def distances(self) -> FloatMatrix:
        return self.truth.as_distances(self.keys, self.queries)

    def recall_of(self, searcher: Any) -> FloatVector:
        """Share of the exact neighbours that a fitted searcher finds, for each query."""
        numbers, searcher = np.arange(len(self.queries)), as_searcher(searcher)
        found = ask(searcher, self.truth, numbers, self.queries, self.k, self.rows)
        return recall_by_distance(found.keys, self.keys)


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Parameters of an index for K* = k neighbours, and the share of these that it should find;
    prints itself.
    """

    parameters: dict[str, Any]
    k: int
    wanted: float
    recall: float = np.nan

    @property
    def warning(self) -> str | None:
        """What the user should know; None if all is well."""
        if self.recall >= self.wanted:
            return None
        return (
            f"these parameters find {self.recall:.1%} of the neighbours, {self.wanted:.1%} were"
            " asked for"
        )

    def __str__(self) -> str:
        numbers = {
            name: f"{n:.6g}" if isinstance(n, float) else n for name, n in self.parameters.items()
        }
        chosen = ", ".join(f"{name} {number}" for name, number in numbers.items())
        line = (
            f"{chosen}: recall {self.recall:.3f} predicted for K* = {self.k} (wanted"
            f" {self.wanted:g})"
        )
        return f"{line}\n  warning: {self.warning}" if self.warning else line


@dataclass(eq=False, kw_only=True)
class IndexSearch(Searcher):
    """A searcher that makes an index of the training points and tunes it to a recall, on a sample
    of queries.

    Subclasses have `_build()`, which begins with `_points`, `_tune(k, queries)`, and
    `_nearest(queries, k)`: neighbours of a few queries with squared distances, in any thread.
    """

    recall: float = 0.95
    n_threads: int | None = None

    _build: ClassVar[Callable[[Any], None]]
    _tune: ClassVar[Callable[[Any, int, Any], Tuning]]
    _nearest: ClassVar[Callable[[Any, FloatMatrix, int], Neighbours]]

    def __post_init__(self) -> None:
        share("recall", self.recall)
        whole_number(1, or_none=True)("n_threads", self.n_threads)

    def fit(self, X: Any) -> Self:
        """Take the training points. The first search tunes the index for its k, unless `prepare`
        did.
        """
        self._take(X)
        self._build()
        return self

    def _take(self, X: Any) -> None:
        features = check_features(X, "X")
        if features.is_sparse:
            raise TypeError(
                "X is sparse, which this searcher cannot take. Use X.toarray(), or search='exact'."
            )
        self._truth, self.tuning = EuclideanKeys(as_points(features.data)), None
        self._points: npt.NDArray[Any] = self._truth.data

    def prepare(self, k: int, queries: Any = None) -> Self:
        """Choose what was not given, for k neighbours, from `queries` or from training points among
        themselves.
        """
        whole_number(1)("k", k)
        self.tuning = self._tune(k, queries)
        return self

    def search(self, Q: Any, k: int) -> Neighbours:
        """About the k nearest by true distance; -1 where fewer are found."""
        queries = check_queries(Q, self._points.shape[1], k)
        if self.tuning is None:
            self.prepare(k)
        blocks = np.split(queries, range(TOGETHER, len(queries), TOGETHER))
        with ThreadPoolExecutor(min(usable_threads(self.n_threads), len(blocks))) as pool:
            parts = list(pool.map(lambda block: self._nearest(block, k), blocks))
        rows, squares = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Neighbours(rows, self._truth.as_distances(squares, queries))

    def _sample(self, k: int, queries: Any, rng: np.random.Generator) -> Sample:
        points = self._points
        if queries is None:
            size = min(SAMPLED_QUERIES, len(points))
            return Sample(points, k, rows=np.sort(rng.choice(len(points), size, replace=False)))
        rows = check_queries(queries, points.shape[1], k)
        return Sample(points, k, rows[:: -(-len(rows) // SAMPLED_QUERIES)])


def smallest(keys: FloatVector, rows: npt.NDArray[Any], k: int) -> tuple[IntVector, FloatVector]:
    """The rows of the k smallest keys, smaller rows first among equals, and their keys, in
    order.
    """
    near = np.flatnonzero(keys <= np.partition(keys, k - 1)[k - 1])
    chosen = near[np.lexsort((rows[near], keys[near]))][:k]
    return rows[chosen].astype(np.intp), keys[chosen]
