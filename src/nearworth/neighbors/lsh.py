"""The paper's Algorithm 1: nearest neighbours through locality-sensitive hash tables.

One hash of a point is floor((w.x + b) / width), w Gaussian and b uniform in [0, width). The M hashes of a table are
folded into one 64-bit number, and a table is the training points sorted by it. Different hashes fold into the same
number with probability of about 2^-60; that adds a candidate, which is ranked by its distance, and loses none.
"""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nearworth._common.compile import compiled
from nearworth._common.memory import usable_threads
from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix
from nearworth.inputs.fingerprint import fingerprint
from nearworth.inputs.parameters import as_generator, memory, one_of, parse_bytes, positive_or_none, seed, whole_number
from nearworth.neighbors.distances import some_rows, sort_pairs
from nearworth.neighbors.exact import Sample
from nearworth.neighbors.lsh_theory import (
    MOST_TABLES,
    Distances,
    Tuner,
    Tuning,
    collision_probability,
    found_in_tables,
)
from nearworth.neighbors.searchers import (
    MISSING,
    Neighbours,
    OnFail,
    Searcher,
    check_points,
    check_queries,
    check_share,
    ordinary_scale,
)

# Products are made of panels of one shape: a BLAS rounds other shapes differently, and a hash is a rounded number.
PANEL, TABLES_AT_ONCE = 256, 16
NARROW_ERROR, UNIT_32 = 1e-3, 2.0**-24  # 32 bits will do if they are off by less than this share of a hash's width
LARGEST_CODE, BEYOND = 2.0**40, 2**40 + 1
SAMPLED_QUERIES, EXPECTED_QUERIES = 128, 10_000
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
        That share; and the probability of failure in the paper's Theorem 4.
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
        on_fail: OnFail = "exact",
    ) -> None:
        self.n_tables, self.n_hashes, self.width = n_tables, n_hashes, width
        self.recall, self.delta, self.n_candidates = recall, delta, n_candidates
        self.max_memory, self.n_threads, self.random_state = max_memory, n_threads, random_state
        self.on_fail = on_fail
        one_of("exact", "partial", "raise")("on_fail", on_fail)
        for name in ("n_tables", "n_hashes", "n_candidates", "n_threads"):
            whole_number(1, or_none=True)(name, getattr(self, name))
        positive_or_none("width", width)
        check_share("recall", recall)
        check_share("delta", delta)
        memory("max_memory", max_memory)
        seed("random_state", random_state)
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
            self._build(self.n_tables, self.n_hashes, self.width)
        return self

    def predict(self, X: Any, k: int, n_queries: int) -> Tuning:
        """The tables that would be chosen for these training points, and Theorem 4's quantities; builds nothing."""
        other = copy(self)
        other._take(X)
        return other._tune(k, None, n_queries)

    def prepare(self, k: int, queries: Any = None) -> Self:
        """Choose what was not given, for k neighbours, and build the tables.

        Distances are sampled from `queries` if there are any, else from training points among themselves. The work of
        building is weighed against as many queries as given, else 10,000.
        """
        whole_number(1)("k", k)
        tuning = self._tune(k, queries, EXPECTED_QUERIES if queries is None else len(queries))
        self._build(tuning.n_tables, tuning.n_hashes, tuning.width)
        self.tuning = tuning
        return self

    def search(self, Q: Any, k: int) -> Neighbours:
        """The k nearest of the points that collide with each query; -1 where fewer do."""
        indices, distances, _ = self.search_counted(Q, k)
        return Neighbours(indices, distances)

    def search_counted(self, Q: Any, k: int) -> tuple[IntMatrix, FloatMatrix, IntMatrix]:
        """The same, and how many points collide with each query: different ones, and in all tables together."""
        queries = np.ldexp(check_queries(Q, self._points.shape[1], k), self._scale)
        if self._tables is None:
            self.prepare(k)
        blocks = [queries[start : start + PANEL] for start in range(0, max(1, len(queries)), PANEL)]
        with ThreadPoolExecutor(min(usable_threads(self.n_threads), len(blocks))) as pool:
            parts = list(pool.map(lambda block: self._built.nearest(block, k), blocks))
        indices, keys, counts = (np.concatenate(part) for part in zip(*parts, strict=True))
        indices[~np.isfinite(keys)] = MISSING  # a query too far away for its distance to be a number
        return indices, np.ldexp(np.sqrt(keys), -self._scale), counts

    def predicted_recall(self, distances: Any) -> FloatVector:
        """Share of neighbours at these true distances, (Q, k), that the tables as built should find for each query."""
        n_tables, n_hashes, width = self.parameters
        return np.asarray(found_in_tables(collision_probability(distances, width) ** n_hashes, n_tables).mean(axis=1))

    @property
    def parameters(self) -> tuple[int, int, float]:
        """Tables, hashes and width of the tables as built."""
        n_tables, _, n_hashes = self._built.vectors.shape
        return n_tables, n_hashes, self._width

    def fingerprint(self) -> str:
        """A hash of the hash functions: equal ones give equal answers on equal points."""
        tables = self._built
        return fingerprint(self.parameters, tables.vectors, tables.offsets, tables.factors, tables.centre)

    @property
    def _built(self) -> HashTables:
        if self._tables is None:
            raise ValueError("LSHSearch has no tables yet. Call prepare(k) first.")
        return self._tables

    def _take(self, X: Any) -> None:
        points = check_points(X)
        self._scale = ordinary_scale(points)
        self._points = np.ldexp(points.astype(np.float64), self._scale) if self._scale else points
        self._tables: HashTables | None = None
        self.tuning = None

    def _tune(self, k: int, queries: Any, n_queries: int) -> Tuning:
        points, rng = self._points, self._generators()[0]
        # One neighbour more than K*: Theorem 4 needs its distance.
        if queries is None:
            sample = Sample.of_training(points, k + 1, SAMPLED_QUERIES, rng)
        else:
            rows = np.ldexp(check_queries(queries, points.shape[1], k), self._scale)
            some = np.sort(rng.choice(len(rows), min(SAMPLED_QUERIES, len(rows)), replace=False))
            sample = Sample.of_queries(points, rows[some], k + 1)
        distances = Distances.of(sample, rng, float(np.ldexp(1.0, -self._scale)))
        given = self.n_tables, self.n_hashes, self.width
        return Tuner(distances, self.recall, self.delta, n_queries, self._most_tables(), *given).tune()

    def _build(self, n_tables: int, n_hashes: int, width: float) -> None:
        if n_tables > self._most_tables():
            needed = n_tables * table_bytes(len(self._points))
            raise ValueError(f"n_tables={n_tables} needs {needed:,} bytes, more than max_memory allows. Raise it.")
        scaled = float(np.ldexp(width, self._scale))
        self._tables = HashTables(self._points, n_tables, n_hashes, scaled, self._generators()[1])
        self._width = width

    def _most_tables(self) -> int:
        n_train = len(self._points)
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
        sampling, hashing = as_generator(self.random_state).integers(2**63, size=2).tolist()
        return np.random.default_rng(sampling), np.random.default_rng(hashing)


class HashTables:
    """Hash functions, and for each table the training points in the order of their folded hashes.

    `begins` has the position where each range of folded hashes begins in a table, about four points apart.
    """

    def __init__(
        self, points: npt.NDArray[Any], n_tables: int, n_hashes: int, width: float, rng: np.random.Generator
    ) -> None:
        n_train, n_columns = points.shape
        self._points, self.centre = points, points.mean(axis=0, dtype=np.float64)
        spread = np.abs(np.stack([points.min(axis=0), points.max(axis=0)]) - self.centre).max(axis=0)
        narrow = np.linalg.norm(spread) * np.sqrt(n_columns) * UNIT_32 < NARROW_ERROR * width
        dtype = np.float32 if narrow else np.float64
        self.vectors = (rng.standard_normal((n_tables, n_columns, n_hashes)) / width).astype(dtype)
        self.offsets = rng.random((n_tables, n_hashes)).astype(dtype)
        self.factors = rng.integers(0, 2**63, (n_tables, n_hashes), dtype=np.uint64) * np.uint64(2) + np.uint64(1)

        bits = _range_bits(n_train)
        self.hashes = np.empty((n_tables, n_train), dtype=np.uint64)
        self.rows = np.empty((n_tables, n_train), dtype=np.int32)
        self.begins = np.full((n_tables, 2**bits + 1), n_train, dtype=np.int32)
        borders = np.arange(2**bits, dtype=np.uint64) << np.uint64(64 - bits)
        for first in range(0, n_tables, TABLES_AT_ONCE):
            for table, codes in enumerate(self.codes(points, first, first + TABLES_AT_ONCE), start=first):
                order = np.argsort(codes)
                self.rows[table], self.hashes[table] = order, codes[order]
                self.begins[table, :-1] = np.searchsorted(self.hashes[table], borders)

    def codes(self, X: npt.NDArray[Any], first: int = 0, last: int | None = None) -> npt.NDArray[np.uint64]:
        """Folded hashes in the tables from first to last, (tables, points)."""
        vectors, offsets, factors = self.vectors[first:last], self.offsets[first:last], self.factors[first:last]
        out = np.empty((len(vectors), len(X)), dtype=np.uint64)
        panel = np.zeros((PANEL, X.shape[1]), dtype=vectors.dtype)
        for start in range(0, len(X), PANEL):
            rows = X[start : start + PANEL]
            with np.errstate(over="ignore", invalid="ignore"):  # queries far out collide with nothing
                panel[: len(rows)] = rows - self.centre
                products = np.matmul(panel, vectors)
            _fold(products, offsets, factors, out[:, start : start + PANEL])
        return out

    def nearest(self, queries: FloatMatrix, k: int) -> tuple[IntMatrix, FloatMatrix, IntMatrix]:
        """Of the points that collide with each query, the k nearest: indices, squared distances, how many collided."""
        indices, keys = np.full((len(queries), k), MISSING, dtype=np.intp), np.full((len(queries), k), np.inf)
        counts = np.zeros((len(queries), 2), dtype=np.intp)
        tables = self.hashes, self.rows, self.begins
        _nearest_of_colliding(queries, self.codes(queries), self._points, tables, indices, keys, counts)
        return indices, keys, counts


def table_bytes(n_train: int) -> int:
    """Memory of one table."""
    return 12 * n_train + 4 * ((1 << _range_bits(n_train)) + 1)


def _range_bits(n_train: int) -> int:
    return max(1, min(26, n_train.bit_length() - 3))


@compiled
def _fold(products, offsets, factors, out):
    for table in range(out.shape[0]):
        for i in range(out.shape[1]):
            total = np.uint64(0)
            for j in range(offsets.shape[1]):
                code = np.floor(products[table, i, j] + offsets[table, j])
                # Far out, floats get too coarse for codes (or are no numbers): one bucket for all of it.
                whole = np.int64(code) if abs(code) < LARGEST_CODE else np.int64(BEYOND)
                total += np.uint64(whole) * factors[table, j]
            out[table, i] = total


@compiled
def _nearest_of_colliding(queries, codes, points, tables, indices, keys, counts):
    seen = np.full(points.shape[0], -1, dtype=np.int32)
    candidates = np.empty(points.shape[0], dtype=np.int32)
    distances = np.empty(points.shape[0])
    for q in range(queries.shape[0]):
        found, counts[q, 1] = _collect(q, codes[:, q], tables, seen, candidates)
        counts[q, 0] = found
        some_rows(queries[q], points, candidates[:found], distances[:found])
        size = _keep_nearest(candidates[:found], distances[:found], indices[q], keys[q])
        sort_pairs(keys[q, :size], indices[q, :size])


@compiled
def _collect(q, codes, tables, seen, candidates):
    """The points in the query's buckets, each once; and how many there were with repetitions."""
    hashes, rows, begins = tables
    shift = np.uint64(64 - int(np.log2(begins.shape[1])))
    found, collisions = 0, 0
    for table in range(codes.shape[0]):
        code = codes[table]
        part = np.int64(code >> shift)
        low, high = begins[table, part], begins[table, part + 1]
        start = end = low + np.searchsorted(hashes[table, low:high], code)
        while end < hashes.shape[1] and hashes[table, end] == code:
            row = rows[table, end]
            if seen[row] != q:
                seen[row] = q
                candidates[found] = row
                found += 1
            end += 1
        collisions += end - start
    return found, collisions


@compiled
def _keep_nearest(candidates, distances, indices, keys):
    """Fill a heap, the farthest on top, with the nearest candidates, equal distances by index; how many it holds."""
    size = 0
    for c in range(candidates.shape[0]):
        key, index = distances[c], candidates[c]
        if size < keys.shape[0]:
            slot = size
            size += 1
            while slot > 0:
                parent = (slot - 1) >> 1
                if keys[parent] > key or (keys[parent] == key and indices[parent] > index):
                    break
                keys[slot], indices[slot] = keys[parent], indices[parent]
                slot = parent
        elif key < keys[0] or (key == keys[0] and index < indices[0]):
            slot = 0
            while True:
                child = 2 * slot + 1
                if child >= size:
                    break
                if child + 1 < size and (
                    keys[child + 1] > keys[child]
                    or (keys[child + 1] == keys[child] and indices[child + 1] > indices[child])
                ):
                    child += 1
                if keys[child] < key or (keys[child] == key and indices[child] < index):
                    break
                keys[slot], indices[slot] = keys[child], indices[child]
                slot = child
        else:
            continue
        keys[slot], indices[slot] = key, index
    return size
