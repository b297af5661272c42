"""What hash tables find, in closed form: collision probabilities, the choice of tables, and the paper's Theorem 4.

The probability of a collision depends on the distance only. So sampled distances say in advance which share of the
neighbours any L tables of M hashes find, and how many other points come along. `Tuner` takes the cheapest tables that
reach the recall. Nearly all the cost is in candidates far beyond K*, not in the (K*+1)-th neighbour of the theorem.

For a query with probability p1 of one collision with its K*-th neighbour and p2 with the next point, Theorem 4 takes
M = ln N / ln(1/p2) hashes, so that about one far point collides per table, and L = N^c ln(K*/delta) tables with
c = ln p1 / ln p2. For all queries at once it takes the largest p2 for M and the largest c for L. That is not enough: a
sparse query has p1^M = N^(-ln p1 / ln pmax), so the exponent must be ln(min p1) / ln(max p2), which may exceed 1. Nor
does it bound the candidates well: K* neighbours are found once, not once per table.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.neighbors.distances import squared_distances
from nearworth.neighbors.exact import Sample

WIDTHS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0, 24.0, 48.0)  # times the distance of the K*-th
MOST_HASHES, MOST_TABLES = 40, 2000
LEAST_TABLES = 32  # with fewer, the recall of one draw of hash functions is a matter of luck
SAMPLED_POINTS, RANKS, BINS = 1024, 32, 256
# Nanoseconds, measured (benchmarks/search.py): a hash and each of its columns, a look-up in a table, a collision,
# a candidate ranked and each of its columns, a point sorted into a table; a point of exact search and its columns.
HASH, HASH_COLUMN, LOOK_UP, COLLISION, CANDIDATE, COLUMN = 1.0, 0.04, 55.0, 3.0, 5.0, 1.2
SORT, EXACT_POINT, EXACT_COLUMN = 40.0, 2.0, 0.03


def collision_probability(distance: Any, width: float) -> FloatVector:
    """Probability that one hash of this width is equal for two points at this distance.

    >>> [round(float(p), 3) for p in collision_probability([0.0, 1.0, 3.0, 10.0], width=3.0)]
    [1.0, 0.734, 0.369, 0.119]
    """
    from scipy.special import erf

    far = np.asarray(distance, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        t = np.minimum(width / far, 1e100)
    # 1 - exp(-t^2/2) through expm1, and a series where both terms cancel
    closed = erf(t / np.sqrt(2.0)) + np.sqrt(2.0 / np.pi) * np.expm1(-0.5 * t * t) / np.maximum(t, 1e-300)
    series = t / np.sqrt(2.0 * np.pi) * (1.0 - t * t / 12.0)
    return np.asarray(np.where(t < 1e-3, series, closed))


def found_in_tables(together: Any, n_tables: int) -> Any:
    """Probability of a collision in at least one table, from the probability in each."""
    with np.errstate(divide="ignore"):
        return -np.expm1(n_tables * np.log1p(-together))


@dataclass(frozen=True)
class Theory:
    """Theorem 4's quantities for sampled queries; prints itself, with a warning where it promises nothing useful."""

    n_train: int
    k: int
    delta: float
    n_queries: int
    width: float
    p1: float  # the smallest over the queries
    p2: float  # the median over the queries
    pmax: float  # the largest p2
    c: float  # as printed
    c_unif: float  # as it must be for all queries at once
    n_hashes: float
    n_tables: float  # enough for every query, from the smallest p1
    n_tables_printed: float  # N^c ln(queries K* / delta)
    candidates: float  # expected per query at most, each counted once

    @property
    def warning(self) -> str | None:
        """Why the theorem is of no use here; None where it is."""
        if not math.isfinite(self.n_hashes):
            return "the point after the K*-th neighbour always collides, so no number of hashes keeps it away"
        if self.c_unif > 1:
            return (
                f"the exponent {self.c_unif:.2f} for all queries at once exceeds 1: worse than looking at every point"
            )
        if self.n_tables >= self.n_train:
            return f"{self.n_tables:.3g} tables are more than the {self.n_train:,} points they would hold"
        if self.candidates >= 0.5 * self.n_train:
            return f"{self.candidates:.3g} candidates per query are at least half of the {self.n_train:,} points"
        return None

    def __str__(self) -> str:
        lines = [
            f"Theorem 4 for K* = {self.k}, width {self.width:.4g}, delta {self.delta:g}, {self.n_queries:,} queries",
            f"  p1 {self.p1:.4f} (smallest), p2 {self.p2:.4f} (median), pmax {self.pmax:.4f}",
            f"  c {self.c:.4f} as printed, {self.c_unif:.4f} for all queries at once",
            f"  hashes {self.n_hashes:.0f}, tables {self.n_tables:.3g} (printed: {self.n_tables_printed:.3g})",
            f"  candidates per query at most {self.candidates:.3g} of {self.n_train:,}",
        ]
        return "\n".join([*lines, f"  vacuous: {self.warning}"] if self.warning else lines)


def theorem_4(
    kth: FloatVector, following: FloatVector, n_train: int, k: int, *, width: float, delta: float, n_queries: int
) -> Theory:
    """The quantities from distances of sampled queries to their K*-th neighbour and to the point after it."""
    p1, p2 = collision_probability(kth, width), collision_probability(following, width)
    pmin, pmax = float(p1.min()), float(p2.max())
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(p1) / np.log(p2)
    c = float(np.where(p1 >= 1.0, 0.0, ratios).max())  # a neighbour that always collides is no trouble
    hard = math.log(max(n_queries * k / delta, 1.0))
    n_hashes = math.inf if pmax >= 1.0 else math.ceil(math.log(n_train) / -math.log(pmax)) if n_train > 1 else 1
    found = pmin**n_hashes if pmin < 1.0 else 1.0
    n_tables = 1.0 if found >= 1.0 else math.ceil(hard / -math.log1p(-found)) if found > 0.0 else math.inf
    far = n_tables * pmax**n_hashes if math.isfinite(n_tables) else 1.0
    return Theory(
        n_train=n_train,
        k=k,
        delta=delta,
        n_queries=n_queries,
        width=width,
        p1=pmin,
        p2=float(np.median(p2)),
        pmax=pmax,
        c=c,
        c_unif=0.0 if pmin >= 1.0 else math.inf if pmax >= 1.0 else math.log(pmin) / math.log(pmax),
        n_hashes=n_hashes,
        n_tables=n_tables,
        n_tables_printed=float(n_train) ** c * hard,
        candidates=min(float(n_train), k + (n_train - k) * min(far, 1.0)),
    )


@dataclass(frozen=True)
class Distances:
    """Sampled distances: of the K* nearest, of the next one, and of all others pooled into weighted bins."""

    n_train: int
    n_columns: int
    near: FloatMatrix  # (S, K*), all finite
    following: FloatVector | None  # (S,), None where there is no point after the K*-th
    far: FloatVector
    weights: FloatVector  # how many points per query each bin stands for

    @classmethod
    def of(cls, sample: Sample, rng: np.random.Generator, unit: float = 1.0) -> Distances:
        """From queries that ask for one neighbour more than K*; `unit` is what distances are multiplied by."""
        points, distances = sample.truth.points, sample.distances
        others = len(points) - (sample.rows is not None)
        k = min(sample.k - 1, others)
        near = distances[:, :k] if k else np.zeros((len(distances), 1))  # the only point is its own neighbour
        following = unit * distances[:, k] if others > k else None
        some = np.sort(rng.choice(len(points), min(SAMPLED_POINTS, len(points)), replace=False))
        pool = np.sqrt(squared_distances(sample.queries, points[some]))
        pool = np.sort(pool[pool > near[:, -1:]])
        # Bins grow with the rank: the nearest of the pool collide most often.
        edges = np.unique(np.geomspace(1, len(pool) + 1, BINS).astype(np.intp)) - 1
        sizes = np.diff(edges)
        far = np.add.reduceat(pool, edges[:-1]) / sizes if len(pool) else pool
        weights = sizes * ((others - k) / max(1, len(pool)))
        return cls(len(points), points.shape[1], unit * near, following, unit * far, weights)

    @property
    def k(self) -> int:
        """Neighbours per query."""
        return int(self.near.shape[1])


@dataclass(frozen=True)
class Tuning:
    """Parameters of hash tables and what is to be expected of them; prints itself."""

    n_tables: int
    n_hashes: int
    width: float
    k: int
    n_train: int
    wanted: float
    recall: float  # predicted mean over the queries
    recall_low: float  # predicted for sparse queries: a share delta of all queries is worse
    candidates: float  # different points ranked per query
    collisions: float  # the same, counted in every table
    nanoseconds: float  # per query, its share of the build included
    cost_ratio: float  # the same relative to exact search of K* neighbours; above 1 hashing does not pay
    theory: Theory | None = None

    @property
    def suffices(self) -> bool:
        """Whether the mean and the sparse queries reach the recall."""
        return min(self.recall, self.recall_low) >= self.wanted

    @property
    def warning(self) -> str | None:
        """What the user should know; None if all is well."""
        if self.recall < self.wanted:
            return f"these parameters find {self.recall:.1%} of the neighbours, {self.wanted:.1%} were asked for"
        if self.cost_ratio > 1:
            return f"{self.candidates / self.n_train:.0%} of all points are candidates: exact search should be faster"
        return None

    def __str__(self) -> str:
        lines = [
            f"{self.n_tables} hash tables of {self.n_hashes} hashes, width {self.width:.4g}, for K* = {self.k}",
            f"  recall {self.recall:.3f} predicted, {self.recall_low:.3f} for sparse queries (wanted {self.wanted:g})",
            f"  candidates per query {self.candidates:,.0f} of {self.n_train:,}, met {self.collisions:,.0f} times",
            f"  time per query {self.cost_ratio:.2f} of exact search, building included",
        ]
        notes = [f"  warning: {self.warning}"] if self.warning else []
        return "\n".join([*lines, *notes] if self.theory is None else [*lines, *notes, str(self.theory)])


@dataclass(frozen=True)
class Tuner:
    """Finds the cheapest tables that reach a recall; parameters that are not None are taken as they are."""

    distances: Distances
    recall: float
    delta: float
    n_queries: int
    most_tables: int
    n_tables: int | None = None
    n_hashes: int | None = None
    width: float | None = None

    def tune(self) -> Tuning:
        """The cheapest tables that find enough, else those that find most."""
        options = list(self._options())
        enough = [option for option in options if option.suffices]
        best = min(enough, key=lambda o: o.nanoseconds) if enough else max(options, key=lambda o: o.recall)
        kth, following = self.distances.near[:, -1], self.distances.following
        if following is None:
            return best
        theory = theorem_4(
            kth, following, best.n_train, best.k, width=best.width, delta=self.delta, n_queries=self.n_queries
        )
        return replace(best, theory=theory)

    def _options(self) -> Iterator[Tuning]:
        distances = self.distances
        ranks = np.unique(np.linspace(0, distances.k - 1, RANKS).astype(np.intp))
        cheapest = np.inf
        for width in [m * self._unit() for m in WIDTHS] if self.width is None else [self.width]:
            n_tables = LEAST_TABLES
            once_near = collision_probability(distances.near[:, ranks], width)
            once_far = collision_probability(distances.far, width)
            for n_hashes in range(1, MOST_HASHES + 1) if self.n_hashes is None else [self.n_hashes]:
                near, far = once_near**n_hashes, once_far**n_hashes
                n_tables = self._fewest_tables(near, n_tables) if self.n_tables is None else self.n_tables
                option = self._option(n_tables, n_hashes, width, near, far)
                yield option
                if not option.suffices or self._upkeep(n_tables, n_hashes) > cheapest:
                    break  # more hashes find still less, and ask for more tables
                cheapest = min(cheapest, option.nanoseconds)

    def _unit(self) -> float:
        """Distance of the K*-th neighbour of a query in a sparse region; something positive if that is zero."""
        every = np.concatenate([self.distances.near.ravel(), self.distances.far])
        least = float(every[every > 0].min(initial=np.inf))
        return float(np.quantile(self.distances.near[:, -1], 1.0 - self.delta)) or (least if least < np.inf else 1.0)

    def _fewest_tables(self, near: FloatMatrix, least: int) -> int:
        """The fewest tables that find enough; the most there may be if even these do not."""
        low = high = min(least, self.most_tables)
        while high < self.most_tables and min(self._recall(near, high)) < self.recall:
            high = min(2 * high, self.most_tables)
        return low + bisect_left(range(low, high), self.recall, key=lambda n: min(self._recall(near, n)))

    def _recall(self, near: FloatMatrix, n_tables: int) -> tuple[float, float]:
        """Mean over the queries, and the recall that all but a share delta of them reach."""
        found = found_in_tables(near, n_tables).mean(axis=1)
        return float(found.mean()), float(np.sort(found)[int(self.delta * len(found))])

    def _option(self, n_tables: int, n_hashes: int, width: float, near: FloatMatrix, far: FloatVector) -> Tuning:
        """What to expect of tables, from the probabilities of a collision in each of them."""
        distances = self.distances
        recall, recall_low = self._recall(near, n_tables)
        candidates = recall * distances.k + float(distances.weights @ found_in_tables(far, n_tables))
        collisions = n_tables * (float(near.mean()) * distances.k + float(distances.weights @ far))
        ranking = COLLISION * collisions + candidates * (CANDIDATE + COLUMN * distances.n_columns)
        nanoseconds = self._upkeep(n_tables, n_hashes) + ranking
        return Tuning(
            n_tables=n_tables,
            n_hashes=n_hashes,
            width=width,
            k=distances.k,
            n_train=distances.n_train,
            wanted=self.recall,
            recall=recall,
            recall_low=recall_low,
            candidates=candidates,
            collisions=collisions,
            nanoseconds=nanoseconds,
            cost_ratio=nanoseconds / (distances.n_train * (EXACT_POINT + EXACT_COLUMN * distances.n_columns)),
        )

    def _upkeep(self, n_tables: int, n_hashes: int) -> float:
        """Nanoseconds per query for so many tables, whatever is in them."""
        hashing = n_hashes * (HASH + HASH_COLUMN * self.distances.n_columns)
        return n_tables * (hashing + LOOK_UP + self.distances.n_train * (hashing + SORT) / self.n_queries)
