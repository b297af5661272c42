"""The loop over validation points: threads, progress, interruption."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._typing import FloatMatrix, FloatVector, IntVector
from nearworth.engine.accumulate import CHUNK, Leaf, Moments, Partial
from nearworth.engine.plan import Plan
from nearworth.engine.problem import Evaluator, Problem
from nearworth.engine.threads import one_blas_thread
from nearworth.engine.truncate import TruncatedEvaluator

Report = Callable[[int, int], object]


@dataclass(frozen=True)
class Outcome:
    """Moments of the values over all validation points, and the single values that were asked for."""

    moments: Moments
    contributions: FloatMatrix | None = None
    excess: FloatMatrix | None = None


@dataclass(frozen=True)
class Request:
    """What to sum up: values of points, or of groups of points (a code each); and whose to keep one by one.

    With `excess`, also how much farther each query's intervals would reach if it knew no ranks (see `truncate`).
    """

    spread: bool = False
    chosen: IntVector | None = None
    groups: IntVector | None = None
    excess: bool = False


def run(
    problem: Problem,
    plan: Plan,
    request: Request,
    make_evaluator: Callable[[], Evaluator | TruncatedEvaluator],
    report: Report | None = None,
) -> Outcome:
    """Sum the values over the validation points, in the plan's threads and batches."""
    kept = None if request.chosen is None else np.empty((problem.n_val, request.chosen.size))
    excess = np.zeros((2, problem.n_val)) if request.excess else None
    work = _Work(problem, plan, request, kept, excess)
    partial = Partial()
    with _workers(work, make_evaluator, plan.threads):
        done, waiting = 0, -(-problem.n_val // CHUNK)
        while waiting:
            message = work.messages.get()
            if isinstance(message, BaseException):
                raise message
            if isinstance(message, int):
                done += message
                if report is not None:
                    report(done, problem.n_val)
            else:
                partial.add(*message)
                waiting -= 1
    return Outcome(partial.finish(), kept, excess)


def widened(outcome: Outcome, weights: FloatVector, n_incomplete: int) -> Moments:
    """The sums with wider ends: any so many validation points may know nothing, the worst ones for each end."""
    moments, excess = outcome.moments, outcome.excess
    assert moments.ends is not None
    assert excess is not None
    worst = np.sort(excess * weights, axis=1)[:, ::-1][:, :n_incomplete].sum(axis=1)
    return replace(moments, ends=moments.ends + np.array([[-worst[0]], [worst[1]]]))


@dataclass
class _Work:
    """What the threads share: leaves to take, a box for messages, a sign to stop."""

    problem: Problem
    plan: Plan
    request: Request
    kept: FloatMatrix | None
    excess: FloatMatrix | None
    messages: queue.Queue[Any] = field(default_factory=lambda: queue.Queue(maxsize=8))
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._starts = iter(enumerate(range(0, self.problem.n_val, CHUNK)))
        self._lock = threading.Lock()

    def leaves(self) -> Iterator[tuple[int, int]]:
        """Leaves that nobody has taken yet."""
        while not self.stop.is_set():
            with self._lock:
                leaf = next(self._starts, None)
            if leaf is None:
                return
            yield leaf

    def evaluate(self, evaluator: Evaluator | TruncatedEvaluator, start: int) -> Moments | None:
        """One leaf, batch by batch; None if told to stop."""
        problem = self.problem
        stop = min(start + CHUNK, problem.n_val)
        if isinstance(evaluator, TruncatedEvaluator):
            return self._evaluate_truncated(evaluator, start, stop)
        leaf = self._empty_leaf()
        for a in range(start, stop, self.plan.batch):
            b = min(a + self.plan.batch, stop)
            for query, places in enumerate(evaluator.places(a, b), start=a):
                self._add(leaf, query, *places)
                if self.stop.is_set():
                    return None
            self.messages.put(b - a)
        return leaf.moments()

    def _empty_leaf(self) -> Leaf:
        groups = self.request.groups
        return Leaf(self.problem.n_train if groups is None else int(groups.max()) + 1, spread=self.request.spread)

    def _add(self, leaf: Leaf, query: int, table: FloatVector, place: npt.NDArray[np.int32]) -> None:
        """Add one validation point to the sums that were asked for."""
        groups, weight = self.request.groups, float(self.problem.weights[query])
        if self.kept is not None:
            self.kept[query] = table[place[self.request.chosen]]
        if groups is None:
            leaf.add(table, place, weight)
        else:
            leaf.add_values(np.bincount(groups, weights=table[place]).astype(np.float64), weight)

    def _evaluate_truncated(self, evaluator: TruncatedEvaluator, start: int, stop: int) -> Moments | None:
        """One leaf at once: far points cost nothing unless somebody wants single values, groups or their spread."""
        request, weights = self.request, self.problem.weights
        rows = list(evaluator.rows(start, stop))
        if self.excess is not None:
            self.excess[:, start:stop] = evaluator.excess(rows)
        leaf = self._empty_leaf()
        if request.spread or request.groups is not None or self.kept is not None:
            for (query, _, _), places in zip(rows, evaluator.dense(rows), strict=True):
                self._add(leaf, query, *places)
                if self.stop.is_set():
                    return None
        else:
            leaf.count(weights[start:stop])
        self.messages.put(stop - start)
        if request.groups is not None:
            return leaf.moments()
        sums = evaluator.sums(rows, weights)
        return replace(leaf.moments(), total=sums[0], ends=sums[1:])


@contextmanager
def _workers(work: _Work, make_evaluator: Callable[[], Evaluator | TruncatedEvaluator], count: int) -> Iterator[None]:
    """Threads of our own, ended with the block: nothing survives to be forked or shared.

    The main thread only listens, so Ctrl-C reaches it at once; the workers stop after the query at hand.
    """

    def labour() -> None:
        try:
            evaluator = make_evaluator()
            for number, start in work.leaves():
                moments = work.evaluate(evaluator, start)
                if moments is not None:
                    work.messages.put((number, moments))
        except BaseException as error:
            work.messages.put(error)

    threads: list[threading.Thread] = []
    with one_blas_thread():
        try:
            for _ in range(count):
                thread = threading.Thread(target=labour, daemon=True)
                thread.start()
                threads.append(thread)
            yield
        finally:
            work.stop.set()
            for thread in threads:
                while thread.is_alive():
                    _discard(work.messages)  # somebody may be waiting for room in the box
                    thread.join(0.01)


def _discard(messages: queue.Queue[Any]) -> None:
    with suppress(queue.Empty):
        while True:
            messages.get_nowait()
