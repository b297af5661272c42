"""Our threads call the BLAS, which must not start threads of its own meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits


class _BlasLimit:
    """How many runs are under way in this process; the first one in limits the BLAS, the last one out gives it back."""

    lock = threading.Lock()
    runs = 0
    limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Our threads call the BLAS, which must not start threads of its own meanwhile."""
    with _BlasLimit.lock:
        if _BlasLimit.runs == 0:
            _BlasLimit.limit = threadpool_limits(1, user_api="blas")
        _BlasLimit.runs += 1
    try:
        yield
    finally:
        with _BlasLimit.lock:
            _BlasLimit.runs -= 1
            if _BlasLimit.runs == 0:
                _BlasLimit.limit.restore_original_limits()


def _forget_runs() -> None:
    """A forked child has none of its parent's threads, nor their locks."""
    _BlasLimit.lock, _BlasLimit.runs = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_runs)
