"""The nearest points, all of them and in true order: what other searchers are measured against."""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nearworth._common.compile import compiled
from nearworth._common.types import FloatVector, IntVector
from nearworth.neighbors.keys import EuclideanKeys, Keys
from nearworth.neighbors.products import ApproximateKeys, panel_size
from nearworth.neighbors.search import MISSING, Answer, TrueDistances

PRODUCT_POINTS = 2048  # below, exact keys of all pairs are as fast as a product and its doubts
BATCH, BLOCK_PAIRS = 64, 2**21
ROOM = 256  # candidates beyond twice k that are kept before the list is cut
STRETCH = 128  # keys that are passed over at once if none of them is near


class NearestKeys:
    """The k smallest rank keys of each query, of any metric.

    One pass over the training points serves BATCH queries, or `batch` where all their exact keys are made: under a
    matrix product each block of points is merged into lists of the nearest so far.
    """

    def __init__(self, keys: Keys, n_train: int, *, narrow: bool = True, batch: int | None = None) -> None:
        self._keys, self._n_train = keys, n_train
        self._batch = batch or max(1, min(BATCH, BLOCK_PAIRS // n_train))
        wanted = keys.has_products and n_train >= PRODUCT_POINTS
        self._products = keys.products(single=narrow) if wanted else None

    def ranked(self, queries: Any, k: int) -> Answer:
        """Indices and keys, equal keys by index; -1 and infinity beyond the last training point.

        `queries` are as the keys take them, sparse ones included. Several threads may ask at once.
        """
        indices = np.full((queries.shape[0], k), MISSING, dtype=np.intp)
        keys = np.full(indices.shape, np.inf)
        batch = BATCH if self._products is not None else self._batch
        for start in range(0, queries.shape[0], batch):
            answers = self._answers(queries[start : start + batch], min(k, self._n_train))
            for q, (near, exact) in enumerate(answers, start=start):
                indices[q, : len(near)], keys[q, : len(near)] = near, exact
        return indices, keys

    def _answers(self, queries: Any, k: int) -> Iterator[tuple[IntVector, FloatVector]]:
        if self._products is None:
            yield from (_smallest(keys, np.arange(len(keys)), k) for keys in self._keys(queries))
            return
        queries = np.ascontiguousarray(queries, dtype=np.float64)
        rough = self._products(queries, single=self._products.single_precision)
        for q, found in enumerate(candidates(rough, k)):
            exact = None if found is None else rough.resolve(q, *found)
            if found is None or exact is None:
                every = self._keys(queries[q : q + 1])[0]
                yield _smallest(every, np.arange(len(every)), k)
            else:
                yield _smallest(exact, found[0], k)


class ExactSearch:
    """Exact neighbours by Euclidean distance; equal distances by index."""

    def fit(self, X: npt.NDArray[Any]) -> Self:
        """Take the training points."""
        self._truth = TrueDistances(X)
        self._nearest = NearestKeys(EuclideanKeys(X), len(X))
        return self

    def search(self, Q: npt.NDArray[Any], k: int) -> Answer:
        """Indices and distances of the k nearest; -1 and infinity beyond the last training point."""
        indices, keys = self.ranked(Q, k)
        return indices, self._truth.unsquared(Q, keys)

    def ranked(self, Q: npt.NDArray[Any], k: int) -> Answer:
        """The same with the squared distances of `TrueDistances` instead."""
        indices, _ = self._nearest.ranked(Q, k)
        return self._truth.order(Q, indices)


def candidates(rough: ApproximateKeys, k: int) -> list[tuple[npt.NDArray[np.int32], FloatVector] | None]:
    """For each query all points that may be among its k nearest, with their keys; None where they are too many.

    One pass over the panels of the product: whoever is beyond the k-th nearest so far, by more than keys can be off,
    is out.
    """
    room = 2 * k + ROOM
    keys, points = np.empty((rough.n_queries, room)), np.empty((rough.n_queries, room), dtype=np.int32)
    counts, limits = np.zeros(rough.n_queries, dtype=np.int64), np.full(rough.n_queries, np.inf)
    counts[~rough.usable] = -1
    slack = np.maximum(rough.tolerance, rough.far_tolerance)
    for start, panel in rough.panels(np.empty(panel_size(rough.n_queries, rough.width))):
        _sift(panel, rough.norms, start, k, slack, limits, keys, points, counts)
    return [None if count < 0 else (points[q, :count], keys[q, :count]) for q, count in enumerate(counts.tolist())]


def _smallest(keys: FloatVector, rows: npt.NDArray[Any], k: int) -> tuple[IntVector, FloatVector]:
    """The rows of the k smallest keys, smaller rows first among equals, and their keys, in order."""
    limit = np.partition(keys, k - 1)[k - 1]
    near = np.flatnonzero(keys <= limit)
    chosen = near[np.lexsort((rows[near], keys[near]))][:k]
    return rows[chosen].astype(np.intp), keys[chosen]


@compiled
def _sift(panel, norms, start, k, slack, limits, keys, points, counts):
    for q in range(panel.shape[0]):
        if counts[q] >= 0:
            limits[q], counts[q] = _sift_row(
                panel[q], norms[start:], start, k, slack[q], limits[q], keys[q], points[q], counts[q]
            )


@compiled
def _sift_row(products, norms, start, k, slack, limit, keys, points, count):
    """Add the points of a panel that may be near to the list; a list that stays full is given up (count -1)."""
    for first in range(0, products.shape[0], STRETCH):
        some, added = products[first : first + STRETCH], norms[first : first + STRETCH]
        if not _any_within(some, added, limit):
            continue
        for i in range(some.shape[0]):
            key = some[i] + added[i]
            if key <= limit:
                if count == keys.shape[0]:
                    limit, count = _cut(k, slack, keys, points)
                    if 4 * count > 3 * keys.shape[0]:
                        return limit, -1
                keys[count], points[count] = key, start + first + i
                count += 1
    return limit, count


@compiled
def _any_within(products, norms, limit):
    """Counts instead of stopping at the first, which compilers turn into a few wide instructions."""
    hits = 0
    for i in range(products.shape[0]):
        hits += products[i] + norms[i] <= limit
    return hits > 0


@compiled
def _cut(k, slack, keys, points):
    """Keep of a full list who is not beyond its k-th by more than the slack; returns that limit and their number."""
    limit = np.partition(keys, k - 1)[k - 1] + slack
    count = 0
    for j in range(keys.shape[0]):
        if keys[j] <= limit:
            keys[count], points[count] = keys[j], points[j]
            count += 1
    return limit, count
