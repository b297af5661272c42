"""The paper's Algorithm 1: nearest neighbours through locality-sensitive hash tables.

One hash of a point is floor((w.x + b) / width), w Gaussian and b uniform in [0, width). The M
hashes of a table are folded into one 64-bit number, and a table is the training points sorted by
it. Different hashes fold into the same number with probability of about 2^-60; that adds a
candidate, which is ranked by its distance, and loses none.

The probability of a collision depends on the distance only. So sampled distances say in advance
which share of the neighbours L tables of M hashes find, and how many other points come along.
Nearly all the cost is in candidates far beyond K*, not in the next neighbour of the theorem.

For a query with probability p1 of one collision with its K*-th neighbour and p2 with the next
point, Theorem 4 takes M = ln N / ln(1/p2) hashes, so that about one far point collides per table,
and L = N^c ln(K*/delta) tables with c = ln p1 / ln p2. For all queries at once it takes the largest
p2 for M and the largest c for L. That is not enough: a sparse query has p1^M = N^(-ln p1 / ln
pmax), so the exponent must be ln(min p1) / ln(max p2), which may exceed 1. Nor does it bound the
candidates well: K* neighbours are found once, not once per table.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.inputs.features import fingerprint
from nearworth.inputs.parameters import as_generator, positive_or_none, seed, share, whole_number
from nearworth.neighbors.distances import EXTREME, pairs_with, squared_distances
from nearworth.neighbors.exact import IndexSearch, Sample, Tuning, smallest
from nearworth.neighbors.searchers import Neighbours

# Products are made of panels of one shape: a BLAS rounds other shapes differently, and a hash is a
# rounded number.
PANEL = 256
# 32 bits will do if they are off by less than this share of a hash's width.
MAX_SINGLE_ERROR = 1e-3
# Largest relative error of one rounded operation in 32 bits.
UNIT_32 = 2.0**-24
# Far out, floats get too coarse for codes (or are no numbers): one bucket for all of it.
MAX_CODE = 2.0**40
# Queries that the work of building tables is weighed against, unless they are given.
EXPECTED_QUERIES = 10_000
# Widths that are tried, as multiples of the distance of the K*-th neighbor.
WIDTHS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0, 24.0, 48.0)
MAX_HASHES = 40
# With fewer tables, the recall of one draw of hash functions is a matter of luck.
MIN_TABLES = 32
MAX_TABLES = 2000
# An entry is one point in one table, and takes 12 bytes.
MAX_ENTRIES = 150_000_000
# Points among which distances beyond the K*-th are sampled, ranks of neighbors that stand for all
# K*, and distances that stand for all beyond.
SAMPLED_POINTS = 1024
SAMPLED_RANKS = 32
FAR_DISTANCES = 256
# Rough nanoseconds: of a look-up in a table and of one hash, and of a candidate and of one of its
# columns.
LOOK_UP_COST = 50.0
HASH_COST = 1.0
CANDIDATE_COST = 4.0
COLUMN_COST = 1.0
# Points that exact search looks at in the time that one candidate takes.
EXACT_ADVANTAGE = 20


@dataclass(eq=False)
class LSHSearch(IndexSearch):
    """Neighbors among the points that share a bucket with the query in any hash table.

    There are L tables of M hashes.

    Parameters
    ----------
    n_tables, n_hashes, width
        L, M and r of the paper: each is chosen unless given.
    recall
        Share of the neighbors that should be found, on average and for all but a share `delta` of
        the queries.
    delta
        That share; and the probability of failure in the paper's Theorem 4.
    n_threads
        Threads of a search; None for all usable cores. Several callers may search at once.
    random_state
        Seed of the hash functions and of the sample they are chosen from.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> searcher = LSHSearch(random_state=0).fit(X)
    >>> indices, distances = searcher.search(X[:2], 3)
    >>> indices[:, 0].tolist(), distances[:, 0].tolist()
    ([0, 1], [0.0, 0.0])
    """

    n_tables: int | None = None
    n_hashes: int | None = None
    width: float | None = None
    _: KW_ONLY
    delta: float = 0.1
    random_state: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("n_tables", "n_hashes"):
            whole_number(1, or_none=True)(name, getattr(self, name))
        positive_or_none("width", self.width)
        share("delta", self.delta)
        seed("random_state", self.random_state)

    def predict(self, X: Any, k: int, n_queries: int) -> TableTuning:
        """The tables that would be chosen for these training points, and Theorem 4's quantities.

        Nothing is built.
        """
        searcher = copy(self)
        searcher._take(X)
        return searcher._choose(k, None, n_queries)

    def fingerprint(self) -> str:
        """A hash of the hash functions: equal ones give equal answers on equal points."""
        tables = self._tables
        return fingerprint(tables.vectors, tables.offsets, tables.factors, tables.center)

    def _build(self) -> None:
        exponent = self._truth.exponent
        if abs(exponent) >= EXTREME:
            raise ValueError(
                f"X has numbers of about 2**{exponent}, whose squares LSHSearch cannot take."
                " Rescale X."
            )

    def _tune(self, k: int, queries: Any) -> TableTuning:
        """Choose and build the tables, for as many queries as given."""
        n_queries = EXPECTED_QUERIES if queries is None else len(queries)
        tuning = self._choose(k, queries, n_queries)
        _, hashing = self._generators()
        self._tables = HashTables(self._points, **tuning.parameters, rng=hashing)
        return tuning

    def _nearest(self, queries: FloatMatrix, k: int) -> Neighbours:
        lists = self._tables.nearest(queries, k)
        # The distances of a query too far away are no numbers.
        n_finite = np.isfinite(lists.keys).sum(axis=1)
        return lists.first(n_finite)

    def _choose(self, k: int, queries: Any, n_queries: int) -> TableTuning:
        """The cheapest tables that reach the recall, else those that find most.

        What was given stays as it is.
        """
        n_train = len(self._points)
        sampling, _ = self._generators()
        # One neighbor more than K*: Theorem 4 needs its distance.
        sample = self._sample(k + 1, queries, sampling)
        distances = Distances(sample, sampling, self.delta)

        best = self._cheapest(distances, n_queries)
        if distances.following is None:
            return best
        theory = Theory(
            distances.near[:, -1],
            distances.following,
            n_train,
            distances.k,
            width=best.parameters["width"],
            delta=self.delta,
            n_queries=n_queries,
        )
        return replace(best, theory=theory)

    def _cheapest(self, distances: Distances, n_queries: int) -> TableTuning:
        """The cheapest tables that reach the recall, among all widths and numbers of hashes."""
        n_train, n_columns = self._points.shape
        max_tables = max(1, min(MAX_TABLES, MAX_ENTRIES // n_train))
        if self.width is None:
            widths = [distances.typical() * multiple for multiple in WIDTHS]
        else:
            widths = [self.width]
        hash_counts = range(1, MAX_HASHES + 1) if self.n_hashes is None else [self.n_hashes]

        min_cost = math.inf
        options: list[tuple[float, TableTuning]] = []
        for width in widths:
            # More hashes find less, so that they need at least as many tables.
            min_tables = min(MIN_TABLES, max_tables)
            for n_hashes in hash_counts:
                table_counts = self.n_tables or range(min_tables, max_tables)
                option = distances.tuning(table_counts, n_hashes, width, self.recall)
                min_tables = option.parameters["n_tables"]

                # Hashes and look-ups, with a share of building the tables; then ranking.
                table_cost = min_tables * (LOOK_UP_COST + HASH_COST * n_hashes)
                upkeep = table_cost * (1.0 + n_train / n_queries)
                ranking = (CANDIDATE_COST + COLUMN_COST * n_columns) * option.candidates
                cost = upkeep + ranking
                is_enough = min(option.recall, option.recall_low) >= self.recall
                options.append((cost if is_enough else math.inf, option))
                if not is_enough or upkeep > min_cost:
                    # More hashes find still less, and ask for more tables.
                    break
                min_cost = min(min_cost, cost)
        _, best = min(options, key=lambda option: (option[0], -option[1].recall))
        return best

    def _generators(self) -> tuple[Generator, Generator]:
        """One for the sample and one for the hash functions, so that these do not depend on it."""
        sampling, hashing = as_generator(self.random_state).integers(2**63, size=2).tolist()
        return np.random.default_rng(sampling), np.random.default_rng(hashing)


class HashTables:
    """Hash functions, and for each table the training points in the order of their folded hashes.

    Attributes
    ----------
    center : array of shape (d,)
    vectors : array of shape (n_tables, n_hashes, d)
        Gaussian, divided by the width.
    offsets : array of shape (n_tables, n_hashes)
    factors : array of shape (n_tables, n_hashes)
        Odd numbers, which fold the hashes of a table into one number.
    hashes, rows : arrays of shape (n_tables, N)
        Folded hashes of the training points in order, and the row numbers of these points.
    """

    def __init__(
        self, points: npt.NDArray[Any], n_tables: int, n_hashes: int, width: float, rng: Generator
    ) -> None:
        n_train, n_columns = points.shape
        self._points = points
        self.center = points.mean(axis=0, dtype=np.float64)

        ends = np.stack([points.min(axis=0), points.max(axis=0)])
        spread = np.abs(ends - self.center).max(axis=0)
        single_error = np.linalg.norm(spread) * np.sqrt(n_columns) * UNIT_32
        dtype = np.float32 if single_error < MAX_SINGLE_ERROR * width else np.float64
        vectors = rng.standard_normal((n_tables, n_columns, n_hashes)) / width
        self.vectors = vectors.transpose(0, 2, 1).astype(dtype, order="C")
        self.offsets = rng.random((n_tables, n_hashes)).astype(dtype)
        numbers = rng.integers(0, 2**63, (n_tables, n_hashes), dtype=np.uint64)
        self.factors = numbers * np.uint64(2) + np.uint64(1)

        self.hashes = self.codes(points)
        self.rows = np.empty((n_tables, n_train), dtype=np.int32)
        for hashes, rows in zip(self.hashes, self.rows, strict=True):
            rows[:] = np.argsort(hashes)
            hashes[:] = hashes[rows]

    def codes(self, X: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        """Folded hashes of points in each table, (tables, points)."""
        out = np.zeros((len(self.vectors), len(X)), dtype=np.uint64)
        panel = np.zeros((X.shape[1], PANEL), dtype=self.vectors.dtype)
        for start in range(0, len(X), PANEL):
            rows = X[start : start + PANEL]
            # Queries far out collide with nothing.
            with np.errstate(over="ignore", invalid="ignore"):
                panel[:, : len(rows)] = (rows - self.center).T
                products = np.matmul(self.vectors, panel)
            codes = np.floor(products[:, :, : len(rows)] + self.offsets[:, :, None])
            codes[~(np.abs(codes) < MAX_CODE)] = MAX_CODE
            words = codes.astype(np.int64).view(np.uint64)
            # Modulo 2^64.
            out[:, start : start + PANEL] = (words * self.factors[:, :, None]).sum(axis=1)
        return out

    def nearest(self, queries: FloatMatrix, k: int) -> Neighbours:
        """The k nearest of the points that collide with each query, with squared distances."""
        lists = Neighbours.empty(len(queries), k)
        codes = self.codes(queries)
        starts = self._positions(codes, "left")
        stops = self._positions(codes, "right")
        for number, query in enumerate(queries):
            buckets = [
                rows[start:stop]
                for rows, start, stop in zip(
                    self.rows, starts[:, number], stops[:, number], strict=True
                )
            ]
            candidates = np.unique(np.concatenate(buckets))
            size = min(k, len(candidates))
            if size:
                squares = pairs_with(query, self._points, candidates)
                rows, keys = smallest(squares, candidates, size)
                lists.rows[number, :size] = rows
                lists.keys[number, :size] = keys
        return lists

    def _positions(
        self, codes: npt.NDArray[np.uint64], side: Literal["left", "right"]
    ) -> npt.NDArray[np.intp]:
        """Where each code stands in the order of its table, (tables, queries)."""
        pairs = zip(self.hashes, codes, strict=True)
        return np.array([hashes.searchsorted(own_codes, side) for hashes, own_codes in pairs])


def collision_probability(distance: Any, width: float) -> FloatVector:
    """Probability that one hash of this width is equal for two points at this distance.

    >>> [round(float(p), 3) for p in collision_probability([0.0, 1.0, 3.0, 10.0], width=3.0)]
    [1.0, 0.734, 0.369, 0.119]
    """
    from scipy.special import erf

    distances = np.asarray(distance, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        t = np.minimum(width / distances, 1e100)
    boundary = np.sqrt(2.0 / np.pi) * np.expm1(-0.5 * t * t) / np.maximum(t, 1e-300)
    return np.asarray(erf(t / np.sqrt(2.0)) + boundary)


def found_in_tables(together: Any, n_tables: int) -> Any:
    """Probability of a collision in at least one table, from the probability in each."""
    with np.errstate(divide="ignore"):
        return -np.expm1(n_tables * np.log1p(-together))


class Theory:
    """Theorem 4's quantities, from distances of sampled queries; prints itself.

    Parameters
    ----------
    kth, after : arrays of shape (Q,)
        Distances to the K*-th neighbor and to the next one.
    n_train, k, n_queries : int
    width, delta : float

    Attributes
    ----------
    p1, p2, pmax : float
        Probabilities of one collision: with the K*-th neighbor (smallest), with the next one
        (median and largest).
    c, c_unif : float
        The exponent as printed, and as it must be for all queries at once.
    n_hashes, n_tables, n_tables_printed : float
    candidates : float
        Expected per query at most.
    warning : str or None
    """

    def __init__(
        self,
        kth: FloatVector,
        after: FloatVector,
        n_train: int,
        k: int,
        *,
        width: float,
        delta: float,
        n_queries: int,
    ) -> None:
        self.title = f"K* = {k}, width {width:.4g}, delta {delta:g}, {n_queries:,} queries"
        self.n_train = n_train
        p1 = collision_probability(kth, width)
        p2 = collision_probability(after, width)
        pmin = float(p1.min())
        pmax = float(p2.max())
        self.p1 = pmin
        self.p2 = float(np.median(p2))
        self.pmax = pmax
        with np.errstate(divide="ignore", invalid="ignore"):
            self.c = float(np.where(p1 >= 1.0, 0.0, np.log(p1) / np.log(p2)).max())
        self.c_unif = _exponent(pmin, pmax)
        self.n_hashes = math.inf
        if pmax < 1.0:
            self.n_hashes = max(1, math.ceil(math.log(n_train) / -math.log(pmax)))

        # Enough tables for every query, from the smallest p1; and N^c ln(queries K* / delta) of
        # them, as printed.
        log_failures = math.log(max(n_queries * k / delta, 1.0))
        self.n_tables = _enough_tables(pmin**self.n_hashes, log_failures)
        self.n_tables_printed = float(n_train) ** self.c * log_failures
        # Each candidate is counted once.
        self.candidates = k + (n_train - k) * min(self.n_tables * pmax**self.n_hashes, 1.0)
        self.warning = None
        if max(self.n_tables, 2.0 * self.candidates) >= n_train:
            self.warning = (
                f"{self.n_tables:.3g} tables and {self.candidates:.3g} candidates for {n_train:,}"
                " points"
            )

    def __str__(self) -> str:
        lines = [
            f"Theorem 4 for {self.title}",
            f"  p1 {self.p1:.4f} (smallest), p2 {self.p2:.4f} (median), pmax {self.pmax:.4f}",
            f"  c {self.c:.4f} as printed, {self.c_unif:.4f} for all queries at once",
            (
                f"  hashes {self.n_hashes:.0f}, tables {self.n_tables:.3g} (printed:"
                f" {self.n_tables_printed:.3g})"
            ),
            f"  candidates per query at most {self.candidates:.3g} of {self.n_train:,}",
        ]
        if self.warning:
            lines.append(f"  vacuous: {self.warning}")
        return "\n".join(lines)


def _exponent(pmin: float, pmax: float) -> float:
    """ln(pmin) / ln(pmax), the exponent c for all queries at once."""
    if pmin >= 1.0:
        return 0.0
    if pmax >= 1.0:
        return math.inf
    return math.log(pmin) / math.log(pmax)


def _enough_tables(together: float, log_failures: float) -> float:
    """Tables so that no neighbor is missed, from the probability of a collision in one table.

    `log_failures` is ln(number of neighbors / delta).
    """
    if together >= 1.0:
        return 1.0
    if together == 0.0:
        return math.inf
    return math.ceil(log_failures / -math.log1p(-together))


class Distances:
    """Sampled distances, from which the recall and the work of hash tables are predicted.

    Attributes
    ----------
    n_train : int
    k : int
        K*, as far as there are so many other points.
    near : array of shape (Q, number of ranks)
        Distances to some of the K* nearest.
    following : array of shape (Q,) or None
        Distances to the next one, if there is one.
    far : array
        Distances to all others, a few of all queries together.
    weights : array, as long as `far`
        Points per query that each of these distances stands for.
    """

    def __init__(self, sample: Sample, rng: Generator, delta: float) -> None:
        points = sample.truth.data
        distances = sample.distances
        n_others = len(points) - (sample.rows is not None)
        k = min(sample.k - 1, n_others)
        self.n_train = len(points)
        self.k = max(1, k)
        self._delta = delta
        ranks = np.unique(np.linspace(0, max(0, k - 1), SAMPLED_RANKS).astype(np.intp))
        # Without other points, the only one is its own neighbor.
        self.near = distances[:, ranks] if k else np.zeros((len(distances), 1))
        self.following = distances[:, k] if n_others > k else None

        size = min(SAMPLED_POINTS, len(points))
        sampled_rows = np.sort(rng.choice(len(points), size, replace=False))
        pool = np.sqrt(squared_distances(sample.queries, points[sampled_rows]))
        pool = np.sort(pool[pool > self.near[:, -1:]])
        # A few stand for all, more of them where distances are small: near points collide most
        # often.
        edges = np.unique(np.geomspace(1, len(pool) + 1, FAR_DISTANCES).astype(np.intp)) - 1
        self.far = pool[(edges[1:] + edges[:-1]) // 2]
        self.weights = np.diff(edges) * ((n_others - k) / max(1, len(pool)))

    def typical(self) -> float:
        """Distance of the K*-th neighbor of a query in a sparse region.

        Something positive if that is zero.
        """
        kth = self.near[:, -1]
        sparse = float(np.quantile(kth, 1.0 - self._delta))
        nearest_other = float(self.far[0]) if len(self.far) else 1.0
        return sparse or float(self.near.max()) or nearest_other

    def tuning(
        self, n_tables: int | range, n_hashes: int, width: float, wanted: float
    ) -> TableTuning:
        """What to expect of hash tables.

        With a range of `n_tables`, of the fewest that find enough, or the most if even these do
        not.
        """
        near = collision_probability(self.near, width) ** n_hashes
        far = collision_probability(self.far, width) ** n_hashes

        def recalls(size: int) -> tuple[float, float]:
            """The mean recall of so many tables, and that of sparse queries."""
            by_query = found_in_tables(near, size).mean(axis=1)
            low = np.sort(by_query)[int(self._delta * len(by_query))]
            return float(by_query.mean()), float(low)

        if isinstance(n_tables, range):
            n_tables = n_tables.start + bisect_left(
                n_tables, wanted, key=lambda size: min(recalls(size))
            )
        mean, low = recalls(n_tables)
        n_far = float(self.weights @ found_in_tables(far, n_tables))
        return TableTuning(
            parameters={"n_tables": n_tables, "n_hashes": n_hashes, "width": width},
            k=self.k,
            wanted=wanted,
            recall=mean,
            recall_low=low,
            candidates=mean * self.k + n_far,
            n_train=self.n_train,
        )


@dataclass(frozen=True, kw_only=True)
class TableTuning(Tuning):
    """Parameters of hash tables and what is to be expected of them.

    Attributes
    ----------
    recall_low : float
        Predicted for sparse queries: a share delta of all queries is worse.
    candidates : float
        Different points ranked per query.
    n_train : int
    theory : Theory or None
    """

    recall_low: float
    candidates: float
    n_train: int
    theory: Theory | None = None

    @property
    def warning(self) -> str | None:
        if super().warning is None and EXACT_ADVANTAGE * self.candidates > self.n_train:
            return (
                f"{self.candidates / self.n_train:.0%} of all points are candidates: exact search"
                " should be faster"
            )
        return super().warning

    def __str__(self) -> str:
        prediction = (
            f"recall {self.recall_low:.3f} for sparse queries, {self.candidates:,.0f} candidates"
            " per query"
        )
        lines = f"hash tables, {super().__str__()}\n  {prediction}"
        return f"{lines}\n{self.theory}" if self.theory else lines
