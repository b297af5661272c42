"""How much of the truth a searcher finds, and what that says about questions nobody checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector
from nearworth.neighbors.exact import ExactSearch
from nearworth.neighbors.search import Answer, Searcher, TrueDistances, check_answer, drop_self


def recall(found: IntMatrix, exact: IntMatrix) -> float:
    """Share of the exact neighbours that were found, by index; places without a neighbour (-1) do not count."""
    hits = sum(len(np.intersect1d(f, e[e >= 0])) for f, e in zip(found, exact, strict=True))
    wanted = int(np.count_nonzero(exact >= 0))
    return hits / wanted if wanted else 1.0


def recall_by_distance(found: FloatMatrix, exact: FloatMatrix) -> FloatVector:
    """Share found for each query, by true distances: a point as near as the farthest wanted is as good as it."""
    wanted = np.isfinite(exact).sum(axis=1)
    farthest = np.where(np.isfinite(exact), exact, -np.inf).max(axis=1, initial=-np.inf)
    hits = (found <= farthest[:, None]).sum(axis=1)
    return np.asarray(np.minimum(hits, wanted) / np.maximum(wanted, 1) + (wanted == 0))


def upper_limit(misses: int, n: int, confidence: float = 0.99) -> float:
    """Largest share of misses that agrees with so many among n drawn at random (Clopper and Pearson, one-sided).

    With this confidence the true share is not larger. The limit also holds for draws without replacement.
    """
    from scipy.stats import beta

    if not 0 <= misses <= n:
        raise ValueError(f"misses must be from 0 to n={n}; got {misses}.")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be between 0 and 1; got {confidence!r}.")
    return 1.0 if misses == n else float(beta.ppf(confidence, misses + 1, n - misses))


@dataclass(frozen=True)
class Sample:
    """Questions with their true answers: indices and squared distances, (S, k)."""

    truth: TrueDistances
    queries: FloatMatrix
    indices: IntMatrix
    keys: FloatMatrix
    rows: IntVector | None  # the training points that ask and are left out, if they are the queries

    @classmethod
    def of_queries(cls, X: npt.NDArray[Any], queries: npt.NDArray[Any], k: int) -> Self:
        """Questions from outside."""
        rows = np.ascontiguousarray(queries, dtype=np.float64)
        return cls(TrueDistances(X), rows, *ExactSearch().fit(X).ranked(rows, k), None)

    @classmethod
    def of_training(cls, X: npt.NDArray[Any], k: int, size: int, rng: np.random.Generator) -> Self:
        """Training points drawn at random, each asking for the nearest of the others."""
        rows = np.sort(rng.choice(len(X), min(size, len(X)), replace=False)).astype(np.intp)
        queries = np.ascontiguousarray(X[rows], dtype=np.float64)
        indices, keys = drop_self(*ExactSearch().fit(X).ranked(queries, k + 1), rows)
        return cls(TrueDistances(X), queries, indices, keys, rows)

    @property
    def k(self) -> int:
        """How many neighbours each question asks for."""
        return int(self.indices.shape[1])

    @property
    def distances(self) -> FloatMatrix:
        """True distances, (S, k)."""
        return self.truth.unsquared(self.queries, self.keys)

    def ask(self, searcher: Searcher) -> Answer:
        """What a fitted searcher answers, checked and in true order, with squared distances."""
        k, n_train = self.k + (self.rows is not None), len(self.truth.points)
        found, _ = check_answer(
            *searcher.search(self.queries, k), n_train, k, n_queries=len(self.queries), searcher=searcher
        )
        ranked = self.truth.order(self.queries, found)
        return ranked if self.rows is None else drop_self(*ranked, self.rows)

    def recall_of(self, searcher: Searcher) -> FloatVector:
        """Share of the true neighbours that a fitted searcher finds, for each question."""
        return recall_by_distance(self.ask(searcher)[1], self.keys)
