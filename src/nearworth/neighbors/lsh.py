"""The paper's Algorithm 1: nearest neighbours through locality-sensitive hash tables.

One hash of a point is floor((w.x + b) / width), w Gaussian and b uniform in [0, width). The M hashes of a table are
folded into one 64-bit number, and a table is the training points sorted by it. Different hashes fold into the same
number with probability of about 2^-60; that adds a candidate, which is ranked by its distance, and loses none.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nearworth._common import native
from nearworth._common.memory import usable_threads
from nearworth._common.types import FloatMatrix
from nearworth.inputs.features import fingerprint
from nearworth.inputs.parameters import as_generator, one_of, positive_or_none, seed, whole_number
from nearworth.neighbors.distances import EXTREME, ExactDistances, largest_magnitude
from nearworth.neighbors.exact import Sample, smallest
from nearworth.neighbors.lsh_theory import Distances, Tuning
from nearworth.neighbors.searchers import Neighbours, OnFail, Searcher, check_points, check_queries, check_share

# Products are made of panels of one shape: a BLAS rounds other shapes differently, and a hash is a rounded number.
PANEL = 256
NARROW_ERROR, UNIT_32 = 1e-3, 2.0**-24  # 32 bits will do if they are off by less than this share of a hash's width
LARGEST_CODE = 2.0**40  # far out, floats get too coarse for codes (or are no numbers): one bucket for all of it
SAMPLED_QUERIES, EXPECTED_QUERIES = 128, 10_000
WIDTHS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0, 24.0, 48.0)  # times the distance of the K*-th
MOST_HASHES = 40
LEAST_TABLES = 32  # with fewer, the recall of one draw of hash functions is a matter of luck
MOST_TABLES, MOST_ENTRIES = 2000, 150_000_000  # that are chosen; an entry, one point in one table, takes 12 bytes


@dataclass(eq=False)
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

    n_tables: int | None = None
    n_hashes: int | None = None
    width: float | None = None
    _: KW_ONLY
    recall: float = 0.95
    delta: float = 0.1
    n_candidates: int | None = None
    n_threads: int | None = None
    random_state: Any = None
    on_fail: OnFail = "exact"

    def __post_init__(self) -> None:
        one_of("exact", "partial", "raise")("on_fail", self.on_fail)
        for name in ("n_tables", "n_hashes", "n_candidates", "n_threads"):
            whole_number(1, or_none=True)(name, getattr(self, name))
        positive_or_none("width", self.width)
        check_share("recall", self.recall)
        check_share("delta", self.delta)
        seed("random_state", self.random_state)

    def fit(self, X: Any) -> Self:
        """Take the training points; build the tables if it is known for how many neighbours."""
        self._take(X)
        return self if self.n_candidates is None else self.prepare(self.n_candidates)

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
        self.tuning = self._tune(k, queries, EXPECTED_QUERIES if queries is None else len(queries))
        n_tables, n_hashes, width = self.parameters
        scaled = float(np.ldexp(width, self._scale))
        self._tables = HashTables(self._points, n_tables, n_hashes, scaled, self._generators()[1])
        return self

    def search(self, Q: Any, k: int) -> Neighbours:
        """The k nearest of the points that collide with each query; -1 where fewer do."""
        queries = np.ldexp(check_queries(Q, self._points.shape[1], k), self._scale)
        if self.tuning is None:
            self.prepare(k)
        blocks = [queries[start : start + PANEL] for start in range(0, max(1, len(queries)), PANEL)]
        with ThreadPoolExecutor(min(usable_threads(self.n_threads), len(blocks))) as pool:
            parts = list(pool.map(lambda block: self._tables.nearest(block, k), blocks))
        indices, squares = (np.concatenate(part) for part in zip(*parts, strict=True))
        found = Neighbours(indices, np.ldexp(np.sqrt(squares), -self._scale))
        return found.first(np.isfinite(squares).sum(axis=1))  # of a query too far away, distances are no numbers

    @property
    def parameters(self) -> tuple[int, int, float]:
        """Tables, hashes and width of the tables as built."""
        if self.tuning is None:
            raise ValueError("LSHSearch has no tables yet. Call prepare(k) first.")
        return self.tuning.n_tables, self.tuning.n_hashes, self.tuning.width

    def fingerprint(self) -> str:
        """A hash of the hash functions: equal ones give equal answers on equal points."""
        tables = self._tables
        return fingerprint(tables.vectors, tables.offsets, tables.factors, tables.centre)

    def _take(self, X: Any) -> None:
        points = check_points(X)
        exponent = -int(np.frexp(largest_magnitude(points))[1])
        self._scale = exponent if abs(exponent) >= EXTREME else 0  # squares of ordinary numbers fit into floats
        self._points = np.ldexp(points.astype(np.float64), self._scale) if self._scale else points
        self.tuning = None

    def _tune(self, k: int, queries: Any, n_queries: int) -> Tuning:
        """The cheapest tables that reach the recall, else those that find most; what was given stays as it is."""
        distances, (n_train, n_columns) = self._sampled(k, queries), self._points.shape
        most_tables, cheapest = max(1, min(MOST_TABLES, MOST_ENTRIES // n_train)), math.inf
        options: list[tuple[float, Tuning]] = []
        for width in [distances.typical() * multiple for multiple in WIDTHS] if self.width is None else [self.width]:
            least = min(LEAST_TABLES, most_tables)
            for n_hashes in range(1, MOST_HASHES + 1) if self.n_hashes is None else [self.n_hashes]:
                option = distances.tuning(self.n_tables or range(least, most_tables), n_hashes, width, self.recall)
                least = option.n_tables
                # Rough nanoseconds per query: hashes and look-ups, with a share of building the tables; then ranking.
                upkeep = least * (50.0 + n_hashes) * (1.0 + n_train / n_queries)
                cost = upkeep + (4.0 + n_columns) * option.candidates
                enough = min(option.recall, option.recall_low) >= self.recall
                options.append((cost if enough else math.inf, option))
                if not enough or upkeep > cheapest:
                    break  # more hashes find still less, and ask for more tables
                cheapest = min(cheapest, cost)
        _, best = min(options, key=lambda option: (option[0], -option[1].recall))
        return replace(best, theory=distances.theory(best.width, n_queries))

    def _sampled(self, k: int, queries: Any) -> Distances:
        points, rng, unit = self._points, self._generators()[0], float(np.ldexp(1.0, -self._scale))
        # One neighbour more than K*: Theorem 4 needs its distance.
        if queries is None:
            return Distances(Sample.of_training(points, k + 1, SAMPLED_QUERIES, rng), rng, self.delta, unit)
        rows = np.ldexp(check_queries(queries, points.shape[1], k), self._scale)
        sample = Sample.of_queries(points, rows[:: -(-len(rows) // SAMPLED_QUERIES)], k + 1)
        return Distances(sample, rng, self.delta, unit)

    def _generators(self) -> tuple[np.random.Generator, np.random.Generator]:
        """One for the sample and one for the hash functions, which so do not depend on it."""
        sampling, hashing = as_generator(self.random_state).integers(2**63, size=2).tolist()
        return np.random.default_rng(sampling), np.random.default_rng(hashing)


class HashTables:
    """Hash functions, and for each table the training points in the order of their folded hashes."""

    def __init__(
        self, points: npt.NDArray[Any], n_tables: int, n_hashes: int, width: float, rng: np.random.Generator
    ) -> None:
        n_train, n_columns = points.shape
        self._points, self.centre = points, points.mean(axis=0, dtype=np.float64)
        spread = np.abs(np.stack([points.min(axis=0), points.max(axis=0)]) - self.centre).max(axis=0)
        narrow = np.linalg.norm(spread) * np.sqrt(n_columns) * UNIT_32 < NARROW_ERROR * width
        dtype = np.float32 if narrow else np.float64
        vectors = rng.standard_normal((n_tables, n_columns, n_hashes)) / width
        self.vectors = vectors.transpose(0, 2, 1).astype(dtype, order="C")  # (tables, hashes, columns)
        self.offsets = rng.random((n_tables, n_hashes)).astype(dtype)
        self.factors = rng.integers(0, 2**63, (n_tables, n_hashes), dtype=np.uint64) * np.uint64(2) + np.uint64(1)

        self.hashes, self.rows = self.codes(points), np.empty((n_tables, n_train), dtype=np.int32)
        for codes, rows in zip(self.hashes, self.rows, strict=True):
            rows[:] = np.argsort(codes)
            codes[:] = codes[rows]

    def codes(self, X: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        """Folded hashes of points in each table, (tables, points)."""
        out = np.zeros((len(self.vectors), len(X)), dtype=np.uint64)
        panel = np.zeros((X.shape[1], PANEL), dtype=self.vectors.dtype)
        for start in range(0, len(X), PANEL):
            rows = X[start : start + PANEL]
            with np.errstate(over="ignore", invalid="ignore"):  # queries far out collide with nothing
                panel[:, : len(rows)] = (rows - self.centre).T
                products = np.matmul(self.vectors, panel)
            codes = np.floor(products[:, :, : len(rows)] + self.offsets[:, :, None])
            codes[~(np.abs(codes) < LARGEST_CODE)] = LARGEST_CODE
            whole = codes.astype(np.int64).view(np.uint64)
            out[:, start : start + PANEL] = (whole * self.factors[:, :, None]).sum(axis=1)  # modulo 2^64
        return out

    def nearest(self, queries: FloatMatrix, k: int) -> Neighbours:
        """Of the points that collide with each query, the k nearest, with squared distances."""
        found, n_train, codes = Neighbours.empty(len(queries), k), len(self._points), self.codes(queries)
        if native.available():
            seen, candidates = np.full(n_train, -1, dtype=np.int32), np.empty(n_train, dtype=np.int32)
            scratch = seen, candidates, np.empty(n_train)
            native.call("nearest_colliding", queries, codes, self._points, self.hashes, self.rows, *scratch, *found)
            return found
        for query, own, indices, squares in zip(queries, codes.T, *found, strict=True):
            buckets = [rows[hashes == code] for rows, hashes, code in zip(self.rows, self.hashes, own, strict=True)]
            rows = np.unique(np.concatenate(buckets))
            size = min(k, len(rows))
            if size:
                indices[:size], squares[:size] = smallest(ExactDistances(query, self._points)(rows), rows, size)
        return found
