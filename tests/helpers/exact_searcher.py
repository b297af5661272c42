"""Exact search with the interface of a searcher, for tests of searchers."""

from __future__ import annotations

from typing import Any, Self

from nearworth.neighbors.exact import ExactSearch
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.neighbors.searchers import Neighbours, Searcher, as_points


class ExactSearcher(Searcher):
    """Finds the nearest rows by Euclidean distance."""

    def fit(self, X: Any) -> Self:
        self.distances = EuclideanKeys(as_points(X))
        self._search = ExactSearch(self.distances, len(X))
        return self

    def search(self, Q: Any, k: int) -> Neighbours:
        nearest = self._search.nearest(Q, k)
        distances = self.distances.as_distances(nearest.keys, Q)
        return Neighbours(nearest.rows, distances)
