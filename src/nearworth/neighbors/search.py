"""Old names of what is in searchers.py and nearest.py, until nothing imports them."""

from __future__ import annotations

from nearworth._common.types import FloatMatrix, IntMatrix
from nearworth.neighbors.distances import sort_pairs
from nearworth.neighbors.exact import TrueDistances
from nearworth.neighbors.searchers import (
    MISSING,
    Searcher,
    check_answer,
    check_points,
    check_queries,
    check_share,
    generator,
    ordinary_scale,
    usable_threads,
)

Answer = tuple[IntMatrix, FloatMatrix]
__all__ = [
    "MISSING",
    "Answer",
    "Searcher",
    "TrueDistances",
    "check_answer",
    "check_points",
    "check_queries",
    "check_share",
    "generator",
    "ordinary_scale",
    "sort_pairs",
    "usable_threads",
]
