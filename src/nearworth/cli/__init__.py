"""The command line.

    main (this file)   runs a command; an error becomes one line on standard error and an exit code
      commands.py      every command with its options and help text, nothing else: `--help` loads no
                       numpy
        options.py     options that several commands share, progress, messages unless --quiet
      arguments.py     the options of each command as typed objects, made when a command runs
      value.py         value (here or on a Dask cluster), owners, retrieval, plan, merge
      detect.py        detect, report, review, scan, and demo, which is detect, report and value on
                       the digits
      check.py         check, the gate
      decisions.py     apply; decisions as exported, answers of reviews, and what is kept so as not
                       to ask again
      bench.py         bench speed

All that read the user's data do so with data.py (a dataset by tables/load.py, and the message about
its columns).

Exit codes: 0 done, 1 an internal error, 2 bad input or usage, 3 check found something new, 130
interrupted.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
import traceback
import warnings
from typing import Any

import click

from nearworth._common.text import one_line
from nearworth._version import __version__
from nearworth.cli import commands, options

CHECKPOINT = "nearworth-checkpoint"
INTERNAL_ERROR, BAD_INPUT, INTERRUPTED = 1, 2, 130
INPUT_ERRORS = (
    ValueError,
    TypeError,
    OSError,
    ImportError,
    NotImplementedError,
    MemoryError,
    OverflowError,
)


class CommandLine(click.Group):
    """A group of commands that shows no traceback: one line on standard error and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        warnings.showwarning = lambda message, *_, **__: _print_line(f"warning: {message}")
        options.progress.restart()
        try:
            code = super().main(*args, **kwargs | {"standalone_mode": False})
        except BaseException as error:
            code = _exit_code(error, [*(args[0] if args and args[0] is not None else sys.argv[1:])])
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; it is done when the program that reads its output closes the pipe."""
        try:
            return super().invoke(ctx)
        except EOFError as error:  # click would take it for the end of what a user types
            raise ValueError(f"a file is cut short: {error or 'it ends too early'}") from error
        except BrokenPipeError:
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # Python flushes stdout once more at exit
            return 0


def _print_versions(context: click.Context, _parameter: Any, wanted: bool) -> None:
    """What a bug report should name."""
    if not wanted or context.resilient_parsing:
        return
    from importlib.metadata import version

    from nearworth._common import native

    click.echo(f"nearworth {__version__} (kernels: {native.variant()})")
    click.echo(f"Python {platform.python_version()} on {platform.platform()}")
    names = ("numpy", "scipy", "scikit-learn", "pyarrow", "narwhals")
    click.echo(", ".join(f"{name} {version(name)}" for name in names))
    context.exit()


@click.group(
    cls=CommandLine,
    commands=commands.ALL,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Show the versions that a bug report should name, and exit.",
)
def main() -> None:
    """What each training row is worth to a nearest-neighbour model, and which labels are wrong.

    \b
    nearworth demo                                            see it work
    nearworth detect train.csv --target label -o suspects.csv   which labels are wrong
    nearworth report train.csv --target label -o report.html    look at them and decide
    nearworth apply decisions.csv train.csv -o cleaned.csv      correct them
    nearworth value train.csv --target label -o values.csv      what every row is worth
    """  # noqa: D301


def _exit_code(error: BaseException, arguments: list[str]) -> int:
    if isinstance(error, KeyboardInterrupt | click.Abort):
        _print_line(_interrupted(arguments))
        return INTERRUPTED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else INTERNAL_ERROR
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return BAD_INPUT
    if isinstance(error, click.ClickException):
        hint = (
            f" See: {error.ctx.command_path} --help"
            if isinstance(error, click.UsageError) and error.ctx
            else ""
        )
        _print_line(error.format_message(), hint)
        return error.exit_code
    if os.environ.get("NEARWORTH_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, INPUT_ERRORS):
        corrected = error.corrected(arguments) if hasattr(error, "corrected") else []
        hint = f" Try: nearworth {shlex.join(corrected)}" if corrected else ""
        message = str(error) or type(error).__name__
        if isinstance(error, FileNotFoundError) and error.filename:
            message = f"{one_line(error.filename)}: there is no such file."
        _print_line(message, hint)
        return BAD_INPUT
    name = type(error).__name__
    _print_line(
        f"internal error, please report it: {name}: {error}", " (NEARWORTH_DEBUG=1 shows more)"
    )
    return INTERNAL_ERROR


def _interrupted(arguments: list[str]) -> str:
    """How far it got, and the command that goes on."""
    options.progress.close()
    done, total = options.progress.done, options.progress.total
    if not 0 < done < total:
        return "interrupted"
    far, command = (
        f"interrupted after {done:,} of {total:,} rows",
        f"nearworth {shlex.join(arguments)}",
    )
    if any(argument.startswith("--checkpoint") for argument in arguments):
        return f"{far}. This goes on from there: {command}"
    return (
        f"{far}, which are lost. With a checkpoint they are not: {command} --checkpoint"
        f" {CHECKPOINT}"
    )


def _print_line(message: str, hint: str = "") -> None:
    said = " ".join(
        re.split(r"[ \t\r\n]+", message.strip(" \t\r\n"))
    )  # a library may say it in several lines
    click.echo(f"nearworth: {one_line(said)}{one_line(hint)}", err=True)
