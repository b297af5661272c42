"""What hash tables find, in closed form: collision probabilities, recall, candidates, and the paper's Theorem 4.

The probability of a collision depends on the distance only. So sampled distances say in advance which share of the
neighbours L tables of M hashes find, and how many other points come along. Nearly all the cost is in candidates far
beyond K*, not in the next neighbour of the theorem.

For a query with probability p1 of one collision with its K*-th neighbour and p2 with the next point, Theorem 4 takes
M = ln N / ln(1/p2) hashes, so that about one far point collides per table, and L = N^c ln(K*/delta) tables with
c = ln p1 / ln p2. For all queries at once it takes the largest p2 for M and the largest c for L. That is not enough: a
sparse query has p1^M = N^(-ln p1 / ln pmax), so the exponent must be ln(min p1) / ln(max p2), which may exceed 1. Nor
does it bound the candidates well: K* neighbours are found once, not once per table.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from nearworth._common.types import FloatVector
from nearworth.neighbors.distances import squared_distances
from nearworth.neighbors.exact import Sample

SAMPLED_POINTS, SAMPLED_RANKS, FAR_DISTANCES = 1024, 32, 256
EXACT_ADVANTAGE = 20  # points that exact search looks at in the time that one candidate takes


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


class Theory:
    """Theorem 4's quantities; prints itself, with a warning where it promises nothing useful.

    From the distances of sampled queries to their K*-th neighbour and to the point after it.
    """

    def __init__(
        self, kth: FloatVector, after: FloatVector, n_train: int, k: int, *, width: float, delta: float, n_queries: int
    ) -> None:
        self.title = f"K* = {k}, width {width:.4g}, delta {delta:g}, {n_queries:,} queries"
        self.n_train = n_train
        p1, p2 = collision_probability(kth, width), collision_probability(after, width)
        self.p1, self.p2, self.pmax = float(p1.min()), float(np.median(p2)), float(p2.max())
        pmin, pmax = self.p1, self.pmax
        with np.errstate(divide="ignore", invalid="ignore"):
            self.c = float(np.where(p1 >= 1.0, 0.0, np.log(p1) / np.log(p2)).max())  # as printed
        # As it must be for all queries at once.
        self.c_unif = 0.0 if pmin >= 1.0 else math.inf if pmax >= 1.0 else math.log(pmin) / math.log(pmax)
        self.n_hashes = math.inf if pmax >= 1.0 else max(1, math.ceil(math.log(n_train) / -math.log(pmax)))
        # Enough tables for every query, from the smallest p1; and N^c ln(queries K* / delta) of them, as printed.
        failures, found = math.log(max(n_queries * k / delta, 1.0)), pmin**self.n_hashes
        self.n_tables = 1.0 if found >= 1.0 else math.inf if found == 0.0 else math.ceil(failures / -math.log1p(-found))
        self.n_tables_printed = float(n_train) ** self.c * failures
        # Expected per query at most, each counted once.
        self.candidates = k + (n_train - k) * min(self.n_tables * pmax**self.n_hashes, 1.0)

    @property
    def warning(self) -> str | None:
        """Why the theorem is of no use here; None where it is."""
        if max(self.n_tables, 2.0 * self.candidates) < self.n_train:
            return None
        return f"{self.n_tables:.3g} tables and {self.candidates:.3g} candidates for {self.n_train:,} points"

    def __str__(self) -> str:
        lines = [
            f"Theorem 4 for {self.title}",
            f"  p1 {self.p1:.4f} (smallest), p2 {self.p2:.4f} (median), pmax {self.pmax:.4f}",
            f"  c {self.c:.4f} as printed, {self.c_unif:.4f} for all queries at once",
            f"  hashes {self.n_hashes:.0f}, tables {self.n_tables:.3g} (printed: {self.n_tables_printed:.3g})",
            f"  candidates per query at most {self.candidates:.3g} of {self.n_train:,}",
        ]
        return "\n".join([*lines, f"  vacuous: {self.warning}"] if self.warning else lines)


class Distances:
    """Sampled distances: of the K* nearest, of the next one, and of all others, `weights` points per query each.

    The sample is of queries that ask for one neighbour more than K*. Distances are multiplied by `unit`. A share
    `delta` of the queries may find less than is wanted.
    """

    def __init__(self, sample: Sample, rng: np.random.Generator, delta: float, unit: float = 1.0) -> None:
        points, distances = sample.truth.points, unit * sample.distances
        others = len(points) - (sample.rows is not None)
        k = min(sample.k - 1, others)
        ranks = np.unique(np.linspace(0, max(0, k - 1), SAMPLED_RANKS).astype(np.intp))
        near = distances[:, ranks] if k else np.zeros((len(distances), 1))  # the only point is its own neighbour
        some = np.sort(rng.choice(len(points), min(SAMPLED_POINTS, len(points)), replace=False))
        pool = unit * np.sqrt(squared_distances(sample.queries, points[some]))
        pool = np.sort(pool[pool > near[:, -1:]])
        # A few stand for all, more of them where distances are small: near points collide most often.
        edges = np.unique(np.geomspace(1, len(pool) + 1, FAR_DISTANCES).astype(np.intp)) - 1
        self.n_train, self.k, self.near, self._delta = len(points), max(1, k), near, delta
        self.far = pool[(edges[1:] + edges[:-1]) // 2]
        self.weights = np.diff(edges) * ((others - k) / max(1, len(pool)))
        self.following = distances[:, k] if others > k else None

    def typical(self) -> float:
        """Distance of the K*-th neighbour of a query in a sparse region; something positive if that is zero."""
        smallest = float(self.far[0]) if len(self.far) else 1.0
        return float(np.quantile(self.near[:, -1], 1.0 - self._delta)) or float(self.near.max()) or smallest

    def tuning(self, n_tables: int | range, n_hashes: int, width: float, wanted: float) -> Tuning:
        """What to expect; with a range of tables, of the fewest that find enough, or the most if even these do not."""
        near, far = (collision_probability(some, width) ** n_hashes for some in (self.near, self.far))

        def recalls(size: int) -> tuple[float, float]:
            found = found_in_tables(near, size).mean(axis=1)
            return float(found.mean()), float(np.sort(found)[int(self._delta * len(found))])

        if isinstance(n_tables, range):
            n_tables = n_tables.start + bisect_left(n_tables, wanted, key=lambda size: min(recalls(size)))
        mean, low = recalls(n_tables)
        count = mean * self.k + float(self.weights @ found_in_tables(far, n_tables))
        parameters = n_tables, n_hashes, width, self.k, self.n_train
        return Tuning(*parameters, wanted=wanted, recall=mean, recall_low=low, candidates=count)

    def theory(self, width: float, n_queries: int) -> Theory | None:
        """Theorem 4, if there is a point after the K*-th."""
        if self.following is None:
            return None
        kth, n_train = self.near[:, -1], self.n_train
        return Theory(kth, self.following, n_train, self.k, width=width, delta=self._delta, n_queries=n_queries)


@dataclass(frozen=True)
class Tuning:
    """Parameters of hash tables and what is to be expected of them; prints itself."""

    n_tables: int
    n_hashes: int
    width: float
    k: int
    n_train: int
    _: KW_ONLY
    wanted: float
    recall: float  # predicted mean over the queries
    recall_low: float  # predicted for sparse queries: a share delta of all queries is worse
    candidates: float  # different points ranked per query
    theory: Theory | None = None

    @property
    def warning(self) -> str | None:
        """What the user should know; None if all is well."""
        if self.recall < self.wanted:
            return f"these parameters find {self.recall:.1%} of the neighbours, {self.wanted:.1%} were asked for"
        if EXACT_ADVANTAGE * self.candidates > self.n_train:
            return f"{self.candidates / self.n_train:.0%} of all points are candidates: exact search should be faster"
        return None

    def __str__(self) -> str:
        lines = [
            f"{self.n_tables} hash tables of {self.n_hashes} hashes, width {self.width:.4g}, for K* = {self.k}",
            f"  recall {self.recall:.3f} predicted, {self.recall_low:.3f} for sparse queries (wanted {self.wanted:g})",
            f"  candidates per query {self.candidates:,.0f} of {self.n_train:,}",
        ]
        notes = [f"  warning: {self.warning}"] if self.warning else []
        return "\n".join([*lines, *notes] if self.theory is None else [*lines, *notes, str(self.theory)])
