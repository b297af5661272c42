"""How much memory there is to work with."""

from __future__ import annotations

import os

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
