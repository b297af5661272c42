"""Rows of files: read as from an array, and how much memory that takes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearworth as nw
from nearworth.inputs.file_rows import FileRows, spill, spill_columns
from nearworth.inputs.npy import open_npy


@pytest.mark.parametrize("positional", [True, False])
def test_rows_are_read_as_from_an_array(rng, tmp_path, monkeypatch, positional):
    if not positional:  # as on systems without such reads
        monkeypatch.delattr(os, "preadv", raising=False)
    X = rng.integers(0, 100, (500, 3)).astype(">i2")
    np.save(tmp_path / "X.npy", X)
    rows = open_npy(tmp_path / "X.npy", "X")
    for key in (slice(None), slice(7, 90), slice(90, 7), slice(400, 1_000), rng.integers(0, 500, 300)):
        np.testing.assert_array_equal(rows[key], X[key])
    np.testing.assert_array_equal(rows[[]], X[np.zeros(0, dtype=int)])
    np.testing.assert_array_equal(np.asarray(rows), X)
    assert (rows.min(), rows.max()) == (X.min(), X.max())
    for key in ([500], [-1], [True]):
        with pytest.raises(IndexError):
            rows[key]


def test_rows_far_apart_and_close_together(rng, tmp_path, monkeypatch):
    """Whatever is read in one go, rows come back in the order they were asked for."""
    X = rng.normal(size=(2_000, 4))
    np.save(tmp_path / "X.npy", X)
    for gap, piece in ((0, 32), (64, 96), (10**6, 4_096)):
        monkeypatch.setattr("nearworth.inputs.file_rows.GAP", gap)
        monkeypatch.setattr("nearworth.inputs.file_rows.PIECE", piece)
        rows = open_npy(tmp_path / "X.npy", "X")
        some = rng.integers(0, 2_000, 500)
        np.testing.assert_array_equal(rows[some], X[some])


def test_temporary_files_vanish_also_after_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    X = np.arange(800, dtype=np.float32).reshape(40, 20)

    def failing():
        yield X
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="gone"):
        spill(failing(), np.float32)
    rows = spill([X, X], np.float32)
    np.testing.assert_array_equal(rows[:], np.concatenate([X, X]))
    del rows
    assert not list(tmp_path.iterdir())


def test_a_disk_too_small_is_refused_before_it_is_full(monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 1_000})())
    with pytest.raises(ValueError, match=r"32,000 bytes in a temporary file.*Set TMPDIR"):
        spill([np.zeros((400, 20), np.float32)], np.float32, n_rows=400)


def test_a_matrix_by_columns_becomes_one_by_rows(rng, tmp_path, monkeypatch):
    monkeypatch.setattr("nearworth.inputs.file_rows.PIECE", 256)
    X = rng.integers(0, 100, (301, 7)).astype(np.int32)
    X.T.tofile(tmp_path / "columns")
    columns = FileRows.open(tmp_path / "columns", X.dtype, X.T.shape)
    np.testing.assert_array_equal(spill_columns(columns)[:], X)


@pytest.mark.parametrize(
    ("classes", "parameters"),
    [(2, {}), (10, {}), (2, {"task": "regression"}), (3, {"metric": "cosine"}), (2, {"n_candidates": 10})],
)
def test_work_on_a_file_stays_below_an_eighth_of_it(rng, tmp_path, parameters, classes):
    """Points in two equal classes need the most scratch."""
    n, width = 8_000, 1_024
    X, y = rng.random((n, width)), np.arange(n) % classes
    np.save(tmp_path / "X.npy", X)
    X_val, y_val, budget = X[:40] + 0.5, y[:40], X.nbytes // 8
    del X
    nw.KNNShapley(max_memory=10 * budget, **parameters).fit(tmp_path / "X.npy", y).value(X_val, y_val)  # compiles
    tracemalloc.start()
    try:
        est = nw.KNNShapley(max_memory=budget, n_jobs=2, **parameters).fit(tmp_path / "X.npy", y)
        est.value(X_val, y_val)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < budget


RESIDENT = """
import sys, numpy as np, nearworth as nw
from pathlib import Path
def resident(line):
    return next(int(l.split()[1]) * 1024 for l in open("/proc/self/status") if l.startswith(line))
def value(path, budget):
    X = np.load(path, mmap_mode="r") if len(sys.argv) > 4 else path
    n = 12_000 if "large" in path else 2_500
    nw.KNNShapley(max_memory=budget, n_jobs=1).fit(X, np.arange(n) % 4).value(Q, np.arange(40) % 4)
Q = np.random.default_rng(0).normal(size=(40, 1_024))
value(sys.argv[1], "100MB")
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
value(sys.argv[2], int(sys.argv[3]))
print(resident("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="asks Linux for the peak of the resident set")
@pytest.mark.parametrize("how", ["npy", "map", "parquet"])
def test_the_resident_set_stays_small_with_all_pages_of_the_file_counted(rng, tmp_path, how):
    """Beyond what libraries take once: the same is done on a small file first."""
    X, files = rng.standard_normal((12_000, 1_024), dtype=np.float32), []
    for name, rows in {"small": X[:2_500], "large": X}.items():
        files.append(str(tmp_path / f"{name}.{how}" if how == "parquet" else tmp_path / f"{name}.npy"))
        if how == "parquet":
            pq.write_table(pa.table({"v": pa.FixedSizeListArray.from_arrays(rows.ravel(), 1_024)}), files[-1])
        else:
            np.save(files[-1], rows)
    budget = X.nbytes // 3
    command = [sys.executable, "-c", RESIDENT, *files, str(budget), *(["map"] if how == "map" else [])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) < budget
