"""Plan: from a memory budget to threads and batches, with the time they take. Prints itself.

Each owner of arrays states their bytes (`Memory`): the games their coefficients, `Leaf` its sums, the products their
norms and copies, the evaluators their scratch. Here they are added up.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import joblib

from nearworth._common.memory import Memory, default_budget, free_memory
from nearworth._common.types import Task
from nearworth.engine.method import Method
from nearworth.engine.problem import Problem, TrainingSet, budget
from nearworth.engine.run import Request, one_blas_thread
from nearworth.games.classification import ClassificationGame
from nearworth.games.regression import RegressionGame
from nearworth.neighbors.products import products_memory
from nearworth.results.moments import CHUNK, Leaf

# A matrix product beats differences once its preparation is spread over enough points.
PRODUCT_POINTS, PRODUCT_QUERIES = 2048, 8
GOOD_BATCH = 32  # queries from which on a product is efficient
SHARED_PASS = 8  # queries that must share a pass over a file before a second thread makes passes of its own
QUERY_COPIES = 6  # of a query, while it is converted, centred and multiplied
TRIAL_POINTS, TRIAL_QUERIES, TRIAL_SECONDS = 32_768, 64, 0.3
THREAD_GAIN = 0.85  # of what a further thread would add if memory were not shared


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a valuation will run."""

    n_train: int
    n_val: int
    threads: int
    batch: int
    products: bool
    single: bool  # whether products are made in float32, from a copy of the training set
    working_bytes: int
    method: Method = field(default_factory=Method)
    seconds: float | None = field(default=None, compare=False)
    advice: tuple[str, ...] = ()
    prediction: str = field(default="", compare=False)  # of a searcher about itself

    def __str__(self) -> str:
        lines = [
            f"{self.n_val:,} validation points against {self.n_train:,} training points"
            f"{', exactly' if self.method.n_candidates is None else ''}",
            f"search   {self.method}",
            f"threads  {self.threads}",
            f"batches  {self.batch} validation points at a time in each thread",
            f"keys     {'one matrix product, close calls settled by differences' if self.products else 'pair by pair'}",
            f"memory   {self.working_bytes / 1e6:,.1f} MB beyond the inputs at most",
        ]
        if self.seconds is not None:
            lines.append(f"time     about {readable_time(self.seconds)}, from a short trial on this machine")
        lines += [f"cheaper  {hint}" for hint in self.advice]
        return "\n".join([*lines, self.prediction] if self.prediction else lines)

    def with_time(self, trial: Problem) -> Plan:
        """The plan with the time it should take, scaled up from a trial with fewer points and queries."""
        alike = replace(self, n_train=trial.n_train, n_val=trial.n_val, batch=min(self.batch, 8))
        with one_blas_thread():
            evaluator = Method().evaluators(trial, alike)()
            leaf = Leaf(trial.n_train, spread=False)
            deque(evaluator.add(leaf, 0, min(2, trial.n_val), Request()), maxlen=0)  # compiles
            started, done = time.perf_counter(), 0
            while done < trial.n_val and time.perf_counter() - started < TRIAL_SECONDS:
                step = min(alike.batch, trial.n_val - done)
                deque(evaluator.add(leaf, done, done + step, Request()), maxlen=0)
                done += step
            spent = time.perf_counter() - started
        pairs = self.n_train * self.n_val / (trial.n_train * done)
        return replace(self, seconds=spent * pairs / (1.0 + THREAD_GAIN * (self.threads - 1)))


def readable_time(seconds: float) -> str:
    """A duration in words that fit its size."""
    for size, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.2g} seconds"


def planning_facts(training: TrainingSet, parameters: Mapping[str, Any], method: Method) -> dict[str, Any]:
    """What `make_plan` needs to know beside the sizes: small enough to be sent to workers."""
    keys = training.keys
    return {
        "task": training.task,
        "method": method,
        "standard_errors": bool(parameters["standard_errors"]),
        "n_jobs": parameters["n_jobs"],
        "max_memory": budget(parameters),
        "has_products": keys.has_products,
        "streamed": keys.streamed,
        "width": keys.width,
        "pivot_share": training.pivot_share,
    }


def make_plan(
    n_train: int,
    n_val: int,
    *,
    task: Task,
    method: Method,
    standard_errors: bool,
    n_jobs: int | None,
    max_memory: int | None,
    has_products: bool,
    streamed: bool,
    width: int,
    pivot_share: float,
    checkpointed: bool = False,
) -> Plan:
    """The most threads and the largest batches that the budget allows; an error if not even one query fits.

    Products, where the metric has them, use a float32 copy of the training set if that leaves room for batches of a
    good size. Sums that go into a checkpoint exist twice while they are written. A training set `streamed` from a file
    is never copied, and threads that would only read it more often are not started.
    """
    truncated, leaves = method.n_candidates is not None, -(-n_val // CHUNK)

    def memory(*, by_product: bool, single: bool = False) -> Memory:
        return (
            _base_memory(n_train, leaves, task, width, standard_errors, truncated, checkpointed)
            + method.memory(task, n_train, pivot_share, by_product=by_product)
            + (products_memory(n_train, width, single=single) if by_product else Memory())
        )

    by_pair = needed = memory(by_product=False)
    many = (truncated or task == "classification") and n_train >= PRODUCT_POINTS
    worthwhile = many and has_products and (truncated or n_val >= PRODUCT_QUERIES)
    budget = max_memory if max_memory is not None else max(default_budget(), by_pair.total())
    if by_pair.total() > budget:
        raise ValueError(
            f"max_memory={max_memory:,} bytes is too little for {n_train:,} training points: "
            f"one validation point at a time needs {by_pair.total():,}. Raise max_memory or leave it None."
        )
    wanted = 1 if method.searcher is not None else min(usable_threads(n_jobs), leaves)  # searchers have their own
    products = single = False
    if worthwhile:
        by_product, with_copy = memory(by_product=True), memory(by_product=True, single=True)
        products = by_product.total() <= budget
        single = products and not streamed and with_copy.total(wanted, min(GOOD_BATCH, n_val)) <= budget
        needed = with_copy if single else by_product if products else by_pair
    threads = min(wanted, needed.threads(budget))
    shared = min(GOOD_BATCH if products else SHARED_PASS, n_val)
    while streamed and threads > 1 and needed.batch(budget, threads) < shared:
        threads -= 1
    batch = min(CHUNK, n_val, needed.batch(budget, threads))
    advice = []
    if worthwhile and not products:
        advice.append(f"a matrix product needs max_memory of at least {by_product.total() / 1e6:,.0f} MB")
    elif many and not has_products:
        advice.append("metric='euclidean' or 'cosine' go through a matrix product, this metric does not")
    if threads < wanted:
        advice.append(f"{wanted} threads need max_memory of at least {needed.total(wanted, 1) / 1e6:,.0f} MB")
    return Plan(
        n_train=n_train,
        n_val=n_val,
        threads=threads,
        batch=batch,
        products=products,
        single=single,
        working_bytes=needed.total(threads, batch),
        method=method,
        advice=tuple(advice),
    )


def _base_memory(
    n_train: int, leaves: int, task: Task, width: int, standard_errors: bool, truncated: bool, checkpointed: bool
) -> Memory:
    """Bytes of what every run has: the game, labels, sums (a leaf per thread, open nodes of the tree), query copies."""
    making, made = (ClassificationGame if task == "classification" else RegressionGame).FLOATS_PER_PLAYER
    sums = Leaf.bytes(n_train, spread=standard_errors, truncated=truncated)
    nodes = sums * (leaves.bit_length() + 1) * (2 if checkpointed else 1)
    labels = 8 * 3 * n_train  # codes, and the pivots of every class
    return Memory(
        preparing=8 * making * n_train + labels + nodes,
        shared=8 * made * n_train + labels + nodes,
        per_thread=0 if truncated else 2 * sums,
        per_query=8 * QUERY_COPIES * width,
    )


def usable_threads(n_jobs: int | None) -> int:
    """As scikit-learn counts: None and -1 for all cores that this process may use, -2 for all but one."""
    cores = int(joblib.cpu_count())
    if n_jobs is None:
        return cores
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def check_fits(plan: Plan, n_rows: int, max_memory: int | None) -> None:
    """Refuse a matrix of single values that would not fit beside the work, before any work is done."""
    n_val, needed = plan.n_val, 8 * plan.n_val * n_rows + plan.working_bytes
    allowed = max_memory if max_memory is not None else free_memory()
    if allowed is not None and needed > allowed:
        raise ValueError(
            f"contributions of {n_rows:,} training points for {n_val:,} validation points need {needed:,} bytes "
            f"with the work, but {allowed:,} are {'allowed by max_memory' if max_memory is not None else 'free'}. "
            "Choose fewer rows."
        )
