"""Approximate keys of all points from one matrix product, with bounds of their errors.

|x - t|^2 = |x|^2 - 2 x.t + |t|^2, and |t|^2 changes no rank. The product is made in single precision of centred data,
or in double precision of the data as they are. Keys that differ by no more than a tolerance are compared by exact ones
(`engine/kernels.py`), so neither the precision nor the order of summation inside the BLAS shows in any value.

`Products` know the training points and turn a batch of queries into `ApproximateKeys`, in single precision where they
are asked to and have `single_precision`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common.memory import Memory
from nearworth._common.types import BoolVector, FloatMatrix, FloatVector
from nearworth.neighbors.distances import ExactDistances, Rows, blocks, minus_inner_products_with, streamed

ExactKeys: TypeAlias = Callable[[npt.NDArray[np.int32]], FloatVector]  # exact keys of the training points in these rows
Prepare: TypeAlias = Callable[[FloatMatrix], tuple[FloatMatrix, BoolVector]]

UNIT_32, UNIT_64 = 2.0**-24, 2.0**-53
# Errors are in units of (rounding unit) (|x| + |t|)^2, with the longest |x| for all. In 64 bits 2d + 16 covers the
# worst case. In 32 bits that would make nearly all points ambiguous, so the errors are measured on a sample, where they
# are largest, and multiplied; and each exact key asked for is also used to check the bound (`engine/kernels.py`).
SAFETY_32, LEAST_32 = 2.5, 1.0 / 16.0  # the least one times sqrt(d)
LARGEST_32, SMALLEST_32, LARGEST_64 = 1e15, 1e-12, 1e90
SAMPLE = 512
PRODUCT_TOP = 600  # binary exponent of the largest product of a query's and a point's numbers
PANEL = 2048


@dataclass(kw_only=True)
class ApproximateKeys:
    """Approximate keys of a batch of queries, with an error bound per query.

    A key is a product plus a norm. Keys lie between `low`, where the distance is zero, and `high`. Two keys farther
    apart than `tolerance` are in the right order.
    Queries that are not `usable` need exact keys of all points. Where `verifiable`, a key minus `low` approximates the
    exact key, which shows whether the bound holds.
    """

    norms: FloatVector
    low: FloatVector
    high: FloatVector
    tolerance: FloatVector
    usable: BoolVector
    verifiable: bool
    exact: list[ExactKeys]
    queries: npt.NDArray[Any]  # as multiplied with the points
    points: Rows

    def resolve(self, query: int, rows: npt.NDArray[np.int32], keys: FloatVector) -> FloatVector | None:
        """Exact keys of one query in some rows; None if they show approximate keys beyond their error bound."""
        exact = self.exact[query](rows)
        error = np.abs(keys - self.low[query] - exact).max(initial=0.0)
        return None if self.verifiable and error > 0.5 * self.tolerance[query] else exact

    @property
    def n_queries(self) -> int:
        return len(self.queries)

    @property
    def width(self) -> int:
        return int(self.queries.shape[1])

    def panels(self, space: FloatVector) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """Products of all queries with some points after the other, and the first point; each overwrites the last.

        `space` holds one panel (see `panel_size`), small enough to stay in the cache until it is read.
        """
        queries, step = self.queries, panel_rows(self.width)
        space = space.view(queries.dtype)
        for start in range(0, len(self.points), step):
            rows = self.points[start : start + step].astype(queries.dtype, copy=False)
            panel = space[: len(queries) * len(rows)].reshape(len(queries), len(rows))
            with np.errstate(over="ignore", invalid="ignore"):  # of queries that are not usable
                np.matmul(queries, rows.T, out=panel)
            yield start, panel


class DistanceProducts:
    """Approximate squared distances; with `single`, a copy of the points in single precision is made.

    `prepare` gives queries as they are compared with the points, and which of them products serve. `exact` makes the
    exact keys of a query; where these are rounded squared distances, `rounding` widens the tolerances.
    """

    def __init__(
        self,
        points: Rows,
        prepare: Prepare,
        *,
        single: bool,
        exact: Callable[[FloatVector, Rows], ExactKeys] = ExactDistances,
        rounding: float = 0.0,
    ) -> None:
        self.points, self.prepare, self.exact, self.rounding = points, prepare, exact, rounding
        self.can_be_packed = not streamed(points)  # no copy of a file, where fetching single rows is slow besides
        self._wants_single = single and self.can_be_packed

    def make_ready(self) -> None:
        """Pass over the points now, not when the first query comes."""
        assert self.centre_and_norms

    @cached_property
    def centre_and_norms(self) -> tuple[FloatVector, FloatVector]:
        return _centre_and_norms(self.points)

    @cached_property
    def _longest(self) -> float:
        return float(np.sqrt(self.centre_and_norms[1].max()))

    @property
    def single_precision(self) -> bool:
        return bool(np.isfinite(self._error_32))

    @cached_property
    def _copy(self) -> npt.NDArray[np.float32]:
        centre, step = self.centre_and_norms[0], panel_rows(self.points.shape[1])
        copy = np.empty(self.points.shape, dtype=np.float32)
        for start in range(0, len(self.points), step):
            copy[start : start + step] = self.points[start : start + step] - centre
        return copy

    def __call__(self, queries: FloatMatrix, *, single: bool) -> ApproximateKeys:
        queries, usable = self.prepare(queries)
        (centre, norms), longest = self.centre_and_norms, self._longest
        centred = queries - centre
        squares = (centred * centred).sum(axis=1)
        unit = (longest + np.sqrt(squares)) ** 2
        factors = -2.0 * centred
        if single:
            low, tolerance = -squares, 2.0 * self._error_32 * unit
            usable &= squares < LARGEST_32**2
            with np.errstate(over="ignore"):
                factors = factors.astype(np.float32)
        else:  # the points are not centred, which adds the same to every product of a query
            low = factors @ centre - squares
            error = (2.0 * queries.shape[1] + 16.0) * UNIT_64
            tolerance = 2.0 * error * (np.sqrt(unit) + np.sqrt(centre @ centre)) ** 2
            usable &= np.abs(queries).max(axis=1) < LARGEST_64
        return ApproximateKeys(
            norms=norms,
            low=low,
            high=low + unit,
            tolerance=tolerance + self.rounding,
            usable=usable,
            verifiable=True,
            exact=[self.exact(query, self.points) for query in queries],
            queries=factors,
            points=self._copy if single else self.points,
        )

    @cached_property
    def _error_32(self) -> float:
        """Relative error of products in single precision; infinity where there are none.

        From pairs of sampled points, each with itself, and the longest ones: near points have the largest errors,
        because their products are the largest.
        """
        (centre, norms), longest = self.centre_and_norms, self._longest
        if not (self._wants_single and SMALLEST_32 < longest < LARGEST_32):
            return np.inf
        spread = np.linspace(0, len(norms) - 1, min(SAMPLE, len(norms))).astype(np.intp)
        longest_rows = np.argpartition(norms, -16)[-16:] if len(norms) > 16 else spread
        some = np.asarray(self.points[np.concatenate([spread, longest_rows])], dtype=np.float64) - centre
        queries = np.concatenate([some[::16], some[-16:]])
        # Queries need not be as round as the training data (codes, counts): shake the sampled ones.
        queries = queries + 1e-3 * np.random.default_rng(0).normal(size=queries.shape) * longest
        products = (-2.0 * queries).astype(np.float32) @ some.astype(np.float32).T
        squares = (queries * queries).sum(axis=1, keepdims=True)
        errors = np.abs(products - -2.0 * queries @ some.T) / (longest + np.sqrt(squares)) ** 2
        return max(SAFETY_32 * float(errors.max()), LEAST_32 * UNIT_32 * math.sqrt(queries.shape[1]))


class InnerProducts:
    """Approximate inner products, in double precision; the error bound comes from the longest training point.

    No number of the points is larger than 2**exponent.
    """

    single_precision = can_be_packed = False

    def __init__(self, points: Rows, exponent: int) -> None:
        self._points, self._exponent = points, exponent
        self._no_norms = np.zeros(len(points))
        self._longest = 0.0  # of the points divided by 2**exponent, lest squares vanish
        for _, rows in blocks(points):
            units = np.ldexp(rows.astype(np.float64), -exponent)
            self._longest = max(self._longest, float(np.sqrt(np.einsum("ij,ij->i", units, units).max())))

    def make_ready(self) -> None:
        pass

    def __call__(self, queries: FloatMatrix, *, single: bool) -> ApproximateKeys:
        assert not single
        scaled, top = scale_queries(queries, self._exponent)
        units = np.ldexp(scaled, self._exponent - top)
        high = np.ldexp(self._longest * np.sqrt((units * units).sum(axis=1)), top)
        tolerance = 2.0 * (2.0 * queries.shape[1] + 4.0) * UNIT_64 * high
        return ApproximateKeys(
            norms=self._no_norms,
            low=-high,
            high=high,
            tolerance=tolerance,
            usable=np.ones(len(queries), dtype=bool),
            verifiable=False,
            exact=[partial(minus_inner_products_with, query, self._points) for query in scaled],
            queries=-scaled,
            points=self._points,
        )


Products: TypeAlias = DistanceProducts | InnerProducts


def scale_queries(queries: FloatMatrix, exponent: int) -> tuple[FloatMatrix, int]:
    """Queries scaled by powers of two, so that their products with numbers up to 2**exponent reach 2**top and no more.

    Then none vanishes that could matter beside the largest. Returns `top` too.
    """
    top = min(PRODUCT_TOP, 1000 + exponent)  # queries themselves must not overflow
    own = np.frexp(np.abs(queries).max(axis=1, keepdims=True))[1]
    return np.ldexp(queries, top - exponent - own), top


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
