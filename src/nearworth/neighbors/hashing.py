"""Locality-sensitive hashing with Gaussian projections: hash functions and the tables they fill.

One hash of a point is floor((w.x + b) / width), w Gaussian and b uniform in [0, width). The M hashes of a table are
folded into one 64-bit number, and a table is the training points sorted by it. Different hashes fold into the same
number with a chance of about 2^-60: such a merger adds a candidate that is then ranked as what it is, and loses none.
"""

# Kernels take arrays of several types and are typed by numba when first called.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.compile import compiled
from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix
from nearworth.neighbors.distances import some_rows
from nearworth.neighbors.search import sort_pairs

# Products are made of panels of one shape: a BLAS rounds other shapes differently, and a hash is a rounded number.
PANEL, TABLES_AT_ONCE = 256, 16
NARROW_ERROR = 1e-3  # of a hash's width, up to which 32 bits will do
LARGEST_CODE, BEYOND, UNIT_32 = 2.0**40, 2**40 + 1, 2.0**-24


def collision_probability(distance: Any, width: float) -> FloatVector:
    """Chance that one hash of this width puts two points at this distance together.

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


@dataclass(frozen=True)
class HashFamily:
    """The hash functions of all tables, and the numbers that fold the hashes of one table into one."""

    vectors: npt.NDArray[Any]  # (tables, d, hashes), divided by the width
    offsets: npt.NDArray[Any]  # (tables, hashes), likewise
    factors: npt.NDArray[np.uint64]  # (tables, hashes)
    centre: FloatVector

    @classmethod
    def draw(
        cls, n_tables: int, n_hashes: int, width: float, points: npt.NDArray[Any], rng: np.random.Generator
    ) -> HashFamily:
        """Hash functions for these points, in 32 bits where that is precise enough."""
        centre = points.mean(axis=0, dtype=np.float64)
        spread = np.abs(np.stack([points.min(axis=0), points.max(axis=0)]) - centre).max(axis=0)
        narrow = np.linalg.norm(spread) * np.sqrt(len(centre)) * UNIT_32 < NARROW_ERROR * width
        dtype = np.float32 if narrow else np.float64
        vectors = rng.standard_normal((n_tables, len(centre), n_hashes)) / width
        offsets = rng.random((n_tables, n_hashes))
        factors = rng.integers(0, 2**63, (n_tables, n_hashes), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        return cls(vectors.astype(dtype), offsets.astype(dtype), factors, centre)

    @property
    def n_tables(self) -> int:
        """Number of tables."""
        return len(self.vectors)

    def __call__(self, X: npt.NDArray[Any], first: int, last: int) -> npt.NDArray[np.uint64]:
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


@dataclass(frozen=True)
class HashTables:
    """For each table: the folded hashes in order, whose they are, and where each range of them begins."""

    hashes: npt.NDArray[np.uint64]  # (tables, N)
    rows: npt.NDArray[np.int32]  # (tables, N)
    begins: npt.NDArray[np.int32]  # (tables, ranges + 1)
    shift: int

    @classmethod
    def build(cls, family: HashFamily, X: npt.NDArray[Any]) -> HashTables:
        """Hash all points and sort them, some tables at a time."""
        n_train, bits = len(X), range_bits(len(X))
        hashes = np.empty((family.n_tables, n_train), dtype=np.uint64)
        rows = np.empty((family.n_tables, n_train), dtype=np.int32)
        begins = np.empty((family.n_tables, 2**bits + 1), dtype=np.int32)
        borders = np.arange(2**bits, dtype=np.uint64) << np.uint64(64 - bits) if bits else np.zeros(1, np.uint64)
        for first in range(0, family.n_tables, TABLES_AT_ONCE):
            codes = family(X, first, first + TABLES_AT_ONCE)
            for table, code in enumerate(codes, start=first):
                order = np.argsort(code)
                rows[table], hashes[table] = order, code[order]
                begins[table, :-1], begins[table, -1] = np.searchsorted(hashes[table], borders), n_train
        return cls(hashes, rows, begins, 64 - bits)

    def nearest(
        self, queries: npt.NDArray[Any], codes: npt.NDArray[np.uint64], points: npt.NDArray[Any], k: int
    ) -> tuple[IntMatrix, FloatMatrix, IntMatrix]:
        """Of the points that collide with each query, the k nearest: indices, squared distances, how many collided."""
        indices = np.full((len(queries), k), -1, dtype=np.intp)
        keys = np.full((len(queries), k), np.inf)
        counts = np.zeros((len(queries), 2), dtype=np.intp)
        _nearest_of_colliding(
            queries, codes, points, self.hashes, self.rows, self.begins, self.shift, indices, keys, counts
        )
        return indices, keys, counts


def range_bits(n_train: int) -> int:
    """Ranges per table as a power of two, about four points each."""
    return max(0, min(26, int(n_train).bit_length() - 3))


def table_bytes(n_train: int) -> int:
    """Memory of one table."""
    return 12 * n_train + 4 * ((1 << range_bits(n_train)) + 1)


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
def _nearest_of_colliding(queries, codes, points, hashes, rows, begins, shift, indices, keys, counts):
    n_train = points.shape[0]
    seen = np.full(n_train, -1, dtype=np.int32)
    candidates = np.empty(n_train, dtype=np.int32)
    distances = np.empty(n_train)
    for q in range(queries.shape[0]):
        found, collisions = _collect(q, codes, hashes, rows, begins, shift, seen, candidates)
        counts[q, 0], counts[q, 1] = found, collisions
        some_rows(queries[q], points, candidates[:found], distances[:found])
        kept = _keep_nearest(candidates[:found], distances[:found], indices[q], keys[q])
        sort_pairs(keys[q, :kept], indices[q, :kept])


@compiled
def _collect(q, codes, hashes, rows, begins, shift, seen, candidates):
    """The points in the query's buckets, each once; and how many there were with repetitions."""
    found, collisions = 0, 0
    for table in range(codes.shape[0]):
        code = codes[table, q]
        part = np.int64(code >> np.uint64(shift)) if shift < 64 else 0
        low, high = begins[table, part], begins[table, part + 1]
        while low < high:
            middle = (low + high) >> 1
            if hashes[table, middle] < code:
                low = middle + 1
            else:
                high = middle
        end = low
        while end < hashes.shape[1] and hashes[table, end] == code:
            row = rows[table, end]
            if seen[row] != q:
                seen[row] = q
                candidates[found] = row
                found += 1
            end += 1
        collisions += end - low
    return found, collisions


@compiled
def _keep_nearest(candidates, distances, indices, keys):
    """Fill a heap, the farthest on top, with the nearest candidates; how many it holds."""
    size = 0
    for c in range(candidates.shape[0]):
        key, index = distances[c], candidates[c]
        if size < keys.shape[0]:
            place = size
            size += 1
            while place > 0:
                parent = (place - 1) >> 1
                if keys[parent] > key or (keys[parent] == key and indices[parent] > index):
                    break
                keys[place], indices[place] = keys[parent], indices[parent]
                place = parent
        elif key < keys[0] or (key == keys[0] and index < indices[0]):
            place = 0
            while True:
                child = 2 * place + 1
                if child >= size:
                    break
                if child + 1 < size and (
                    keys[child + 1] > keys[child]
                    or (keys[child + 1] == keys[child] and indices[child + 1] > indices[child])
                ):
                    child += 1
                if keys[child] < key or (keys[child] == key and indices[child] < index):
                    break
                keys[place], indices[place] = keys[child], indices[child]
                place = child
        else:
            continue
        keys[place], indices[place] = key, index
    return size
