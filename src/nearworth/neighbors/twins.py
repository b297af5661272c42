"""Identical training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from nearworth._typing import IntVector


def first_twins(X: Any) -> IntVector:
    """For each row, the number of the first row equal to it (its own where there is none)."""
    if scipy.sparse.issparse(X):
        rows = [(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in zip(X.indptr, X.indptr[1:], strict=False)]
    else:
        # Adding zero turns -0.0, which equals 0.0, into it.
        rows = [row.tobytes() for row in (np.ascontiguousarray(X, dtype=np.float64) + 0.0)]
    seen: dict[Any, int] = {}
    return np.array([seen.setdefault(row, i) for i, row in enumerate(rows)], dtype=np.intp)
