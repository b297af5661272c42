"""Options that several commands share, as lists of click parameters. Progress and messages."""

from __future__ import annotations

import sys
from typing import Any

import click
from click import Argument, Choice, FloatRange, IntRange, Option

from nearworth._common.text import lines

# Files that cannot be read are refused when they are read, in one wording.
PATH = click.Path(readable=False)
SEMIVALUES = ("shapley", "banzhaf", "loo", "composite")
# Work that takes less time needs no bar.
BAR_DELAY_SECONDS = 2.0
# In the context of a command: whether messages are printed.
QUIET_KEY = "nearworth.quiet"


class Progress:
    """Counts rows, for a bar on a terminal and for the message after Ctrl-C."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None and sys.stderr.isatty() and not is_quiet():
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, initial=done, unit=" rows", delay=BAR_DELAY_SECONDS)
        self.done = done
        self.total = total
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
            if done >= total:
                self.close()

    def restart(self) -> None:
        """Count from zero, for another command."""
        self.done = 0
        self.total = 0

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


progress = Progress()


def print_message(message: str) -> None:
    """Print a message for people, on standard error, unless the command was given --quiet."""
    if not is_quiet():
        click.echo(lines(message), err=True)


def is_quiet() -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(QUIET_KEY))


# What the columns of a file are and how they are prepared.
TABLE = [
    Option(
        ["-t", "--target"],
        metavar="COL",
        help="Column with the labels. Tables need it; npz files hold y.",
    ),
    Option(
        ["--validation"],
        metavar="FILE",
        type=PATH,
        help="Trusted rows; without them rows judge each other.",
    ),
    Option(
        ["--id", "id_column"],
        metavar="COL",
        help="Column that names each row; copied to the output.",
    ),
    Option(
        ["--ignore"],
        metavar="COL,...",
        multiple=True,
        help="Leave columns out (repeatable; * and ? match).",
    ),
    Option(
        ["--features"],
        metavar="COL,...",
        multiple=True,
        help=(
            "Compare rows by these columns only; numbers chosen by a pattern are used as they are:"
            " 'emb_*'."
        ),
    ),
    Option(
        ["--na-values"],
        metavar="TEXT,...",
        multiple=True,
        help="Other words for missing values: -999,unknown.",
    ),
    Option(
        ["--max-categories"],
        type=IntRange(min=2),
        default=40,
        help="Group rare text values beyond this many.",
    ),
    Option(
        ["--exact-labels"],
        is_flag=True,
        help="Take labels as written: case, spaces and 'None' matter.",
    ),
    Option(
        ["--strict"],
        is_flag=True,
        help="Refuse columns without an obvious distance instead of preparing them.",
    ),
]
# Which rows of an audit are suspects.
SELECTION = [
    Option(
        ["--rule"],
        type=Choice(["ranking", "cluster", "lower-cluster"]),
        help="How suspects are chosen.",
    ),
    Option(["--fraction"], type=FloatRange(0, 1), help="List this share of the rows."),
    Option(["--max-fdr"], type=FloatRange(0, 1), help="At most this share of false positives."),
    Option(
        ["--include-reviewed"],
        is_flag=True,
        help="Also list rows judged before (nearworth-decisions.json).",
    ),
]
GROUPS = Option(
    ["--groups"],
    metavar="COL",
    help="Column with the group of each row (a patient): its rows do not judge each other.",
)
REVIEW = Option(
    ["--review"],
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="Decisions of a review (repeatable).",
)
IMAGES = [
    Option(["--image-shape"], metavar="HxW", help="Rows are images: 28x28, or 32x32x3 in colour."),
    Option(
        ["--image-column"],
        metavar="COL",
        help="Column with image files, relative to TRAIN and below its folder.",
    ),
    Option(
        ["--image-root"],
        metavar="DIR",
        type=PATH,
        help="Images may be anywhere below this folder.",
    ),
]
OPEN = Option(["--open", "show"], is_flag=True, help="Open the page in a browser.")
QUIET = Option(
    ["--quiet", "-q"],
    is_flag=True,
    expose_value=False,
    help="Only errors on stderr.",
    callback=lambda ctx, _, quiet: ctx.meta.update({QUIET_KEY: quiet}),
)
CHECKPOINT = Option(
    ["--checkpoint"],
    metavar="DIR",
    help="Store progress here; the same command goes on from there.",
)


def neighbors(default: int) -> Option:
    return Option(
        ["-k", "n_neighbors"], type=IntRange(min=1), default=default, help="Number of neighbours."
    )


def semivalues(default: str) -> Option:
    return Option(
        ["--semivalue"],
        default=default,
        type=Choice(SEMIVALUES),
        help="How coalitions are weighed.",
    )


def model(n_neighbors: int, search: str = "exact") -> list[click.Parameter]:
    """Which values, between which distances, how exactly, and on what part of the machine."""
    return [
        neighbors(n_neighbors),
        Option(
            ["--task"],
            type=Choice(["classification", "regression"]),
            help="By default, as the target looks.",
        ),
        Option(
            ["--metric"],
            default="euclidean",
            help="Distance between rows: any name scikit-learn knows.",
        ),
        Option(
            ["--utility"],
            type=Choice(["soft", "original"]),
            default="soft",
            help="What a model is worth.",
        ),
        semivalues("shapley"),
        Option(
            ["--search"],
            type=Choice(["exact", "auto", "lsh", "faiss"]),
            default=search,
            help=(
                "How neighbours are found; lsh and faiss need --max-error. auto: the cheapest"
                " certified way."
            ),
        ),
        Option(
            ["--max-error"],
            type=FloatRange(min=0, min_open=True),
            help="Certified error you accept.",
        ),
        Option(
            ["--max-memory"],
            metavar="SIZE",
            help="Memory limit, such as 2GB; default: a quarter of free memory.",
        ),
        Option(["--jobs", "n_jobs"], type=int, help="Threads; by default all cores."),
    ]


def data(n_neighbors: int, search: str = "exact") -> list[click.Parameter]:
    """The options of every command that reads data and computes something from them."""
    dry_run = Option(
        ["--dry-run"], is_flag=True, help="Say what becomes of each column, then stop."
    )
    return [Argument(["train"], type=PATH), *TABLE, *model(n_neighbors, search), dry_run, QUIET]


def audit() -> list[click.Parameter]:
    """The options of every command that audits labels."""
    models = Option(
        ["--with-models"],
        is_flag=True,
        help=(
            "Also use cross-validated models as evidence. Better on tables. Takes seconds to"
            " minutes."
        ),
    )
    return [*data(n_neighbors=10, search="auto"), models, GROUPS, CHECKPOINT, REVIEW]


def output(what: str, default: str | None = None) -> list[click.Parameter]:
    """Where results go. Without a default the option is required.

    Results may go to stdout only where that is the default.
    """
    need: dict[str, Any] = {"required": True}
    if default is not None:
        need = {"default": default, "show_default": False}
    check = None if default == "-" else _refuse_stdout
    return [
        Option(["-o", "--output"], metavar="FILE", help=what, callback=check, **need),
        Option(["--overwrite"], is_flag=True, help="Replace an existing file."),
    ]


def _refuse_stdout(_context: click.Context, _parameter: click.Parameter, path: str) -> str:
    if path == "-":
        raise click.BadParameter("the result goes to a file; give a name.")
    return path


def json(what: str = "Summary as JSON on stdout (with the rows unless -o).") -> Option:
    return Option(["--json", "as_json"], is_flag=True, help=what)
