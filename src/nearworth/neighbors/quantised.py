"""Keys as whole numbers of 30 bits ("qkeys"), with a tolerance: what the compiled kernels read.

Products                 from one matrix product
quantise_exact           from exact keys: the only error is that of quantising
QuantisedKeys.nearest    the nearest points of each query

Points stand in an order of the caller's choice: `order[i]` is the training row at position i.

|x - t|^2 = |x|^2 - 2 x.t + |t|^2, and |x|^2 changes no rank. The product is made of centred data by
native/product.c, in single or in double precision. Its order of summation is known, so errors are
bounded by what the operations can do (docs/mathematics.md). Keys that differ by no more than a
tolerance are compared by exact ones, so the precision shows in no value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common import native
from nearworth._common.memory import Memory
from nearworth._common.types import BoolVector, FloatMatrix, FloatVector, IntMatrix32, IntVector32
from nearworth.neighbors.distances import Converted, Rows, pairs_with, squared_distances, streamed
from nearworth.neighbors.searchers import Neighbours

ExactKeys: TypeAlias = Callable[
    [IntVector32], FloatVector
]  # exact keys of the training points in these rows
# Finite keys quantise to MARGIN .. TOP - MARGIN and a tolerance is at most MARGIN / 2. Infinite
# keys are clipped to 0 and TOP, so they are ambiguous only among themselves.
TOP, MARGIN = 2**30, 2**20
UNIT_64 = 2.0**-53
PANEL = 2**18  # numbers in the rows that are read at a time from what is no plain array
UNIT_32 = 2.0**-24
# of two qkeys together, from the last two operations in single precision and from truncation
PLACE_ERROR = 132
# Lengths of points between which squares and products are good single-precision numbers.
SMALLEST_32, LARGEST_32 = 1e-12, 1e15
LARGEST_64 = 1e90
# rows whose mean is the centre, if so many are read at a time; any centre is right, a middle one
# best
SAMPLE = 4096
SPACE = 100  # numbers of working memory per query beside its own, at most (product_space)


@dataclass(kw_only=True)
class QuantisedKeys:
    """The qkeys of some queries, a row for each; smaller is nearer.

    Two points whose qkeys differ by more than the query's `tolerance` are surely in the order of
    their exact keys. Exact keys are squared distances of `queries` and `points` in memory, `given`,
    or those of the functions `exact`. Queries that are not `usable` need exact keys of all points.
    """

    qkeys: IntMatrix32
    tolerance: IntVector32
    usable: BoolVector
    queries: FloatMatrix | None = None
    points: npt.NDArray[Any] | None = None
    given: FloatMatrix | None = None
    exact: list[ExactKeys] | None = None
    scale: FloatVector | None = (
        None  # of squared distances: a qkey is MARGIN + scale * key, within the tolerance
    )

    def some(self, start: int, stop: int) -> QuantisedKeys:
        by_query = {
            name: each for name, each in vars(self).items() if name != "points" and each is not None
        }
        return replace(self, **{name: each[start:stop] for name, each in by_query.items()})

    def ask(self, query: int, rows: IntVector32, out: FloatVector) -> None:
        """Exact keys of one query in some rows, for compiled code."""
        out[:] = self.exact[query](rows)  # type: ignore[index]

    @property
    def source(self) -> tuple[Any, ...]:
        """Where exact keys come from, as compiled code takes it."""
        return self.queries, self.points, self.given, None if self.exact is None else self.ask

    def nearest(
        self,
        order: IntVector32,
        excluded: IntMatrix32,
        found: Neighbours,
        *,
        least: int,
        first: int | None = None,
    ) -> None:
        """Fill `found` with the nearest of each query, without its `excluded` positions; see
        native/nearest.c.

        Points equally far are in the order of their rows; with `first`, the number of the first
        query, in an order that is unrelated to it.
        """
        n_train = len(order)
        native.call(
            "nearest_lists",
            self.qkeys,
            self.tolerance,
            excluded,
            order,
            *self.source,
            first or 0,
            first is not None,
            least,
            found.rows,
            found.keys,
            np.empty(n_train, dtype=np.int32),
            np.empty(n_train),
        )


def panel_rows(width: int) -> int:
    """Rows read at a time from what is no plain array."""
    return max(8, min(2048, PANEL // max(1, width)))


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
        scaled, low, high = (
            np.ldexp(keys, exponents[:, None]),
            np.ldexp(low, exponents),
            np.ldexp(high, exponents),
        )
    scale, tolerance = line(low, high, np.zeros(len(keys)))
    places = (scaled - low[:, None]) * scale[:, None]
    places += MARGIN
    qkeys = space[: len(keys)]
    np.take(
        np.clip(places, 0, TOP, out=places).astype(np.int32), order, axis=1, out=qkeys, mode="clip"
    )
    return QuantisedKeys(
        qkeys=qkeys, tolerance=tolerance, usable=np.ones(len(keys), dtype=bool), given=keys
    )


def line(
    low: FloatVector, high: FloatVector, tolerance: FloatVector
) -> tuple[FloatVector, IntVector32]:
    """From keys between `low` and `high`, in double precision, to qkeys: the slope, and the
    tolerance as a qkey.
    """
    # From a key to its qkey there are four roundings of numbers not above |low| + |high| (add the
    # norm, scale, add the offset, which is rounded itself) and one to a whole number: `extra`
    # covers them for both of two keys.
    extra = 4.0 * UNIT_64 * (np.abs(low) + np.abs(high))
    with np.errstate(divide="ignore"):
        scale = np.minimum((TOP - 2 * MARGIN) / (high - low), 0.25 * MARGIN / (tolerance + extra))
    scale = np.minimum(
        np.where(np.isfinite(scale), scale, 1.0), 1e290
    )  # keys all but equal: one qkey for all
    return scale, (tolerance * scale + np.ceil(2.0 * extra * scale) + 3.0).astype(np.int32)


class Products:
    """qkeys of squared distances, or of minus the `inner` products, from a matrix product.

    `prepare` gives queries as they are compared with the points, NaN where products do not serve.
    `exact` makes the exact keys of such a query, where these are no plain squared distances;
    `rounding` widens the tolerances by what they are rounded. Where `single` and it serves, qkeys
    can be made in single precision.
    """

    def __init__(
        self,
        points: Rows,
        *,
        single: bool,
        prepare: Callable[[FloatMatrix], FloatMatrix] = np.asarray,
        exact: Callable[[FloatVector], ExactKeys] | None = None,
        rounding: float = 0.0,
        inner: bool = False,
    ) -> None:
        self._points, self._prepare, self._rounding, self._inner = points, prepare, rounding, inner
        self._exact = exact or (lambda query: partial(pairs_with, query, points))
        plain = exact is None and isinstance(points, np.ndarray) and points.flags.c_contiguous
        self._in_memory = np.asarray(points) if plain else None
        self._wants_single = single and not streamed(
            points
        )  # fetching single rows of a file is slow

    @cached_property
    def _centre(self) -> FloatVector:
        n_train, width = self._points.shape
        if self._inner:
            return np.zeros(width)
        size = min(SAMPLE, panel_rows(width), n_train)
        sample = self._points[np.linspace(0, n_train - 1, size).astype(np.intp)]
        centre = np.asarray(sample, dtype=np.float64).mean(axis=0)
        # Differences of single-precision numbers are rounded once, in single precision as well.
        return np.asarray(
            centre.astype(np.float32) if sample.dtype == np.float32 else centre, dtype=np.float64
        )

    @cached_property
    def _norms(self) -> tuple[FloatVector, float, float, float]:
        """Squared lengths around the centre minus a level in their middle; level, longest length,
        largest deviation.
        """
        norms = squared_distances(self._centre[None, :], self._points)[0]
        if self._inner:
            norms[:] = norms.max()  # equal norms drop out
        least, most = float(norms.min()), float(norms.max())
        level = least + (most - least) / 2
        norms -= level
        return norms, level, float(np.sqrt(most)), 1.001 * (most - level)

    @property
    def single_precision(self) -> bool:
        return self._wants_single and SMALLEST_32 < self._norms[2] < LARGEST_32

    @cached_property
    def _copy(self) -> tuple[Rows, FloatVector]:
        """What products in single precision read, with its centre: a centred copy of rows that must
        be converted.
        """
        points, step = self._points, panel_rows(self._points.shape[1])
        if not isinstance(points, Converted):
            return points, self._centre
        copy = np.empty(points.shape, dtype=np.float32)
        for start in range(0, len(points), step):
            copy[start : start + step] = points[start : start + step] - self._centre
        return copy, np.zeros(points.shape[1])

    def __call__(
        self,
        queries: FloatMatrix,
        order: IntVector32,
        positions: IntVector32,
        space: IntMatrix32,
        *,
        single: bool,
    ) -> QuantisedKeys:
        """The qkeys of a batch of queries, in `space`; order[i] is the training row at position
        i.
        """
        queries, (_, level, longest, _) = self._prepare(queries), self._norms
        usable = np.maximum(queries.max(axis=1), -queries.min(axis=1)) < LARGEST_64
        centred = queries - self._centre
        centred[~usable] = 0.0
        squares = np.einsum("ij,ij->i", centred, centred)
        usable &= squares < LARGEST_32**2 if single else True
        centred[~usable], squares = 0.0, np.where(usable, squares, 0.0)
        low, reach = -squares - level, (longest + np.sqrt(squares)) ** 2
        tolerance = 2.0 * self._error(np.sqrt(squares), single=single) + self._rounding
        if single:
            scale = (
                np.minimum((TOP - 2 * MARGIN) / reach, 0.25 * MARGIN / tolerance)
                .astype(np.float32)
                .astype(float)
            )
            width = np.ceil(1.001 * tolerance * scale).astype(np.int32) + PLACE_ERROR
        else:
            scale, width = line(low, low + reach, tolerance)
        centred *= -2.0
        qkeys, room = space[: len(queries)], np.empty(native.call("product_space", *centred.shape))
        points, centre = self._copy if single else (self._points, self._centre)
        rest = (
            centre,
            np.ascontiguousarray(centred),
            scale,
            MARGIN - low * scale,
            single,
            room,
            qkeys,
        )
        self._multiply(points, order, positions, rest)
        block = QuantisedKeys(qkeys=qkeys, tolerance=width, usable=usable, scale=scale)
        if self._in_memory is not None:
            return replace(block, queries=np.ascontiguousarray(queries), points=self._in_memory)
        return replace(block, exact=[self._exact(query) for query in queries])

    def _multiply(
        self, points: Rows, order: IntVector32, positions: IntVector32, rest: tuple[Any, ...]
    ) -> None:
        """Fill the qkeys of some queries: (centred points times factors, plus norms) times a slope,
        plus an offset.
        """
        norms = self._norms[0]
        if isinstance(points, np.ndarray) and points.flags.c_contiguous:
            native.call("product_qkeys", points, order, None, norms, *rest)
            return
        step = panel_rows(points.shape[1])
        every = np.arange(step, dtype=np.int32)
        for start in range(0, len(order), step):
            rows, part = (
                np.ascontiguousarray(points[start : start + step]),
                slice(start, start + step),
            )
            native.call(
                "product_qkeys", rows, every[: len(rows)], positions[part], norms[part], *rest
            )

    def _error(self, lengths: FloatVector, *, single: bool) -> FloatVector:
        """How far a key may be off, for queries of these lengths: by the product, and by double
        precision before it.
        """
        (_, _, longest, spread), width = self._norms, len(self._centre)
        both = longest + lengths
        unit = UNIT_32 if single else UNIT_64
        roundings = (
            native.call("product_roundings", width) + 3
        )  # of a sum; of the point, the query and the last sum
        product = unit * (2.0 * roundings * longest * lengths + 2.0 * spread)
        offset = np.abs(self._centre).max(initial=0.0) + both  # coordinates before they are centred
        before = UNIT_64 * ((width + 16.0) * both**2 + 8.0 * np.sqrt(width) * offset * both)
        return np.asarray(
            1.001 * (product + before) + (np.finfo(np.float32).tiny if single else 0.0)
        )


def products_memory(n_train: int, width: int, *, copied: bool) -> Memory:
    """Bytes of norms (more while they are made) and of a float32 copy; of rows read from a file; of
    packed queries.
    """
    return Memory(
        preparing=2 * 8 * n_train,
        shared=8 * n_train + 32 * width + 2**15 + (4 * n_train * width if copied else 0),
        per_thread=2 * 8 * min(n_train, panel_rows(width)) * width + 3 * 8 * n_train,
        per_query=8 * (4 * width + SPACE),
    )
