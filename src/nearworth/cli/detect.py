"""nearworth detect, report, review, scan and demo: which labels are wrong, as a table or as a page to judge rows."""

from __future__ import annotations

import math
import re
import shlex
import webbrowser
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pyarrow as pa

import nearworth as nw  # its names load when first used: an error about the input need not wait for compiled code
from nearworth._common.types import IntVector
from nearworth.cli.data import Data, prepare, print_json, write_results
from nearworth.cli.decisions import KeptDecisions, answered
from nearworth.cli.options import pop_model, print_message, progress
from nearworth.cli.value import value_columns
from nearworth.report.content import SAMPLE, Suggestions
from nearworth.report.shown import is_inside
from nearworth.tables import InputError, number_of
from nearworth.tables.readers import kind_of
from nearworth.tables.write import STDOUT, check_output, write_bytes, write_columns

MANY_ROWS = 50_000  # from here on an index finds neighbours sooner than all distances are computed
INDEX_ERROR = 0.05  # faiss needs some limit; audits list so many neighbours that the certified error is far smaller
LOOKED_AT = 1_000  # names of images
TITLE = b"nearworth</title>"  # every page has it
DEMO = ("nearworth-demo-train.csv", "nearworth-demo-values.csv", "nearworth-demo-report.html")


def detect(*, output: str, force: bool, as_json: bool, **given: Any) -> None:
    check_output(output, force, inputs=(given["train"], given["validation"], *given["review"]))
    audited = Audited.make(given)
    write_results(audited.columns(), audited.summary("detect"), output, as_json)
    print_message(audited.headline() + ("" if output == STDOUT else f" The list is in {output}"))


def report(*, output: str, force: bool, as_json: bool, show: bool, **given: Any) -> None:
    from nearworth.report.page import render_report

    if not output:  # the page that the same command wrote before is replaced, and no other file
        output = f"{Path(given['train']).name.split('.')[0]}-report.html"
        force = force or (Path(output).is_file() and TITLE in Path(output).read_bytes())
    _check_page(output, force, given)
    audited = Audited.make(given, page=True)
    _write_page(output, render_report(audited.audit, audited.data.rows, audited.selection), show)
    if as_json:
        print_json(audited.summary("report") | {"output": output})
    print_message(f"{audited.headline()} Open {output} in a browser, decide, and export.")


def review(*, number: int | None, seed: int, blind: bool, output: str, force: bool, **given: Any) -> None:
    from nearworth.report.page import render_review

    _check_page(output, force, given)
    data, audit = run_audit(given)
    drawn = audit.review_sample(number or max(1, min(SAMPLE, len(audit) - data.n_reviewed)), random_state=seed)
    _write_page(output, render_review(audit, data.rows, drawn, seed, blind=blind))
    print_message(f"{len(drawn):,} of {len(audit):,} rows to judge: open {output} in a browser, judge, and export.")


def scan(*, output: str, force: bool, as_json: bool, show: bool, **given: Any) -> None:
    from nearworth.report.page import render_report

    if output:
        _check_page(output, force, given)
    model = pop_model(given)
    data = _with_images(given)
    model = resolve_search(model, len(data.y), data.task)
    found = nw.scan(data.X, data.y, data.X_val, data.y_val, data.groups, sources=data.texts, task=data.task, **model)
    if output:
        _write_page(output, render_report(found.labels, data.rows, {}, found.findings()), show)
    if as_json:
        rows = {"labels": found.labels.suspects()} | {name: what.rows for name, what in found.findings().items()}
        listed = {name: r.tolist() if name == "leakage" else data.rows.numbers[r].tolist() for name, r in rows.items()}
        print_json({"command": "scan", "version": nw.__version__, "summary": found.summary().split("\n"), **listed})
    where = f"Open {output} in a browser, decide, and export." if output else "With -o scan.html: a page of them."
    print_message(f"{found.summary()}\n{where}")


def _check_page(output: str, force: bool, given: dict[str, Any]) -> None:
    """Refuse, before any work is done, a page that cannot be written."""
    check_output(output, force, (".html", ".htm"), (given["train"], given["validation"], *given.get("review", ())))


def _write_page(output: str, page: str, show: bool = False) -> None:
    write_bytes(output, lambda file: file.write(page.encode()))
    if show:
        webbrowser.open(Path(output).absolute().as_uri())


def _with_images(given: dict[str, Any]) -> Data:
    """The data, and how their rows are shown as images; image files in other folders than allowed are refused."""
    shape, below = given.pop("image_shape", None), given.pop("images_below", None)
    data = prepare(**given, pixels=shape is not None)
    rows = data.rows
    if shape is not None:
        pixels = parse_shape(shape, rows.X.shape[1])  # the numbers of a table are the pixels
        cells = {name: cells for name, cells in rows.cells.items() if kind_of(cells) != "number"}
        return replace(data, rows=replace(rows, image_shape=pixels, cells=cells))
    allowed = rows.image_folder if below is None else Path(below)
    for name in [] if rows.image_names is None else rows.image_names.slice(0, LOOKED_AT).drop_null().to_pylist():
        path = rows.image_folder / str(name)
        if not is_inside(path, allowed):
            problem = f"--image-column: {str(name)!r} is outside the folder {str(allowed)!r}. Allow it: --images-below."
            raise InputError(problem, add=("--images-below", str(path.parent)))
    return replace(data, rows=replace(rows, images_below=allowed))


class Audited(NamedTuple):
    """The data, their audit, the keywords of `LabelAudit.suspects` and the rows listed, those judged before aside."""

    data: Data
    audit: nw.LabelAudit
    selection: dict[str, Any]
    listed: IntVector

    @classmethod
    def make(cls, given: dict[str, Any], *, page: bool = False) -> Audited:
        """For a page, with the rows that are worth a look besides the suspects."""
        selection, ask_again = _pop_selection(given), given.pop("ask_again")
        kept = KeptDecisions(None if ask_again else Path(given["train"]).absolute().parent)
        data, audit = run_audit(given)
        listed = audit.worth_a_look() if page and not selection else audit.suspects(**selection)
        found, known = _suggestions(audit, data), kept.judged(data, data.rows.numbers[listed])
        known |= np.isin(listed, data.rows.judged) & (page and not ask_again)
        if found is not None:
            is_open = ~kept.judged(data, found.rows)
            found = Suggestions._make(part[is_open] for part in found)
        rows = replace(data.rows, judged=listed[known], unlabelled=found)
        return cls(replace(data, rows=rows), audit, selection, listed[~known])

    @property
    def suspects(self) -> IntVector:
        return self.listed if self.selection else self.listed[self.audit.is_label_issue[self.listed]]

    @property
    def precision(self) -> dict[str, float] | None:
        """The share of wrong labels among the suspects, with limits, as far as a review tells; else None."""
        return self.audit.precision(self.suspects)._asdict() if self.data.n_reviewed and len(self.suspects) else None

    def columns(self) -> Any:
        """The suspects as a table, worst first; then rows without a label, if there are any, surest first."""
        audit = self.audit
        columns = {"given": np.asarray(self.data.y), "suggested": audit.suggested, "quality": audit.quality}
        rows = pa.table(self.data.names(self.data.rows.numbers) | columns | {"value": audit.value})
        rows = rows.take(self.suspects).append_column("why", [[audit.why(int(row)) for row in self.suspects]])
        found = self.data.rows.unlabelled
        if found is None:
            return rows
        quality = pa.array(found.certainty, from_pandas=True)  # of numbers there is none
        others = self.data.names(found.rows) | {"suggested": found.suggested, "quality": quality}
        sure = ", with this probability" * (audit.classes is not None)
        others["why"] = [f"no label; its nearest rows suggest this one{sure}"] * len(found.rows)
        parts = {"suspect": rows, "unlabelled": pa.table(others)}
        with_status = [part.append_column("status", [[name] * len(part)]) for name, part in parts.items()]
        return pa.concat_tables(with_status, promote_options="permissive")

    def headline(self) -> str:
        audit, rows, n_suspects = self.audit, self.data.rows, len(self.suspects)
        rule, empty = audit.describe_selection(self.selection), audit.explain_empty(self.selection)
        all_rows = f"{len(audit):,} {'targets' if audit.classes is None else 'labels'}"
        text = f"{n_suspects:,} of {all_rows} {'is' if n_suspects == 1 else 'are'} suspect ({rule})."
        said = [text if n_suspects else f"No suspects among {all_rows} ({rule}). {empty}".rstrip()]
        said += [f"Wrong in all: {audit.n_errors}.", audit.describe_copies()]
        if len(self.listed) > n_suspects:
            said.append(f"Listed: the {number_of('most doubtful row', len(self.listed))}.")
        if len(rows.judged):
            said.append(f"{number_of('row', len(rows.judged))} judged before (listed with --ask-again).")
        if rows.unlabelled is not None:
            said.append(f"{number_of('row', len(rows.unlabelled.rows))} without a label, with a suggestion each.")
        share = self.precision
        if share is not None and share["upper"] - share["lower"] < 1.0:  # else no row like these was judged
            said.append("Of the suspects, {estimate:.0%} are wrong ({lower:.0%} to {upper:.0%}).".format(**share))
        if audit.valuation.error_bound:
            said.append(audit.valuation.describe_error())
        return " ".join(filter(None, said))

    def summary(self, command: str) -> dict[str, Any]:
        return {
            "command": command,
            "version": nw.__version__,
            "n_train": len(self.audit),
            "n_suspects": len(self.suspects),
            "n_judged": len(self.data.rows.judged),
            "n_unlabelled": len(self.data.unlabelled),
            "selection": self.selection,
            "n_errors": asdict(self.audit.n_errors),
            "n_reviewed": self.data.n_reviewed,
            "precision": self.precision,
            "error_bound": float(self.audit.valuation.error_bound),
            "typical_error": self.audit.valuation.typical_error,
            "columns": self.data.columns,
        }


def run_audit(given: dict[str, Any]) -> tuple[Data, nw.LabelAudit]:
    """The data and their audit, with the answers of reviews."""
    model, reviews, checkpoint, models = pop_model(given), *map(given.pop, ("review", "checkpoint", "models"))
    data = _with_images(given)
    model = resolve_search(model, len(data.y), data.task)
    audit = nw.audit_labels(
        data.X, data.y, X_val=data.X_val, y_val=data.y_val, groups=data.groups, sources=data.texts, task=data.task,
        models=models, **model, progress=progress, checkpoint=checkpoint,
    )  # fmt: skip
    if audit.valuation.resumed:
        print_message(f"{audit.valuation.resumed:,} of {len(audit):,} rows came from {checkpoint}")
    return answered(data, audit, reviews)


def resolve_search(model: dict[str, Any], n_rows: int, task: str) -> dict[str, Any]:
    """The model with what "auto" stands for in an audit: an index if there are many rows, else every distance."""
    if model["search"] != "auto" or model["max_error"] is not None:
        return model
    if n_rows < MANY_ROWS or task == "regression" or model["metric"] != "euclidean":
        return model | {"search": "exact"}
    if not find_spec("faiss"):
        print_message(f"{n_rows:,} rows: an index is many times faster: pip install 'nearworth[faiss]'")
        return model | {"search": "exact"}
    return model | {"search": "faiss", "max_error": INDEX_ERROR}


def _suggestions(audit: nw.LabelAudit, data: Data) -> Suggestions | None:
    """Labels for the rows that have none, if there are any, surest first."""
    from nearworth.audit.audit import suggest

    rows = data.unlabelled
    if not len(rows):
        return None
    suggested, certainty, nearest = suggest(audit, data.rows.X[rows])
    found, order = (rows, suggested, certainty, *nearest.nearest), np.argsort(-certainty, kind="stable")
    return Suggestions._make(part[order] for part in found)


def _pop_selection(given: dict[str, Any]) -> dict[str, Any]:
    """Take the keywords of `LabelAudit.suspects` out of the options; contradictions are refused before any work."""
    popped = {name: given.pop(name) for name in ("rule", "fraction", "max_fdr")}
    selection = {name: value for name, value in popped.items() if value is not None}
    if len(selection) > 1 and (popped["rule"] != "ranking" or popped["max_fdr"] is not None):
        raise InputError("--rule, --fraction and --max-fdr each decide alone. Give one of them.")
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


def demo(seed: int, folder: str) -> None:
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: there is no such folder to write to.")
    X, y, X_val, y_val, flipped = nw.datasets.noisy_digits(random_state=seed)
    audit = nw.audit_labels(X, y, 10)
    wrong, suspects = set(flipped.tolist()), audit.suspects().tolist()
    found = len(wrong.intersection(suspects))
    click.echo(f"{len(wrong)} of {len(audit):,} labels of handwritten digits were made wrong. The 10 worst suspects:")
    click.echo("   row  given  suggested  quality  label is")
    for row in suspects[:10]:
        given, suggested, truth = audit.given[row], audit.suggested[row], "wrong" if row in wrong else "right"
        click.echo(f"{row:6}  {given:5}  {suggested:9}  {audit.quality[row]:7.1%}  {truth}")
    said = f"{found / max(len(suspects), 1):.0%} precision, {found / len(wrong):.0%} recall"
    click.echo(f"\n{len(suspects)} rows are suspect and {found} of them wrong: {said}.")
    valuation = nw.KNNShapley(10, standard_errors=True).fit(X, y).value(X_val, y_val)
    train, values, report = (str(Path(folder) / name) for name in DEMO)
    write_columns({"row": np.arange(len(y))} | value_columns(valuation), values)
    write_columns({f"pixel_{i:02}": pixel.astype(np.int64) for i, pixel in enumerate(X.T)} | {"label": y}, train)
    audit.report(report, image_shape=(8, 8), title="handwritten digits")
    click.echo(f"\nWhat every row is worth  {values}")
    click.echo(f"Look and decide          {report}  (open it in a browser)")
    click.echo(f"The data                 {train}")
    click.echo("\nTry next, which lists the same suspects, then with a table of yours:")
    click.echo(f"  nearworth detect {shlex.quote(train)} --target label --features 'pixel_*' -o suspects.csv")
    click.echo("  nearworth report --help")
