"""What the paper's Theorem 4 says about hash tables for given data, corrected, and where it says nothing.

For a query with its K*-th neighbour at a chance p1 of one collision and the next point at p2, the theorem takes
M = ln N / ln(1/p2) hashes, so that about one far point collides per table, and L = N^c ln(K*/delta) tables with
c = ln p1 / ln p2. For all queries at once it takes the largest p2 for M and the largest c for L. That is not enough: a
sparse query has p1^M = N^(-ln p1 / ln pmax), so the exponent must be ln(min p1) / ln(max p2), which may exceed 1. Nor
does it bound the candidates well: K* neighbours are found once, not once per table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearworth._common.types import FloatVector
from nearworth.neighbors.hashing import collision_probability


@dataclass(frozen=True)
class Theory:
    """Theorem 4's quantities for sampled queries; prints itself, with a warning where it promises nothing useful."""

    n_train: int
    k: int
    delta: float
    n_queries: int
    width: float
    p1: float  # the smallest over the queries
    p2: float  # the median over the queries
    pmax: float  # the largest p2
    c: float  # as printed
    c_unif: float  # as it must be for all queries at once
    n_hashes: float
    n_tables: float  # enough for every query, from the smallest p1
    n_tables_printed: float  # N^c ln(queries K* / delta)
    candidates: float  # expected per query at most, each counted once

    @property
    def warning(self) -> str | None:
        """Why the theorem is of no use here; None where it is."""
        if not math.isfinite(self.n_hashes):
            return "the point after the K*-th neighbour always collides, so no number of hashes keeps it away"
        if self.c_unif > 1:
            return (
                f"the exponent {self.c_unif:.2f} for all queries at once exceeds 1: worse than looking at every point"
            )
        if self.n_tables >= self.n_train:
            return f"{self.n_tables:.3g} tables are more than the {self.n_train:,} points they would hold"
        if self.candidates >= 0.5 * self.n_train:
            return f"{self.candidates:.3g} candidates per query are at least half of the {self.n_train:,} points"
        return None

    def __str__(self) -> str:
        lines = [
            f"Theorem 4 for K* = {self.k}, width {self.width:.4g}, delta {self.delta:g}, {self.n_queries:,} queries",
            f"  p1 {self.p1:.4f} (smallest), p2 {self.p2:.4f} (median), pmax {self.pmax:.4f}",
            f"  c {self.c:.4f} as printed, {self.c_unif:.4f} for all queries at once",
            f"  hashes {self.n_hashes:.0f}, tables {self.n_tables:.3g} (printed: {self.n_tables_printed:.3g})",
            f"  candidates per query at most {self.candidates:.3g} of {self.n_train:,}",
        ]
        return "\n".join([*lines, f"  vacuous: {self.warning}"] if self.warning else lines)


def theorem_4(
    kth: FloatVector, following: FloatVector, n_train: int, k: int, *, width: float, delta: float, n_queries: int
) -> Theory:
    """The quantities from distances of sampled queries to their K*-th neighbour and to the point after it."""
    p1, p2 = collision_probability(kth, width), collision_probability(following, width)
    pmin, pmax = float(p1.min()), float(p2.max())
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(p1) / np.log(p2)
    c = float(np.where(p1 >= 1.0, 0.0, ratios).max())  # a neighbour that always collides is no trouble
    hard = math.log(max(n_queries * k / delta, 1.0))
    n_hashes = math.inf if pmax >= 1.0 else math.ceil(math.log(n_train) / -math.log(pmax)) if n_train > 1 else 1
    found = pmin**n_hashes if pmin < 1.0 else 1.0
    n_tables = 1.0 if found >= 1.0 else math.ceil(hard / -math.log1p(-found)) if found > 0.0 else math.inf
    far = n_tables * pmax**n_hashes if math.isfinite(n_tables) else 1.0
    return Theory(
        n_train=n_train,
        k=k,
        delta=delta,
        n_queries=n_queries,
        width=width,
        p1=pmin,
        p2=float(np.median(p2)),
        pmax=pmax,
        c=c,
        c_unif=0.0 if pmin >= 1.0 else math.inf if pmax >= 1.0 else math.log(pmin) / math.log(pmax),
        n_hashes=n_hashes,
        n_tables=n_tables,
        n_tables_printed=float(n_train) ** c * hard,
        candidates=min(float(n_train), k + (n_train - k) * min(far, 1.0)),
    )
