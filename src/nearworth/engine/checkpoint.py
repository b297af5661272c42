"""A folder with the work done so far, whatever happens to the process.

    folder/progress.part   the last complete sums (see results/) folder/lock            held while a
    run uses the folder; the system releases it when the process dies

The main thread, which only collects leaves, writes the sums while others go on with theirs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nearworth._common.warnings import warn_user
from nearworth.results.sums import RUN, Partial

PROGRESS, LOCK = "progress.part", "lock"
_held: set[Path] = set()  # locks of this process, to which the system grants the same lock again


@contextmanager
def checkpointed(
    folder: str | os.PathLike[str], beginning: Partial, interval: float
) -> Iterator[tuple[Partial, Callable[[Partial], object]]]:
    """Sums to go on with, of the folder if it has some; and what to call after each leaf, to write
    at intervals.
    """
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise ValueError(f"checkpoint must be a folder; {str(folder)!r} is a file.")
    place.mkdir(parents=True, exist_ok=True)
    with _locked(place / LOCK):
        for leftover in place.glob(
            f".{PROGRESS}.*.tmp"
        ):  # of a process that was killed while writing
            leftover.unlink(missing_ok=True)
        summed = _load(place, beginning)
        writer = _Writer(place, summed.n_points, interval)
        try:
            yield summed, writer.on_leaf
        finally:  # also when the run was interrupted or failed
            writer.write(summed)


class _Writer:
    """Writes sums to a folder, if there is more in them than was written before."""

    def __init__(self, folder: Path, saved_points: int, interval: float) -> None:
        self._folder, self._saved_points, self._interval = folder, saved_points, interval
        self._last, self._warned = time.monotonic(), False

    def on_leaf(self, partial: Partial) -> None:
        if time.monotonic() - self._last >= self._interval:
            self.write(partial)
            self._last = time.monotonic()

    def write(self, partial: Partial) -> None:
        if partial.n_points <= self._saved_points:
            return
        try:
            partial.save(self._folder / PROGRESS)
            self._saved_points = partial.n_points
        except Exception as error:  # a full disk must not end the run
            if not self._warned:
                failed = f"The checkpoint in {str(self._folder)!r} could not be written ({error})"
                saved = (
                    f"what was saved before ({self._saved_points:,} validation points) is still"
                    " there"
                )
                warn_user(f"{failed}. The run goes on; {saved}.")
            self._warned = True


def _load(folder: Path, beginning: Partial) -> Partial:
    if not (folder / PROGRESS).exists():
        return beginning
    try:
        partial = Partial.load(folder / PROGRESS)
    except ValueError as error:
        raise ValueError(f"checkpoint: {error} Delete it to begin anew.") from error
    if different := partial.origin.differences(beginning.origin, RUN):
        problem = f"belongs to another run; it differs in {'; '.join(different)} (there and here)"
        raise ValueError(
            f"checkpoint {str(folder)!r} {problem}. Use another folder, or delete this one to begin"
            " anew."
        )
    return partial


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock, which ends with the process at the latest and is not inherited; refuse one that
    is held.
    """
    refusal = (
        f"checkpoint {str(path.parent)!r} is in use by another run. Wait for it to end, or use"
        " another folder."
    )
    key = path.resolve()
    if key in _held:
        raise ValueError(refusal)
    handle = os.open(
        path, os.O_RDWR | os.O_CREAT
    )  # closing it would release a lock of this process
    try:
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(refusal) from error
        _held.add(key)
        yield
    finally:
        _held.discard(key)
        os.close(handle)
