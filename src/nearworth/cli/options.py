"""Options that several commands share, and the sections of help. Progress and messages."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click
from click import Argument, Choice, FloatRange, IntRange

from nearworth._common.text import lines

# Files that cannot be read are refused when they are read, in one wording.
PATH = click.Path(readable=False)
SEMIVALUES = ("shapley", "banzhaf", "loo", "composite")
# Work that takes less time needs no bar.
BAR_DELAY_SECONDS = 2.0
# Columns of the names of options in the help of a command.
NAMES_WIDTH = 22
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


class Option(click.Option):
    """An option whose help leaves out the range of a number. Errors name it."""

    def get_help_extra(self, ctx: click.Context) -> click.types.OptionHelpExtra:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class Section(NamedTuple):
    """Parameters of a command. Its help shows the options among them under one title."""

    title: str
    parameters: Sequence[click.Parameter]


class Command(click.Command):
    """A command whose help shows its options in sections. `--help` is in the last one."""

    def __init__(self, name: str, sections: Sequence[Section], **settings: Any) -> None:
        parameters = [parameter for section in sections for parameter in section.parameters]
        super().__init__(name, params=parameters, **settings)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        help_option = self.get_help_option(ctx)
        for section in self.sections:
            # Arguments are in the usage line.
            shown = [each for each in section.parameters if isinstance(each, click.Option)]
            if section is self.sections[-1] and help_option is not None:
                shown.append(help_option)
            records = [record for option in shown if (record := option.get_help_record(ctx))]
            # Texts are aligned across the sections.
            rows = [(f"{names:{NAMES_WIDTH}}", text) for names, text in records]
            with formatter.section(section.title):
                formatter.write_dl(rows, col_max=NAMES_WIDTH)


class CommandsByTask(click.Group):
    """A group whose help shows its commands by task. Other commands work and are not shown."""

    def __init__(
        self, *args: Any, by_task: Mapping[str, Sequence[click.Command]], **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self.by_task = by_task

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Names are aligned across the tasks.
        width = max(len(name) for name in self.commands)
        for task, commands in self.by_task.items():
            with formatter.section(task):
                formatter.write_dl(
                    [
                        (f"{command.name:{width}}", command.get_short_help_str())
                        for command in commands
                    ]
                )
        # The options of the group itself, without its list of all commands.
        click.Command.format_options(self, ctx, formatter)


TRAIN = Argument(["train"], type=PATH)
# Which rows and columns are read.
TARGET = Option(["-t", "--target"], metavar="COL", help="Label column. Required for tables.")
ID = Option(
    ["--id", "id_column"],
    metavar="COL",
    help="Column that identifies rows. Copied to the output.",
)
IGNORE = Option(
    ["--ignore"],
    metavar="COL,...",
    multiple=True,
    help="Columns to leave out. * and ? match. Repeatable.",
)
FEATURES = Option(
    ["--features"],
    metavar="COL,...",
    multiple=True,
    help=(
        "Use only these columns. Columns selected by a pattern, such as 'emb_*', are not rescaled."
        " Repeatable."
    ),
)
GROUPS = Option(
    ["--groups"],
    metavar="COL",
    help=(
        "Column with the group of each row, such as a patient. Rows of one group are not evidence"
        " for one another."
    ),
)
REVIEW = Option(
    ["--review"],
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="Reviewed labels from 'nearworth review'. Repeatable.",
)
TASK = Option(
    ["--task"],
    type=Choice(["classification", "regression"]),
    help="Type of target. Default: inferred from the target.",
)
# How columns and labels are prepared.
PREPARATION = [
    Option(
        ["--na-values"],
        metavar="TEXT,...",
        multiple=True,
        help="More spellings of missing values: -999,unknown.",
    ),
    Option(
        ["--max-categories"],
        metavar="N",
        type=IntRange(min=2),
        default=40,
        help="Group rare categories beyond this number.",
    ),
    Option(
        ["--exact-labels"],
        is_flag=True,
        help="Do not merge spellings of a label. 'None' is a label.",
    ),
    Option(
        ["--strict"],
        is_flag=True,
        help="Fail on ambiguous columns instead of preparing them.",
    ),
]
# Which rows of an audit are suspects.
SELECTION = Section(
    "Suspects (default: rows more likely wrong than right)",
    [
        Option(
            ["--fraction"],
            metavar="SHARE",
            type=FloatRange(0, 1),
            help="List this share of all rows, such as 0.05.",
        ),
        Option(
            ["--max-fdr"],
            metavar="RATE",
            type=FloatRange(0, 1),
            help=(
                "List as many rows as possible with an expected false discovery rate of at most"
                " this. Use it alone."
            ),
        ),
        Option(
            ["--rule"],
            type=Choice(["ranking", "cluster", "lower-cluster"]),
            help=(
                "Rule from the paper. ranking lists --fraction of the rows, or a tenth. Use the"
                " other rules alone."
            ),
        ),
        Option(["--include-reviewed"], is_flag=True, help="Also list rows you reviewed before."),
    ],
)
IMAGES = [
    Option(
        ["--image-shape"], metavar="HxW", help="Show rows as images: 28x28, or 32x32x3 for color."
    ),
    Option(
        ["--image-column"],
        metavar="COL",
        help="Column with image files, in the folder of TRAIN.",
    ),
    Option(
        ["--image-root"],
        metavar="DIR",
        type=PATH,
        help="Folder that contains the image files, if not that of TRAIN.",
    ),
]
OPEN = Option(["--open", "show"], is_flag=True, help="Open the page in a browser.")
QUIET = Option(
    ["--quiet", "-q"],
    is_flag=True,
    expose_value=False,
    help="Print errors only.",
    callback=lambda ctx, _, quiet: ctx.meta.update({QUIET_KEY: quiet}),
)
DRY_RUN = Option(["--dry-run"], is_flag=True, help="Show how columns are prepared, then stop.")
CHECKPOINT = Option(
    ["--checkpoint"],
    metavar="DIR",
    help="Save progress. Rerun the same command to resume.",
)
# How values are computed.
METRIC = Option(
    ["--metric"], metavar="NAME", default="euclidean", help="Distance metric of scikit-learn."
)
UTILITY = Option(
    ["--utility"],
    type=Choice(["soft", "original"]),
    default="soft",
    help="Scoring rule for a set of rows.",
)
WITH_MODELS = Option(
    ["--with-models"],
    is_flag=True,
    help=(
        "Also use cross-validated models as evidence. Better on tables. Takes seconds to minutes."
    ),
)
MACHINE = [
    Option(
        ["--max-memory"],
        metavar="SIZE",
        help="Working memory, such as 2GB. Default: a quarter of free memory.",
    ),
    Option(
        ["--jobs", "n_jobs"], metavar="N", type=int, help="Number of threads. Default: all cores."
    ),
]


def validation(what: str) -> Option:
    return Option(["--validation"], metavar="FILE", type=PATH, help=what)


def neighbors(default: int, what: str = "Number of neighbors.") -> Option:
    return Option(
        ["-k", "n_neighbors"],
        metavar="N",
        type=IntRange(min=1),
        default=default,
        help=what,
    )


def semivalues(default: str) -> Option:
    return Option(
        ["--semivalue"],
        default=default,
        type=Choice(SEMIVALUES),
        help="Type of value to compute.",
    )


def values() -> Section:
    """Which values of rows are computed."""
    return Section("Values", [neighbors(5), UTILITY, semivalues("shapley"), METRIC])


def search(default: str, auto: str) -> Option:
    return Option(
        ["--search"],
        type=Choice(["exact", "auto", "lsh", "faiss"]),
        default=default,
        help=f"Neighbor search. {auto}",
    )


def max_error(what: str) -> Option:
    return Option(["--max-error"], metavar="X", type=FloatRange(min=0, min_open=True), help=what)


def value_search() -> list[Option]:
    """How the neighbors are found that values are computed from."""
    return [
        search("exact", "auto: the cheapest search within --max-error."),
        max_error("Largest certified error of a value. Required for lsh and faiss."),
    ]


def audit_advanced(default_search: str, *further: Option) -> Section:
    """The rarely used options of commands that audit labels, with those that only some have."""
    auto = "auto: exact below 50,000 rows, then an index if faiss is installed."
    if default_search == "exact":
        auto = "auto: the cheapest search within --max-error."
    parameters = [
        neighbors(10),
        METRIC,
        search(default_search, auto),
        max_error("Largest certified error of a value. Required for lsh and faiss."),
        UTILITY,
        semivalues("shapley"),
        *further,
        *PREPARATION,
        *MACHINE,
    ]
    return Section("Advanced", parameters)


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


def json(
    what: str = "Print a summary as JSON on stdout, with the rows unless -o is given.",
) -> Option:
    return Option(["--json", "as_json"], is_flag=True, help=what)
