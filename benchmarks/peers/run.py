"""Side by side: nearworth and its peers on the same data, each in an environment of its own.

    python benchmarks/peers/run.py                    # everything; builds the environments the
    first time python benchmarks/peers/run.py --only nearworth   # renews our rows, keeps the others
    python benchmarks/peers/run.py --quick            # small, into the cache folder

A peer that cannot be installed or fails is a row with the reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
sys.path.insert(0, str(SOURCE))

from environments import OURS, PEERS, Game, Peer, SetupError, interpreter, last_line  # noqa: E402

import nearworth  # noqa: E402
from nearworth._common.memory import usable_threads  # noqa: E402
from nearworth.cli.bench import Blobs  # noqa: E402
from results import US, Agreement, Results, Row, Timing, table  # noqa: E402

RESULTS = HERE / "results.json"
STANDARD, QUICK = (10_000, 1_000), (2_000, 100)  # training and validation points
DIMENSIONS, CLASSES, SEED = 64, 10, 0
SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Bench:
    """The data, where things are kept, and how long a measurement may take."""

    data: Blobs
    cache: Path
    repeats: int
    time_limit: float

    @property
    def fingerprint(self) -> str:
        """Tells values of other data apart."""
        return hashlib.sha256(self.data.X.tobytes() + self.data.X_val.tobytes()).hexdigest()[:12]

    @property
    def n_val(self) -> int:
        """Number of validation points."""
        return len(self.data.X_val)

    @property
    def data_file(self) -> Path:
        """The data as every adapter reads them."""
        return self.cache / f"data-{self.fingerprint}.npz"

    def save_data(self) -> None:
        """Written once."""
        self.cache.mkdir(parents=True, exist_ok=True)
        if not self.data_file.exists():
            np.savez(self.data_file, **self.data._asdict())

    def out(self, peer: Peer) -> Path:
        """Where the last run of a peer left its values (.npz) and times (.json)."""
        return self.cache / f"{peer.name}-{peer.game.name.replace(' ', '')}-{self.fingerprint}"

    def our_values(self, game: Game, n_val: int) -> npt.NDArray[Any]:
        """The values everybody else's are compared with."""
        est = nearworth.KNNShapley(game.n_neighbors, utility="original", progress=False).fit(
            self.data.X, self.data.y
        )
        if game.leave_one_out:
            return est.value().values
        return est.value(self.data.X_val[:n_val], self.data.y_val[:n_val]).values


def make_data(n_train: int, n_val: int) -> Blobs:
    """Ten overlapping classes, rounded to 32 bits so that everybody sees the same points."""
    made = Blobs.make(n_train, n_val, DIMENSIONS, CLASSES, SEED)
    X, X_val = (a.astype(np.float32).astype(np.float64) for a in (made.X, made.X_val))
    return made._replace(X=X, X_val=X_val)


def row(bench: Bench, peer: Peer) -> Row:
    """Everything about one peer, or why there is nothing."""
    base = Row(peer.name, peer.title, peer.game.name, date.today().isoformat(), peer.note)
    try:
        python = interpreter(peer, bench.cache)
        one = measured(bench, peer, python, threads=1)
        base = replace(base, one_core=timing(bench, one), versions=one["versions"])
        if (cores := usable_threads(None)) > 1:
            base = replace(
                base, all_cores=timing(bench, measured(bench, peer, python, threads=cores))
            )
        if peer.name == US:
            first = measured(bench, peer, python, threads=cores, cold=True)["wall"]
            base = replace(
                base, first_call=first, versions=base.versions | {US: nearworth.__version__}
            )
    except SetupError as problem:
        return replace(base, reason=str(problem).replace(str(bench.cache), "CACHE"))
    return base


def measured(
    bench: Bench, peer: Peer, python: Path, threads: int, cold: bool = False
) -> dict[str, Any]:
    """One run of the harness in the peer's environment."""
    out = bench.out(peer)
    out.with_suffix(".json").unlink(missing_ok=True)
    command = [
        str(python),
        "-P",
        str(HERE / "harness.py"),
        str(HERE / "adapters" / f"{peer.name}.py"),
    ]
    command += [
        str(bench.data_file),
        str(out),
        "--distribution",
        peer.name,
        "--threads",
        str(threads),
    ]
    command += ["--n-neighbors", str(peer.game.n_neighbors), "--repeats", str(bench.repeats)]
    command += [
        "--time-limit",
        str(bench.time_limit),
        *["--leave-one-out"] * peer.game.leave_one_out,
    ]
    patience = 300 + 4 * bench.time_limit
    try:
        done = subprocess.run(
            [*command, *["--cold"] * cold],
            env=environment(peer, threads),
            capture_output=True,
            text=True,
            timeout=patience,
        )
    except subprocess.TimeoutExpired:
        raise SetupError(f"not finished after {patience:.0f} s") from None
    if done.returncode:
        raise SetupError(
            last_line(done.stderr)
            if done.returncode > 0
            else f"killed by signal {-done.returncode}"
        )
    report: dict[str, Any] = json.loads(out.with_suffix(".json").read_text())
    return report


def environment(peer: Peer, threads: int) -> dict[str, str]:
    """The variables of a run: numerical libraries held to one thread where one is measured, free
    otherwise.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in (*SINGLE, "PYTHONHOME", "PYTHONPATH")
    }
    limits = dict.fromkeys(SINGLE, "1") if threads == 1 else {}
    return kept | limits | ({"PYTHONPATH": str(SOURCE)} if peer.name == US else {})


def timing(bench: Bench, report: dict[str, Any]) -> Timing:
    """The times of a report, for all validation points."""
    return Timing.scaled(report, bench.n_val)


def compared(bench: Bench, peer: Peer, row: Row) -> Row:
    """The row with its values compared to ours, if they are still in the cache."""
    file = bench.out(peer).with_suffix(".npz")
    if peer.name == US or row.fastest is None or not file.exists():
        return row
    with np.load(file) as stored:
        ours = bench.our_values(peer.game, int(stored["n_val"]))
        return replace(row, agreement=Agreement.of(stored["values"], ours))


def problem(bench: Bench) -> dict[str, Any]:
    """What was asked for."""
    data = bench.data
    return {
        "n_train": len(data.X),
        "n_val": bench.n_val,
        "dimensions": data.X.shape[1],
        "classes": CLASSES,
        "fingerprint": bench.fingerprint,
    }


def machine() -> dict[str, Any]:
    """What it ran on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "processor": processor(),
        "cores": usable_threads(None),
        "memory_gb": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }


def processor() -> str:
    """The model of the processor, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def earlier(path: Path, bench: Bench, partial: bool) -> Results:
    """The results to add to: those of the file if only some rows are renewed, else none."""
    fresh = Results(problem(bench), machine())
    if not partial or not path.exists():
        return fresh
    found = Results.read(path)
    for what in ("problem", "machine"):
        if getattr(found, what) != getattr(fresh, what):
            raise SystemExit(
                f"{path.name} is about another {what} ({getattr(found, what)}): "
                "run everything without --only, or name another --output"
            )
    return found


def arguments() -> argparse.Namespace:
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[US, *(peer.name for peer in PEERS)],
        help="renew these rows only",
    )
    parser.add_argument(
        "--keep-best", action="store_true", help="with --only: keep earlier times where shorter"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK[0]:,} x {QUICK[1]:,} instead of {STANDARD[0]:,} x {STANDARD[1]:,}",
    )
    parser.add_argument("--n-train", type=int)
    parser.add_argument("--n-val", type=int)
    parser.add_argument(
        "--repeats", type=int, default=3, help="best of this many; slow ones run once"
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=120.0,
        help="seconds; beyond, fewer validation points are run and scaled up",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=home / "nearworth" / "peers",
        help="environments, data and values",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="default: results.json here, or in the cache folder for other sizes",
    )
    return parser.parse_args()


def main() -> None:
    """Run, compare, write after every row, print the table."""
    args = arguments()
    standard = QUICK if args.quick else STANDARD
    size = (args.n_train or standard[0], args.n_val or standard[1])
    bench = Bench(make_data(*size), args.cache.absolute(), args.repeats, args.time_limit)
    bench.save_data()
    output = args.output or (
        RESULTS if size == STANDARD else bench.cache / f"results-{size[0]}x{size[1]}.json"
    )
    results = earlier(output, bench, partial=bool(args.only))
    for peer in (*OURS, *PEERS):
        if not args.only or peer.name in args.only:
            print(f"{peer.title}, {peer.game.name}", flush=True)
            new = row(bench, peer)
            old = results.row(new.key) if args.keep_best else None
            results = results.with_row(old.improved_by(new) if old else new)
            results.write(output)
    for peer in (*OURS, *PEERS):
        if old := results.row((peer.name, peer.game.name)):
            results = results.with_row(compared(bench, peer, old))
    results.write(output)
    print(f"\n{table(results)}\n\nwritten to {output}")


if __name__ == "__main__":
    main()
