"""What can be typed: every command with its options and help text.

A command imports the function that does the work when it runs, so that `nearworth --help` loads
neither numpy nor pyarrow.
"""
# ruff: noqa: D301  (\b tells click not to wrap the examples)

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import click
from click import Argument, Choice, FloatRange, IntRange, Option

from nearworth.cli import options

RESULTS = "Where the {} go: .csv, .tsv, .parquet, .feather or .json; - is CSV on stdout."


def command(*parameters: click.Parameter) -> Callable[[Callable[..., None]], click.Command]:
    """A command that runs the decorated function and has its name and docstring."""

    def make(function: Callable[..., None]) -> click.Command:
        return click.Command(
            function.__name__,
            params=[*parameters],
            help=inspect.getdoc(function),
            callback=function,
        )

    return make


@command(
    *options.data(n_neighbors=5),
    options.CHECKPOINT,
    Option(
        ["--cluster"],
        metavar="ADDRESS",
        help="Work on the Dask cluster of this scheduler: tcp://...",
    ),
    Option(
        ["--scratch"],
        metavar="DIR",
        help="A folder that all workers can read, for the training data.",
    ),
    *options.output(RESULTS.format("values"), default="-"),
    options.json(),
)
def value(**given: Any) -> None:
    """Say what every row of TRAIN is worth.

    TRAIN is a CSV, TSV, JSON (also .gz), Parquet, Feather or Excel table, or an .npz with X and y.
    Writes one line per row, in the same order: row (from 0), the --id column, value,
    standard_error, rank (1 is the most valuable).

    \b
    nearworth value train.csv --target label --validation trusted.csv -o values.csv
    nearworth value train.parquet --target label --features 'emb_*' --metric cosine -o values.parquet
    nearworth value large.parquet --target label --checkpoint run/ -o values.parquet
    """  # noqa: E501
    from nearworth.cli.arguments import ValueOptions, typed
    from nearworth.cli.value import value

    value(typed(ValueOptions, given))


@command(
    *options.audit(),
    *options.SELECTION,
    *options.output(RESULTS.format("suspects"), default="-"),
    options.json(),
)
def audit(**given: Any) -> None:
    """List the rows of TRAIN whose labels are probably wrong, worst first.

    Writes row (from 0), the --id column, the given label, the suggested one, quality (low is bad),
    value, and why.

    \b
    nearworth audit train.csv --target label -o suspects.csv
    nearworth audit train.csv --target label --id name --max-fdr 0.2
    nearworth audit train.csv --target label --rule ranking --fraction 0.05 -o suspects.parquet
    """
    from nearworth.cli.arguments import SuspectTableOptions, typed
    from nearworth.cli.audit import audit

    audit(typed(SuspectTableOptions, given))


@command(
    *options.audit(),
    *options.SELECTION,
    *options.IMAGES,
    *options.output(
        "The page to write, .html; by default TRAIN-report.html in this folder.", default=""
    ),
    options.OPEN,
    options.json("Summary as JSON on stdout."),
)
def report(**given: Any) -> None:
    """Write a page to look at the suspects of TRAIN, decide on each, and export the decisions.

    One file that needs nothing else and sends nothing anywhere.

    \b
    nearworth report train.csv --target label --open
    nearworth report train.csv --target label --id name -o report.html
    nearworth report digits.npz --image-shape 28x28 -o report.html
    """
    from nearworth.cli.arguments import ReportOptions, typed
    from nearworth.cli.audit import report

    report(typed(ReportOptions, given))


@command(
    *options.data(n_neighbors=10, search="auto"),
    options.GROUPS,
    *options.IMAGES,
    *options.output("The page to write, .html, with a tab for each kind of finding.", default=""),
    options.OPEN,
    options.json("Summary and row numbers as JSON on stdout."),
)
def scan(**given: Any) -> None:
    """Look for wrong labels, duplicates, contradictions, outliers, leaks into --validation, and
    small classes.

    \b
    nearworth scan train.csv --target label --validation test.csv -o scan.html
    """
    from nearworth.cli.arguments import ScanOptions, typed
    from nearworth.cli.audit import scan

    scan(typed(ScanOptions, given))


@command(
    *options.data(n_neighbors=10),
    options.GROUPS,
    Option(
        ["--baseline"],
        default="nearworth.lock",
        metavar="FILE",
        type=options.PATH,
        help="What is known already.",
    ),
    Option(["--update"], is_flag=True, help="Accept the present state: write the baseline."),
    Option(
        ["--max-new-suspects"],
        default=0,
        type=IntRange(min=0),
        help="Accept this many new suspect labels.",
    ),
    Option(
        ["--max-new-duplicates"],
        default=0,
        type=IntRange(min=0),
        help="Accept this many new duplicates.",
    ),
    Option(
        ["--max-new-leaks"],
        default=0,
        type=IntRange(min=0),
        help="Accept this many new leaks of --validation.",
    ),
    Option(
        ["--max-fdr"],
        type=FloatRange(0, 1),
        help="At most this share of false positives among suspects.",
    ),
    Option(
        ["--format", "form"],
        default="text",
        type=Choice(["text", "json", "markdown", "sarif", "junit"]),
    ),
)
def check(**given: Any) -> None:
    """Fail with exit code 3 on findings in TRAIN that are not in the baseline, and name them.

    Finds wrong labels, duplicates and leaks among new and changed rows, and labels never seen
    before.

    \b
    nearworth check train.csv --target label --update
    nearworth check train.csv --target label --validation test.csv --format markdown
    """
    from nearworth.cli.arguments import CheckOptions, typed
    from nearworth.cli.check import check

    check(typed(CheckOptions, given))


@command(
    *options.audit(),
    Option(
        ["-n", "--rows", "number"],
        type=IntRange(min=1),
        help="How many rows to judge.  [default: 100 at most]",
    ),
    Option(["--seed"], default=0, type=IntRange(min=0), help="Seed of the random draw."),
    Option(
        ["--blind"], is_flag=True, help="Hide what the audit says about a row until it is judged."
    ),
    *options.IMAGES,
    *options.output("The page to write, .html."),
)
def review(**given: Any) -> None:
    """Draw rows of TRAIN at random and write a page to judge, one at a time, whether their labels
    are right.

    From the exported answers, `audit` and `report` estimate how many labels are wrong, and make
    lists that keep their promise. With --review, the page asks for further rows where they help
    most.

    \b
    nearworth review train.csv --target label --id name -n 100 -o review.html
    nearworth audit train.csv --target label --id name --review review-100-seed0.csv --max-fdr 0.1
    nearworth review train.csv --target label --id name --review review-100-seed0.csv -n 20 -o more.html
    """  # noqa: E501
    from nearworth.cli.arguments import ReviewOptions, typed
    from nearworth.cli.audit import review

    review(typed(ReviewOptions, given))


@command(
    *(option for option in options.data(n_neighbors=5) if option.name != "id_column"),
    Option(["--owner"], metavar="COL", required=True, help="Column with the owner of each row."),
    Option(["--budget"], metavar="AMOUNT", help="Split this amount among the owners, to the cent."),
    Option(
        ["--negative"],
        type=Choice(["zero", "charge", "error"]),
        default="zero",
        help="What negative values pay.",
    ),
    Option(
        ["--analyst"], is_flag=True, help="Give a share of the budget to whoever builds the model."
    ),
    *options.output(
        "Statements as .html; owners as .json, .csv, .parquet; - is CSV on stdout.", "-"
    ),
    options.json(),
)
def owners(**given: Any) -> None:
    """Say what the rows of each owner are worth together, with owners as players, and what each is
    paid.

    Duplicates gain an owner next to nothing. Without --validation, rows of TRAIN judge each other.

    \b
    nearworth owners train.csv -t label --owner seller --validation trusted.csv --budget 10000 -o statement.html
    nearworth owners train.csv -t label --owner seller -o may.json
    """  # noqa: E501
    from nearworth.cli.arguments import OwnersOptions, typed
    from nearworth.cli.value import owners

    # Owners name the rows as ids do.
    given["id_column"] = given["owner"]
    owners(typed(OwnersOptions, given))


@command(
    Argument(["run"], type=options.PATH),
    Argument(["qrels"], type=options.PATH),
    options.neighbors(10),
    options.semivalues("banzhaf"),
    *options.output(RESULTS.format("values"), default="-"),
    options.json(),
    options.QUIET,
)
def retrieval(**given: Any) -> None:
    """Say what every document of the lists in RUN is worth to the queries judged in QRELS.

    Both are TREC files: "query Q0 document rank score tag" and "query 0 document relevance".

    \b
    nearworth retrieval run.trec qrels.txt -o values.csv
    """
    from nearworth.cli.arguments import RetrievalOptions, typed
    from nearworth.cli.value import retrieval

    retrieval(typed(RetrievalOptions, given))


@command(
    Argument(["decisions"], type=options.PATH),
    Argument(["train"], type=options.PATH),
    *options.output("Where the corrected data go."),
    Option(
        ["-t", "--target"],
        metavar="COL",
        help="Column with the labels, if not the one named in DECISIONS.",
    ),
    Option(
        ["--keep/--no-keep"],
        default=True,
        help="Keep them in nearworth-decisions.json for the next report.",
    ),
    options.QUIET,
)
def apply(**given: Any) -> None:
    """Carry out the DECISIONS exported from a report on the data they were made on.

    Changes the labels you decided to change and removes the rows you decided to delete; everything
    else stays as it is. Refuses decisions made on other data.

    \b
    nearworth apply decisions.csv train.csv -o cleaned.csv
    """
    from nearworth.cli.arguments import ApplyOptions, typed
    from nearworth.cli.decisions import apply

    apply(typed(ApplyOptions, given))


@command(
    Option(
        ["--seed"], default=0, type=IntRange(min=0), help="Seed of the labels that are made wrong."
    ),
    Option(["-o", "--output", "folder"], default=".", metavar="DIR", help="Folder to write to."),
)
def demo(seed: int, folder: str) -> None:
    """Find wrong labels among handwritten digits.

    Takes the digits that come with scikit-learn, changes a tenth of the training labels, looks for
    the changed ones, and writes the data, the value of every row and a report.

    \b
    nearworth demo
    nearworth demo -o /tmp --seed 7
    """
    from nearworth.cli.audit import demo

    demo(seed, folder)


@command(
    Argument(["train"], type=options.PATH),
    Option(
        ["--for", "purpose"],
        type=Choice(["value", "audit"]),
        default="value",
        help="Which command to plan.",
    ),
    *options.TABLE,
    *options.model(n_neighbors=5),
)
def plan(**given: Any) -> None:
    """Say what a run would need, before anything runs: threads, memory and time.

    TRAIN is read and prepared as by `nearworth value`, and the rows of the --validation file are
    counted. Times come from a short trial on this machine, on some of your rows. --for audit gives
    the time of an audit, for each way to find neighbours.

    \b
    nearworth plan train.csv --target label --validation trusted.csv --max-memory 1GB
    nearworth plan train.csv --target label --for audit
    """
    from nearworth.cli.arguments import PlanOptions, typed
    from nearworth.cli.value import plan

    plan(typed(PlanOptions, given))


@command(
    Argument(["parts"], nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False)),
    *options.output("File to write: .npz (everything), .csv or .parquet (a table)."),
)
def merge(**given: Any) -> None:
    """Merge PARTS of a valuation, made on slices of the validation set, into one result.

    Parts come from `KNNShapley.partial(...).save(file)` or from a checkpoint folder
    (progress.part). Their order does not matter.

    \b
    nearworth merge a.part b.part -o values.parquet
    """
    from nearworth.cli.arguments import MergeOptions, typed
    from nearworth.cli.value import merge

    merge(typed(MergeOptions, given))


@command(
    Option(["--quick"], is_flag=True, help="Smaller data: seconds instead of a minute or two."),
)
def speed(quick: bool) -> None:
    """Compare the exact engine with what a good numpy user writes, as ratios within one run.

    Times are nanoseconds per (validation, training) pair, the best of a few runs.

    \b
    nearworth bench speed --quick
    """
    from nearworth.cli.bench import speed

    speed(quick)


bench = click.Group("bench", [speed], help="Measure this machine.")
ALL = (
    value,
    audit,
    report,
    scan,
    check,
    review,
    owners,
    retrieval,
    apply,
    demo,
    plan,
    merge,
    bench,
)
