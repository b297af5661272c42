"""The same sums on any executor (PEP 3148): processes of this machine, or a cluster.

Shards are aligned subtrees (see results/sums.py): each comes back as one node. A few at a time are
submitted, each complete, for any worker to do: the job that all of them share, and some validation
points.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nearworth._common.files import atomic_write
from nearworth.engine.classify import SharedTraining
from nearworth.engine.plan import Method, make_plan
from nearworth.engine.problem import GEOMETRY, PRECOMPUTED, Problem, TrainingSet
from nearworth.engine.run import Request, Span, run_steps
from nearworth.inputs.features import Features, fingerprint, is_sparse
from nearworth.inputs.file_rows import FileRows
from nearworth.results.sums import Partial, describe, tree_of

SHARDS_PER_WORKER, WAITING_PER_WORKER = 8, 2
UNKNOWN_WORKERS = 16
NOT_SENT = ("search", "random_state", "progress")  # parameters that workers do not need

ArrayFile: TypeAlias = "partial[Any]"  # opens an array, in any process that can read its file


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all shards share. Where `key` is equal, so is what a worker prepares once for all of
    them.
    """

    key: str
    points: ArrayFile | None  # None where the user brings distances
    labels: ArrayFile
    fingerprint: str  # of points and labels
    parameters: Mapping[str, Any]
    method: Method
    leave_one_out: bool

    @classmethod
    def of(cls, problem: Problem, method: Method, folder: str | os.PathLike[str]) -> Job:
        """The job of a problem, with its training set in files of a folder, unless it is in a file
        already.
        """
        training = problem.training
        parameters = {
            name: each for name, each in problem.parameters.items() if name not in NOT_SENT
        }
        parameters["n_jobs"] = parameters["n_jobs"] or 1
        given = problem.leave_one_out or training.metric != PRECOMPUTED
        points = training.features.data if training.features is not None and given else None
        hashed = fingerprint(points, training.labels)
        place = Path(folder).absolute() / f"nearworth-{hashed}"
        place.mkdir(parents=True, exist_ok=True)
        return cls(
            key=fingerprint(hashed, describe(parameters), problem.leave_one_out),
            fingerprint=hashed,
            points=None if points is None else _store_points(points, place),
            labels=_store(training.labels, place / "labels.npy"),
            parameters=parameters,
            method=method,
            leave_one_out=problem.leave_one_out,
        )

    def prepare(self) -> Problem:
        """The problem without validation points, from the files; with them if they are the training
        points.
        """
        points, labels = None if self.points is None else _opened(self.points), _opened(self.labels)
        if fingerprint(points, labels) != self.fingerprint:
            raise ValueError(
                "The training data in the folder `scratch` are no longer what they were. Run again."
            )
        geometry = {name: self.parameters[name] for name in GEOMETRY}
        training = TrainingSet(
            **geometry, features=None if points is None else Features(points), labels=labels
        )
        return training.problem_of(
            points, labels, np.empty(0), self.parameters, leave_one_out=self.leave_one_out
        )


def run_on(
    executor: Any,
    problem: Problem,
    method: Method,
    summed: Partial,
    span: Span,
    scratch: str | os.PathLike[str] | None,
) -> Generator[int, None, None]:
    """Add the leaves of a span to a part; yields numbers of finished points. Workers read the data
    in `scratch`.
    """
    workers = _count_workers(executor)
    pool: Executor = (
        executor.get_executor(pure=False) if hasattr(executor, "get_executor") else executor
    )
    waiting: dict[Future[Partial], Span] = {}
    with ExitStack() as stack:
        if scratch is None:
            scratch = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="nearworth-", ignore_cleanup_errors=True)
            )
        job = Job.of(problem, method, scratch)
        shards = cut(problem, span, workers)
        stack.callback(lambda: [future.cancel() for future in waiting])
        while True:
            while (
                len(waiting) < WAITING_PER_WORKER * workers
                and (shard := next(shards, None)) is not None
            ):
                waiting[pool.submit(work, job, *shard)] = shard[0]
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                done = waiting.pop(future)
                try:
                    tree_of(summed).absorb(tree_of(future.result()))
                except Exception as error:
                    what = f"A worker failed on {done}: {type(error).__name__}: {error}"
                    raise RuntimeError(f"{what} (a checkpoint keeps what is finished)") from error
                yield done.n_points


def cut(problem: Problem, span: Span, workers: int) -> Iterator[tuple[Span, dict[str, Any]]]:
    """Aligned groups of 2^n leaves, some for each worker, and what it lacks: their validation
    points, or weights.
    """
    level = max(1, len(span.leaves) // (SHARDS_PER_WORKER * workers)).bit_length() - 1
    for _, group in groupby(span.leaves, key=lambda leaf: leaf >> level):
        part = replace(span, leaves=tuple(group))
        points: dict[str, Any] = {"weights": problem.weights, "groups": problem.groups}
        if not problem.leave_one_out:
            a, b = span.points(part.leaves[0])[0], span.points(part.leaves[-1])[1]
            part = Span(part.leaves, b - a, span.offset + a, span.opened if a == 0 else None)
            points = {
                name: getattr(problem, name)[a:b] for name in ("queries", "query_labels", "weights")
            }
            points["positions"] = np.arange(part.offset, part.offset + part.n_points)
            if isinstance(points["queries"], np.ndarray):
                points["queries"] = np.array(
                    points["queries"]
                )  # a memory map would be sent as a whole
            points["groups"] = None if problem.groups is None else problem.groups.some(slice(a, b))
        yield part, points


def _count_workers(executor: Any) -> int:
    """How many shards can be worked on at a time, as far as the executor says."""
    client = executor if hasattr(executor, "nthreads") else getattr(executor, "_client", None)
    if client is not None and hasattr(client, "nthreads"):
        return max(1, int(sum(client.nthreads().values())))
    return int(getattr(executor, "_max_workers", None) or UNKNOWN_WORKERS)


def work(job: Job, span: Span, points: Mapping[str, Any]) -> Partial:
    """Sum up one shard, in any process."""
    problem, shared = _prepared(job)
    problem = replace(problem, rule=job.method.rule, **points)
    plan = make_plan(problem.training, job.parameters, job.method, span.n_points)
    evaluators = job.method.evaluators(problem, plan, shared=shared)
    request, sums = Request(spread=bool(job.parameters["standard_errors"])), Partial()
    deque(run_steps(problem, plan.threads, request, evaluators, sums, span), maxlen=0)
    return sums


# What this process has prepared, by the key of its job. It is one entry at most.
last_prepared: dict[str, tuple[Problem, SharedTraining | None]] = {}
_lock = threading.Lock()


def _prepared(job: Job) -> tuple[Problem, SharedTraining | None]:
    with _lock:
        if job.key not in last_prepared:
            last_prepared.clear()  # first, to make room
            problem = job.prepare()
            of_classes = problem.training.task == "classification"
            last_prepared[job.key] = (
                problem,
                SharedTraining(problem.keys, problem.labels) if of_classes else None,
            )
        return last_prepared[job.key]


def _store_points(points: Any, place: Path) -> ArrayFile:
    if is_sparse(points):
        parts = [
            _store(getattr(points, name), place / f"{name}.npy")
            for name in ("data", "indices", "indptr")
        ]
        return partial(_open_sparse, parts, points.shape)
    if isinstance(points, FileRows) and points.path is not None:
        return partial(FileRows.open, points.path, points.dtype, points.shape, points.offset)
    if (
        not isinstance(points, np.memmap)
        or not isinstance(points.base, mmap.mmap)
        or points.filename is None
    ):
        return _store(points, place / "points.npy")
    order = "C" if points.flags.c_contiguous else "F"
    return partial(
        np.memmap,
        Path(points.filename).absolute(),
        points.dtype,
        "r",
        points.offset,
        points.shape,
        order,
    )


def _store(array: Any, path: Path) -> ArrayFile:
    if not path.exists():
        with atomic_write(path) as file:
            np.save(file, np.asarray(array), allow_pickle=False)
    return partial(np.load, path, mmap_mode="r")


def _open_sparse(parts: list[ArrayFile], shape: tuple[int, int]) -> Any:
    import scipy.sparse

    return scipy.sparse.csr_array(tuple(_opened(part) for part in parts), shape=shape)


def _opened(file: ArrayFile) -> Any:
    array = file()
    return np.asarray(array) if isinstance(array, np.memmap) else array
