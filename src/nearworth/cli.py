"""The command line: arguments in, calls out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearworth._version import __version__
from nearworth.commands.options import (
    cluster_options,
    config_option,
    data_options,
    json_option,
    output_options,
    parse_semivalue,
    selection_options,
)
from nearworth.commands.shell import Shell

MAIN_PARAMETERS = ("n_neighbors", "metric", "max_memory", "n_jobs")


@click.group(cls=Shell, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nearworth")
def main() -> None:
    """What each training row is worth to a nearest-neighbour model, and which labels are wrong.

    \b
    nearworth demo                                            see it work
    nearworth detect train.csv --target label -o suspects.csv   which labels are wrong
    nearworth report train.csv --target label -o report.html    look at them and decide
    nearworth apply decisions.csv train.csv -o cleaned.csv      correct them
    nearworth value train.csv --target label -o values.csv      what every row is worth
    """  # noqa: D301


@main.command()
@data_options(n_neighbors=5)
@click.option("--utility", type=click.Choice(["soft", "original"]), default="soft", show_default=True)
@click.option(
    "--semivalue", default="shapley", show_default=True, metavar="NAME", help="shapley, banzhaf, loo or beta:A,B."
)
@click.option(
    "--search",
    type=click.Choice(["exact", "auto", "lsh", "faiss"]),
    default="exact",
    show_default=True,
    help="How neighbours are found; lsh and faiss need --max-error.",
)
@click.option("--max-error", type=click.FloatRange(min=0, min_open=True), help="Certified error you accept.")
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
    from nearworth.commands.valuing import value as run

    parameters = _pop(given, *MAIN_PARAMETERS, "utility", "semivalue", "search", "max_error")
    parameters["semivalue"] = parse_semivalue(parameters["semivalue"])
    run(_wanted(given), parameters, **given)


@main.command()
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
    from nearworth.commands.detecting import detect as run
    from nearworth.findings import Selection

    parameters = _pop(given, *MAIN_PARAMETERS) | {"task": given["task"]}
    selection = Selection(**_pop(given, "rule", "fraction", "max_fdr"))
    run(_wanted(given), parameters, selection, **given)


@main.command()
@data_options(n_neighbors=10)
@selection_options()
@click.option("--image-shape", metavar="HxW", help="Rows are images: 28x28, or 32x32x3 in colour.")
@click.option("--image-column", metavar="COL", help="Column with image files, relative to TRAIN.")
@output_options("The page to write, .html.", default=None)
def report(**given: Any) -> None:
    """Write a page to look at the suspects of TRAIN, decide on each, and export the decisions.

    One file that needs nothing else and sends nothing anywhere.

    \b
    nearworth report train.csv --target label --id name -o report.html
    nearworth report digits.npz --image-shape 28x28 -o report.html
    """  # noqa: D301
    from nearworth.commands.reporting import report as run
    from nearworth.findings import Selection

    parameters = _pop(given, *MAIN_PARAMETERS) | {"task": given["task"]}
    selection = Selection(**_pop(given, "rule", "fraction", "max_fdr"))
    run(_wanted(given), parameters, selection, **given)


def _pop(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: given.pop(name) for name in names}


def _wanted(given: dict[str, Any]) -> Any:
    from dataclasses import fields

    from nearworth.commands.data import Wanted

    return Wanted(**_pop(given, *(field.name for field in fields(Wanted) if field.name in given)))


@main.command()
@click.argument("decisions", type=click.Path())
@click.argument("train", type=click.Path())
@output_options("Where the corrected data go.", default=None)
@click.option("-t", "--target", metavar="COL", help="Column with the labels, if not the one named in DECISIONS.")
@click.option("--verbatim", is_flag=True, help="Leave cells as they are that a spreadsheet would run as formulas.")
@click.option("--quiet", "-q", is_flag=True, help="Only errors on stderr.")
@config_option()
def apply(**given: Any) -> None:
    """Carry out the DECISIONS exported from a report on the data they were made on.

    Labels that were changed are written, everything else stays as it is. Refuses decisions made on other data.

    \b
    nearworth apply decisions.csv train.csv -o cleaned.csv
    nearworth apply decisions.json train.parquet -o cleaned.parquet
    """  # noqa: D301
    from nearworth.commands.applying import apply as run

    run(**given)


@main.command()
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
    from nearworth.commands.demonstrating import demo as run

    run(n_neighbors, seed, folder)


@main.command()
@click.argument("n_train", type=click.IntRange(min=1))
@click.argument("n_val", type=click.IntRange(min=1))
@click.option("-d", "--features", default=64, show_default=True, type=click.IntRange(min=1), help="Numbers in a row.")
@click.option("--classes", default=10, show_default=True, type=click.IntRange(min=1), help="Distinct labels.")
@click.option("-k", "n_neighbors", default=5, show_default=True, type=click.IntRange(min=1), help="Neighbours.")
@click.option(
    "--task", default="classification", show_default=True, type=click.Choice(["classification", "regression"])
)
@click.option("--metric", default="euclidean", show_default=True, help="Distance between rows.")
@click.option("--standard-errors", is_flag=True, help="With standard errors.")
@click.option("--max-memory", help="Working memory, such as 2GB; by default a quarter of what is free.")
@click.option("--jobs", "n_jobs", type=int, help="Threads; by default all cores.")
def plan(n_train: int, n_val: int, features: int, classes: int, **parameters: Any) -> None:
    """Say what a valuation of N_TRAIN rows on N_VAL validation rows would need, before anything runs.

    Times come from a trial on random rows of the same shape, on this machine. From Python, `est.plan(n_val)` says the
    same of your own data.

    \b
    Example: nearworth plan 1000000 1000 -d 128 --max-memory 1GB
    """  # noqa: D301
    from nearworth.planning import plan_for

    try:
        click.echo(plan_for(n_train, n_val, features, classes, parameters))
    except ValueError as error:
        raise click.UsageError(str(error)) from error


@main.command()
@click.argument("parts", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("-o", "--output", required=True, help="File to write: .npz (everything), .csv or .parquet (a table).")
def merge(parts: tuple[str, ...], output: str) -> None:
    r"""Merge PARTS of a valuation, made on slices of the validation set, into the values.

    Parts come from `KNNShapley.partial(...).save(file)` or from a checkpoint folder (progress.part). Their order does
    not matter.

    \b
    Example: nearworth merge a.part b.part -o values.parquet
    """
    from nearworth.merging import merge_files

    try:
        click.echo(repr(merge_files(parts, output)))
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error


@main.group()
def bench() -> None:
    """Measure this machine, or repeat the paper's experiment."""


@bench.command()
@click.option("--quick", is_flag=True, help="Smaller data: seconds instead of a minute or two.")
def speed(quick: bool) -> None:
    """Compare the exact engine with what a good numpy user writes, as ratios within one run.

    Times are nanoseconds per (validation, training) pair, the best of a few runs.

    \b
    nearworth bench speed --quick
    """  # noqa: D301
    from nearworth.benchmarking import speed as rows

    click.echo(f"{'first / second':<78} {'first':>8} {'second':>8} {'ratio':>7}   wanted")
    for row in rows(quick):
        click.echo(f"{row.what:<78} {row.first:8.2f} {row.second:8.2f} {row.ratio:7.2f}   {row.aim}")


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
def paper(data: str | None, protocol: str, json_file: str | None) -> None:
    """Repeat Table 1 of Wang & Jia (2023) beside its printed digits.

    F1 of finding 200 flipped among 2,000 labels (K = 5): original and soft-label values, by ranking (R) and by cluster
    (C). Half a minute.

    \b
    nearworth bench paper --json table1.json
    """  # noqa: D301
    from nearworth.paper import HEADER, LEGEND, agreement, table1, write_json

    if json_file is not None and not Path(json_file).absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder for {json_file!r}.", param_hint="--json")
    click.echo(HEADER)
    rows = []
    try:
        for row in table1(data, protocol):  # type: ignore[arg-type]
            rows.append(row)
            click.echo(str(row))
    except (ValueError, ImportError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"\n{LEGEND}\n{agreement(rows)}")
    if json_file is not None:
        write_json(rows, json_file)
    if not any(row.scores for row in rows):
        raise click.ClickException("None of the datasets could be had.")
