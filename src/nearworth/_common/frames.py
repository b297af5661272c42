"""Result tables as frames of pandas, polars or pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, cast

BACKENDS = ("pandas", "polars", "pyarrow")


def make_frame(columns: Mapping[str, Any], backend: str | None, preferred: str | None = None) -> Any:
    """A frame of the library `backend`; if None, of `preferred` (that of the data) or the first one installed."""
    import narwhals.stable.v2 as nwl

    if backend is None:
        candidates = [preferred] if preferred in BACKENDS else []
        backend = next(name for name in (*candidates, *BACKENDS) if name and find_spec(name))
    elif backend not in BACKENDS:
        raise ValueError(f"backend={backend!r} is not known. Use one of {', '.join(map(repr, BACKENDS))}.")
    elif find_spec(backend) is None:
        raise ImportError(f"backend={backend!r} is not installed: pip install {backend}.")
    return nwl.from_dict(columns, backend=cast("Any", backend)).to_native()
