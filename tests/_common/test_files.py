"""Archives: what was written, or a ValueError in little memory, whatever the bytes are."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from nearworth._common.files import read_archive, write_archive


def both(description, arrays):
    return description, arrays


def test_what_was_written_is_read(tmp_path, rng):
    arrays = {
        "a": rng.normal(size=(3, 4)),
        "f": np.asfortranarray(rng.normal(size=(3, 4))),
        "empty": np.zeros((5, 0)),
        "flags": rng.random(7) < 0.5,
        "rows": np.arange(3),
    }
    write_archive(tmp_path / "a", "thing", {"x": [1, None, "é"]}, arrays)
    description, found = read_archive(tmp_path / "a", "thing", both)
    assert description == {"format": "nearworth thing 2", "x": [1, None, "é"]}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    with np.load(tmp_path / "a", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["a"], arrays["a"])


def test_another_kind_is_refused(tmp_path):
    write_archive(tmp_path / "a", "thing", {}, {})
    with pytest.raises(
        ValueError, match="is not a part saved by nearworth.*its format is 'nearworth thing 2'"
    ):
        read_archive(tmp_path / "a", "part", both)
    with pytest.raises(FileNotFoundError):
        read_archive(tmp_path / "b", "part", both)


def test_errors_of_those_who_build_are_value_errors(tmp_path):
    write_archive(tmp_path / "a", "thing", {}, {})
    for wrong in (lambda *_: {}["x"], lambda *_: [][0], lambda *_: None + 1):
        with pytest.raises(
            ValueError, match="is not a thing saved by nearworth, or it is damaged: "
        ):
            read_archive(tmp_path / "a", "thing", wrong)


def test_damage_anywhere(tmp_path, rng):
    """A flipped bit anywhere gives what was there or a ValueError, never anything else."""
    path = tmp_path / "a"
    arrays = {"a": np.arange(30.0), "b": np.ones((2, 3))}
    write_archive(path, "thing", {"x": 1}, arrays)
    whole = path.read_bytes()
    refused = 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with suppress(ValueError):
            description, found = read_archive(path, "thing", both)
            assert description["x"] == 1
            assert found.keys() == arrays.keys()
            for name in found:
                np.testing.assert_array_equal(found[name], arrays[name])
            continue
        refused += 1
    assert refused > len(whole) // 2
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="is not a thing saved by nearworth"):
            read_archive(path, "thing", both)


def npy_header(shape, dtype="<f8"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return file.getvalue()


@pytest.mark.parametrize("bomb", ["compressed", "declared", "overlapping", "object", "negative"])
def test_declared_sizes_are_not_believed(tmp_path, bomb):
    """Two gigabytes in a small file: refused before they are made."""
    file = io.BytesIO()
    with zipfile.ZipFile(
        file, "w", zipfile.ZIP_DEFLATED if bomb == "compressed" else zipfile.ZIP_STORED
    ) as archive:
        archive.writestr("description.npy", npy_header((), "<U2") + "{}".encode("utf-32-le"))
        if bomb == "compressed":
            with archive.open("a.npy", "w") as member:
                member.write(npy_header((64 * 2**20,)))
                for _ in range(64):
                    member.write(bytes(8 * 2**20))
        elif bomb == "overlapping":
            archive.writestr("a.npy", npy_header((2**17,)) + bytes(2**20))
            first = archive.filelist[-1]
            for i in range(2000):  # names for the same bytes
                again = zipfile.ZipInfo(f"{i}.npy")
                for name in ("header_offset", "CRC", "compress_size", "file_size"):
                    setattr(again, name, getattr(first, name))
                archive.filelist.append(again)
        else:
            shape = (-(2**28), -1) if bomb == "negative" else (2**28,)
            archive.writestr(
                "a.npy", npy_header(shape, "|O" if bomb == "object" else "<f8") + bytes(64)
            )
    (tmp_path / "a").write_bytes(file.getvalue())
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="larger than the file|declared shape"):
            read_archive(tmp_path / "a", "thing", both)
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()
