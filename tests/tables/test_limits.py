"""Files that declare or unpack to more than there is: refused by size, before memory is taken."""

from __future__ import annotations

import gzip
import io
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from nearworth.tables import InputError
from nearworth.tables import read as reading
from nearworth.tables.read import read


@pytest.fixture
def little(monkeypatch):
    """As if a megabyte were free."""
    monkeypatch.setattr(reading, "free_memory", lambda: 10**6)


def refused(path, words="unpack to"):
    with pytest.raises(InputError, match=words) as problem:
        read(path)
    assert str(problem.value).startswith(str(path))


def test_an_archive_larger_than_memory(tmp_path, little):
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((2_000, 100)), y=np.arange(2_000) % 2)
    refused(tmp_path / "a.npz")
    np.savez_compressed(tmp_path / "b.npz", X=np.zeros((200, 100)), y=np.arange(200) % 2)
    assert read(tmp_path / "b.npz").X.shape == (200, 100)


@pytest.mark.parametrize("shape", [(10**12, 10), (2**62, 2**62)])
def test_an_array_that_declares_an_enormous_shape(tmp_path, shape):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", file.getvalue())
    refused(tmp_path / "a.npz", "not of its declared shape")
    (tmp_path / "a.npy").write_bytes(file.getvalue())
    refused(tmp_path / "a.npy", "not a numpy file")


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz"])
def test_a_packed_text_that_never_ends(tmp_path, monkeypatch, name):
    monkeypatch.setattr(reading, "MAX_UNPACKED_BYTES", 10**6)
    (tmp_path / name).write_bytes(gzip.compress(b"1,2\n" * 10**6))
    refused(tmp_path / name)
    rng = np.random.default_rng(0)
    rows = "".join(f"{a},{b}\n" for a, b in rng.integers(0, 10**9, (60_000, 2)))
    (tmp_path / "b.csv.gz").write_bytes(
        gzip.compress(f"a,b\n{rows}".encode())
    )  # large, but not suspiciously packed
    assert read(tmp_path / "b.csv.gz").table.num_rows == 60_000


def test_a_workbook_that_unpacks_to_more_than_memory(tmp_path, little):
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b" " * 200_000)
    refused(tmp_path / "a.xlsx")


def test_a_workbook_that_declares_an_enormous_sheet(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "label"], [1, "x"], [2, "y"]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    with zipfile.ZipFile(tmp_path / "a.xlsx") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    assert b'ref="A1:B3"' in parts[sheet]
    parts[sheet] = parts[sheet].replace(b'ref="A1:B3"', b'ref="A1:XFD1048576"')
    with zipfile.ZipFile(tmp_path / "b.xlsx", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert read(tmp_path / "b.xlsx").table.to_pydict() == {"a": [1, 2], "label": ["x", "y"]}


def test_a_column_of_one_value_repeated_beyond_memory(tmp_path, little):
    pq.write_table(
        pa.table({"a": pa.array(np.zeros(2_000_000, dtype=np.int8))}), tmp_path / "a.parquet"
    )
    assert (tmp_path / "a.parquet").stat().st_size < 10_000
    refused(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
def test_damaged_tables_are_refused_or_read(tmp_path, rng, name):
    """Whatever bytes change: a table that can be used, or one line. (A crash would end this
    process.)
    """
    texts = [f"text {i}" * (i % 4) for i in range(50)]
    columns = {
        "s": texts,
        "v": [[1.0] * (i % 3) for i in range(50)],
        "c": pa.array(["x", "y"] * 25),
    }
    table = pa.table(columns | {"d": columns["c"].dictionary_encode()})
    write = pq.write_table if name.endswith(".parquet") else feather.write_feather
    write(table, tmp_path / name, compression="lz4" if name.endswith(".feather") else "zstd")
    sound = (tmp_path / name).read_bytes()
    n_read = 0
    for _ in range(150):
        damaged = bytearray(sound)
        for place in rng.integers(0, len(sound), 3):
            damaged[place] = rng.integers(0, 256)
        (tmp_path / name).write_bytes(damaged)
        try:
            n_read += len(read(tmp_path / name).table.to_pylist()) > 0
        except InputError as problem:
            assert str(problem).startswith(str(tmp_path / name))  # noqa: PT017
    assert n_read < 150
