"""Values by owner, for people who pay for data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nearworth._common.frames import html_table, make_frame
from nearworth._common.types import FloatMatrix, FloatVector, IntVector


class OwnerValue(NamedTuple):
    """What one owner's rows are worth together.

    `standard_error` is that of the total over the validation sample (covariances between rows included),
    NaN when it is not known; `share` is the part of the value of all rows. The total certainly lies between `lower` and
    `upper`, and equals both where values are exact.
    """

    total: float
    standard_error: float
    share: float
    n_rows: int
    lower: float
    upper: float


class OwnerValues(dict[Any, OwnerValue]):
    """Owner -> OwnerValue, in order of first appearance; prints as a table."""

    def __init__(self, rows: Mapping[Any, OwnerValue], backend: str | None = None) -> None:
        super().__init__(rows)
        self._backend = backend

    def to_frame(self, backend: str | None = None) -> Any:
        """A pandas, polars or pyarrow frame with one row per owner."""
        columns: dict[str, list[Any]] = {"owner": list(self)}
        for field in OwnerValue._fields[: None if self._inexact else -2]:
            columns[field] = [getattr(row, field) for row in self.values()]
        return make_frame(columns, backend, self._backend)

    @property
    def _inexact(self) -> bool:
        return any(row.lower < row.upper for row in self.values())

    def _repr_html_(self) -> str:
        rows = [
            (o, f"{v.n_rows:,}", f"{v.total:.6g}", f"{v.standard_error:.2g}", f"{v.share:.1%}") for o, v in self.items()
        ]
        return html_table(rows, ("owner", "rows", "total", "std. error", "share"))

    def __repr__(self) -> str:
        width = max(5, *(len(str(owner)) for owner in self))
        lines = [f"{'owner':<{width}}  {'rows':>8}  {'total':>12}  {'std. error':>10}  {'share':>7}"]
        for owner, row in self.items():
            lines.append(
                f"{owner!s:<{width}}  {row.n_rows:>8,}  {row.total:>12.6g}"
                f"  {row.standard_error:>10.2g}  {row.share:>7.1%}"
            )
        if self._inexact:
            lines.append("Values are not exact: totals lie between `lower` and `upper` of each owner.")
        return "\n".join(lines)


def sum_by_owner(
    labels: Sequence[Any], codes: IntVector, intervals: FloatMatrix, errors: FloatVector, backend: str | None = None
) -> OwnerValues:
    """Totals of rows whose owner is labels[codes[row]].

    `intervals` (3, N) holds the value of each row, its lower and its upper end; `errors` are those of the totals.
    """
    totals, lower, upper = (np.bincount(codes, weights=row, minlength=len(labels)) for row in intervals)
    overall = intervals[0].sum()
    shares = totals / overall if overall != 0 else np.full(len(labels), np.nan)
    columns = (totals, errors, shares, np.bincount(codes, minlength=len(labels)), lower, upper)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return OwnerValues({label: OwnerValue(*row) for label, row in zip(labels, rows, strict=True)}, backend)
