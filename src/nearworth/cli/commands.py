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
from click import Argument, Choice, FloatRange, IntRange

from nearworth.cli import options
from nearworth.cli.options import Option, Section

TABLES = ".csv, .tsv, .parquet, .feather, or .json"
RESULTS = "{} as " + TABLES + ". Default: CSV on stdout."
SUMMARY = "Print a summary as JSON on stdout."


def command(
    summary: str, *sections: Section, hidden: bool = False
) -> Callable[[Callable[..., None]], click.Command]:
    """A command that runs the decorated function and has its name and docstring.

    The summary is its line in `nearworth --help`.
    """

    def make(function: Callable[..., None]) -> click.Command:
        return options.Command(
            function.__name__,
            sections,
            help=inspect.getdoc(function),
            short_help=summary,
            hidden=hidden,
            callback=function,
        )

    return make


# The data of commands that audit labels.
AUDIT_INPUT = Section(
    "Input",
    [
        options.TRAIN,
        options.TARGET,
        options.ID,
        options.IGNORE,
        options.FEATURES,
        options.GROUPS,
        options.validation("Rows with trusted labels, as extra evidence."),
        options.REVIEW,
        options.TASK,
    ],
)
# The data of commands that also search for leaks.
SCAN_INPUT = Section(
    "Input",
    [
        options.TRAIN,
        options.TARGET,
        options.ID,
        options.IGNORE,
        options.FEATURES,
        options.GROUPS,
        options.validation("Rows with trusted labels. Also searched for leaks."),
        options.TASK,
    ],
)
AUDIT_ADVANCED = options.audit_advanced("auto", options.WITH_MODELS, options.CHECKPOINT)


@command(
    "Compute the value of every row.",
    Section(
        "Input",
        [
            options.TRAIN,
            options.TARGET,
            options.ID,
            options.IGNORE,
            options.FEATURES,
            options.validation("Rows with trusted labels. Values are computed on them."),
            options.TASK,
        ],
    ),
    options.values(),
    Section(
        "Output",
        [
            *options.output(RESULTS.format("Values"), default="-"),
            options.json(),
            options.QUIET,
            options.DRY_RUN,
        ],
    ),
    Section(
        "Advanced",
        [
            *options.value_search(),
            *options.PREPARATION,
            options.CHECKPOINT,
            Option(
                ["--cluster"],
                metavar="ADDRESS",
                help="Compute on the Dask cluster of this scheduler: tcp://...",
            ),
            Option(
                ["--scratch"],
                metavar="DIR",
                help="Folder for the training data that all workers can read.",
            ),
            *options.MACHINE,
        ],
    ),
)
def value(**given: Any) -> None:
    """Compute the value of every row of TRAIN.

    TRAIN is a CSV, TSV, JSON, Parquet, Feather, or Excel table, or an .npz file with X and y. The
    output has one line per row, in the same order: row (from 0), the --id column, value,
    standard_error, and rank (1 is the most valuable).

    Without --validation, values are leave-one-out over TRAIN.

    \b
    Examples:
      nearworth value train.csv -t label --validation trusted.csv -o values.csv
      nearworth value train.parquet -t label --features 'emb_*' --metric cosine
      nearworth value large.parquet -t label --checkpoint run/ -o values.parquet
    """
    from nearworth.cli.arguments import ValueOptions, typed
    from nearworth.cli.value import value

    value(typed(ValueOptions, given))


@command(
    "List the labels that are probably wrong.",
    AUDIT_INPUT,
    options.SELECTION,
    Section(
        "Output",
        [
            *options.output(RESULTS.format("Suspects"), default="-"),
            options.json(),
            options.QUIET,
            options.DRY_RUN,
        ],
    ),
    AUDIT_ADVANCED,
)
def audit(**given: Any) -> None:
    """List the rows of TRAIN whose labels are probably wrong, worst first.

    TRAIN is a CSV, TSV, JSON, Parquet, Feather, or Excel table, or an .npz file with X and y. The
    output has row (from 0), the --id column, the given label, the suggested label, quality (the
    probability that the label is right), value, and why.

    \b
    Examples:
      nearworth audit train.csv -t label -o suspects.csv
      nearworth audit train.csv -t label --id name --max-fdr 0.2
      nearworth audit train.csv -t label --fraction 0.05 -o suspects.parquet
    """
    from nearworth.cli.arguments import SuspectTableOptions, typed
    from nearworth.cli.audit import audit

    audit(typed(SuspectTableOptions, given))


@command(
    "Review doubtful labels on a page.",
    AUDIT_INPUT,
    options.SELECTION,
    Section(
        "Output",
        [
            *options.output(
                "Page to write. Default: TRAIN-report.html in the current folder.", default=""
            ),
            options.OPEN,
            *options.IMAGES,
            options.json(SUMMARY),
            options.QUIET,
            options.DRY_RUN,
        ],
    ),
    AUDIT_ADVANCED,
)
def report(**given: Any) -> None:
    """Write a page where you review doubtful labels and export your decisions.

    TRAIN is a CSV, TSV, JSON, Parquet, Feather, or Excel table, or an .npz file with X and y. The
    page is a single HTML file and opens no network connection. 'nearworth apply' writes the
    corrected data from your decisions.

    \b
    Examples:
      nearworth report train.csv -t label --open
      nearworth report train.csv -t label --id name -o report.html
      nearworth report digits.npz --image-shape 28x28 --open
    """
    from nearworth.cli.arguments import ReportOptions, typed
    from nearworth.cli.audit import report

    report(typed(ReportOptions, given))


@command(
    "Also find duplicates, outliers, and leaks.",
    SCAN_INPUT,
    Section(
        "Output",
        [
            *options.output("Page to write. Default: no page.", default=""),
            options.OPEN,
            *options.IMAGES,
            options.json("Print a summary and row numbers as JSON on stdout."),
            options.QUIET,
            options.DRY_RUN,
        ],
    ),
    options.audit_advanced("auto"),
)
def scan(**given: Any) -> None:
    """Find label errors, duplicates, conflicting labels, outliers, leaks, and small classes.

    Leaks are rows of TRAIN that are also in the --validation file. The page has a tab for each kind
    of finding.

    \b
    Examples:
      nearworth scan train.csv -t label
      nearworth scan train.csv -t label --validation test.csv -o scan.html
    """
    from nearworth.cli.arguments import ScanOptions, typed
    from nearworth.cli.audit import scan

    scan(typed(ScanOptions, given))


@command(
    "Fail on new findings, for CI.",
    SCAN_INPUT,
    Section(
        "Findings",
        [
            Option(
                ["--baseline"],
                default="nearworth.lock",
                metavar="FILE",
                type=options.PATH,
                help="File with the accepted rows and findings.",
            ),
            Option(
                ["--update"],
                is_flag=True,
                help="Accept the present findings and write the baseline.",
            ),
            Option(
                ["--max-new-suspects"],
                metavar="N",
                default=0,
                type=IntRange(min=0),
                help="Accept this many new suspect labels.",
            ),
            Option(
                ["--max-new-duplicates"],
                metavar="N",
                default=0,
                type=IntRange(min=0),
                help="Accept this many new duplicates.",
            ),
            Option(
                ["--max-new-leaks"],
                metavar="N",
                default=0,
                type=IntRange(min=0),
                help="Accept this many new leaks of --validation.",
            ),
            Option(
                ["--max-fdr"],
                metavar="RATE",
                type=FloatRange(0, 1),
                help="Limit the expected false discovery rate of suspects to this.",
            ),
        ],
    ),
    Section(
        "Output",
        [
            Option(
                ["--format", "form"],
                default="text",
                type=Choice(["text", "json", "markdown", "sarif", "junit"]),
                help="Format of the findings on stdout.",
            ),
            options.QUIET,
            options.DRY_RUN,
        ],
    ),
    options.audit_advanced("exact"),
)
def check(**given: Any) -> None:
    """Fail with exit code 3 on findings in TRAIN that are not in the baseline, and list them.

    Finds wrong labels, duplicates, and leaks among new and changed rows, and labels that the
    baseline does not have.

    \b
    Examples:
      nearworth check train.csv -t label --update
      nearworth check train.csv -t label --validation test.csv --format markdown
    """
    from nearworth.cli.arguments import CheckOptions, typed
    from nearworth.cli.check import check

    check(typed(CheckOptions, given))


@command(
    "Estimate the error count from a sample.",
    AUDIT_INPUT,
    Section(
        "Sample",
        [
            Option(
                ["-n", "--rows", "number"],
                metavar="N",
                type=IntRange(min=1),
                help="Number of rows to review.  [default: 100 at most]",
            ),
            Option(
                ["--seed"],
                metavar="N",
                default=0,
                type=IntRange(min=0),
                help="Seed of the random sample.",
            ),
            Option(
                ["--blind"],
                is_flag=True,
                help="Hide the audit's result for a row until you have reviewed it.",
            ),
        ],
    ),
    Section(
        "Output",
        [
            *options.output("Page to write, .html."),
            *options.IMAGES,
            options.QUIET,
            options.DRY_RUN,
        ],
    ),
    AUDIT_ADVANCED,
)
def review(**given: Any) -> None:
    """Draw a random sample of TRAIN and write a page where you review its labels one at a time.

    'nearworth audit' and 'nearworth report' take the exported decisions with --review. They
    estimate from them how many labels are wrong, and how long a list for --max-fdr may be. Given
    --review, this command selects further rows that improve these estimates most.

    \b
    Examples:
      nearworth review train.csv -t label --id name -n 100 -o review.html
      nearworth audit train.csv -t label --review review-100-seed0.csv
      nearworth review train.csv -t label --id name \\
          --review review-100-seed0.csv -n 20 -o more.html
    """
    from nearworth.cli.arguments import ReviewOptions, typed
    from nearworth.cli.audit import review

    review(typed(ReviewOptions, given))


@command(
    "Value owners and split a budget.",
    Section(
        "Input",
        [
            options.TRAIN,
            options.TARGET,
            Option(
                ["--owner"],
                metavar="COL",
                required=True,
                help="Column with the owner of each row.",
            ),
            options.validation("Rows with trusted labels. Values are computed on them."),
            options.IGNORE,
            options.FEATURES,
            options.TASK,
        ],
    ),
    Section(
        "Payments",
        [
            Option(
                ["--budget"],
                metavar="AMOUNT",
                help="Amount to split among the owners, to the cent.",
            ),
            Option(
                ["--negative"],
                type=Choice(["zero", "charge", "error"]),
                default="zero",
                help=(
                    "How to treat owners with negative values: pay nothing, charge them, or stop."
                ),
            ),
            Option(
                ["--analyst"],
                is_flag=True,
                help="Pay a share to the analyst who builds the model.",
            ),
        ],
    ),
    options.values(),
    Section(
        "Output",
        [
            *options.output(
                "Statements as .html, or values as .json, .csv, or .parquet. Default: CSV on"
                " stdout.",
                default="-",
            ),
            options.json(),
            options.QUIET,
            options.DRY_RUN,
        ],
    ),
    Section(
        "Advanced",
        [
            options.max_error("Largest integration error of a value.  [default: 1e-13]"),
            *options.PREPARATION,
            *options.MACHINE,
        ],
    ),
)
def owners(**given: Any) -> None:
    """Compute the value of each owner's rows and split a budget.

    Owners are the players of the game: each contributes all of its rows or none. The values are
    exact for up to 5,000 owners, and for class labels only. Resubmitting rows gains an owner
    little. Registering under several names gains more, so verify identities.

    Without --validation, values are leave-one-out over TRAIN.

    \b
    Examples:
      nearworth owners train.csv -t label --owner seller -o may.json
      nearworth owners train.csv -t label --owner seller \\
          --validation trusted.csv --budget 10000 -o statement.html
    """
    from nearworth.cli.arguments import OwnersOptions, typed
    from nearworth.cli.value import owners

    # Owners name the rows as ids do.
    given["id_column"] = given["owner"]
    # Values of owners need an exact search.
    given["search"] = "exact"
    owners(typed(OwnersOptions, given))


@command(
    "Compute the value of every document.",
    Section(
        "Values",
        [
            Argument(["run"], type=options.PATH),
            Argument(["qrels"], type=options.PATH),
            options.neighbors(10, "Number of documents that answer a query."),
            options.semivalues("banzhaf"),
        ],
    ),
    Section(
        "Output",
        [
            *options.output(RESULTS.format("Values"), default="-"),
            options.json(),
            options.QUIET,
        ],
    ),
)
def retrieval(**given: Any) -> None:
    """Compute the value of every document in RUN for the queries judged in QRELS.

    Both are TREC files, with lines "query Q0 document rank score tag" and "query 0 document
    relevance".

    \b
    Examples:
      nearworth retrieval run.trec qrels.txt -o values.csv
    """
    from nearworth.cli.arguments import RetrievalOptions, typed
    from nearworth.cli.value import retrieval

    retrieval(typed(RetrievalOptions, given))


@command(
    "Write a corrected copy of the data.",
    Section(
        "Options",
        [
            Argument(["decisions"], type=options.PATH),
            Argument(["train"], type=options.PATH),
            Option(
                ["-t", "--target"],
                metavar="COL",
                help="Label column, if not the one named in DECISIONS.",
            ),
            *options.output("File for the corrected data."),
            Option(
                ["--keep/--no-keep"],
                default=True,
                help="Keep the decisions in nearworth-decisions.json for the next report.",
            ),
            options.QUIET,
        ],
    ),
)
def apply(**given: Any) -> None:
    """Apply the DECISIONS exported from a report to the data they were made on.

    Changes the labels you decided to change and removes the rows you decided to delete. Everything
    else stays as it is. Decisions made on other data are refused.

    \b
    Examples:
      nearworth apply decisions.csv train.csv -o cleaned.csv
    """
    from nearworth.cli.arguments import ApplyOptions, typed
    from nearworth.cli.decisions import apply

    apply(typed(ApplyOptions, given))


@command(
    "Find planted errors in sample digits.",
    Section(
        "Options",
        [
            Option(
                ["-o", "--output", "folder"],
                default=".",
                metavar="DIR",
                help="Folder to write to.",
            ),
            Option(
                ["--seed"],
                metavar="N",
                default=0,
                type=IntRange(min=0),
                help="Seed of the planted errors.",
            ),
        ],
    ),
)
def demo(seed: int, folder: str) -> None:
    """Find planted errors in handwritten digits.

    Takes the digits that come with scikit-learn and changes a tenth of the training labels.
    Searches for the changed labels, and writes the data, the value of every row, and a report.

    \b
    Examples:
      nearworth demo
      nearworth demo -o /tmp --seed 7
    """
    from nearworth.cli.audit import demo

    demo(seed, folder)


@command(
    "Estimate a run's time and memory.",
    Section(
        "Input",
        [
            options.TRAIN,
            Option(
                ["--for", "purpose"],
                type=Choice(["value", "audit"]),
                default="value",
                help="Command to plan.",
            ),
            options.TARGET,
            options.ID,
            options.IGNORE,
            options.FEATURES,
            options.validation("Validation rows. They are counted."),
            options.TASK,
        ],
    ),
    options.values(),
    Section("Advanced", [*options.value_search(), *options.PREPARATION, *options.MACHINE]),
)
def plan(**given: Any) -> None:
    """Estimate a run's time, memory, and threads.

    TRAIN is read and prepared as by 'nearworth value'. Times come from a short trial on some of
    your rows, on this machine. --for audit estimates the time of an audit for each neighbor search.

    \b
    Examples:
      nearworth plan train.csv -t label --validation trusted.csv --max-memory 1GB
      nearworth plan train.csv -t label --for audit
    """
    from nearworth.cli.arguments import PlanOptions, typed
    from nearworth.cli.value import plan

    plan(typed(PlanOptions, given))


@command(
    "Merge parts of a valuation.",
    Section(
        "Options",
        [
            Argument(
                ["parts"], nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False)
            ),
            *options.output("File to write: .npz (everything), .csv or .parquet (a table)."),
        ],
    ),
    hidden=True,
)
def merge(**given: Any) -> None:
    """Merge PARTS of a valuation, made on slices of the validation set, into one result.

    Parts come from `KNNShapley.partial(...).save(file)` or from a checkpoint folder
    (progress.part). Their order does not matter.

    \b
    Examples:
      nearworth merge a.part b.part -o values.parquet
    """
    from nearworth.cli.arguments import MergeOptions, typed
    from nearworth.cli.value import merge

    merge(typed(MergeOptions, given))


@command(
    "Compare the engine with numpy.",
    Section(
        "Options",
        [
            Option(
                ["--quick"],
                is_flag=True,
                help="Use smaller data: seconds instead of a minute or two.",
            )
        ],
    ),
)
def speed(quick: bool) -> None:
    """Compare the exact engine with what a good numpy user writes, as ratios within one run.

    Times are nanoseconds per (validation, training) pair, the best of a few runs.

    \b
    Examples:
      nearworth bench speed --quick
    """
    from nearworth.cli.bench import speed

    speed(quick)


bench = click.Group("bench", [speed], help="Measure this machine.", hidden=True)
# The commands in the order of `nearworth --help`.
BY_TASK = {
    "Clean labels": (audit, report, review, scan, check, apply),
    "Value data": (value, retrieval),
    "Pay contributors": (owners,),
    "More": (demo, plan),
}
ALL = (*(each for commands in BY_TASK.values() for each in commands), merge, bench)
