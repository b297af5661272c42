"""The loop over validation points: threads, progress, interruption. It depends on the Evaluator
contract alone.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.engine.checkpoint import PROGRESS
from nearworth.engine.problem import Problem
from nearworth.neighbors.searchers import MISSING, Neighbours
from nearworth.results.sums import CHUNK, Leaf, Partial, tree_of

SHORT_RUN = 2.0  # seconds before a progress bar is shown
LIST_BYTES = 12  # of NearestLists, per query and neighbour
MIX_ROW, MIX_QUERY = 0x9E3779B1, 0x85EBCA77  # large odd numbers: hashes that look random


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to sum up, and what to record of single validation points.

    Sums are over training points, or over groups of them (a code for each training point), with
    their spread or without. Recorded, row by row, are: values of the `chosen` points (validation
    points, chosen); how much farther each query's interval would extend if no ranks were known (2,
    validation points; see `truncate`); the nearest points.
    """

    spread: bool = False
    groups: IntVector | None = None
    chosen: IntVector | None = None
    contributions: FloatMatrix | None = None
    excess: FloatMatrix | None = None
    nearest: NearestLists | None = None

    @property
    def needs_every_value(self) -> bool:
        return self.spread or self.groups is not None or self.chosen is not None

    def leaf(self, n_values: int) -> Leaf:
        return Leaf(
            n_values if self.groups is None else int(self.groups.max()) + 1, spread=self.spread
        )

    def add(
        self, leaf: Leaf, query: int, weight: float, values: FloatVector, positions: Any = None
    ) -> None:
        """Add one validation point; the value of training point i is values[i], or
        values[positions[i]].
        """
        if self.contributions is not None:
            self.contributions[query] = values[
                self.chosen if positions is None else positions[self.chosen]
            ]
        if self.groups is not None:
            by_row = values if positions is None else values[positions]
            values = np.bincount(self.groups, weights=by_row).astype(np.float64)
        leaf.add_values(values, weight)


class Evaluator(Protocol):
    """Values of validation points by a method (`Method.evaluators` picks one): all that `run`
    knows. One per thread.
    """

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        """Add the validation points start..stop-1 to a leaf, as the request says.

        A generator, so that a run can be interrupted: it yields often, each time the number of
        points finished since.
        """


class NearestLists:
    """The `size` nearest of each query, in `found`: recorded while queries are valued, from the
    same keys.

    Only points that take part in a game are listed, so never the query itself. Where the list has
    room for only some of the points equally far, it ends before them. If it would then be shorter
    than `least`, a hash of query and row decides which of them are in: the same in every run, and
    unrelated to the order of the rows.
    """

    def __init__(
        self, n_queries: int, size: int, least: int = 1, folder: Path | None = None
    ) -> None:
        self.size, self.least = size, least
        self.found = Neighbours.empty(n_queries, size, dtype=np.int32)
        if (
            folder is not None
        ):  # of a checkpoint: the lists are files there, and those of an earlier run go on
            files = [folder / f"nearest-{size}-{name}.npy" for name in ("rows", "keys")]
            exist = all(file.exists() for file in files)
            if not exist and (folder / PROGRESS).exists():
                raise ValueError(
                    f"checkpoint {str(folder)!r} belongs to another run. Use another folder."
                )
            folder.mkdir(parents=True, exist_ok=True)
            self.found = Neighbours(
                *(_mapped(*pair, exist) for pair in zip(files, self.found, strict=True))
            )

    def keep(self, query: int, rows: npt.NDArray[Any], keys: FloatVector) -> None:
        """Take the nearest of points whose keys are known."""
        mixed = rows.astype(np.uint64) * np.uint64(MIX_ROW) ^ np.uint64((query * MIX_QUERY) % 2**32)
        order = np.lexsort((mixed % np.uint64(2**32), keys))
        if len(order) > self.size and keys[order[self.size]] == keys[order[self.size - 1]]:
            before = int(np.count_nonzero(keys < keys[order[self.size]]))
            order = order[:before] if before >= self.least else order
        order = order[: self.size]
        self.found.rows[query], self.found.keys[query] = (
            MISSING,
            np.inf,
        )  # a row may be recorded again
        self.found.rows[query, : len(order)] = rows[order]
        self.found.keys[query, : len(order)] = keys[order]


def _mapped(path: Path, empty: npt.NDArray[Any], exists: bool) -> npt.NDArray[Any]:
    """An array that lives in a file, empty unless the file exists: a run that is under way may
    use it.
    """
    mapped = np.lib.format.open_memmap(path, "r+" if exists else "w+", empty.dtype, empty.shape)
    if (mapped.shape, mapped.dtype) != (empty.shape, empty.dtype):
        raise ValueError(f"checkpoint: {path} belongs to another run. Use another folder.")
    if not exists:
        mapped[...] = empty
    return np.asarray(mapped)


@dataclass(frozen=True)
class Span:
    """Which leaves of all validation points to sum up."""

    leaves: tuple[int, ...]
    n_val: int
    offset: int = 0  # number of the problem's first validation point among all
    opened: Leaf | None = None  # sums over earlier points of the leaf that it falls into

    @classmethod
    def of(cls, n_val: int, done: Partial, offset: int = 0, opened: Leaf | None = None) -> Span:
        """All leaves of so many validation points, except those that are done."""
        numbers = range(offset // CHUNK, -(-(offset + n_val) // CHUNK))
        finished = {
            leaf for first, stop in done.ranges for leaf in range(first // CHUNK, -(-stop // CHUNK))
        }
        return cls(tuple(leaf for leaf in numbers if leaf not in finished), n_val, offset, opened)

    def points(self, leaf: int) -> tuple[int, int]:
        """The validation points of a leaf, as the problem numbers them."""
        return max(CHUNK * leaf - self.offset, 0), min(
            CHUNK * leaf + CHUNK - self.offset, self.n_val
        )

    @property
    def n_points(self) -> int:
        return sum(b - a for a, b in map(self.points, self.leaves))

    def __str__(self) -> str:
        first, last = self.points(self.leaves[0])[0], self.points(self.leaves[-1])[1] - 1
        return f"validation points {self.offset + first} to {self.offset + last}"


def run(
    problem: Problem, threads: int, request: Request, make_evaluator: Callable[[], Evaluator]
) -> Partial:
    partial = Partial()
    deque(
        run_steps(
            problem, threads, request, make_evaluator, partial, Span.of(problem.n_val, partial)
        ),
        maxlen=0,
    )
    return partial


def run_steps(
    problem: Problem,
    threads: int,
    request: Request,
    make_evaluator: Callable[[], Evaluator],
    partial: Partial,
    span: Span,
) -> Generator[int, None, None]:
    """Add the leaves of a span to a part; yields numbers of points that are finished, and 0 after
    each leaf.

    With threads, this one only waits for what they send, so Ctrl-C reaches it at once; the others
    stop after the current query, also when this generator is closed. A single thread is not started
    where leaves take no time.
    """

    def work(leaves: Iterable[int]) -> Iterator[Any]:
        """Numbers of finished points, and after the points of a leaf its number and sums."""
        evaluator = make_evaluator()
        for number in leaves:
            opened = span.opened if number == span.offset // CHUNK else None  # to be continued
            leaf = deepcopy(opened) or request.leaf(problem.n_values)
            yield from evaluator.add(leaf, *span.points(number), request)
            yield number, leaf

    here = threads == 1 and problem.has_quick_leaves
    limit = one_blas_thread() if problem.keys.uses_blas else nullcontext()
    with (
        limit,
        nullcontext(work(span.leaves))
        if here
        else _threaded(work, span.leaves, threads) as messages,
    ):
        for message in messages:
            if isinstance(message, int):
                yield message
            else:
                tree_of(partial).add_leaf(*message)
                yield 0


@contextmanager
def _threaded(
    work: Callable[[Iterable[int]], Iterator[Any]], leaves: Sequence[int], n: int
) -> Iterator[Iterator[Any]]:
    """What n threads send, which take leaves from a queue. They end on exit: none survives to be
    forked or shared.
    """
    left: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    for number in (*leaves, *[None] * n):
        left.put(number)
    sent: queue.Queue[Any] = queue.Queue(maxsize=8)
    stop = threading.Event()

    def worker() -> None:
        try:
            for message in work(iter(left.get, None)):
                if stop.is_set():
                    return
                sent.put(message)
            sent.put(None)
        except BaseException as error:
            sent.put(error)

    def messages() -> Iterator[Any]:
        at_work = n
        while at_work:
            message = sent.get()
            if isinstance(message, BaseException):
                raise message
            at_work -= message is None
            if message is not None:
                yield message

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(n)]
    try:
        for thread in threads:
            thread.start()
        yield messages()
    finally:
        stop.set()
        for thread in threads:
            while thread.is_alive():
                with suppress(queue.Empty):
                    sent.get_nowait()  # a worker may be waiting for room in the queue
                thread.join(0.01)


@contextmanager
def progress_report(
    progress: Any, total: int, resumed: int = 0, unit: str = " rows"
) -> Iterator[Callable[[int, int], object]]:
    """A function to call with (done, total): the user's own, one that moves a bar, or one that does
    nothing.
    """
    if callable(progress):
        if resumed:
            progress(resumed, total)
        yield progress
    elif progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda _done, _total: None
    else:
        from tqdm.auto import tqdm

        what = f"{resumed:,} from the checkpoint" if resumed else None
        delay = 0.0 if progress else SHORT_RUN
        with tqdm(total=total, initial=resumed, desc=what, unit=unit, delay=delay) as bar:
            yield lambda done, _total: bar.update(done - bar.n)


class _BlasLimit:
    """How many runs are under way in this process: the first limits the BLAS, the last restores
    it.
    """

    lock = threading.Lock()
    runs = 0
    limit: Any = None
    controller: Any = None  # finding the BLAS takes milliseconds, so it is done once


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Our threads call the BLAS, which must not start threads of its own meanwhile."""
    with _BlasLimit.lock:
        if _BlasLimit.runs == 0:
            from threadpoolctl import ThreadpoolController

            _BlasLimit.controller = _BlasLimit.controller or ThreadpoolController()
            _BlasLimit.limit = _BlasLimit.controller.limit(limits=1, user_api="blas")
        _BlasLimit.runs += 1
    try:
        yield
    finally:
        with _BlasLimit.lock:
            _BlasLimit.runs -= 1
            if _BlasLimit.runs == 0:
                _BlasLimit.limit.restore_original_limits()
