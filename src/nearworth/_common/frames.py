"""Result tables as frames of pandas, polars or pyarrow, and as HTML for notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from nearworth._common.text import one_line

BACKENDS = ("pandas", "polars", "pyarrow")

# An attribute of each cell, because notebooks align cells to the right.
ALIGN_LEFT = " style='text-align:left'"


def make_frame(
    columns: Mapping[str, Any], backend: str | None, preferred: str | None = None, index: Any = None
) -> Any:
    """A frame with these columns.

    Parameters
    ----------
    columns : mapping
        Arrays by name.
    backend : {"pandas", "polars", "pyarrow"} or None
        The library of the frame. None stands for `preferred`, or else for the first of these that
        is installed.
    preferred : str, optional
        The library that the user's own data came from.
    index : pandas index, optional
        Set where the frame is one of pandas.
    """
    import narwhals.stable.v2 as nwl

    if backend is None:
        candidates = (preferred, *BACKENDS)
        backend = next(name for name in candidates if name in BACKENDS and find_spec(name))
    elif backend not in BACKENDS:
        raise ValueError(
            f"backend={backend!r} is not known. Use one of {', '.join(map(repr, BACKENDS))}."
        )
    frame = nwl.from_dict(columns, backend=cast("Any", backend)).to_native()
    if index is None or backend != "pandas":
        return frame
    return frame.set_axis(index, axis="index")


def index_to_bytes(index: Any) -> dict[str, npt.NDArray[np.uint8]]:
    """The index of a pandas frame as an array of an archive, by its name.

    The result is empty if there is no index, or Arrow cannot represent it.
    """
    if index is None:
        return {}
    from pyarrow import ArrowException, BufferOutputStream, Table, feather

    sink = BufferOutputStream()
    try:
        table = Table.from_pandas(index.to_series().to_frame().iloc[:, :0])
    except (ArrowException, TypeError):
        return {}
    feather.write_feather(table, sink, "uncompressed")
    return {"index": np.frombuffer(sink.getvalue(), dtype=np.uint8)}


def index_from_bytes(arrays: Mapping[str, npt.NDArray[Any]], n_rows: int) -> Any:
    """The index that `index_to_bytes` wrote, checked.

    None if there is no index, or pandas is not installed.
    """
    if "index" not in arrays or not find_spec("pandas"):
        return None
    from pyarrow import BufferReader, feather

    table = feather.read_table(BufferReader(arrays["index"].tobytes()))
    table.validate(full=True)
    index = table.to_pandas().index
    if len(index) != n_rows:
        raise ValueError(f"its index has {len(index)} labels for {n_rows} rows.")
    return index


def html_table(rows: Iterable[Iterable[Any]], header: Iterable[str] = (), title: str = "") -> str:
    """Cells as a small table in the colors of the notebook; the first cell of a row is its head.

    Everything is escaped, also characters that HTML would not show.
    """
    lines = []
    if header:
        lines.append("".join(_html_cell("th", name) for name in header))
    for first, *values in rows:
        cells = "".join(_html_cell("td", value) for value in values)
        lines.append(_html_cell("th", first) + cells)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    caption = f"<p>{escape(one_line(title))}</p>" if title else ""
    return f"{caption}<table>{body}</table>"


def _html_cell(tag: str, text: Any) -> str:
    return f"<{tag}{ALIGN_LEFT}>{escape(one_line(text))}</{tag}>"


def lines_as_html(text: str) -> str:
    """Printed lines as a table. Two spaces or more separate their cells."""
    return html_table(re.split(r"\s{2,}", line) for line in text.splitlines())
