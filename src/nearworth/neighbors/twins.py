"""Identical training rows."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from nearworth._typing import IntVector


def first_twins(X: Any) -> IntVector:
    """For each row, the number of the first row equal to it (its own where there is none)."""
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(digest, i) for i, digest in enumerate(_digests(X))], dtype=np.intp)


def _digests(X: Any) -> Iterator[bytes]:
    """A hash of each row, long enough never to collide."""
    if scipy.sparse.issparse(X):
        for a, b in pairwise(X.indptr.tolist()):
            yield blake2b(X.indices[a:b].tobytes() + X.data[a:b].tobytes(), digest_size=16).digest()
    else:
        for row in X:  # adding zero turns -0.0, which equals 0.0, into it
            yield blake2b((np.asarray(row, dtype=np.float64) + 0.0).tobytes(), digest_size=16).digest()
