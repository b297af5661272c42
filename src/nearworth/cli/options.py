"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from nearworth.cli.config import config_option

Decorator = Callable[[Any], Any]
PATH = click.Path(readable=False)  # files that cannot be read are refused when they are read, in one wording
MODEL = ("n_neighbors", "metric", "utility", "semivalue", "search", "max_error", "max_memory", "n_jobs")
SEMIVALUES = ("shapley", "banzhaf", "loo")


class Semivalue(click.ParamType):  # type: ignore[type-arg]
    """Text such as "banzhaf" or "beta:1,4", which becomes ("beta", 1.0, 4.0)."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The semivalue as `KNNShapley` takes it.

        >>> Semivalue().convert("beta:1,4", None, None), Semivalue().convert("banzhaf", None, None)
        (('beta', 1.0, 4.0), 'banzhaf')
        """
        if isinstance(value, tuple) or value in SEMIVALUES:
            return value
        name, _, numbers = str(value).partition(":")
        try:
            a, b = (float(number) for number in numbers.split(","))
        except ValueError:
            name = ""
        if name != "beta":
            self.fail(f"{value!r} is not one of {', '.join(SEMIVALUES)} or beta:A,B, such as beta:1,4.", param, ctx)
        return name, a, b


def options(*decorators: Decorator) -> Decorator:
    """Several options as one, listed in this order."""

    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


# What the columns of a file are and how they are prepared.
TABLE = options(
    click.option("-t", "--target", metavar="COL", help="Column with the labels. Tables need it; npz files hold y."),
    click.option("--validation", metavar="FILE", type=PATH, help="Trusted rows; else rows judge each other."),
    click.option("--id", "id_column", metavar="COL", help="Column that names each row; copied to the output."),
    click.option("--ignore", metavar="COL", multiple=True, help="Leave columns out (repeatable; * and ? match)."),
    click.option(
        "--features", metavar="PATTERN", multiple=True,
        help="Compare rows by these columns only, numbers as they are: --features 'emb_*'.",
    ),
    click.option(
        "--missing", type=click.Choice(["error", "median"]), default="error", show_default=True,
        help="Refuse missing values, or fill numbers with the median.",
    ),
    click.option(
        "--max-categories", type=click.IntRange(min=2), default=40, show_default=True,
        help="Refuse text columns with more distinct values.",
    ),
)  # fmt: skip
SELECTION = options(
    click.option("--rule", type=click.Choice(["ranking", "cluster", "lower-cluster"]), help="How suspects are chosen."),
    click.option("--fraction", type=click.FloatRange(0, 1), help="List this share of the rows."),
    click.option("--max-fdr", type=click.FloatRange(0, 1), help="At most this share of false alarms."),
)
QUIET = click.option("--quiet", "-q", is_flag=True, help="Only errors on stderr.")


def neighbors_option(default: int) -> Decorator:
    """-k, whose default differs."""
    return click.option(
        "-k",
        "n_neighbors",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help="Number of neighbours.",
    )


def model_options(n_neighbors: int) -> Decorator:
    """Which values, between which distances, how exactly, and on what part of the machine."""
    return options(
        neighbors_option(n_neighbors),
        click.option(
            "--task", type=click.Choice(["classification", "regression"]), default="classification", show_default=True
        ),
        click.option(
            "--metric", default="euclidean", show_default=True,
            help="Distance between rows: any name scikit-learn knows.",
        ),
        click.option(
            "--utility", type=click.Choice(["soft", "original"]), default="soft", show_default=True,
            help="What a model is worth: soft labels, or those of Jia et al. 2019.",
        ),
        click.option(
            "--semivalue", default="shapley", show_default=True, metavar="NAME", type=Semivalue(),
            help="shapley, banzhaf, loo or beta:A,B.",
        ),
        click.option(
            "--search", type=click.Choice(["exact", "auto", "lsh", "faiss"]), default="exact", show_default=True,
            help="How neighbours are found; lsh and faiss need --max-error.",
        ),
        click.option("--max-error", type=click.FloatRange(min=0, min_open=True), help="Certified error you accept."),
        click.option("--max-memory", metavar="SIZE", help="Working memory, such as 2GB; else a quarter of the free."),
        click.option("--jobs", "n_jobs", type=int, help="Threads; by default all cores."),
    )  # fmt: skip


def data_options(n_neighbors: int) -> Decorator:
    """The options of every command that reads data and computes something from them."""
    dry_run = click.option("--dry-run", is_flag=True, help="Say what becomes of each column, then stop.")
    return options(
        click.argument("train", type=PATH), TABLE, model_options(n_neighbors), dry_run, QUIET, config_option()
    )


def output_options(what: str, default: str | None = "-") -> Decorator:
    """Where results go; without a default the option is required."""
    needed: dict[str, Any] = {"required": True} if default is None else {"default": default}
    return options(
        click.option("-o", "--output", metavar="FILE", help=what, **needed),
        click.option("--force", is_flag=True, help="Replace an existing file."),
    )


def json_option(what: str = "Summary as JSON on stdout (with the rows unless -o).") -> Decorator:
    """A summary for programs."""
    return click.option("--json", "as_json", is_flag=True, help=what)


def pop_model(given: dict[str, Any]) -> dict[str, Any]:
    """Take the parameters of `KNNShapley` out of the options; contradictions are refused before files are read."""
    model = {name: given.pop(name) for name in MODEL} | {"task": given["task"]}  # data are read with the task, too
    if model["search"] in ("lsh", "faiss") and model["max_error"] is None:
        raise click.UsageError(f"--search {model['search']} needs --max-error, which says how far to search.")
    return model
