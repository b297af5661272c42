"""Keys as whole numbers of 30 bits ("qkeys"), with a tolerance: what the compiled kernels read.

Products                 from one matrix product
quantise_exact           from exact keys: the only error is that of quantizing
QuantisedKeys.nearest    the nearest points of each query

Points stand in an order of the caller's choice: `order[i]` is the training row at position i.

|x - t|^2 = |x|^2 - 2 x.t + |t|^2, and |x|^2 changes no rank. The product is made of centered data
by native/product.c, in single or in double precision. Its order of summation is known, so errors
are bounded by what the operations can do (docs/mathematics.md). Keys that differ by no more than a
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

# Exact keys of the training points in these rows.
ExactKeys: TypeAlias = Callable[[IntVector32], FloatVector]

# Finite keys quantize to MARGIN .. TOP - MARGIN and a tolerance is at most MARGIN / 2. Infinite
# keys are clipped to 0 and TOP, so they are ambiguous only among themselves.
TOP = 2**30
MARGIN = 2**20
# Between these magnitudes, exact keys are quantized without scaling.
MIN_UNSCALED_KEY = 1e-200
MAX_UNSCALED_KEY = 1e200
# Slopes beyond it belong to keys that are all but equal: these get one qkey.
MAX_SLOPE = 1e290
# Largest relative error of one rounded operation.
UNIT_32 = 2.0**-24
UNIT_64 = 2.0**-53
# Error bounds are themselves computed with roundings, which this factor covers.
BOUND_ROUNDING = 1.001
# Of two qkeys together, from the last two operations in single precision and from truncation.
PLACE_ERROR = 132
# Lengths of points between which squares and products are good single-precision numbers.
SMALLEST_32, LARGEST_32 = 1e-12, 1e15
# Largest coordinate of a query for products in double precision.
LARGEST_64 = 1e90
# Numbers in the rows that are read at a time from what is no plain array.
PANEL = 2**18
# The center is the mean of so many rows, if they can be read at a time. Any center is right, a
# middle one is best.
SAMPLE = 4096
# Numbers of working memory per query beside its own, at most (product_space).
SPACE = 100


@dataclass(kw_only=True)
class QuantisedKeys:
    """The qkeys of some queries, a row for each; smaller is nearer.

    Two points whose qkeys differ by more than the query's `tolerance` are surely in the order of
    their exact keys.

    Attributes
    ----------
    qkeys : array of shape (Q, number of positions)
    tolerance : array of shape (Q,)
    usable : array of shape (Q,)
        False for queries that need exact keys of all points.
    queries, points : arrays of shape (Q, d) and (N, d), or None
        In memory; exact keys are their squared distances.
    given : array of shape (Q, N) or None
        Otherwise exact keys are these.
    exact : list of Q functions or None
        Otherwise exact keys are made by these.
    scale : array of shape (Q,) or None
        For squared distances: a qkey is MARGIN + scale * key, within the tolerance.
    """

    qkeys: IntMatrix32
    tolerance: IntVector32
    usable: BoolVector
    queries: FloatMatrix | None = None
    points: npt.NDArray[Any] | None = None
    given: FloatMatrix | None = None
    exact: list[ExactKeys] | None = None
    scale: FloatVector | None = None

    def some(self, start: int, stop: int) -> QuantisedKeys:
        """The same for the queries from `start` to before `stop`."""
        cut: dict[str, Any] = {}
        for name, field in vars(self).items():
            if name != "points" and field is not None:
                cut[name] = field[start:stop]
        return replace(self, **cut)

    def ask(self, query: int, rows: IntVector32, out: FloatVector) -> None:
        """Exact keys of one query in some rows, for compiled code."""
        out[:] = self.exact[query](rows)  # type: ignore[index]

    @property
    def source(self) -> tuple[Any, ...]:
        """Where exact keys come from, as compiled code takes it: queries, points, given, ask."""
        ask = None if self.exact is None else self.ask
        return self.queries, self.points, self.given, ask

    def nearest(
        self,
        order: IntVector32,
        excluded: IntMatrix32,
        found: Neighbours,
        *,
        least: int,
        first: int | None = None,
    ) -> None:
        """Fill `found` with the nearest points of each query (native/nearest.c).

        Parameters
        ----------
        order : array of shape (number of positions,)
            The training row at each position.
        excluded : array of shape (Q, e)
            Positions that are left out.
        found : Neighbours
            Lists of 32-bit row numbers; written to.
        least : int
            A list without room for all points that are tied at its end leaves them all out, unless
            it would then be shorter than this.
        first : int or None
            Points equally far are in the order of their rows; with the number of the first query,
            in an order that is unrelated to it.
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
    """qkeys from exact keys; infinite ones are beyond all others.

    Parameters
    ----------
    keys : array of shape (Q, N)
    order : array of shape (N,)
        The training row at each position.
    space : array of shape (at least Q, N)
        Holds the qkeys.
    """
    is_finite = np.isfinite(keys)
    low = np.where(is_finite, keys, np.inf).min(axis=1)
    high = np.where(is_finite, keys, -np.inf).max(axis=1)
    has_finite = low <= high
    low = np.where(has_finite, low, 0.0)
    high = np.where(has_finite, high, 0.0)

    # Very large and very small keys are scaled by a power of two, which changes no rank.
    scaled = keys
    magnitudes = np.maximum(np.abs(low), np.abs(high))
    is_usual = (magnitudes > MIN_UNSCALED_KEY) & (magnitudes < MAX_UNSCALED_KEY)
    needs_scaling = ~(is_usual | (magnitudes == 0.0))
    if needs_scaling.any():
        exponents = np.where(needs_scaling, -np.frexp(magnitudes)[1], 0)
        scaled = np.ldexp(keys, exponents[:, None])
        low = np.ldexp(low, exponents)
        high = np.ldexp(high, exponents)

    slopes, tolerance = slopes_and_tolerances(low, high, np.zeros(len(keys)))
    places = (scaled - low[:, None]) * slopes[:, None]
    places += MARGIN
    np.clip(places, 0, TOP, out=places)
    qkeys = space[: len(keys)]
    np.take(places.astype(np.int32), order, axis=1, out=qkeys, mode="clip")
    usable = np.ones(len(keys), dtype=bool)
    return QuantisedKeys(qkeys=qkeys, tolerance=tolerance, usable=usable, given=keys)


def slopes_and_tolerances(
    low: FloatVector, high: FloatVector, tolerance: FloatVector
) -> tuple[FloatVector, IntVector32]:
    """How keys in double precision become qkeys, for each query.

    Parameters
    ----------
    low, high : arrays of shape (Q,)
        The keys are between these.
    tolerance : array of shape (Q,)
        Two keys that differ by more are in the right order.

    Returns
    -------
    slopes : array of shape (Q,)
        Steps of a qkey for a step of one in the key.
    tolerances : array of shape (Q,)
        Tolerances of qkeys.
    """
    # From a key to its qkey there are four roundings of numbers not above |low| + |high| (add the
    # norm, scale, add the offset, which is rounded itself) and one to a whole number:
    # `rounding_error` covers them for both of two keys.
    rounding_error = 4.0 * UNIT_64 * (np.abs(low) + np.abs(high))
    with np.errstate(divide="ignore"):
        slopes = np.minimum(
            (TOP - 2 * MARGIN) / (high - low), 0.25 * MARGIN / (tolerance + rounding_error)
        )
    # Keys that are all but equal: one qkey for all.
    slopes = np.minimum(np.where(np.isfinite(slopes), slopes, 1.0), MAX_SLOPE)
    steps = tolerance * slopes + np.ceil(2.0 * rounding_error * slopes) + 3.0
    return slopes, steps.astype(np.int32)


def _single_slopes_and_tolerances(
    key_ranges: FloatVector, tolerance: FloatVector
) -> tuple[FloatVector, IntVector32]:
    """The same for products in single precision, whose slopes are single-precision numbers."""
    slopes = np.minimum((TOP - 2 * MARGIN) / key_ranges, 0.25 * MARGIN / tolerance)
    slopes = slopes.astype(np.float32).astype(float)
    steps = np.ceil(BOUND_ROUNDING * tolerance * slopes).astype(np.int32)
    return slopes, steps + PLACE_ERROR


@dataclass(frozen=True, eq=False)
class _Norms:
    """Squared lengths of the points around the center.

    Attributes
    ----------
    deviations : array of shape (N,)
        Squared lengths minus `level`.
    level : float
        The middle of the squared lengths.
    max_length : float
        Length of the longest point.
    max_deviation : float
        Bound of the magnitude of `deviations`.
    """

    deviations: FloatVector
    level: float
    max_length: float
    max_deviation: float


class Products:
    """qkeys of squared distances, or of minus the inner products, from a matrix product.

    Parameters
    ----------
    points : rows of shape (N, d)
    single : bool
        Whether qkeys can be made in single precision, where it serves.
    prepare : function
        Gives queries as they are compared with the points, NaN where products do not serve.
    exact : function or None
        Makes the exact keys of such a query, where these are no plain squared distances.
    rounding : float
        Widens the tolerances by what exact keys are rounded.
    inner : bool
        Inner products instead of squared distances.
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
        self._points = points
        self._prepare = prepare
        self._rounding = rounding
        self._is_inner = inner
        self._exact = exact or (lambda query: partial(pairs_with, query, points))
        is_plain = exact is None and isinstance(points, np.ndarray) and points.flags.c_contiguous
        self._in_memory = np.asarray(points) if is_plain else None
        # Single precision leaves more pairs to compare exactly, and fetching single rows of a file
        # is slow.
        self._wants_single = single and not streamed(points)

    @cached_property
    def _center(self) -> FloatVector:
        n_train, width = self._points.shape
        if self._is_inner:
            return np.zeros(width)
        size = min(SAMPLE, panel_rows(width), n_train)
        sample = self._points[np.linspace(0, n_train - 1, size).astype(np.intp)]
        center = np.asarray(sample, dtype=np.float64).mean(axis=0)
        if sample.dtype == np.float32:
            # Differences of single-precision numbers are rounded once, in single precision as well.
            center = center.astype(np.float32)
        return np.asarray(center, dtype=np.float64)

    @cached_property
    def _norms(self) -> _Norms:
        norms = squared_distances(self._center[None, :], self._points)[0]
        if self._is_inner:
            # Equal norms drop out.
            norms[:] = norms.max()
        lowest = float(norms.min())
        highest = float(norms.max())
        level = lowest + (highest - lowest) / 2
        norms -= level
        return _Norms(
            deviations=norms,
            level=level,
            max_length=float(np.sqrt(highest)),
            max_deviation=BOUND_ROUNDING * (highest - level),
        )

    @property
    def single_precision(self) -> bool:
        return self._wants_single and SMALLEST_32 < self._norms.max_length < LARGEST_32

    @cached_property
    def _single_points(self) -> tuple[Rows, FloatVector]:
        """What products in single precision read, and its center.

        Rows that must be converted are kept as a centered copy.
        """
        points = self._points
        if not isinstance(points, Converted):
            return points, self._center
        copy = np.empty(points.shape, dtype=np.float32)
        step = panel_rows(points.shape[1])
        for start in range(0, len(points), step):
            copy[start : start + step] = points[start : start + step] - self._center
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
        """The qkeys of a batch of queries.

        Parameters
        ----------
        queries : array of shape (Q, d)
        order : array of shape (N,)
            The training row at each position.
        positions : array of shape (N,)
            The position of each training row.
        space : array of shape (at least Q, N)
            Holds the qkeys.
        single : bool
            Whether to make them in single precision.
        """
        queries = self._prepare(queries)
        usable = np.maximum(queries.max(axis=1), -queries.min(axis=1)) < LARGEST_64
        centered = queries - self._center
        centered[~usable] = 0.0
        squares = np.einsum("ij,ij->i", centered, centered)
        if single:
            usable &= squares < LARGEST_32**2
        centered[~usable] = 0.0
        squares = np.where(usable, squares, 0.0)

        # A key is a squared distance minus |query|^2 minus the level.
        lengths = np.sqrt(squares)
        low = -squares - self._norms.level
        key_ranges = (self._norms.max_length + lengths) ** 2
        tolerance = 2.0 * self._error(lengths, single=single) + self._rounding
        if single:
            slopes, tolerances = _single_slopes_and_tolerances(key_ranges, tolerance)
        else:
            slopes, tolerances = slopes_and_tolerances(low, low + key_ranges, tolerance)

        centered *= -2.0
        factors = np.ascontiguousarray(centered)
        qkeys = space[: len(queries)]
        offsets = MARGIN - low * slopes
        self._multiply(factors, slopes, offsets, order, positions, qkeys, single=single)
        block = QuantisedKeys(qkeys=qkeys, tolerance=tolerances, usable=usable, scale=slopes)
        if self._in_memory is not None:
            return replace(block, queries=np.ascontiguousarray(queries), points=self._in_memory)
        return replace(block, exact=[self._exact(query) for query in queries])

    def _multiply(
        self,
        factors: FloatMatrix,
        slopes: FloatVector,
        offsets: FloatVector,
        order: IntVector32,
        positions: IntVector32,
        qkeys: IntMatrix32,
        *,
        single: bool,
    ) -> None:
        """Fill `qkeys`: (centered points times factors, plus norms) times slopes, plus offsets."""
        points, center = self._single_points if single else (self._points, self._center)
        norms = self._norms.deviations
        room = np.empty(native.call("product_space", *factors.shape))
        by_query = (center, factors, slopes, offsets, single, room, qkeys)
        if isinstance(points, np.ndarray) and points.flags.c_contiguous:
            native.call("product_qkeys", points, order, None, norms, *by_query)
            return

        step = panel_rows(points.shape[1])
        numbers = np.arange(step, dtype=np.int32)
        for start in range(0, len(order), step):
            panel = slice(start, start + step)
            rows = np.ascontiguousarray(points[panel])
            places = positions[panel]
            native.call(
                "product_qkeys", rows, numbers[: len(rows)], places, norms[panel], *by_query
            )

    def _error(self, lengths: FloatVector, *, single: bool) -> FloatVector:
        """How far a key may be off, for queries of these lengths, shape (Q,)."""
        norms = self._norms
        width = len(self._center)
        summed_lengths = norms.max_length + lengths

        # By the product: roundings of a sum, and of the point, the query and the last sum.
        unit = UNIT_32 if single else UNIT_64
        roundings = native.call("product_roundings", width) + 3
        product = unit * (2.0 * roundings * norms.max_length * lengths + 2.0 * norms.max_deviation)

        # By double precision before it: norms, and coordinates before they are centered.
        max_coordinate = np.abs(self._center).max(initial=0.0) + summed_lengths
        before = UNIT_64 * (
            (width + 16.0) * summed_lengths**2
            + 8.0 * np.sqrt(width) * max_coordinate * summed_lengths
        )
        underflow = np.finfo(np.float32).tiny if single else 0.0
        return np.asarray(BOUND_ROUNDING * (product + before) + underflow)


def products_memory(n_train: int, width: int, *, copied: bool) -> Memory:
    """What products take, in bytes, with or without a float32 copy of the points."""
    norms = 8 * n_train
    copy = 4 * n_train * width if copied else 0
    panel = 2 * 8 * min(n_train, panel_rows(width)) * width
    return Memory(
        # Norms, while they are made.
        preparing=2 * norms,
        shared=norms + 32 * width + 2**15 + copy,
        # Rows read from a file.
        per_thread=panel + 3 * 8 * n_train,
        # Packed queries.
        per_query=8 * (4 * width + SPACE),
    )
