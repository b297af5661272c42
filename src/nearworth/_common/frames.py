"""Result tables: frames of pandas, polars or pyarrow, with the index of pandas; and as HTML for
notebooks.
"""

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
LEFT = " style='text-align:left'"  # in each cell, because notebooks align cells to the right


def make_frame(
    columns: Mapping[str, Any], backend: str | None, preferred: str | None = None, index: Any = None
) -> Any:
    """A frame of the library `backend` (None: `preferred`, else the first installed), of pandas
    with the `index`.
    """
    import narwhals.stable.v2 as nwl

    if backend is None:
        backend = next(
            name for name in (preferred, *BACKENDS) if name in BACKENDS and find_spec(name)
        )
    elif backend not in BACKENDS:
        raise ValueError(
            f"backend={backend!r} is not known. Use one of {', '.join(map(repr, BACKENDS))}."
        )
    frame = nwl.from_dict(columns, backend=cast("Any", backend)).to_native()
    return frame if index is None or backend != "pandas" else frame.set_axis(index, axis="index")


def index_to_bytes(index: Any) -> dict[str, npt.NDArray[np.uint8]]:
    """The index of a pandas frame as an array of an archive; nothing where there is none, or it is
    no Arrow data.
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
    """The index that `index_to_bytes` wrote, checked; None if there is none, or pandas is not
    installed.
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
    """Cells as a small table in the colours of the notebook; the first of each row stands out.

    Everything is escaped, also what HTML would not show.
    """
    lines = (
        ["".join(f"<th{LEFT}>{escape(one_line(name))}</th>" for name in header)] if header else []
    )
    for first, *rest in rows:
        cells = "".join(f"<td{LEFT}>{escape(one_line(cell))}</td>" for cell in rest)
        lines.append(f"<th{LEFT}>{escape(one_line(first))}</th>{cells}")
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"{f'<p>{escape(one_line(title))}</p>' if title else ''}<table>{body}</table>"


def lines_as_html(text: str) -> str:
    """Printed lines, in which two spaces or more are between cells, as such a table."""
    return html_table(re.split(r"\s{2,}", line) for line in text.splitlines())
