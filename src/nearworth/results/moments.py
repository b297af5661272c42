"""What a set of validation points contributes to the sums, and how it is summed up one point after the other."""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._common.compile import compiled
from nearworth._common.types import FloatMatrix, FloatVector, IntVector

CHUNK = 64  # validation points of a leaf


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


class Truncated(NamedTuple):
    """Sums of truncated values and both ends (3, N), and what it takes to go on: of near points (3, N), of far ones."""

    sums: FloatMatrix
    near: FloatMatrix
    far: FloatMatrix


class Leaf:
    """Sums over consecutive validation points, added in their order; unfinished, it can be kept and gone on with.

    The spread is summed around the first value of each training point, so that it does not cancel.
    """

    def __init__(self, n_train: int, *, spread: bool) -> None:
        self._total = np.zeros(n_train)
        self._spread = spread
        self._shift, self._first, self._second = (np.zeros(n_train if spread else 0) for _ in range(3))
        self._count, self._weight, self._squares = 0, 0.0, 0.0
        self.truncated: Truncated | None = None

    @staticmethod
    def bytes(n_train: int, *, spread: bool, truncated: bool) -> int:
        """What a leaf, or its moments, takes for so many training points: sums, their spread, both ends."""
        return 8 * n_train * ((4 if spread else 1) + (2 if truncated else 0))

    @property
    def n_points(self) -> int:
        """How many validation points were added."""
        return self._count

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
        total, ends = self._total, None
        if self.truncated is not None:
            total, ends = self.truncated.sums[0], self.truncated.sums[1:]
        return Moments(self._count, self._weight, self._squares, total, centre, spread, ends)

    def state(self) -> tuple[list[Any], dict[str, npt.NDArray[Any]]]:
        """All there is to know, as plain numbers and arrays."""
        arrays = {"total": self._total}
        if self._spread:
            arrays |= {"shift": self._shift, "first": self._first, "second": self._second}
        if self.truncated is not None:
            arrays |= self.truncated._asdict()
        return [self._count, self._weight, self._squares], arrays

    @classmethod
    def of_state(cls, numbers: list[Any], arrays: dict[str, npt.NDArray[Any]]) -> Leaf:
        """A leaf in the state that another was in, with arrays of its own."""
        leaf = cls(0, spread="shift" in arrays)
        leaf._count = int(numbers[0])
        leaf._weight, leaf._squares = map(float, numbers[1:])
        own = {name: array.copy() for name, array in arrays.items()}
        leaf._total = own["total"]
        if leaf._spread:
            leaf._shift, leaf._first, leaf._second = own["shift"], own["first"], own["second"]
        if "sums" in own:
            leaf.truncated = Truncated(own["sums"], own["near"], own["far"])
        return leaf

    def copy(self) -> Leaf:
        """The same sums, to go on with while these stay."""
        return Leaf.of_state(*self.state())


@compiled
def fold(total, table, place, weight):
    """Add one query's values, by place, to the running sums of all points."""
    for i in range(total.shape[0]):
        total[i] += weight * table[np.uint64(place[i])]


@compiled
def fold_with_spread(total, shift, first, second, table, place, weight, fresh):
    """The same with sums of w^2 (phi - shift) and w^2 (phi - shift)^2; the first query of a leaf sets the shift."""
    square = weight * weight
    for i in range(total.shape[0]):
        value = table[np.uint64(place[i])]
        total[i] += weight * value
        if fresh:
            shift[i] = value
        away = value - shift[i]
        first[i] += square * away
        second[i] += square * away * away
