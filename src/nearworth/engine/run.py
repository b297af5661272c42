"""The loop over validation points: threads, progress, interruption. It depends on the Evaluator contract alone."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import numpy as np
from threadpoolctl import ThreadpoolController

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.engine.nearest_lists import NearestLists
from nearworth.engine.problem import Problem
from nearworth.results.sums import CHUNK, Leaf, Partial

Report = Callable[[int, int], object]  # called with (validation points done, all of them)
OnLeaf = Callable[[Partial], object]  # called after each new leaf
SHORT_RUN = 2.0  # seconds before a progress bar is shown


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to sum up, and what to record of single validation points.

    Sums are over training points, or over groups of them (a code for each training point), with their spread or
    without. Recorded, row by row, are: values of the `chosen` points (validation points, chosen); how much farther each
    query's interval would extend if no ranks were known (2, validation points; see `truncate`); the nearest points.
    """

    spread: bool = False
    groups: IntVector | None = None
    chosen: IntVector | None = None
    contributions: FloatMatrix | None = None
    excess: FloatMatrix | None = None
    nearest: NearestLists | None = None

    @property
    def needs_every_value(self) -> bool:
        """Whether sums alone are not enough."""
        return self.spread or self.groups is not None or self.chosen is not None

    def leaf(self, n_train: int) -> Leaf:
        return Leaf(n_train if self.groups is None else int(self.groups.max()) + 1, spread=self.spread)

    def add(self, leaf: Leaf, query: int, weight: float, values: FloatVector, positions: Any = None) -> None:
        """Add one validation point; the value of training point i is values[i], or values[positions[i]]."""
        if self.contributions is not None:
            self.contributions[query] = values[self.chosen if positions is None else positions[self.chosen]]
        if self.groups is None:
            leaf.add_values(values, weight)
        else:
            by_row = values if positions is None else values[positions]
            leaf.add_values(np.bincount(self.groups, weights=by_row).astype(np.float64), weight)


class Evaluator(Protocol):
    """Values of validation points by one method: what `run` calls, and all that it knows. One evaluator per thread.

    ClassificationEvaluator (classify.py) and RegressionEvaluator (regress.py) rank all neighbours, TruncatedEvaluator
    (truncate.py) a few. `Method.evaluators` picks one.
    """

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        """Add the validation points start..stop-1 to a leaf, as the request says.

        A generator, so that a run can be interrupted: it yields often, each time the number of points finished since.
        """
        ...


@dataclass(frozen=True)
class Span:
    """Which leaves of all validation points to sum up.

    The first validation point of the problem is number `offset` of all. `opened` holds the sums over earlier points of
    the leaf that it falls into.
    """

    leaves: tuple[int, ...]
    offset: int = 0
    opened: Leaf | None = None

    @classmethod
    def of(cls, n_val: int, offset: int = 0, opened: Leaf | None = None, done: Partial | None = None) -> Span:
        """All leaves of so many validation points, except those that are done."""
        numbers = range(offset // CHUNK, -(-(offset + n_val) // CHUNK))
        return cls(tuple(leaf for leaf in numbers if done is None or leaf not in done), offset, opened)

    def points(self, leaf: int, n_val: int) -> tuple[int, int]:
        """The validation points of a leaf, as the problem numbers them."""
        return max(CHUNK * leaf - self.offset, 0), min(CHUNK * leaf + CHUNK - self.offset, n_val)

    def n_points(self, n_val: int) -> int:
        return sum(b - a for a, b in (self.points(leaf, n_val) for leaf in self.leaves))

    def begin(self, leaf: int) -> Leaf | None:
        """The sums to continue, if earlier points of this leaf were summed before."""
        return self.opened.copy() if self.opened is not None and leaf == self.offset // CHUNK else None


def run(
    problem: Problem,
    threads: int,
    request: Request,
    make_evaluator: Callable[[], Evaluator],
    partial: Partial,
    *,
    span: Span | None = None,
    report: Report | None = None,
    on_leaf: OnLeaf | None = None,
) -> Partial:
    """Add leaves to a part: all of them, or those of a span."""
    n_val = problem.n_val
    span = span or Span.of(n_val)
    done, waiting = n_val - span.n_points(n_val), len(span.leaves)
    work = _Work(problem, request, span)
    with _workers(work, make_evaluator, threads if waiting else 0):
        while waiting:
            message = work.messages.get()
            if isinstance(message, BaseException):
                raise message
            if isinstance(message, int):
                done += message
                if report is not None:
                    report(done, n_val)
            else:
                partial.add_leaf(*message)
                waiting -= 1
                if on_leaf is not None:
                    on_leaf(partial)
    return partial


@dataclass
class _Work:
    """What the threads share: leaves to take, an event to stop, and a queue of messages.

    A message is a number of finished points, a (number, Leaf) pair, or an exception.
    """

    problem: Problem
    request: Request
    span: Span
    messages: queue.Queue[Any] = field(default_factory=lambda: queue.Queue(maxsize=8))
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._left = iter(self.span.leaves)
        self._lock = threading.Lock()

    def leaves(self) -> Iterator[int]:
        """Leaves that no thread has taken yet."""
        while not self.stop.is_set():
            with self._lock:
                leaf = next(self._left, None)
            if leaf is None:
                return
            yield leaf

    def evaluate(self, evaluator: Evaluator, number: int) -> Leaf | None:
        """One leaf; None if the run stops."""
        start, stop = self.span.points(number, self.problem.n_val)
        leaf = self.span.begin(number) or self.request.leaf(self.problem.n_train)
        for finished in evaluator.add(leaf, start, stop, self.request):
            if self.stop.is_set():
                return None
            if finished:
                self.messages.put(finished)
        return leaf


@contextmanager
def _workers(work: _Work, make_evaluator: Callable[[], Evaluator], count: int) -> Iterator[None]:
    """Start worker threads and join them on exit: none survives to be forked or shared.

    The main thread only waits for messages, so Ctrl-C reaches it at once; workers stop after the current query.
    """

    def worker() -> None:
        try:
            evaluator = make_evaluator()
            for number in work.leaves():
                leaf = work.evaluate(evaluator, number)
                if leaf is not None:
                    work.messages.put((number, leaf))
        except BaseException as error:
            work.messages.put(error)

    threads: list[threading.Thread] = []
    with one_blas_thread():
        try:
            for _ in range(count):
                thread = threading.Thread(target=worker, daemon=True)
                thread.start()
                threads.append(thread)
            yield
        finally:
            work.stop.set()
            for thread in threads:
                while thread.is_alive():
                    _discard(work.messages)  # a worker may be waiting for room in the queue
                    thread.join(0.01)


def _discard(messages: queue.Queue[Any]) -> None:
    with suppress(queue.Empty):
        while True:
            messages.get_nowait()


@contextmanager
def progress_report(
    progress: Any, total: int, resumed: int = 0, unit: str = "validation point"
) -> Iterator[Report | None]:
    """A function to call with (done, total): the user's own, a bar, or None for silence.

    `resumed` of them were done before. `progress=None` shows a bar only in a terminal, and only on long runs.
    """
    if callable(progress):
        if resumed:
            progress(resumed, total)
        yield progress
    elif progress is False or (progress is None and not sys.stderr.isatty()):
        yield None
    else:
        from tqdm.auto import tqdm

        what = f"{resumed:,} from the checkpoint" if resumed else None
        delay = 0.0 if progress else SHORT_RUN
        with tqdm(total=total, initial=resumed, desc=what, unit=unit, delay=delay) as bar:
            yield lambda done, _total: bar.update(done - bar.n)


class _BlasLimit:
    """How many runs are under way in this process: the first limits the BLAS, the last restores it."""

    lock = threading.Lock()
    runs = 0
    limit: Any = None


@cache
def _controller() -> Any:
    """Finding the BLAS takes milliseconds, so it is done once: numpy's, which is the one that is called, is there."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Our threads call the BLAS, which must not start threads of its own meanwhile."""
    with _BlasLimit.lock:
        if _BlasLimit.runs == 0:
            _BlasLimit.limit = _controller().limit(limits=1, user_api="blas")
        _BlasLimit.runs += 1
    try:
        yield
    finally:
        with _BlasLimit.lock:
            _BlasLimit.runs -= 1
            if _BlasLimit.runs == 0:
                _BlasLimit.limit.restore_original_limits()


def _forget_runs() -> None:
    """A forked child has none of its parent's threads, nor their locks."""
    _BlasLimit.lock, _BlasLimit.runs = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_runs)
