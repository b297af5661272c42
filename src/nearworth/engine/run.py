"""The loop over validation points: threads, progress, interruption.

It depends on the `Evaluator` contract alone. Validation points are called queries here.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.engine.checkpoint import PROGRESS
from nearworth.engine.interruption import has_quick_leaves
from nearworth.engine.problem import Problem
from nearworth.neighbors.searchers import MISSING, Neighbours
from nearworth.results.sums import CHUNK, Leaf, Partial, tree_of

# A run that ends sooner shows no progress bar.
SECONDS_BEFORE_BAR = 2.0

# Bytes of NearestLists for each query and neighbor: a 32-bit row and a 64-bit key.
LIST_BYTES = 12

# Large odd numbers: products with them, modulo 2^32, look random.
ROW_MULTIPLIER = 0x9E3779B1
QUERY_MULTIPLIER = 0x85EBCA77

# Messages that threads may send before they are read: each may hold the sums of a leaf.
MAX_UNREAD_MESSAGES = 8

# How long the end of a run waits for a thread before it makes room for the message of another.
JOIN_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to sum up, and what to record of single queries. Q is the number of queries.

    Attributes
    ----------
    spread : bool
        Whether sums include the spread of values over queries, for standard errors.
    groups : array of shape (N,) or None
        Sums are over these groups of training points, given as codes; None for single points.
    chosen : array of shape (C,) or None
        The training points whose values `contributions` records.
    contributions : array of shape (Q, C) or None
        Gets the values of the chosen points for each query.
    excess : array of shape (2, Q) or None
        Gets how much farther each query's interval would extend at both ends if no ranks were
        known; see truncate.py.
    nearest : NearestLists or None
        Gets the nearest points of each query.
    """

    spread: bool = False
    groups: IntVector | None = None
    chosen: IntVector | None = None
    contributions: FloatMatrix | None = None
    excess: FloatMatrix | None = None
    nearest: NearestLists | None = None

    @property
    def needs_every_value(self) -> bool:
        """Whether the values of each query are wanted, so that sums of a block are not enough."""
        return self.spread or self.groups is not None or self.chosen is not None

    def leaf(self, n_values: int) -> Leaf:
        """An empty leaf for the sums of `n_values` players, or of the groups."""
        n_sums = n_values if self.groups is None else int(self.groups.max()) + 1
        return Leaf(n_sums, spread=self.spread)

    def add(
        self, leaf: Leaf, query: int, weight: float, values: FloatVector, positions: Any = None
    ) -> None:
        """Add one query to a leaf, and record what is asked for.

        The value of training point i is values[i], or values[positions[i]] with `positions`.
        """
        if self.contributions is not None:
            chosen = self.chosen if positions is None else positions[self.chosen]
            self.contributions[query] = values[chosen]
        if self.groups is not None:
            by_row = values if positions is None else values[positions]
            values = np.bincount(self.groups, weights=by_row).astype(np.float64)
        leaf.add_values(values, weight)


class Evaluator(Protocol):
    """Values of queries by a method: all that `run` knows of it. Each thread has one."""

    def add(self, leaf: Leaf, start: int, stop: int, request: Request) -> Iterator[int]:
        """Add the queries start..stop-1 to a leaf, as the request says.

        This is a generator, so that a run can be interrupted. It yields often, each time the
        number of queries finished since.
        """


class NearestLists:
    """The nearest training points of each query, recorded while queries are valued.

    They come from the keys that are computed for the values. Only points that take part in a game
    are listed, so never the query itself.

    A list that has room for only some of the points at the same distance ends before them. If it
    would then be shorter than `least`, a hash of query and row decides which of them are listed:
    the same in every run, and unrelated to the order of the rows.

    Parameters
    ----------
    n_queries : int
    size : int
        The length of a list.
    least : int
        No list is shortened below this length.
    folder : Path or None
        The folder of a checkpoint: the lists are files there, and those of an earlier run are
        completed.

    Attributes
    ----------
    found : Neighbours
        Rows and keys, each of shape (n_queries, size).
    """

    def __init__(
        self, n_queries: int, size: int, least: int = 1, folder: Path | None = None
    ) -> None:
        self.size = size
        self.least = least
        self.found = Neighbours.empty(n_queries, size, dtype=np.int32)
        if folder is not None:
            self.found = self._in_files(folder)

    def _in_files(self, folder: Path) -> Neighbours:
        """The lists in files of a folder: those that are there, else empty ones."""
        rows_file = folder / f"nearest-{self.size}-rows.npy"
        keys_file = folder / f"nearest-{self.size}-keys.npy"
        exist = rows_file.exists() and keys_file.exists()
        if not exist and (folder / PROGRESS).exists():
            raise ValueError(
                f"checkpoint {str(folder)!r} belongs to another run. Use another folder."
            )
        folder.mkdir(parents=True, exist_ok=True)
        rows = _mapped(rows_file, self.found.rows, exist)
        keys = _mapped(keys_file, self.found.keys, exist)
        return Neighbours(rows, keys)

    def keep(self, query: int, rows: npt.NDArray[Any], keys: FloatVector) -> None:
        """Record the nearest of some points, given their rows and keys."""
        hashes = rows.astype(np.uint64) * np.uint64(ROW_MULTIPLIER)
        hashes ^= np.uint64((query * QUERY_MULTIPLIER) % 2**32)
        order = np.lexsort((hashes % np.uint64(2**32), keys))
        if len(order) > self.size and keys[order[self.size]] == keys[order[self.size - 1]]:
            n_nearer = int(np.count_nonzero(keys < keys[order[self.size]]))
            if n_nearer >= self.least:
                order = order[:n_nearer]
        order = order[: self.size]

        # A resumed run may record a query again, with a shorter list than before.
        self.found.rows[query] = MISSING
        self.found.keys[query] = np.inf
        self.found.rows[query, : len(order)] = rows[order]
        self.found.keys[query, : len(order)] = keys[order]


def _mapped(path: Path, empty: npt.NDArray[Any], exists: bool) -> npt.NDArray[Any]:
    """An array in a file of the shape and type of `empty`; a copy of it unless the file exists.

    A file that exists is not truncated, because a run that is under way may use it.
    """
    mapped = np.lib.format.open_memmap(path, "r+" if exists else "w+", empty.dtype, empty.shape)
    if (mapped.shape, mapped.dtype) != (empty.shape, empty.dtype):
        raise ValueError(f"checkpoint: {path} belongs to another run. Use another folder.")
    if not exists:
        mapped[...] = empty
    return np.asarray(mapped)


@dataclass(frozen=True)
class Span:
    """Which leaves to sum up, among those of all validation points.

    Attributes
    ----------
    leaves : tuple of int
        Numbers of leaves, counted over all validation points.
    n_val : int
        Number of validation points of the problem.
    offset : int
        Number of the problem's first validation point among all.
    opened : Leaf or None
        Sums over earlier points of the leaf that the first point falls into.
    """

    leaves: tuple[int, ...]
    n_val: int
    offset: int = 0
    opened: Leaf | None = None

    @classmethod
    def of(cls, n_val: int, done: Partial, offset: int = 0, opened: Leaf | None = None) -> Span:
        """All leaves of `n_val` validation points, except those that are done."""
        finished: set[int] = set()
        for first, stop in done.ranges:
            finished.update(range(first // CHUNK, -(-stop // CHUNK)))
        numbers = range(offset // CHUNK, -(-(offset + n_val) // CHUNK))
        leaves = tuple(number for number in numbers if number not in finished)
        return cls(leaves, n_val, offset, opened)

    def points(self, leaf: int) -> tuple[int, int]:
        """The first validation point of a leaf and one past its last, as the problem counts."""
        first = CHUNK * leaf - self.offset
        return max(first, 0), min(first + CHUNK, self.n_val)

    @property
    def n_points(self) -> int:
        """Number of validation points in the leaves."""
        return sum(stop - start for start, stop in map(self.points, self.leaves))

    def __str__(self) -> str:
        first, _ = self.points(self.leaves[0])
        _, stop = self.points(self.leaves[-1])
        return f"validation points {self.offset + first} to {self.offset + stop - 1}"


def run(
    problem: Problem, threads: int, request: Request, make_evaluator: Callable[[], Evaluator]
) -> Partial:
    """The sums over all queries of a problem."""
    partial = Partial()
    span = Span.of(problem.n_val, partial)
    steps = run_steps(problem, threads, request, make_evaluator, partial, span)
    deque(steps, maxlen=0)
    return partial


def run_steps(
    problem: Problem,
    threads: int,
    request: Request,
    make_evaluator: Callable[[], Evaluator],
    partial: Partial,
    span: Span,
) -> Generator[int, None, None]:
    """Add the leaves of a span to `partial`, one step of this generator after the other.

    It yields the number of queries finished since the last step, and 0 after each leaf.

    The leaves are summed in other threads, even if there is only one, so that this thread only
    waits for what they send, and Ctrl-C reaches it at once. They stop after the current step of
    their evaluator, also when this generator is closed. If one thread is enough and leaves take no
    time, they are summed here.
    """

    def work(leaves: Iterable[int]) -> Iterator[_Message]:
        """Numbers of finished queries, and after the queries of a leaf its sums."""
        evaluator = make_evaluator()
        for number in leaves:
            # Another run may have begun this leaf. Its sums are copied, because that run keeps
            # them.
            opened = span.opened if number == span.offset // CHUNK else None
            leaf = request.leaf(problem.n_values) if opened is None else deepcopy(opened)
            start, stop = span.points(number)
            yield from evaluator.add(leaf, start, stop, request)
            yield _FinishedLeaf(number, leaf)

    with ExitStack() as stack:
        if problem.keys.uses_blas:
            stack.enter_context(one_blas_thread())
        if threads == 1 and has_quick_leaves(problem):
            messages = work(span.leaves)
        else:
            messages = stack.enter_context(_threaded(work, span.leaves, threads))
        for message in messages:
            if isinstance(message, int):
                yield message
            else:
                tree_of(partial).add_leaf(message.number, message.leaf)
                yield 0


@dataclass(frozen=True)
class _FinishedLeaf:
    """The sums of a leaf, with its number."""

    number: int
    leaf: Leaf


# What a thread sends: how many queries it has finished since its last message, or a leaf.
_Message: TypeAlias = "int | _FinishedLeaf"


@contextmanager
def _threaded(
    work: Callable[[Iterable[int]], Iterator[_Message]], leaves: Sequence[int], n_threads: int
) -> Iterator[Iterator[_Message]]:
    """What `work` sends from some threads, which take leaves from a queue.

    The threads end on exit, so that none survives to be forked or to use what others changed.
    """
    # Each thread ends at the first None it takes.
    waiting: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    for number in leaves:
        waiting.put(number)
    for _ in range(n_threads):
        waiting.put(None)
    sent: queue.Queue[_Message | BaseException | None] = queue.Queue(maxsize=MAX_UNREAD_MESSAGES)
    stop = threading.Event()

    def worker() -> None:
        """Send messages, and at the end None or an exception."""
        try:
            for message in work(iter(waiting.get, None)):
                if stop.is_set():
                    return
                sent.put(message)
            sent.put(None)
        except BaseException as error:
            sent.put(error)

    def messages() -> Iterator[_Message]:
        n_working = n_threads
        while n_working:
            message = sent.get()
            if isinstance(message, BaseException):
                raise message
            if message is None:
                n_working -= 1
            else:
                yield message

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(n_threads)]
    try:
        for thread in threads:
            thread.start()
        yield messages()
    finally:
        stop.set()
        for thread in threads:
            while thread.is_alive():
                # The thread may be waiting for room in the queue.
                with suppress(queue.Empty):
                    sent.get_nowait()
                thread.join(JOIN_SECONDS)


@contextmanager
def progress_report(
    progress: Any, total: int, resumed: int = 0, unit: str = " rows"
) -> Iterator[Callable[[int, int], object]]:
    """A function to call with (done, total).

    It is the user's own, one that moves a bar, or one that does nothing. `resumed` is how much was
    done before.
    """
    if callable(progress):
        if resumed:
            progress(resumed, total)
        yield progress
    elif progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda _done, _total: None
    else:
        from tqdm.auto import tqdm

        origin = f"{resumed:,} from the checkpoint" if resumed else None
        delay = 0.0 if progress else SECONDS_BEFORE_BAR
        with tqdm(total=total, initial=resumed, desc=origin, unit=unit, delay=delay) as bar:
            yield lambda done, _total: bar.update(done - bar.n)


class _BlasLimit:
    """The limit on threads of the BLAS in this process.

    The first of several runs at the same time sets it, the last restores what was before.
    """

    lock = threading.Lock()
    n_runs = 0
    limit: Any = None
    # Finding the BLAS takes milliseconds, so it is done once.
    controller: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep the BLAS from starting threads of its own, besides those that call it."""
    with _BlasLimit.lock:
        if _BlasLimit.n_runs == 0:
            from threadpoolctl import ThreadpoolController

            _BlasLimit.controller = _BlasLimit.controller or ThreadpoolController()
            _BlasLimit.limit = _BlasLimit.controller.limit(limits=1, user_api="blas")
        _BlasLimit.n_runs += 1
    try:
        yield
    finally:
        with _BlasLimit.lock:
            _BlasLimit.n_runs -= 1
            if _BlasLimit.n_runs == 0:
                _BlasLimit.limit.restore_original_limits()
