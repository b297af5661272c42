"""Neighbours that were found before: a k-nearest-neighbour graph."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from nearworth._common.types import IntVector
from nearworth._common.warnings import warn_user
from nearworth.inputs.features import fingerprint, is_sparse
from nearworth.neighbors.searchers import MISSING, Neighbours, Searcher, check_answer


class GraphSearch(Searcher):
    """A precomputed graph: row q holds the neighbours of validation point q, or of training point q.

    The graph cannot answer about points it has not seen, so it is asked by number: `search_rows(start, stop, k)`.
    `search(Q, k)` answers too, if Q is all the points of the graph, in its order. The distances of the graph decide the
    order, equal ones by index.

    Parameters
    ----------
    indices, distances
        Arrays (points, neighbours) in any order, -1 where there are fewer neighbours.
    n_train
        Number of training points, if it is known before `fit`.

    Examples
    --------
    >>> graph = GraphSearch([[2, 0], [1, -1]], [[0.5, 0.1], [0.2, np.inf]])
    >>> graph.search_rows(0, 2, 1)[0].tolist()
    [[0], [1]]
    """

    def __init__(self, indices: Any, distances: Any, n_train: int | None = None) -> None:
        found, far = np.asarray(indices), np.asarray(distances)
        if found.ndim != 2 or found.shape != far.shape:
            raise ValueError(f"indices and distances must be matrices of one shape; got {found.shape} and {far.shape}.")
        if found.dtype.kind not in "iu" or far.dtype.kind not in "iuf":
            raise TypeError(f"indices must be whole numbers and distances real; got {found.dtype} and {far.dtype}.")
        missing = found == MISSING
        wrong = far[~missing & ~(np.isfinite(far) & (far >= 0))]
        if len(wrong):
            raise ValueError(f"distances must be finite and not negative; got {wrong[0]}.")
        far = np.where(missing, np.inf, far.astype(np.float64))
        order = np.lexsort((found, far), axis=1)
        found, far = np.take_along_axis(found, order, axis=1), np.take_along_axis(far, order, axis=1)
        limit, (n_queries, k) = int(found.max(initial=0)) + 1 if n_train is None else n_train, found.shape
        self.indices, self.distances = check_answer(found, far, limit, k, n_queries=n_queries, searcher=self)
        self.n_train = n_train

    @classmethod
    def from_csr(cls, graph: Any) -> Self:
        """From a sparse matrix of distances, (points, training points), as scikit-learn and cleanlab make them.

        What is stored counts, zeros included: a stored zero is a duplicate, an absent entry no neighbour.
        """
        if not is_sparse(graph):
            raise TypeError(f"graph must be a scipy sparse matrix of distances; got {type(graph).__name__}.")
        csr = graph.tocsr()
        counts = np.diff(csr.indptr)
        if csr.nnz and counts.max() > 1 and (csr.data == 1).all():
            warn_user(
                "every distance in the graph is 1, as in a graph of connections, so all neighbours are tied. "
                "scikit-learn makes distances with mode='distance'."
            )
        there = np.arange(counts.max(initial=0)) < counts[:, None]
        indices, distances = Neighbours.empty(*there.shape)
        indices[there], distances[there] = csr.indices, csr.data
        return cls(indices, distances, n_train=csr.shape[1])

    def __repr__(self) -> str:
        return f"GraphSearch({len(self.indices)} points, up to {self.indices.shape[1]} neighbours)"

    def fit(self, X: Any) -> Self:
        """Check that the graph speaks of these training points."""
        n_train, largest = len(X), int(self.indices.max(initial=MISSING))
        if self.n_train not in (None, n_train) or largest >= n_train:
            known = f"{self.n_train} training points" if self.n_train is not None else f"training point {largest}"
            raise ValueError(f"the graph speaks of {known}, but X has {n_train} rows. Make it with these rows.")
        return self

    def fingerprint(self) -> str:
        """A hash of the graph."""
        return fingerprint(self.indices, self.distances)

    def search(self, Q: Any, k: int) -> Neighbours:
        """The answers to all points of the graph, which Q must be."""
        if len(Q) != len(self.indices):
            raise ValueError(
                f"the graph has {len(self.indices)} rows and Q has {len(Q)}. Give all its points, or use search_rows."
            )
        return self.search_rows(0, len(self.indices), k)

    def search_rows(self, start: int, stop: int, k: int) -> Neighbours:
        """The k nearest of the points from start to stop; -1 where the graph has fewer."""
        return self.search_numbered(np.arange(start, stop), None, k)

    def search_numbered(self, numbers: IntVector, Q: Any, k: int) -> Neighbours:  # noqa: ARG002 - it knows no points
        absent = numbers[(numbers < 0) | (numbers >= len(self.indices))]
        if len(absent):
            raise ValueError(f"point {absent[0]} is not in a graph of {len(self.indices)} rows.")
        return Neighbours(self.indices[numbers], self.distances[numbers]).resized(k)
