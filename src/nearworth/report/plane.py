"""Rows on a plane: near on the map means alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearworth._common.types import FloatMatrix, IntVector
from nearworth.report.cells import dense_rows

FIT_ROWS = 5_000  # rows that the projection is fitted to
SIDE = 1_000  # places are whole numbers from 0 to this


def project(X: Any, rows: IntVector) -> FloatMatrix:
    """Two principal components of some rows, (len(rows), 2), fitted to a sample of all; missing values are means."""
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    sample = by_lot(np.arange(X.shape[0]), FIT_ROWS)
    with np.errstate(invalid="ignore"):  # the share of no variance, if all rows are alike
        plane = make_pipeline(SimpleImputer(keep_empty_features=True), PCA(2, random_state=0)).fit(
            dense_rows(X, sample)
        )
    return np.asarray(plane.transform(dense_rows(X, rows)))


def places(X: Any, rows: IntVector) -> list[list[int]]:
    """Where rows are drawn, x and y; the few farthest lie at the edge."""
    points = project(X, rows)
    low, high = np.percentile(points, [0.5, 99.5], axis=0)
    shares = np.clip((points - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    return (shares * SIDE).round().astype(int).tolist()


def by_lot(rows: IntVector, size: int, seed: int = 0) -> IntVector:
    """So many of the rows, each with the same chance, in their order; all of them if there are no more."""
    return rows if len(rows) <= size else np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))
