"""Cells as people read them: numbers without a tail of digits, and texts as long as the file has room for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.types import FloatMatrix, IntVector

if TYPE_CHECKING:
    from nearworth.report.content import Rows

MOST_CELLS, MOST_FEATURES = 24, 64  # columns shown; more features than this say nothing to a person
LIMITS = (20_000, 10_000, 5_000, 2_000, 1_000, 500, 250, 120, 60)  # of characters in a cell
PROSE_LENGTH, PROSE_WORDS = 40, 6  # mean of a column of texts
FEW, MOSTLY = 20, 0.5  # from so many rows on, texts of which more than this share are distinct tell rows apart only
AMOUNT = re.compile(r"(?=.*[^\d.,' ])\s*\W?\s*\d[\d.,' ]*\s*\S{0,4}\s*$")  # $1,234.50, 45 %, 12 mg
LOOKED_AT = 2_000  # rows that tell what a column is like


class Cells:
    """The columns of the rows that are shown: those of the file, else the numbers that rows are compared by."""

    def __init__(self, rows: Rows, n_rows: int) -> None:
        self._columns, self._X = rows.cells, None
        if not rows.cells and rows.X is not None and not has_images(rows) and rows.X.shape[1] <= MOST_FEATURES:
            names = rows.names or [f"feature {j}" for j in range(rows.X.shape[1])]
            self._columns, self._X = {name: j for j, name in enumerate(names)}, rows.X
        looked_at = np.unique(np.linspace(0, n_rows - 1, LOOKED_AT).astype(np.intp)) if n_rows else np.arange(0)
        known = dict(zip(self._columns, self._take(list(self._columns), looked_at), strict=True))
        lengths = {name: prose_length(cells) for name, cells in known.items()}
        longest = max(lengths, key=lambda name: lengths[name], default=None)
        self.text = longest if longest is not None and lengths[longest] else None  # the column that is read as prose
        names = [name for name in self._columns if name != self.text][: MOST_CELLS - (self.text is not None)]
        self.names = names if self.text is None else [self.text, *names]
        self.omitted = len(self._columns) - len(self.names)
        self.scales = [deviation(known[name]) for name in self.names]

    def _take(self, names: list[str], rows: IntVector) -> list[list[Any]]:
        if self._X is None:
            return [take(self._columns[name], rows) for name in names]
        block = dense_rows(self._X, rows)
        return [block[:, self._columns[name]].tolist() for name in names]

    def of(self, rows: IntVector, room: int) -> tuple[list[list[str]], int]:
        """Cells of each row, cut where they would take more characters than there is room for; and what is left."""
        columns = [[cell_text(cell) for cell in column] for column in self._take(self.names, rows)]
        sizes = np.array([len(cell) + 3 for column in columns for cell in column], dtype=np.intp)
        limit = next((limit for limit in LIMITS if np.minimum(sizes, limit).sum() <= room), LIMITS[-1])
        cut = [[cell if len(cell) <= limit else f"{cell[:limit]}…" for cell in column] for column in columns]
        return [list(cells) for cells in zip(*cut, strict=True)], room - int(np.minimum(sizes, limit).sum())


def has_images(rows: Rows) -> bool:
    return rows.image_shape is not None or rows.image_names is not None


def prose_length(cells: list[Any]) -> float:
    """Mean length of texts that people wrote, 0 for anything else."""
    texts = [cell for cell in cells if isinstance(cell, str)]
    if len(texts) < 0.5 * len(cells) or not texts:
        return 0.0
    length, words = np.mean([len(text) for text in texts]), np.mean([len(text.split()) for text in texts])
    return float(length) if length >= PROSE_LENGTH and words >= PROSE_WORDS else 0.0


def deviation(cells: list[Any]) -> float | None:
    """Median distance from the median of a column of numbers; None for words, which differ or do not.

    -1 for texts that no two rows need share: nearly all distinct, or numbers with a unit.
    """
    numbers = [cell for cell in cells if isinstance(cell, int | float) and not isinstance(cell, bool)]
    found = np.array(numbers, dtype=np.float64)
    found = found[np.isfinite(found)]
    if not len(found) or any(isinstance(cell, str | bool) for cell in cells):
        texts = [cell for cell in cells if isinstance(cell, str)]
        amounts = sum(map(bool, map(AMOUNT.match, texts))) > MOSTLY * max(len(texts), 1)
        return -1.0 if amounts or (len(cells) >= FEW and len(set(cells)) > MOSTLY * len(cells)) else None
    return float(f"{np.median(np.abs(found - np.median(found))):.4g}")


def cell_text(cell: Any) -> str:
    """A cell as text; nothing where it is missing.

    >>> [cell_text(cell) for cell in (1234567.0, 0.1 + 0.2, True, None, float("nan"), "x")]
    ['1234567', '0.3', 'True', '', '', 'x']
    """
    if isinstance(cell, float) and np.isfinite(cell) and not cell.is_integer():
        return f"{cell:.6g}" if abs(cell) < 1e5 else f"{cell:.1f}"
    return id_text(cell).encode("utf-8", "replace").decode()  # half a surrogate pair cannot be written to a file


def id_text(cell: Any) -> str:
    """A label or an id as text with all of its digits; empty where there is none.

    >>> id_text(20231234567.0), id_text(0.1), id_text("x"), id_text(None)
    ('20231234567', '0.1', 'x', '')
    """
    if cell is None or cell != cell:
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def take(column: Any, rows: IntVector) -> list[Any]:
    return list(column.take(rows).to_pylist() if hasattr(column, "to_pylist") else np.asarray(column)[rows].tolist())


def dense_rows(X: Any, rows: IntVector) -> FloatMatrix:
    part = X[rows]
    return np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)
