"""A folder with the work done so far, which survives the process.

    folder/progress.part   the last complete sums (see results/sums.py)
    folder/lock            held while a run uses the folder; the system releases it when the
                           process dies

The main thread, which only collects leaves, writes the sums while other threads compute.
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

# Names of files in the folder.
PROGRESS = "progress.part"
LOCK = "lock"

# Locks that this process holds. The system would grant it the same lock again.
_held: set[Path] = set()


@contextmanager
def checkpointed(
    folder: str | os.PathLike[str], beginning: Partial, interval: float
) -> Iterator[tuple[Partial, Callable[[Partial], object]]]:
    """The sums to add to, and a function to call with them after each leaf.

    The sums are those in the folder if there are some, else `beginning`. They are written to it
    every `interval` seconds and at the end.
    """
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise ValueError(f"checkpoint must be a folder; {str(folder)!r} is a file.")
    place.mkdir(parents=True, exist_ok=True)
    with _locked(place / LOCK):
        # A process that was killed while it wrote leaves a temporary file.
        for leftover in place.glob(f".{PROGRESS}.*.tmp"):
            leftover.unlink(missing_ok=True)
        summed = _load(place, beginning)
        writer = _Writer(place, summed.n_points, interval)
        try:
            yield summed, writer.on_leaf
        finally:
            # Also if the run was interrupted or has failed.
            writer.write(summed)


class _Writer:
    """Writes sums to a folder, if there is more in them than was written before."""

    def __init__(self, folder: Path, saved_points: int, interval: float) -> None:
        self._folder = folder
        self._saved_points = saved_points
        self._interval = interval
        self._last_write = time.monotonic()
        self._has_warned = False

    def on_leaf(self, partial: Partial) -> None:
        """Write if the interval is over."""
        if time.monotonic() - self._last_write >= self._interval:
            self.write(partial)
            self._last_write = time.monotonic()

    def write(self, partial: Partial) -> None:
        """Write unless nothing is new; warn once if that fails."""
        if partial.n_points <= self._saved_points:
            return
        try:
            partial.save(self._folder / PROGRESS)
            self._saved_points = partial.n_points
        except Exception as error:
            # A full disk must not end the run.
            if not self._has_warned:
                warn_user(
                    f"The checkpoint in {str(self._folder)!r} could not be written ({error}). The"
                    f" run goes on; what was saved before ({self._saved_points:,} validation"
                    " points) is still there."
                )
            self._has_warned = True


def _load(folder: Path, beginning: Partial) -> Partial:
    """The sums in a folder; `beginning` if there are none."""
    if not (folder / PROGRESS).exists():
        return beginning
    try:
        partial = Partial.load(folder / PROGRESS)
    except ValueError as error:
        raise ValueError(f"checkpoint: {error} Delete it to begin anew.") from error
    differences = partial.origin.differences(beginning.origin, RUN)
    if differences:
        raise ValueError(
            f"checkpoint {str(folder)!r} belongs to another run; it differs in"
            f" {'; '.join(differences)} (there and here). Use another folder, or delete this one to"
            " begin anew."
        )
    return partial


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock on a file, or refuse if it is held.

    The lock ends with the process at the latest, and processes that it starts do not inherit it.
    """
    refusal = (
        f"checkpoint {str(path.parent)!r} is in use by another run. Wait for it to end, or use"
        " another folder."
    )
    # If this process holds the lock, to open and close the file would release it.
    key = path.resolve()
    if key in _held:
        raise ValueError(refusal)
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
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
