"""nearworth detect and report: which labels are probably wrong, as a table or as a page to decide on them."""

from __future__ import annotations

import math
import re
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import nearworth as nw  # its names load when first used: an error about the input need not wait for compiled code
from nearworth._common.types import IntVector
from nearworth.cli.data import Data, prepare, print_json, write_results
from nearworth.cli.options import pop_model, print_message
from nearworth.cli.review import answered
from nearworth.tables import InputError
from nearworth.tables.write import STDOUT, check_output, write_bytes

BEGINNING = 8192  # bytes of a page, its title among them


def detect(*, output: str, force: bool, as_json: bool, **given: Any) -> None:
    check_output(output, force, inputs=(given["train"], given["validation"], *given["review"]))
    audited = Audited.make(given)
    write_results(audited.columns(), audited.summary("detect"), output, as_json)
    where = f" They are in {output}" if len(audited.suspects) else f" {output} has a header only"
    print_message(f"{audited.headline()}{'' if output == STDOUT else where}")


def report(*, image_shape: str | None, output: str, force: bool, as_json: bool, show: bool, **given: Any) -> None:
    from nearworth.report.page import render_report

    if not output:  # the page that the same command wrote before is replaced, and no other file
        output = f"{Path(given['train']).name.split('.')[0]}-report.html"
        force = force or _is_a_page(Path(output))
    check_output(output, force, (".html", ".htm"), (given["train"], given["validation"]))
    if output == STDOUT:
        raise InputError("-o -: a report goes to a file; give a name that ends in .html.")
    if image_shape is not None and given["image_column"] is not None:
        raise InputError("--image-shape and --image-column were both given. Give one of them.")
    audited = Audited.make(given)
    rows = audited.data.rows
    if image_shape is not None:
        rows = replace(rows, image_shape=parse_shape(image_shape, rows.X.shape[1]))
    page = render_report(audited.audit, rows, audited.selection).encode()
    write_bytes(output, lambda file: file.write(page))
    if as_json:
        print_json(audited.summary("report") | {"output": output})
    then = "decide, and export" if len(audited.suspects) else "for the pictures"
    print_message(f"{audited.headline()} Open {output} in a browser, {then}.")
    if show:
        webbrowser.open(Path(output).absolute().as_uri())


def _is_a_page(path: Path) -> bool:
    """Whether a file is a report of ours."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b"nearworth</title>" in file.read(BEGINNING)


class Audited(NamedTuple):
    """The data, their audit, the keywords of `LabelAudit.suspects` and the rows it lists."""

    data: Data
    audit: nw.LabelAudit
    selection: dict[str, Any]
    suspects: IntVector

    @classmethod
    def make(cls, given: dict[str, Any]) -> Audited:
        selection = _pop_selection(given)
        data, audit = audited(given)
        return cls(data, audit, selection, audit.suspects(**selection))

    def columns(self) -> Any:
        """The suspects as a table, worst first."""
        audit, labels = self.audit, {"given": np.asarray(self.data.y), "suggested": self.audit.suggested}
        rows = pa.table(self.data.names() | labels | {"quality": audit.quality, "value": audit.value})
        return rows.take(self.suspects).append_column("why", [[audit.why(int(row)) for row in self.suspects]])

    def headline(self) -> str:
        audit, selection, n_suspects = self.audit, self.selection, len(self.suspects)
        rule, count = audit.describe_selection(selection), audit.n_errors
        text = f"{n_suspects:,} of {len(audit):,} labels {'is' if n_suspects == 1 else 'are'} suspect ({rule})."
        if not n_suspects:
            text = f"No suspects among {len(audit):,} labels ({rule}). {audit.explain_empty(selection)}".rstrip()
        text += f" Wrong in all: {count}. {audit.describe_copies()}".rstrip()
        if count.basis == "review":
            share = audit.precision(self.suspects)
            of_them = f" {share.estimate:.0%} of those listed ({share.lower:.0%} to {share.upper:.0%})."
            return f"{text}{of_them if n_suspects else ''}"
        if audit.valuation.error_bound:
            text += f" {audit.valuation.describe_error()}"
        return text

    def summary(self, command: str) -> dict[str, Any]:
        count = self.audit.n_errors
        return {
            "command": command,
            "version": nw.__version__,
            "n_train": len(self.audit),
            "n_suspects": len(self.suspects),
            "selection": self.selection,
            "n_errors": {
                "estimate": count.estimate,
                "lower": float(count.lower),
                "upper": float(count.upper),
                "basis": count.basis,
                "assumption": count.assumption,
            },
            "error_bound": float(self.audit.valuation.error_bound),
            "typical_error": self.audit.valuation.typical_error,
            "columns": self.data.columns,
        }


def audited(given: dict[str, Any]) -> tuple[Data, nw.LabelAudit]:
    """The data and their audit, with the answers of reviews."""
    model, reviews = pop_model(given), given.pop("review")
    data = prepare(**given)
    audit = nw.audit_labels(data.X, data.y, X_val=data.X_val, y_val=data.y_val, task=data.task, **model)
    return data, answered(audit, data, reviews)


def _pop_selection(given: dict[str, Any]) -> dict[str, Any]:
    """Take the keywords of `LabelAudit.suspects` out of the options; contradictions are refused before any work."""
    popped = {name: given.pop(name) for name in ("rule", "fraction", "max_fdr")}
    selection = {name: value for name, value in popped.items() if value is not None}
    if len(selection) > 1 and (popped["rule"] != "ranking" or popped["max_fdr"] is not None):
        named = " and ".join(f"--{name.replace('_', '-')}" for name in selection)
        raise InputError(f"{named} were given, which each decide alone. Give one of them.")
    return selection


def parse_shape(text: str, n_columns: int) -> tuple[int, ...]:
    """From "28x28" or "32x32x3" to numbers, which must make up a row.

    >>> parse_shape("8x8", 64)
    (8, 8)
    """
    if not re.fullmatch(r"\d+x\d+(x[134])?", text):
        raise InputError(f"--image-shape {text!r} is not of the form 28x28 or 32x32x3.")
    shape = tuple(int(part) for part in text.split("x"))
    if (size := math.prod(shape)) != n_columns:
        raise InputError(f"--image-shape {text} is {size:,} numbers, but rows are compared by {n_columns:,}.")
    return shape
