"""Rows of files: read as from an array, and how much memory that takes; damaged files, and maps of
files.
"""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import tempfile
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearworth as nw
from nearworth.inputs.file_rows import FileRows, open_npy, spill, spill_beside
from nearworth.inputs.sources import open_pair


@pytest.mark.parametrize("positional", [True, False])
def test_rows_are_read_as_from_an_array(rng, tmp_path, monkeypatch, positional):
    if not positional:  # as on systems without such reads
        monkeypatch.delattr(os, "preadv", raising=False)
    X = rng.integers(0, 100, (500, 3)).astype(">i2")
    np.save(tmp_path / "X.npy", X)
    rows = open_npy(tmp_path / "X.npy", "X")
    for key in (
        slice(None),
        slice(7, 90),
        slice(90, 7),
        slice(400, 1_000),
        rng.integers(0, 500, 300),
    ):
        np.testing.assert_array_equal(rows[key], X[key])
    np.testing.assert_array_equal(rows[[]], X[np.zeros(0, dtype=int)])
    np.testing.assert_array_equal(np.asarray(rows), X)
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


def test_parts_become_one_matrix(rng, monkeypatch):
    monkeypatch.setattr("nearworth.inputs.file_rows.PIECE", 256)
    X = rng.integers(0, 100, (301, 7)).astype(np.int32)
    for widths in ([1] * 7, [3, 3, 1], [7]):
        parts = [spill([part], X.dtype) for part in np.split(X, np.cumsum(widths)[:-1], axis=1)]
        np.testing.assert_array_equal(spill_beside(parts)[:], X)


@pytest.mark.parametrize(
    ("classes", "parameters"),
    [
        (2, {}),
        (10, {}),
        (2, {"task": "regression"}),
        (3, {"metric": "cosine"}),
        (2, {"n_candidates": 10}),
    ],
)
def test_work_on_a_file_stays_below_an_eighth_of_it(rng, tmp_path, parameters, classes):
    """Points in two equal classes need the most scratch."""
    n = 8_000
    width = 1_024
    X = rng.random((n, width))
    y = np.arange(n) % classes
    np.save(tmp_path / "X.npy", X)
    X_val = X[:40] + 0.5
    y_val = y[:40]
    budget = X.nbytes // 8
    del X
    nw.KNNShapley(max_memory=10 * budget, **parameters).fit(tmp_path / "X.npy", y).value(
        X_val, y_val
    )  # compiles
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


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="asks Linux for the peak of the resident set"
)
@pytest.mark.parametrize("how", ["npy", "map", "parquet"])
def test_the_resident_set_stays_small_with_all_pages_of_the_file_counted(rng, tmp_path, how):
    """Beyond what libraries take once: the same is done on a small file first."""
    X = rng.standard_normal((12_000, 1_024), dtype=np.float32)
    files = []
    for name, rows in {"small": X[:2_500], "large": X}.items():
        files.append(
            str(tmp_path / f"{name}.{how}" if how == "parquet" else tmp_path / f"{name}.npy")
        )
        if how == "parquet":
            pq.write_table(
                pa.table({"v": pa.FixedSizeListArray.from_arrays(rows.ravel(), 1_024)}), files[-1]
            )
        else:
            np.save(files[-1], rows)
    budget = X.nbytes // 3
    command = [
        sys.executable,
        "-c",
        RESIDENT,
        *files,
        str(budget),
        *(["map"] if how == "map" else []),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) < budget


# Numpy's files: damaged ones are bad input, named with their argument; maps are read from the file
# they show


X = np.arange(8.0).reshape(4, 2)
Y = np.array([0, 1, 0, 1])


def npy(header, version=(1, 0), length=None, data=bytes(512)):
    """A file with any header, and any length that the file says the header has."""
    size = struct.pack("<H" if version[0] == 1 else "<I", len(header) if length is None else length)
    return b"\x93NUMPY" + bytes(version) + size + header + data


def header(descr="'<f8'", order="False", shape="(4, 2)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode("latin1")


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


DAMAGED = {
    "empty": b"",
    "text": b"not numpy at all",
    "magic alone": b"\x93NUMPY",
    "magic cut": b"\x93NUM",
    "length cut": b"\x93NUMPY\x01\x00\x10",
    "header cut": npy(header()[:20], data=b""),
    "header shorter than said": npy(header(), length=2_000),
    "header of gigabytes": npy(header(), (2, 0), length=2**32 - 1),
    "data cut": saved(X)[:-1],
    "no data": npy(header(), data=b""),
    "version 0": npy(header(), (0, 0)),
    "version 9": npy(header(), (9, 0)),
    "version 255.255": npy(header(), (255, 255)),
    "long header": npy(header() + b" " * 20_000, (2, 0)),
    # shapes
    "rows beyond the file": npy(header(shape="(1000, 2)")),
    "petabytes": npy(header(shape="(1000000000000, 1000)")),
    "petabytes of labels": npy(header(shape="(999999999999999,)")),
    "product beyond 64 bits": npy(header(shape=f"({2**62}, {2**62})")),
    "rows beyond 64 bits": npy(header(shape=f"({2**80}, 2)")),
    "nothing of too much": npy(header(shape=f"(0, {2**63})")),
    "digits beyond measure": npy(header(shape=f"({'9' * 5_000}, 2)")),
    "negative": npy(header(shape="(-4, 2)")),
    "both negative": npy(header(shape="(-4, -2)")),
    "booleans": npy(header(shape="(True, 2)")),
    "fractions": npy(header(shape="(4.0, 2)")),
    "list as shape": npy(header(shape="[4, 2]")),
    "hundred dimensions": npy(header(shape=f"({'1,' * 100})")),
    "expression as shape": npy(header(shape="(10**30, 3)")),
    # types
    "unknown type": npy(header(descr="'<q9'")),
    "no type": npy(header(descr="None")),
    "commas as type": npy(header(descr="',,,'")),
    "objects": npy(header(descr="'|O'")),
    "entries of no bytes": npy(header(descr="'<U0'", shape=f"({2**33},)")),
    "entries of two gigabytes": npy(header(descr="'<U2147483647'", shape="(4,)")),
    "text too long": npy(header(descr="'S99999999999999999'")),
    "nested types": npy(header(descr="[('a'," * 500 + "'<f8'" + ")]" * 500)),
    # literals that are none
    "not ascii": npy(b"\xff\xfe" + header()),
    "not utf-8": npy(b"\xff\xfe" + header(), (3, 0)),
    "zeros": npy(bytes(64)),
    "a zero inside": npy(header()[:10] + b"\0" + header()[10:]),
    "call": npy(b"__import__('os').abort()\n"),
    "number": npy(b"42\n"),
    "set": npy(b"{1, 2}\n"),
    "key that cannot be hashed": npy(b"{[]: 1}\n"),
    "key missing": npy(b"{'descr': '<f8'}\n"),
    "key too many": npy(header()[:-2] + b"'x': 1}\n"),
    "unclosed": npy(b"{'descr'\n"),
    "unclosed text": npy(b"'abc\n"),
    "indented": npy(b"   x\n  y\n"),
    "order": npy(header(order="7")),
    "nested": npy(b"(" * 4_000 + b")" * 4_000),
    "nested brackets": npy(b"[" * 9_000),
    "thousands of signs": npy(header(shape="-" * 9_000 + "1")),
    "thousands of terms": npy(header(shape="(" + "+".join(["1"] * 4_000) + ",)")),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_files_are_refused_with_argument_and_name(tmp_path, kind):
    path = tmp_path / "damaged.npy"
    path.write_bytes(DAMAGED[kind])
    for limit in (None, "10MB"):
        with pytest.raises(ValueError, match=r"^X: .*damaged\.npy") as error:
            nw.KNNShapley(max_memory=limit).fit(path, Y)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"^y: .*damaged\.npy"):
        nw.KNNShapley().fit(X, str(path))
    with pytest.raises(ValueError, match=r"^X_val: .*damaged\.npy"):
        nw.KNNShapley().fit(X, Y).value(path, Y)


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_files_are_bad_input_of_commands(command, kind):
    np.save("X.npy", X)
    np.save("y.npy", Y)
    with open("damaged.npy", "wb") as file:
        file.write(DAMAGED[kind])
    with zipfile.ZipFile("damaged.npz", "w") as archive:
        archive.writestr("X.npy", DAMAGED[kind])
        archive.writestr("y.npy", saved(Y))
    for given in (["damaged.npy", "-t", "y.npy"], ["X.npy", "-t", "damaged.npy"], ["damaged.npz"]):
        code, _, err = command("value", *given, "-q", "-o", "values.csv")
        assert (code, err.count("\n")) == (2, 1), (given, err)
        assert "damaged.np" in err


def test_headers_at_random(rng, tmp_path):
    """Bytes of a good file overwritten: it is refused, or read."""
    path = tmp_path / "random.npy"
    for _ in range(300):
        raw = bytearray(saved(X))
        for place in rng.integers(0, 128, rng.integers(1, 4)):
            raw[place] = (
                rng.integers(0, 256)
                if rng.random() < 0.5
                else rng.choice(list(b"0123456789'()[]{},-<>fiUSOV "))
            )
        path.write_bytes(raw)
        try:
            opened, _ = open_pair(path, Y, ("X", "y"), None)
        except ValueError as error:
            assert str(error).startswith(f"X: {path}")  # noqa: PT017 - not every file is refused
        else:
            assert opened.data.nbytes <= len(raw)


def test_versions_of_the_format(tmp_path):
    for version in ((1, 0), (2, 0), (3, 0)):
        path = tmp_path / "X.npy"
        path.write_bytes(npy(header(), version, data=X.tobytes()))
        np.testing.assert_array_equal(open_pair(path, Y, ("X", "y"), None)[0].data, X)


def test_a_map_is_read_from_its_file(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert open_pair(mapped, Y, ("X", "y"), None)[0] is mapped
    assert isinstance(open_pair(mapped, Y, ("X", "y"), 10**6)[0].data, FileRows)
