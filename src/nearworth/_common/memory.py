"""How much memory there is (free on the machine, or left by the limits of a container), how much work needs; cores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path, PurePosixPath

BUDGET_SHARE = 0.25  # of the free memory, unless max_memory says otherwise
FALLBACK_BUDGET = 10**9
PROC = Path("/proc")

# Files of a control group: limits, memory in use, and the part of memory.stat that the kernel gives back when it must.
VERSION_2 = ("memory.max", "memory.high"), "memory.current", "inactive_file"
VERSION_1 = ("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"


def usable_threads(n_jobs: int | None) -> int:
    """As scikit-learn counts: None and -1 for all cores that this process may use, -2 for all but one."""
    import joblib

    cores = int(joblib.cpu_count())
    if n_jobs is None:
        return cores
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def default_budget() -> int:
    """Bytes to work with if `max_memory` is not given."""
    free = free_memory()
    return FALLBACK_BUDGET if free is None else int(BUDGET_SHARE * free)


def free_memory(proc: Path = PROC) -> int | None:
    """Bytes that can still be used, counting caches that can be dropped; None where the system does not say."""
    machine = _free_on_machine(proc)
    return min([*([] if machine is None else [machine]), *_free_in_groups(proc)], default=None)


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


def _free_on_machine(proc: Path) -> int | None:
    available = _numbers(proc / "meminfo").get("MemAvailable:")
    if available is not None:
        return available * 1024
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _free_in_groups(proc: Path) -> Iterator[int]:
    """What each limit leaves that applies to this process: those of its control group and of every group above."""
    groups: dict[str, str] = {}  # controller -> path of the group; version 2 has one group for all, without a name
    for line in _lines(proc / "self/cgroup"):
        controllers, _, path = line.partition(":")[2].partition(":")
        groups |= dict.fromkeys(controllers.split(","), path)
    for line in _lines(proc / "self/mountinfo"):
        mount, _, system = line.partition(" - ")
        fields, kind = mount.split(), system.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2" and "" in groups:
            yield from _free_below(Path(fields[4]), fields[3], groups[""], *VERSION_2)
        elif kind[0] == "cgroup" and "memory" in kind[2].split(",") and "memory" in groups:
            yield from _free_below(Path(fields[4]), fields[3], groups["memory"], *VERSION_1)


def _free_below(
    top: Path, root: str, path: str, limits: tuple[str, ...], usage: str, reclaimable: str
) -> Iterator[int]:
    """What is left in a group and in those above it, up to the mount point `top`, which shows the group `root`."""
    inside = PurePosixPath(path).is_relative_to(root) and ".." not in path
    group = top / PurePosixPath(path).relative_to(root) if inside else top
    while True:
        used = _number(group / usage)
        known = [limit for limit in (_number(group / name) for name in limits) if limit is not None]
        if known and used is not None:
            used -= _numbers(group / "memory.stat").get(reclaimable, 0)
            yield max(0, min(known) - max(0, used))
        if group == top:
            return
        group = group.parent


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, ValueError):
        return []


def _number(path: Path) -> int | None:
    """The only number in a file; None if there is none, as in a limit of "max"."""
    text = " ".join(_lines(path)).strip()
    return int(text) if text.isdecimal() else None


def _numbers(path: Path) -> dict[str, int]:
    """Lines that begin with a name and a number."""
    fields = (line.split() for line in _lines(path))
    return {field[0]: int(field[1]) for field in fields if len(field) > 1 and field[1].isdecimal()}
