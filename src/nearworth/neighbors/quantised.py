"""Keys as whole numbers of 30 bits ("qkeys"), with a tolerance: what the compiled kernels read.

SingleProducts      from one matrix product in single precision, made and quantised in one compiled pass
quantise_products   from products in double precision (products.py)
quantise_exact      from exact keys: the only error is that of quantising

Points stand in an order of the caller's choice: `order[i]` is the training row at position i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common import native
from nearworth._common.memory import Memory
from nearworth._common.types import BoolVector, FloatMatrix, FloatVector
from nearworth.neighbors.distances import ExactDistances, Rows
from nearworth.neighbors.products import ApproximateKeys, DistanceProducts, ExactKeys, panel_size

IntMatrix32 = npt.NDArray[np.int32]
# Finite keys quantise to MARGIN .. TOP - MARGIN and a tolerance is at most MARGIN / 2. Infinite keys are clipped to 0
# and TOP, so they are ambiguous only among themselves.
TOP, MARGIN = 2**30, 2**20
ROWS = 32  # points side by side in the packed copy, as in native/product.c
UNIT_32, UNIT_64 = 2.0**-24, 2.0**-53
PLACE_ERROR = 132  # of two qkeys together, from the last two operations in single precision and from truncation
SMALLEST, LARGEST = (
    1e-12,
    1e15,
)  # lengths of points between which squares and products are good single-precision numbers
SAMPLE = 4096  # rows whose mean is the centre; any centre is right, one in the middle of the points is best
PIECE = 2**20  # numbers packed at a time from rows that are not plain arrays


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


def stride(n_train: int) -> int:
    """Positions in a row of qkeys."""
    return -(-n_train // ROWS) * ROWS


class SingleProducts:
    """qkeys from a product in single precision with a packed copy of the points, centred and in the given order.

    The error of a key is bounded by what its operations can do (docs/mathematics.md), not measured: the order of
    summation is that of native/product.c.
    """

    def __init__(self, distances: DistanceProducts, order: npt.NDArray[np.int32]) -> None:
        self._distances = distances
        points, n_train = distances.points, len(order)
        sample = points[np.linspace(0, n_train - 1, min(SAMPLE, n_train)).astype(np.intp)]
        self._centre = np.asarray(sample, dtype=np.float64).mean(axis=0)
        self._packed = np.empty(native.call("packed_size", n_train, points.shape[1]), dtype=np.float32)
        norms = np.empty(n_train)
        self._pack(points, order, norms)
        self._longest, self._level = float(np.sqrt(norms.max())), float(np.median(norms))
        self._norms = np.zeros(stride(n_train), dtype=np.float32)
        with np.errstate(over="ignore"):
            self._norms[:n_train] = norms - self._level
        self._spread = max(float(norms.max()) - self._level, self._level - float(norms.min()))
        self.serves = SMALLEST < self._longest < LARGEST

    @staticmethod
    def memory(n_train: int, width: int) -> Memory:
        """Bytes of the packed copy and of norms (more while it is made); of packed queries."""
        rows = stride(n_train)
        return Memory(
            preparing=4 * rows * width + 4 * 8 * n_train,
            shared=4 * rows * width + 4 * rows,
            per_query=(8 + 4) * width,
        )

    def _pack(self, points: Rows, order: npt.NDArray[np.int32], norms: FloatVector) -> None:
        if isinstance(points, np.ndarray) and points.flags.c_contiguous:
            native.call("pack_points", points, order, self._centre, 0, -(-len(order) // ROWS), self._packed, norms)
            return
        width = points.shape[1]
        step = max(ROWS, PIECE // max(1, width) // ROWS * ROWS)
        for start in range(0, len(order), step):
            rows = np.ascontiguousarray(points[order[start : start + step]])
            every, blocks = np.arange(len(rows), dtype=np.int32), -(-len(rows) // ROWS)
            packed = self._packed[start * width : (start + blocks * ROWS) * width]
            native.call("pack_points", rows, every, self._centre, 0, blocks, packed, norms[start : start + step])

    def __call__(self, queries: FloatMatrix, space: IntMatrix32) -> QuantisedKeys:
        """The qkeys of a batch of queries, in `space`."""
        distances, width = self._distances, queries.shape[1]
        queries, usable = distances.prepare(queries)
        centred = queries - self._centre
        squares = np.einsum("ij,ij->i", centred, centred)
        lengths = np.sqrt(squares)
        usable = usable & (lengths < LARGEST)
        lengths = np.minimum(lengths, LARGEST)
        low, reach = -squares - self._level, (self._longest + lengths) ** 2
        tolerance = 2.0 * self._error(lengths, width) + distances.rounding
        scale = np.minimum((TOP - 2 * MARGIN) / reach, 0.25 * MARGIN / tolerance).astype(np.float32)
        offset = (MARGIN - low * scale).astype(np.float32)
        qkeys = space[: len(queries)]
        packed_queries = np.empty(native.call("packed_query_size", len(queries), width), dtype=np.float32)
        factors = np.where(usable[:, None], -2.0 * centred, 0.0)
        native.call("product_qkeys", self._packed, self._norms, factors, scale, offset, packed_queries, qkeys)
        return QuantisedKeys(
            qkeys=qkeys,
            tolerance=np.ceil(1.001 * tolerance * scale).astype(np.int32) + PLACE_ERROR,
            usable=usable,
            **exact_source(distances, queries),
        )

    def _error(self, lengths: FloatVector, width: int) -> FloatVector:
        """How far a key may be off, for queries of these lengths: by single precision, and by double before that."""
        longest, both = self._longest, self._longest + lengths
        roundings = native.call("product_roundings", width) + 3  # of a sum; of the point, the query and the last sum
        single = UNIT_32 * (2.0 * roundings * longest * lengths + 2.0 * self._spread)
        offset = np.abs(self._centre).max(initial=0.0) + both  # coordinates before they are centred
        double = UNIT_64 * ((width + 16.0) * both**2 + 8.0 * np.sqrt(width) * offset * both)
        return np.asarray(1.001 * (single + double) + np.finfo(np.float32).tiny)


def exact_source(distances: DistanceProducts, queries: FloatMatrix) -> dict[str, Any]:
    """Where exact keys come from: points in memory, or functions of the metric."""
    points = distances.points
    if distances.exact is ExactDistances and isinstance(points, np.ndarray) and points.flags.c_contiguous:
        return {"queries": np.ascontiguousarray(queries), "points": points}
    return {"exact": [distances.exact(query, points) for query in queries]}


def quantise_products(batch: ApproximateKeys, positions: npt.NDArray[np.int32], space: IntMatrix32) -> QuantisedKeys:
    """qkeys from products in double precision, panel by panel while these are in the cache."""
    qkeys = space[: batch.n_queries]
    low, scale, tolerance = _lines(batch.low, batch.high, batch.tolerance)
    for start, panel in batch.panels(np.empty(panel_size(batch.n_queries, batch.width))):
        rows = slice(start, start + panel.shape[1])
        native.call("quantise", panel, batch.norms[rows], positions[rows], low, scale, qkeys)
    return QuantisedKeys(qkeys=qkeys, tolerance=tolerance, usable=batch.usable, exact=batch.exact)


def quantise_exact(keys: FloatMatrix, positions: npt.NDArray[np.int32], space: IntMatrix32) -> QuantisedKeys:
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
    low, scale, tolerance = _lines(low, high, np.zeros(len(keys)))
    qkeys = space[: len(keys)]
    native.call("quantise", np.ascontiguousarray(scaled), np.zeros(keys.shape[1]), positions, low, scale, qkeys)
    return QuantisedKeys(qkeys=qkeys, tolerance=tolerance, usable=np.ones(len(keys), dtype=bool), given=keys)


def _lines(
    low: FloatVector, high: FloatVector, tolerance: FloatVector
) -> tuple[FloatVector, FloatVector, npt.NDArray[np.int32]]:
    """From keys between `low` and `high` to qkeys: where the line begins, its slope, and the tolerance as a qkey.

    From a key to its qkey there are three roundings of numbers not above |low| + |high| (add the norm, subtract,
    scale), one of a number up to TOP and one to a whole number: `extra` covers them for both of two keys.
    """
    extra = 4.0 * UNIT_64 * (np.abs(low) + np.abs(high))
    with np.errstate(divide="ignore"):
        scale = np.minimum((TOP - 2 * MARGIN) / (high - low), 0.25 * MARGIN / (tolerance + extra))
    scale = np.minimum(np.where(np.isfinite(scale), scale, 1.0), 1e290)  # keys all but equal: one qkey for all
    return low, scale, (tolerance * scale + np.ceil(2.0 * extra * scale) + 3.0).astype(np.int32)
