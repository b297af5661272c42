"""Numpy archives with a seal: a checksum over every byte, so that no damage goes unseen."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from nearworth._common.files import atomic_write

SEAL, DIGEST = b"nearworth", 32
BLOCK = 2**20


class _Hashed:
    """A file that can only be written forward, and hashes what it is given."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.blake2b(digest_size=DIGEST)

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def read(self, *_: Any) -> bytes:  # numpy takes only what looks like a file
        raise OSError("This file can only be written.")


def write_sealed(
    path: str | os.PathLike[str], description: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Write a description (JSON) and arrays; numpy can read the file too."""
    with atomic_write(path) as file:
        hashed = _Hashed(file)
        np.savez(hashed, description=np.array(json.dumps(description)), **arrays)  # type: ignore[call-overload, arg-type]
        file.write(SEAL + hashed.digest.digest())


def read_sealed(path: str | os.PathLike[str], what: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """What was written there; a file that is not whole, or not of this kind, is a ValueError."""
    with open(path, "rb") as file:
        if not _intact(file):
            raise ValueError(f"{str(path)!r} is not {what} of nearworth, or it is damaged: its checksum is wrong.")
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    return json.loads(str(arrays.pop("description"))), arrays


def _intact(file: IO[bytes]) -> bool:
    left = file.seek(0, os.SEEK_END) - len(SEAL) - DIGEST
    file.seek(0)
    digest = hashlib.blake2b(digest_size=DIGEST)
    while left > 0:
        block = file.read(min(BLOCK, left))
        if not block:
            return False
        digest.update(block)
        left -= len(block)
    return left == 0 and file.read() == SEAL + digest.digest()
