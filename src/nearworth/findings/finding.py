"""One kind of finding, and words for numbers of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearworth._common.frames import make_frame
from nearworth._common.types import FloatVector, IntVector


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Finding:
    """What a scan found of one kind; `says` has it in words, with the threshold that it rests on."""

    rows: IntVector  # the row numbers found, the clearest first, or group by group
    scores: FloatVector  # of every row of the data (of validation rows, for leakage): higher is more of it
    says: str
    groups: list[IntVector] | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)  # more about the rows found, for `to_frame`

    def __len__(self) -> int:
        return len(self.rows)

    def to_frame(self, backend: str | None = None) -> Any:
        """One line per row found: row, score, group (where there are groups), and what else is known."""
        columns = {"row": self.rows, "score": self.scores[self.rows]}
        if self.groups is not None:
            columns["group"] = np.repeat(np.arange(len(self.groups)), [len(group) for group in self.groups])
        return make_frame({**columns, **self.columns}, backend)

    def __repr__(self) -> str:
        return self.says


def counted(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def joined(groups: list[IntVector]) -> IntVector:
    """The rows of all groups, group by group."""
    return np.concatenate([np.zeros(0, dtype=np.intp), *groups]).astype(np.intp)


def shares(values: FloatVector) -> FloatVector:
    """The share of each row in payments by value, nothing for values below 0."""
    paid = np.maximum(values, 0.0)
    return np.asarray(paid / max(float(paid.sum()), np.finfo(float).tiny))
