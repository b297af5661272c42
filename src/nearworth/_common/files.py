"""Files that appear only once they are complete, and archives.

An archive has a JSON description and some arrays. It is one of numpy, so numpy.load reads it too,
and each array in it has a checksum. Nothing that a file says of its own sizes is believed: arrays
are stored without compression, so that none can be larger than the file, and `build` checks what
it makes of them.
"""

from __future__ import annotations

import io
import json
import math
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

# The number is counted up when files change.
FORMAT = "nearworth {} 2"

Arrays = Mapping[str, npt.NDArray[Any]]
T = TypeVar("T")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to. It takes the place of `path` only once it is complete and on disk."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_archive(
    path: str | os.PathLike[str], kind: str, description: Mapping[str, Any], arrays: Arrays
) -> None:
    """Write an archive atomically; `kind` is what it holds, in a word."""
    text = json.dumps({"format": FORMAT.format(kind), "arrays": [*arrays], **description})
    with atomic_write(path) as file:
        np.savez(file, description=np.array(text), **arrays)  # type: ignore[arg-type]


def read_archive(
    path: str | os.PathLike[str], kind: str, build: Callable[[dict[str, Any], Arrays], T]
) -> T:
    """The result of `build`, called with the description and the arrays (read-only).

    Whatever is wrong with the file is a ValueError.
    """
    with open(path, "rb") as file:
        try:
            arrays = _read_arrays(file)
            description = json.loads(str(arrays.pop("description")))
            expected = FORMAT.format(kind)
            if description["format"] != expected:
                raise ValueError(
                    f"its format is {description['format']!r}, this version reads {expected!r}."
                )
            if description.pop("arrays") != [*arrays]:
                raise ValueError("arrays are missing.")
            return build(description, arrays)
        except MemoryError:
            # The file may be all right.
            raise
        except Exception as error:
            article = "an" if kind[0] in "aeiou" else "a"
            text = str(error) if isinstance(error, ValueError) else repr(error)
            reason = text.splitlines()[0]
            raise ValueError(
                f"{str(path)!r} is not {article} {kind} saved by nearworth, or it is damaged:"
                f" {reason}"
            ) from error


def check_arrays(arrays: Arrays, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """A ValueError unless the arrays of these names hold 64-bit floats in these shapes."""
    for name, shape in shapes.items():
        array = arrays[name]
        if array.dtype != np.float64 or array.shape != shape:
            raise ValueError(
                f"its {name!r} has shape {array.shape} and type {array.dtype}, not {shape} and"
                " float64."
            )


def _read_arrays(file: IO[bytes]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an archive by name, among them its description."""
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        is_stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not is_stored or sum(member.file_size for member in members) > size:
            raise ValueError("its arrays claim to be larger than the file.")
        return {
            member.filename.removesuffix(".npy"): parse_npy(archive.read(member))
            for member in members
        }


def parse_npy(data: bytes) -> npt.NDArray[Any]:
    """An array from the bytes of a .npy file, without a copy.

    It is never larger than these bytes, and holds no Python objects.
    """
    header = io.BytesIO(data)
    np.lib.format.read_magic(header)
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(header)
    n_bytes = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or n_bytes != len(data) - header.tell():
        raise ValueError(
            f"it holds an array that is not of its declared shape {shape} and type {dtype}."
        )
    order: Literal["F", "C"] = "F" if fortran_order else "C"
    return np.ndarray(shape, dtype, data, header.tell(), order=order)
