"""A training set behind an address that fsspec understands: fetched once to each machine, checked, mapped.

Fetched files stay in NEARWORTH_CACHE, by default a folder of the user's own among the temporary files.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from nearworth.engine.checkpoint import lock_handle
from nearworth.engine.stored import ArrayFile, StoredTraining, store

CACHE = "NEARWORTH_CACHE"


def is_address(place: str | os.PathLike[str]) -> bool:
    """Whether a place is not a folder of this machine."""
    return "://" in os.fspath(place)


@dataclass(frozen=True)
class RemoteTraining:
    """A training set stored at an address, and how its files were called where it was made."""

    address: str
    stored: StoredTraining

    def load(self) -> tuple[Any, npt.NDArray[Any]]:
        """Points and labels, from files of this machine."""
        fetched = replace(
            self.stored, labels=self._fetch(self.stored.labels), points=tuple(map(self._fetch, self.stored.points))
        )
        try:
            return fetched.load()
        except ValueError:
            for file in (fetched.labels, *fetched.points):  # damaged here or changed there: fetch anew next time
                Path(file.path).unlink(missing_ok=True)
            raise

    def _fetch(self, file: ArrayFile) -> ArrayFile:
        place = _cache() / f"nearworth-{self.stored.fingerprint}"
        place.mkdir(exist_ok=True)
        path = place / _name(file)
        with _alone(place / "lock"):
            if not path.exists():
                partly = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
                _filesystem(self.address).get_file(f"{self.address}/{path.name}", str(partly))
                os.replace(partly, path)
        return replace(file, path=str(path))


def store_at(points: Any, labels: npt.NDArray[Any], place: str | os.PathLike[str]) -> StoredTraining | RemoteTraining:
    """Put a training set where workers can read it: files of a folder, or of an address."""
    if not is_address(place):
        return store(points, labels, place)
    with tempfile.TemporaryDirectory(prefix="nearworth-") as folder:
        stored = store(points, labels, folder)
        address = f"{os.fspath(place).rstrip('/')}/nearworth-{stored.fingerprint}"
        filesystem = _filesystem(address)
        filesystem.makedirs(address, exist_ok=True)
        for file in (stored.labels, *stored.points):
            target, size = f"{address}/{_name(file)}", os.path.getsize(file.path)
            if not filesystem.exists(target) or filesystem.size(target) != size:
                filesystem.put_file(file.path, target)
    return RemoteTraining(address, stored)


def _name(file: ArrayFile) -> str:
    return Path(file.path).name


def _filesystem(address: str) -> Any:
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f"scratch={address!r} needs fsspec: pip install 'nearworth[dask]', or fsspec.") from error
    try:
        return fsspec.core.url_to_fs(address)[0]
    except (ValueError, ImportError) as error:
        raise type(error)(f"scratch={address!r} cannot be reached: {error}") from error


def _cache() -> Path:
    """A folder that nobody else can write to."""
    own = os.environ.get(CACHE)
    user = os.getuid() if hasattr(os, "getuid") else os.getlogin()
    folder = Path(own) if own else Path(tempfile.gettempdir()) / f"nearworth-cache-{user}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not own and hasattr(os, "getuid") and folder.stat().st_uid != user:
        raise PermissionError(f"{str(folder)!r} belongs to somebody else. Set {CACHE} to a folder of your own.")
    return folder


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While one process of this machine fetches a file, the others wait for it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        lock_handle(handle, wait=True)
        yield
    finally:
        os.close(handle)
