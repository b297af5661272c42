"""How many of the nearest points a searcher finds, and what a sample says about all other queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector
from nearworth.neighbors.exact import ExactSearch, TrueDistances, ask


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
        """Neighbours of each query."""
        return int(self.indices.shape[1])

    @property
    def distances(self) -> FloatMatrix:
        """Exact distances, (S, k)."""
        return self.truth.unsquared(self.queries, self.keys)

    def recall_of(self, searcher: Any) -> FloatVector:
        """Share of the exact neighbours that a fitted searcher finds, for each query."""
        return recall_by_distance(ask(searcher, self.truth, self.queries, self.k, excluded=self.rows).keys, self.keys)


def _exact(truth: TrueDistances) -> ExactSearch:
    """Without a copy in single precision, which would not pay for a few queries."""
    return ExactSearch(single=False).fit_keys(truth, len(truth.points))
