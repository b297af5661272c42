"""The nearest points, all of them and in true order: what other searchers are measured against."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nearworth._typing import FloatMatrix, FloatVector, IntVector
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.neighbors.products import Products, RoughRow
from nearworth.neighbors.search import MISSING, Answer, TrueDistances

PRODUCT_POINTS = 2048  # below, differences of all pairs are as fast as a product and its doubts
BLOCK, BLOCK_PAIRS = 64, 2**24


class ExactSearch:
    """Exact neighbours by Euclidean distance; equal distances by index."""

    def fit(self, X: npt.NDArray[Any]) -> Self:
        """Take the training points."""
        self._keys, self._truth = EuclideanKeys(X), TrueDistances(X)
        wanted = len(X) >= PRODUCT_POINTS and self._keys.has_products
        self._products = self._keys.products() if wanted else None
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
        block = max(1, min(BLOCK, BLOCK_PAIRS // n_train))
        for start in range(0, len(rows), block):
            for q, near in enumerate(self._near(rows[start : start + block], min(k, n_train)), start=start):
                indices[q, : len(near)] = near
        return self._truth.order(rows, indices)

    def _near(self, queries: FloatMatrix, k: int) -> list[IntVector]:
        """The k nearest of each query, in any order."""
        if self._products is None:
            return [_nearest(keys, np.arange(len(keys)), k) for keys in self._keys(queries)]
        rough = self._products(queries, narrow=self._products.can_be_narrow)
        return [
            self._settle(self._products, query, row, k) if row.kept else self._near_one(query, k)
            for query, row in zip(queries, rough, strict=True)
        ]

    def _near_one(self, query: FloatVector, k: int) -> IntVector:
        keys = self._keys(query[None])[0]
        return _nearest(keys, np.arange(len(keys)), k)

    def _settle(self, products: Products, query: FloatVector, row: RoughRow, k: int) -> IntVector:
        """Nearest by rough keys, the doubtful ones by exact distances."""
        keys = row.products + row.norms
        reach = np.partition(keys, k - 1)[k - 1] + max(row.reach, row.far_reach)
        doubtful = np.flatnonzero(keys <= reach)
        return _nearest(products.distances(query, doubtful), doubtful, k)


def _nearest(keys: FloatVector, rows: IntVector, k: int) -> IntVector:
    """The rows of the k smallest keys, smaller rows first among equals, in any order."""
    limit = np.partition(keys, k - 1)[k - 1]
    below, equal = rows[keys < limit], rows[keys == limit]
    return np.concatenate([below, np.sort(equal)[: k - len(below)]])
