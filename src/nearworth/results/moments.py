"""Sums over validation points: of a leaf, one point after the other, and of sets of leaves."""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._common.compile import compiled
from nearworth._common.types import FloatMatrix, FloatVector, IntVector

CHUNK = 64  # validation points of a leaf
# Arrays with a column per training point (`far`: per class); of each group all are there or none.
OF_MOMENTS = (("total",), ("centre", "spread"), ("ends",))
OF_LEAF = (("total",), ("shift", "first", "second"), ("sums", "near", "far"))
N_ROWS = {"ends": 2, "sums": 3, "near": 3, "far": 3}

State = tuple[list[Any], Mapping[str, npt.NDArray[Any]]]  # plain numbers and arrays, as files keep them


@dataclass(frozen=True)
class Moments:
    """What a set of validation points contributes: counts, weights, sum of w phi and the spread of phi.

    `positive` counts the points of positive weight; the others take no part in anything but `count`. `centre` is the
    mean of phi under the weights w^2, `spread` the sum of w^2 (phi - centre)^2; both None when no standard errors are
    wanted. Centred sums cannot cancel. `ends` (2, N) are sums of w times the lower and upper end of phi, None where
    phi is exact.
    """

    count: int
    positive: int
    weight: float
    weight_squares: float
    total: FloatVector
    centre: FloatVector | None = None
    spread: FloatVector | None = None
    ends: FloatMatrix | None = None

    def __add__(self, other: Moments) -> Moments:
        squares = self.weight_squares + other.weight_squares
        centre = spread = ends = None
        if self.spread is not None and other.spread is not None:
            assert self.centre is not None
            assert other.centre is not None
            share = other.weight_squares / squares if squares > 0 else 0.0
            away = other.centre - self.centre
            centre = self.centre + share * away
            spread = self.spread + other.spread + (share * self.weight_squares) * away**2
        if self.ends is not None or other.ends is not None:
            ends = self._ends_or_values() + other._ends_or_values()
        return Moments(
            self.count + other.count,
            self.positive + other.positive,
            self.weight + other.weight,
            squares,
            self.total + other.total,
            centre,
            spread,
            ends,
        )

    def _ends_or_values(self) -> FloatMatrix:
        return np.stack([self.total, self.total]) if self.ends is None else self.ends

    def take(self, rows: IntVector) -> Moments:
        """The moments of other training points, one for each row named."""
        taken: dict[str, Any] = {name: array[..., rows] for name, array in self.arrays().items()}
        return replace(self, **taken)

    def standard_errors(self) -> FloatVector | None:
        """Standard error of the weighted mean of phi over the validation points; NaN for a single one."""
        if self.centre is None or self.spread is None:
            return None
        if self.positive < 2:
            return np.full(self.total.shape, np.nan)
        squares = np.maximum(self.spread, 0.0) + self.weight_squares * (self.centre - self.total / self.weight) ** 2
        return np.asarray(np.sqrt(self.positive / (self.positive - 1) * squares) / self.weight)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Those that are there, by name."""
        names = (name for group in OF_MOMENTS for name in group)
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def state(self) -> State:
        """As plain numbers and arrays."""
        return [self.count, self.positive, self.weight, self.weight_squares], self.arrays()

    @classmethod
    def of_state(cls, numbers: Sequence[Any], arrays: Mapping[str, Any]) -> Moments:
        """What `state` gave; a ValueError if it cannot have been that."""
        _check_state(numbers, arrays, OF_MOMENTS)
        return cls(*numbers, **arrays)


class Truncated(NamedTuple):
    """Sums of truncated values and both ends (3, N), and what it takes to go on: of near points (3, N), of far ones."""

    sums: FloatMatrix
    near: FloatMatrix
    far: FloatMatrix


class Leaf:
    """Sums over consecutive validation points, added in their order; unfinished, it can be continued later.

    The spread is summed around the first value of each training point, so that it does not cancel.
    """

    def __init__(self, n_train: int, *, spread: bool) -> None:
        self._total = np.zeros(n_train)
        self._spread = spread
        self._shift, self._first, self._second = (np.zeros(n_train if spread else 0) for _ in range(3))
        self._count, self._positive, self._weight, self._squares = 0, 0, 0.0, 0.0
        self.truncated: Truncated | None = None

    @staticmethod
    def bytes(n_train: int, *, spread: bool, truncated: bool) -> int:
        """What a leaf, or its moments, takes for so many training points: sums, their spread, both ends."""
        return 8 * n_train * ((4 if spread else 1) + (2 if truncated else 0))

    @property
    def n_points(self) -> int:
        """How many validation points were added."""
        return self._count

    def add(self, table: FloatVector, slot: npt.NDArray[np.int32], weight: float) -> None:
        """Add one validation point, whose value of training point i is table[slot[i]]."""
        if self._spread:
            fresh = self._positive == 0
            fold_with_spread(self._total, self._shift, self._first, self._second, table, slot, weight, fresh)
        else:
            fold(self._total, table, slot, weight)
        self._count_one(weight)

    def add_values(self, values: FloatVector, weight: float) -> None:
        """Add one validation point, given the value of each training point."""
        self.add(np.ascontiguousarray(values), np.arange(len(values), dtype=np.int32), weight)

    def count(self, weights: FloatVector) -> None:
        """Count validation points whose values are summed elsewhere."""
        for weight in weights.tolist():
            self._count_one(weight)

    def _count_one(self, weight: float) -> None:
        self._count += 1
        self._positive += weight > 0
        self._weight += weight
        self._squares += weight * weight

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
        return Moments(self._count, self._positive, self._weight, self._squares, total, centre, spread, ends)

    def state(self) -> State:
        """As plain numbers and arrays."""
        arrays = {"total": self._total}
        if self._spread:
            arrays |= {"shift": self._shift, "first": self._first, "second": self._second}
        if self.truncated is not None:
            arrays |= self.truncated._asdict()
        return [self._count, self._positive, self._weight, self._squares], arrays

    @classmethod
    def of_state(cls, numbers: Sequence[Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Leaf:
        """A leaf in the state that another was in, with arrays of its own; a ValueError if there is no such state."""
        _check_state(numbers, arrays, OF_LEAF)
        leaf = cls(0, spread="shift" in arrays)
        leaf._count, leaf._positive, leaf._weight, leaf._squares = numbers
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


def _check_state(
    numbers: Sequence[Any], arrays: Mapping[str, npt.NDArray[Any]], groups: Sequence[Sequence[str]]
) -> None:
    count, positive, *weights = numbers
    if not (type(count) is type(positive) is int and 0 <= positive <= count):
        raise ValueError(f"it counts {count!r} validation points, {positive!r} of positive weight.")
    if len(weights) != 2 or not all(isinstance(x, int | float) and math.isfinite(x) and x >= 0 for x in weights):
        raise ValueError(f"its sums of weights are {weights!r}.")
    complete = {name for group in groups if set(group) <= arrays.keys() for name in group}
    if complete != arrays.keys() or "total" not in complete:
        raise ValueError(f"it has the sums {', '.join(arrays) or 'none'}, and others are missing.")
    n_train = arrays["total"].size
    for name, array in arrays.items():
        columns = array.shape[-1] if name == "far" and array.ndim else n_train
        expected = (N_ROWS[name], columns) if name in N_ROWS else (n_train,)
        if array.dtype != np.float64 or array.shape != expected:
            raise ValueError(
                f"its {name!r} has shape {array.shape} and type {array.dtype}, not {expected} and float64."
            )


@compiled
def fold(total, table, slot, weight):
    """Add one query's values, by slot, to the running sums of all points."""
    for i in range(total.shape[0]):
        total[i] += weight * table[np.uint64(slot[i])]


@compiled
def fold_with_spread(total, shift, first, second, table, slot, weight, fresh):
    """The same with sums of w^2 (phi - shift) and w^2 (phi - shift)^2; the first query of a leaf sets the shift."""
    square = weight * weight
    for i in range(total.shape[0]):
        value = table[np.uint64(slot[i])]
        total[i] += weight * value
        if fresh:
            shift[i] = value
        away = value - shift[i]
        first[i] += square * away
        second[i] += square * away * away
