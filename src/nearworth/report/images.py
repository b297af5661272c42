"""Images for the page: pixels of rows, or files that a column names."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from nearworth._common.types import FloatMatrix, IntVector

PIXEL_BYTES = 3_000_000  # thumbnails of suspects first, then of their neighbours as far as this goes
FILE_BYTES, ALL_FILES_BYTES = 1_000_000, 30_000_000
KINDS = {rb"\x89PNG\r\n\x1a\n": "png", rb"\xff\xd8\xff": "jpeg", rb"GIF8[79]a": "gif", rb"RIFF....WEBP": "webp"}


def pixels(X: Any, shape: tuple[int, ...], rows: list[int]) -> dict[str, Any]:
    """Pixels as bytes, scaled from the least to the largest of the pixels shown."""
    wanted = rows[: max(PIXEL_BYTES // int(np.prod(shape)), 1)]
    values: FloatMatrix = np.asarray(X[np.array(wanted, dtype=np.intp)], dtype=np.float64)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    scaled = ((values - low) / (high - low or 1.0) * 255).round().astype(np.uint8)
    encoded = {str(row): base64.b64encode(line.tobytes()).decode() for row, line in zip(wanted, scaled, strict=True)}
    return {"images": encoded, "imageShape": list(shape)}


def image_files(folder: Path, names: dict[int, str], allowed: Path | None = None) -> dict[str, Any]:
    """Image files as data URLs, as many as fit. A file that is no image is skipped, whatever its name says.

    So is one outside the folder, or of the one allowed instead, wherever `..` and links lead to.
    """
    found, room = {}, ALL_FILES_BYTES
    for row, name in names.items():
        content = _read(folder / name) if is_inside(folder / name, allowed or folder) else b""
        kind = next((kind for magic, kind in KINDS.items() if re.match(magic, content, re.DOTALL)), None)
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


def image_order(suspects: IntVector, near: list[list[int]], sample: Iterable[int] = ()) -> list[int]:
    """Suspects first, then the sample, then the nearest of each, then the second nearest."""
    turns = (int(row) for group in zip_longest(*near) for row in group if row is not None)
    return list(dict.fromkeys([*suspects.tolist(), *map(int, sample), *turns]))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size <= FILE_BYTES else b""
    except (OSError, ValueError):
        return b""
