"""Votes: what the labels of others say about each row, in both directions.

The value of row i under label c is the sum over validation points t of worth(rank of i for t) [label of t is c], plus
terms in which its own label has no part. That sum is the reverse vote of label c: those who have i as a neighbour, each
with the weight that the Shapley value gives to the rank of i. The forward vote asks the neighbours of i with the same
weights. A row has no vote about itself in either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector

SMOOTHING = 1.0  # votes added to every row, shared out as the classes are; K nearest neighbours together have one


@dataclass(frozen=True)
class Neighbours:
    """Some queries, the nearest training points of each (-1 where there are fewer), their keys and weights."""

    points: npt.NDArray[np.int32]
    keys: FloatMatrix
    weights: FloatMatrix

    @classmethod
    def of(cls, points: npt.NDArray[np.int32], keys: FloatMatrix, n_neighbors: int) -> Neighbours:
        """With the weights of their ranks."""
        return cls(points, keys, rank_weights(keys, n_neighbors) * (points >= 0))

    def levelled(self) -> Neighbours:
        """The same with equal weights, as many votes in all: those far away count, and chance matters less."""
        there = self.points >= 0
        weight = self.weights.sum() / max(1, int(there.sum()))
        return Neighbours(self.points, self.keys, weight * there)

    def heads(self, queries: IntVector, codes: IntVector, n_classes: int, size: int) -> IntMatrix:
        """How many of the `size` nearest of some queries have each label."""
        points = self.points[queries, :size]
        cells = np.arange(len(points))[:, None] * n_classes + codes[points]
        return _count(cells, (points >= 0).astype(np.float64), len(points), n_classes).astype(np.intp)

    def forward(self, codes: IntVector, n_classes: int) -> FloatMatrix:
        """Votes that each query gets from its neighbours (queries x classes)."""
        queries = np.arange(len(self.points))[:, None]
        return _count(queries * n_classes + codes[self.points], self.weights, len(self.points), n_classes)

    def reverse(self, query_codes: IntVector, n_train: int, n_classes: int) -> FloatMatrix:
        """Votes that each training point gets from those who have it as a neighbour (training points x classes).

        Queries with code -1, a label that no class has, vote for nobody.
        """
        heard = self.weights * (query_codes >= 0)[:, None]
        cells = np.maximum(self.points, 0).astype(np.int64) * n_classes + np.maximum(query_codes, 0)[:, None]
        return _count(cells, heard, n_train, n_classes)


def rank_weights(keys: FloatMatrix, n_neighbors: int) -> FloatMatrix:
    """1 / max(K, rank) for lists in order of their keys; equal keys share the mean of their ranks' weights."""
    plain = 1.0 / np.maximum(n_neighbors, np.arange(1, keys.shape[1] + 1))
    first = np.ones(keys.shape, dtype=bool)
    np.not_equal(keys[:, 1:], keys[:, :-1], out=first[:, 1:])
    weights = np.broadcast_to(plain, keys.shape)
    if first.all():
        return np.array(weights)
    blocks = np.cumsum(first.ravel()) - 1
    means = np.bincount(blocks, weights=weights.ravel()) / np.bincount(blocks)
    return np.asarray(means[blocks].reshape(keys.shape))


def vote_shares(votes: FloatMatrix, priors: FloatVector) -> FloatMatrix:
    """Shares of the classes in each row's votes, smoothed towards the shares of the classes among all rows."""
    total = votes.sum(axis=1, keepdims=True) + SMOOTHING
    return np.asarray((votes + SMOOTHING * priors) / total)


def _count(cells: npt.NDArray[Any], weights: FloatMatrix, n_rows: int, n_classes: int) -> FloatMatrix:
    counted = np.bincount(cells.ravel(), weights=weights.ravel(), minlength=n_rows * n_classes)
    return counted.reshape(n_rows, n_classes).astype(np.float64)
