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
from typing import Any

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
NARROW_ERROR, UNIT_32 = (
    1e-3,
    2.0**-24,
)  # 32 bits will do if they are off by less than this share of a hash's width
LARGEST_CODE = (
    2.0**40
)  # far out, floats get too coarse for codes (or are no numbers): one bucket for all of it
EXPECTED_QUERIES = 10_000
WIDTHS = (
    1.0,
    1.5,
    2.0,
    2.5,
    3.0,
    3.5,
    4.0,
    5.0,
    6.0,
    8.0,
    12.0,
    24.0,
    48.0,
)  # times the distance of the K*-th
MOST_HASHES = 40
LEAST_TABLES = 32  # with fewer, the recall of one draw of hash functions is a matter of luck
MOST_TABLES, MOST_ENTRIES = (
    2000,
    150_000_000,
)  # that are chosen; an entry, one point in one table, takes 12 bytes
SAMPLED_POINTS, SAMPLED_RANKS, FAR_DISTANCES = 1024, 32, 256
EXACT_ADVANTAGE = 20  # points that exact search looks at in the time that one candidate takes


@dataclass(eq=False)
class LSHSearch(IndexSearch):
    """Neighbours among the points that share a bucket with the query in any of L tables of M
    hashes.

    Parameters
    ----------
    n_tables, n_hashes, width
        L, M and r of the paper: each is chosen unless given.
    recall
        Share of the neighbours that should be found, on average and for all but a share `delta` of
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
        """The tables that would be chosen for these training points, and Theorem 4's quantities;
        builds nothing.
        """
        other = copy(self)
        other._take(X)
        return other._choose(k, None, n_queries)

    def fingerprint(self) -> str:
        """A hash of the hash functions: equal ones give equal answers on equal points."""
        tables = self._tables
        return fingerprint(tables.vectors, tables.offsets, tables.factors, tables.centre)

    def _build(self) -> None:
        exponent = self._truth.exponent
        if abs(exponent) >= EXTREME:
            raise ValueError(
                f"X has numbers of about 2**{exponent}, whose squares LSHSearch cannot take."
                " Rescale X."
            )

    def _tune(self, k: int, queries: Any) -> TableTuning:
        """Build the tables; their work is weighed against as many queries as given, else 10,000."""
        tuning = self._choose(k, queries, EXPECTED_QUERIES if queries is None else len(queries))
        self._tables = HashTables(self._points, **tuning.parameters, rng=self._generators()[1])
        return tuning

    def _nearest(self, queries: FloatMatrix, k: int) -> Neighbours:
        found = self._tables.nearest(queries, k)
        return found.first(
            np.isfinite(found.keys).sum(axis=1)
        )  # of a query too far away, distances are no numbers

    def _choose(self, k: int, queries: Any, n_queries: int) -> TableTuning:
        """The cheapest tables that reach the recall, else those that find most; what was given
        stays as it is.
        """
        rng, (n_train, n_columns) = self._generators()[0], self._points.shape
        # One neighbour more than K*: Theorem 4 needs its distance.
        distances = Distances(self._sample(k + 1, queries, rng), rng, self.delta)
        most_tables, cheapest = max(1, min(MOST_TABLES, MOST_ENTRIES // n_train)), math.inf
        options: list[tuple[float, TableTuning]] = []
        for width in (
            [distances.typical() * multiple for multiple in WIDTHS]
            if self.width is None
            else [self.width]
        ):
            least = min(LEAST_TABLES, most_tables)
            for n_hashes in range(1, MOST_HASHES + 1) if self.n_hashes is None else [self.n_hashes]:
                option = distances.tuning(
                    self.n_tables or range(least, most_tables), n_hashes, width, self.recall
                )
                least = option.parameters["n_tables"]
                # Rough nanoseconds per query: hashes and look-ups, with a share of building the
                # tables; then ranking.
                upkeep = least * (50.0 + n_hashes) * (1.0 + n_train / n_queries)
                cost = upkeep + (4.0 + n_columns) * option.candidates
                enough = min(option.recall, option.recall_low) >= self.recall
                options.append((cost if enough else math.inf, option))
                if not enough or upkeep > cheapest:
                    break  # more hashes find still less, and ask for more tables
                cheapest = min(cheapest, cost)
        _, best = min(options, key=lambda option: (option[0], -option[1].recall))
        if distances.following is None:
            return best
        about = {"width": best.parameters["width"], "delta": self.delta, "n_queries": n_queries}
        return replace(
            best,
            theory=Theory(
                distances.near[:, -1], distances.following, n_train, distances.k, **about
            ),
        )

    def _generators(self) -> tuple[Generator, Generator]:
        """One for the sample and one for the hash functions, which so do not depend on it."""
        sampling, hashing = as_generator(self.random_state).integers(2**63, size=2).tolist()
        return np.random.default_rng(sampling), np.random.default_rng(hashing)


class HashTables:
    """Hash functions, and for each table the training points in the order of their folded
    hashes.
    """

    def __init__(
        self, points: npt.NDArray[Any], n_tables: int, n_hashes: int, width: float, rng: Generator
    ) -> None:
        n_train, n_columns = points.shape
        self._points, self.centre = points, points.mean(axis=0, dtype=np.float64)
        spread = np.abs(np.stack([points.min(axis=0), points.max(axis=0)]) - self.centre).max(
            axis=0
        )
        narrow = np.linalg.norm(spread) * np.sqrt(n_columns) * UNIT_32 < NARROW_ERROR * width
        dtype = np.float32 if narrow else np.float64
        vectors = rng.standard_normal((n_tables, n_columns, n_hashes)) / width
        self.vectors = vectors.transpose(0, 2, 1).astype(
            dtype, order="C"
        )  # (tables, hashes, columns)
        self.offsets = rng.random((n_tables, n_hashes)).astype(dtype)
        self.factors = rng.integers(0, 2**63, (n_tables, n_hashes), dtype=np.uint64) * np.uint64(
            2
        ) + np.uint64(1)
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
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # queries far out collide with nothing
                panel[:, : len(rows)] = (rows - self.centre).T
                products = np.matmul(self.vectors, panel)
            codes = np.floor(products[:, :, : len(rows)] + self.offsets[:, :, None])
            codes[~(np.abs(codes) < LARGEST_CODE)] = LARGEST_CODE
            whole = codes.astype(np.int64).view(np.uint64)
            out[:, start : start + PANEL] = (whole * self.factors[:, :, None]).sum(
                axis=1
            )  # modulo 2^64
        return out

    def nearest(self, queries: FloatMatrix, k: int) -> Neighbours:
        """Of the points that collide with each query, the k nearest, with squared distances."""
        found, codes = Neighbours.empty(len(queries), k), self.codes(queries)
        pairs = list(zip(self.hashes, codes, strict=True))
        ends = [
            np.array([hashes.searchsorted(own, side) for hashes, own in pairs])
            for side in ("left", "right")
        ]
        for query, first, end, indices, squares in zip(
            queries, *(side.T for side in ends), *found, strict=True
        ):
            rows = np.unique(
                np.concatenate(
                    [rows[a:b] for rows, a, b in zip(self.rows, first, end, strict=True)]
                )
            )
            size = min(k, len(rows))
            if size:
                indices[:size], squares[:size] = smallest(
                    pairs_with(query, self._points, rows), rows, size
                )
        return found


def collision_probability(distance: Any, width: float) -> FloatVector:
    """Probability that one hash of this width is equal for two points at this distance.

    >>> [round(float(p), 3) for p in collision_probability([0.0, 1.0, 3.0, 10.0], width=3.0)]
    [1.0, 0.734, 0.369, 0.119]
    """
    from scipy.special import erf

    far = np.asarray(distance, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        t = np.minimum(width / far, 1e100)
    return np.asarray(
        erf(t / np.sqrt(2.0))
        + np.sqrt(2.0 / np.pi) * np.expm1(-0.5 * t * t) / np.maximum(t, 1e-300)
    )


def found_in_tables(together: Any, n_tables: int) -> Any:
    """Probability of a collision in at least one table, from the probability in each."""
    with np.errstate(divide="ignore"):
        return -np.expm1(n_tables * np.log1p(-together))


class Theory:
    """Theorem 4's quantities, from distances of sampled queries to the K*-th neighbour and the
    next; prints itself.
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
        p1, p2 = collision_probability(kth, width), collision_probability(after, width)
        self.p1, self.p2, self.pmax = float(p1.min()), float(np.median(p2)), float(p2.max())
        pmin, pmax = self.p1, self.pmax
        with np.errstate(divide="ignore", invalid="ignore"):
            self.c = float(np.where(p1 >= 1.0, 0.0, np.log(p1) / np.log(p2)).max())  # as printed
        # As it must be for all queries at once.
        self.c_unif = (
            0.0 if pmin >= 1.0 else math.inf if pmax >= 1.0 else math.log(pmin) / math.log(pmax)
        )
        self.n_hashes = (
            math.inf if pmax >= 1.0 else max(1, math.ceil(math.log(n_train) / -math.log(pmax)))
        )
        # Enough tables for every query, from the smallest p1; and N^c ln(queries K* / delta) of
        # them, as printed.
        failures, found = math.log(max(n_queries * k / delta, 1.0)), pmin**self.n_hashes
        self.n_tables = (
            1.0
            if found >= 1.0
            else math.inf
            if found == 0.0
            else math.ceil(failures / -math.log1p(-found))
        )
        self.n_tables_printed = float(n_train) ** self.c * failures
        # Expected per query at most, each counted once.
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
        return "\n".join([*lines, f"  vacuous: {self.warning}"] if self.warning else lines)


class Distances:
    """Sampled distances: of the K* nearest, of the next one, and of all others, `weights` points
    per query each.
    """

    def __init__(self, sample: Sample, rng: Generator, delta: float) -> None:
        points, distances = sample.truth.data, sample.distances
        others = len(points) - (sample.rows is not None)
        k = min(sample.k - 1, others)
        ranks = np.unique(np.linspace(0, max(0, k - 1), SAMPLED_RANKS).astype(np.intp))
        near = (
            distances[:, ranks] if k else np.zeros((len(distances), 1))
        )  # the only point is its own neighbour
        some = np.sort(rng.choice(len(points), min(SAMPLED_POINTS, len(points)), replace=False))
        pool = np.sqrt(squared_distances(sample.queries, points[some]))
        pool = np.sort(pool[pool > near[:, -1:]])
        # A few stand for all, more of them where distances are small: near points collide most
        # often.
        edges = np.unique(np.geomspace(1, len(pool) + 1, FAR_DISTANCES).astype(np.intp)) - 1
        self.n_train, self.k, self.near, self._delta = len(points), max(1, k), near, delta
        self.far = pool[(edges[1:] + edges[:-1]) // 2]
        self.weights = np.diff(edges) * ((others - k) / max(1, len(pool)))
        self.following = distances[:, k] if others > k else None

    def typical(self) -> float:
        """Distance of the K*-th neighbour of a query in a sparse region; something positive if that
        is zero.
        """
        smallest = float(self.far[0]) if len(self.far) else 1.0
        return (
            float(np.quantile(self.near[:, -1], 1.0 - self._delta))
            or float(self.near.max())
            or smallest
        )

    def tuning(
        self, n_tables: int | range, n_hashes: int, width: float, wanted: float
    ) -> TableTuning:
        """What to expect; with a range of tables, of the fewest that find enough, or the most if
        even these do not.
        """
        near, far = (
            collision_probability(some, width) ** n_hashes for some in (self.near, self.far)
        )

        def recalls(size: int) -> tuple[float, float]:
            found = found_in_tables(near, size).mean(axis=1)
            return float(found.mean()), float(np.sort(found)[int(self._delta * len(found))])

        if isinstance(n_tables, range):
            n_tables = n_tables.start + bisect_left(
                n_tables, wanted, key=lambda size: min(recalls(size))
            )
        mean, low = recalls(n_tables)
        count = mean * self.k + float(self.weights @ found_in_tables(far, n_tables))
        chosen = {"n_tables": n_tables, "n_hashes": n_hashes, "width": width}
        return TableTuning(
            parameters=chosen,
            k=self.k,
            wanted=wanted,
            recall=mean,
            recall_low=low,
            candidates=count,
            n_train=self.n_train,
        )


@dataclass(frozen=True, kw_only=True)
class TableTuning(Tuning):
    """Parameters of hash tables and what is to be expected of them."""

    recall_low: float  # predicted for sparse queries: a share delta of all queries is worse
    candidates: float  # different points ranked per query
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
        more = (
            f"recall {self.recall_low:.3f} for sparse queries, {self.candidates:,.0f} candidates"
            " per query"
        )
        lines = f"hash tables, {super().__str__()}\n  {more}"
        return f"{lines}\n{self.theory}" if self.theory else lines
