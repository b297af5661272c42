"""Keys as whole numbers of 30 bits ("qkeys"), with a tolerance: what the compiled kernels read.

multiply            from one matrix product (products.py knows its error)
quantise_exact      from exact keys: the only error is that of quantising
QuantisedKeys.nearest    the nearest points of each query

Points stand in an order of the caller's choice: `order[i]` is the training row at position i.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common import native
from nearworth._common.types import BoolVector, FloatMatrix, FloatVector
from nearworth.neighbors.distances import Rows
from nearworth.neighbors.searchers import Neighbours

ExactKeys: TypeAlias = Callable[[npt.NDArray[np.int32]], FloatVector]  # exact keys of the training points in these rows
IntVector32: TypeAlias = npt.NDArray[np.int32]
IntMatrix32: TypeAlias = npt.NDArray[np.int32]
# Finite keys quantise to MARGIN .. TOP - MARGIN and a tolerance is at most MARGIN / 2. Infinite keys are clipped to 0
# and TOP, so they are ambiguous only among themselves.
TOP, MARGIN = 2**30, 2**20
UNIT_64 = 2.0**-53
PANEL = 2**18  # numbers in the rows that are read at a time from what is no plain array


@dataclass(kw_only=True)
class QuantisedKeys:
    """The qkeys of some queries, a row for each; smaller is nearer.

    Two points whose qkeys differ by more than the query's `tolerance` are surely in the order of their exact keys.
    Exact keys are squared distances of `queries` and `points` in memory, `given`, or those of the functions `exact`.
    Queries that are not `usable` need exact keys of all points.
    """

    qkeys: IntMatrix32
    tolerance: npt.NDArray[np.int32]
    usable: BoolVector
    queries: FloatMatrix | None = None
    points: npt.NDArray[Any] | None = None
    given: FloatMatrix | None = None
    exact: list[ExactKeys] | None = None

    def some(self, start: int, stop: int) -> QuantisedKeys:
        """The same of some queries."""
        part = slice(start, stop)
        return QuantisedKeys(
            qkeys=self.qkeys[part],
            tolerance=self.tolerance[part],
            usable=self.usable[part],
            queries=None if self.queries is None else self.queries[part],
            points=self.points,
            given=None if self.given is None else self.given[part],
            exact=None if self.exact is None else self.exact[part],
        )

    def ask(self, query: int, rows: IntVector32, out: FloatVector) -> None:
        """Exact keys of one query in some rows, for compiled code."""
        out[:] = self.exact[query](rows)  # type: ignore[index]

    @property
    def source(self) -> tuple[Any, ...]:
        """Where exact keys come from, as compiled code takes it."""
        return self.queries, self.points, self.given, None if self.exact is None else self.ask

    def nearest(
        self, order: IntVector32, excluded: IntMatrix32, found: Neighbours, *, least: int, first: int | None = None
    ) -> None:
        """Fill `found` with the nearest of each query, without its `excluded` positions; see native/nearest.c.

        Points equally far are in the order of their rows; with `first`, the number of the first query, in an order that
        is unrelated to it.
        """
        n_train = len(order)
        native.call(
            "nearest_lists", self.qkeys, self.tolerance, excluded, order, *self.source, first or 0, first is not None,
            least, found.rows, found.keys, np.empty(n_train, dtype=np.int32), np.empty(n_train),
        )  # fmt: skip


def panel_rows(width: int) -> int:
    """Rows read at a time from what is no plain array."""
    return max(8, min(2048, PANEL // max(1, width)))


def multiply(
    points: Rows,
    norms: FloatVector,
    centre: FloatVector,
    factors: FloatMatrix,
    lines: tuple[FloatVector, FloatVector],
    order: IntVector32,
    positions: IntVector32,
    qkeys: IntMatrix32,
    *,
    single: bool,
) -> None:
    """Fill the qkeys of some queries: (centred points times factors, plus norms) times a slope, plus an offset."""
    space = np.empty(native.call("product_space", *factors.shape))
    rest = (centre, np.ascontiguousarray(factors), *lines, single, space, qkeys)
    if isinstance(points, np.ndarray) and points.flags.c_contiguous:
        native.call("product_qkeys", points, order, None, norms[order], *rest)
        return
    step = panel_rows(points.shape[1])
    every = np.arange(step, dtype=np.int32)
    for start in range(0, len(order), step):
        rows, part = np.ascontiguousarray(points[start : start + step]), slice(start, start + step)
        native.call("product_qkeys", rows, every[: len(rows)], positions[part], norms[part], *rest)


def quantise_exact(keys: FloatMatrix, order: IntVector32, space: IntMatrix32) -> QuantisedKeys:
    """qkeys from exact keys; infinite ones are beyond all others."""
    finite = np.isfinite(keys)
    low = np.where(finite, keys, np.inf).min(axis=1)
    high = np.where(finite, keys, -np.inf).max(axis=1)
    low, high = np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)
    largest, scaled = np.maximum(np.abs(low), np.abs(high)), keys
    strange = ~((largest > 1e-200) & (largest < 1e200) | (largest == 0.0))
    if strange.any():  # scaling by a power of two changes no rank
        exponents = np.where(strange, -np.frexp(largest)[1], 0)
        scaled, low, high = np.ldexp(keys, exponents[:, None]), np.ldexp(low, exponents), np.ldexp(high, exponents)
    scale, tolerance = line(low, high, np.zeros(len(keys)))
    places = (scaled - low[:, None]) * scale[:, None]
    places += MARGIN
    qkeys = space[: len(keys)]
    np.take(np.clip(places, 0, TOP, out=places).astype(np.int32), order, axis=1, out=qkeys, mode="clip")
    return QuantisedKeys(qkeys=qkeys, tolerance=tolerance, usable=np.ones(len(keys), dtype=bool), given=keys)


def line(low: FloatVector, high: FloatVector, tolerance: FloatVector) -> tuple[FloatVector, IntVector32]:
    """From keys between `low` and `high`, in double precision, to qkeys: the slope, and the tolerance as a qkey.

    From a key to its qkey there are four roundings of numbers not above |low| + |high| (add the norm, scale, add the
    offset, which is rounded itself) and one to a whole number: `extra` covers them for both of two keys.
    """
    extra = 4.0 * UNIT_64 * (np.abs(low) + np.abs(high))
    with np.errstate(divide="ignore"):
        scale = np.minimum((TOP - 2 * MARGIN) / (high - low), 0.25 * MARGIN / (tolerance + extra))
    scale = np.minimum(np.where(np.isfinite(scale), scale, 1.0), 1e290)  # keys all but equal: one qkey for all
    return scale, (tolerance * scale + np.ceil(2.0 * extra * scale) + 3.0).astype(np.int32)
