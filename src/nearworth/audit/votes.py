"""Votes: what the labels of other rows say about each row, in both directions.

The value of row i under label c is the sum over validation points t of worth(rank of i for t) [label of t is c], plus
terms that do not depend on its own label. That sum is the reverse vote for label c: the votes of all points that have i
as a neighbour, each with the weight that the Shapley value gives to the rank of i. The forward vote is that of the
neighbours of i, with the same weights. A row never votes about itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix, IntVector

SMOOTHING = 1.0  # votes added to every row, shared out as the classes are; K nearest neighbours together have one


@dataclass(frozen=True)
class Voters:
    """The nearest training rows of each query (-1 where there are fewer), their keys, and the weights of their votes.

    The weight of a rank is 1 / max(K, rank); rows at equal distance share the mean of their weights.
    """

    rows: npt.NDArray[np.int32]
    keys: FloatMatrix
    weights: FloatMatrix

    @classmethod
    def of(cls, rows: npt.NDArray[np.int32], keys: FloatMatrix, n_neighbors: int) -> Voters:
        return cls(rows, keys, rank_weights(keys, n_neighbors) * (rows >= 0))

    def with_equal_weights(self) -> Voters:
        """The same total weight, shared equally: far neighbours count as near ones, and chance matters less."""
        present = self.rows >= 0
        return replace(self, weights=self.weights.sum() / max(1, int(present.sum())) * present)

    def label_counts(self, queries: IntVector, codes: IntVector, n_classes: int, size: int) -> IntMatrix:
        """How many of the `size` nearest rows of some queries have each label."""
        rows = self.rows[queries, :size]
        one_each = replace(self, rows=rows, weights=(rows >= 0).astype(np.float64))
        return one_each.forward(codes, n_classes).astype(np.intp)

    def forward(self, codes: IntVector, n_classes: int) -> FloatMatrix:
        """Votes of its neighbours about each query (queries x classes)."""
        queries = np.arange(len(self.rows))[:, None]
        return _sum_by_cell(queries * n_classes + codes[self.rows], self.weights, len(self.rows), n_classes)

    def reverse(self, query_codes: IntVector, n_train: int, n_classes: int) -> FloatMatrix:
        """Votes about each training row of the queries that have it as a neighbour (training rows x classes).

        Queries with code -1, a label that no class has, do not vote.
        """
        weights = self.weights * (query_codes >= 0)[:, None]
        cells = np.maximum(self.rows, 0).astype(np.int64) * n_classes + np.maximum(query_codes, 0)[:, None]
        return _sum_by_cell(cells, weights, n_train, n_classes)


def rank_weights(keys: FloatMatrix, n_neighbors: int) -> FloatMatrix:
    """1 / max(K, rank) for lists in order of their keys; equal keys share the mean of their ranks' weights."""
    by_rank = 1.0 / np.maximum(n_neighbors, np.arange(1, keys.shape[1] + 1))
    first = np.ones(keys.shape, dtype=bool)
    np.not_equal(keys[:, 1:], keys[:, :-1], out=first[:, 1:])
    weights = np.broadcast_to(by_rank, keys.shape)
    if first.all():
        return np.array(weights)
    blocks = np.cumsum(first.ravel()) - 1
    means = np.bincount(blocks, weights=weights.ravel()) / np.bincount(blocks)
    return np.asarray(means[blocks].reshape(keys.shape))


def vote_shares(votes: FloatMatrix, priors: FloatVector) -> FloatMatrix:
    """Shares of the classes in each row's votes, smoothed towards the shares of the classes among all rows."""
    total = votes.sum(axis=1, keepdims=True) + SMOOTHING
    return np.asarray((votes + SMOOTHING * priors) / total)


def _sum_by_cell(cells: npt.NDArray[Any], weights: FloatMatrix, n_rows: int, n_classes: int) -> FloatMatrix:
    sums = np.bincount(cells.ravel(), weights=weights.ravel(), minlength=n_rows * n_classes)
    return sums.reshape(n_rows, n_classes).astype(np.float64)
