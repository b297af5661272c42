"""Values of a block of queries in classification, by compiled code.

The numbers are those of reference.py, which values one query in a dozen lines of numpy. Read that
first. This module only makes them fast. For each block of queries,

    1. QuantisedKeys     their keys as whole numbers with a tolerance (neighbors/quantised.py): from
                         one matrix product in single precision, from one in double precision, or
                         from exact keys
    2. classify_block    one call into native/classify.c: ranks the points by cells, takes exact
                         distances only where the tolerance leaves the order open, and adds weighted
                         values to a sum

Inside, training points stand in the order of their classes (`ClassOrder`), so that the matches of a
query are one slice. `_next_block` chooses the cheapest way to make the keys, which changes no bit
of exact values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common import native
from nearworth._common.memory import Memory
from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix32, IntVector32
from nearworth.engine.interruption import interruptible_batch
from nearworth.engine.problem import Problem
from nearworth.engine.run import Request
from nearworth.games.classification import ClassificationGame
from nearworth.neighbors.keys import Keys
from nearworth.neighbors.quantised import QuantisedKeys, quantise_exact
from nearworth.results.sums import Leaf

# With a larger share of points whose order single precision leaves open, their exact distances cost
# more than a product in double precision does.
MAX_AMBIGUOUS_SHARE = 0.1

# The first block is cut to so many queries, which show whether single precision pays.
PROBE_QUERIES = 8

# Cells of a query, which are numbered by 16 bits for both statuses together.
MIN_CELLS, MAX_CELLS = 256, 16384

# Each number of excluded points needs sequences of its own; only the last few are kept.
MAX_KEPT_SEQUENCES = 4


@dataclass(frozen=True, eq=False)
class RankSequences:
    """The sequences of a game as classify.c counts ranks: from 1, and 0 is in front of the first.

    Attributes
    ----------
    worth : array of shape (N + 2,)
        What a vote is worth. The entry at 0 is that at 1, and the last one is never used.
    loss : array of shape (N + 1,)
        What any nearer point loses to a match.
    cumulative : array of shape (N + 1,)
        Sums of worth up to each rank.
    rank_of_largest_loss : int
        From there on losses do not increase; counted from 0.
    """

    worth: FloatVector
    loss: FloatVector
    cumulative: FloatVector
    rank_of_largest_loss: int

    @classmethod
    def of(cls, game: ClassificationGame) -> RankSequences:
        worth = game.weights.worth
        loss = game.weights.loss
        return cls(
            worth=np.r_[worth[:1], worth, 0.0],
            loss=np.r_[0.0, loss],
            cumulative=np.r_[0.0, np.cumsum(worth)],
            rank_of_largest_loss=int(loss.argmax()),
        )


class ClassificationEvaluator:
    """Values of validation points; see Evaluator in run.py. One per thread.

    Parameters
    ----------
    problem : Problem
    shared : SharedTraining
    batch : int
        Queries whose keys are made together.
    products : bool
        Whether keys come from matrix products.
    single : bool
        Whether to begin with products in single precision.
    max_error : float, optional
        The error that certified values may have. None: exact values.
    """

    def __init__(
        self,
        problem: Problem,
        shared: SharedTraining,
        *,
        batch: int = 1,
        products: bool = False,
        single: bool = False,
        max_error: float | None = None,
    ) -> None:
        self._problem = problem
        self._classes = shared.classes
        self._batch = batch
        self._max_error = max_error
        self._products = shared.products if products else None
        self._single = self._products is not None and single and self._products.single_precision
        # Certified values depend on the keys, so these must not depend on a probe.
        self._probing = self._single and max_error is None

        # Queries whose keys exist but which are not valued yet, and the number of the first one.
        self._pending: QuantisedKeys | None = None
        self._pending_start = 0

        # With an error allowed, most points stay in their cells, and coarse cells are enough.
        n_train = problem.n_train
        self._n_cells = n_cells(n_train) // (1 if max_error is None else 4)
        n_bytes = native.call("classify_scratch", n_train, self._n_cells)
        self._scratch = np.empty(n_bytes, dtype=np.uint8)
        self._qkeys = np.empty((0, n_train), dtype=np.int32)

        # The last count is that of label -1, which no training point has.
        self._class_sizes = np.append(self._classes.counts, 0)

        def sequences_without(n_excluded: int) -> RankSequences:
            return RankSequences.of(problem.game_without(n_excluded))

        self._sequences = lru_cache(maxsize=MAX_KEPT_SEQUENCES)(sequences_without)

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        # Sums by group need the order of the rows. All others stay in the order of the classes
        # until the leaf is done.
        ordered: AbstractContextManager[Leaf] = nullcontext(leaf)
        if request.groups is None:
            ordered = leaf.reordered(self._classes.order, self._classes.positions)
        with ordered as sums:
            while start < stop:
                block = self._next_block(start, min(start + self._batch, stop))
                n_queries = len(block.qkeys)
                self._add_block(sums, block, start, request)
                yield n_queries
                start += n_queries

    def _add_block(self, sums: Leaf, block: QuantisedKeys, start: int, request: Request) -> None:
        """Add the queries of a block, of which `start` is the first."""
        end = start + len(block.qkeys)
        for a, b, excluded_rows in self._problem.runs(start, end):
            run = block.some(a - start, b - start)
            excluded = self._classes.positions[excluded_rows]
            lists = request.nearest
            if lists is not None:
                listed = lists.found.part(slice(a, b))
                run.nearest(self._classes.order, excluded, listed, least=lists.least, first=a)
            if request.needs_every_value:
                self._add_one_by_one(sums, run, a, excluded, request)
            else:
                weights = self._problem.weights[a:b]
                sums.count(weights, self._add_values(run, a, excluded, weights, sums.total))

    def _next_block(self, start: int, stop: int) -> QuantisedKeys:
        """The keys of the next queries, from `start` on: not always of all of them."""
        pending, self._pending = self._pending, None
        if pending is not None and self._pending_start == start and self._single:
            return pending
        block = self._make_block(start, stop)
        n_queries = len(block.qkeys)
        if self._probing and n_queries > PROBE_QUERIES:
            self._pending = block.some(PROBE_QUERIES, n_queries)
            self._pending_start = start + PROBE_QUERIES
            return block.some(0, PROBE_QUERIES)
        return block

    def _make_block(self, start: int, stop: int) -> QuantisedKeys:
        problem = self._problem
        classes = self._classes
        n_queries = min(self._batch, stop - start)
        if len(self._qkeys) < n_queries:
            self._qkeys = np.empty((n_queries, problem.n_train), dtype=np.int32)

        if self._products is not None:
            queries = np.ascontiguousarray(problem.queries[start:stop], dtype=np.float64)
            block = self._products(
                queries, classes.order, classes.positions, self._qkeys, single=self._single
            )
            n_usable = int(np.argmin(np.append(block.usable, False)))
            if n_usable > 0:
                return block.some(0, n_usable)
            # The first queries are too far away for a product, and need exact keys.
            stop = start + int(np.argmax(np.append(block.usable, True)))

        stop = min(stop, start + interruptible_batch(problem, self._batch))
        keys = problem.keys(problem.queries[start:stop])
        return quantise_exact(keys, classes.order, self._qkeys)

    def _add_values(
        self,
        block: QuantisedKeys,
        start: int,
        excluded: IntMatrix32,
        weights: FloatVector,
        total: FloatVector,
    ) -> FloatVector | None:
        """Add weighted values of a block to `total`, which has the order of the classes.

        Parameters
        ----------
        block : QuantisedKeys of Q queries
        start : int
            The number of the first of them.
        excluded : array of shape (Q, n_excluded)
            Positions that take no part in the game of each query.
        weights : array of shape (Q,)
        total : array of shape (N,)

        Returns
        -------
        array of shape (Q,) or None
            Certified errors of the values of each query; None if values are exact.
        """
        problem, classes = self._problem, self._classes
        n_queries = len(block.qkeys)
        query_labels = problem.query_labels[start : start + n_queries]
        labels = np.ascontiguousarray(query_labels, dtype=np.int32)
        sequences = self._sequences(excluded.shape[1])
        queries, points, given, ask = block.source
        errors = np.zeros(n_queries)
        n_exact_distances = native.call(
            "classify_block",
            qkeys=block.qkeys,
            tolerances=block.tolerance,
            labels=labels,
            excluded=excluded,
            constants=self._constants(labels, excluded),
            weights=np.ascontiguousarray(weights, dtype=np.float64),
            starts=classes.starts,
            row_of=classes.order,
            place_of=classes.positions,
            worth=sequences.worth,
            loss=sequences.loss,
            cumulative=sequences.cumulative,
            max_error=self._max_error or 0.0,
            certain=sequences.rank_of_largest_loss,
            by_index=problem.ties == "index",
            n_cells=self._n_cells,
            queries=queries,
            points=points,
            given=given,
            ask=ask,
            total=total,
            errors=errors,
            memory=self._scratch,
        )
        if self._max_error is not None:
            return errors
        self._probing = False
        if n_exact_distances > MAX_AMBIGUOUS_SHARE * n_queries * problem.n_train:
            self._single = False
        return None

    def _constants(self, labels: IntVector32, excluded: IntMatrix32) -> FloatMatrix:
        """What the utility adds to the value of a match and of another point, shape (Q, 2)."""
        problem = self._problem
        excluded_labels = problem.labels[self._classes.order[excluded]]
        n_excluded_matches = (excluded_labels == labels[:, None]).sum(axis=1)
        n_matches = self._class_sizes[labels] - n_excluded_matches
        of_match, of_other = problem.game_without(excluded.shape[1]).added(n_matches)
        constants = np.empty((len(labels), 2))
        constants[:, 0] = of_match
        constants[:, 1] = of_other
        return constants

    def _add_one_by_one(
        self, sums: Leaf, block: QuantisedKeys, start: int, excluded: IntMatrix32, request: Request
    ) -> None:
        """Add a block query by query, where sums alone are not enough."""
        for q in range(len(block.qkeys)):
            query = start + q
            weight = float(self._problem.weights[query])
            values = np.zeros(self._problem.n_train)
            error = self._add_values(
                block.some(q, q + 1), query, excluded[q : q + 1], np.ones(1), values
            )
            request.add(sums, query, weight, values, self._classes.positions)
            if error is not None:
                sums.widen(weight * float(error[0]))

    @staticmethod
    def memory(n_train: int, *, by_product: bool) -> Memory:
        """Bytes of one evaluator: scratch, three sequences and sums; per query its keys."""
        scratch = int(native.call("classify_scratch", n_train, n_cells(n_train)))
        sequences = 3 * 8 * n_train
        sums = 8 * n_train
        qkeys = 4 * n_train
        # Exact keys, and what quantising them takes.
        exact_keys = (8 + 8 + 8 + 1) * n_train
        return Memory(
            per_thread=scratch + sequences + sums + 2**12,
            per_query=qkeys if by_product else qkeys + exact_keys,
        )


def n_cells(n_train: int) -> int:
    """Cells of a query, at most: between a quarter and an eighth of the points, within limits."""
    return min(MAX_CELLS, max(MIN_CELLS, 1 << (n_train // 8).bit_length()))


class ClassOrder:
    """Training points in the order of their classes.

    Attributes
    ----------
    counts : array of shape (C,)
        Points of each class.
    starts : array of shape (C + 1,)
        Class c has the positions starts[c] .. starts[c + 1] - 1.
    order : array of shape (N,)
        The row at each position.
    positions : array of shape (N,)
        The position of each row.
    """

    def __init__(self, codes: npt.NDArray[Any]) -> None:
        self.counts = np.bincount(codes)
        self.starts = np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)
        # numpy sorts numbers of 16 bits by counting.
        sortable = codes.astype(np.uint16) if len(self.counts) <= 2**16 else codes
        self.order = np.argsort(sortable, kind="stable").astype(np.int32)
        self.positions = np.empty(len(codes), dtype=np.int32)
        self.positions[self.order] = np.arange(len(codes), dtype=np.int32)


class SharedTraining:
    """What the evaluators of one training set share."""

    def __init__(self, keys: Keys, labels: npt.NDArray[Any]) -> None:
        self.classes = ClassOrder(labels)
        self.products = keys.products(single=True) if keys.has_products else None
