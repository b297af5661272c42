"""nearworth report: a page to look at suspects and decide on them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from nearworth.audit.findings import Findings
from nearworth.cli.data import Data
from nearworth.cli.detecting import find, headline, pop_selection, summary
from nearworth.cli.messages import collapsed, print_json, tell
from nearworth.cli.options import pop_model
from nearworth.report.content import Rows
from nearworth.report.page import render_report
from nearworth.tables.errors import InputError
from nearworth.tables.writing import check_output, write_bytes


def report(
    *, image_shape: str | None, output: str, force: bool, dry_run: bool, quiet: bool, as_json: bool, **given: Any
) -> None:
    """Read, audit, write the page."""
    train = Path(given["train"])
    check_output(output, force, (".html", ".htm"), (given["train"], given["validation"]))
    if output == "-":
        raise InputError("-o -: a report goes to a file; give a name that ends in .html.")
    if image_shape is not None and given["image_column"] is not None:
        raise InputError("--image-shape and --image-column were both given. Give one of them.")
    selection = pop_selection(given)
    found = find(pop_model(given), selection, dry_run, quiet, **given)
    if found is None:
        return
    data, findings = found
    write_page(data, findings, output, train.name, image_shape, train.parent)
    if as_json:
        print_json(summary(data, findings, selection, "report") | {"output": output})
    then = "decide, and export" if len(findings.suspects) else "for the pictures"
    tell(f"{headline(data, findings)} Open {output} in a browser, {then}.", quiet)


def write_page(
    data: Data, findings: Findings, output: str, source: str, image_shape: str | None, image_folder: Path = Path(),
) -> None:  # fmt: skip
    """The report of an audit of these data."""
    shape = None if image_shape is None else parse_shape(image_shape, data.X.shape[1])
    rows = Rows(
        X=data.X, target=data.target or "y", id_name=data.id_name, ids=data.ids, cells=data.cells, image_shape=shape,
        image_names=data.image_names, image_folder=image_folder,
        source=source, notes=[line for line, _ in collapsed(data.columns)],
    )  # fmt: skip
    page = render_report(findings, rows).encode()
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
