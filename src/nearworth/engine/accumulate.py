"""Sums over validation points that come out bit for bit the same however the work was cut up.

Validation points are numbered; every CHUNK consecutive ones form a leaf, summed in their order. Leaves are
added pairwise along a fixed binary tree: node (level, i) holds leaves i 2^level to (i+1) 2^level - 1 and is
always left child plus right child. A `Partial` keeps the largest complete nodes it has, so the work done in
order needs memory for log2(leaves) nodes, and partials may be merged in any order and grouping.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from nearworth._typing import FloatMatrix, FloatVector, IntVector

CHUNK = 64


@dataclass(frozen=True)
class Moments:
    """What a set of validation points contributes: counts, weights, sum of w phi and the spread of phi.

    `centre` is the mean of phi under the weights w^2, `spread` the sum of w^2 (phi - centre)^2; both None
    when no standard errors are wanted. Centred sums cannot cancel.
    """

    count: int
    weight: float
    weight_squares: float
    total: FloatVector
    centre: FloatVector | None = None
    spread: FloatVector | None = None

    @classmethod
    def of(cls, values: FloatMatrix, weights: FloatVector, *, spread: bool) -> Moments:
        """Moments of one batch, point after point."""
        moments = cls._nothing(values.shape[1], spread)
        return moments.followed_by(values, weights)

    @classmethod
    def _nothing(cls, n_train: int, spread: bool) -> Moments:
        zeros = np.zeros(n_train)
        return cls(0, 0.0, 0.0, zeros, zeros if spread else None, zeros if spread else None)

    def followed_by(self, values: FloatMatrix, weights: FloatVector) -> Moments:
        """These moments after further validation points, added one by one in their order."""
        weight, squares, total = self.weight, self.weight_squares, self.total.copy()
        centre = None if self.centre is None else self.centre.copy()
        spread = None if self.spread is None else self.spread.copy()
        for phi, w in zip(values, weights.tolist(), strict=True):
            total += w * phi
            weight += w
            squares += w * w
            if centre is not None and spread is not None and w > 0:
                away = phi - centre
                centre += away * (w * w / squares)
                spread += w * w * away * (phi - centre)
        return Moments(self.count + len(values), weight, squares, total, centre, spread)

    def __add__(self, other: Moments) -> Moments:
        squares = self.weight_squares + other.weight_squares
        centre = spread = None
        if (
            self.centre is not None
            and other.centre is not None
            and self.spread is not None
            and other.spread is not None
        ):
            share = other.weight_squares / squares if squares > 0 else 0.0
            away = other.centre - self.centre
            centre = self.centre + share * away
            spread = self.spread + other.spread + (share * self.weight_squares) * away**2
        return Moments(
            self.count + other.count, self.weight + other.weight, squares, self.total + other.total, centre, spread
        )

    def take(self, rows: IntVector) -> Moments:
        """The moments of other training points, one for each row named."""
        centre = None if self.centre is None else self.centre[rows]
        spread = None if self.spread is None else self.spread[rows]
        return replace(self, total=self.total[rows], centre=centre, spread=spread)

    def standard_errors(self) -> FloatVector | None:
        """Standard error of the weighted mean of phi over the validation points; NaN for a single one."""
        if self.centre is None or self.spread is None:
            return None
        if self.count < 2:
            return np.full(self.total.shape, np.nan)
        squares = np.maximum(self.spread, 0.0) + self.weight_squares * (self.centre - self.total / self.weight) ** 2
        return np.asarray(np.sqrt(self.count / (self.count - 1) * squares) / self.weight)


class Partial:
    """A part of the sum: complete nodes of the tree, by (level, index)."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, int], Moments] = {}

    def add(self, leaf: int, moments: Moments) -> None:
        """Add one finished leaf."""
        self._insert((0, leaf), moments)

    def merge(self, others: Iterable[Partial]) -> Partial:
        """The part made of this one and others; no leaf may be in two of them."""
        merged = Partial()
        for part in (self, *others):
            for node, moments in part._nodes.items():
                merged._insert(node, moments)
        return merged

    def finish(self) -> Moments:
        """The sum over everything added, left to right."""
        ordered = sorted(self._nodes.items(), key=lambda item: item[0][1] << item[0][0])
        total = ordered[0][1]
        for _, moments in ordered[1:]:
            total = total + moments
        return total

    def _insert(self, node: tuple[int, int], moments: Moments) -> None:
        if node in self._nodes:
            raise ValueError(f"Validation points of leaf {node[1] << node[0]} were already added.")
        level, index = node
        sibling = self._nodes.pop((level, index ^ 1), None)
        if sibling is None:
            self._nodes[node] = moments
        else:
            self._insert((level + 1, index // 2), sibling + moments if index & 1 else moments + sibling)
