"""Exact search: the nearest training points of each query, by the keys of any metric.

Other searchers are measured against it. What those that are tuned to a recall have in common is
here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from nearworth.neighbors.quantised import Products
from nearworth.neighbors.searchers import (
    Neighbours,
    Searcher,
    as_points,
    as_searcher,
    check_answer,
    check_queries,
)

# From so many training points on, a matrix product and what it leaves ambiguous are faster than
# exact keys of all pairs.
PRODUCT_POINTS = 2048
# Queries that one pass over the training points serves, and exact keys made at a time, at most.
MAX_BATCH = 64
MAX_PAIRS = 2**21
# The same for products: qkeys made at a time, and queries that one pass serves at least.
MAX_QKEYS = 2**22
MIN_PRODUCT_BATCH = 16
# Queries that an index is tuned on.
MAX_SAMPLED_QUERIES = 128
# Queries that are put to an index at a time.
QUERIES_AT_ONCE = 256


class ExactSearch:
    """Exact neighbors by the keys of any metric, which know the training points.

    Equal keys are in the order of the rows. One pass over the training points serves several
    queries. Quantized keys from a matrix product drop nearly all points, and exact keys decide
    about the remaining ones. Without such a product, exact keys of all pairs are made.

    Parameters
    ----------
    keys : Keys
    n_train : int
    single : bool
        Whether products may be in single precision, which is faster.
    batch : int or None
        Queries that one pass serves where exact keys of all pairs are made.
    """

    def __init__(
        self, keys: Keys, n_train: int, *, single: bool = True, batch: int | None = None
    ) -> None:
        self._keys = keys
        self._n_train = n_train
        self._batch = batch or max(1, min(MAX_BATCH, MAX_PAIRS // n_train))
        is_by_products = keys.has_products and n_train >= PRODUCT_POINTS and native.available()
        self._products = keys.products(single=single) if is_by_products else None

    def nearest(self, queries: Any, k: int) -> Neighbours:
        """The k nearest with their keys. Several threads may call it at once.

        Queries may be sparse if the keys take them.
        """
        lists = Neighbours.empty(queries.shape[0], k, dtype=np.int32)
        if self._products is None:
            for start in range(0, queries.shape[0], self._batch):
                batch = slice(start, start + self._batch)
                block = queries[batch]
                self._fill_by_keys(lists.part(batch), range(block.shape[0]), block)
        else:
            self._fill_by_products(lists, self._products, queries)
        return Neighbours(lists.rows.astype(np.intp), lists.keys)

    def _fill_by_products(self, lists: Neighbours, products: Products, queries: Any) -> None:
        """Fill the lists of all queries."""
        queries = np.ascontiguousarray(queries, dtype=np.float64)
        batch_size = _product_batch(self._n_train)
        all_rows = np.arange(self._n_train, dtype=np.int32)
        space = np.empty((min(batch_size, len(queries)), self._n_train), dtype=np.int32)
        for start in range(0, len(queries), batch_size):
            batch = slice(start, start + batch_size)
            block = queries[batch]
            block_lists = lists.part(batch)
            quantized = products(block, all_rows, all_rows, space, single=products.single_precision)
            none_excluded = np.empty((len(block), 0), dtype=np.int32)
            k = lists.rows.shape[1]
            quantized.nearest(all_rows, none_excluded, block_lists, least=k)

            unusable = np.flatnonzero(~quantized.usable)
            if len(unusable):
                self._fill_by_keys(block_lists, unusable, block[unusable])

    def _fill_by_keys(self, lists: Neighbours, numbers: Iterable[int], queries: Any) -> None:
        """Fill the lists of these numbers by exact keys of all points."""
        size = min(lists.rows.shape[1], self._n_train)
        for number, keys in zip(numbers, self._keys(queries), strict=True):
            rows, sorted_keys = smallest(keys, np.arange(len(keys)), size)
            lists.rows[number, :size] = rows
            lists.keys[number, :size] = sorted_keys


def _product_batch(n_train: int) -> int:
    return max(MIN_PRODUCT_BATCH, min(MAX_BATCH, MAX_QKEYS // n_train))


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
    """The k nearest that a fitted searcher finds, ranked by exact squared distances.

    Parameters
    ----------
    searcher : Searcher
    distances : EuclideanKeys
        Of the training points.
    numbers : array of shape (Q,)
        Numbers of the validation points that are the queries.
    queries : array of shape (Q, d)
    k : int
    excluded : array of shape (Q,) or None
        A training point per query that is not wanted.
    """
    if excluded is not None:
        k += 1
    answer = searcher.search_numbered(numbers, queries, k)
    n_train = len(distances.data)
    lists = check_answer(*answer, n_train, k, n_queries=len(queries), searcher=searcher)
    ranked = distances.order(queries, lists.rows)
    return ranked if excluded is None else ranked.without(excluded)


def recall_by_distance(found: FloatMatrix, exact: FloatMatrix) -> FloatVector:
    """Share of the nearest points that was found for each query, shape (Q,).

    Exact distances decide: a point as near as the farthest wanted one is as good as it.

    Parameters
    ----------
    found : array of shape (Q, k)
        Distances of the points that were found, infinity where there is none.
    exact : array of shape (Q, k)
        Distances of the nearest points.
    """
    is_present = exact < np.inf
    n_wanted = is_present.sum(axis=1)
    radius = np.where(is_present, exact, -np.inf).max(axis=1, initial=-np.inf)
    n_within = (found <= radius[:, None]).sum(axis=1)
    shares = np.minimum(n_within, n_wanted) / np.maximum(n_wanted, 1)
    # Where there is nothing to find, all of it was found.
    return np.asarray(shares + (n_wanted == 0))


def upper_limit(misses: int, n: int, confidence: float = 0.99) -> float:
    """Largest share of misses that agrees with so many of n drawn, replaced or not.

    The limit is that of Clopper and Pearson, one-sided.
    """
    from scipy.stats import beta

    if misses == n:
        return 1.0
    return float(beta.ppf(confidence, misses + 1, n - misses))


class Sample:
    """Queries with their exact neighbors, on which searchers are measured.

    Attributes
    ----------
    truth : EuclideanKeys
        Of the training points.
    k : int
    rows : array of shape (Q,) or None
        Row numbers of training points if these are the queries. They are then no neighbors of
        themselves.
    queries : array of shape (Q, d)
    indices, keys : arrays of shape (Q, k)
        Row numbers and squared distances of the exact neighbors.
    """

    def __init__(
        self, X: Any, k: int, queries: Any = None, *, rows: IntVector | None = None
    ) -> None:
        self.truth = EuclideanKeys(X)
        self.k = k
        self.rows = rows
        if queries is None:
            queries = self.truth.data[rows]
        self.queries = np.ascontiguousarray(queries, dtype=np.float64)

        # Without a copy in single precision, which would not pay for a few queries.
        search = ExactSearch(self.truth, len(X), single=False)
        if rows is None:
            self.indices, self.keys = search.nearest(self.queries, k)
        else:
            self.indices, self.keys = search.nearest(self.queries, k + 1).without(rows)

    @property
    def distances(self) -> FloatMatrix:
        return self.truth.as_distances(self.keys, self.queries)

    def recall_of(self, searcher: Any) -> FloatVector:
        """Share of the exact neighbors that a fitted searcher finds, for each query."""
        numbers = np.arange(len(self.queries))
        answer = ask(as_searcher(searcher), self.truth, numbers, self.queries, self.k, self.rows)
        return recall_by_distance(answer.keys, self.keys)


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Parameters of an index, chosen for a recall; prints itself.

    Attributes
    ----------
    parameters : dict
        What was chosen, by name.
    k : int
        K*, the number of neighbors it was chosen for.
    wanted : float
        Share of the neighbors that should be found.
    recall : float
        Share that is found, as far as known.
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
        texts = []
        for name, value in self.parameters.items():
            number = f"{value:.6g}" if isinstance(value, float) else value
            texts.append(f"{name} {number}")
        line = (
            f"{', '.join(texts)}: recall {self.recall:.3f} predicted for K* = {self.k} (wanted"
            f" {self.wanted:g})"
        )
        return f"{line}\n  warning: {self.warning}" if self.warning else line


@dataclass(eq=False, kw_only=True)
class IndexSearch(Searcher):
    """A searcher that makes an index of the training points and tunes it to a recall.

    It is tuned on a sample of queries. Subclasses have `_build()`, which begins with `_points`,
    `_tune(k, queries)`, and `_nearest(queries, k)`: neighbors of a few queries with squared
    distances, in any thread.
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
        """Take the training points.

        The first search tunes the index for its k, unless `prepare` did.
        """
        self._take(X)
        self._build()
        return self

    def _take(self, X: Any) -> None:
        """Check and keep the training points."""
        features = check_features(X, "X")
        if features.is_sparse:
            raise TypeError(
                "X is sparse, which this searcher cannot take. Use X.toarray(), or search='exact'."
            )
        self._truth = EuclideanKeys(as_points(features.data))
        self._points: npt.NDArray[Any] = self._truth.data
        self.tuning = None

    def prepare(self, k: int, queries: Any = None) -> Self:
        """Choose what was not given, for k neighbors.

        The choice is made on `queries`, or on training points among themselves.
        """
        whole_number(1)("k", k)
        self.tuning = self._tune(k, queries)
        return self

    def search(self, Q: Any, k: int) -> Neighbours:
        """About the k nearest by true distance; -1 where fewer are found."""
        queries = check_queries(Q, self._points.shape[1], k)
        if self.tuning is None:
            self.prepare(k)

        blocks = np.split(queries, range(QUERIES_AT_ONCE, len(queries), QUERIES_AT_ONCE))
        n_threads = min(usable_threads(self.n_threads), len(blocks))
        with ThreadPoolExecutor(n_threads) as pool:
            answers = list(pool.map(lambda block: self._nearest(block, k), blocks))
        rows = np.concatenate([answer.rows for answer in answers])
        squares = np.concatenate([answer.keys for answer in answers])
        return Neighbours(rows, self._truth.as_distances(squares, queries))

    def _sample(self, k: int, queries: Any, rng: np.random.Generator) -> Sample:
        """Some of these queries, or of the training points if there are none."""
        points = self._points
        if queries is None:
            size = min(MAX_SAMPLED_QUERIES, len(points))
            rows = np.sort(rng.choice(len(points), size, replace=False))
            return Sample(points, k, rows=rows)
        queries = check_queries(queries, points.shape[1], k)
        step = -(-len(queries) // MAX_SAMPLED_QUERIES)
        return Sample(points, k, queries[::step])


def smallest(keys: FloatVector, rows: npt.NDArray[Any], k: int) -> tuple[IntVector, FloatVector]:
    """The rows of the k smallest keys, and these keys, both of shape (k,).

    They are in the order of the keys, and smaller rows come first among equals.
    """
    kth_key = np.partition(keys, k - 1)[k - 1]
    candidates = np.flatnonzero(keys <= kth_key)
    order = np.lexsort((rows[candidates], keys[candidates]))
    nearest = candidates[order][:k]
    return rows[nearest].astype(np.intp), keys[nearest]
