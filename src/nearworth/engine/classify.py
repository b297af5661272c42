"""How validation points are valued in classification, from keys to sums. The reading path of the
engine.

    ClassOrder       training points in the order of their classes, so that the matches of a query
    are one slice QuantisedKeys    keys of a block of queries as whole numbers with a tolerance
    (neighbors/quantised.py): from one
                     matrix product in single precision, from one in double precision, or from exact
                     keys
    native/classify.c    one compiled call for the block: cells, exact distances where qkeys are
    ambiguous, values, sums

`_next_block` is the policy: products in single precision while they leave few points ambiguous,
then in double. The values are the same to the bit either way, and for exact keys. Without the
compiled library, see RankRule in rules.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common import native
from nearworth._common.memory import Memory
from nearworth._common.types import FloatVector, IntMatrix32
from nearworth.engine.interruption import interruptible_batch
from nearworth.engine.problem import Problem
from nearworth.engine.run import Request
from nearworth.games.classification import ClassificationGame
from nearworth.neighbors.keys import Keys
from nearworth.neighbors.quantised import QuantisedKeys, quantise_exact
from nearworth.results.sums import Leaf

MOST_AMBIGUOUS = (
    0.1  # share of ambiguous points beyond which products in double precision are cheaper
)
LEAST_CELLS, MOST_CELLS = 256, 16384
PROBED = 8  # queries after which the precision of products is chosen
FEW_SIZES = 4  # numbers of excluded points whose sequences are kept


class ClassificationEvaluator:
    """Values of validation points; see Evaluator in run.py. One per thread."""

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
        self._problem, self._classes, self._batch = problem, shared.classes, batch
        self._products = shared.products if products else None
        self._single = self._products is not None and single and self._products.single_precision
        self._probing = self._single and max_error is None
        self._kept: tuple[int, QuantisedKeys | None] = (
            0,
            None,
        )  # from a query on: made, not valued yet
        n_train = problem.n_train
        self._n_cells = n_cells(n_train) // (1 if max_error is None else 4)
        self._scratch = np.empty(
            native.call("classify_scratch", n_train, self._n_cells), dtype=np.uint8
        )
        self._qkeys = np.empty((0, n_train), dtype=np.int32)
        self._max_error = max_error
        self._counts = np.append(
            self._classes.counts, 0
        )  # the last one for labels that no training point has
        self._sequences = lru_cache(maxsize=FEW_SIZES)(
            lambda n_excluded: _sequences(problem.game_without(n_excluded))
        )

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        order, grouped = self._classes.order, request.groups is not None
        with (
            nullcontext(leaf) if grouped else leaf.reordered(order, self._classes.positions) as sums
        ):
            while start < stop:
                block = self._next_block(start, min(start + self._batch, stop))
                end = start + len(block.qkeys)
                for a, b, excluded in self._problem.runs(start, end):
                    part, positions = (
                        block.some(a - start, b - start),
                        self._classes.positions[excluded],
                    )
                    if (lists := request.nearest) is not None:
                        part.nearest(
                            order,
                            positions,
                            lists.found.part(slice(a, b)),
                            least=lists.least,
                            first=a,
                        )
                    if request.needs_every_value:
                        self._add_each(sums, part, a, positions, request)
                    else:
                        weights = self._problem.weights[a:b]
                        sums.count(weights, self._value(part, a, positions, weights, sums.total))
                yield end - start
                start = end

    def _next_block(self, start: int, stop: int) -> QuantisedKeys:
        """The qkeys of the next queries: by the cheapest way that serves, as far as it does."""
        (kept_from, kept), self._kept = self._kept, (0, None)
        if kept is not None and kept_from == start and self._single:
            return kept
        block = self._make_block(start, stop)
        if (
            self._probing and len(block.qkeys) > PROBED
        ):  # a few alone show whether single precision is worth it
            self._kept = start + PROBED, block.some(PROBED, len(block.qkeys))
            return block.some(0, PROBED)
        return block

    def _make_block(self, start: int, stop: int) -> QuantisedKeys:
        problem, products, classes = self._problem, self._products, self._classes
        if len(self._qkeys) < min(self._batch, stop - start):
            self._qkeys = np.empty(
                (min(self._batch, stop - start), self._qkeys.shape[1]), dtype=np.int32
            )
        if products is not None:
            queries = np.ascontiguousarray(problem.queries[start:stop], dtype=np.float64)
            block = products(
                queries, classes.order, classes.positions, self._qkeys, single=self._single
            )
            if n_usable := int(np.argmin(np.append(block.usable, False))):
                return block.some(0, n_usable)
            stop = start + int(np.argmax(np.append(block.usable, True)))
        keys = problem.keys(
            problem.queries[start : min(stop, start + interruptible_batch(problem, self._batch))]
        )
        return quantise_exact(keys, classes.order, self._qkeys)

    def _value(
        self,
        block: QuantisedKeys,
        start: int,
        excluded: IntMatrix32,
        weights: FloatVector,
        total: FloatVector,
    ) -> Any:
        """Add the values of a block to sums in the order of the classes; gives certified errors,
        None where exact.
        """
        problem, classes, n_queries = self._problem, self._classes, len(block.qkeys)
        labels = np.ascontiguousarray(
            problem.query_labels[start : start + n_queries], dtype=np.int32
        )
        errors = np.zeros(n_queries)
        worth, loss, cumulative, largest_loss = self._sequences(excluded.shape[1])
        # What the utility adds to the value of a match and of another point, for each query.
        left_out = problem.labels[classes.order[excluded]] == labels[:, None]
        added = problem.game_without(excluded.shape[1]).added(
            self._counts[labels] - left_out.sum(axis=1)
        )
        constants = np.stack(np.broadcast_arrays(*added, errors)[:2], axis=1)
        taken = native.call(
            "classify_block",
            block.qkeys,
            block.tolerance,
            labels,
            excluded,
            constants,
            np.ascontiguousarray(weights, dtype=np.float64),
            classes.starts,
            classes.order,
            classes.positions,
            worth,
            loss,
            cumulative,
            self._max_error or 0.0,
            largest_loss,
            problem.ties == "index",
            self._n_cells,
            *block.source,
            total,
            errors,
            self._scratch,
        )
        if self._max_error is not None:
            return errors
        self._probing = False
        if taken > MOST_AMBIGUOUS * n_queries * problem.n_train:
            # this changes no bit of exact values; certified ones depend on keys and cells
            self._single = False
        return None

    def _add_each(
        self, sums: Leaf, block: QuantisedKeys, start: int, excluded: IntMatrix32, request: Request
    ) -> None:
        """Query by query, where sums alone are not enough."""
        for q in range(len(block.qkeys)):
            values, weight = (
                np.zeros(self._problem.n_train),
                float(self._problem.weights[start + q]),
            )
            error = self._value(
                block.some(q, q + 1), start + q, excluded[q : q + 1], np.ones(1), values
            )
            request.add(sums, start + q, weight, values, self._classes.positions)
            if error is not None:
                sums.widen(weight * float(error[0]))

    @staticmethod
    def memory(n_train: int, *, by_product: bool) -> Memory:
        """Bytes of one evaluator: scratch, rank weights, sums in the order of the classes; per
        query its exact keys.
        """
        thread = (
            int(native.call("classify_scratch", n_train, n_cells(n_train)))
            + (2 + 1 + 1) * 8 * n_train
            + 2**12
        )
        return Memory(
            per_thread=thread, per_query=(4 if by_product else 4 + 8 + 8 + 8 + 1) * n_train
        )


def _sequences(game: ClassificationGame) -> tuple[FloatVector, FloatVector, FloatVector, int]:
    """Worth, loss and the sums of worth by rank, as the kernel counts ranks: from 1, 0 is "before
    the first".
    """
    worth, loss = game.weights.worth, game.weights.loss
    read = np.r_[worth[:1], worth, 0.0]  # the last one is not used
    return read, np.r_[0.0, loss], np.r_[0.0, np.cumsum(worth)], int(loss.argmax())


def n_cells(n_train: int) -> int:
    """Cells of a query, at most: between a quarter and an eighth of the points, within limits."""
    return min(MOST_CELLS, max(LEAST_CELLS, 1 << (n_train // 8).bit_length()))


class ClassOrder:
    """Training points in the order of their classes: `order[i]` is the row at position i,
    `positions` the inverse.
    """

    def __init__(self, codes: npt.NDArray[Any]) -> None:
        self.counts = np.bincount(codes)
        self.starts = np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)
        small = (
            codes.astype(np.uint16) if len(self.counts) <= 2**16 else codes
        )  # which are sorted by counting
        self.order = np.argsort(small, kind="stable").astype(np.int32)
        self.positions = np.empty(len(codes), dtype=np.int32)
        self.positions[self.order] = np.arange(len(codes), dtype=np.int32)


class SharedTraining:
    """What the evaluators of one training set share."""

    def __init__(self, keys: Keys, labels: npt.NDArray[Any]) -> None:
        self.classes = ClassOrder(labels)
        self.products = keys.products(single=True) if keys.has_products else None
