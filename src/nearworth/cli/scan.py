"""nearworth scan: everything one pass over the neighbours tells, as a page and a few lines."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import nearworth as nw
from nearworth.cli.data import prepare, print_json
from nearworth.cli.detect import with_images
from nearworth.cli.options import pop_model, print_message
from nearworth.tables.write import check_output, write_bytes


def scan(*, output: str, force: bool, as_json: bool, show: bool, **given: Any) -> None:
    from nearworth.report.page import render_report

    if output:
        check_output(output, force, (".html", ".htm"), (given["train"], given["validation"]))
    model, images = pop_model(given), (given.pop("image_shape"), given.pop("images_below"))
    data = prepare(**given)
    rows, numbers = with_images(data.rows, *images), data.names()["row"]
    found = nw.scan(data.X, data.y, data.X_val, data.y_val, task=data.task, **model)
    if output:
        page = render_report(found.labels, rows, {}, found.findings()).encode()
        write_bytes(output, lambda file: file.write(page))
    if as_json:
        listed = {"labels": numbers[found.labels.suspects()].tolist()}
        for name, what in found.findings().items():
            listed[name] = what.rows.tolist() if name == "leakage" else numbers[what.rows].tolist()
        print_json({"command": "scan", "version": nw.__version__, "summary": found.summary().split("\n"), **listed})
    where = f"Open {output} in a browser, decide, and export." if output else "With -o scan.html: a page of them."
    print_message(f"{found.summary()}\n{where}")
    if show and output:
        webbrowser.open(Path(output).absolute().as_uri())
