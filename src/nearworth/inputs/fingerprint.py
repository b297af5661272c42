"""A short hash of data: equal numbers, equal fingerprints, whatever container or dtype they came in.

Sparse and dense matrices differ even where they hold the same numbers.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse

from nearworth.inputs.file_rows import FileRows, row_chunks


def fingerprint(*parts: Any) -> str:
    """Hash of matrices, vectors and plain values together."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        _feed(digest, part)
    return digest.hexdigest()


def _feed(digest: Any, part: Any) -> None:
    if scipy.sparse.issparse(part):
        digest.update(f"sparse{part.shape}".encode())
        for array in (part.indptr, part.indices, part.data):
            _feed(digest, array)
    elif isinstance(part, np.ndarray | FileRows) and part.dtype.kind in "biuf":
        digest.update(f"dense{part.shape}".encode())
        matrix = part if isinstance(part, FileRows) else part.reshape(*((len(part), -1) if part.size else (0, 1)))
        for _, chunk in row_chunks(matrix, 2**16):
            digest.update(np.ascontiguousarray(chunk, dtype=np.float64) + 0.0)  # -0.0 is 0.0
    elif isinstance(part, np.ndarray):
        digest.update(repr(part.tolist()).encode())
    else:
        digest.update(repr(part).encode())
