"""How many tables of how many hashes, and how wide: the cheapest that finds what is asked for.

Chances of collision are known in closed form, so sampled distances tell in advance which share of the neighbours any
choice finds, and how many other points come along. Not the (K*+1)-th neighbour has to be kept out, as the paper's
theorem has it, but the bulk: nearly all the cost is in candidates far beyond K*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector
from nearworth.neighbors.certify import Sample
from nearworth.neighbors.distances import squared_distances
from nearworth.neighbors.hashing import collision_probability
from nearworth.neighbors.lsh_theory import Theory, theorem_4

WIDTHS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0, 24.0, 48.0)  # times the distance of the K*-th
MOST_HASHES, MOST_TABLES = 40, 2000
LEAST_TABLES = 32  # with fewer, what one draw of hash functions finds is a matter of luck
SAMPLED_POINTS, RANKS, BINS = 1024, 32, 256
# Nanoseconds, measured (benchmarks/search.py): a hash and each of its columns, a look-up in a table, a point met in it,
# a candidate ranked and each of its columns, a point sorted into a table; a point of exact search and its columns.
HASH, HASH_COLUMN, LOOK_UP, MEET, CANDIDATE, COLUMN = 1.0, 0.04, 55.0, 3.0, 5.0, 1.2
SORT, EXACT_POINT, EXACT_COLUMN = 40.0, 2.0, 0.03


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
        """From questions that ask for one neighbour more than K*; `unit` is what distances are multiplied by."""
        distances = sample.distances
        others = len(sample.truth.points) - (sample.rows is not None)
        k = min(sample.k - 1, others)
        following = unit * distances[:, k] if others > k else None
        far, weights = _pooled(sample, distances[:, k - 1] if k else np.zeros(len(distances)), others - k, rng)
        points = sample.truth.points
        return cls(len(points), points.shape[1], unit * distances[:, :k], following, unit * far, weights)

    @property
    def k(self) -> int:
        """Neighbours per query."""
        return int(self.near.shape[1])


@dataclass(frozen=True)
class Choice:
    """A set of parameters and what is to be expected of it."""

    n_tables: int
    n_hashes: int
    width: float
    recall: float  # predicted mean over the queries
    recall_low: float  # predicted for the query that a share delta of the others falls short of
    candidates: float  # different points ranked per query
    collisions: float  # the same, counted in every table
    nanoseconds: float  # per query, its share of the build included


@dataclass(frozen=True)
class Tuning:
    """The choice made and why; prints itself."""

    choice: Choice
    k: int
    n_train: int
    wanted: float
    exact_nanoseconds: float
    theory: Theory | None
    measured: float | None = None  # recall of the tables as built, for the sampled queries

    @property
    def cost_ratio(self) -> float:
        """Estimated time per query relative to exact search of K* neighbours; above 1 hashing does not pay."""
        return self.choice.nanoseconds / self.exact_nanoseconds

    @property
    def warning(self) -> str | None:
        """What the user should know; None if all is well."""
        if self.choice.recall < self.wanted:
            return f"these parameters find {self.choice.recall:.1%} of the neighbours, {self.wanted:.1%} were asked for"
        if self.cost_ratio > 1:
            share = self.choice.candidates / self.n_train
            return f"{share:.0%} of all points are candidates: exact search should be faster"
        return None

    def __str__(self) -> str:
        c = self.choice
        lines = [
            f"{c.n_tables} hash tables of {c.n_hashes} hashes, width {c.width:.4g}, for K* = {self.k}",
            f"  recall {c.recall:.3f} predicted, {c.recall_low:.3f} for sparse queries (wanted {self.wanted:g})"
            + (f", {self.measured:.3f} measured" if self.measured is not None else ""),
            f"  candidates per query {c.candidates:,.0f} of {self.n_train:,}, met {c.collisions:,.0f} times",
            f"  time per query {self.cost_ratio:.2f} of exact search, building included",
        ]
        if self.warning:
            lines.append(f"  warning: {self.warning}")
        return "\n".join(lines if self.theory is None else [*lines, str(self.theory)])


@dataclass(frozen=True)
class Tuner:
    """What is asked for, and what is given by hand."""

    recall: float
    delta: float
    n_queries: int
    most_tables: int
    n_tables: int | None = None
    n_hashes: int | None = None
    width: float | None = None

    def tune(self, distances: Distances) -> Tuning:
        """The cheapest choice that finds enough, else the one that finds most."""
        choices = list(self._choices(distances))
        enough = [c for c in choices if self._suffices(c)]
        best = min(enough, key=lambda c: c.nanoseconds) if enough else max(choices, key=lambda c: c.recall)
        exact = distances.n_train * (EXACT_POINT + EXACT_COLUMN * distances.n_columns)
        theory = None
        if distances.following is not None and distances.k:
            kth, following, n_train = distances.near[:, -1], distances.following, distances.n_train
            theory = theorem_4(
                kth, following, n_train, distances.k, width=best.width, delta=self.delta, n_queries=self.n_queries
            )
        return Tuning(best, distances.k, distances.n_train, self.recall, exact, theory)

    def _suffices(self, choice: Choice) -> bool:
        return min(choice.recall, choice.recall_low) >= self.recall

    def _choices(self, distances: Distances) -> Iterator[Choice]:
        ranks = np.unique(np.linspace(0, distances.k - 1, RANKS if distances.k else 0).astype(np.intp))
        near = distances.near[:, ranks]
        widths = (self.width,) if self.width is not None else tuple(m * self._unit(distances) for m in WIDTHS)
        cheapest = np.inf
        for width in widths:
            n_tables = 1
            once_near, once_far = collision_probability(near, width), collision_probability(distances.far, width)
            for n_hashes in (self.n_hashes,) if self.n_hashes is not None else range(1, MOST_HASHES + 1):
                together, apart = once_near**n_hashes, once_far**n_hashes
                n_tables = self.n_tables if self.n_tables is not None else self._tables(together, n_tables)
                choice = self._expect(distances, n_tables, n_hashes, width, together, apart)
                yield choice
                if not self._suffices(choice) or self._upkeep(distances, n_tables, n_hashes) > cheapest:
                    break  # more hashes find still less, and ask for more tables
                cheapest = min(cheapest, choice.nanoseconds)

    def _unit(self, distances: Distances) -> float:
        """Distance of the K*-th neighbour of a query in a sparse region; something positive if that is zero."""
        kth = distances.near[:, -1] if distances.k else np.zeros(1)
        positive = np.concatenate([distances.near[distances.near > 0], distances.far[distances.far > 0]])
        return float(np.quantile(kth, 1.0 - self.delta)) or (float(positive.min()) if positive.size else 1.0)

    def _tables(self, together: FloatMatrix, least: int) -> int:
        """The fewest tables that find enough; the most there may be if even these do not."""
        low = high = min(max(least, LEAST_TABLES), self.most_tables)
        while high < self.most_tables and min(self._recall(together, high)) < self.recall:
            low, high = high + 1, min(2 * high, self.most_tables)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if min(self._recall(together, middle)) >= self.recall else (middle + 1, high)
        return low

    def _recall(self, together: FloatMatrix, n_tables: int) -> tuple[float, float]:
        """Mean over the queries, and for the query that at most a share delta of them falls short of."""
        if not together.size:
            return 1.0, 1.0
        found = found_in_tables(together, n_tables).mean(axis=1)
        return float(found.mean()), float(np.sort(found)[int(self.delta * len(found))])

    def _expect(
        self,
        distances: Distances,
        n_tables: int,
        n_hashes: int,
        width: float,
        together: FloatMatrix,
        apart: FloatVector,
    ) -> Choice:
        recall, low = self._recall(together, n_tables)
        candidates = recall * distances.k + float(distances.weights @ found_in_tables(apart, n_tables))
        nearby = float(together.mean()) * distances.k if together.size else 0.0
        collisions = n_tables * (nearby + float(distances.weights @ apart))
        ranking = MEET * collisions + candidates * (CANDIDATE + COLUMN * distances.n_columns)
        total = self._upkeep(distances, n_tables, n_hashes) + ranking
        return Choice(n_tables, n_hashes, width, recall, low, candidates, collisions, total)

    def _upkeep(self, distances: Distances, n_tables: int, n_hashes: int) -> float:
        """Nanoseconds per query for having so many tables, whatever is in them."""
        hashing = n_hashes * (HASH + HASH_COLUMN * distances.n_columns)
        return n_tables * (hashing + LOOK_UP + distances.n_train * (hashing + SORT) / self.n_queries)


def found_in_tables(together: npt.NDArray[Any], n_tables: int) -> npt.NDArray[Any]:
    """Chance of meeting a point in at least one table, from its chance in each."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(n_tables * np.log1p(-together)))


def _pooled(sample: Sample, kth: FloatVector, n_far: int, rng: np.random.Generator) -> tuple[FloatVector, FloatVector]:
    """Distances of points beyond the K*-th in bins that grow with the rank, and how many points each stands for."""
    points = sample.truth.points
    some = np.sort(rng.choice(len(points), min(SAMPLED_POINTS, len(points)), replace=False))
    keys = squared_distances(sample.queries, points[some])
    pool = np.sort(np.sqrt(keys)[np.sqrt(keys) > kth[:, None]])
    if not pool.size or n_far <= 0:
        return np.zeros(0), np.zeros(0)
    edges = np.unique(np.geomspace(1, len(pool) + 1, BINS).astype(np.intp)) - 1
    sizes = np.diff(edges)
    return np.add.reduceat(pool, edges[:-1]) / sizes, sizes * (n_far / len(pool))
