"""A training set on disk, many times `max_memory`, against the same set in memory: time, and peak
of the resident set.

python benchmarks/disk.py [--n-train 200000] [--n-val 512] [--features 768] [--share 8] [--format
npy|parquet|zarr]
                          [--task classification|regression] [--metric euclidean] [--candidates K]
                          [--jobs J] [--folder DIR] [--disk-only]

Each side runs in a process of its own; compilation and labels come before the first measurement.
The file is dropped from the page cache first, so that the first pass truly reads the disk; whether
later ones do is up to the system.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS = 8192


def resident(line: str) -> int:
    """VmRSS (now) or VmHWM (peak), mapped pages of files included."""
    with open("/proc/self/status") as lines:
        return next(int(text.split()[1]) * 1024 for text in lines if text.startswith(line))


def drop_from_cache(path: Path) -> None:
    for file in [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]:
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def blocks(n_rows: int, width: int):
    """Ten clusters that overlap: labels mean something, but not all."""
    rng = np.random.default_rng(0)
    centres = 0.15 * rng.standard_normal((10, width), dtype=np.float32)
    for start in range(0, n_rows, ROWS):
        count = min(ROWS, n_rows - start)
        labels = rng.integers(0, 10, count)
        yield centres[labels] + rng.standard_normal((count, width), dtype=np.float32), labels


def write(folder: Path, n_rows: int, width: int, form: str) -> Path:
    path, labels = folder / f"X.{form}", []
    if form == "npy":
        with open(path, "wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (n_rows, width)}
            np.lib.format.write_array_header_1_0(file, header)
            for rows, some in blocks(n_rows, width):
                file.write(rows.data)
                labels.append(some)
    elif form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        kind = pa.list_(pa.float32(), width)
        with pq.ParquetWriter(path, pa.schema([("embedding", kind)])) as writer:
            for rows, some in blocks(n_rows, width):
                vectors = pa.FixedSizeListArray.from_arrays(rows.ravel(), width)
                writer.write_table(pa.table({"embedding": vectors}))
                labels.append(some)
    else:
        import zarr

        array = zarr.create_array(
            store=path, shape=(n_rows, width), chunks=(1024, width), dtype="float32"
        )
        for i, (rows, some) in enumerate(blocks(n_rows, width)):
            array[i * ROWS : i * ROWS + len(rows)] = rows
            labels.append(some)
    np.save(folder / "y.npy", np.concatenate(labels))
    return path


def measure(
    given: argparse.Namespace, path: Path, max_memory: int | None
) -> dict[str, float | str]:
    """One side, in this process."""
    from nearworth import KNNShapley

    wanted = {
        "task": given.task,
        "metric": given.metric,
        "n_candidates": given.candidates,
        "n_jobs": given.jobs,
    }
    rng = np.random.default_rng(1)
    y, Q = (
        np.load(path.parent / "y.npy"),
        rng.standard_normal((given.n_val, given.features), dtype=np.float32),
    )
    y_val = rng.integers(0, 10, given.n_val)
    small = path.parent / "small.npy"
    np.save(small, rng.standard_normal((4096, given.features), dtype=np.float32))
    for budget in (None, "300MB"):
        KNNShapley(5, max_memory=budget, **wanted).fit(small, y[:4096]).value(Q[:64], y_val[:64])
    if given.format == "parquet":
        import pyarrow.dataset
        import pyarrow.parquet  # noqa: F401 - libraries are no part of the work
    X = path
    if max_memory is None:
        X = np.load(path)
    else:
        drop_from_cache(path)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before, started, cpu = resident("VmRSS"), time.perf_counter(), time.process_time()
    est = KNNShapley(5, max_memory=max_memory, **wanted).fit(X, y)
    fitted = time.perf_counter() - started
    values = est.value(Q, y_val).values
    return {
        "fit": fitted,
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - cpu,
        "peak": resident("VmHWM") - before,
        "hash": hashlib.sha256(values.tobytes()).hexdigest()[:16],
        "plan": f"{(p := est._plan(given.n_val)).threads} threads, batches of {p.batch}",
    }


def in_its_own_process(
    arguments: list[str], path: Path, max_memory: int | None
) -> dict[str, float | str]:
    command = [
        sys.executable,
        __file__,
        *arguments,
        "--measure",
        str(path),
        "--budget",
        str(max_memory or 0),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def tell(name: str, found: dict[str, float | str]) -> None:
    print(
        f"{name:<10} {found['seconds']:7.1f} s (fit {found['fit']:.1f} s), CPU {found['cpu']:.1f}"
        f" s, peak {found['peak'] / 1e6:,.0f} MB, {found['plan']}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-train", type=int, default=200_000)
    parser.add_argument("--n-val", type=int, default=512)
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--share", type=float, default=8)
    parser.add_argument("--format", choices=["npy", "parquet", "zarr"], default="npy")
    parser.add_argument("--task", default="classification")
    parser.add_argument("--metric", default="euclidean")
    parser.add_argument("--candidates", type=int)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--folder")
    parser.add_argument("--disk-only", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--budget", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given, Path(given.measure), given.budget or None)))
        return
    size = 4 * given.n_train * given.features
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path, budget = (
            write(Path(folder), given.n_train, given.features, given.format),
            int(size / given.share),
        )
        print(
            f"{size / 1e9:.2f} GB of vectors as {given.format}, max_memory {budget / 1e6:,.0f} MB",
            flush=True,
        )
        disk = in_its_own_process(sys.argv[1:], path, budget)
        tell("disk", disk)
        print(f"           the peak is {disk['peak'] / budget:.2f} of the budget")
        if not given.disk_only:
            if given.format != "npy":
                path = write(Path(folder), given.n_train, given.features, "npy")
            memory = in_its_own_process(sys.argv[1:], path, None)
            tell("memory", memory)
            print(f"           disk takes {disk['seconds'] / memory['seconds']:.2f} times as long")
            print(
                "           values"
                f" {'are the same bits' if disk['hash'] == memory['hash'] else 'DIFFER'}"
            )


if __name__ == "__main__":
    main()
