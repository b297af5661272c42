"""Runs that are killed with -9 at random instants, and taken up again until they end: every bit
must be the same.

    python benchmarks/soak.py --kills 50        50 kills
    python benchmarks/soak.py --seconds 3600    an hour of random runs
    python benchmarks/soak.py --workers 10      10 runs on a Dask cluster of two local workers, with
                                                accidents in each

Each kill falls on a forked child that values random data with a checkpoint, often while it is
writing. The next child must take up the work, and must not have lost more than one interval (and
the 64 validation points it was at). Accidents on the cluster: a worker is killed, all are, one is
stopped for two seconds, or one is killed five times.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import nearworth as nw

GRACE = 0.5  # seconds that a write may take, on a busy machine
KINDS = (
    {},
    {"standard_errors": True},
    {"task": "regression"},
    {"n_candidates": 20, "standard_errors": True},
    {"metric": "manhattan"},
)


@dataclass
class Case:
    """One run to be killed: data, parameters, a folder."""

    rng: np.random.Generator
    folder: Path
    n_train: int = 2000
    n_val: int = 2000
    parameters: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = self.rng
        self.interval = float(rng.choice([0.0, 0.02, 0.1]))
        self.X, self.y = rng.integers(0, 9, (self.n_train, 4)), rng.integers(0, 3, self.n_train)
        self.X_val, self.y_val = rng.integers(0, 9, (self.n_val, 4)), rng.integers(0, 3, self.n_val)
        self.weights = rng.uniform(0, 2, self.n_val)
        self.parameters |= KINDS[rng.integers(len(KINDS))]
        self.expected = self.estimator().value(self.X_val, self.y_val, self.weights)

    def estimator(self, progress: object = None) -> nw.KNNShapley:
        n_jobs = 1 if progress else 2
        return nw.KNNShapley(
            3, n_jobs=n_jobs, max_memory="50MB", progress=progress, **self.parameters
        ).fit(self.X, self.y)

    def work(self, log: Path, pause: float) -> nw.Valuation:
        """Value with a checkpoint, telling the log how far it is; slowly, so that there is time to
        be killed.
        """
        with open(log, "w") as lines:

            def tell(done: int, _total: int) -> None:
                print(time.monotonic(), done, file=lines, flush=True)
                time.sleep(pause)

            return self.estimator(tell).value(
                self.X_val,
                self.y_val,
                self.weights,
                checkpoint=self.folder / "c",
                checkpoint_interval=self.interval,
            )

    def killed(self, number: int) -> tuple[float, Path, bool]:
        """Start a child and kill it; when, its log, and whether it was still alive."""
        log = self.folder / f"{number}.log"
        child = os.fork()
        if child == 0:
            self.work(log, float(self.rng.choice([0.005, 0.02, 0.05])))
            os._exit(0)
        time.sleep(float(self.rng.uniform(0.0, 0.6)))
        os.kill(child, signal.SIGKILL)
        moment = time.monotonic()
        alive = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        return moment, log, alive

    def lost_seconds(self, moment: float, log: Path, resumed: int) -> float:
        """How long before its death the process had more finished leaves than were found again."""
        steps = [
            tuple(map(float, line.split()))
            for line in log.read_text().splitlines()
            if len(line.split()) == 2
        ]
        later = [at for at, done in steps if done >= resumed + 64]
        return moment - later[0] if later else 0.0

    def check(self, valuation: nw.Valuation) -> bool:
        """The same bits as in one go?"""
        names = ("values", "lower", "upper", "standard_errors")
        pairs = [(getattr(valuation, name), getattr(self.expected, name)) for name in names]
        return all(np.array_equal(a, b) if b is not None else a is None for a, b in pairs)


def soak(kills: int, seconds: float, seed: int) -> int:
    """Kill so often, or for so long; how many runs came out wrong."""
    rng, begin, done, wrong, cases, late = np.random.default_rng(seed), time.monotonic(), 0, 0, 0, 0
    while done < kills or time.monotonic() - begin < seconds:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(rng, Path(folder))
            cases += 1
            for number in range(int(rng.integers(1, 6))):
                moment, log, alive = case.killed(number)
                done += alive
                if log.exists() and (case.folder / "c" / "progress.part").exists():
                    resumed = nw.Partial.load(case.folder / "c" / "progress.part").n_points
                    late += case.lost_seconds(moment, log, resumed) > case.interval + GRACE
            valuation = case.estimator().value(
                case.X_val,
                case.y_val,
                case.weights,
                checkpoint=case.folder / "c",
                checkpoint_interval=case.interval,
            )
            wrong += not case.check(valuation)
            scraps = {p.name for p in (case.folder / "c").iterdir()} - {"progress.part", "lock"}
            wrong += bool(scraps)
            print(
                f"{done} kills in {cases} runs, {valuation.resumed} points saved in this one,"
                f" {wrong} wrong",
                flush=True,
            )
    print(f"{done} kills, {cases} runs: {wrong} wrong, {late} lost more than an interval")
    return wrong + late


def kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def pause(pids: list[int]) -> None:
    os.kill(pids[0], signal.SIGSTOP)
    threading.Timer(2.0, os.kill, (pids[0], signal.SIGCONT)).start()


# What happens, after which shares of the work.
ACCIDENTS = {
    "a worker killed": (lambda pids: kill(pids[:1]), (0.2,)),
    "all workers killed": (kill, (0.3,)),
    "a worker stopped": (pause, (0.2,)),
    "a worker killed five times": (lambda pids: kill(pids[-1:]), (0.05, 0.2, 0.4, 0.6, 0.8)),
}


def cluster_soak(runs: int, seed: int) -> int:
    """Runs on a cluster that suffers; how many came out wrong."""
    from distributed import Client, LocalCluster

    rng, wrong = np.random.default_rng(seed), 0
    X, y = rng.normal(size=(20_000, 16)).astype(np.float32), rng.integers(0, 3, 20_000)
    X_val, y_val = rng.normal(size=(8_000, 16)).astype(np.float32), rng.integers(0, 3, 8_000)
    expected = nw.KNNShapley(5, standard_errors=True).fit(X, y).value(X_val, y_val)
    options = {
        "threads_per_worker": 1,
        "dashboard_address": None,
        "memory_limit": 0,
        "silence_logs": 50,
    }
    for number in range(runs):
        name, (accident, shares) = list(ACCIDENTS.items())[number % len(ACCIDENTS)]
        left = list(shares)

        def progress(
            done: int, total: int, left: list[float] = left, accident: object = accident
        ) -> None:
            if left and done >= left[0] * total:
                left.pop(0)
                accident(list(client.run(os.getpid).values()))  # type: ignore[operator]

        est = nw.KNNShapley(5, standard_errors=True, progress=progress).fit(X, y)
        # A new cluster each time: Dask does not replace a worker that was killed while it was being
        # started.
        with LocalCluster(2, **options) as cluster, Client(cluster) as client:
            client.wait_for_workers(2)
            begin = time.monotonic()
            valuation = est.value(X_val, y_val, executor=client)
            taken = time.monotonic() - begin
        same = all(
            np.array_equal(getattr(valuation, part), getattr(expected, part))
            for part in ("values", "standard_errors")
        )
        wrong += not same or bool(left) or valuation.moments.count != len(y_val)
        print(f"{name}: {taken:.1f} s, {'the same bits' if same else 'WRONG'}", flush=True)
    print(f"{runs} runs on a cluster: {wrong} wrong")
    return wrong


if __name__ == "__main__":
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--kills", type=int, default=50)
    options.add_argument("--seconds", type=float, default=0.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--workers", type=int, default=0, help="runs on a Dask cluster instead")
    given = options.parse_args()
    wrong = (
        cluster_soak(given.workers, given.seed)
        if given.workers
        else soak(given.kills, given.seconds, given.seed)
    )
    sys.exit(1 if wrong else 0)
