"""Rows on a plane: the two directions in which they differ most."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearworth._common.types import FloatMatrix, IntVector

FIT_ROWS = 5_000
WIDE = 1_000  # columns beyond which a sample of rows gives the directions at less cost


def project(X: Any, rows: IntVector, seed: int = 0) -> FloatMatrix:
    """Two principal components (len(rows), 2) of some rows, the directions from a sample of all."""
    n = X.shape[0]
    rng = np.random.default_rng(seed)
    sample = _dense(X, np.sort(rng.choice(n, FIT_ROWS, replace=False)) if n > FIT_ROWS else np.arange(n))
    centre = sample.mean(axis=0)
    directions = _directions(sample - centre)
    return np.asarray((_dense(X, rows) - centre) @ directions)


def _directions(centred: FloatMatrix) -> FloatMatrix:
    n, width = centred.shape
    if width <= WIDE:
        _, vectors = np.linalg.eigh(centred.T @ centred)
        vectors = vectors[:, ::-1][:, :2]
    else:
        some = centred[: min(n, WIDE)]
        _, left = np.linalg.eigh(some @ some.T)
        vectors = some.T @ left[:, ::-1][:, :2]
        lengths = np.linalg.norm(vectors, axis=0)
        vectors = vectors / np.where(lengths > 0, lengths, 1.0)
    if vectors.shape[1] < 2:
        vectors = np.hstack([vectors, np.zeros((width, 2 - vectors.shape[1]))])
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), [0, 1]])  # the same picture on every machine
    return np.asarray(vectors * np.where(signs == 0, 1.0, signs))


def _dense(X: Any, rows: IntVector) -> FloatMatrix:
    part = X[rows]
    return np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)
