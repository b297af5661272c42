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
SMALL_POWER_BITS = -900  # likewise, the exponent of other powers
# Squares below it are measured again, from differences times this power of two. The smallest
# difference of two floats, 2**-1074, then has the square 2**-948, and no such square reaches
# 2**400.
ENLARGEMENT_BITS = 600
# Bits of the float 2**400 plus bits of the smallest normal float: a key stays a normal number.
MIRROR = ((400 + 1023) << 52) + (1 << 52)
PRODUCT_TOP = 600  # binary exponent of the largest product after scaling
# Coarse beside the rounding of directions, so that equal angles nearly always share a multiple (and
# right angles always do: sqrt(2) is a quarter of a step away from where rounding changes), and fine
# beside any angle that data can mean.
GRID = 2.0**-40
CONSTANT = 2.0**-50  # relative differences within a row that are nothing but rounding
EXACT = 2.0**52  # fractions of whole numbers below it are told apart by floats
LARGEST_WHOLE = 2.0**26  # the square is EXACT
RIGHT_ANGLE = (round(2.0**0.5 / GRID) * GRID) ** 2
# Share of a step of the grid by which a radius is enlarged before it is rounded: more than the
# rounding errors of a distance between directions, so that a row exactly at the radius never rounds
# to the next step.
ANGLE_ROUNDING = 2.0**-8

EUCLIDEAN = ("euclidean", "l2", "sqeuclidean")
MANHATTAN = ("manhattan", "l1", "cityblock")
INNER = "inner_product"
BOOLEAN = (
    "dice",
    "jaccard",
    "rogerstanimoto",
    "russellrao",
    "sokalmichener",
    "sokalsneath",
    "yule",
)
WITHOUT_PARAMETERS = (*EUCLIDEAN, INNER, "cosine", "correlation", "nan_euclidean")
SCALES = {
    "seuclidean": "{'V': X.var(axis=0, ddof=1)}",
    "mahalanobis": "{'VI': np.linalg.inv(np.cov(X.T))}",
}
# Metrics of differences that grow in proportion to these, and raise them to a power on the way.
OF_POWERS = ("minkowski", "seuclidean", "mahalanobis")
SPARSE = (*EUCLIDEAN, *MANHATTAN, "cosine")


def make_keys(X: Any, metric: Any, metric_params: Mapping[str, Any] | None) -> Keys:
    """The keys of a metric on a checked training matrix (None where the user brings distances)."""
    params = dict(metric_params or {})
    if metric == "precomputed":
        return GivenKeys()
    _check_metric(metric, params, sparse=is_sparse(X))
    if metric in EUCLIDEAN:
        return EuclideanKeys(X, is_squared=metric == "sqeuclidean")
    if metric in ("cosine", "correlation"):
        return CosineKeys(X, centred=metric == "correlation")
    if is_sparse(X):
        return SparseManhattanKeys(X)
    if metric == INNER:
        return InnerProductKeys(X)
    if metric == "nan_euclidean":
        return NanEuclideanKeys(X)
    return PairwiseKeys(X, metric, params)


def _check_metric(metric: Any, params: Mapping[str, Any], *, sparse: bool) -> None:
    if metric in WITHOUT_PARAMETERS:
        if params:
            raise ValueError(
                f"metric_params={dict(params)!r} has no meaning for metric={metric!r}, which takes"
                " none."
            )
    elif not callable(metric):
        from sklearn.neighbors import VALID_METRICS

        known = sorted({*VALID_METRICS["brute"], *WITHOUT_PARAMETERS, *BOOLEAN, "precomputed"})
        if metric not in known:
            raise ValueError(f"metric={metric!r} is not known. {did_you_mean(metric, known)}")
        if metric in SCALES and not params.keys() & {
            "V",
            "VI",
        }:  # scipy would take one from each batch of queries
            raise ValueError(
                f"metric={metric!r} needs a scale, such as metric_params={SCALES[metric]}."
            )
    if sparse and metric not in SPARSE:
        allowed = ", ".join(map(repr, SPARSE))
        raise ValueError(
            f"metric={metric!r} does not work on sparse data. Use one of {allowed}, or X.toarray()."
        )


class Vicinity(NamedTuple):
    """What is within a radius: a row whose key is at most `largest`.

    The keys depend on the row and the query alone. No other training row changes whether a row is
    within the radius.
    """

    keys: Keys
    largest: float


class Keys:
    """Rank keys of a metric: `keys(queries)` gives a number for each query and training point, (Q,
    N) in C order.

    Smaller is nearer, equal is a tie. A key need not be a distance: any increasing function of it
    ranks alike, and the keys of one query may be scaled as it suits that query. The keys of a query
    depend on it and on the training set alone: to the bit the same whatever else is in its batch,
    and whether the numbers are stored dense or sparse, in memory or in a file, in 32 bits or in 64.

    Where `has_products`, a matrix product gives approximate keys much faster (quantised.py). They
    never decide: points that they cannot tell apart are compared by exact keys of the pair, which
    rank as those of `keys(queries)`.
    """

    has_products = False
    has_distances = True
    uses_blas = False  # for exact keys; products are our own
    # dense training rows, if nearest neighbours are those of a searcher: by Euclidean distance
    data: Any = None

    def __init__(self, points: Any = None) -> None:
        self._points = points  # training rows as they are compared; None if queries are distances

    def __call__(self, queries: Any) -> FloatMatrix:
        raise NotImplementedError

    def as_distances(self, keys: FloatMatrix, queries: Any) -> FloatMatrix:  # noqa: ARG002
        """Distances of the metric, from exact keys of these queries."""
        return keys

    def within(self, radius: float) -> Vicinity:
        """The rows not farther than this distance; one exactly at it is inside."""
        return Vicinity(self, radius)

    def products(self, *, single: bool) -> Products:
        """Approximate keys; in single precision if `single` and it serves."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Numbers in a dense query, of which a few copies are made; 0 for others."""
        return 0 if self._points is None or is_sparse(self._points) else int(self._points.shape[1])

    @property
    def streamed(self) -> bool:
        """Whether every pass over the training points reads a file."""
        return streamed(self._points)

    @property
    def converted(self) -> bool:
        """Whether every pass over the training points converts them."""
        return isinstance(self._points, Converted)


class GivenKeys(Keys):
    """Distances that the user brings: one row per validation point, one column per training
    point.
    """

    def __call__(self, queries: Any) -> FloatMatrix:
        return np.array(
            queries, dtype=np.float64, order="C"
        )  # a copy, which evaluators may write to


class EuclideanKeys(Keys):
    """Squared distances from differences, to the bit the same of dense and of sparse rows.

    Squares below SMALL_SQUARE lose bits, or vanish. Where there may be such squares, these pairs
    are measured again from enlarged differences. All squares together span more than the positive
    floats do. So the keys of small ones are negative, in the order of the distances
    (`_key_of_enlarged`), and identical rows then have the key -infinity.
    """

    def __init__(self, X: Any, *, is_squared: bool = False) -> None:
        super().__init__(readable(X))
        self.is_squared = is_squared  # the distances that users mean
        largest, self._has_tiny = _magnitudes(X)
        self.exponent = int(np.frexp(largest)[1])  # of the largest number
        if not is_sparse(X):
            self.data = X
            self.has_products = TINY <= largest < 2.0**EXTREME

    def __call__(self, queries: Any) -> FloatMatrix:
        queries = _as_doubles(queries)
        keys = self._squares(queries)
        self._measure_small_again(keys, queries)
        return keys

    def listed(self, queries: Any, rows: IntMatrix) -> FloatMatrix:
        """Keys of each query and its own list of training points, infinity for -1; the same as
        those of all pairs.
        """
        queries, there = _as_doubles(queries), np.maximum(rows, 0).astype(np.int32)
        keys = listed_pairs(queries, self._points, there)
        self._measure_small_again(keys, queries, there)
        return np.where(rows < 0, np.inf, keys)

    def order(self, queries: Any, rows: IntMatrix) -> Neighbours:
        """Points that were found for each query, nearest first, equal ones by index."""
        keys = self.listed(queries, rows)
        order = np.argsort(keys, axis=1)
        ordered = np.take_along_axis(keys, order, axis=1)
        tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if len(tied):  # rare, and the slower of the two sorts
            order[tied] = np.lexsort((rows[tied], keys[tied]), axis=1)
        return Neighbours(np.take_along_axis(rows, order, axis=1).astype(np.intp), ordered)

    def as_distances(self, keys: FloatMatrix, queries: Any) -> FloatMatrix:  # noqa: ARG002
        is_small = keys < 0.0
        distances = np.array(keys) if self.is_squared else np.sqrt(np.where(is_small, 0.0, keys))
        if is_small.any():
            squares = _enlarged_of_key(keys[is_small])
            if self.is_squared:
                distances[is_small] = np.ldexp(squares, -2 * ENLARGEMENT_BITS)
            else:
                distances[is_small] = np.ldexp(np.sqrt(squares), -ENLARGEMENT_BITS)
        return distances

    def within(self, radius: float) -> Vicinity:
        square_at_most = SMALL_SQUARE if self.is_squared else SMALL_SQUARE**0.5
        if radius >= square_at_most:
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
        return Products(self._points, single=single, exact=self._exact if self._has_tiny else None)

    def _exact(self, query: FloatVector) -> ExactKeys:
        return lambda rows: np.asarray(self.listed(query[None], rows[None].astype(np.intp))[0])

    def _squares(self, queries: Any) -> FloatMatrix:
        """Squared distances of all pairs, which vanish if they are too small."""
        return squared_distances(queries, self._points)

    def _enlarged(self, queries: Any, rows: IntVector) -> FloatVector:
        """The same of each query and one point, times 2**(2 * ENLARGEMENT_BITS): these do not
        vanish.
        """
        return enlarged_squares(queries, self._points, rows, 2.0**ENLARGEMENT_BITS)

    def _measure_small_again(self, keys: FloatMatrix, queries: Any, rows: Any = None) -> None:
        """Replace small squares by their keys; those of a list of `rows` for each query, or of all
        points.
        """
        # If neither the query nor training rows have tiny numbers, no square vanishes.
        may_vanish = np.full(len(keys), True) if self._has_tiny else _have_tiny(queries)
        if not may_vanish.any():
            return

        is_small = keys < SMALL_SQUARE
        is_small[~may_vanish] = False
        of_query, columns = np.divmod(
            np.flatnonzero(is_small), keys.shape[1]
        )  # faster than nonzero of a matrix
        step = max(1, BLOCK // max(1, queries.shape[1]))
        for start in range(0, len(columns), step):
            q, column = of_query[start : start + step], columns[start : start + step]
            some = column if rows is None else rows[q, column]
            keys[q, column] = _key_of_enlarged(self._enlarged(queries[q], some))


def _have_tiny(queries: Any) -> BoolVector:
    """Whether each row has a tiny number."""
    if is_sparse(queries):
        tiny = type(queries)(
            (_is_tiny(queries.data), queries.indices, queries.indptr), queries.shape
        )
        return np.asarray(tiny.sum(axis=1) > 0).ravel()
    return np.asarray(_is_tiny(queries).any(axis=1))


def _as_doubles(queries: Any) -> Any:
    return queries if is_sparse(queries) else np.ascontiguousarray(queries, dtype=np.float64)


def _key_of_enlarged(squares: FloatVector) -> FloatVector:
    """Negative numbers in the order of these squares below 2**400: the bits of a float, counted
    from the other end.
    """
    keys = -(MIRROR - squares.view(np.int64)).view(np.float64)
    return np.where(squares > 0.0, keys, -np.inf)


def _enlarged_of_key(keys: FloatVector) -> FloatVector:
    """The inverse of `_key_of_enlarged`."""
    finite = np.where(np.isfinite(keys), -keys, 1.0)
    return np.where(np.isfinite(keys), (MIRROR - finite.view(np.int64)).view(np.float64), 0.0)


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
    largest, has_tiny = 0.0, False
    for _, rows in blocks(X):
        numbers = rows.data if is_sparse(rows) else rows
        ends = (float(end.reduce(numbers, axis=None, initial=0)) for end in (np.fmax, np.fmin))
        largest = max(largest, *map(abs, ends))
        if X.dtype.kind == "f" and X.dtype.itemsize >= 8:
            has_tiny |= bool(_is_tiny(numbers).any())
    return largest, has_tiny


class SparseManhattanKeys(Keys):
    """Sums of absolute differences of sparse rows."""

    def __call__(self, queries: Any) -> FloatMatrix:
        return sparse_distances(queries, self._points, 1)


class NanEuclideanKeys(EuclideanKeys):
    """scikit-learn's nan_euclidean: squared differences where both are present, scaled up for the
    absent ones.
    """

    def __init__(self, X: Any) -> None:
        super().__init__(X)
        self.data, self.has_products = None, False

    def __call__(self, queries: Any) -> FloatMatrix:
        return _refuse_undefined(super().__call__(queries), "nan_euclidean")

    def _squares(self, queries: Any) -> FloatMatrix:
        keys = np.empty((len(queries), len(self._points)))
        for start, rows in blocks(self._points):
            for key, query in zip(keys, queries, strict=True):
                key[start : start + len(rows)] = _squares_of_present(rows - query)
        return keys

    def _enlarged(self, queries: Any, rows: IntVector) -> FloatVector:
        return _squares_of_present((self._points[rows] - queries) * 2.0**ENLARGEMENT_BITS)


def _squares_of_present(differences: FloatMatrix) -> FloatVector:
    """Sums of squares over the columns where both numbers are present, for all columns in
    proportion.
    """
    squares = differences**2
    present = np.count_nonzero(~np.isnan(squares), axis=1)
    share = squares.shape[1] / np.where(present, present, np.nan)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(squares, axis=1) * share)


class InnerProductKeys(Keys):
    """Minus the inner product: the most similar point is the nearest."""

    has_distances = False

    def __init__(self, X: Any) -> None:
        super().__init__(readable(X))
        largest, _ = _magnitudes(X)
        self._exponent = int(np.frexp(largest)[1])
        self.has_products = TINY <= largest < 2.0**EXTREME

    def __call__(self, queries: Any) -> FloatMatrix:
        return all_pairs(-self._scaled(queries, PRODUCT_TOP), self._points, product=True)

    def as_distances(self, keys: FloatMatrix, queries: Any) -> FloatMatrix:  # noqa: ARG002
        raise ValueError(
            "metric='inner_product' has no distances, which radius and weights need. Use 'cosine'."
        )

    def within(self, radius: float) -> Vicinity:  # noqa: ARG002
        raise ValueError(
            "metric='inner_product' has no distances, which radius and weights need. Use 'cosine'."
        )

    def products(self, *, single: bool) -> Products:  # noqa: ARG002 - single precision would not serve here
        like_points = partial(self._scaled, top=2 * self._exponent)
        return Products(
            self._points, single=False, prepare=like_points, exact=self._exact, inner=True
        )

    def _exact(self, query: FloatVector) -> ExactKeys:
        return partial(
            pairs_with, -self._scaled(query[None], PRODUCT_TOP)[0], self._points, product=True
        )

    def _scaled(self, queries: Any, top: int) -> FloatMatrix:
        """Queries scaled by powers of two to a largest product of 2**top: so high that none that
        matters vanishes.
        """
        rows = np.asarray(queries, dtype=np.float64)
        own = np.frexp(np.abs(rows).max(axis=1, keepdims=True))[1]
        return np.asarray(
            np.ldexp(rows, min(top - self._exponent, 1000) - own)
        )  # queries must not overflow


class CosineKeys(Keys):
    """Squared distances between directions, rounded so that equal angles tie; of `centred` rows,
    correlations.

    The direction of a row is the row divided by its length. The distance c between two directions,
    from 0 to 2, decides: c^2 / 2 is the cosine distance, but c also tells small angles apart, where
    cosines all round to 1. Directions are rounded, so c is off by some 1e-16, and equal angles
    would be ordered by rounding. Hence the definition: two training rows tie if their distances c
    from the direction of the query are equal after rounding to a multiple of GRID.

    Rows of small whole numbers (counts) need no rounding: their cosines are compared as fractions,
    exactly.
    """

    uses_blas = True  # for whole numbers

    def __init__(self, X: Any, *, centred: bool = False) -> None:
        self._convert: Callable[[Any], Any] = partial(_scaled_rows, centred=centred)
        dense = not is_sparse(X)
        super().__init__(Converted(X, self._convert) if dense else self._convert(X))
        self._directions = (
            Converted(self._points, _directions) if dense else _directions(self._points)
        )
        self._zero = np.zeros(X.shape[0], dtype=bool)
        self._whole, self._largest_square = True, 0.0
        for start, rows in blocks(self._points):
            squares = _squares(rows)
            self._zero[start : start + rows.shape[0]] = squares == 0.0
            self._whole &= bool(_whole(rows).all())
            self._largest_square = max(self._largest_square, float(squares.max()))
        self.has_products = (
            dense and not self._zero.any()
        )  # no product says that a zero row is at distance 1

    def __call__(self, queries: Any) -> FloatMatrix:
        rows = self._convert(queries)
        keys = _on_grid(squared_distances(_directions(rows), self._directions))
        keys[:, self._zero] = keys[_squares(rows) == 0.0] = RIGHT_ANGLE
        exact = self._is_exact(rows)
        if exact.any():
            keys[exact] = self._fractions(rows[exact])
        return keys

    def as_distances(self, keys: FloatMatrix, queries: Any) -> FloatMatrix:
        rows = self._convert(queries)
        is_exact = self._is_exact(rows)[:, None]
        cosines = -np.sign(keys) * np.sqrt(
            np.abs(keys) / np.where(is_exact, _squares(rows)[:, None], 1.0)
        )
        by_grid = np.where(keys == RIGHT_ANGLE, 1.0, keys / 2.0)
        return np.where(is_exact, np.maximum(1.0 - cosines, 0.0), by_grid)

    def within(self, radius: float) -> Vicinity:
        # Whether fractions are exact depends on all training rows. The grid serves every pair
        # alike.
        by_grid = copy.copy(self)
        by_grid._whole = False
        steps = math.sqrt(2.0 * radius) / GRID + ANGLE_ROUNDING
        length = float(np.rint(steps)) * GRID
        return Vicinity(by_grid, length * length)

    def products(self, *, single: bool) -> Products:
        # Rounding to the grid moves a squared distance by up to 2 GRID, two by 4; once more, to be
        # safe.
        prepare, rounding = self._directions_of, 8.0 * GRID
        return Products(
            self._directions, single=single, prepare=prepare, exact=self._exact, rounding=rounding
        )

    def _exact(self, query: FloatVector) -> ExactKeys:
        return lambda rows: _on_grid(pairs_with(query, self._directions, rows))

    def _directions_of(self, queries: Any) -> FloatMatrix:
        """Directions of queries; NaN where they do not decide."""
        rows = self._convert(queries)
        decide = (_squares(rows) > 0.0) & ~self._is_exact(rows)
        return np.where(decide[:, None], _directions(rows), np.nan)

    def _is_exact(self, queries: Any) -> BoolVector:
        """Queries whose cosines with all training rows are fractions of whole numbers that floats
        tell apart.
        """
        if not self._whole:
            return np.zeros(queries.shape[0], dtype=bool)
        largest = self._largest_square * self._largest_square
        return _whole(queries) & (largest * _squares(queries) < EXACT)

    def _fractions(self, queries: Any) -> FloatMatrix:
        """Minus the signed squares of the cosines, times |query|^2: one division, so equal
        fractions round alike.
        """
        keys = np.empty((queries.shape[0], self._points.shape[0]))
        for start, rows in blocks(self._points):
            dots, squares = queries @ rows.T, _squares(rows)
            dots = dots.toarray() if is_sparse(dots) else dots
            keys[:, start : start + rows.shape[0]] = (
                -dots * np.abs(dots) / np.where(squares > 0.0, squares, 1.0)
            )
        return keys


def _scaled_rows(X: Any, centred: bool) -> Any:
    """Rows scaled by powers of two, and centred without a division: small whole numbers stay whole,
    nothing rounds.
    """
    if is_sparse(X):
        return _by_row(np.ldexp, X, _exponents(X))
    rows = np.array(X, dtype=np.float64, order="C")
    if centred:
        largest = np.abs(rows).max(axis=1)
        rows -= rows[:, :1].copy()  # an offset drops out unrounded
        rows[np.abs(rows).max(axis=1) <= CONSTANT * largest] = 0.0
    rows = _by_row(np.ldexp, rows, _exponents(rows))
    return rows * rows.shape[1] - rows.sum(axis=1, keepdims=True) if centred else rows


def _exponents(rows: Any) -> npt.NDArray[np.int32]:
    """Binary exponents that bring the largest number of each row near 1; 0 for small whole
    numbers.
    """
    largest = abs(rows).max(axis=1)
    largest = largest.toarray().ravel() if is_sparse(rows) else largest
    return np.where(_whole(rows) & (largest < LARGEST_WHOLE), 0, -np.frexp(largest)[1])


def _directions(rows: Any) -> Any:
    """Rows of length 1; rows of zeros stay as they are."""
    squares = _squares(rows)
    return _by_row(np.divide, rows, np.sqrt(np.where(squares > 0.0, squares, 1.0)))


def _by_row(operation: Callable[[Any, Any], Any], rows: Any, numbers: npt.NDArray[Any]) -> Any:
    """Every entry combined with the number of its row."""
    if not is_sparse(rows):
        return operation(rows, numbers[:, None])
    data = operation(rows.data, np.repeat(numbers, np.diff(rows.indptr)))
    return type(rows)((data, rows.indices, rows.indptr), rows.shape)


def _squares(rows: Any) -> FloatVector:
    """Squared lengths, added in one order: sparse and dense rows have the same."""
    origin = type(rows)((1, rows.shape[1])) if is_sparse(rows) else np.zeros((1, rows.shape[1]))
    return np.asarray(squared_distances(origin, rows)[0])


def _whole(rows: Any) -> BoolVector:
    truncated = rows.trunc() if is_sparse(rows) else np.trunc(rows)
    return np.asarray((rows != truncated).sum(axis=1) == 0).ravel()


def _on_grid(squares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
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
        self._metric, self._params = metric, params
        super().__init__(Converted(X, self._convert))
        self(self._points[:1])  # a metric that cannot work should say so in fit

    def __call__(self, queries: Any) -> FloatMatrix:
        from sklearn.metrics import pairwise_distances

        rows = self._convert(queries)
        keys = np.empty((len(rows), len(self._points)))
        try:
            for start, points in blocks(self._points):
                some = pairwise_distances(rows, points, metric=self._metric, **self._params)
                if self._metric in OF_POWERS:
                    self._measure_small_again(some, rows, points)
                keys[:, start : start + len(points)] = some
        except (TypeError, ValueError) as error:
            reason = str(error).splitlines()[0][:200]
            raise ValueError(
                f"metric={self._metric!r} does not work on these data: {reason}"
            ) from error
        return _refuse_undefined(keys, self._metric)

    def _measure_small_again(
        self, keys: FloatMatrix, rows: FloatMatrix, points: FloatMatrix
    ) -> None:
        """Replace distances whose powers may vanish, by those of differences that are scaled to
        about 1.
        """
        from sklearn.metrics import pairwise_distances

        power = float(self._params.get("p", 2))
        pairs = np.flatnonzero(keys < 2.0 ** (SMALL_POWER_BITS / power))
        origin, step = np.zeros((1, points.shape[1])), max(1, BLOCK // max(1, points.shape[1]))
        for start in range(0, len(pairs), step):
            q, i = np.divmod(pairs[start : start + step], len(points))
            differences = points[i] - rows[q]
            exponents = np.frexp(np.abs(differences).max(axis=1))[1]
            scaled = np.ldexp(differences, -exponents[:, None])
            found = pairwise_distances(origin, scaled, metric=self._metric, **self._params)[0]
            keys[q, i] = np.ldexp(found, exponents)

    def _convert(self, X: Any) -> npt.NDArray[Any]:
        truths = self._metric in BOOLEAN
        if truths and X.dtype != bool and not np.isin(X, (0, 1)).all():
            raise ValueError(
                f"metric={self._metric!r} compares truths, not other numbers than 0 and 1. Use X"
                " != 0."
            )
        return np.ascontiguousarray(X, dtype=bool if truths else np.float64)


def _refuse_undefined(keys: FloatMatrix, metric: Any) -> FloatMatrix:
    """NaN ranks nowhere; infinity from a named metric is an overflow that would tie what is not
    tied.
    """
    strange = np.isnan(keys) if callable(metric) else ~(keys < np.inf)
    if strange.any():
        query, point = map(int, np.argwhere(strange)[0])
        found = "NaN" if np.isnan(keys[query, point]) else "infinity"
        where = f"for example between training row {point} and query {query} of its batch"
        advice = (
            "Such points cannot be ranked: change the metric, rescale the features or drop these"
            " rows."
        )
        raise ValueError(f"metric={metric!r} gives {found}, {where}. {advice}")
    return keys
