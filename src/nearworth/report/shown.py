"""Rows as they are shown: cells as texts as long as the file has room for, images, and places on
the map.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.types import FloatMatrix, IntVector

if TYPE_CHECKING:
    from nearworth.tables.dataset import Dataset

MOST_CELLS, MOST_FEATURES = 24, 64  # columns shown; more features than this say nothing to a person
LIMITS = (20_000, 10_000, 5_000, 2_000, 1_000, 500, 250, 120, 60)  # of characters in a cell
PROSE_LENGTH, PROSE_WORDS = 40, 6  # mean of a column of texts
FEW, MOSTLY = (
    20,
    0.5,
)  # from so many rows on, texts of which more than this share are distinct tell rows apart only
AMOUNT = re.compile(r"(?=.*[^\d.,' ])\s*\W?\s*\d[\d.,' ]*\s*\S{0,4}\s*$")  # $1,234.50, 45 %, 12 mg
LOOKED_AT = 2_000  # rows that tell what a column is like
PIXEL_BYTES = (
    3_000_000  # thumbnails of suspects first, then of their neighbours as far as this goes
)
FILE_BYTES, ALL_FILES_BYTES = 1_000_000, 30_000_000
KINDS = {
    rb"\x89PNG\r\n\x1a\n": "png",
    rb"\xff\xd8\xff": "jpeg",
    rb"GIF8[79]a": "gif",
    rb"RIFF....WEBP": "webp",
}
FIT_ROWS = 5_000  # rows that the principal components are fitted to
SIDE = 1_000  # places are whole numbers from 0 to this
COMPONENTS, NEAR = 15, 10
MOST_UNFOLDED = 4_000  # others lie between those that they are nearest to
ROUNDS, OTHERS, STEP = 200, 20, 2.0


class Cells:
    """The columns of the rows that are shown: those of the file, else the numbers that rows are
    compared by.
    """

    def __init__(self, rows: Dataset, n_rows: int) -> None:
        self._columns, self._X = rows.cells, None
        has_image = rows.image_shape is not None or rows.image_names is not None
        if (
            not rows.cells
            and rows.X is not None
            and not has_image
            and rows.X.shape[1] <= MOST_FEATURES
        ):
            names = rows.names or [f"feature {j}" for j in range(rows.X.shape[1])]
            self._columns, self._X = {name: j for j, name in enumerate(names)}, rows.X
        looked_at = (
            np.unique(np.linspace(0, n_rows - 1, LOOKED_AT).astype(np.intp))
            if n_rows
            else np.arange(0)
        )
        known = dict(zip(self._columns, self._take(list(self._columns), looked_at), strict=True))
        lengths = {name: prose_length(cells) for name, cells in known.items()}
        longest = max(lengths, key=lambda name: lengths[name], default=None)
        self.text = (
            longest if longest is not None and lengths[longest] else None
        )  # the column that is read as prose
        self.names = sorted(self._columns, key=lambda name: name != self.text)[
            :MOST_CELLS
        ]  # prose first
        self.omitted = len(self._columns) - len(self.names)
        self.scales = [deviation(known[name]) for name in self.names]

    def _take(self, names: list[str], rows: IntVector) -> list[list[Any]]:
        if self._X is None:
            return [take(self._columns[name], rows) for name in names]
        block = dense_rows(self._X, rows)
        return [block[:, self._columns[name]].tolist() for name in names]

    def of(self, rows: IntVector, room: int) -> tuple[list[list[str]], int]:
        """Cells of each row, cut where they would take more characters than there is room for; and
        what is left.
        """
        columns = [[cell_text(cell) for cell in column] for column in self._take(self.names, rows)]
        sizes = np.array([len(cell) + 3 for column in columns for cell in column], dtype=np.intp)
        limit = next(
            (limit for limit in LIMITS if np.minimum(sizes, limit).sum() <= room), LIMITS[-1]
        )
        cut = [
            [cell if len(cell) <= limit else f"{cell[:limit]}…" for cell in column]
            for column in columns
        ]
        return [list(cells) for cells in zip(*cut, strict=True)], room - int(
            np.minimum(sizes, limit).sum()
        )


def prose_length(cells: list[Any]) -> float:
    """Mean length of texts that people wrote, 0 for anything else."""
    texts = [cell for cell in cells if isinstance(cell, str)]
    if len(texts) < 0.5 * len(cells) or not texts:
        return 0.0
    length, words = (
        np.mean([len(text) for text in texts]),
        np.mean([len(text.split()) for text in texts]),
    )
    return float(length) if length >= PROSE_LENGTH and words >= PROSE_WORDS else 0.0


def deviation(cells: list[Any]) -> float | None:
    """Median distance from the median of a column of numbers; None for words, which differ or do
    not.

    -1 for texts that no two rows need share: nearly all distinct, or numbers with a unit.
    """
    numbers = [
        cell for cell in cells if isinstance(cell, int | float) and not isinstance(cell, bool)
    ]
    found = np.array(numbers, dtype=np.float64)
    found = found[np.isfinite(found)]
    if not len(found) or any(isinstance(cell, str | bool) for cell in cells):
        texts = [cell for cell in cells if isinstance(cell, str)]
        amounts = sum(map(bool, map(AMOUNT.match, texts))) > MOSTLY * max(len(texts), 1)
        return (
            -1.0
            if amounts or (len(cells) >= FEW and len(set(cells)) > MOSTLY * len(cells))
            else None
        )
    return float(f"{np.median(np.abs(found - np.median(found))):.4g}")


def cell_text(cell: Any) -> str:
    """A cell as text; nothing where it is missing.

    >>> [cell_text(cell) for cell in (1234567.0, 0.1 + 0.2, True, None, float("nan"), "x")]
    ['1234567', '0.3', 'True', '', '', 'x']
    """
    if isinstance(cell, float) and np.isfinite(cell) and not cell.is_integer():
        return f"{cell:.6g}" if abs(cell) < 1e5 else f"{cell:.1f}"
    return (
        id_text(cell).encode("utf-8", "replace").decode()
    )  # half a surrogate pair cannot be written to a file


def id_text(cell: Any) -> str:
    """A label or an id as text with all of its digits; empty where there is none.

    >>> id_text(20231234567.0), id_text(0.1), id_text("x"), id_text(None)
    ('20231234567', '0.1', 'x', '')
    """
    if cell is None or cell != cell:
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def take(column: Any, rows: IntVector) -> list[Any]:
    """The cells of some rows, with all of their digits: numpy would make floats of integers with
    gaps.
    """
    if hasattr(column, "to_pylist"):
        return list(column.take(rows).to_pylist())
    if isinstance(column, list | tuple):
        return [column[row] for row in rows.tolist()]
    return list(np.asarray(column)[rows].tolist())


def dense_rows(X: Any, rows: IntVector) -> FloatMatrix:
    part = X[rows]
    return np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)


def pixels(X: Any, shape: tuple[int, ...], rows: list[int]) -> dict[str, Any]:
    """Pixels as bytes, scaled from the least to the largest of the pixels shown."""
    wanted = rows[: max(PIXEL_BYTES // int(np.prod(shape)), 1)]
    values: FloatMatrix = np.asarray(X[np.array(wanted, dtype=np.intp)], dtype=np.float64)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    scaled = ((values - low) / (high - low or 1.0) * 255).round().astype(np.uint8)
    encoded = {
        str(row): base64.b64encode(line.tobytes()).decode()
        for row, line in zip(wanted, scaled, strict=True)
    }
    return {"images": encoded, "imageShape": list(shape)}


def image_files(folder: Path, names: dict[int, str], allowed: Path | None = None) -> dict[str, Any]:
    """Image files as data URLs, as many as fit; none that is no image, whatever its name, or is
    outside the folder.
    """
    found, room = {}, ALL_FILES_BYTES
    for row, name in names.items():
        content = _read(folder / name) if is_inside(folder / name, allowed or folder) else b""
        kind = next(
            (kind for magic, kind in KINDS.items() if re.match(magic, content, re.DOTALL)), None
        )
        if kind is not None and len(content) <= room:
            room -= len(content)
            found[str(row)] = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    return {"pictures": found}


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path, links followed, leads to something in the folder."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # a NUL in a name, links in a circle
        return False


def image_order(
    suspects: IntVector, near: list[list[int]], sample: Iterable[int] = ()
) -> list[int]:
    """Suspects first, then the sample, then the nearest of each, then the second nearest."""
    turns = (int(row) for group in zip_longest(*near) for row in group if row is not None)
    return list(dict.fromkeys([*suspects.tolist(), *map(int, sample), *turns]))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size <= FILE_BYTES else b""
    except (OSError, ValueError):
        return b""


def places(X: Any, rows: IntVector) -> list[list[int]]:
    """Where rows are drawn, x and y."""
    from sklearn.neighbors import NearestNeighbors

    points = project(X, rows, min(COMPONENTS, *X.shape))
    core = points[by_lot(np.arange(len(points)), MOST_UNFOLDED)]
    place = unfold(core)
    if len(core) < len(points):
        place = place[
            NearestNeighbors(n_neighbors=3).fit(core).kneighbors(points, return_distance=False)
        ].mean(axis=1)
    low, high = place.min(axis=0), place.max(axis=0)
    scaled = (place - low) / np.where(high > low, high - low, 1.0) * SIDE
    return [[int(x), int(y)] for x, y in scaled.round()]


def project(X: Any, rows: IntVector, n_components: int) -> FloatMatrix:
    """Principal components of some rows, fitted to a sample of all; missing values are means."""
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    sample = dense_rows(X, by_lot(np.arange(X.shape[0]), FIT_ROWS))
    pipeline = make_pipeline(
        SimpleImputer(keep_empty_features=True), PCA(n_components, random_state=0)
    )
    with np.errstate(invalid="ignore"):  # the share of no variance, if all rows are alike
        return np.asarray(pipeline.fit(sample).transform(dense_rows(X, rows)))


def unfold(points: FloatMatrix) -> FloatMatrix:
    """Places on a plane: each point is drawn to its nearest ones and pushed away from some others,
    in linear time.

    Forces fall with distance d as in t-SNE: d / (1 + d²) to the nearest, d / (1 + d²)² from others.
    """
    from sklearn.neighbors import NearestNeighbors

    n = len(points)
    place = (
        np.clip(points[:, :2] / (points[:, :2].std() or 1.0), -2.0, 2.0) * 5.0
    )  # the few far away come back
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
        place = place + step * (
            (total(start, pulls) - total(end, pulls)) / n_pulls[:, None] + pushes.sum(axis=1)
        )
    return np.asarray(place)


def by_lot(rows: IntVector, size: int, seed: int = 0) -> IntVector:
    """So many of the rows, each with the same chance, in their order; all of them if there are no
    more.
    """
    return (
        rows
        if len(rows) <= size
        else np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))
    )
