"""The command line.

    main (this file)   runs a command; an error becomes one line on standard error and an exit code
      commands.py      every command with its options and help text, nothing else: `--help` loads no
                       numpy
        options.py     options that several commands share, progress, messages unless --quiet
      arguments.py     the options of each command as typed objects, made when a command runs
      value.py         value (here or on a Dask cluster), owners, retrieval, plan, merge
      audit.py         audit, report, review, scan, and demo, which is audit, report and value on
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
INTERNAL_ERROR = 1
BAD_INPUT = 2
INTERRUPTED = 130
# Errors that are about what was given, and no fault of the program.
INPUT_ERRORS = (
    ValueError,
    TypeError,
    OSError,
    ImportError,
    NotImplementedError,
    MemoryError,
    OverflowError,
)


class CommandLine(options.CommandsByTask):
    """A group of commands that shows no traceback: one line on standard error and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        warnings.showwarning = lambda message, *_, **__: _print_line(f"warning: {message}")
        options.progress.restart()
        try:
            code = super().main(*args, **kwargs | {"standalone_mode": False})
        except BaseException as error:
            arguments = args[0] if args and args[0] is not None else sys.argv[1:]
            code = _exit_code(error, [*arguments])
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; it is done when the program that reads its output closes the pipe."""
        try:
            return super().invoke(ctx)
        # click would take it for the end of what a user types.
        except EOFError as error:
            raise ValueError(f"a file is cut short: {error or 'it ends too early'}") from error
        except BrokenPipeError:
            # Python flushes stdout once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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
    by_task=commands.BY_TASK,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="'nearworth COMMAND --help' shows the options of a command.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Show versions, for bug reports.",
)
def main() -> None:
    """Find label errors, value training rows, and pay data contributors.

    Rows are compared with their nearest neighbors. No data leave this machine, except with
    --cluster.

    \b
    Start here:
      nearworth report train.csv -t label --open    review the doubtful labels
      nearworth demo                                try it on sample data
    """  # noqa: D301


def _exit_code(error: BaseException, arguments: list[str]) -> int:
    """Print one line about an error of a command with these arguments. Return its exit code."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        _print_line(_interrupted(arguments))
        return INTERRUPTED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else INTERNAL_ERROR
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return BAD_INPUT
    if isinstance(error, click.ClickException):
        hint = ""
        if isinstance(error, click.UsageError) and error.ctx:
            hint = f" See: {error.ctx.command_path} --help"
        _print_line(error.format_message(), hint)
        return error.exit_code
    if os.environ.get("NEARWORTH_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, INPUT_ERRORS):
        _print_line(*_input_problem(error, arguments))
        return BAD_INPUT
    name = type(error).__name__
    _print_line(
        f"internal error, please report it: {name}: {error}", " (NEARWORTH_DEBUG=1 shows more)"
    )
    return INTERNAL_ERROR


def _input_problem(error: BaseException, arguments: list[str]) -> tuple[str, str]:
    """What is wrong with the input, and the command that would do it, if it is known."""
    # Only errors about tables know a better command.
    corrected = error.corrected(arguments) if hasattr(error, "corrected") else []
    hint = f" Try: nearworth {shlex.join(corrected)}" if corrected else ""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"{one_line(error.filename)}: there is no such file.", hint
    return str(error) or type(error).__name__, hint


def _interrupted(arguments: list[str]) -> str:
    """How far a command came, and the command that resumes."""
    options.progress.close()
    done = options.progress.done
    total = options.progress.total
    if not 0 < done < total:
        return "interrupted"
    message = f"interrupted after {done:,} of {total:,} rows"
    command = f"nearworth {shlex.join(arguments)}"
    if any(argument.startswith("--checkpoint") for argument in arguments):
        return f"{message}. This goes on from there: {command}"
    lost = f"{message}, which are lost. With a checkpoint they are not"
    return f"{lost}: {command} --checkpoint {CHECKPOINT}"


def _print_line(message: str, hint: str = "") -> None:
    """Print a message on standard error, in one line even if a library has several."""
    words = re.split(r"[ \t\r\n]+", message.strip(" \t\r\n"))
    click.echo(f"nearworth: {one_line(' '.join(words))}{one_line(hint)}", err=True)
