"""nearworth report: a page to look at suspects and decide on them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearworth.cli.data import Data, Wanted
from nearworth.cli.detecting import find, headline, summary
from nearworth.cli.telling import collapsed, print_json, tell
from nearworth.report.content import Rows
from nearworth.report.page import render_report
from nearworth.tables.errors import InputError
from nearworth.tables.write import check_output, write_bytes

if TYPE_CHECKING:  # the audit loads compiled code, which an error about the input need not wait for
    from nearworth.audit.result import LabelAudit


def report(
    wanted: Wanted, parameters: dict[str, Any], selection: dict[str, Any], image_shape: str | None, output: str,
    force: bool, dry_run: bool, quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Read, audit, write the page."""
    check_output(output, force, (".html", ".htm"), (wanted.train, wanted.validation))
    if output == "-":
        raise InputError("-o -: a report goes to a file; give a name that ends in .html.")
    if image_shape is not None and wanted.image_column is not None:
        raise InputError("--image-shape and --image-column were both given. Give one of them.")
    found = find(wanted, parameters, selection, dry_run, quiet)
    if found is None:
        return
    data, audit = found
    suspects, train = audit.suspects(**selection), Path(wanted.train)
    write_page(data, audit, selection, output, train.name, image_shape, train.parent)
    if as_json:
        print_json(summary(data, audit, suspects, selection, "report") | {"output": output})
    then = "decide, and export" if len(suspects) else "for the pictures"
    tell(f"{headline(audit, suspects, selection)} Open {output} in a browser, {then}.", quiet)


def write_page(
    data: Data, audit: LabelAudit, selection: dict[str, Any], output: str, source: str, image_shape: str | None,
    image_folder: Path = Path(),
) -> None:  # fmt: skip
    """The report of an audit of these data."""
    shape = None if image_shape is None else parse_shape(image_shape, data.X.shape[1])
    rows = Rows(
        X=data.X, target=data.target or "y", id_name=data.id_name, ids=data.ids, cells=data.cells, image_shape=shape,
        image_names=data.image_names, image_folder=image_folder,
        source=source, notes=[line for line, _ in collapsed(data.columns)],
    )  # fmt: skip
    page = render_report(audit, rows, selection).encode()
    write_bytes(output, lambda file: file.write(page))


def parse_shape(text: str, n_columns: int) -> tuple[int, ...]:
    """From "28x28" or "32x32x3" to numbers, which must make up a row.

    >>> parse_shape("8x8", 64)
    (8, 8)
    """
    if not re.fullmatch(r"\d+x\d+(x[134])?", text):
        raise InputError(f"--image-shape {text!r} is not of the form 28x28 or 32x32x3.")
    shape = tuple(int(part) for part in text.split("x"))
    size = 1
    for part in shape:
        size *= part
    if size != n_columns:
        raise InputError(f"--image-shape {text} is {size:,} numbers, but rows are compared by {n_columns:,}.")
    return shape
