"""How much memory there is to work with."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass

BUDGET_SHARE = 0.25  # of the memory that is free, unless max_memory says otherwise
FALLBACK_BUDGET = 10**9


def default_budget() -> int:
    """Bytes to work with where nobody said how many."""
    free = free_memory()
    return FALLBACK_BUDGET if free is None else int(BUDGET_SHARE * free)


def free_memory() -> int | None:
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


@dataclass(frozen=True)
class Memory:
    """Bytes that some arrays take: while they are prepared, once for all threads, in each thread, for each query."""

    preparing: int = 0
    shared: int = 0
    per_thread: int = 0
    per_query: int = 0

    def __add__(self, other: Memory) -> Memory:
        return Memory(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def total(self, threads: int = 1, batch: int = 1) -> int:
        """With so many threads, each at work on so many queries at a time."""
        return max(self.preparing, self.shared + threads * (self.per_thread + batch * self.per_query))

    def threads(self, budget: int) -> int:
        """How many threads fit, at least one."""
        return max(1, (budget - self.shared) // (self.per_thread + self.per_query))

    def batch(self, budget: int, threads: int) -> int:
        """How many queries at a time fit in so many threads, at least one."""
        return max(1, (budget - self.shared - threads * self.per_thread) // (threads * self.per_query))
