"""nearworth demo: the main job on digits with wrong labels, from data to report."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np

from nearworth.audit.audit import audit_labels
from nearworth.audit.result import LabelAudit
from nearworth.cli.data import Data
from nearworth.cli.reporting import write_page
from nearworth.cli.telling import tell_compiling
from nearworth.cli.valuing import value_columns
from nearworth.datasets import noisy_digits
from nearworth.estimator import KNNShapley
from nearworth.tables.errors import InputError
from nearworth.tables.write import write_columns

TRAIN, VALUES, REPORT = "nearworth-demo-train.csv", "nearworth-demo-values.csv", "nearworth-demo-report.html"
AUDIT_NEIGHBORS = 10  # as `nearworth detect` has it without -k


def demo(n_neighbors: int, seed: int, folder: str) -> None:
    """Make labels wrong, find them, and leave something to look at."""
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: there is no such folder to write to.")
    digits = noisy_digits(random_state=seed)
    data = Data(digits.X, digits.y, digits.X_val, digits.y_val, "label")
    tell_compiling(quiet=False, always=True)
    audit = audit_labels(data.X, data.y, n_neighbors)
    _print_suspects(audit, digits.flipped)
    est = KNNShapley(n_neighbors, standard_errors=True).fit(data.X, data.y)
    columns = data.names() | value_columns(est.value(data.X_val, data.y_val))
    paths = {name: str(Path(folder) / name) for name in (TRAIN, VALUES, REPORT)}
    write_columns(columns, paths[VALUES])
    write_columns(_table(data), paths[TRAIN])
    write_page(data, audit, {}, paths[REPORT], "handwritten digits", "8x8")
    _print_next(paths, n_neighbors)


def _print_suspects(audit: LabelAudit, flipped: Any) -> None:
    wrong, suspects = set(flipped.tolist()), audit.suspects().tolist()
    n_rows, found = len(audit.given), len(wrong.intersection(suspects))
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


def _table(data: Data) -> dict[str, Any]:
    pixels = {f"pixel_{column:02}": data.X[:, column].astype(np.int64) for column in range(data.X.shape[1])}
    return pixels | {"label": data.y}


def _print_next(paths: dict[str, str], n_neighbors: int) -> None:
    click.echo(f"\nWhat every row is worth  {paths[VALUES]}")
    click.echo(f"Look and decide          {paths[REPORT]}  (open it in a browser)")
    click.echo(f"The data                 {paths[TRAIN]}")
    click.echo("\nTry next, which lists the same suspects, then with a table of yours:")
    options = f"--target label --features 'pixel_*'{'' if n_neighbors == AUDIT_NEIGHBORS else f' -k {n_neighbors}'}"
    click.echo(f"  {_program()} detect {shlex.quote(paths[TRAIN])} {options} -o suspects.csv")
    click.echo(f"  {_program()} report --help")


def _program() -> str:
    """What to type for this program: its path, where the name alone would not find it."""
    started, known = sys.argv[0], shutil.which("nearworth")
    by_path = Path(started).name.startswith("nearworth") and Path(started).is_file()
    if not by_path or (known is not None and Path(known).resolve() == Path(started).resolve()):
        return "nearworth"
    return shlex.quote(started)
