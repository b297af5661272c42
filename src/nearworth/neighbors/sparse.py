"""Distances between sparse rows from differences, without ever making them dense."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from nearworth._common.compile import compiled
from nearworth._common.types import FloatMatrix


def sparse_distances(queries: scipy.sparse.csr_array, points: scipy.sparse.csr_array, power: int) -> FloatMatrix:
    """Sums of |difference|^power over the columns, power 1 or 2: for each pair, in the order of the columns."""
    out = np.empty((queries.shape[0], points.shape[0]))
    q, x = queries, points
    _merge_rows(q.indptr, q.indices, q.data, x.indptr, x.indices, x.data, power, out)
    return out


@compiled
def _merge_rows(
    q_start: Any, q_column: Any, q_value: Any, x_start: Any, x_column: Any, x_value: Any, power: int, out: FloatMatrix
) -> None:
    for a in range(out.shape[0]):
        for b in range(out.shape[1]):
            i, i_end = q_start[a], q_start[a + 1]
            j, j_end = x_start[b], x_start[b + 1]
            total = 0.0
            while i < i_end or j < j_end:
                if j == j_end or (i < i_end and q_column[i] < x_column[j]):
                    difference = q_value[i]
                    i += 1
                elif i == i_end or x_column[j] < q_column[i]:
                    difference = x_value[j]
                    j += 1
                else:
                    difference = q_value[i] - x_value[j]
                    i += 1
                    j += 1
                total += difference * difference if power == 2 else abs(difference)
            out[a, b] = total
