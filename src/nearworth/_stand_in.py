"""A plain audit until `audit_labels` is there: the sum of two z-scores, value and agreement of neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from nearworth._typing import FloatMatrix, FloatVector, IntVector
from nearworth.detection import detect
from nearworth.estimators import KNNShapley


def audit_labels(
    X: Any,
    y: Any,
    n_neighbors: int = 10,
    X_val: Any = None,
    y_val: Any = None,
    task: str = "classification",
    metric: str = "euclidean",
    max_memory: Any = None,
    n_jobs: int | None = None,
) -> StandIn:
    """Value, neighbours and votes of every row."""
    from sklearn.neighbors import NearestNeighbors

    assert task == "classification"

    est = KNNShapley(n_neighbors, metric=metric, max_memory=max_memory, n_jobs=n_jobs).fit(X, y)
    value = est.value(X_val, y_val).values
    search = NearestNeighbors(n_neighbors=min(n_neighbors, max(len(X) - 1, 1)), metric=metric).fit(X)
    distances, points = search.kneighbors()
    classes, codes = np.unique(y, return_inverse=True)
    votes = np.zeros((len(X), len(classes)))
    for near in points.T:
        votes[np.arange(len(X)), codes[near]] += 1 / points.shape[1]
    return StandIn(np.asarray(y), classes, codes, value, votes, points, distances)


@dataclass(frozen=True, eq=False)
class StandIn:
    """What the real audit offers, as far as commands and report use it."""

    given: Any
    classes: Any
    codes: IntVector
    value: FloatVector
    votes: FloatMatrix
    points: Any
    distances: Any
    suggested_range: Any = None

    @property
    def n_errors(self) -> Any:
        """Rows that disagree with most neighbours."""
        count = float((self.quality < 0.5).sum())
        return SimpleNamespace(estimate=count, lower=count / 2, upper=count * 2)

    @cached_property
    def agreement(self) -> FloatVector:
        """Share of neighbours with the same label."""
        return np.asarray(self.votes[np.arange(len(self.given)), self.codes])

    @cached_property
    def quality(self) -> FloatVector:
        """The two z-scores, squeezed between 0 and 1."""
        return 1 / (1 + np.exp(-_z(self.value) - _z(self.agreement) - 2))

    @property
    def suggested(self) -> Any:
        """The label most neighbours have."""
        return self.classes[self.votes.argmax(axis=1)]

    @property
    def confidence(self) -> FloatVector:
        """The share of neighbours that have it."""
        return np.asarray(self.votes.max(axis=1))

    def suspects(self, fraction: Any = None, rule: Any = None, max_fdr: Any = None) -> IntVector:
        """Rows, worst first."""
        if max_fdr is not None:
            wrong = np.flatnonzero(self.agreement <= max_fdr)
            return np.asarray(wrong[np.argsort(self.quality[wrong], kind="stable")])
        found = detect(self.quality, rule or ("ranking" if fraction is not None else "cluster"), fraction=fraction)
        return np.asarray(np.argsort(self.quality, kind="stable")[: len(found)])

    def _nearest(self, row: int) -> list[Any]:
        pairs = zip(self.points[row], self.distances[row], strict=True)
        return [(int(p), self.given[p], float(d)) for p, d in pairs]


def _z(values: FloatVector) -> FloatVector:
    spread = values.std()
    return np.asarray((values - values.mean()) / (spread if spread > 0 else 1.0))
