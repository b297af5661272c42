"""What is allowed but probably not meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

FEW_ROWS = 10  # so few distinct numbers may well follow each other by chance
MANY_CLASSES, FEW_PER_CLASS = 20, 5


def row_numbers(table: Any, names: list[str]) -> list[str]:
    """A warning for each column of whole numbers that are all different and leave no gap."""
    return [
        f"warning: column {name!r} looks like a row number and counts as a feature: --id {name!r} or --ignore {name!r}"
        for name in names
        if _counts_rows(table[name])
    ]


def many_classes(y: Any, task: str) -> list[str]:
    """A warning if classes look like amounts: many numbers, each in few rows. Fractions are refused elsewhere."""
    if task != "classification" or y.dtype.kind not in "iuf":
        return []
    n_distinct = len(np.unique(y))
    if n_distinct <= MANY_CLASSES or n_distinct * FEW_PER_CLASS <= len(y):
        return []
    return [
        f"warning: the target has {n_distinct:,} distinct numbers in {len(y):,} rows: did you mean --task regression?"
    ]


def _counts_rows(column: Any) -> bool:
    if not pa.types.is_integer(column.type) or column.null_count or len(column) < FEW_ROWS:
        return False
    values = column.to_numpy()
    if int(values.max()) - int(values.min()) != len(values) - 1:
        return False
    return len(np.unique(values)) == len(values)
