"""How much memory and how many cores there are, and how much memory work needs.

Both may be limited by the machine and by a container.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from functools import lru_cache
from operator import add
from pathlib import Path
from typing import NamedTuple

# The share of the free memory that is used, unless max_memory says otherwise.
BUDGET_SHARE = 0.25

# The bytes that are used where the system does not say how much memory is free.
FALLBACK_BUDGET = 10**9

# Where Linux describes the machine, and the limits of control groups such as containers.
PROC = Path("/proc")
CONTROL_GROUPS = Path("/sys/fs/cgroup")


class _GroupFiles(NamedTuple):
    """Names of files of a control group.

    Attributes
    ----------
    limits : tuple of str
        Files with limits on memory.
    usage : str
        The file with the memory in use.
    reclaimable : str
        The line of memory.stat for the memory that the kernel takes back when it must.
    """

    limits: tuple[str, ...]
    usage: str
    reclaimable: str


VERSION_2 = _GroupFiles(("memory.max", "memory.high"), "memory.current", "inactive_file")
VERSION_1 = _GroupFiles(("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file")


def usable_threads(n_jobs: int | None) -> int:
    """The number of threads that `n_jobs` stands for, as scikit-learn counts.

    None and -1 are all cores that this process may use, -2 is all but one.
    """
    cores, _ = cores_and_free_memory(int(time.monotonic()))
    if n_jobs is None:
        return cores
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def available_cores(groups: Path = CONTROL_GROUPS) -> int:
    """Cores that this process may use, by its affinity and by the quota of its container."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1

    # A quota is the time in microseconds that may be used in each period. Without a limit it is
    # "max" or -1.
    quota_and_period = _text(groups / "cpu.max").split()
    if not quota_and_period:
        quota_and_period = [
            _text(groups / "cpu" / name).strip()
            for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        ]
    if all(number.isdigit() for number in quota_and_period):
        quota = int(quota_and_period[0])
        period = int(quota_and_period[1])
        cores = min(cores, -(-quota // period))

    # joblib's own limit
    cores = min(cores, int(os.environ.get("LOKY_MAX_CPU_COUNT", cores)))
    return max(1, cores)


def default_budget() -> int:
    """Bytes to work with if `max_memory` is not given."""
    _, free = cores_and_free_memory(int(time.monotonic()))
    return FALLBACK_BUDGET if free is None else int(BUDGET_SHARE * free)


@lru_cache(maxsize=1)
def cores_and_free_memory(_second: int) -> tuple[int, int | None]:
    """Cores and bytes of free memory, read at most once in a second.

    To read the files takes longer than a small valuation.
    """
    return available_cores(), free_memory()


def free_memory(proc: Path = PROC, groups: Path = CONTROL_GROUPS) -> int | None:
    """Bytes that can still be used, with caches that can be dropped.

    None where the system does not say.
    """
    limits = [*_free_in_groups(proc, groups)]
    machine = _numbers(proc / "meminfo").get("MemAvailable:")
    if machine is not None:
        limits.append(1024 * machine)
    return min(limits, default=None)


class Memory(NamedTuple):
    """Bytes of some arrays.

    Attributes
    ----------
    preparing : int
        While they are prepared.
    shared : int
        Once, for all threads.
    per_thread : int
        In each thread.
    per_query : int
        In each thread for each query that it works on.
    """

    preparing: int = 0
    shared: int = 0
    per_thread: int = 0
    per_query: int = 0

    def __add__(self, other: Memory) -> Memory:  # type: ignore[override]
        return Memory(*map(add, self, other))

    def total(self, threads: int = 1, batch: int = 1) -> int:
        """Bytes with so many threads, each at work on `batch` queries at a time."""
        running = self.shared + threads * (self.per_thread + batch * self.per_query)
        return max(self.preparing, running)

    def threads(self, budget: int) -> int:
        """How many threads fit, at least one."""
        return max(1, (budget - self.shared) // (self.per_thread + self.per_query))

    def batch(self, budget: int, threads: int) -> int:
        """How many queries at a time fit in each of so many threads, at least one."""
        left = budget - self.shared - threads * self.per_thread
        return max(1, left // (threads * self.per_query))


def _free_in_groups(proc: Path, groups: Path) -> Iterator[int]:
    """Bytes that are left of each limit for this process.

    Limits are those of its control group and of every group above.
    """
    for line in _text(proc / "self/cgroup").splitlines():
        # A line is number:controllers:name. Version 2 has one group for all controllers, which
        # are then not named.
        _, _, controllers_and_name = line.partition(":")
        controllers, _, name = controllers_and_name.partition(":")
        if not controllers:
            top = groups
            files = VERSION_2
        elif "memory" in controllers.split(","):
            top = groups / "memory"
            files = VERSION_1
        else:
            continue
        # In a container the name may be the one outside, for which there is no folder here. The
        # uppermost folder is then that of the container.
        lowest = top / name.lstrip("/")
        for group in (lowest, *lowest.parents):
            free = _free_in_group(group, files)
            if free is not None:
                yield free
            if group == top:
                break


def _free_in_group(group: Path, files: _GroupFiles) -> int | None:
    """Bytes that the limits of a control group leave; None if it has no limit."""
    limits = [limit for file in files.limits for limit in _numbers(group / file).values()]
    used = _numbers(group / files.usage).get("")
    if not limits or used is None:
        return None
    used -= _numbers(group / "memory.stat").get(files.reclaimable, 0)
    return max(0, min(limits) - max(0, used))


def _text(path: Path) -> str:
    """The contents of a file; empty if it cannot be read."""
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def _numbers(path: Path) -> dict[str, int]:
    """The numbers in the lines of a file, by name; a number alone has the name "".

    The limit "max" is no number, and is left out.
    """
    lines = re.findall(r"^(?:(\S+)[ \t]+)?(\d+)(?: kB)?$", _text(path), re.MULTILINE)
    return {name: int(number) for name, number in lines}
