"""The same sums on any executor (PEP 3148): processes of this machine, or a cluster.

    run_on     cuts the leaves into shards, submits a few at a time, merges what comes back
    Job        what all shards share: where the training set is stored, the game, the method, what to sum up
    Shard      a job and some validation points; complete in itself, so that any worker can do it, and do it again
    work       what a worker does with a shard

Shards are aligned subtrees (see results/sums.py): each comes back as one node.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatVector, Ties
from nearworth.engine.classify import SharedTraining
from nearworth.engine.plan import make_plan
from nearworth.engine.problem import Problem
from nearworth.engine.run import OnLeaf, Report, Request, Span, run
from nearworth.engine.storage import StoredTraining
from nearworth.inputs.features import fingerprint
from nearworth.neighbors.keys import Keys, make_keys
from nearworth.results.origin import Origin, kernel
from nearworth.results.sums import Partial

SHARDS_PER_WORKER, WAITING_PER_WORKER = 8, 2
UNKNOWN_WORKERS = 16


@dataclass(frozen=True, kw_only=True)
class Job:
    training: StoredTraining
    metric: Any
    metric_params: Mapping[str, Any] | None
    games: Callable[[int], Any]
    ties: Ties
    leave_one_out: bool
    spread: bool
    facts: dict[str, Any]  # for make_plan, the method among them
    name: str = field(init=False)  # jobs of one name share what a worker has prepared

    def __post_init__(self) -> None:
        try:
            geometry = fingerprint(pickle.dumps((self.metric, self.metric_params)))
        except Exception:  # a function that only the executor's own pickle can send
            geometry = uuid.uuid4().hex
        object.__setattr__(self, "name", repr((self.training, geometry, self.games)))


@dataclass(frozen=True)
class Shard:
    """Some leaves and their validation points; only their numbers where training points are valued on each other."""

    job: Job
    span: Span
    queries: Any
    labels: npt.NDArray[Any] | None
    weights: FloatVector

    def __str__(self) -> str:
        n_val = len(self.weights)
        first, last = self.span.leaves[0], self.span.leaves[-1]
        begin, end = self.span.points(first, n_val)[0], self.span.points(last, n_val)[1]
        return f"validation points {self.span.offset + begin} to {self.span.offset + end - 1}"

    @property
    def n_points(self) -> int:
        return self.span.n_points(len(self.weights))


def run_on(
    executor: Any,
    problem: Problem,
    job: Job,
    partial: Partial,
    *,
    span: Span,
    report: Report | None = None,
    on_leaf: OnLeaf | None = None,
) -> None:
    """Add the leaves of a span to a part, wherever the executor's workers are."""
    workers = _count_workers(executor)
    pool: Executor = executor.get_executor(pure=False) if hasattr(executor, "get_executor") else executor
    shards = cut(problem, job, span, workers)
    waiting: dict[Future[Partial], Shard] = {}
    done = problem.n_val - span.n_points(problem.n_val)
    try:
        while True:
            while len(waiting) < WAITING_PER_WORKER * workers and (shard := next(shards, None)) is not None:
                waiting[_submit(pool, shard)] = shard
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                shard = waiting.pop(future)
                _fold_in(_result(future, shard), partial)
                done += shard.n_points
                if report is not None:
                    report(done, problem.n_val)
                if on_leaf is not None:
                    on_leaf(partial)
    finally:
        for future in waiting:
            future.cancel()


def cut(problem: Problem, job: Job, span: Span, workers: int) -> Iterator[Shard]:
    """Aligned groups of 2^n leaves, some for each worker."""
    size = max(1, len(span.leaves) // (SHARDS_PER_WORKER * workers))
    level = size.bit_length() - 1
    groups: dict[int, list[int]] = {}
    for leaf in span.leaves:
        groups.setdefault(leaf >> level, []).append(leaf)
    for leaves in groups.values():
        yield _shard(problem, job, span, tuple(leaves))


def _shard(problem: Problem, job: Job, span: Span, leaves: tuple[int, ...]) -> Shard:
    if job.leave_one_out:
        return Shard(job, Span(leaves), None, None, problem.weights)
    a, b = span.points(leaves[0], problem.n_val)[0], span.points(leaves[-1], problem.n_val)[1]
    queries = problem.queries[a:b]
    queries = np.array(queries) if isinstance(queries, np.ndarray) else queries
    part = Span(leaves, span.offset + a, span.opened if a == 0 else None)
    return Shard(job, part, queries, problem.query_labels[a:b], problem.weights[a:b])


def _submit(pool: Executor, shard: Shard) -> Future[Partial]:
    try:
        return pool.submit(work, shard)
    except Exception as error:
        raise RuntimeError(f"The executor refused {shard}: {type(error).__name__}: {error}") from error


def _result(future: Future[Partial], shard: Shard) -> Partial:
    try:
        return future.result()
    except CancelledError as error:
        raise RuntimeError(
            f"The executor gave up {shard}: its scheduler is gone or was restarted, or the work was cancelled. "
            "With a checkpoint, the same call goes on from what is finished."
        ) from error
    except Exception as error:
        raise RuntimeError(f"A worker failed on {shard}: {type(error).__name__}: {error}") from error


def _fold_in(part: Partial, partial: Partial) -> None:
    partial.origin.warn_of_kernels([part.origin])
    partial.absorb(part)


def _count_workers(executor: Any) -> int:
    """How many shards can be worked on at a time, as far as the executor says."""
    client = executor if hasattr(executor, "nthreads") else getattr(executor, "_client", None)
    if client is not None and hasattr(client, "nthreads"):
        return max(1, int(sum(client.nthreads().values())))
    return int(getattr(executor, "_max_workers", None) or UNKNOWN_WORKERS)


def work(shard: Shard) -> Partial:
    """Sum up one shard, in any process."""
    prepared, job = _prepared(shard.job), shard.job
    problem, method = prepared.problem(shard), job.facts["method"]
    plan = make_plan(problem.n_train, shard.n_points, **job.facts)
    evaluators = method.evaluators(problem, plan, method.source(problem, plan), prepared.shared)
    partial = Partial(Origin(kernel=kernel()))
    return run(problem, plan.threads, Request(spread=job.spread), evaluators, partial, span=shard.span)


class _Prepared:
    """What a worker prepares once for all shards of a job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._points, self._labels = job.training.load()
        self._keys: Keys = make_keys(self._points, job.metric, job.metric_params)
        self._games = job.games
        self.shared = SharedTraining(self._keys, self._labels)

    def problem(self, shard: Shard) -> Problem:
        job = self._job
        return Problem(
            keys=self._keys,
            games=self._games,
            labels=self._labels,
            queries=self._points if job.leave_one_out else shard.queries,
            query_labels=self._labels if shard.labels is None else shard.labels,
            weights=shard.weights,
            ties=job.ties,
            leave_one_out=job.leave_one_out,
        )


class _Latest:
    """The job that this process works on."""

    lock = threading.Lock()
    name: str | None = None
    prepared: _Prepared | None = None


def _prepared(job: Job) -> _Prepared:
    with _Latest.lock:
        if _Latest.name != job.name or _Latest.prepared is None:
            _Latest.name, _Latest.prepared = None, None  # drop the old one first, to make room
            _Latest.prepared = _Prepared(job)
            _Latest.name = job.name
        return _Latest.prepared
