"""nearworth detect and report: which labels are probably wrong, as a table or as a page to decide on them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import nearworth as nw  # its names load when first used: an error about the input need not wait for compiled code
from nearworth._common.types import IntVector
from nearworth.cli.data import Data, collapsed, prepare
from nearworth.cli.messages import print_json, print_message, write_results
from nearworth.cli.options import pop_model
from nearworth.cli.review import answered
from nearworth.tables import InputError
from nearworth.tables.write import STDOUT, check_output, write_bytes


def detect(*, output: str, force: bool, as_json: bool, **given: Any) -> None:
    check_output(output, force, inputs=(given["train"], given["validation"], *given["review"]))
    data, audit, selection, suspects = _audited(given)
    summary = _summary("detect", data, audit, selection, suspects)
    write_results(_suspect_columns(data, audit, suspects), summary, output, as_json)
    where = f" They are in {output}" if len(suspects) else f" {output} has a header only"
    print_message(f"{_headline(audit, selection, suspects)}{'' if output == STDOUT else where}")


def report(*, image_shape: str | None, output: str, force: bool, as_json: bool, **given: Any) -> None:
    train = Path(given["train"])
    check_output(output, force, (".html", ".htm"), (given["train"], given["validation"]))
    if output == STDOUT:
        raise InputError("-o -: a report goes to a file; give a name that ends in .html.")
    if image_shape is not None and given["image_column"] is not None:
        raise InputError("--image-shape and --image-column were both given. Give one of them.")
    data, audit, selection, suspects = _audited(given)
    write_page(data, audit, selection, output, train.name, image_shape, train.parent)
    if as_json:
        print_json(_summary("report", data, audit, selection, suspects) | {"output": output})
    then = "decide, and export" if len(suspects) else "for the pictures"
    print_message(f"{_headline(audit, selection, suspects)} Open {output} in a browser, {then}.")


def _audited(given: dict[str, Any]) -> tuple[Data, nw.LabelAudit, dict[str, Any], IntVector]:
    """The data, their audit, the keywords of `LabelAudit.suspects` and its result."""
    selection = _pop_selection(given)
    data, audit = audited(given)
    return data, audit, selection, audit.suspects(**selection)


def audited(given: dict[str, Any]) -> tuple[Data, nw.LabelAudit]:
    """The data and their audit, with the answers of reviews."""
    model, reviews = pop_model(given), given.pop("review")
    data = prepare(**given)
    audit = nw.audit_labels(data.X, data.y, X_val=data.X_val, y_val=data.y_val, **model)
    return data, answered(audit, data, reviews)


def _pop_selection(given: dict[str, Any]) -> dict[str, Any]:
    """Take the keywords of `LabelAudit.suspects` out of the options; contradictions are refused before any work."""
    popped = {name: given.pop(name) for name in ("rule", "fraction", "max_fdr")}
    selection = {name: value for name, value in popped.items() if value is not None}
    if len(selection) > 1 and (popped["rule"] != "ranking" or popped["max_fdr"] is not None):
        named = " and ".join(f"--{name.replace('_', '-')}" for name in selection)
        raise InputError(f"{named} were given, which each decide alone. Give one of them.")
    return selection


def _suspect_columns(data: Data, audit: nw.LabelAudit, suspects: IntVector) -> Any:
    labels = {"given": np.asarray(data.y), "suggested": audit.suggested}
    rows = pa.table(data.names() | labels | {"quality": audit.quality, "value": audit.value})
    return rows.take(suspects).append_column("why", [[audit.why(int(row)) for row in suspects]])


def _headline(audit: nw.LabelAudit, selection: dict[str, Any], suspects: IntVector) -> str:
    n_suspects, rule, count = len(suspects), audit.describe_selection(selection), audit.n_errors
    text = f"{n_suspects:,} of {len(audit):,} labels {'is' if n_suspects == 1 else 'are'} suspect ({rule})."
    if not n_suspects:
        text = f"No suspects among {len(audit):,} labels ({rule}). {audit.explain_empty(selection)}".rstrip()
    if count.basis == "review":
        share = audit.precision(suspects)
        of_them = (
            f" {share.estimate:.0%} of those listed ({share.lower:.0%} to {share.upper:.0%})." if n_suspects else ""
        )
        return f"{text} Wrong in all: {count}.{of_them}"
    verb = "is" if f"{count.estimate:.0f}" == "1" else "are"
    text += f" About {count.estimate:,.0f} {verb} estimated to be wrong ({count.lower:,.0f} to {count.upper:,.0f})."
    if audit.valuation.error_bound:
        text += f" {audit.valuation.describe_error()}"
    return text


def _summary(
    command: str, data: Data, audit: nw.LabelAudit, selection: dict[str, Any], suspects: IntVector
) -> dict[str, Any]:
    count = audit.n_errors
    return {
        "command": command,
        "version": nw.__version__,
        "n_train": len(audit),
        "n_suspects": len(suspects),
        "selection": selection,
        "n_errors": {
            "estimate": float(count.estimate),
            "lower": float(count.lower),
            "upper": float(count.upper),
            "basis": count.basis,
        },
        "error_bound": float(audit.valuation.error_bound),
        "typical_error": audit.valuation.typical_error,
        "columns": data.columns,
    }


def write_page(
    data: Data, audit: nw.LabelAudit, selection: dict[str, Any], output: str, source: str, image_shape: str | None,
    image_folder: Path = Path(),
) -> None:  # fmt: skip
    """Write the report of an audit of these data."""
    from nearworth.report.page import render_report

    shape = None if image_shape is None else parse_shape(image_shape, data.X.shape[1])
    notes = [line for line, _ in collapsed(data.columns)]
    rows = replace(data.rows, X=data.X, image_shape=shape, image_folder=image_folder, source=source, notes=notes)
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
    if math.prod(shape) != n_columns:
        raise InputError(
            f"--image-shape {text} is {math.prod(shape):,} numbers, but rows are compared by {n_columns:,}."
        )
    return shape
