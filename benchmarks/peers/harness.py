"""Times one adapter inside the peer's own environment: `python -P harness.py ADAPTER DATA OUT ...`.

It runs under every peer's interpreter, so it needs numpy and the standard library only. An adapter
is a file with one function, `prepare(task)`, that puts the data into the form the package wants and
returns the work to be timed. Files are loaded by path, because an adapter named like its package
must not stand in its way.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import runpy
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

Work = Callable[[], Any]
Prepare = Callable[["Task"], Work]
SMALL = (500, 16)  # training and validation points of the warm-up
PROBE = 20  # validation points from which the time of all is guessed
ENOUGH = 60.0  # seconds after which a run is not repeated
REPORTED = ("numpy", "scipy", "scikit-learn", "torch", "numba", "joblib", "pandas")


@dataclass(frozen=True)
class Task:
    """What an adapter is asked for; without validation points, every training point in turn is
    one.
    """

    X: Any
    y: Any
    X_val: Any
    y_val: Any
    n_neighbors: int
    threads: int

    @classmethod
    def load(cls, path: Path, n_neighbors: int, threads: int, leave_one_out: bool) -> Task:
        """The data of the file, whole."""
        with np.load(path) as data:
            X, y, X_val, y_val = (data[name] for name in ("X", "y", "X_val", "y_val"))
        if leave_one_out:
            X_val = y_val = None
        return cls(X, y, X_val, y_val, n_neighbors, threads)

    def validated_by(self, n_val: int) -> Task:
        """The same with the first few validation points only."""
        return replace(self, X_val=self.X_val[:n_val], y_val=self.y_val[:n_val])

    def small(self) -> Task:
        """Enough to import, compile and start workers."""
        n, n_val = SMALL
        few = replace(self, X=self.X[:n], y=self.y[:n])
        return few if self.X_val is None else few.validated_by(n_val)


@dataclass(frozen=True)
class Measured:
    """Best times of a few runs in seconds; `n_val` says how many validation points they cover."""

    wall: float
    cpu: float
    runs: int
    n_val: int | None


def measure(prepare: Prepare, task: Task, repeats: int, time_limit: float) -> tuple[Any, Measured]:
    """Values and times after a warm-up, on as many validation points as fit into the limit."""
    prepare(task.small())()
    if task.X_val is not None:
        task = task.validated_by(affordable(prepare, task, time_limit))
    return timed(prepare(task), task, repeats)


def affordable(prepare: Prepare, task: Task, time_limit: float) -> int:
    """How many validation points the limit allows, guessed from a few."""
    n_val = len(task.X_val)
    probe = min(PROBE, n_val)
    _, few = timed(prepare(task.validated_by(probe)), task, repeats=1)
    return max(1, min(n_val, int(time_limit * probe / max(few.wall, 1e-9))))


def timed(work: Work, task: Task, repeats: int) -> tuple[Any, Measured]:
    """Best of several runs; slow work is not repeated."""
    walls: list[float] = []
    cpus: list[float] = []
    while not walls or (len(walls) < repeats and sum(walls) < ENOUGH):
        wall, cpu = time.perf_counter(), time.process_time()
        values = work()
        cpus.append(time.process_time() - cpu)
        walls.append(time.perf_counter() - wall)
    n_val = None if task.X_val is None else len(task.X_val)
    return values, Measured(min(walls), min(cpus), len(walls), n_val)


def versions(distribution: str) -> dict[str, str]:
    """Versions of the package and of what decides its speed, where installed."""
    found = {"python": platform.python_version()}
    for name in (distribution, *REPORTED):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def peak_mb() -> float:
    """Largest resident size of this process so far, in MB, imports and inputs included."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count the parent that started us
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("adapter", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path, help="values go to OUT.npz, times to OUT.json")
    parser.add_argument("--distribution", required=True)
    parser.add_argument("--n-neighbors", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--time-limit", type=float, default=300.0)
    parser.add_argument("--leave-one-out", action="store_true")
    parser.add_argument("--cold", action="store_true", help="one run without warm-up")
    return parser.parse_args()


def main() -> None:
    """One measurement, written to files because packages print as they like."""
    args = arguments()
    prepare = runpy.run_path(str(args.adapter))["prepare"]
    task = Task.load(args.data, args.n_neighbors, args.threads, args.leave_one_out)
    if args.cold:
        values, result = timed(prepare(task), task, repeats=1)
    else:
        values, result = measure(prepare, task, args.repeats, args.time_limit)
    n_val = 0 if result.n_val is None else result.n_val
    np.savez(args.out.with_suffix(".npz"), values=np.asarray(values, dtype=np.float64), n_val=n_val)
    report = {**asdict(result), "peak_mb": peak_mb(), "versions": versions(args.distribution)}
    args.out.with_suffix(".json").write_text(json.dumps(report))


if __name__ == "__main__":
    main()
