"""The same sums on any executor (PEP 3148): processes of this machine, or a cluster.

A shard is an aligned subtree of the sums (see results/sums.py), so that it comes back as one node.
Any worker can do any shard: with it come the job, which all shards share, and its validation
points. A few shards at a time are submitted.
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
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from nearworth._common.files import atomic_write
from nearworth._common.types import FloatVector, IntVector
from nearworth.engine.classify import SharedTraining
from nearworth.engine.evaluators import evaluators_of
from nearworth.engine.plan import Method, make_plan
from nearworth.engine.problem import PRECOMPUTED, Groups, Problem, TrainingSet
from nearworth.engine.rules import Rule
from nearworth.engine.run import Request, Span, run_steps
from nearworth.inputs.features import Features, fingerprint, is_sparse
from nearworth.inputs.file_rows import FileRows
from nearworth.results.sums import Partial, describe, tree_of

# A span is cut into about so many shards for each worker, or a few more.
SHARDS_PER_WORKER = 8

# Shards that are submitted and not finished, for each worker. With more, validation points would
# pile up on a scheduler.
MAX_SUBMITTED_PER_WORKER = 2

# The number of workers, if the executor does not say.
DEFAULT_WORKERS = 16

# Parameters that workers do not need.
NOT_SENT = ("search", "random_state", "progress")

# Opens an array, in any process that can read its file.
ArrayFile: TypeAlias = "partial[Any]"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all shards share.

    Attributes
    ----------
    key : str
        A hash of all that a worker prepares once, for all shards of jobs with this key.
    points : ArrayFile or None
        The training points; None where validation points come with their distances.
    labels : ArrayFile
        Codes of classes, or targets, of the training points.
    fingerprint : str
        A hash of points and labels.
    parameters : mapping
        The parameters of the estimator, without those that workers do not need.
    method : Method
    leave_one_out : bool
        Whether the validation points are the training points.
    """

    key: str
    points: ArrayFile | None
    labels: ArrayFile
    fingerprint: str
    parameters: Mapping[str, Any]
    method: Method
    leave_one_out: bool

    @classmethod
    def of(cls, problem: Problem, method: Method, folder: str | os.PathLike[str]) -> Job:
        """The job of a problem. Its training set is stored in a folder, unless it is in a file."""
        training = problem.training
        parameters = {
            name: problem.parameters[name] for name in problem.parameters if name not in NOT_SENT
        }
        # Several workers may share a machine, so that by default each has one thread.
        parameters["n_jobs"] = parameters["n_jobs"] or 1

        # With given distances, validation points bring their own.
        needs_points = problem.leave_one_out or training.metric != PRECOMPUTED
        points = None
        if needs_points and training.features is not None:
            points = training.features.data
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
        """The problem from the files, without validation points.

        With leave_one_out, these are the training points.
        """
        points = None if self.points is None else _opened(self.points)
        labels = _opened(self.labels)
        if fingerprint(points, labels) != self.fingerprint:
            raise ValueError(
                "The training data in the folder `scratch` are no longer what they were. Run again."
            )
        training = TrainingSet(
            task=self.parameters["task"],
            metric=self.parameters["metric"],
            metric_params=self.parameters["metric_params"],
            features=None if points is None else Features(points),
            labels=labels,
        )
        weights = np.empty(0)
        return training.problem_of(
            points, labels, weights, self.parameters, leave_one_out=self.leave_one_out
        )


@dataclass(frozen=True, kw_only=True)
class Shard:
    """Some leaves, and the validation points that are in them.

    Attributes
    ----------
    span : Span
        The leaves.
    queries, query_labels, weights, positions, groups
        Fields of a Problem. With leave_one_out, the first two and `positions` are None, because
        the prepared problem has them, and the others are those of all validation points.
    """

    span: Span
    weights: FloatVector
    groups: Groups | None
    queries: Any = None
    query_labels: npt.NDArray[Any] | None = None
    positions: IntVector | None = None

    def problem(self, prepared: Problem, rule: Rule | None) -> Problem:
        """The prepared problem with these validation points."""
        problem = replace(prepared, weights=self.weights, groups=self.groups, rule=rule)
        if self.query_labels is None:
            return problem
        return replace(
            problem,
            queries=self.queries,
            query_labels=self.query_labels,
            positions=self.positions,
        )


def run_on(
    executor: Any,
    problem: Problem,
    method: Method,
    summed: Partial,
    span: Span,
    scratch: str | os.PathLike[str] | None,
) -> Generator[int, None, None]:
    """Add the leaves of a span to `summed`, by the workers of an executor.

    It yields the number of validation points of each shard that is finished. Workers read the
    training set in the folder `scratch`, by default a temporary folder of this machine.
    """
    n_workers = _count_workers(executor)
    pool: Executor = executor
    if hasattr(executor, "get_executor"):  # a client of dask
        pool = executor.get_executor(pure=False)
    submitted: dict[Future[Partial], Span] = {}

    def cancel() -> None:
        for future in submitted:
            future.cancel()

    with ExitStack() as stack:
        if scratch is None:
            folder = tempfile.TemporaryDirectory(prefix="nearworth-", ignore_cleanup_errors=True)
            scratch = stack.enter_context(folder)
        job = Job.of(problem, method, scratch)
        shards = cut(problem, span, n_workers)
        stack.callback(cancel)
        while True:
            n_free = MAX_SUBMITTED_PER_WORKER * n_workers - len(submitted)
            for shard in islice(shards, n_free):
                submitted[pool.submit(work, job, shard)] = shard.span
            if not submitted:
                return
            for future in wait(submitted, return_when=FIRST_COMPLETED).done:
                finished = submitted.pop(future)
                try:
                    tree_of(summed).absorb(tree_of(future.result()))
                except Exception as error:
                    raise RuntimeError(
                        f"A worker failed on {finished}: {type(error).__name__}: {error}"
                        " (a checkpoint keeps what is finished)"
                    ) from error
                yield finished.n_points


def cut(problem: Problem, span: Span, n_workers: int) -> Iterator[Shard]:
    """The shards of a span: aligned groups of 2^n leaves, several for each worker."""
    leaves_per_shard = max(1, len(span.leaves) // (SHARDS_PER_WORKER * n_workers))
    level = leaves_per_shard.bit_length() - 1
    for _, leaves in groupby(span.leaves, key=lambda leaf: leaf >> level):
        part = replace(span, leaves=tuple(leaves))
        if problem.leave_one_out:
            yield Shard(span=part, weights=problem.weights, groups=problem.groups)
        else:
            yield _with_queries(problem, part)


def _with_queries(problem: Problem, span: Span) -> Shard:
    """The shard of a span, renumbered to have its own validation points only."""
    start, _ = span.points(span.leaves[0])
    _, stop = span.points(span.leaves[-1])
    own_span = Span(
        leaves=span.leaves,
        n_val=stop - start,
        offset=span.offset + start,
        opened=span.opened if start == 0 else None,
    )
    queries = problem.queries[start:stop]
    if isinstance(queries, np.ndarray):
        # Of a memory map, which would be sent as a whole, only these points are sent.
        queries = np.array(queries)
    return Shard(
        span=own_span,
        queries=queries,
        query_labels=problem.query_labels[start:stop],
        weights=problem.weights[start:stop],
        positions=np.arange(own_span.offset, own_span.offset + own_span.n_points),
        groups=None if problem.groups is None else problem.groups.subset(slice(start, stop)),
    )


def _count_workers(executor: Any) -> int:
    """How many shards can be worked on at a time, as far as the executor says."""
    client = executor if hasattr(executor, "nthreads") else getattr(executor, "_client", None)
    if client is not None and hasattr(client, "nthreads"):
        return max(1, int(sum(client.nthreads().values())))
    return int(getattr(executor, "_max_workers", None) or DEFAULT_WORKERS)


def work(job: Job, shard: Shard) -> Partial:
    """Sum up one shard, in any process."""
    prepared = _prepared(job)
    problem = shard.problem(prepared.problem, job.method.rule)
    plan = make_plan(problem.training, job.parameters, job.method, shard.span.n_points)
    evaluators = evaluators_of(job.method, problem, plan, shared=prepared.shared)
    request = Request(spread=bool(job.parameters["standard_errors"]))
    sums = Partial()
    deque(run_steps(problem, plan.threads, request, evaluators, sums, shard.span), maxlen=0)
    return sums


@dataclass(frozen=True)
class _Prepared:
    """What all shards of a job need: its problem, and in classification what its threads share."""

    problem: Problem
    shared: SharedTraining | None


# What this process has prepared, by the key of its job. It is one entry at most.
last_prepared: dict[str, _Prepared] = {}
_lock = threading.Lock()


def _prepared(job: Job) -> _Prepared:
    with _lock:
        if job.key not in last_prepared:
            # The memory of the last job is needed for this one.
            last_prepared.clear()
            problem = job.prepare()
            shared = None
            if problem.training.task == "classification":
                shared = SharedTraining(problem.keys, problem.labels)
            last_prepared[job.key] = _Prepared(problem, shared)
        return last_prepared[job.key]


def _store_points(points: Any, place: Path) -> ArrayFile:
    """Training points in files that workers can read; those that are in a file are not copied."""
    if is_sparse(points):
        arrays = [
            _store(getattr(points, name), place / f"{name}.npy")
            for name in ("data", "indices", "indptr")
        ]
        return partial(_open_sparse, arrays, points.shape)
    if isinstance(points, FileRows) and points.path is not None:
        return partial(FileRows.open, points.path, points.dtype, points.shape, points.offset)
    # A slice of a memory map is one too, but its offset is not that of its first number.
    is_whole_map = isinstance(points, np.memmap) and isinstance(points.base, mmap.mmap)
    if not is_whole_map or points.filename is None:
        return _store(points, place / "points.npy")
    return partial(
        np.memmap,
        Path(points.filename).absolute(),
        points.dtype,
        "r",
        points.offset,
        points.shape,
        "C" if points.flags.c_contiguous else "F",
    )


def _store(array: Any, path: Path) -> ArrayFile:
    if not path.exists():
        with atomic_write(path) as file:
            np.save(file, np.asarray(array), allow_pickle=False)
    return partial(np.load, path, mmap_mode="r")


def _open_sparse(arrays: list[ArrayFile], shape: tuple[int, int]) -> Any:
    import scipy.sparse

    return scipy.sparse.csr_array(tuple(_opened(array) for array in arrays), shape=shape)


def _opened(file: ArrayFile) -> Any:
    array = file()
    return np.asarray(array) if isinstance(array, np.memmap) else array
