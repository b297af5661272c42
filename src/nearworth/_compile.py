"""Compiling kernels: lazily by use, cached on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """A numba kernel without the interpreter lock, on the caller's thread.

    No parallel=True: our own threads run the kernels, which is safe after fork and inside other pools. Where numba
    finds no folder to cache in (read-only installs without a home), the kernel is compiled anew in each process.
    """
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return cast("Function", njit(cache=True, **options)(function))
    except RuntimeError:
        return cast("Function", njit(**options)(function))
