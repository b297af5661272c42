"""Rows as they are shown: cells as texts as long as the file has room for, images, and places on
the map.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.types import FloatMatrix, IntVector

if TYPE_CHECKING:
    from nearworth.tables.dataset import Dataset

# Columns that are shown.
MAX_COLUMNS = 24
# More features than this, without columns of a file, mean nothing to a person.
MAX_FEATURES = 64
# Cells are cut to the first of these lengths for which all of them have room.
CELL_LENGTHS = (20_000, 10_000, 5_000, 2_000, 1_000, 500, 250, 120, 60)
# A column is read as prose if its texts have these mean sizes.
MIN_PROSE_CHARACTERS = 40
MIN_PROSE_WORDS = 6
# From so many rows on, texts only tell rows apart if a majority is distinct.
MIN_DISTINCT_CELLS = 20
MAJORITY = 0.5
AMOUNT = re.compile(r"(?=.*[^\d.,' ])\s*\W?\s*\d[\d.,' ]*\s*\S{0,4}\s*$")  # $1,234.50, 45 %, 12 mg
# Rows that a column's kind is told from.
N_PROBED_ROWS = 2_000
# Thumbnails of suspects come first, then those of their neighbors as far as this goes.
PIXEL_BYTES = 3_000_000
FILE_BYTES = 1_000_000
ALL_FILES_BYTES = 30_000_000
IMAGE_KINDS = {
    rb"\x89PNG\r\n\x1a\n": "png",
    rb"\xff\xd8\xff": "jpeg",
    rb"GIF8[79]a": "gif",
    rb"RIFF....WEBP": "webp",
}
# Rows that the principal components are fitted to.
N_FIT_ROWS = 5_000
MAX_COMPONENTS = 15
# Places on the map are whole numbers from 0 to this.
SIDE = 1_000
# Rows that are unfolded. The others lie between those that they are nearest to.
MAX_UNFOLDED = 4_000
N_PULLING = 10
N_PUSHING = 20
N_UNFOLD_STEPS = 200
FIRST_STEP_SIZE = 2.0


@dataclass(frozen=True)
class ShownOrder:
    """The file rows that are shown, in the order in which they get room for cells and images.

    Attributes
    ----------
    listed : array of file rows
    more : array of file rows
        The others: the sample, then the neighbors.
    n_first : int
        How many of `more` are the sample or the nearest neighbor of a row.
    """

    listed: IntVector
    more: IntVector
    n_first: int

    @classmethod
    def make(
        cls, listed: IntVector, neighbors: list[list[int]], sample: Sequence[int]
    ) -> ShownOrder:
        """From the listed rows, the neighbors of each shown row, nearest first, and the sample."""
        nearest = [group[:1] for group in neighbors]
        n_listed = len(listed)
        order = image_order(listed, neighbors, sample)
        n_first = len(image_order(listed, nearest, sample)) - n_listed
        return cls(listed, np.array(order[n_listed:], dtype=np.intp), n_first)

    @property
    def all(self) -> list[int]:
        return [*self.listed.tolist(), *self.more.tolist()]


class Cells:
    """The columns of the rows that are shown: those of the file, else the numbers that rows are
    compared by.

    Attributes
    ----------
    names : list of str
        The columns that are shown, the text first.
    text : str or None
        The column that is read as prose.
    omitted : int
        How many columns are not shown.
    scales : list
        The `deviation` of each column.
    """

    def __init__(self, rows: Dataset, n_rows: int) -> None:
        self._columns = rows.cells
        self._X = None
        if not rows.cells and has_readable_features(rows):
            names = rows.names or [f"feature {column}" for column in range(rows.X.shape[1])]
            self._columns = {name: column for column, name in enumerate(names)}
            self._X = rows.X

        probed_rows = np.arange(0)
        if n_rows:
            probed_rows = np.unique(np.linspace(0, n_rows - 1, N_PROBED_ROWS).astype(np.intp))
        all_names = list(self._columns)
        probes = dict(zip(all_names, self._take(all_names, probed_rows), strict=True))
        self.text = longest_prose(probes)
        self.names = sorted(all_names, key=lambda name: name != self.text)[:MAX_COLUMNS]
        self.omitted = len(all_names) - len(self.names)
        self.scales = [deviation(probes[name]) for name in self.names]

    def _take(self, names: list[str], rows: IntVector) -> list[list[Any]]:
        """The cells of some rows, column by column."""
        if self._X is None:
            return [take(self._columns[name], rows) for name in names]
        features = dense_rows(self._X, rows)
        return [features[:, self._columns[name]].tolist() for name in names]

    def of(self, rows: IntVector, room: int) -> tuple[list[list[str]], int]:
        """Cells of each row, cut where they would take more characters than there is room for; and
        what is left.
        """
        columns = [[cell_text(cell) for cell in column] for column in self._take(self.names, rows)]
        # Quotation marks and a comma surround each cell in JSON.
        sizes = np.array([len(cell) + 3 for column in columns for cell in column], dtype=np.intp)
        max_length = longest_that_fits(sizes, room)
        cut = [[shortened(cell, max_length) for cell in column] for column in columns]
        n_characters = int(np.minimum(sizes, max_length).sum())
        return [list(cells) for cells in zip(*cut, strict=True)], room - n_characters


def has_readable_features(rows: Dataset) -> bool:
    """Whether the features of rows mean something to a person: few numbers that are no pixels."""
    has_image = rows.image_shape is not None or rows.image_names is not None
    return rows.X is not None and not has_image and rows.X.shape[1] <= MAX_FEATURES


def longest_that_fits(sizes: IntVector, room: int) -> int:
    """The largest length for which cells of these sizes have room together, or the least one."""
    fits = (length for length in CELL_LENGTHS if np.minimum(sizes, length).sum() <= room)
    return next(fits, CELL_LENGTHS[-1])


def shortened(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[:max_length]}…"


def longest_prose(columns: Mapping[str, list[Any]]) -> str | None:
    """The name of the column with the longest prose; None if there is none."""
    lengths = {name: prose_length(cells) for name, cells in columns.items()}
    longest = max(lengths, key=lambda name: lengths[name], default=None)
    if longest is None or not lengths[longest]:
        return None
    return longest


def prose_length(cells: list[Any]) -> float:
    """Mean length of texts that people wrote, 0 for anything else."""
    texts = [cell for cell in cells if isinstance(cell, str)]
    if len(texts) < MAJORITY * len(cells) or not texts:
        return 0.0
    mean_length = np.mean([len(text) for text in texts])
    mean_words = np.mean([len(text.split()) for text in texts])
    is_prose = mean_length >= MIN_PROSE_CHARACTERS and mean_words >= MIN_PROSE_WORDS
    return float(mean_length) if is_prose else 0.0


def deviation(cells: list[Any]) -> float | None:
    """Median distance from the median of a column of numbers; None for words, which differ or do
    not.

    -1 for texts that no two rows need share: nearly all distinct, or numbers with a unit.
    """
    numbers = [
        cell for cell in cells if isinstance(cell, int | float) and not isinstance(cell, bool)
    ]
    values = np.array(numbers, dtype=np.float64)
    values = values[np.isfinite(values)]
    has_words = any(isinstance(cell, str | bool) for cell in cells)
    if has_words or not len(values):
        return -1.0 if tells_rows_apart(cells) else None
    return float(f"{np.median(np.abs(values - np.median(values))):.4g}")


def tells_rows_apart(cells: list[Any]) -> bool:
    """Whether a column has names or amounts, of which no two rows need share one."""
    texts = [cell for cell in cells if isinstance(cell, str)]
    n_amounts = sum(AMOUNT.match(text) is not None for text in texts)
    if n_amounts > MAJORITY * max(len(texts), 1):
        return True
    is_long = len(cells) >= MIN_DISTINCT_CELLS
    return is_long and len(set(cells)) > MAJORITY * len(cells)


def cell_text(cell: Any) -> str:
    """A cell as text; nothing where it is missing.

    >>> [cell_text(cell) for cell in (1234567.0, 0.1 + 0.2, True, None, float("nan"), "x")]
    ['1234567', '0.3', 'True', '', '', 'x']
    """
    if isinstance(cell, float) and np.isfinite(cell) and not cell.is_integer():
        return f"{cell:.6g}" if abs(cell) < 1e5 else f"{cell:.1f}"
    # Half a surrogate pair cannot be written to a file.
    return id_text(cell).encode("utf-8", "replace").decode()


def id_text(cell: Any) -> str:
    """A label or an id as text with all of its digits; empty where there is none.

    >>> id_text(20231234567.0), id_text(0.1), id_text("x"), id_text(None)
    ('20231234567', '0.1', 'x', '')
    """
    is_nan = cell != cell
    if cell is None or is_nan:
        return ""
    is_whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell)) if is_whole else str(cell)


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
    features = X[rows]
    if hasattr(features, "toarray"):
        features = features.toarray()
    return np.asarray(features, dtype=np.float64)


def pixels(X: Any, shape: tuple[int, ...], rows: list[int]) -> dict[str, Any]:
    """Pixels as bytes, scaled from the least to the largest of the pixels shown."""
    n_images = max(PIXEL_BYTES // int(np.prod(shape)), 1)
    image_rows = rows[:n_images]
    values: FloatMatrix = np.asarray(X[np.array(image_rows, dtype=np.intp)], dtype=np.float64)
    low = float(values.min()) if values.size else 0.0
    high = float(values.max()) if values.size else 1.0
    scaled = ((values - low) / (high - low or 1.0) * 255).round().astype(np.uint8)
    images = {
        str(row): base64.b64encode(image.tobytes()).decode()
        for row, image in zip(image_rows, scaled, strict=True)
    }
    return {"images": images, "imageShape": list(shape)}


def image_files(folder: Path, names: dict[int, str], allowed: Path | None = None) -> dict[str, Any]:
    """Image files as data URLs for the page, as many as there is room for.

    Parameters
    ----------
    folder : Path
        Names are relative to it.
    names : dict
        The file name of each row, the most important row first.
    allowed : Path, optional
        The folder that files must be in, by default `folder`. It may be a wider one.

    Files outside of it are left out, and so are files whose content is not that of an image.
    """
    urls = {}
    room = ALL_FILES_BYTES
    for row, name in names.items():
        path = folder / name
        content = _read(path) if is_inside(path, allowed or folder) else b""
        kind = image_kind(content)
        if kind is None or len(content) > room:
            continue
        room -= len(content)
        urls[str(row)] = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    return {"pictures": urls}


def image_kind(content: bytes) -> str | None:
    """The kind of an image file by its first bytes; None for anything else."""
    for magic, kind in IMAGE_KINDS.items():
        if re.match(magic, content, re.DOTALL):
            return kind
    return None


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path, links followed, leads to something in the folder."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        # A NUL in a name, links in a circle.
        return False


def image_order(
    suspects: IntVector, near: list[list[int]], sample: Iterable[int] = ()
) -> list[int]:
    """Suspects first, then the sample, then the nearest of each, then the second nearest."""
    neighbors = (int(row) for turn in zip_longest(*near) for row in turn if row is not None)
    return list(dict.fromkeys([*suspects.tolist(), *map(int, sample), *neighbors]))


def _read(path: Path) -> bytes:
    """A file; nothing if it cannot be read or is too large."""
    try:
        is_small_file = path.is_file() and path.stat().st_size <= FILE_BYTES
        return path.read_bytes() if is_small_file else b""
    except (OSError, ValueError):
        return b""


def places(X: Any, rows: IntVector) -> list[list[int]]:
    """Where rows are drawn, x and y."""
    from sklearn.neighbors import NearestNeighbors

    points = project(X, rows, min(MAX_COMPONENTS, *X.shape))
    core = points[by_lot(np.arange(len(points)), MAX_UNFOLDED)]
    place = unfold(core)
    if len(core) < len(points):
        search = NearestNeighbors(n_neighbors=3).fit(core)
        place = place[search.kneighbors(points, return_distance=False)].mean(axis=1)
    low = place.min(axis=0)
    high = place.max(axis=0)
    scaled = (place - low) / np.where(high > low, high - low, 1.0) * SIDE
    return [[int(x), int(y)] for x, y in scaled.round()]


def project(X: Any, rows: IntVector, n_components: int) -> FloatMatrix:
    """Principal components of some rows, fitted to a sample of all; missing values are means."""
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    sample = dense_rows(X, by_lot(np.arange(X.shape[0]), N_FIT_ROWS))
    pipeline = make_pipeline(
        SimpleImputer(keep_empty_features=True), PCA(n_components, random_state=0)
    )
    # If all rows are equal, the shares of variance are 0 / 0.
    with np.errstate(invalid="ignore"):
        return np.asarray(pipeline.fit(sample).transform(dense_rows(X, rows)))


def unfold(points: FloatMatrix) -> FloatMatrix:
    """Places on a plane, shape (n, 2), for points of shape (n, n components).

    Each point is drawn to its nearest ones and pushed away from some random others, in linear time.
    Forces fall with distance d as in t-SNE: d / (1 + d²) to the nearest, d / (1 + d²)² from others.
    """
    from sklearn.neighbors import NearestNeighbors

    n = len(points)
    # The few points far away start at the edge of the others.
    spread = points[:, :2].std() or 1.0
    place = np.clip(points[:, :2] / spread, -2.0, 2.0) * 5.0
    if n <= N_PULLING:
        return np.asarray(place)

    search = NearestNeighbors(n_neighbors=N_PULLING).fit(points)
    end = search.kneighbors(return_distance=False).ravel()
    start = np.repeat(np.arange(n), N_PULLING)
    # A pull moves both of its ends.
    n_pulls = np.bincount(end, minlength=n) + N_PULLING
    rng = np.random.default_rng(0)
    for step_size in np.linspace(FIRST_STEP_SIZE, 0.0, N_UNFOLD_STEPS):
        gaps = place[end] - place[start]
        pulls = gaps / (1.0 + (gaps**2).sum(axis=1, keepdims=True))
        away = place[:, None] - place[rng.integers(0, n, (n, N_PUSHING))]
        squares = (away**2).sum(axis=2, keepdims=True)
        # The 0.1 keeps pushes between equal places finite.
        pushes = away / ((0.1 + squares) * (1.0 + squares))
        pulled = sum_by_point(start, pulls, n) - sum_by_point(end, pulls, n)
        place = place + step_size * (pulled / n_pulls[:, None] + pushes.sum(axis=1))
    return np.asarray(place)


def sum_by_point(points: IntVector, forces: FloatMatrix, n: int) -> FloatMatrix:
    """The sum of the forces on each of n points, shape (n, 2); `points` has one for each force."""
    x = np.bincount(points, forces[:, 0], n)
    y = np.bincount(points, forces[:, 1], n)
    return np.column_stack([x, y])


def by_lot(rows: IntVector, size: int, seed: int = 0) -> IntVector:
    """So many of the rows, each with the same chance, in their order; all of them if there are no
    more.
    """
    if len(rows) <= size:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))
