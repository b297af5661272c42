"""From a memory budget to batches."""

from __future__ import annotations

import os
from dataclasses import dataclass

from nearworth._typing import Task
from nearworth.engine.accumulate import CHUNK

DEFAULT_BUDGET = 256 * 10**6
# Arrays of 8 bytes per (validation point, training point) alive at the worst moment; measured with tracemalloc.
ARRAYS_PER_PAIR = {"classification": 13, "regression": 24}
# Vectors of 8 bytes per training point beside them: coefficients while they are made, and the sums of up to 2^20
# leaves along the tree (one vector each, three with standard errors).
COEFFICIENTS = 24
SUMS = 20


@dataclass(frozen=True)
class Plan:
    """How a valuation will run; prints itself."""

    n_train: int
    n_val: int
    batch: int
    working_bytes: int

    def __str__(self) -> str:
        batches = -(-self.n_val // self.batch)
        return (
            f"{self.n_val:,} validation points against {self.n_train:,} training points, exactly: "
            f"{batches:,} batch{'es' * (batches != 1)} of {self.batch} at most, "
            f"about {self.working_bytes / 1e6:,.0f} MB of working memory"
        )


def make_plan(n_train: int, n_val: int, task: Task, standard_errors: bool, max_memory: int | None) -> Plan:
    """The largest batch that the budget allows; an error if not even one validation point fits."""
    fixed = 8 * n_train * (COEFFICIENTS + SUMS * (3 if standard_errors else 1))
    per_query = 8 * n_train * ARRAYS_PER_PAIR[task]
    budget = DEFAULT_BUDGET if max_memory is None else max_memory
    batch = min(CHUNK, n_val, (budget - fixed) // per_query)
    if batch < 1:
        if max_memory is not None:
            raise ValueError(
                f"max_memory={max_memory:,} bytes is too little for {n_train:,} training points: "
                f"one validation point at a time needs {fixed + per_query:,}. Raise max_memory or leave it None."
            )
        batch = 1
    return Plan(n_train, n_val, int(batch), int(fixed + batch * per_query))


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
