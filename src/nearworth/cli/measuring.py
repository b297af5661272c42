"""plan, merge, bench: what work needs, work in parts, this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearworth.cli.config import config_option
from nearworth.cli.options import model_options, options, pop_model, table_options
from nearworth.cli.shell import BadInput


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="TRAIN | N_TRAIN N_VAL")
@click.option(
    "-d", "--columns", default=64, show_default=True, type=click.IntRange(min=1), help="Sizes: numbers per row."
)
@click.option("--classes", default=10, show_default=True, type=click.IntRange(min=1), help="Sizes: distinct labels.")
@click.option("--standard-errors", is_flag=True, help="Sizes: with standard errors, which `nearworth value` has.")
@options(*table_options(), *model_options(n_neighbors=5), config_option())
def plan(what: tuple[str, ...], columns: int, classes: int, standard_errors: bool, **given: Any) -> None:
    """Say what a valuation would need, before anything runs: threads, memory, time, and what would be cheaper.

    Of a file: TRAIN is read and prepared as `nearworth value` does it, of the --validation file rows are counted.
    Of sizes: N_TRAIN rows valued on N_VAL validation rows. Times come from a short trial on this machine, on some of
    your rows or on random ones.

    \b
    nearworth plan train.csv --target label --validation trusted.csv
    nearworth plan 1000000 1000 -d 128 --max-memory 1GB
    """  # noqa: D301
    model = pop_model(given) | {"task": given.pop("task")}
    if len(what) == 2 and all(size.isdecimal() and int(size) > 0 for size in what):
        _refuse_file_options(given)
        from nearworth.cli.plan_shape import plan_for

        model["standard_errors"] = standard_errors
        click.echo(plan_for(int(what[0]), int(what[1]), columns, classes, model))
        return
    if len(what) > 1:
        raise click.UsageError(f"{' '.join(what)!r} is neither one file nor two sizes, N_TRAIN and N_VAL.")
    from nearworth.cli.data import Wanted
    from nearworth.cli.planning import plan_of_file

    click.echo(plan_of_file(Wanted(what[0], task=model["task"], **given), model))


def _refuse_file_options(given: dict[str, Any]) -> None:
    """Sizes have no columns to name."""
    about = {"target": "--target", "validation": "--validation", "id_column": "--id", "ignore": "--ignore",
             "features": "--features"}  # fmt: skip
    for name, option in about.items():
        if given[name]:
            raise click.UsageError(f"{option} is about a file; sizes take -d and --classes.")


@click.command()
@click.argument("parts", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("-o", "--output", required=True, help="File to write: .npz (everything), .csv or .parquet (a table).")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def merge(parts: tuple[str, ...], output: str, force: bool) -> None:
    r"""Merge PARTS of a valuation, made on slices of the validation set, into the values.

    Parts come from `KNNShapley.partial(...).save(file)` or from a checkpoint folder (progress.part). Their order does
    not matter.

    \b
    Example: nearworth merge a.part b.part -o values.parquet
    """
    if Path(output).exists() and not force:
        raise BadInput(f"{output}: exists already. Use --force to replace it, or another name.")
    from nearworth.cli.merge import merge_files

    try:
        click.echo(repr(merge_files(parts, output)))
    except (ValueError, OSError) as error:
        raise BadInput(str(error)) from error


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
    """  # noqa: D301
    from nearworth.cli.speed import speed as rows

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
        raise BadInput(str(error)) from error
    click.echo(f"\n{LEGEND}\n{agreement(rows)}")
    if json_file is not None:
        write_json(rows, json_file)
    if not any(row.scores for row in rows):
        raise BadInput("None of the datasets could be had.")
