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
from nearworth.engine.accumulate import Partial
from nearworth.engine.moments import CHUNK, Leaf, Moments
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
    partial: Partial | None = None


@dataclass(frozen=True)
class Request:
    """What to sum up: values of points, or of groups of points (a code each); and whose to keep one by one.

    With `excess`, also how much farther each query's intervals would reach if it knew no ranks (see `truncate`).
    """

    spread: bool = False
    chosen: IntVector | None = None
    groups: IntVector | None = None
    excess: bool = False


Evaluators = Callable[[], Evaluator | TruncatedEvaluator]
Listener = Callable[[Partial], object]


@dataclass(frozen=True)
class Span:
    """Which leaves of all validation points to sum up.

    The first validation point of the problem is number `offset` of all; `opened` are the sums of the leaf that it
    falls into, over the points before it.
    """

    leaves: tuple[int, ...]
    offset: int = 0
    opened: Leaf | None = None

    @classmethod
    def of(cls, n_val: int, offset: int = 0, opened: Leaf | None = None, done: Partial | None = None) -> Span:
        """All leaves of so many validation points, but those that are done."""
        numbers = range(offset // CHUNK, -(-(offset + n_val) // CHUNK))
        return cls(tuple(leaf for leaf in numbers if done is None or leaf not in done), offset, opened)

    def points(self, leaf: int, n_val: int) -> tuple[int, int]:
        """The validation points of a leaf, as the problem numbers them."""
        return max(CHUNK * leaf - self.offset, 0), min(CHUNK * leaf + CHUNK - self.offset, n_val)

    def begin(self, leaf: int) -> Leaf | None:
        """The sums to go on with, if others came before."""
        return self.opened.copy() if self.opened is not None and leaf == self.offset // CHUNK else None


def run(
    problem: Problem, plan: Plan, request: Request, make_evaluator: Evaluators, report: Report | None = None
) -> Outcome:
    """Sum the values over the validation points, in the plan's threads and batches."""
    kept = None if request.chosen is None else np.empty((problem.n_val, request.chosen.size))
    excess = np.zeros((2, problem.n_val)) if request.excess else None
    partial = Partial()
    work = _Work(problem, plan, request, Span.of(problem.n_val), kept, excess)
    _sum_up(work, make_evaluator, partial, report)
    return Outcome(partial.finish(), kept, excess, partial)


def run_span(
    problem: Problem,
    plan: Plan,
    request: Request,
    make_evaluator: Evaluators,
    span: Span,
    partial: Partial,
    report: Report | None = None,
    listener: Listener | None = None,
) -> None:
    """Add the leaves of a span to a part; the listener hears of every new leaf. The excess goes to the part's notes."""
    work = _Work(problem, plan, request, span, None, partial.notes["excess"] if request.excess else None)
    done = problem.n_val - sum(b - a for a, b in (span.points(leaf, problem.n_val) for leaf in span.leaves))
    if span.leaves:
        _sum_up(work, make_evaluator, partial, report, listener, done)


def _sum_up(
    work: _Work,
    make_evaluator: Evaluators,
    partial: Partial,
    report: Report | None,
    listener: Listener | None = None,
    done: int = 0,
) -> None:
    n_val = work.problem.n_val
    with _workers(work, make_evaluator, work.plan.threads):
        waiting = len(work.span.leaves)
        while waiting:
            message = work.messages.get()
            if isinstance(message, BaseException):
                raise message
            if isinstance(message, int):
                done += message
                if report is not None:
                    report(done, n_val)
            else:
                number, sums = message
                partial.add_leaf(number, sums) if isinstance(sums, Leaf) else partial.add(number, sums)
                waiting -= 1
                if listener is not None:
                    listener(partial)


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
    span: Span
    kept: FloatMatrix | None
    excess: FloatMatrix | None
    messages: queue.Queue[Any] = field(default_factory=lambda: queue.Queue(maxsize=8))
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._left = iter(self.span.leaves)
        self._lock = threading.Lock()

    def leaves(self) -> Iterator[int]:
        """Leaves that nobody has taken yet."""
        while not self.stop.is_set():
            with self._lock:
                leaf = next(self._left, None)
            if leaf is None:
                return
            yield leaf

    def evaluate(self, evaluator: Evaluator | TruncatedEvaluator, number: int) -> Leaf | None:
        """One leaf, batch by batch; None if told to stop."""
        start, stop = self.span.points(number, self.problem.n_val)
        leaf = self.span.begin(number) or self._empty_leaf()
        if isinstance(evaluator, TruncatedEvaluator):
            return self._evaluate_truncated(evaluator, leaf, start, stop)
        for a in range(start, stop, self.plan.batch):
            b = min(a + self.plan.batch, stop)
            for query, places in enumerate(evaluator.places(a, b), start=a):
                self._add(leaf, query, *places, evaluator.slack)
                if self.stop.is_set():
                    return None
            self.messages.put(b - a)
        return leaf

    def _empty_leaf(self) -> Leaf:
        groups = self.request.groups
        return Leaf(self.problem.n_train if groups is None else int(groups.max()) + 1, spread=self.request.spread)

    def _add(
        self, leaf: Leaf, query: int, table: FloatVector, place: npt.NDArray[np.int32], slack: float = 0.0
    ) -> None:
        """Add one validation point to the sums that were asked for."""
        groups, weight = self.request.groups, float(self.problem.weights[query])
        if self.kept is not None:
            self.kept[query] = table[place[self.request.chosen]]
        if groups is None:
            leaf.add(table, place, weight, slack)
        else:
            leaf.add_values(np.bincount(groups, weights=table[place]).astype(np.float64), weight)

    def _evaluate_truncated(self, evaluator: TruncatedEvaluator, leaf: Leaf, start: int, stop: int) -> Leaf | None:
        """One leaf at once: far points cost nothing unless somebody wants single values, groups or their spread."""
        request, weights = self.request, self.problem.weights
        rows = list(evaluator.rows(start, stop))
        if self.excess is not None:
            self.excess[:, start:stop] = evaluator.excess(rows)
        if request.spread or request.groups is not None or self.kept is not None:
            for (query, _, _), places in zip(rows, evaluator.dense(rows), strict=True):
                self._add(leaf, query, *places)
                if self.stop.is_set():
                    return None
        else:
            leaf.count(weights[start:stop])
        self.messages.put(stop - start)
        if request.groups is None:
            leaf.truncated = evaluator.sums(rows, weights, leaf.truncated)
        return leaf


@contextmanager
def _workers(work: _Work, make_evaluator: Evaluators, count: int) -> Iterator[None]:
    """Threads of our own, ended with the block: nothing survives to be forked or shared.

    The main thread only listens, so Ctrl-C reaches it at once; the workers stop after the query at hand.
    """

    def labour() -> None:
        try:
            evaluator = make_evaluator()
            for number in work.leaves():
                leaf = work.evaluate(evaluator, number)
                if leaf is not None:
                    work.messages.put((number, leaf.moments() if leaf.n_points == CHUNK else leaf))
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
