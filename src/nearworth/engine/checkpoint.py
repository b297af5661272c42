"""A folder with the work done so far, whatever happens to the process.

    folder/progress.part   the last complete sums (see results/)
    folder/lock            held while a run uses the folder; the system releases it when the process dies

Sums are written in the background, by one thread, from a snapshot that no longer changes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from nearworth.results.origin import RUN
from nearworth.results.sums import Partial

NAME, LOCK = "progress.part", "lock"


class Checkpoint:
    """Sums in a folder: read when it is opened, written every `interval` seconds and at the end."""

    def __init__(self, folder: str | os.PathLike[str], beginning: Partial, interval: float) -> None:
        self._folder, self._beginning, self._interval = Path(folder), beginning, interval
        if self._folder.exists() and not self._folder.is_dir():
            raise ValueError(f"checkpoint must be a folder; {str(folder)!r} is a file.")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = _Lock(self._folder / LOCK)
        try:
            self._remove_leftovers()
            self.partial = self._load()
        except BaseException:
            self._lock.release()
            raise
        self._saved_points = self.partial.n_points
        self._last = time.monotonic()
        self._writer: threading.Thread | None = None
        self._failure: Exception | None = None
        self._warned = False

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the sums, also when the run was interrupted or failed; then release the lock."""
        try:
            self._wait()
            if self.partial.n_points > self._saved_points:
                self._write(self.partial)
            self._warn_of_failure()
        finally:
            self._lock.release()

    def on_leaf(self, partial: Partial) -> None:
        """Called after each leaf; starts a background write once `interval` seconds have passed."""
        if self._writer is not None and not self._writer.is_alive():
            self._wait()
            self._warn_of_failure()
        if self._writer is None and time.monotonic() - self._last >= self._interval:
            self._last = time.monotonic()
            self._writer = threading.Thread(target=self._write, args=(partial.snapshot(),), daemon=True)
            self._writer.start()

    def _write(self, partial: Partial) -> None:
        try:
            partial.save(self._folder / NAME)
            self._saved_points = partial.n_points
        except Exception as error:  # a full disk must not end the run
            self._failure = error

    def _wait(self) -> None:
        if self._writer is not None:
            self._writer.join()
            self._writer = None

    def _warn_of_failure(self) -> None:
        error, self._failure = self._failure, None
        if error is not None and not self._warned:
            self._warned = True
            warnings.warn(
                f"The checkpoint in {str(self._folder)!r} could not be written ({error}). The run goes on; what was "
                f"saved before ({self._saved_points:,} validation points) is still there.",
                stacklevel=2,
            )

    def _load(self) -> Partial:
        path = self._folder / NAME
        if not path.exists():
            return self._beginning.snapshot()
        try:
            partial = Partial.load(path)
        except ValueError as error:
            raise ValueError(f"checkpoint: {error} Delete it to begin anew.") from error
        origin = self._beginning.origin
        different = partial.origin.differences(origin, RUN)
        if different:
            raise ValueError(
                f"checkpoint {str(self._folder)!r} belongs to another run; it differs in {'; '.join(different)} (there "
                "and here). Use another folder, or delete this one to begin anew."
            )
        partial.origin.warn_of_kernels([origin])
        return partial

    def _remove_leftovers(self) -> None:
        """Delete what a process that was killed while writing left behind."""
        for leftover in self._folder.glob(f".{NAME}.*.tmp"):
            leftover.unlink(missing_ok=True)


class _Lock:
    """Held until released, or until the process dies; not inherited by children. Refuses a lock that is held."""

    _held: ClassVar[set[tuple[int, int, int]]] = set()  # the system grants a second lock to the same process

    def __init__(self, path: Path) -> None:
        refusal = (
            f"checkpoint {str(path.parent)!r} is in use by another run. Wait for it to end, or use another folder."
        )
        if not path.exists():  # opening and closing it would release a lock of this process
            path.touch()
        self._key = (os.getpid(), path.stat().st_dev, path.stat().st_ino)
        if self._key in self._held:
            raise ValueError(refusal)
        self._handle = os.open(path, os.O_RDWR)
        try:
            _lock_file(self._handle)
        except OSError as error:
            os.close(self._handle)
            raise ValueError(refusal) from error
        self._held.add(self._key)

    def release(self) -> None:
        self._held.discard(self._key)
        os.close(self._handle)


def _lock_file(handle: int) -> None:
    """Lock a file until it is closed; an OSError if it is locked already."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
