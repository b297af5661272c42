"""nearworth scan: everything one pass over the neighbours tells, as a page and a few lines."""

from __future__ import annotations

import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Any

import nearworth as nw
from nearworth.cli.data import Data, prepare, print_json
from nearworth.cli.detect import parse_shape
from nearworth.cli.options import pop_model, print_message
from nearworth.tables.write import check_output, write_bytes


def scan(*, image_shape: str | None, output: str, force: bool, as_json: bool, show: bool, **given: Any) -> None:
    from nearworth.report.page import render_report

    if output:
        check_output(output, force, (".html", ".htm"), (given["train"], given["validation"]))
    data, found = scanned(given)
    if output:
        shape = None if image_shape is None else parse_shape(image_shape, data.X.shape[1])
        page = render_report(found.labels, replace(data.rows, image_shape=shape), {}, found.findings()).encode()
        write_bytes(output, lambda file: file.write(page))
    if as_json:
        numbers = data.names()["row"]
        rows = {n: finding.rows if n == "leakage" else numbers[finding.rows] for n, finding in found.findings().items()}
        listed = {name: of.tolist() for name, of in {"labels": numbers[found.labels.suspects()], **rows}.items()}
        print_json({"command": "scan", "version": nw.__version__, "summary": found.summary().split("\n"), **listed})
    where = f"\nOpen {output} in a browser, decide, and export." if output else "\nWith -o scan.html: a page of them."
    print_message(f"{found.summary()}{where}")
    if show and output:
        webbrowser.open(Path(output).absolute().as_uri())


def scanned(given: dict[str, Any]) -> tuple[Data, nw.Scan]:
    """The data and what a scan finds in them."""
    model = pop_model(given)
    data = prepare(**given)
    return data, nw.scan(data.X, data.y, data.X_val, data.y_val, task=data.task, **model)
