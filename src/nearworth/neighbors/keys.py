"""Rank keys: what they are, and those of every metric."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolVector, FloatMatrix, FloatVector, IntMatrix, IntVector
from nearworth.inputs.features import is_sparse
from nearworth.inputs.parameters import did_you_mean
from nearworth.neighbors.distances import (
    BLOCK,
    EXTREME,
    Converted,
    all_pairs,
    blocks,
    enlarged_squares,
    listed_pairs,
    pairs_with,
    readable,
    sparse_distances,
    squared_distances,
    streamed,
)
from nearworth.neighbors.quantised import ExactKeys, Products
from nearworth.neighbors.searchers import Neighbours

# The square of a difference below 2**-537 is 0. The difference of two floats is 0 or at least
# 2**-53 of the larger of them, so that squares vanish only where one of the two is below TINY.
TINY = 2.0**-430
# What vanishes beside a square of this size is less than half of its last bit.
SMALL_SQUARE = 2.0**-800
# The same for other powers, as a binary exponent.
SMALL_POWER_EXPONENT = -900
# Squares below SMALL_SQUARE are measured again, from differences times this power of two. The
# smallest difference of two floats, 2**-1074, then has the square 2**-948, and no such square
# reaches 2**400.
ENLARGEMENT_BITS = 600
# Bits of the float 2**400 plus bits of the smallest normal float: a key stays a normal number.
MIRROR = ((400 + 1023) << 52) + (1 << 52)
# Binary exponent of the largest product of scaled queries and points. It is so high that no product
# that matters vanishes.
MAX_PRODUCT_EXPONENT = 600
# Queries must not overflow when they are scaled by a power of two.
MAX_SCALING_EXPONENT = 1000
# Coarse beside the rounding of directions, so that equal angles nearly always share a multiple (and
# right angles always do: sqrt(2) is a quarter of a step away from where rounding changes), and fine
# beside any angle that data can mean.
GRID = 2.0**-40
# Differences within a row that are smaller, relative to its largest number, are nothing but
# rounding.
MAX_CONSTANT_SPREAD = 2.0**-50
# Fractions of whole numbers below it are told apart by floats.
MAX_EXACT_FRACTION = 2.0**52
# Its square is MAX_EXACT_FRACTION.
MAX_SMALL_WHOLE = 2.0**26
RIGHT_ANGLE = (round(2.0**0.5 / GRID) * GRID) ** 2
# Share of a step of the grid by which a radius is enlarged before it is rounded: more than the
# rounding errors of a distance between directions, so that a row exactly at the radius never rounds
# to the next step.
ANGLE_ROUNDING = 2.0**-8

EUCLIDEAN = ("euclidean", "l2", "sqeuclidean")
MANHATTAN = ("manhattan", "l1", "cityblock")
INNER_PRODUCT = "inner_product"
BOOLEAN_METRICS = (
    "dice",
    "jaccard",
    "rogerstanimoto",
    "russellrao",
    "sokalmichener",
    "sokalsneath",
    "yule",
)
METRICS_WITHOUT_PARAMETERS = (
    *EUCLIDEAN,
    INNER_PRODUCT,
    "cosine",
    "correlation",
    "nan_euclidean",
)
# Metrics that need a scale, and the parameter that gives it. Without one, scipy would take it from
# each batch of queries.
SCALE_EXAMPLES = {
    "seuclidean": "{'V': X.var(axis=0, ddof=1)}",
    "mahalanobis": "{'VI': np.linalg.inv(np.cov(X.T))}",
}
# Metrics of differences that grow in proportion to these, and raise them to a power on the way.
POWER_METRICS = ("minkowski", "seuclidean", "mahalanobis")
SPARSE_METRICS = (*EUCLIDEAN, *MANHATTAN, "cosine")


def make_keys(X: Any, metric: Any, metric_params: Mapping[str, Any] | None) -> Keys:
    """The keys of a metric on a checked training matrix (None where the user brings distances)."""
    params = dict(metric_params or {})
    if metric == "precomputed":
        return GivenKeys()
    _check_metric(metric, params, is_on_sparse=is_sparse(X))
    if metric in EUCLIDEAN:
        return EuclideanKeys(X, is_squared=metric == "sqeuclidean")
    if metric in ("cosine", "correlation"):
        return CosineKeys(X, is_centered=metric == "correlation")
    if is_sparse(X):
        return SparseManhattanKeys(X)
    if metric == INNER_PRODUCT:
        return InnerProductKeys(X)
    if metric == "nan_euclidean":
        return NanEuclideanKeys(X)
    return PairwiseKeys(X, metric, params)


def _check_metric(metric: Any, params: Mapping[str, Any], *, is_on_sparse: bool) -> None:
    if metric in METRICS_WITHOUT_PARAMETERS:
        if params:
            raise ValueError(
                f"metric_params={dict(params)!r} has no meaning for metric={metric!r}, which takes"
                " none."
            )
    elif not callable(metric):
        _check_metric_name(metric, params)
    if is_on_sparse and metric not in SPARSE_METRICS:
        allowed = ", ".join(map(repr, SPARSE_METRICS))
        raise ValueError(
            f"metric={metric!r} does not work on sparse data. Use one of {allowed}, or X.toarray()."
        )


def _check_metric_name(metric: Any, params: Mapping[str, Any]) -> None:
    """Refuse names that scikit-learn does not know, and metrics without the scale they need."""
    from sklearn.neighbors import VALID_METRICS

    names = sorted(
        {
            *VALID_METRICS["brute"],
            *METRICS_WITHOUT_PARAMETERS,
            *BOOLEAN_METRICS,
            "precomputed",
        }
    )
    if metric not in names:
        raise ValueError(f"metric={metric!r} is not known. {did_you_mean(metric, names)}")
    has_scale = "V" in params or "VI" in params
    if metric in SCALE_EXAMPLES and not has_scale:
        raise ValueError(
            f"metric={metric!r} needs a scale, such as metric_params={SCALE_EXAMPLES[metric]}."
        )


class Vicinity(NamedTuple):
    """What is within a radius: a row whose key is at most `largest`.

    The keys depend on the row and the query alone. No other training row changes whether a row is
    within the radius.
    """

    keys: Keys
    largest: float


class Keys:
    """Rank keys of a metric: a number for each query and training point.

    `keys(queries)` has the shape (Q, N), in C order. Smaller is nearer, equal is a tie. A key need
    not be a distance. Any increasing function of it ranks alike, and the keys of one query may be
    scaled as it suits that query. The keys of a query depend on it and on the training set alone.
    They are the same to the bit whatever else is in its batch, and whether the numbers are stored
    dense or sparse, in memory or in a file, in 32 bits or in 64.

    Where `has_products`, a matrix product gives approximate keys much faster (quantised.py). They
    never decide. Points that they cannot tell apart are compared by exact keys of the pair, which
    rank as those of `keys(queries)`.

    Attributes
    ----------
    has_products : bool
        Whether `products` can be called.
    has_distances : bool
        Whether `as_distances` and `within` can be called.
    uses_blas : bool
        Whether exact keys are made by a BLAS. Products never are.
    data : array of shape (N, d) or None
        Dense training rows, if nearest neighbors are those of a searcher: by Euclidean distance.
    """

    has_products = False
    has_distances = True
    uses_blas = False
    data: Any = None

    def __init__(self, points: Any = None) -> None:
        """Keep the training rows as they are compared; None if queries are distances."""
        self._points = points

    def __call__(self, queries: Any) -> FloatMatrix:
        raise NotImplementedError

    def as_distances(self, keys: FloatMatrix, queries: Any) -> FloatMatrix:  # noqa: ARG002
        """Distances of the metric, from exact keys of these queries."""
        return keys

    def within(self, radius: float) -> Vicinity:
        """The rows not farther than this distance; a row exactly at it is inside."""
        return Vicinity(self, radius)

    def products(self, *, single: bool) -> Products:
        """Approximate keys; in single precision if `single` and it serves."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Numbers in a dense query, which is copied a few times; 0 for other queries."""
        if self._points is None or is_sparse(self._points):
            return 0
        return int(self._points.shape[1])

    @property
    def streamed(self) -> bool:
        """Whether every pass over the training points reads a file."""
        return streamed(self._points)

    @property
    def converted(self) -> bool:
        """Whether every pass over the training points converts them."""
        return isinstance(self._points, Converted)


class GivenKeys(Keys):
    """Distances that the user brings: a row per validation point, a column per training point."""

    def __call__(self, queries: Any) -> FloatMatrix:
        # A copy, which evaluators may write to.
        return np.array(queries, dtype=np.float64, order="C")


class EuclideanKeys(Keys):
    """Squared distances from differences, to the bit the same of dense and of sparse rows.

    Squares below SMALL_SQUARE lose bits, or vanish. Where there may be such squares, these pairs
    are measured again from enlarged differences. All squares together span more than the positive
    floats do. So the keys of small squares are negative, in the order of the distances
    (`_key_of_enlarged`), and identical rows then have the key -infinity.

    Attributes
    ----------
    is_squared : bool
        Whether the distances that users mean are the squared ones.
    exponent : int
        Binary exponent of the largest number of the training rows.
    """

    def __init__(self, X: Any, *, is_squared: bool = False) -> None:
        super().__init__(readable(X))
        self.is_squared = is_squared
        max_magnitude, self._has_tiny = _magnitudes(X)
        self.exponent = int(np.frexp(max_magnitude)[1])
        if not is_sparse(X):
            self.data = X
            self.has_products = TINY <= max_magnitude < 2.0**EXTREME

    def __call__(self, queries: Any) -> FloatMatrix:
        queries = _as_doubles(queries)
        keys = self._squares(queries)
        self._measure_small_again(keys, queries)
        return keys

    def listed(self, queries: Any, rows: IntMatrix) -> FloatMatrix:
        """Keys of each query and its own list of training points, the same as those of all pairs.

        Parameters
        ----------
        queries : array of shape (Q, d)
        rows : array of shape (Q, k)
            Row numbers of training points. A missing one is -1, and its key is infinity.
        """
        queries = _as_doubles(queries)
        valid_rows = np.maximum(rows, 0).astype(np.int32)
        keys = listed_pairs(queries, self._points, valid_rows)
        self._measure_small_again(keys, queries, valid_rows)
        return np.where(rows < 0, np.inf, keys)

    def order(self, queries: Any, rows: IntMatrix) -> Neighbours:
        """Listed training points of each query, nearest first, equally near ones by index."""
        keys = self.listed(queries, rows)
        order = np.argsort(keys, axis=1)
        sorted_keys = np.take_along_axis(keys, order, axis=1)

        # Ties are rare, and the sort that respects the index is the slower of the two.
        has_ties = (sorted_keys[:, 1:] == sorted_keys[:, :-1]).any(axis=1)
        tied_queries = np.flatnonzero(has_ties)
        if len(tied_queries):
            order[tied_queries] = np.lexsort((rows[tied_queries], keys[tied_queries]), axis=1)
        sorted_rows = np.take_along_axis(rows, order, axis=1).astype(np.intp)
        return Neighbours(sorted_rows, sorted_keys)

    def as_distances(self, keys: FloatMatrix, queries: Any) -> FloatMatrix:  # noqa: ARG002
        is_small = keys < 0.0
        if self.is_squared:
            distances = np.array(keys)
        else:
            distances = np.sqrt(np.where(is_small, 0.0, keys))
        if is_small.any():
            squares = _enlarged_of_key(keys[is_small])
            if self.is_squared:
                distances[is_small] = np.ldexp(squares, -2 * ENLARGEMENT_BITS)
            else:
                distances[is_small] = np.ldexp(np.sqrt(squares), -ENLARGEMENT_BITS)
        return distances

    def within(self, radius: float) -> Vicinity:
        min_usual_radius = SMALL_SQUARE if self.is_squared else SMALL_SQUARE**0.5
        if radius >= min_usual_radius:
            return Vicinity(self, radius if self.is_squared else _largest_square(radius))

        # Squares that vanish decide, whichever rows they come from.
        keys = copy.copy(self)
        keys._has_tiny = True
        if self.is_squared:
            enlarged = float(np.ldexp(radius, 2 * ENLARGEMENT_BITS))
        else:
            enlarged = _largest_square(float(np.ldexp(radius, ENLARGEMENT_BITS)))
        return Vicinity(keys, float(_key_of_enlarged(np.array([enlarged]))[0]))

    def products(self, *, single: bool) -> Products:
        exact = self._exact if self._has_tiny else None
        return Products(self._points, single=single, exact=exact)

    def _exact(self, query: FloatVector) -> ExactKeys:
        """A function that gives exact keys of this query and some training rows."""

        def keys_of_rows(rows: npt.NDArray[Any]) -> FloatVector:
            lists = rows[None].astype(np.intp)
            return np.asarray(self.listed(query[None], lists)[0])

        return keys_of_rows

    def _squares(self, queries: Any) -> FloatMatrix:
        """Squared distances of all pairs, which vanish if they are too small."""
        return squared_distances(queries, self._points)

    def _enlarged(self, queries: Any, rows: IntVector) -> FloatVector:
        """Squared distance of each query and one training row, times 2**(2 * ENLARGEMENT_BITS).

        These do not vanish.
        """
        return enlarged_squares(queries, self._points, rows, 2.0**ENLARGEMENT_BITS)

    def _measure_small_again(
        self, keys: FloatMatrix, queries: Any, lists: npt.NDArray[Any] | None = None
    ) -> None:
        """Replace small squares by the keys of enlarged ones, in place.

        Parameters
        ----------
        keys : array of shape (Q, k)
            Squared distances of each query and its list of training rows; written to.
        queries : array or sparse matrix of shape (Q, d)
        lists : array of shape (Q, k) or None
            Row numbers. None if the keys are those of all training rows.
        """
        # If neither the query nor training rows have tiny numbers, no square vanishes.
        may_vanish = np.full(len(keys), True) if self._has_tiny else _have_tiny(queries)
        if not may_vanish.any():
            return

        is_small = keys < SMALL_SQUARE
        is_small[~may_vanish] = False
        # Faster than `nonzero` of a matrix.
        query_numbers, columns = np.divmod(np.flatnonzero(is_small), keys.shape[1])
        step = max(1, BLOCK // max(1, queries.shape[1]))
        for start in range(0, len(columns), step):
            query = query_numbers[start : start + step]
            column = columns[start : start + step]
            rows = column if lists is None else lists[query, column]
            keys[query, column] = _key_of_enlarged(self._enlarged(queries[query], rows))


def _have_tiny(queries: Any) -> BoolVector:
    """Whether each query has a tiny number."""
    if not is_sparse(queries):
        return np.asarray(_is_tiny(queries).any(axis=1))
    entries = (_is_tiny(queries.data), queries.indices, queries.indptr)
    is_tiny = type(queries)(entries, queries.shape)
    return np.asarray(is_tiny.sum(axis=1) > 0).ravel()


def _as_doubles(queries: Any) -> Any:
    return queries if is_sparse(queries) else np.ascontiguousarray(queries, dtype=np.float64)


def _key_of_enlarged(squares: FloatVector) -> FloatVector:
    """Negative numbers in the order of these squares, which are below 2**400.

    Their bits are those of the squares, counted from the other end.
    """
    keys = -(MIRROR - squares.view(np.int64)).view(np.float64)
    return np.where(squares > 0.0, keys, -np.inf)


def _enlarged_of_key(keys: FloatVector) -> FloatVector:
    """The inverse of `_key_of_enlarged`."""
    is_finite = np.isfinite(keys)
    mirrored = np.where(is_finite, -keys, 1.0)
    squares = (MIRROR - mirrored.view(np.int64)).view(np.float64)
    return np.where(is_finite, squares, 0.0)


def _largest_square(radius: float) -> float:
    """The largest float whose square root is not above the radius."""
    square = radius * radius
    if math.isinf(square):
        return float(np.finfo(np.float64).max)
    while math.sqrt(square) > radius:
        square = math.nextafter(square, 0.0)
    while math.sqrt(following := math.nextafter(square, math.inf)) <= radius:
        square = following
    return square


def _is_tiny(numbers: npt.NDArray[Any]) -> BoolVector:
    """Not 0, and so small that squares of differences may vanish."""
    return np.asarray((numbers != 0.0) & (np.abs(numbers) < TINY))


def _magnitudes(X: Any) -> tuple[float, bool]:
    """The largest magnitude, and whether there are tiny numbers other than 0."""
    # Numbers of fewer bits cannot be tiny.
    can_be_tiny = X.dtype.kind == "f" and X.dtype.itemsize >= 8
    max_magnitude = 0.0
    has_tiny = False
    for _, rows in blocks(X):
        numbers = rows.data if is_sparse(rows) else rows
        # These two pass over NaN.
        highest = float(np.fmax.reduce(numbers, axis=None, initial=0))
        lowest = float(np.fmin.reduce(numbers, axis=None, initial=0))
        max_magnitude = max(max_magnitude, abs(highest), abs(lowest))
        if can_be_tiny:
            has_tiny |= bool(_is_tiny(numbers).any())
    return max_magnitude, has_tiny


class SparseManhattanKeys(Keys):
    """Sums of absolute differences of sparse rows."""

    def __call__(self, queries: Any) -> FloatMatrix:
        return sparse_distances(queries, self._points, 1)


class NanEuclideanKeys(EuclideanKeys):
    """scikit-learn's nan_euclidean: squares of differences of the numbers that are present.

    Their sum is scaled up for the missing ones.
    """

    def __init__(self, X: Any) -> None:
        super().__init__(X)
        self.data = None
        self.has_products = False

    def __call__(self, queries: Any) -> FloatMatrix:
        return _refuse_undefined(super().__call__(queries), "nan_euclidean")

    def _squares(self, queries: Any) -> FloatMatrix:
        keys = np.empty((len(queries), len(self._points)))
        for start, rows in blocks(self._points):
            for query_keys, query in zip(keys, queries, strict=True):
                query_keys[start : start + len(rows)] = _squares_of_present(rows - query)
        return keys

    def _enlarged(self, queries: Any, rows: IntVector) -> FloatVector:
        return _squares_of_present((self._points[rows] - queries) * 2.0**ENLARGEMENT_BITS)


def _squares_of_present(differences: FloatMatrix) -> FloatVector:
    """Sums of squares over the columns where both numbers are present, scaled to all columns."""
    squares = differences**2
    n_present = np.count_nonzero(~np.isnan(squares), axis=1)
    scale = squares.shape[1] / np.where(n_present, n_present, np.nan)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(squares, axis=1) * scale)


class InnerProductKeys(Keys):
    """Minus the inner product: the most similar point is the nearest."""

    has_distances = False

    def __init__(self, X: Any) -> None:
        super().__init__(readable(X))
        max_magnitude, _ = _magnitudes(X)
        self._exponent = int(np.frexp(max_magnitude)[1])
        self.has_products = TINY <= max_magnitude < 2.0**EXTREME

    def __call__(self, queries: Any) -> FloatMatrix:
        scaled = self._scale(queries, MAX_PRODUCT_EXPONENT)
        return all_pairs(-scaled, self._points, product=True)

    def as_distances(self, keys: FloatMatrix, queries: Any) -> FloatMatrix:  # noqa: ARG002
        raise ValueError(
            "metric='inner_product' has no distances, which radius and weights need. Use 'cosine'."
        )

    def within(self, radius: float) -> Vicinity:  # noqa: ARG002
        raise ValueError(
            "metric='inner_product' has no distances, which radius and weights need. Use 'cosine'."
        )

    def products(self, *, single: bool) -> Products:  # noqa: ARG002 - single precision would not serve here
        like_points = partial(self._scale, product_exponent=2 * self._exponent)
        return Products(
            self._points, single=False, prepare=like_points, exact=self._exact, inner=True
        )

    def _exact(self, query: FloatVector) -> ExactKeys:
        scaled = self._scale(query[None], MAX_PRODUCT_EXPONENT)[0]
        return partial(pairs_with, -scaled, self._points, product=True)

    def _scale(self, queries: Any, product_exponent: int) -> FloatMatrix:
        """Queries times powers of two, so that the largest product is about 2**product_exponent."""
        rows = np.asarray(queries, dtype=np.float64)
        row_exponents = np.frexp(np.abs(rows).max(axis=1, keepdims=True))[1]
        wanted_exponent = min(product_exponent - self._exponent, MAX_SCALING_EXPONENT)
        return np.asarray(np.ldexp(rows, wanted_exponent - row_exponents))


class CosineKeys(Keys):
    """Squared distances between directions, rounded so that equal angles tie.

    With `is_centered`, rows are centered first, and the metric is the correlation.

    The direction of a row is the row divided by its length. The distance c between two directions,
    from 0 to 2, decides: c^2 / 2 is the cosine distance, but c also tells small angles apart, where
    cosines all round to 1. Directions are rounded, so c is off by some 1e-16, and equal angles
    would be ordered by rounding. Hence the definition: two training rows tie if their distances c
    from the direction of the query are equal after rounding to a multiple of GRID.

    Rows of small whole numbers (counts) need no rounding: their cosines are compared as fractions,
    exactly.
    """

    # For whole numbers.
    uses_blas = True

    def __init__(self, X: Any, *, is_centered: bool = False) -> None:
        self._convert: Callable[[Any], Any] = partial(_scale_rows, is_centered=is_centered)
        is_dense = not is_sparse(X)
        if is_dense:
            super().__init__(Converted(X, self._convert))
            self._directions: Any = Converted(self._points, _directions)
        else:
            super().__init__(self._convert(X))
            self._directions = _directions(self._points)

        self._is_zero = np.zeros(X.shape[0], dtype=bool)
        self._all_whole = True
        self._max_square = 0.0
        for start, rows in blocks(self._points):
            squares = _squares(rows)
            self._is_zero[start : start + rows.shape[0]] = squares == 0.0
            self._all_whole &= bool(_are_whole(rows).all())
            self._max_square = max(self._max_square, float(squares.max()))

        # A row of zeros is at distance 1 from every row, which no product shows.
        self.has_products = is_dense and not self._is_zero.any()

    def __call__(self, queries: Any) -> FloatMatrix:
        rows = self._convert(queries)
        keys = _round_to_grid(squared_distances(_directions(rows), self._directions))
        keys[:, self._is_zero] = RIGHT_ANGLE
        keys[_squares(rows) == 0.0] = RIGHT_ANGLE
        is_exact = self._is_exact(rows)
        if is_exact.any():
            keys[is_exact] = self._fractions(rows[is_exact])
        return keys

    def as_distances(self, keys: FloatMatrix, queries: Any) -> FloatMatrix:
        rows = self._convert(queries)
        is_exact = self._is_exact(rows)[:, None]
        query_squares = np.where(is_exact, _squares(rows)[:, None], 1.0)
        cosines = -np.sign(keys) * np.sqrt(np.abs(keys) / query_squares)
        by_grid = np.where(keys == RIGHT_ANGLE, 1.0, keys / 2.0)
        return np.where(is_exact, np.maximum(1.0 - cosines, 0.0), by_grid)

    def within(self, radius: float) -> Vicinity:
        # Whether fractions are exact depends on all training rows. The grid serves every pair
        # alike.
        by_grid = copy.copy(self)
        by_grid._all_whole = False
        steps = math.sqrt(2.0 * radius) / GRID + ANGLE_ROUNDING
        length = float(np.rint(steps)) * GRID
        return Vicinity(by_grid, length * length)

    def products(self, *, single: bool) -> Products:
        # Rounding to the grid moves a squared distance by up to 2 GRID, two by 4; once more, to be
        # safe.
        return Products(
            self._directions,
            single=single,
            prepare=self._deciding_directions,
            exact=self._exact,
            rounding=8.0 * GRID,
        )

    def _exact(self, query: FloatVector) -> ExactKeys:
        return lambda rows: _round_to_grid(pairs_with(query, self._directions, rows))

    def _deciding_directions(self, queries: Any) -> FloatMatrix:
        """Directions of queries; NaN where directions do not decide."""
        rows = self._convert(queries)
        is_deciding = (_squares(rows) > 0.0) & ~self._is_exact(rows)
        return np.where(is_deciding[:, None], _directions(rows), np.nan)

    def _is_exact(self, queries: Any) -> BoolVector:
        """Whether floats hold the cosines of each query and all training rows as exact fractions.

        They do if all numbers are whole and not too large.
        """
        if not self._all_whole:
            return np.zeros(queries.shape[0], dtype=bool)
        # Two fractions over the squares of training rows differ by at least one over the product of
        # these squares.
        max_product = self._max_square * self._max_square
        is_told_apart = max_product * _squares(queries) < MAX_EXACT_FRACTION
        return _are_whole(queries) & is_told_apart

    def _fractions(self, queries: Any) -> FloatMatrix:
        """Minus the signed squares of the cosines, times |query|^2.

        That takes one division, so equal fractions round alike.
        """
        keys = np.empty((queries.shape[0], self._points.shape[0]))
        for start, rows in blocks(self._points):
            dots = queries @ rows.T
            if is_sparse(dots):
                dots = dots.toarray()
            squares = _squares(rows)
            divisors = np.where(squares > 0.0, squares, 1.0)
            keys[:, start : start + rows.shape[0]] = -dots * np.abs(dots) / divisors
        return keys


def _scale_rows(X: Any, is_centered: bool) -> Any:
    """Rows times powers of two, and centered without a division.

    Small whole numbers stay whole, and nothing rounds.
    """
    if is_sparse(X):
        return _combine_by_row(np.ldexp, X, _scaling_exponents(X))
    rows = np.array(X, dtype=np.float64, order="C")
    if is_centered:
        max_magnitudes = np.abs(rows).max(axis=1)
        # So an offset drops out unrounded.
        rows -= rows[:, :1].copy()
        is_constant = np.abs(rows).max(axis=1) <= MAX_CONSTANT_SPREAD * max_magnitudes
        rows[is_constant] = 0.0
    rows = _combine_by_row(np.ldexp, rows, _scaling_exponents(rows))
    if not is_centered:
        return rows
    return rows * rows.shape[1] - rows.sum(axis=1, keepdims=True)


def _scaling_exponents(rows: Any) -> npt.NDArray[np.int32]:
    """Binary exponents that bring the largest number of each row near 1.

    They are 0 for rows of small whole numbers.
    """
    max_magnitudes = abs(rows).max(axis=1)
    if is_sparse(rows):
        max_magnitudes = max_magnitudes.toarray().ravel()
    stays = _are_whole(rows) & (max_magnitudes < MAX_SMALL_WHOLE)
    return np.where(stays, 0, -np.frexp(max_magnitudes)[1])


def _directions(rows: Any) -> Any:
    """Rows of length 1; rows of zeros stay as they are."""
    squares = _squares(rows)
    lengths = np.sqrt(np.where(squares > 0.0, squares, 1.0))
    return _combine_by_row(np.divide, rows, lengths)


def _combine_by_row(
    operation: Callable[[Any, Any], Any], rows: Any, row_numbers: npt.NDArray[Any]
) -> Any:
    """Every entry combined with the number that belongs to its row."""
    if not is_sparse(rows):
        return operation(rows, row_numbers[:, None])
    data = operation(rows.data, np.repeat(row_numbers, np.diff(rows.indptr)))
    return type(rows)((data, rows.indices, rows.indptr), rows.shape)


def _squares(rows: Any) -> FloatVector:
    """Squared lengths, added in the same order for sparse and dense rows."""
    shape = (1, rows.shape[1])
    origin = type(rows)(shape) if is_sparse(rows) else np.zeros(shape)
    return np.asarray(squared_distances(origin, rows)[0])


def _are_whole(rows: Any) -> BoolVector:
    """Whether all numbers of each row are whole."""
    truncated = rows.trunc() if is_sparse(rows) else np.trunc(rows)
    return np.asarray((rows != truncated).sum(axis=1) == 0).ravel()


def _round_to_grid(squares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Squares of the same distances rounded to GRID, in place."""
    for row in np.atleast_2d(squares):
        np.sqrt(row, out=row)
        row /= GRID
        np.rint(row, out=row)
        row *= GRID
        np.square(row, out=row)
    return squares


class PairwiseKeys(Keys):
    """Any other metric, through scikit-learn."""

    uses_blas = True

    def __init__(self, X: Any, metric: Any, params: dict[str, Any]) -> None:
        self._metric = metric
        self._params = params
        super().__init__(Converted(X, self._convert))
        # A metric that cannot work should fail in `fit`.
        self(self._points[:1])

    def __call__(self, queries: Any) -> FloatMatrix:
        from sklearn.metrics import pairwise_distances

        rows = self._convert(queries)
        keys = np.empty((len(rows), len(self._points)))
        try:
            for start, points in blocks(self._points):
                block_keys = pairwise_distances(rows, points, metric=self._metric, **self._params)
                if self._metric in POWER_METRICS:
                    self._measure_small_again(block_keys, rows, points)
                keys[:, start : start + len(points)] = block_keys
        except (TypeError, ValueError) as error:
            reason = str(error).splitlines()[0][:200]
            raise ValueError(
                f"metric={self._metric!r} does not work on these data: {reason}"
            ) from error
        return _refuse_undefined(keys, self._metric)

    def _measure_small_again(
        self, keys: FloatMatrix, queries: FloatMatrix, points: FloatMatrix
    ) -> None:
        """Replace distances whose powers may vanish, in place.

        They are measured again from differences that are scaled to about 1.
        """
        from sklearn.metrics import pairwise_distances

        power = float(self._params.get("p", 2))
        pairs = np.flatnonzero(keys < 2.0 ** (SMALL_POWER_EXPONENT / power))
        origin = np.zeros((1, points.shape[1]))
        step = max(1, BLOCK // max(1, points.shape[1]))
        for start in range(0, len(pairs), step):
            query, row = np.divmod(pairs[start : start + step], len(points))
            differences = points[row] - queries[query]
            exponents = np.frexp(np.abs(differences).max(axis=1))[1]
            scaled = np.ldexp(differences, -exponents[:, None])
            distances = pairwise_distances(origin, scaled, metric=self._metric, **self._params)[0]
            keys[query, row] = np.ldexp(distances, exponents)

    def _convert(self, X: Any) -> npt.NDArray[Any]:
        is_boolean = self._metric in BOOLEAN_METRICS
        if is_boolean and X.dtype != bool and not np.isin(X, (0, 1)).all():
            raise ValueError(
                f"metric={self._metric!r} compares truths, not other numbers than 0 and 1. Use X"
                " != 0."
            )
        return np.ascontiguousarray(X, dtype=bool if is_boolean else np.float64)


def _refuse_undefined(keys: FloatMatrix, metric: Any) -> FloatMatrix:
    """The keys, unless some of them cannot be ranked.

    NaN ranks nowhere. Infinity from a named metric is an overflow that would tie what is not tied.
    """
    is_undefined = np.isnan(keys) if callable(metric) else ~(keys < np.inf)
    if is_undefined.any():
        query, point = map(int, np.argwhere(is_undefined)[0])
        kind = "NaN" if np.isnan(keys[query, point]) else "infinity"
        where = f"for example between training row {point} and query {query} of its batch"
        advice = (
            "Such points cannot be ranked: change the metric, rescale the features or drop these"
            " rows."
        )
        raise ValueError(f"metric={metric!r} gives {kind}, {where}. {advice}")
    return keys
