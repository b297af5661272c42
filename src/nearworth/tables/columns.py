"""What one column becomes. Each kind learns from training values and turns further ones into numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearworth._common.types import FloatMatrix
from nearworth.tables.cells import as_text, floats, is_number, missing_values, refuse_infinite
from nearworth.tables.errors import InputError


@dataclass(frozen=True)
class Numbers:
    """Numbers, dates (as days) and truth values (0 and 1), standardised unless they are parts of an embedding."""

    name: str
    kind: str
    centre: float
    scale: float
    fill: float | None
    width: int = 1

    def fill_matrix(self, column: Any, out: FloatMatrix) -> None:
        """Write the column into `out` (N, 1)."""
        values = floats(column, self.name, self.kind)
        missing = np.isnan(values)
        if missing.any():
            if self.fill is None:
                raise missing_values({self.name: missing})
            values[missing] = self.fill
        refuse_infinite(self.name, values)
        out[:, 0] = (values - self.centre) / self.scale

    def describe(self) -> str:
        """What is done, in words."""
        what = {"number": "number", "date": "date, as days", "truth": "true/false, as 1/0"}[self.kind]
        scaled = "used as it is" if self.scale == 1 and self.centre == 0 else "standardised"
        filled = "" if self.fill is None else f", missing filled with the median {self.fill:.6g}"
        return f"{what}, {scaled}{filled}"

    def names(self) -> list[str]:
        """Names of the columns made."""
        return [self.name]


@dataclass(frozen=True)
class Categories:
    """Text from a short list: a column of 0 and 1 for each."""

    name: str
    labels: tuple[str, ...]
    odd: str = ""  # the cells without which this would be a column of numbers
    kind: str = "text"

    @property
    def width(self) -> int:
        """How many columns are made."""
        return len(self.labels)

    def fill_matrix(self, column: Any, out: FloatMatrix) -> None:
        """Write the column into `out` (N, width); categories never seen are zero everywhere."""
        out[:] = 0.0
        found = pc.index_in(as_text(column), value_set=pa.array(self.labels, pa.string()))
        codes = pc.fill_null(found, -1).to_numpy()
        rows = np.flatnonzero(codes >= 0)
        out[rows, codes[rows]] = 1.0

    def unseen(self, column: Any) -> list[str]:
        """Categories that training did not have."""
        return sorted(set(pc.unique(as_text(column)).to_pylist()) - set(self.labels))

    def describe(self) -> str:
        """What is done, in words."""
        among = " (missing is one of them)" if "" in self.labels else ""
        doubt = f"; most are numbers, but not {self.odd}: repair or empty these cells" if self.odd else ""
        return f"{self.width} categories{among}, one 0/1 column each{doubt}"

    def names(self) -> list[str]:
        """Names of the columns made."""
        return [f"{self.name}={label}" for label in self.labels]


@dataclass(frozen=True)
class Embedding:
    """A list of numbers in each cell, used as it is."""

    name: str
    width: int
    kind: str = "list"

    def fill_matrix(self, column: Any, out: FloatMatrix) -> None:
        """Write the lists into `out` (N, width)."""
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(lengths != self.width)
        if wrong.size:
            got = "nothing" if lengths[wrong[0]] != lengths[wrong[0]] else f"{int(lengths[wrong[0]])} numbers"
            raise InputError(
                f"column {self.name!r}: row {wrong[0]} holds {got} where others hold {self.width}. "
                "Lists must be equally long; drop or repair the row."
            )
        flat = pc.list_flatten(array)
        if not is_number(flat.type):
            raise InputError(
                f"column {self.name!r}: holds lists of {flat.type}; only lists of numbers can be compared."
            )
        values = np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64)
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values))) // self.width
            raise InputError(f"column {self.name!r}: the list in row {row} holds a missing or infinite number.")
        out[:] = values.reshape(-1, self.width)

    def describe(self) -> str:
        """What is done, in words."""
        return f"embedding of {self.width} numbers, used as it is"

    def names(self) -> list[str]:
        """Names of the columns made."""
        return [f"{self.name}[{part}]" for part in range(self.width)]


@dataclass(frozen=True)
class Nothing:
    """A column that says nothing about distances."""

    name: str
    why: str
    width: int = 0
    kind: str = "any"

    def fill_matrix(self, column: Any, out: FloatMatrix) -> None:
        """Nothing to write."""

    def describe(self) -> str:
        """Why it is left out."""
        return f"left out: {self.why}"

    def names(self) -> list[str]:
        """No columns are made."""
        return []


Column = Numbers | Categories | Embedding | Nothing
