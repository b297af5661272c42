"""How one validation point is valued in classification, from keys to values. The reading path of the engine.

    keys            exact, pair by pair (neighbors/keys.py), or approximate ones of a whole batch of queries from one
                    matrix product (neighbors/products.py)
    Quantiser       the keys of one query as whole numbers ("qkeys"), with a tolerance within which they may err
    Pivots          the training points that have to be sorted: those of the query's class, or all others if fewer
    kernels.py      a slot for every training point, exact distances where qkeys are ambiguous, a value for every slot
    request.add     sums: total[i] += weight * table[slot[i]]

`Precision` is the policy: products in float32 while they leave few points ambiguous, then in float64. The values are
the same to the bit either way, and for exact keys.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._common.memory import Memory
from nearworth._common.types import FloatVector
from nearworth.engine import kernels
from nearworth.engine.nearest_lists import NearestLists
from nearworth.engine.problem import Problem
from nearworth.engine.run import Request
from nearworth.neighbors.distances import ExactDistances
from nearworth.neighbors.keys import Keys
from nearworth.neighbors.products import ApproximateKeys, ExactKeys, Products, panel_size
from nearworth.results.sums import Leaf

Vector32 = npt.NDArray[np.int32]
CHECKED = 16  # points per query whose exact distances are computed in any case, to check the tolerance
MOST_AMBIGUOUS = 0.02  # share of ambiguous points beyond which float64 products are cheaper than float32 ones


class ClassificationEvaluator:
    """Values of validation points; see Evaluator in run.py. One per thread."""

    def __init__(self, problem: Problem, shared: SharedTraining, products: Products | None, batch: int = 1) -> None:
        game, n_train = problem.game, problem.n_train
        self._problem, self._products, self._batch = problem, products, batch
        self._pivots = shared.pivots
        self._precision = Precision(n_train, single=products is not None and products.single_precision)
        self._quantiser = Quantiser(n_train)
        self._scratch = make_scratch(n_train, shared.pivots.most)
        self._distances = np.empty(max(CHECKED, n_train + shared.pivots.most + 1))
        self._checked = np.linspace(0, n_train - 1, CHECKED).astype(np.int32)
        self._by_index = problem.ties == "index"
        # The kernels count ranks from 1; rank 0 stands for "before the first".
        self._worth = np.concatenate([game.weights.worth[:1], game.weights.worth])
        self._loss = np.concatenate([[0.0], game.weights.loss])

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        weights, scratch = self._problem.weights, self._scratch
        for a in range(start, stop, self._batch):
            b = min(a + self._batch, stop)
            value_each = self._from_exact_keys if self._products is None else self._from_products
            for query, _ in enumerate(value_each(a, b, request), start=a):
                request.add(leaf, query, float(weights[query]), scratch.table, scratch.slot)
                yield b - a if query == b - 1 else 0

    def _from_exact_keys(self, start: int, stop: int, request: Request) -> Iterator[None]:
        for query, keys in self._problem.exact_keys(start, stop, self._batch):
            self._value(query, self._quantiser.exact(keys), keys.__getitem__, request.nearest)
            yield

    def _from_products(self, start: int, stop: int, request: Request) -> Iterator[None]:
        """As far as one precision goes, then on with the other; queries that products cannot handle by exact keys."""
        while start < stop:
            single = self._precision.single
            queries = np.ascontiguousarray(self._problem.queries[start:stop], dtype=np.float64)
            batch = self._products(queries, single=single)  # type: ignore[misc]
            for i, row in enumerate(self._quantiser.approximate(batch)):
                accurate = False
                if batch.usable[i]:
                    n_resolved, accurate = self._value(start, row, batch.exact[i], request.nearest)
                    self._precision.observe(n_resolved, accurate)
                if accurate:
                    yield
                else:
                    yield from self._from_exact_keys(start, start + 1, request)
                start += 1
                if single != self._precision.single:
                    break

    def _value(self, query: int, row: QuantisedRow, exact: ExactKeys, nearest: NearestLists | None) -> tuple[int, bool]:
        """Value one query into the scratch arrays: table[slot[i]] is the value of training point i.

        Returns for how many points exact distances were needed, and whether they show the tolerance to be right.
        """
        problem, scratch = self._problem, self._scratch
        label, self_index = int(problem.query_labels[query]), problem.self_index(query)
        if nearest is not None:  # first, because the kernels overwrite the qkeys
            nearest.note(query, row.qkeys, row.tolerance, exact, self_index)
        pivots, pivots_match, n_matches = self._pivots.of(label)
        constants = problem.game.added(n_matches - (self_index >= 0))  # the query itself, with its label, takes no part
        if isinstance(exact, ExactDistances) and isinstance(exact.points, np.ndarray):  # distances made in the kernel
            n_resolved, accurate = kernels.whole_row(
                row.qkeys, row.lowest, row.highest, row.tolerance, row.scale, pivots, pivots_match, self_index,
                self._by_index, exact.query, exact.points, self._checked, self._distances,
                self._worth, self._loss, *constants, scratch,
            )  # fmt: skip
            return int(n_resolved), bool(accurate)
        accurate = np.isnan(row.scale) or kernels.all_within_tolerance(
            row.qkeys, self._checked, exact(self._checked), row.scale, row.tolerance
        )
        count, others, n_resolved, n_chains = kernels.begin_row(
            row.qkeys, row.lowest, row.highest, row.tolerance, pivots, self_index, scratch
        )
        accurate &= kernels.end_row(
            row.qkeys, exact(scratch.ambiguous[:n_resolved]), row.scale, count, others, n_chains, row.tolerance,
            pivots_match, self_index, self._by_index, self._worth, self._loss, *constants, scratch,
        )  # fmt: skip
        return int(n_resolved), bool(accurate)

    @staticmethod
    def memory(n_train: int, n_pivots: int, *, by_product: bool) -> Memory:
        """Bytes of one evaluator: scratch, distances, rank weights; per query its qkeys, or its exact keys."""
        thread = scratch_bytes(n_train, n_pivots) + 8 * (n_train + n_pivots) + 2 * 8 * n_train
        return (
            Memory(per_thread=thread, per_query=4 * n_train)
            if by_product
            else Memory(per_thread=thread + (8 + 4 + 8) * n_train, per_query=(8 + 8) * n_train)
        )


class Precision:
    """Float32 products while they are accurate and leave few points ambiguous; float64 from then on."""

    def __init__(self, n_train: int, *, single: bool) -> None:
        self.single = single
        self._most_ambiguous = MOST_AMBIGUOUS * n_train

    def observe(self, n_resolved: int, accurate: bool) -> None:
        """Take note of one query: the points resolved by exact distances, and whether these were within tolerance."""
        self.single &= accurate and n_resolved <= self._most_ambiguous


class QuantisedRow(NamedTuple):
    """The keys of one query as whole numbers, their range and their tolerance.

    `scale` is the factor from exact distances to qkeys; NaN where the two cannot be compared.
    """

    qkeys: Vector32
    lowest: int
    highest: int
    tolerance: kernels.Tolerance
    scale: float


class Quantiser:
    """Turns keys into qkeys, and owns the memory for them, because fresh memory costs more than the product."""

    def __init__(self, n_train: int) -> None:
        self._qkeys = np.empty((0, n_train), dtype=np.int32)
        self._panel = np.empty(0)
        self._no_norms = np.zeros(0)

    def exact(self, keys: FloatVector) -> QuantisedRow:
        """Exact keys of one query: the only error is that of quantising."""
        self._reserve(1, 0)
        if not self._no_norms.size:
            self._no_norms = np.zeros(len(keys))
        low, high = kernels.finite_range(keys)
        largest = max(abs(low), abs(high))
        if not (1e-200 < largest < 1e200 or largest == 0.0):  # scaling by a power of two changes no rank
            keys = np.ldexp(keys, -int(np.frexp(largest)[1]))
            low, high = kernels.finite_range(keys)
        scale, tolerance = kernels.quantum(low, high, 0.0, 0.0, low)
        ends = np.array([[kernels.TOP], [0]])
        kernels.quantise_panel(keys[None, :], self._no_norms, np.array([low]), np.array([scale]), 0, self._qkeys, *ends)
        return QuantisedRow(self._qkeys[0], int(ends[0, 0]), int(ends[1, 0]), tolerance, np.nan)

    def approximate(self, batch: ApproximateKeys) -> list[QuantisedRow]:
        """Approximate keys of a batch of queries, panel by panel while these are in the cache."""
        self._reserve(batch.n_queries, batch.width)
        limits = zip(batch.low, batch.high, batch.tolerance, batch.far_tolerance, batch.far_from, strict=True)
        measured = [kernels.quantum(*map(float, limit)) for limit in limits]
        scales = np.array([scale for scale, _ in measured])
        lowest, highest = np.full(len(scales), kernels.TOP), np.zeros(len(scales), dtype=np.int64)
        for start, panel in batch.panels(self._panel):
            kernels.quantise_panel(panel, batch.norms, batch.low, scales, start, self._qkeys, lowest, highest)
        rows = zip(self._qkeys, lowest.tolist(), highest.tolist(), measured, strict=False)
        return [
            QuantisedRow(qkeys, least, most, tolerance, scale if batch.verifiable else np.nan)
            for qkeys, least, most, (scale, tolerance) in rows
        ]

    def _reserve(self, n_queries: int, width: int) -> None:
        if len(self._qkeys) < n_queries:
            self._qkeys = np.empty((n_queries, self._qkeys.shape[1]), dtype=np.int32)
        if width and self._panel.size < panel_size(n_queries, width):
            self._panel = np.empty(panel_size(n_queries, width))


class Scratch(NamedTuple):
    """Working arrays of one thread for rows of N keys with up to F pivots."""

    slot: npt.NDArray[np.int32]  # N: the slot of each point
    cells: npt.NDArray[np.int32]  # cells + 3: cells[c + 1] is the slot of cell c, cells[c] its first pivot
    order: npt.NDArray[np.int32]  # F: pivots by rank
    ranked: npt.NDArray[np.int32]  # F + 2: their qkeys, between two sentinels beyond any tolerance
    exact: npt.NDArray[np.float64]  # F: their exact distances where requested, else NaN
    chain: npt.NDArray[np.int32]  # F + 1: first pivot of the chain of pivots within tolerance of each other
    chain_end: npt.NDArray[np.int32]  # F: one past the last pivot of the chain that begins here
    between: npt.NDArray[np.int32]  # F + 2: how many others lie between pivots; at the end, those that take no part
    tied: npt.NDArray[np.int32]  # F + 1: how many others are tied with the pivots that begin here
    requested: npt.NDArray[np.int32]  # F: first pivots of the chains whose exact distances are requested
    ambiguous: npt.NDArray[np.int32]  # N + F + 1: points whose exact distance is requested
    table: npt.NDArray[np.float64]  # 3F + 3: value of each slot


def _scratch_sizes(n_train: int, most_pivots: int) -> dict[str, tuple[int, Any]]:
    """Length and type of each array of Scratch."""
    n, f, whole = n_train, most_pivots, np.int32
    n_cells = min(1 << 20, max(64, 1 << (8 * f).bit_length()))
    return {
        "slot": (n, whole), "cells": (n_cells + 3, whole), "order": (f, whole), "ranked": (f + 2, whole),
        "exact": (f, np.float64), "chain": (f + 1, whole), "chain_end": (f, whole), "between": (f + 2, whole),
        "tied": (f + 1, whole), "requested": (f, whole), "ambiguous": (n + f + 1, whole),
        "table": (3 * f + 3, np.float64),
    }  # fmt: skip


def make_scratch(n_train: int, most_pivots: int) -> Scratch:
    sizes = _scratch_sizes(n_train, most_pivots)
    return Scratch(**{name: np.empty(size, dtype) for name, (size, dtype) in sizes.items()})


def scratch_bytes(n_train: int, most_pivots: int) -> int:
    """What `make_scratch` allocates."""
    return sum(size * np.dtype(dtype).itemsize for size, dtype in _scratch_sizes(n_train, most_pivots).values())


class Pivots:
    """For each class the training points to sort: its own, or all others where it has more than half of them."""

    def __init__(self, codes: npt.NDArray[Any]) -> None:
        self._counts = np.bincount(codes)
        self._order = np.argsort(codes, kind="stable").astype(np.int32)
        self._starts = np.concatenate([[0], np.cumsum(self._counts)])
        self._others: dict[int, Vector32] = {
            int(code): np.flatnonzero(codes != code).astype(np.int32)
            for code in np.flatnonzero(2 * self._counts > len(codes))
        }
        self.most = int(np.minimum(self._counts, len(codes) - self._counts).max())

    def of(self, label: int) -> tuple[Vector32, bool, int]:
        """The pivots of a label, whether they match it, and how many training points do; none for an unseen label."""
        if label < 0:
            return self._order[:0], True, 0
        if label in self._others:
            return self._others[label], False, int(self._counts[label])
        return self._order[self._starts[label] : self._starts[label + 1]], True, int(self._counts[label])


class SharedTraining:
    """What the evaluators of one training set share, each part made when it is first needed."""

    def __init__(self, keys: Keys, labels: npt.NDArray[Any]) -> None:
        self._keys, self._labels = keys, labels
        self._pivots: Pivots | None = None
        self._products: dict[bool, Products] = {}
        self._lock = threading.Lock()

    @property
    def pivots(self) -> Pivots:
        with self._lock:
            self._pivots = self._pivots or Pivots(self._labels)
            return self._pivots

    def products(self, *, single: bool) -> Products:
        """Approximate keys from matrix products, with a float32 copy of the training set or without."""
        with self._lock:
            if single not in self._products:
                self._products[single] = self._keys.products(single=single)
            return self._products[single]
