"""The paper's Algorithm 1: nearest neighbours through hash tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np

from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix
from nearworth.inputs.fingerprint import fingerprint
from nearworth.inputs.parameters import memory, one_of, parse_bytes, positive_or_none, seed, whole_number
from nearworth.neighbors.certify import Sample, recall_by_distance
from nearworth.neighbors.hashing import HashFamily, HashTables, collision_probability, table_bytes
from nearworth.neighbors.lsh_tuning import MOST_TABLES, Distances, Tuner, Tuning, found_in_tables
from nearworth.neighbors.search import (
    MISSING,
    Answer,
    Searcher,
    TrueDistances,
    check_points,
    check_queries,
    check_share,
    generator,
    ordinary_scale,
    usable_threads,
)

BLOCK = 256
SAMPLED_QUERIES = 128
EXPECTED_QUERIES = 10_000
DEFAULT_MEMORY = 2 * 10**9
BYTES_BUILDING, BYTES_PER_THREAD = 160, 16  # per training point


class LSHSearch(Searcher):
    """Neighbours among the points that share a bucket with the query in any of L tables of M hashes.

    Parameters
    ----------
    n_tables, n_hashes, width
        L, M and r of the paper: each is chosen unless given.
    recall
        Share of the neighbours that should be found, on average and for all but a share `delta` of the queries.
    delta
        That share; and the chance of failure in the paper's Theorem 4.
    n_candidates
        K*, if `fit` is to build the tables. Otherwise `prepare(k)` does, or the first `search`.
    max_memory
        For the tables and the work (bytes or "2GB"); None allows 2 GB. More memory allows more tables.
    n_threads
        Threads of a search; None for all usable cores. Several callers may search at once.
    random_state
        Seed of the hash functions and of the sample they are chosen from.
    on_fail
        What a valuation does where fewer than K* neighbours are found: "exact" searches these queries exactly,
        "partial" makes do with what was found, "raise" stops.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> searcher = LSHSearch(n_candidates=3, random_state=0).fit(X)
    >>> indices, distances = searcher.search(X[:2], 3)
    >>> indices[:, 0].tolist(), distances[:, 0].tolist()
    ([0, 1], [0.0, 0.0])
    """

    def __init__(
        self,
        n_tables: int | None = None,
        n_hashes: int | None = None,
        width: float | None = None,
        *,
        recall: float = 0.95,
        delta: float = 0.1,
        n_candidates: int | None = None,
        max_memory: int | str | None = None,
        n_threads: int | None = None,
        random_state: Any = None,
        on_fail: str = "exact",
    ) -> None:
        one_of("exact", "partial", "raise")("on_fail", on_fail)
        self.on_fail = on_fail  # type: ignore[assignment]
        counts = {"n_tables": n_tables, "n_hashes": n_hashes, "n_candidates": n_candidates, "n_threads": n_threads}
        for name, value in counts.items():
            whole_number(1, or_none=True)(name, value)
        positive_or_none("width", width)
        check_share("recall", recall)
        check_share("delta", delta)
        memory("max_memory", max_memory)
        seed("random_state", random_state)
        self.n_tables, self.n_hashes, self.width = n_tables, n_hashes, width
        self.recall, self.delta, self.n_candidates = recall, delta, n_candidates
        self.max_memory, self.n_threads, self.random_state = max_memory, n_threads, random_state
        self.tuning: Tuning | None = None

    def __repr__(self) -> str:
        return (
            f"LSHSearch(n_tables={self.n_tables}, n_hashes={self.n_hashes}, width={self.width}, recall={self.recall})"
        )

    def fit(self, X: Any) -> Self:
        """Take the training points, and build the tables if nothing is left to choose."""
        self._take(X)
        if self.n_candidates is not None:
            return self.prepare(self.n_candidates)
        if self.n_tables is not None and self.n_hashes is not None and self.width is not None:
            self._build(self.n_tables, self.n_hashes, self.width, self._generators()[1])
        return self

    def predict(self, X: Any, k: int, n_queries: int) -> Tuning:
        """What would be chosen for these training points, and Theorem 4's quantities, without building any table."""
        other = copy(self)
        other._take(X)
        return other._tune(k, None, n_queries)[0]

    def prepare(self, k: int, queries: Any = None, n_queries: int | None = None) -> Self:
        """Choose what was not given, for k neighbours, and build the tables.

        Distances are sampled from `queries` if there are any, else from training points among themselves. The work of
        building is weighed against so many queries (`n_queries`, else as many as given, else 10,000).
        """
        whole_number(1)("k", k)
        tuning, sample = self._tune(k, queries, n_queries or (EXPECTED_QUERIES if queries is None else len(queries)))
        choice = tuning.choice
        self._build(choice.n_tables, choice.n_hashes, choice.width, self._generators()[1])
        self.tuning = replace(tuning, measured=self._measure(sample))
        return self

    def search(self, Q: Any, k: int) -> Answer:
        """The k nearest of the points that collide with each query; -1 where fewer do."""
        indices, keys, _ = self.collide(Q, k)
        return indices, np.ldexp(np.sqrt(keys), -self._scale)

    def collide(self, Q: Any, k: int) -> tuple[IntMatrix, FloatMatrix, IntMatrix]:
        """The same with squared distances, and how many points collide with each query: different ones, and in all."""
        queries = np.ldexp(check_queries(Q, self._truth.points.shape[1], k), self._scale)
        if self._tables is None:
            self.prepare(k)
        return self._collide_all(queries, k)

    def predicted_recall(self, distances: Any) -> FloatVector:
        """Share of neighbours at these true distances, (Q, k), that the tables as built should find for each query."""
        n_tables, n_hashes, width = self.parameters
        once = collision_probability(distances, width)
        return np.asarray(found_in_tables(once**n_hashes, n_tables).mean(axis=1))

    @property
    def parameters(self) -> tuple[int, int, float]:
        """Tables, hashes and width of the tables as built."""
        if self._tables is None:
            raise ValueError("LSHSearch has no tables yet. Call prepare(k) first.")
        return self._built

    def fingerprint(self) -> str:
        """A hash of the hash functions: equal ones give equal answers on equal points."""
        family = self._family
        return fingerprint(self.parameters, family.vectors, family.offsets, family.factors, family.centre)

    @property
    def table_bytes(self) -> int:
        """Memory of the tables."""
        return self.parameters[0] * table_bytes(len(self._truth.points))

    def _take(self, X: Any) -> None:
        points = check_points(X)
        self._scale = ordinary_scale(points)
        self._truth = TrueDistances(np.ldexp(points.astype(np.float64), self._scale) if self._scale else points)
        self._tables: HashTables | None = None
        self.tuning = None

    def _tune(self, k: int, queries: Any, n_queries: int) -> tuple[Tuning, Sample]:
        sampling = self._generators()[0]
        sample = self._sample(k, queries, sampling)
        distances = Distances.of(sample, sampling, float(np.ldexp(1.0, -self._scale)))
        given = self.n_tables, self.n_hashes, self.width
        return Tuner(self.recall, self.delta, n_queries, self._most_tables(), *given).tune(distances), sample

    def _collide_all(self, queries: FloatMatrix, k: int) -> tuple[IntMatrix, FloatMatrix, IntMatrix]:
        blocks = [queries[start : start + BLOCK] for start in range(0, max(1, len(queries)), BLOCK)]
        with ThreadPoolExecutor(min(usable_threads(self.n_threads), len(blocks))) as pool:
            parts = list(pool.map(lambda block: self._collide(block, k), blocks))
        indices, keys, counts = (np.concatenate(part) for part in zip(*parts, strict=True))
        indices[~np.isfinite(keys)] = MISSING  # a query too far away for its distance to be a number
        return indices, keys, counts

    def _collide(self, queries: FloatMatrix, k: int) -> tuple[IntMatrix, FloatMatrix, IntMatrix]:
        assert self._tables is not None
        codes = self._family(queries, 0, self._family.n_tables)
        return self._tables.nearest(queries, codes, self._truth.points, k)

    def _measure(self, sample: Sample) -> float:
        """Recall on sampled questions, without the neighbour they ask for on top of K*."""
        _, keys, _ = self._collide_all(sample.queries, sample.k)
        if sample.rows is not None:
            keys = keys[:, 1:]  # the point that asks, at distance zero
        return float(recall_by_distance(keys, sample.keys[:, :-1]).mean())

    def _sample(self, k: int, queries: Any, rng: np.random.Generator) -> Sample:
        """Questions with one neighbour more than asked for, whose distance Theorem 4 wants to know."""
        points = self._truth.points
        if queries is None:
            return Sample.of_training(points, k + 1, SAMPLED_QUERIES, rng)
        rows = np.ldexp(check_queries(queries, points.shape[1], k), self._scale)
        some = np.sort(rng.choice(len(rows), min(SAMPLED_QUERIES, len(rows)), replace=False))
        return Sample.of_queries(points, rows[some], k + 1)

    def _build(self, n_tables: int, n_hashes: int, width: float, rng: np.random.Generator) -> None:
        if n_tables > self._most_tables():
            needed = n_tables * table_bytes(len(self._truth.points))
            raise ValueError(f"n_tables={n_tables} needs {needed:,} bytes, more than max_memory allows. Raise it.")
        points, scaled = self._truth.points, float(np.ldexp(width, self._scale))
        self._family = HashFamily.draw(n_tables, n_hashes, scaled, points, rng)
        self._tables = HashTables.build(self._family, points)
        self._built = n_tables, n_hashes, width

    def _most_tables(self) -> int:
        n_train = len(self._truth.points)
        budget = DEFAULT_MEMORY if self.max_memory is None else parse_bytes("max_memory", self.max_memory)
        work = n_train * (BYTES_BUILDING + BYTES_PER_THREAD * usable_threads(self.n_threads))
        most = (budget - work) // table_bytes(n_train)
        if most < 1:
            raise ValueError(
                f"max_memory={self.max_memory!r} is too little for one hash table of {n_train:,} points and the work, "
                f"{work + table_bytes(n_train):,} bytes. Raise max_memory or take fewer threads."
            )
        return int(min(most, MOST_TABLES if self.n_tables is None else self.n_tables))

    def _generators(self) -> tuple[np.random.Generator, np.random.Generator]:
        """One for the sample and one for the hash functions, which so do not depend on it."""
        rng = generator(self.random_state)
        sampling, hashing = rng.integers(2**63, size=2).tolist()
        return np.random.default_rng(sampling), np.random.default_rng(hashing)
