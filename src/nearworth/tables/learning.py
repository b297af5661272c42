"""From a training column to what it becomes, or a refusal with advice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from nearworth._common.types import FloatVector
from nearworth.tables.cells import as_text, floats, kind_of, refuse_infinite
from nearworth.tables.columns import Categories, Column, Embedding, Nothing, Numbers
from nearworth.tables.errors import InputError, listed, plural

LONG_TEXT = 40  # characters on average: a sentence, not a name
MOSTLY = 0.5
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def learn(name: str, column: Any, missing: str, max_categories: int, as_it_is: bool) -> Column:
    """Decide what a training column becomes, or refuse it with advice."""
    kind = kind_of(column)
    if kind in ("number", "truth", "date"):
        return _learn_numbers(name, column, kind, missing, as_it_is)
    if kind == "list":
        lengths = pc.drop_null(pc.list_value_length(column))
        return Embedding(name, int(lengths[0].as_py()) if len(lengths) else 0)
    if kind == "nothing":
        return Nothing(name, "every cell is empty")
    if kind != "text":
        raise InputError(f"column {name!r}: holds {kind}, which has no distance. Leave it out with --ignore {name!r}.")
    if as_it_is:
        raise InputError(f"column {name!r}: is text, but --features take numbers as they are.")
    return _learn_categories(name, column, max_categories)


def _learn_numbers(name: str, column: Any, kind: str, missing: str, as_it_is: bool) -> Column:
    values = floats(column, name, kind)
    empty = np.isnan(values)
    known = values[~empty] if empty.any() else values
    if not known.size:
        return Nothing(name, "every cell is empty")
    refuse_infinite(name, values)
    fill = float(np.median(known)) if missing == "median" and empty.any() else None
    if as_it_is:
        return Numbers(name, kind, 0.0, 1.0, fill)
    centre, scale = _moments(known)
    if scale == 0 and not empty.any():
        return Nothing(name, "the same in every row")
    return Numbers(name, kind, centre, scale or 1.0, fill)


def _moments(values: FloatVector) -> tuple[float, float]:
    """Mean and standard deviation, also where squares would overflow; 0 for equal values."""
    if values.min() == values.max():
        return float(values[0]), 0.0
    size = float(np.abs(values).max())
    scaled = values / size
    return float(scaled.mean() * size), float(scaled.std() * size)


def _learn_categories(name: str, column: Any, max_categories: int) -> Column:
    text = as_text(column)
    labels = sorted(pc.unique(text).to_pylist())
    if len(labels) == 1:
        return Nothing(name, "the same in every row" if labels[0] else "every cell is empty")
    if len(labels) > max_categories:
        raise InputError(_too_many(name, text, len(labels), max_categories))
    return Categories(name, tuple(labels), _odd_cells(text))


def _too_many(name: str, text: Any, n_distinct: int, max_categories: int) -> str:
    length = pc.mean(pc.utf8_length(text)).as_py()
    found = (
        f"column {name!r}: {n_distinct:,} distinct texts, more than the {max_categories} that may become 0/1 columns."
    )
    odd = _odd_cells(text)
    if odd:
        return f"{found} Most are numbers, but not {odd}: repair or empty these cells, or use --ignore {name!r}."
    if length > LONG_TEXT:
        return (
            f"{found} It looks like free text: embed it first and keep the list of numbers, or use --ignore {name!r}."
        )
    if n_distinct > 0.9 * len(text):
        return f"{found} It looks like a name for each row: use --id {name!r} or --ignore {name!r}."
    return f"{found} Use --ignore {name!r}, group rare ones, or raise --max-categories."


def _odd_cells(text: Any) -> str:
    """The cells that keep a column from being numbers, if they are few; empty ones do not."""
    numbers, empty = pc.match_substring_regex(text, NUMBER), pc.equal(text, "")
    if pc.mean(numbers).as_py() <= MOSTLY:
        return ""
    rows = np.flatnonzero(~pc.or_(numbers, empty).to_numpy())
    if not len(rows):
        return ""
    odd = listed(dict.fromkeys(text.take(rows[:100]).to_pylist()))
    return f"{odd} ({plural('row', rows)} {listed(rows.tolist())})"
