"""Rows on a plane: near on the map means alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearworth._common.types import FloatMatrix, IntVector
from nearworth.report.cells import dense_rows

FIT_ROWS = 5_000  # rows that the principal components are fitted to
SIDE = 1_000  # places are whole numbers from 0 to this
COMPONENTS, NEAR = 15, 10
MOST_UNFOLDED = 4_000  # others lie between those that they are nearest to
ROUNDS, OTHERS, STEP = 200, 20, 2.0


def places(X: Any, rows: IntVector) -> list[list[int]]:
    """Where rows are drawn, x and y."""
    from sklearn.neighbors import NearestNeighbors

    points = project(X, rows, min(COMPONENTS, *X.shape))
    core = points[by_lot(np.arange(len(points)), MOST_UNFOLDED)]
    place = unfold(core)
    if len(core) < len(points):
        place = place[NearestNeighbors(n_neighbors=3).fit(core).kneighbors(points, return_distance=False)].mean(axis=1)
    low, high = place.min(axis=0), place.max(axis=0)
    scaled = (place - low) / np.where(high > low, high - low, 1.0) * SIDE
    return [[int(x), int(y)] for x, y in scaled.round()]


def project(X: Any, rows: IntVector, n_components: int) -> FloatMatrix:
    """Principal components of some rows, fitted to a sample of all; missing values are means."""
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    sample = dense_rows(X, by_lot(np.arange(X.shape[0]), FIT_ROWS))
    pipeline = make_pipeline(SimpleImputer(keep_empty_features=True), PCA(n_components, random_state=0))
    with np.errstate(invalid="ignore"):  # the share of no variance, if all rows are alike
        return np.asarray(pipeline.fit(sample).transform(dense_rows(X, rows)))


def unfold(points: FloatMatrix) -> FloatMatrix:
    """Places on a plane: each point is drawn to its nearest ones and pushed away from some others, in linear time.

    Forces fall with distance d as in t-SNE: d / (1 + d²) to the nearest, d / (1 + d²)² from others.
    """
    from sklearn.neighbors import NearestNeighbors

    n = len(points)
    place = np.clip(points[:, :2] / (points[:, :2].std() or 1.0), -2.0, 2.0) * 5.0  # the few far away come back
    if n <= NEAR:
        return np.asarray(place)
    near = NearestNeighbors(n_neighbors=NEAR).fit(points).kneighbors(return_distance=False)
    start, end, rng = np.repeat(np.arange(n), NEAR), near.ravel(), np.random.default_rng(0)
    n_pulls = np.bincount(end, minlength=n) + NEAR

    def total(at: IntVector, forces: FloatMatrix) -> FloatMatrix:
        return np.column_stack([np.bincount(at, forces[:, axis], n) for axis in (0, 1)])

    for step in np.linspace(STEP, 0.0, ROUNDS):
        gaps = place[end] - place[start]
        pulls = gaps / (1.0 + (gaps**2).sum(axis=1, keepdims=True))
        away = place[:, None] - place[rng.integers(0, n, (n, OTHERS))]
        squares = (away**2).sum(axis=2, keepdims=True)
        pushes = away / ((0.1 + squares) * (1.0 + squares))
        place = place + step * ((total(start, pulls) - total(end, pulls)) / n_pulls[:, None] + pushes.sum(axis=1))
    return np.asarray(place)


def by_lot(rows: IntVector, size: int, seed: int = 0) -> IntVector:
    """So many of the rows, each with the same chance, in their order; all of them if there are no more."""
    return rows if len(rows) <= size else np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))
