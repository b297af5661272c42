"""Telling people how far a long run is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SHORT_RUN = 2.0  # seconds before a bar is worth showing


@contextmanager
def reporting(progress: Any, total: int, resumed: int = 0) -> Iterator[Callable[[int, int], object] | None]:
    """A function to call with (done, total): the user's own, a bar, or None for silence.

    `resumed` of them were done before. `progress=None` shows a bar only to somebody who is watching a terminal, and
    only on long runs.
    """
    if callable(progress):
        if resumed:
            progress(resumed, total)
        yield progress
    elif progress is False or (progress is None and not sys.stderr.isatty()):
        yield None
    else:
        from tqdm.auto import tqdm

        what = f"{resumed:,} from the checkpoint" if resumed else None
        delay = 0.0 if progress else SHORT_RUN
        with tqdm(total=total, initial=resumed, desc=what, unit="validation point", delay=delay) as bar:
            yield lambda done, _total: bar.update(done - bar.n)
