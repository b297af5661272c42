"""The memory that may be used: of the machine, or of the container around the process."""

from __future__ import annotations

import os

import pytest

from nearworth._common import memory
from nearworth._common.memory import default_budget, free_memory

MACHINE = 64 * 2**30
UNLIMITED = "9223372036854771712"  # how version 1 says that there is no limit


@pytest.fixture
def system(tmp_path):
    """A /proc of one's own, and made-up control groups."""

    class System:
        proc = tmp_path / "proc"
        mounts = tmp_path / "cgroup"

        def __init__(self):
            (self.proc / "self").mkdir(parents=True)
            self.mounts.mkdir()
            (self.proc / "meminfo").write_text(
                f"MemTotal: 99999999 kB\nMemAvailable: {MACHINE // 1024} kB\n"
            )

        def runs_in(self, *lines):
            (self.proc / "self/cgroup").write_text("".join(f"{line}\n" for line in lines))

        def group(self, path, **files):
            folder = self.top / path
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (folder / f"memory.{name}").write_text(f"{text}\n")

        def version_2(self, path="/"):
            self.runs_in(f"0::{path}")
            self.top = self.mounts

        def version_1(self, path="/"):
            self.runs_in("5:devices:/elsewhere", f"4:hugetlb,memory:{path}", "0::/")
            self.top = self.mounts / "memory"

        @property
        def free(self):
            return free_memory(self.proc, self.mounts)

    return System()


def test_the_machine_alone(system):
    assert system.free == MACHINE  # no control groups at all
    system.version_2()
    assert system.free == MACHINE  # groups without files of memory


def test_a_limit_less_what_is_used_and_cannot_be_dropped(system):
    system.version_2("/app")
    system.group(
        "app",
        max=10**9,
        high="max",
        current=6 * 10**8,
        stat="anon 5\ninactive_file 200000000\nslab 3",
    )
    assert system.free == 10**9 - 4 * 10**8


def test_the_softer_limit_counts_too(system):
    system.version_2("/app")
    system.group("app", max=10**9, high=7 * 10**8, current=10**8)
    assert system.free == 6 * 10**8


def test_limits_of_groups_above(system):
    system.version_2("/pod/app/worker")
    system.group("pod/app/worker", max="max", high="max", current=10**8)
    system.group("pod/app", max=10**10, current=10**9)
    system.group("pod", max=4 * 10**9, current=3 * 10**9, stat="inactive_file 0")
    assert system.free == 10**9


def test_version_1(system):
    system.version_1("/docker/abc")
    system.group(
        "docker/abc",
        limit_in_bytes=2 * 10**9,
        usage_in_bytes=10**9,
        stat="inactive_file 1\ntotal_inactive_file 300000000",
    )
    system.group("docker", limit_in_bytes=UNLIMITED, usage_in_bytes=10**12)
    assert system.free == 13 * 10**8


@pytest.mark.parametrize("path", ["/docker/abc", "/docker/abc/inner", "/../elsewhere", "/"])
@pytest.mark.parametrize("version", [1, 2])
def test_a_container_sees_its_group_as_the_mount_point(system, version, path):
    """Names in /proc/self/cgroup may be those of the machine, while the mount shows only the
    container.
    """
    limit, used = ("limit_in_bytes", "usage_in_bytes") if version == 1 else ("max", "current")
    (system.version_1 if version == 1 else system.version_2)(path)
    system.group("", **{limit: 10**9, used: 10**8})
    assert system.free == 9 * 10**8


@pytest.mark.parametrize(
    "files",
    [
        {"max": "max", "current": 10**9},
        {"max": UNLIMITED, "current": 10**9},
        {"max": "9" * 40, "current": 1},
        {"max": 10**9},  # usage unknown
        {"current": 10**9},
        {"max": "", "current": ""},
        {"max": "-1", "current": "junk"},
    ],
)
def test_no_limit_or_none_that_can_be_understood(system, files):
    system.version_2("/app")
    system.group("app", **files)
    assert system.free == MACHINE


def test_a_group_that_is_full_has_nothing_free(system):
    system.version_2("/app")
    system.group("app", max=10**9, current=2 * 10**9)
    assert system.free == 0
    system.group(
        "app", max=10**9, current=10**8, stat="inactive_file 900000000"
    )  # counted at different moments
    assert system.free == 10**9


@pytest.mark.parametrize("text", ["", "garbage", "1:2", "0::", "a:b:c:d", "::::"])
def test_files_that_cannot_be_understood(system, text):
    system.version_2("/app")
    (system.proc / "self/cgroup").write_text(text)
    assert system.free == MACHINE


def test_a_limit_is_known_where_the_machine_says_nothing(system):
    (system.proc / "meminfo").unlink()
    assert system.free is None
    system.version_2("/app")
    system.group("app", max=10**9, current=0)
    assert system.free == 10**9


def test_the_default_budget_is_a_share_of_it(system, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 4 * 10**8)
    memory.cores_and_free_memory.cache_clear()
    assert default_budget() == 10**8
    monkeypatch.setattr(memory, "free_memory", lambda: None)
    memory.cores_and_free_memory.cache_clear()
    assert default_budget() == 10**9
    memory.cores_and_free_memory.cache_clear()


def test_here():
    free = free_memory()
    assert free is None or free >= 0


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "max 100000\n"}, 64),
        ({"cpu.max": "250000 100000\n"}, 3),
        ({"cpu.max": "1000 100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 64),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ({"cpu.max": "garbage"}, 64),
        ({}, 64),
    ],
)
def test_cores_of_a_container(tmp_path, monkeypatch, files, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: range(64), raising=False)
    monkeypatch.delenv("LOKY_MAX_CPU_COUNT", raising=False)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory.available_cores(tmp_path) == expected
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "2")
    assert memory.available_cores(tmp_path) == min(2, expected)


def test_threads_are_counted_as_scikit_learn_counts_them():
    cores = memory.usable_threads(None)
    assert cores >= 1
    assert [memory.usable_threads(n) for n in (1, 3, -1)] == [1, 3, cores]
    assert memory.usable_threads(-2) == max(1, cores - 1)
    assert memory.usable_threads(-1000) == 1
