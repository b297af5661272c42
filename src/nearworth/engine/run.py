"""The loop over validation points: threads, progress, interruption."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.engine.plan import Plan
from nearworth.engine.problem import Problem
from nearworth.engine.threads import one_blas_thread
from nearworth.results.moments import CHUNK, Leaf
from nearworth.results.partial import Partial

Report = Callable[[int, int], object]
Listener = Callable[[Partial], object]


@dataclass(frozen=True)
class Request:
    """What to sum up: values of points or of groups of points; and what to keep of single validation points.

    The arrays are filled row by row: values of the `chosen` points (validation points, chosen), and how much farther
    each query's interval would reach if it knew no ranks (2, validation points; see `truncate`).
    """

    spread: bool = False
    groups: IntVector | None = None  # a code for each training point
    chosen: IntVector | None = None
    contributions: FloatMatrix | None = None
    excess: FloatMatrix | None = None

    @property
    def needs_every_value(self) -> bool:
        """Whether sums alone are not enough."""
        return self.spread or self.groups is not None or self.chosen is not None

    def leaf(self, n_train: int) -> Leaf:
        """An empty leaf."""
        return Leaf(n_train if self.groups is None else int(self.groups.max()) + 1, spread=self.spread)

    def add(self, leaf: Leaf, query: int, weight: float, table: FloatVector, place: npt.NDArray[np.int32]) -> None:
        """Add one validation point; the value of training point i is table[place[i]]."""
        if self.contributions is not None:
            self.contributions[query] = table[place[self.chosen]]
        if self.groups is None:
            leaf.add(table, place, weight)
        else:
            leaf.add_values(np.bincount(self.groups, weights=table[place]).astype(np.float64), weight)


class Evaluator(Protocol):
    """Values of validation points; one evaluator per thread."""

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        """Add the points start..stop-1 to a leaf; yields often, with the number of points finished since."""
        ...


Evaluators = Callable[[], Evaluator]


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

    def n_points(self, n_val: int) -> int:
        """How many validation points there are."""
        return sum(b - a for a, b in (self.points(leaf, n_val) for leaf in self.leaves))

    def begin(self, leaf: int) -> Leaf | None:
        """The sums to go on with, if others came before."""
        return self.opened.copy() if self.opened is not None and leaf == self.offset // CHUNK else None


def run(
    problem: Problem, plan: Plan, request: Request, make_evaluator: Evaluators, partial: Partial,
    span: Span | None = None, report: Report | None = None, listener: Listener | None = None,
) -> Partial:  # fmt: skip
    """Add leaves to a part, all of them unless a span says which; the listener hears of every new leaf."""
    n_val = problem.n_val
    span = span or Span.of(n_val)
    done, waiting = n_val - span.n_points(n_val), len(span.leaves)
    work = _Work(problem, request, span)
    with _workers(work, make_evaluator, plan.threads if waiting else 0):
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
                if listener is not None:
                    listener(partial)
    return partial


@dataclass
class _Work:
    """What the threads share: leaves to take, a box for messages, a sign to stop."""

    problem: Problem
    request: Request
    span: Span
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

    def evaluate(self, evaluator: Evaluator, number: int) -> Leaf | None:
        """One leaf; None if told to stop."""
        start, stop = self.span.points(number, self.problem.n_val)
        leaf = self.span.begin(number) or self.request.leaf(self.problem.n_train)
        for finished in evaluator.add(leaf, start, stop, self.request):
            if self.stop.is_set():
                return None
            if finished:
                self.messages.put(finished)
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
                    work.messages.put((number, leaf))
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
