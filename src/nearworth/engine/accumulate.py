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
import numpy.typing as npt

from nearworth._typing import FloatMatrix, FloatVector, IntVector
from nearworth.engine.tables import fold, fold_with_spread

CHUNK = 64


@dataclass(frozen=True)
class Moments:
    """What a set of validation points contributes: counts, weights, sum of w phi and the spread of phi.

    `centre` is the mean of phi under the weights w^2, `spread` the sum of w^2 (phi - centre)^2; both None
    when no standard errors are wanted. Centred sums cannot cancel. `ends` (2, N) are sums of w times the lower and
    upper end of phi, None where phi is exact.
    """

    count: int
    weight: float
    weight_squares: float
    total: FloatVector
    centre: FloatVector | None = None
    spread: FloatVector | None = None
    ends: FloatMatrix | None = None

    @classmethod
    def of(cls, values: FloatMatrix, weights: FloatVector, *, spread: bool) -> Moments:
        """Moments of a few validation points, one after the other."""
        leaf = Leaf(values.shape[1], spread=spread)
        for row, weight in zip(values, weights.tolist(), strict=True):
            leaf.add_values(row, weight)
        return leaf.moments()

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
        total = self.total + other.total
        ends = None
        if self.ends is not None or other.ends is not None:
            ends = self._ends_or_values() + other._ends_or_values()
        return Moments(self.count + other.count, self.weight + other.weight, squares, total, centre, spread, ends)

    def _ends_or_values(self) -> FloatMatrix:
        return np.stack([self.total, self.total]) if self.ends is None else self.ends

    def take(self, rows: IntVector) -> Moments:
        """The moments of other training points, one for each row named."""
        centre = None if self.centre is None else self.centre[rows]
        spread = None if self.spread is None else self.spread[rows]
        ends = None if self.ends is None else self.ends[:, rows]
        return replace(self, total=self.total[rows], centre=centre, spread=spread, ends=ends)

    def standard_errors(self) -> FloatVector | None:
        """Standard error of the weighted mean of phi over the validation points; NaN for a single one."""
        if self.centre is None or self.spread is None:
            return None
        if self.count < 2:
            return np.full(self.total.shape, np.nan)
        squares = np.maximum(self.spread, 0.0) + self.weight_squares * (self.centre - self.total / self.weight) ** 2
        return np.asarray(np.sqrt(self.count / (self.count - 1) * squares) / self.weight)


class Leaf:
    """Sums over consecutive validation points, added in their order.

    The spread is summed around the first value of each training point, so that it does not cancel.
    """

    def __init__(self, n_train: int, *, spread: bool) -> None:
        self._total = np.zeros(n_train)
        self._spread = spread
        self._shift, self._first, self._second = (np.zeros(n_train if spread else 0) for _ in range(3))
        self._count, self._weight, self._squares = 0, 0.0, 0.0

    def add(self, table: FloatVector, place: npt.NDArray[np.int32], weight: float) -> None:
        """Add one validation point, whose value of training point i is table[place[i]]."""
        if self._spread:
            fresh = self._count == 0
            fold_with_spread(self._total, self._shift, self._first, self._second, table, place, weight, fresh)
        else:
            fold(self._total, table, place, weight)
        self._count += 1
        self._weight += weight
        self._squares += weight * weight

    def count(self, weights: FloatVector) -> None:
        """Count validation points whose values are summed elsewhere."""
        for weight in weights.tolist():
            self._count += 1
            self._weight += weight
            self._squares += weight * weight

    def add_values(self, values: FloatVector, weight: float) -> None:
        """Add one validation point, given the value of each training point."""
        self.add(np.ascontiguousarray(values), np.arange(len(values), dtype=np.int32), weight)

    def moments(self) -> Moments:
        """What was added so far."""
        centre = spread = None
        if self._spread:
            mean = self._first / self._squares if self._squares > 0 else self._first
            centre = self._shift + mean
            spread = np.maximum(self._second - mean * self._first, 0.0)
        return Moments(self._count, self._weight, self._squares, self._total, centre, spread)


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
