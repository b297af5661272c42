"""The nearest points, all of them and in true order: what other searchers are measured against."""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nearworth._compile import compiled
from nearworth._typing import FloatMatrix, FloatVector, IntVector
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.neighbors.products import RoughBatch, panel_size
from nearworth.neighbors.search import MISSING, Answer, TrueDistances

PRODUCT_POINTS = 2048  # below, differences of all pairs are as fast as a product and its doubts
BATCH, BLOCK_PAIRS = 64, 2**22
ROOM = 256  # candidates beyond twice k that are kept before the list is cut


class ExactSearch:
    """Exact neighbours by Euclidean distance; equal distances by index."""

    def fit(self, X: npt.NDArray[Any]) -> Self:
        """Take the training points."""
        self._keys, self._truth = EuclideanKeys(X), TrueDistances(X)
        wanted = len(X) >= PRODUCT_POINTS and self._keys.has_products
        self._products = self._keys.products(narrow=True) if wanted else None
        return self

    def search(self, Q: npt.NDArray[Any], k: int) -> Answer:
        """Indices and distances of the k nearest; -1 and infinity beyond the last training point."""
        indices, keys = self.ranked(Q, k)
        return indices, self._truth.unsquared(Q, keys)

    def ranked(self, Q: npt.NDArray[Any], k: int) -> Answer:
        """The same with the squared distances of `TrueDistances` instead."""
        rows = np.ascontiguousarray(Q, dtype=np.float64)
        n_train = len(self._truth.points)
        indices = np.full((len(rows), k), MISSING, dtype=np.intp)
        batch = BATCH if self._products is not None else max(1, min(BATCH, BLOCK_PAIRS // n_train))
        for start in range(0, len(rows), batch):
            for q, near in enumerate(self._near(rows[start : start + batch], min(k, n_train)), start=start):
                indices[q, : len(near)] = near
        return self._truth.order(rows, indices)

    def _near(self, queries: FloatMatrix, k: int) -> list[IntVector]:
        """The k nearest of each query, in any order."""
        if self._products is None:
            return [_nearest(keys, np.arange(len(keys)), k) for keys in self._keys(queries)]
        rough = self._products(queries, narrow=self._products.can_be_narrow)
        near = []
        for q, found in enumerate(candidates(rough, k)):
            distances = None if found is None else rough.settle(q, *found)
            if found is None or distances is None:
                near.append(self._near_one(queries[q], k))
            else:
                near.append(_nearest(distances, found[0], k))
        return near

    def _near_one(self, query: FloatVector, k: int) -> IntVector:
        keys = self._keys(query[None])[0]
        return _nearest(keys, np.arange(len(keys)), k)


def candidates(rough: RoughBatch, k: int) -> list[tuple[npt.NDArray[np.int32], FloatVector] | None]:
    """For each query all points that may be among its k nearest, with their keys; None where they are too many.

    One pass over the panels of the product: whoever is beyond the k-th nearest so far, by more than keys can be off,
    is out.
    """
    room = 2 * k + ROOM
    keys, points = np.empty((rough.n_queries, room)), np.empty((rough.n_queries, room), dtype=np.int32)
    counts, limits = np.zeros(rough.n_queries, dtype=np.int64), np.full(rough.n_queries, np.inf)
    counts[~rough.ordinary] = -1
    slack = np.maximum(rough.reach, rough.far_reach)
    for start, panel in rough.panels(np.empty(panel_size(rough.n_queries, rough.width))):
        _sift(panel, rough.norms, start, k, slack, limits, keys, points, counts)
    return [None if count < 0 else (points[q, :count], keys[q, :count]) for q, count in enumerate(counts.tolist())]


def _nearest(keys: FloatVector, rows: npt.NDArray[Any], k: int) -> IntVector:
    """The rows of the k smallest keys, smaller rows first among equals, in any order."""
    limit = np.partition(keys, k - 1)[k - 1]
    below, equal = rows[keys < limit], rows[keys == limit]
    return np.concatenate([below, np.sort(equal)[: k - len(below)]]).astype(np.intp)


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
    for i in range(products.shape[0]):
        key = products[i] + norms[i]
        if key <= limit:
            if count == keys.shape[0]:
                limit, count = _cut(k, slack, keys, points)
                if 4 * count > 3 * keys.shape[0]:
                    return limit, -1
            keys[count], points[count] = key, start + i
            count += 1
    return limit, count


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
