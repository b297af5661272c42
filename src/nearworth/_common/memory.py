"""How much memory there is (free on the machine, or left by the limits of a container), how much
work needs; cores.
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

BUDGET_SHARE = 0.25  # of the free memory, unless max_memory says otherwise
FALLBACK_BUDGET = 10**9
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
# Files of a control group: limits, memory in use, and the part of memory.stat that the kernel gives
# back when it must.
VERSION_2 = (("memory.max", "memory.high"), "memory.current", "inactive_file")
VERSION_1 = (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file")


def usable_threads(n_jobs: int | None) -> int:
    """As scikit-learn counts: None and -1 for all cores that this process may use, -2 for all
    but one.
    """
    cores = cores_and_free_memory(int(time.monotonic()))[0]
    if n_jobs is None:
        return cores
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def available_cores(groups: Path = GROUPS) -> int:
    """Cores that this process may use: of the machine, by its affinity, and by the quota of its
    container.
    """
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    quota = _text(groups / "cpu.max").split() or [
        _text(groups / "cpu" / name).strip() for name in files
    ]
    if all(number.isdigit() for number in quota):  # no limit is "max", or -1
        cores = min(cores, -(-int(quota[0]) // int(quota[1])))
    return max(
        1, min(cores, int(os.environ.get("LOKY_MAX_CPU_COUNT", cores)))
    )  # joblib's own limit


def default_budget() -> int:
    """Bytes to work with if `max_memory` is not given."""
    free = cores_and_free_memory(int(time.monotonic()))[1]
    return FALLBACK_BUDGET if free is None else int(BUDGET_SHARE * free)


@lru_cache(maxsize=1)
def cores_and_free_memory(_second: int) -> tuple[int, int | None]:
    """Cores and free memory, read at most once a second: the files take longer than a small
    valuation.
    """
    return available_cores(), free_memory()


def free_memory(proc: Path = PROC, groups: Path = GROUPS) -> int | None:
    """Bytes that can still be used, counting caches that can be dropped; None where the system does
    not say.
    """
    machine = [
        1024 * size for name, size in _numbers(proc / "meminfo").items() if name == "MemAvailable:"
    ]
    return min([*machine, *_free_in_groups(proc, groups)], default=None)


class Memory(NamedTuple):
    """Bytes that some arrays take: while they are prepared, once for all threads, in each thread,
    for each query.
    """

    preparing: int = 0
    shared: int = 0
    per_thread: int = 0
    per_query: int = 0

    def __add__(self, other: Memory) -> Memory:  # type: ignore[override]
        return Memory(*map(add, self, other))

    def total(self, threads: int = 1, batch: int = 1) -> int:
        """With so many threads, each at work on so many queries at a time."""
        return max(
            self.preparing, self.shared + threads * (self.per_thread + batch * self.per_query)
        )

    def threads(self, budget: int) -> int:
        """How many threads fit, at least one."""
        return max(1, (budget - self.shared) // (self.per_thread + self.per_query))

    def batch(self, budget: int, threads: int) -> int:
        """How many queries at a time fit in so many threads, at least one."""
        return max(
            1, (budget - self.shared - threads * self.per_thread) // (threads * self.per_query)
        )


def _free_in_groups(proc: Path, groups: Path) -> Iterator[int]:
    """What each limit leaves that applies to this process: those of its control group and of every
    group above.
    """
    for line in _text(proc / "self/cgroup").splitlines():
        controllers, _, name = line.partition(":")[2].partition(":")
        is_memory = "memory" in controllers.split(
            ","
        )  # version 2 has one group for all controllers, without a name
        if controllers and not is_memory:
            continue
        top, (limits, usage, reclaimable) = (
            (groups / "memory", VERSION_1) if is_memory else (groups, VERSION_2)
        )
        # In a container this may be the name outside, of which no folder is there; the uppermost is
        # its own.
        lowest = top / name.lstrip("/")
        for group in (lowest, *lowest.parents):
            used = _numbers(group / usage).get("")
            known = [limit for file in limits for limit in _numbers(group / file).values()]
            if known and used is not None:
                used -= _numbers(group / "memory.stat").get(reclaimable, 0)
                yield max(0, min(known) - max(0, used))
            if group == top:
                break


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def _numbers(path: Path) -> dict[str, int]:
    """Lines of a name and a number; a number alone has the name "". Limits of "max" are none."""
    found = re.findall(r"^(?:(\S+)[ \t]+)?(\d+)(?: kB)?$", _text(path), re.MULTILINE)
    return {name: int(number) for name, number in found}
