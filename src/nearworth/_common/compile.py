"""Compiling kernels: when first called, and cached on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A numba kernel without the interpreter lock, on the caller's thread.

    No parallel=True: our own threads run the kernels, which is safe after fork and inside other pools. Where numba
    finds no folder to cache in (read-only installs without a home), the kernel is compiled anew in each process.
    """
    try:
        kernel = njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:
        kernel = njit(nogil=True, error_model="numpy")(function)
    else:
        _forgive_old_caches(kernel._cache)
    return kernel  # type: ignore[no-any-return]


def _forgive_old_caches(cache: Any) -> None:
    """Compile anew, where numba would fail on files of an earlier version that name a type which is no more."""
    load = cache.load_overload

    def load_or_forget(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except (AttributeError, ImportError):
            cache.flush()
            return None

    cache.load_overload = load_or_forget
