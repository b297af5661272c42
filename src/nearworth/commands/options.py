"""Options that several commands share, and config files that set them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

import click

Decorator = Callable[[Any], Any]
PATH = click.Path(dir_okay=True)  # directories are refused with the other strange files, in the same words
METRICS_HELP = "Distance between rows: any name scikit-learn knows."


def data_options(n_neighbors: int) -> Decorator:
    """Where the data are and how they are prepared."""
    return _all(
        click.argument("train", type=PATH),
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
        click.option(
            "-k", "n_neighbors", type=click.IntRange(min=1), default=n_neighbors, show_default=True,
            help="Number of neighbours.",
        ),
        click.option(
            "--task", type=click.Choice(["classification", "regression"]), default="classification", show_default=True
        ),
        click.option("--metric", default="euclidean", show_default=True, help=METRICS_HELP),
        click.option("--max-memory", metavar="SIZE", help="Working memory, such as 2GB."),
        click.option("--jobs", "n_jobs", type=int, help="Threads; by default all cores."),
        click.option("--dry-run", is_flag=True, help="Say what becomes of each column, then stop."),
        click.option("--quiet", "-q", is_flag=True, help="Only errors on stderr."),
        config_option(),
    )  # fmt: skip


def output_options(what: str, default: str | None = "-") -> Decorator:
    """Where results go."""
    return _all(
        click.option(
            "-o", "--output", metavar="FILE", default=default, required=default is None, help=what,
        ),
        click.option("--force", is_flag=True, help="Replace an existing file."),
    )  # fmt: skip


def selection_options() -> Decorator:
    """Which rows count as suspects."""
    return _all(
        click.option("--rule", type=click.Choice(["ranking", "cluster", "lower-cluster"]), help="Who is suspect."),
        click.option("--fraction", type=click.FloatRange(0, 1), help="List this share of the rows."),
        click.option("--max-fdr", type=click.FloatRange(0, 1), help="At most this share of false alarms."),
    )  # fmt: skip


def cluster_options() -> Decorator:
    """Where else to work."""
    return _all(
        click.option(
            "--cluster", metavar="ADDRESS",
            help="Work on a Dask cluster: tcp://..., tls://..., or local for one on this machine (--jobs workers).",
        ),
        click.option(
            "--scratch", metavar="DIR",
            help="Where all workers can read the data: a shared folder, or s3://... and the like.",
        ),
    )  # fmt: skip


def json_option() -> Decorator:
    """A summary for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Summary as JSON on stdout (with the rows unless -o).")


def config_option() -> Decorator:
    """Options from a TOML file; the command line wins."""
    return click.option(
        "--config", type=click.Path(), is_eager=True, expose_value=False, callback=_read_config, metavar="FILE",
        help="Options from a TOML file: top level or [command]; the command line wins.",
    )  # fmt: skip


def parse_semivalue(text: str) -> Any:
    """From "beta:1,4" to ("beta", 1.0, 4.0); other words stay.

    >>> parse_semivalue("beta:1,4"), parse_semivalue("banzhaf")
    (('beta', 1.0, 4.0), 'banzhaf')
    """
    name, colon, rest = text.partition(":")
    if not colon:
        return text
    try:
        a, b = (float(part) for part in rest.split(","))
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not of the form beta:A,B, such as beta:1,4.", param_hint="--semivalue"
        ) from None
    return name, a, b


def _all(*decorators: Decorator) -> Decorator:
    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def _read_config(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    try:
        with open(path, "rb") as file:
            settings = tomllib.load(file)
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{path}: is not TOML: {error}") from error
    common = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    own = settings.get(ctx.info_name or "", {})
    known = _names(ctx.command)
    everywhere = set().union(*(_names(c) for c in getattr(ctx.find_root().command, "commands", {}).values()), known)
    for name in [*(n for n in common if n not in everywhere), *(n for n in own if n not in known)]:
        raise click.BadParameter(f"{path}: there is no option {name!r}.")
    chosen = {known[name]: value for name, value in (common | own).items() if name in known}
    ctx.default_map = {**(ctx.default_map or {}), **chosen}


def _names(command: click.Command) -> dict[str, str]:
    """How the options of a command may be written in a file, and their parameter names."""
    names = {}
    for parameter in command.params:
        for spelling in [*parameter.opts, parameter.name or ""]:
            names[spelling.lstrip("-")] = parameter.name or ""
            names[spelling.lstrip("-").replace("-", "_")] = parameter.name or ""
    return names
