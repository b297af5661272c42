"""value, detect, report, apply, demo: from data to corrected data."""

from __future__ import annotations

from typing import Any

import click

from nearworth.cli.config import config_option
from nearworth.cli.options import (
    PATH,
    cluster_options,
    data_options,
    json_option,
    output_options,
    pop_model,
    selection_options,
)


@click.command()
@data_options(n_neighbors=5)
@click.option("--checkpoint", metavar="DIR", help="Keep the work here; the same command goes on where it stopped.")
@click.option(
    "--checkpoint-interval",
    default=30.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds between two writes of the checkpoint.",
)
@cluster_options()
@output_options("Where the values go: .csv, .tsv, .parquet, .feather or .json; - is CSV on stdout.")
@json_option()
def value(**given: Any) -> None:
    """Say what every row of TRAIN is worth.

    TRAIN is a CSV, TSV, Parquet or Feather table, or an .npz with X and y. Writes one line per row, in their order:
    row (from 0), the --id column, value, standard_error, rank (1 is the most valuable).

    \b
    nearworth value train.csv --target label --validation trusted.csv -o values.csv
    nearworth value train.parquet --target label --features 'emb_*' --metric cosine -o values.parquet
    nearworth value houses.csv --target price --task regression --ignore notes
    nearworth value large.parquet --target label --checkpoint run/ --cluster local -o values.parquet
    """  # noqa: D301
    from nearworth.cli.valuing import value as run

    run(_wanted(given), pop_model(given), **given)


@click.command()
@data_options(n_neighbors=10)
@selection_options()
@output_options("Where the suspects go: .csv, .tsv, .parquet, .feather or .json; - is CSV on stdout.")
@json_option()
def detect(**given: Any) -> None:
    """List the rows of TRAIN whose labels are probably wrong, worst first.

    Writes row (from 0), the --id column, the given label, the suggested one, quality (low is bad), value, and why.

    \b
    nearworth detect train.csv --target label -o suspects.csv
    nearworth detect train.csv --target label --id name --max-fdr 0.2
    nearworth detect train.csv --target label --rule ranking --fraction 0.05 -o suspects.parquet
    """  # noqa: D301
    from nearworth.cli.detecting import detect as run

    parameters = pop_model(given) | {"task": given["task"]}
    selection = _selection(given)
    run(_wanted(given), parameters, selection, **given)


@click.command()
@data_options(n_neighbors=10)
@selection_options()
@click.option("--image-shape", metavar="HxW", help="Rows are images: 28x28, or 32x32x3 in colour.")
@click.option("--image-column", metavar="COL", help="Column with image files, relative to TRAIN.")
@output_options("The page to write, .html.", default=None)
@json_option("Summary as JSON on stdout.")
def report(**given: Any) -> None:
    """Write a page to look at the suspects of TRAIN, decide on each, and export the decisions.

    One file that needs nothing else and sends nothing anywhere.

    \b
    nearworth report train.csv --target label --id name -o report.html
    nearworth report digits.npz --image-shape 28x28 -o report.html
    """  # noqa: D301
    from nearworth.cli.reporting import report as run

    parameters = pop_model(given) | {"task": given["task"]}
    selection = _selection(given)
    run(_wanted(given), parameters, selection, **given)


@click.command()
@click.argument("decisions", type=PATH)
@click.argument("train", type=PATH)
@output_options("Where the corrected data go.", default=None)
@click.option("-t", "--target", metavar="COL", help="Column with the labels, if not the one named in DECISIONS.")
@click.option("--verbatim", is_flag=True, help="Write labels as decided, even if a spreadsheet would run them.")
@click.option("--quiet", "-q", is_flag=True, help="Only errors on stderr.")
@config_option()
def apply(**given: Any) -> None:
    """Carry out the DECISIONS exported from a report on the data they were made on.

    Labels that were changed are written, everything else stays as it is. Refuses decisions made on other data.

    \b
    nearworth apply decisions.csv train.csv -o cleaned.csv
    nearworth apply decisions.json train.parquet -o cleaned.parquet
    """  # noqa: D301
    from nearworth.cli.applying import apply as run

    run(**given)


@click.command()
@click.option(
    "-k", "n_neighbors", default=10, show_default=True, type=click.IntRange(min=1), help="Number of neighbours."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Which labels are made wrong.")
@click.option("-o", "--output", "folder", default=".", metavar="DIR", help="Folder to write to; by default this one.")
def demo(n_neighbors: int, seed: int, folder: str) -> None:
    """Find wrong labels among handwritten digits.

    Takes the digits that come with scikit-learn, changes a tenth of the training labels, looks for the changed ones,
    and writes the data, the value of every row and a report.

    \b
    nearworth demo
    nearworth demo -o /tmp --seed 7
    """  # noqa: D301
    from nearworth.cli.demonstrating import demo as run

    run(n_neighbors, seed, folder)


def _pop(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: given.pop(name) for name in names}


def _selection(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _pop(given, "rule", "fraction", "max_fdr").items() if value is not None}


def _wanted(given: dict[str, Any]) -> Any:
    from dataclasses import fields

    from nearworth.cli.data import Wanted

    return Wanted(**_pop(given, *(field.name for field in fields(Wanted) if field.name in given)))
