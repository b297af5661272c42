"""Numpy's files: damaged ones are bad input, named with their argument; maps are read from the file they show."""

from __future__ import annotations

import io
import os
import struct
import zipfile

import numpy as np
import pytest

import nearworth as nw
from nearworth.inputs.file_rows import FileRows
from nearworth.inputs.sources import open_pair

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
                rng.integers(0, 256) if rng.random() < 0.5 else rng.choice(list(b"0123456789'()[]{},-<>fiUSOV "))
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
    if os.path.exists("/proc/self/maps"):
        assert isinstance(open_pair(mapped, Y, ("X", "y"), 10**6)[0].data, FileRows)


def test_a_file_replaced_under_its_map_is_not_taken_for_it(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.save(tmp_path / "other.npy", X + 1)
    os.replace(tmp_path / "other.npy", tmp_path / "X.npy")
    opened, _ = open_pair(mapped, Y, ("X", "y"), 10**6)
    assert opened is mapped or np.array_equal(opened.data[:], X)
