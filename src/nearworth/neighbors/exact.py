"""The nearest points, all of them and in true order: what other searchers are measured against.

Rough keys come panel by panel from a matrix product and are looked at once, while they are in the cache: whoever may
still be among the nearest is kept, and exact keys settle it in the end.
"""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nearworth._compile import compiled
from nearworth._typing import FloatMatrix, FloatVector, IntVector
from nearworth.neighbors.base import Keys
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.neighbors.products import RoughBatch, panel_rows, panel_size
from nearworth.neighbors.search import MISSING, Answer, TrueDistances

PRODUCT_POINTS = 2048  # below, exact keys of all pairs are as fast as a product and its doubts
BLOCK, BLOCK_PAIRS = 64, 2**21
PANELS_KEPT = 3  # room for candidates beyond k
STRETCH = 128
PROMISE = 0.375  # of the reach: an error of a half would be too much


class NearestKeys:
    """The k smallest rank keys of any metric."""

    def __init__(self, keys: Keys, n_train: int) -> None:
        self._keys, self._n_train = keys, n_train
        fits = keys.has_products and n_train >= PRODUCT_POINTS
        self._rough = keys.products(narrow=True) if fits else None

    def ranked(self, queries: Any, k: int) -> Answer:
        """Indices and keys of the k nearest, equal keys by index; -1 and infinity beyond the last training point.

        `queries` are as the keys take them: rows of numbers, sparse or dense.
        """
        indices = np.full((queries.shape[0], k), MISSING, dtype=np.intp)
        keys = np.full(indices.shape, np.inf)
        block = BLOCK if self._rough is not None else max(1, min(BLOCK, BLOCK_PAIRS // self._n_train))
        for start in range(0, queries.shape[0], block):
            answers = self._answers(queries[start : start + block], min(k, self._n_train))
            for q, (near, exact) in enumerate(answers, start=start):
                indices[q, : len(near)], keys[q, : len(near)] = near, exact
        return indices, keys

    def _answers(self, queries: Any, k: int) -> Iterator[tuple[IntVector, FloatVector]]:
        if self._rough is None:
            yield from (_smallest(keys, np.arange(len(keys)), k) for keys in self._keys(queries))
            return
        queries = np.ascontiguousarray(queries, dtype=np.float64)
        batch = self._rough(queries, narrow=self._rough.can_be_narrow)
        candidates = _Candidates(batch, k)
        for q in range(len(queries)):
            exact = candidates.settle(q)
            yield self._all_of(queries[q : q + 1], k) if exact is None else _smallest(*exact, k)

    def _all_of(self, query: FloatMatrix, k: int) -> tuple[IntVector, FloatVector]:
        keys = self._keys(query)[0]
        return _smallest(keys, np.arange(len(keys)), k)


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


class _Candidates:
    """Who may be among the k nearest by rough keys, for a batch of queries."""

    def __init__(self, batch: RoughBatch, k: int) -> None:
        n_queries, self._step = batch.n_queries, panel_rows(batch.width)
        self._k, self._batch = k, batch
        self._reach = np.maximum(batch.reach, batch.far_reach)
        self._limits = np.where(batch.ordinary, np.inf, -np.inf)
        self._lost = ~batch.ordinary
        self._keys = np.empty((n_queries, k + PANELS_KEPT * self._step))
        self._rows = np.empty(self._keys.shape, dtype=np.int32)
        self._counts = np.zeros(n_queries, dtype=np.int64)
        for start, panel in batch.panels(np.empty(panel_size(n_queries, batch.width))):
            _gather(
                panel,
                batch.norms[start : start + self._step],
                start,
                self._limits,
                self._keys,
                self._rows,
                self._counts,
            )
            for q in np.flatnonzero(self._counts > self._keys.shape[1] - self._step).tolist():
                self._thin_out(q)

    def settle(self, q: int) -> tuple[FloatVector, IntVector] | None:
        """Exact keys and rows of the candidates; None if rough keys are of no use for this query."""
        self._thin_out(q)
        if self._lost[q]:
            return None
        batch, count = self._batch, self._counts[q]
        rows = self._rows[q, :count]
        exact = batch.judges[q](rows)
        if batch.watched and (np.abs(self._keys[q, :count] - batch.low[q] - exact) > PROMISE * self._reach[q]).any():
            return None
        return exact, rows.astype(np.intp)

    def _thin_out(self, q: int) -> None:
        """Keep those that are not surely farther than k others; give up if these are too many (twins, for example)."""
        count = self._counts[q]
        if count <= self._k:
            return
        keys, rows = self._keys[q, :count], self._rows[q, :count]
        self._limits[q] = np.partition(keys, self._k - 1)[self._k - 1] + self._reach[q]
        near = np.flatnonzero(keys <= self._limits[q])
        self._keys[q, : len(near)], self._rows[q, : len(near)] = keys[near], rows[near]
        self._counts[q] = len(near)
        if len(near) > self._keys.shape[1] - self._step:
            self._lost[q], self._limits[q], self._counts[q] = True, -np.inf, 0


def _smallest(keys: FloatVector, rows: IntVector, k: int) -> tuple[IntVector, FloatVector]:
    """The rows of the k smallest keys, smaller rows first among equals, and their keys, in order."""
    limit = np.partition(keys, k - 1)[k - 1]
    below, equal = np.flatnonzero(keys < limit), np.flatnonzero(keys == limit)
    equal = equal[np.argsort(rows[equal], kind="stable")]
    chosen = np.concatenate([below, equal[: k - len(below)]])
    chosen = chosen[np.lexsort((rows[chosen], keys[chosen]))]
    return rows[chosen], keys[chosen]


@compiled
def _gather(panel, norms, start, limits, keys, rows, counts):
    """Append the points of a panel whose keys are within the limit of their query.

    Nearly all are not, so stretches are counted first, which compilers turn into a few wide instructions.
    """
    size = panel.shape[1]
    for q in range(panel.shape[0]):
        limit, count = limits[q], counts[q]
        for first in range(0, size, STRETCH):
            products, added = panel[q, first : first + STRETCH], norms[first : first + STRETCH]
            if _any_within(products, added, limit):
                for i in range(products.shape[0]):
                    key = np.float64(products[i]) + added[i]
                    if key <= limit:
                        keys[q, count] = key
                        rows[q, count] = start + first + i
                        count += 1
        counts[q] = count


@compiled
def _any_within(products, norms, limit):
    hits = 0
    for i in range(products.shape[0]):
        hits += np.float64(products[i]) + norms[i] <= limit
    return hits > 0
