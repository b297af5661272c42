"""nearworth demo: detect, report and value on handwritten digits, some with wrong labels."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
import numpy as np

import nearworth as nw
from nearworth.cli.value import value_columns
from nearworth.tables import InputError
from nearworth.tables.write import write_columns

FILES = ("nearworth-demo-train.csv", "nearworth-demo-values.csv", "nearworth-demo-report.html")
K = 10  # the default of `nearworth detect`


def demo(seed: int, folder: str) -> None:
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: there is no such folder to write to.")
    X, y, X_val, y_val, flipped = nw.datasets.noisy_digits(random_state=seed)
    audit = nw.audit_labels(X, y, K)
    _print_suspects(audit, flipped)
    valuation = nw.KNNShapley(K, standard_errors=True).fit(X, y).value(X_val, y_val)
    train, values, report = (str(Path(folder) / name) for name in FILES)
    write_columns({"row": np.arange(len(y))} | value_columns(valuation), values)
    write_columns({f"pixel_{i:02}": pixel.astype(np.int64) for i, pixel in enumerate(X.T)} | {"label": y}, train)
    audit.report(report, image_shape=(8, 8), title="handwritten digits")
    click.echo(f"\nWhat every row is worth  {values}")
    click.echo(f"Look and decide          {report}  (open it in a browser)")
    click.echo(f"The data                 {train}")
    click.echo("\nTry next, which lists the same suspects, then with a table of yours:")
    click.echo(f"  nearworth detect {shlex.quote(train)} --target label --features 'pixel_*' -o suspects.csv")
    click.echo("  nearworth report --help")


def _print_suspects(audit: nw.LabelAudit, flipped: Any) -> None:
    wrong, suspects = set(flipped.tolist()), audit.suspects().tolist()
    found = len(wrong.intersection(suspects))
    click.echo(f"{len(wrong)} of {len(audit):,} labels of handwritten digits were made wrong. The 10 worst suspects:")
    click.echo("   row  given  suggested  quality  label is")
    for row in suspects[:10]:
        given, suggested, truth = audit.given[row], audit.suggested[row], "wrong" if row in wrong else "right"
        click.echo(f"{row:6}  {given:5}  {suggested:9}  {audit.quality[row]:7.1%}  {truth}")
    precision, recall = found / max(len(suspects), 1), found / len(wrong)
    said = f"{precision:.0%} precision, {recall:.0%} recall"
    click.echo(f"\n{len(suspects)} rows are suspect and {found} of them wrong: {said}.")
