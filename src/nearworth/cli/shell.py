"""A group of commands that never shows a traceback for bad input: one line on stderr and an exit code.

0 done, 1 our fault, 2 bad input or usage, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import Any

import click

OUR_FAULT, BAD_INPUT, INTERRUPTED = 1, 2, 130
BAD = (ValueError, TypeError, OSError, ImportError, NotImplementedError, MemoryError)


class BadInput(click.ClickException):
    """What was given cannot be used."""

    exit_code = BAD_INPUT


class Shell(click.Group):
    """Turns what goes wrong into one line."""

    def main(
        self,
        args: Any = None,
        prog_name: Any = None,
        complete_var: Any = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:  # type: ignore[override]
        """Run, and leave with an exit code."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, **extra)
        warnings.showwarning = _one_line_warning  # type: ignore[assignment]
        try:
            code = super().main(args, prog_name, complete_var, False, **extra)
        except BaseException as error:
            code = exit_code(error)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader that closes the pipe has what it wanted."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more can be flushed to it
            return 0


def exit_code(error: BaseException) -> int:
    """Say what went wrong and whose fault it is."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        _say("interrupted")
        return INTERRUPTED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else OUR_FAULT
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return BAD_INPUT
    if isinstance(error, click.ClickException):
        where = f" See: {error.ctx.command_path} --help" if isinstance(error, click.UsageError) and error.ctx else ""
        _say(f"{_flat(error.format_message())}{where}")
        return error.exit_code
    if os.environ.get("NEARWORTH_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, BAD):
        _say(_flat(str(error)) or type(error).__name__)
        return BAD_INPUT
    _say(
        f"internal error, please report it: {type(error).__name__}: {_flat(str(error))} (NEARWORTH_DEBUG=1 shows more)"
    )
    return OUR_FAULT


def _say(message: str) -> None:
    click.echo(f"nearworth: {message}", err=True)


def _flat(message: str) -> str:
    return " ".join(message.split())


def _one_line_warning(message: Any, *_: Any, **__: Any) -> None:
    _say(f"warning: {_flat(str(message))}")
