"""What can be typed: every command with its options and help text. The work is imported when a command runs."""
# ruff: noqa: D301  (\b tells click not to wrap the examples)

from __future__ import annotations

from typing import Any

import click

from nearworth.cli.config import config_option
from nearworth.cli.options import (
    PATH,
    QUIET,
    SELECTION,
    TABLE,
    data_options,
    json_option,
    model_options,
    neighbors_option,
    output_options,
)


@click.command()
@data_options(n_neighbors=5)
@click.option("--checkpoint", metavar="DIR", help="Store progress here; the same command goes on where it stopped.")
@click.option(
    "--checkpoint-interval",
    default=30.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds between two writes of the checkpoint.",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Work on a Dask cluster: tcp://..., tls://..., or local for one on this machine (--jobs workers).",
)
@click.option("--scratch", metavar="DIR", help="A folder that all workers can read, for the training data.")
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
    """
    from nearworth.cli.value import value as run

    run(**given)


@click.command()
@data_options(n_neighbors=10)
@SELECTION
@output_options("Where the suspects go: .csv, .tsv, .parquet, .feather or .json; - is CSV on stdout.")
@json_option()
def detect(**given: Any) -> None:
    """List the rows of TRAIN whose labels are probably wrong, worst first.

    Writes row (from 0), the --id column, the given label, the suggested one, quality (low is bad), value, and why.

    \b
    nearworth detect train.csv --target label -o suspects.csv
    nearworth detect train.csv --target label --id name --max-fdr 0.2
    nearworth detect train.csv --target label --rule ranking --fraction 0.05 -o suspects.parquet
    """
    from nearworth.cli.detect import detect as run

    run(**given)


@click.command()
@data_options(n_neighbors=10)
@SELECTION
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
    """
    from nearworth.cli.detect import report as run

    run(**given)


@click.command()
@click.argument("decisions", type=PATH)
@click.argument("train", type=PATH)
@output_options("Where the corrected data go.", default=None)
@click.option("-t", "--target", metavar="COL", help="Column with the labels, if not the one named in DECISIONS.")
@click.option("--verbatim", is_flag=True, help="Write labels as decided, even if a spreadsheet would run them.")
@QUIET
@config_option()
def apply(**given: Any) -> None:
    """Carry out the DECISIONS exported from a report on the data they were made on.

    Labels that were changed are written, everything else stays as it is. Refuses decisions made on other data.

    \b
    nearworth apply decisions.csv train.csv -o cleaned.csv
    nearworth apply decisions.json train.parquet -o cleaned.parquet
    """
    from nearworth.cli.apply import apply as run

    run(**given)


@click.command()
@neighbors_option(10)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Which labels are made wrong.")
@click.option("-o", "--output", "folder", default=".", metavar="DIR", help="Folder to write to; by default this one.")
def demo(**given: Any) -> None:
    """Find wrong labels among handwritten digits.

    Takes the digits that come with scikit-learn, changes a tenth of the training labels, looks for the changed ones,
    and writes the data, the value of every row and a report.

    \b
    nearworth demo
    nearworth demo -o /tmp --seed 7
    """
    from nearworth.cli.demo import demo as run

    run(**given)


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="TRAIN | N_TRAIN N_VAL")
@click.option(
    "-d", "--columns", default=64, show_default=True, type=click.IntRange(min=1), help="Sizes: numbers per row."
)
@click.option("--classes", default=10, show_default=True, type=click.IntRange(min=1), help="Sizes: distinct labels.")
@click.option("--standard-errors", is_flag=True, help="Sizes: with standard errors, which `nearworth value` has.")
@TABLE
@model_options(n_neighbors=5)
@config_option()
def plan(**given: Any) -> None:
    """Say what a valuation would need, before anything runs: threads, memory, time, and what would be cheaper.

    Of a file: TRAIN is read and prepared as `nearworth value` does it, of the --validation file rows are counted.
    Of sizes: N_TRAIN rows valued on N_VAL validation rows. Times come from a short trial on this machine, on some of
    your rows or on random ones.

    \b
    nearworth plan train.csv --target label --validation trusted.csv
    nearworth plan 1000000 1000 -d 128 --max-memory 1GB
    """
    from nearworth.cli.value import plan as run

    click.echo(run(**given))


@click.command()
@click.argument("parts", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@output_options("File to write: .npz (everything), .csv or .parquet (a table).", default=None)
def merge(**given: Any) -> None:
    """Merge PARTS of a valuation, made on slices of the validation set, into the values.

    Parts come from `KNNShapley.partial(...).save(file)` or from a checkpoint folder (progress.part). Their order does
    not matter.

    \b
    nearworth merge a.part b.part -o values.parquet
    """
    from nearworth.cli.value import merge as run

    click.echo(repr(run(**given)))


@click.group()
def bench() -> None:
    """Measure this machine, or repeat the paper's experiment."""


@bench.command()
@click.option("--quick", is_flag=True, help="Smaller data: seconds instead of a minute or two.")
def speed(quick: bool) -> None:
    """Compare the exact engine with what a good numpy user writes, as ratios within one run.

    Times are nanoseconds per (validation, training) pair, the best of a few runs.

    \b
    nearworth bench speed --quick
    """
    from nearworth.cli.bench import print_speed

    print_speed(quick)


@bench.command()
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False),
    help="Folder with the data. Without it: $NEARWORTH_DATA, else OpenML.",
)
@click.option(
    "--protocol",
    type=click.Choice(["table", "released"]),
    default="table",
    show_default=True,
    help="How rows are drawn: as for the printed digits, or as in the authors' published code.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, writable=True), help="Also write the rows here.")
def paper(**given: Any) -> None:
    """Repeat Table 1 of Wang & Jia (2023) beside its printed digits.

    F1 of finding 200 flipped among 2,000 labels (K = 5): original and soft-label values, by ranking (R) and by cluster
    (C). Half a minute.

    \b
    nearworth bench paper --json table1.json
    """
    from nearworth.cli.bench import print_paper

    print_paper(**given)


ALL = (value, detect, report, apply, demo, plan, merge, bench)
