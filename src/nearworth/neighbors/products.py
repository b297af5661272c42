"""Rough distances of all points from one matrix product, with a promise how far they may be off.

|x - t|^2 = |x|^2 - 2 x.t + |t|^2, and |t|^2 changes no rank. The product is made in 32 bits of centred data, or in 64
bits of the data as they are. Nobody relies on the result beyond its `reach`: two points closer than that are compared
by exact distances (`engine/kernels.py`), so neither the precision nor the order of summation inside the BLAS shows in
any value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.memory import Memory
from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.neighbors.distances import Differences
from nearworth.neighbors.rows import Rows, streamed

Judge = Callable[[npt.NDArray[np.int32]], FloatVector]  # exact distances to the training points in these rows

UNIT_32, UNIT_64 = 2.0**-24, 2.0**-53
# Errors are told in units of (rounding unit) (|x| + |t|)^2, with the longest |x| for all. In 64 bits 2d + 16 covers
# the worst case. In 32 bits that would put nearly everybody in doubt, so the errors are measured on a sample, where
# they are largest, and multiplied; and whoever settles doubts looks whether the promise is kept (`engine/kernels.py`).
SAFETY_32, LEAST_32 = 2.5, 1.0 / 16.0  # the least one times sqrt(d)
FAR = 0.5  # share of |t|^2 + (median |x|^2) from which a squared distance counts as far
LARGEST_32, SMALLEST_32, LARGEST_64 = 1e15, 1e-12, 1e90
SAMPLE = 512
PANEL = 2048


@dataclass
class RoughBatch:
    """What some queries have, one number each.

    A key is a product plus a norm. Keys lie between `low`, where the distance is zero, and `high`; two of them must be
    `reach` apart to be surely in the right order, or `far_reach` beyond the key `border`. Queries that are not
    `ordinary` are too long for all this. Whether the promise holds can be `watched`
    where keys minus `low` are distances.
    """

    norms: FloatVector
    low: FloatVector
    high: FloatVector
    reach: FloatVector
    far_reach: FloatVector
    border: FloatVector
    ordinary: npt.NDArray[np.bool_]
    watched: bool
    judges: list[Judge]  # exact distances of each query to the points of some rows
    _queries: npt.NDArray[Any]
    _points: Rows

    def settle(self, query: int, rows: npt.NDArray[np.int32], keys: FloatVector) -> FloatVector | None:
        """Exact distances of one query to some points; None if they show that keys are farther off than promised."""
        distances = self.judges[query](rows)
        off = np.abs(keys - self.low[query] - distances).max(initial=0.0)
        return None if self.watched and off > 0.5 * self.reach[query] else distances

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self._queries)

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self._queries.shape[1])

    def panels(self, space: FloatVector) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """Products of all queries with some points after the other, and the first point; each overwrites the last.

        `space` holds one panel (see `panel_size`), small enough to stay in the cache until it is read.
        """
        queries, step = self._queries, panel_rows(self._queries.shape[1])
        space = space.view(queries.dtype)
        for start in range(0, len(self._points), step):
            rows = self._points[start : start + step].astype(queries.dtype, copy=False)
            panel = space[: len(queries) * len(rows)].reshape(len(queries), len(rows))
            with np.errstate(over="ignore", invalid="ignore"):  # of queries that are not ordinary
                np.matmul(queries, rows.T, out=panel)
            yield start, panel


class Products:
    """Knows the training points; makes rough distances of batches of queries, narrow (32 bits) or wide (64)."""

    def __init__(self, points: Rows, *, narrow: bool = True) -> None:
        self._points = points
        self._centre, norms = _centre_and_norms(points)
        self._longest = float(np.sqrt(norms.max()))
        self._level = float(np.median(norms))
        self._norms = norms
        narrow = narrow and not streamed(points)  # of rows in a file there is no copy, and single ones are dear
        self._error, self._far_error = self._errors_32() if narrow else (np.inf, np.inf)
        self.can_be_narrow = bool(np.isfinite(self._error))
        if self.can_be_narrow:
            step = panel_rows(points.shape[1])
            self._narrow = np.empty(points.shape, dtype=np.float32)
            for start in range(0, len(points), step):
                self._narrow[start : start + step] = points[start : start + step] - self._centre

    def __call__(self, queries: FloatMatrix, *, narrow: bool) -> RoughBatch:
        """Rough distances of a batch of queries."""
        return self._in_32_bits(queries) if narrow else self._in_64_bits(queries)

    def _judges(self, queries: FloatMatrix) -> list[Judge]:
        return [Differences(query, self._points) for query in queries]

    def _in_32_bits(self, queries: FloatMatrix) -> RoughBatch:
        centred = queries - self._centre
        squares = (centred * centred).sum(axis=1)
        unit = (self._longest + np.sqrt(squares)) ** 2
        border = FAR * (squares + self._level) - squares
        with np.errstate(over="ignore"):
            narrow = (-2.0 * centred).astype(np.float32)
        return RoughBatch(
            self._norms, -squares, unit - squares, 2.0 * self._error * unit, 2.0 * self._far_error * unit, border,
            squares < LARGEST_32**2, True, self._judges(queries), narrow, self._narrow,
        )  # fmt: skip

    def _in_64_bits(self, queries: FloatMatrix) -> RoughBatch:
        centred = queries - self._centre
        squares = (centred * centred).sum(axis=1)
        unit = (self._longest + np.sqrt(squares)) ** 2
        low = -squares - 2.0 * centred @ self._centre  # the points are not centred, which adds this to every product
        error = (2.0 * queries.shape[1] + 16.0) * UNIT_64
        reach = 2.0 * error * (np.sqrt(unit) + np.sqrt(self._centre @ self._centre)) ** 2
        ordinary = np.abs(queries).max(axis=1) < LARGEST_64
        return RoughBatch(
            self._norms, low, low + unit, reach, reach, low,
            ordinary, True, self._judges(queries), -2.0 * centred, self._points,
        )  # fmt: skip

    def _errors_32(self) -> tuple[float, float]:
        """Relative errors of 32-bit products, of all points and of far ones.

        From pairs of sampled points, each with itself, and the longest ones: near points have the largest errors,
        because their products are the largest.
        """
        norms = self._norms
        if not SMALLEST_32 < self._longest < LARGEST_32:
            return np.inf, np.inf
        spread = np.linspace(0, len(norms) - 1, min(SAMPLE, len(norms))).astype(np.intp)
        longest = np.argpartition(norms, -16)[-16:] if len(norms) > 16 else spread
        some = np.asarray(self._points[np.concatenate([spread, longest])], dtype=np.float64) - self._centre
        queries = np.concatenate([some[::16], some[-16:]])
        # Queries need not be as round as the training data (codes, counts): shake the sampled ones.
        queries = queries + 1e-3 * np.random.default_rng(0).normal(size=queries.shape) * self._longest
        rough = (-2.0 * queries).astype(np.float32) @ some.astype(np.float32).T
        right = -2.0 * queries @ some.T
        squares = (queries * queries).sum(axis=1, keepdims=True)
        errors = np.abs(rough - right) / (self._longest + np.sqrt(squares)) ** 2
        far = right + (some * some).sum(axis=1) >= FAR * (squares + self._level) - squares
        least = LEAST_32 * UNIT_32 * np.sqrt(queries.shape[1])
        worst, worst_far = errors.max(), errors[far].max(initial=0.0)
        return max(SAFETY_32 * worst, least), max(SAFETY_32 * worst_far, least)


def panel_rows(width: int) -> int:
    """Training points per product: enough to be efficient, few enough that they and the product stay in a cache."""
    return max(8, min(PANEL, 2**18 // max(1, width)))


def products_memory(n_train: int, width: int, *, single: bool) -> Memory:
    """Bytes of norms (three while the error is measured) and of the float32 copy; of panels of points and products."""
    rows = min(n_train, panel_rows(width))
    copy = 4 * n_train * width if single else 0
    return Memory(shared=3 * 8 * n_train + copy, per_thread=2 * 8 * rows * width, per_query=8 * rows)


def panel_size(n_queries: int, width: int) -> int:
    """Numbers in the largest panel of so many queries."""
    return n_queries * panel_rows(width)


def _centre_and_norms(points: Rows) -> tuple[FloatVector, FloatVector]:
    """Mean of the points and squared lengths around it, some rows at a time."""
    step = panel_rows(points.shape[1])
    centre = np.zeros(points.shape[1])
    for start in range(0, len(points), step):
        centre += points[start : start + step].sum(axis=0, dtype=np.float64) / len(points)
    norms = np.empty(len(points))
    for start in range(0, len(points), step):
        rows = points[start : start + step] - centre
        norms[start : start + step] = np.einsum("ij,ij->i", rows, rows)
    return centre, norms
