"""nearworth demo: detect, report and value on handwritten digits, some with wrong labels."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np

import nearworth as nw
from nearworth.cli.data import Data
from nearworth.cli.detect import write_page
from nearworth.cli.value import value_columns
from nearworth.tables import InputError
from nearworth.tables.write import write_columns

TRAIN, VALUES, REPORT = "nearworth-demo-train.csv", "nearworth-demo-values.csv", "nearworth-demo-report.html"
AUDIT_NEIGHBORS = 10  # default of `nearworth detect`


def demo(n_neighbors: int, seed: int, folder: str) -> None:
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: there is no such folder to write to.")
    digits = nw.datasets.noisy_digits(random_state=seed)
    data = Data(digits.X, digits.y, digits.X_val, digits.y_val)
    audit = nw.audit_labels(data.X, data.y, n_neighbors)
    _print_suspects(audit, digits.flipped)
    est = nw.KNNShapley(n_neighbors, standard_errors=True).fit(data.X, data.y)
    train, values, report = (str(Path(folder) / name) for name in (TRAIN, VALUES, REPORT))
    write_columns(data.names() | value_columns(est.value(data.X_val, data.y_val)), values)
    pixels = {f"pixel_{column:02}": data.X[:, column].astype(np.int64) for column in range(data.X.shape[1])}
    write_columns(pixels | {"label": data.y}, train)
    write_page(data, audit, {}, report, "handwritten digits", "8x8")
    click.echo(f"\nWhat every row is worth  {values}")
    click.echo(f"Look and decide          {report}  (open it in a browser)")
    click.echo(f"The data                 {train}")
    click.echo("\nTry next, which lists the same suspects, then with a table of yours:")
    options = f"--target label --features 'pixel_*'{'' if n_neighbors == AUDIT_NEIGHBORS else f' -k {n_neighbors}'}"
    click.echo(f"  {_program()} detect {shlex.quote(train)} {options} -o suspects.csv")
    click.echo(f"  {_program()} report --help")


def _print_suspects(audit: nw.LabelAudit, flipped: Any) -> None:
    wrong, suspects = set(flipped.tolist()), audit.suspects().tolist()
    n_rows, found = len(audit), len(wrong.intersection(suspects))
    click.echo(f"{len(wrong)} of {n_rows:,} labels of handwritten digits were made wrong. The 10 worst suspects:")
    click.echo("   row  given  suggested  quality  label is")
    for row in suspects[:10]:
        truth = "wrong" if row in wrong else "right"
        given, suggested = audit.given[row], audit.suggested[row]
        click.echo(f"{row:6}  {given:5}  {suggested:9}  {audit.quality[row]:7.1%}  {truth}")
    click.echo(
        f"\n{len(suspects)} rows are suspect and {found} of them wrong: {found / max(len(suspects), 1):.0%} precision, "
        f"{found / len(wrong):.0%} recall."
    )


def _program() -> str:
    """What to type for this program: its path, if the name alone would not find it."""
    started, known = sys.argv[0], shutil.which("nearworth")
    by_path = Path(started).name.startswith("nearworth") and Path(started).is_file()
    if not by_path or (known is not None and Path(known).resolve() == Path(started).resolve()):
        return "nearworth"
    return shlex.quote(started)
