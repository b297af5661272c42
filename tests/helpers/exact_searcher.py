"""Exact search with the manners of a searcher, for tests of searchers."""

from __future__ import annotations

from typing import Any, Self

from nearworth.neighbors.exact import ExactSearch
from nearworth.neighbors.keys import EuclideanKeys
from nearworth.neighbors.searchers import Neighbours, Searcher, as_points


class ExactSearcher(Searcher):
    """The nearest by Euclidean distance."""

    def fit(self, X: Any) -> Self:
        self.distances = EuclideanKeys(as_points(X))
        self._search = ExactSearch(self.distances, len(X))
        return self

    def search(self, Q: Any, k: int) -> Neighbours:
        found = self._search.nearest(Q, k)
        return Neighbours(found.rows, self.distances.as_distances(found.keys, Q))
