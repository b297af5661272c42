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
from nearworth.cli.value import value_columns
from nearworth.tables import InputError
from nearworth.tables.write import write_columns

TRAIN, VALUES, REPORT = "nearworth-demo-train.csv", "nearworth-demo-values.csv", "nearworth-demo-report.html"
AUDIT_NEIGHBORS = 10  # default of `nearworth detect`


def demo(n_neighbors: int, seed: int, folder: str) -> None:
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: there is no such folder to write to.")
    X, y, X_val, y_val, flipped = nw.datasets.noisy_digits(random_state=seed)
    audit = nw.audit_labels(X, y, n_neighbors)
    _print_suspects(audit, flipped)
    valuation = nw.KNNShapley(n_neighbors, standard_errors=True).fit(X, y).value(X_val, y_val)
    train, values, report = (str(Path(folder) / name) for name in (TRAIN, VALUES, REPORT))
    write_columns({"row": np.arange(len(y))} | value_columns(valuation), values)
    write_columns({f"pixel_{i:02}": pixel.astype(np.int64) for i, pixel in enumerate(X.T)} | {"label": y}, train)
    audit.report(report, image_shape=(8, 8), title="handwritten digits")
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
    started, found = Path(sys.argv[0]), Path(shutil.which("nearworth") or "")
    by_path = started.name.startswith("nearworth") and started.is_file() and started.resolve() != found.resolve()
    return shlex.quote(sys.argv[0]) if by_path else "nearworth"
