"""From a memory budget to threads and batches."""

from __future__ import annotations

import os
from dataclasses import dataclass

import joblib

from nearworth._typing import Task
from nearworth.engine.accumulate import CHUNK

BUDGET_SHARE = 0.25  # of the memory that is free, unless max_memory says otherwise
FALLBACK_BUDGET = 10**9
PER_PAIR = 20  # bytes per (query of a batch, training point): keys in either precision and their copy
# Bytes per training point: coefficients while they are made, labels, pivots; and scratch per thread. Sums come on top,
# one vector each (three with standard errors): a leaf per thread, and the open nodes of the tree over the leaves.
FIXED, PER_THREAD = 8 * 14, 8 * 10
# A matrix product beats differences once its preparation is spread over enough points.
PRODUCT_POINTS, PRODUCT_QUERIES = 2048, 8


@dataclass(frozen=True)
class Plan:
    """How a valuation will run; prints itself."""

    n_train: int
    n_val: int
    threads: int
    batch: int
    products: bool
    working_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.n_val:,} validation points against {self.n_train:,} training points, exactly\n"
            f"threads  {self.threads}\n"
            f"batches  {self.batch} validation points at a time in each thread\n"
            f"keys     {'one matrix product, close calls settled by differences' if self.products else 'differences'}\n"
            f"memory   {self.working_bytes / 1e6:,.1f} MB beyond the inputs at most"
        )


def make_plan(
    n_train: int,
    n_val: int,
    task: Task,
    *,
    standard_errors: bool,
    n_jobs: int | None,
    max_memory: int | None,
    product_bytes: int | None,
) -> Plan:
    """The most threads and the largest batches that the budget allows; an error if not even one query fits.

    `product_bytes` is what a matrix product would keep beside the data, None if the metric has none.
    """
    sums = n_train * 8 * (4 if standard_errors else 1)
    leaves = -(-n_val // CHUNK)
    fixed = n_train * FIXED + sums * (leaves.bit_length() + 1)
    each, pair = n_train * PER_THREAD + 2 * sums, n_train * PER_PAIR
    budget = max_memory if max_memory is not None else _default_budget()
    if fixed + each + pair > budget:
        if max_memory is not None:
            raise ValueError(
                f"max_memory={max_memory:,} bytes is too little for {n_train:,} training points: "
                f"one validation point at a time needs {fixed + each + pair:,}. Raise max_memory or leave it None."
            )
        budget = fixed + each + pair
    products = (
        product_bytes is not None
        and task == "classification"
        and n_train >= PRODUCT_POINTS
        and n_val >= PRODUCT_QUERIES
    )
    products = products and fixed + int(product_bytes or 0) + each + pair <= budget
    fixed += int(product_bytes or 0) if products else 0
    threads = min(usable_threads(n_jobs), leaves, max(1, (budget - fixed) // (each + pair)))
    batch = min(CHUNK, n_val, (budget - fixed - threads * each) // (threads * pair))
    return Plan(n_train, n_val, int(threads), int(batch), products, int(fixed + threads * (each + batch * pair)))


def usable_threads(n_jobs: int | None) -> int:
    """As scikit-learn counts: None and -1 for all cores that this process may use, -2 for all but one."""
    cores = int(joblib.cpu_count())
    if n_jobs is None:
        return cores
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def check_fits(plan: Plan, n_rows: int, max_memory: int | None) -> None:
    """Refuse a matrix of single values that would not fit beside the work, before any work is done."""
    n_val, needed = plan.n_val, 8 * plan.n_val * n_rows + plan.working_bytes
    allowed = max_memory if max_memory is not None else _free_memory()
    if allowed is not None and needed > allowed:
        raise ValueError(
            f"contributions of {n_rows:,} training points for {n_val:,} validation points need {needed:,} bytes "
            f"with the work, but {allowed:,} are {'allowed by max_memory' if max_memory is not None else 'free'}. "
            "Choose fewer rows."
        )


def _default_budget() -> int:
    free = _free_memory()
    return FALLBACK_BUDGET if free is None else int(BUDGET_SHARE * free)


def _free_memory() -> int | None:
    """Bytes that can still be used, caches that the system would give up included, where it says so."""
    try:
        with open("/proc/meminfo") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
