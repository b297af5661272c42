"""Options from a TOML file: for all commands at the top, for one command in its own table."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

import click


def config_option() -> Callable[[Any], Any]:
    """Options from a TOML file; the command line wins."""
    return click.option(
        "--config", type=click.Path(), is_eager=True, expose_value=False, callback=_read_config, metavar="FILE",
        help="Options from a TOML file: top level or [command]; the command line wins.",
    )  # fmt: skip


def _read_config(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    try:
        chosen = _options_for(ctx, path)
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}.") from error
    except RecursionError as error:
        raise click.BadParameter(f"{path}: is nested too deeply to hold options.") from error
    except ValueError as error:  # also text that is not UTF-8, and numbers of thousands of digits
        raise click.BadParameter(f"{path}: is not TOML: {error}") from error
    ctx.default_map = {**(ctx.default_map or {}), **chosen}


def _options_for(ctx: click.Context, path: str) -> dict[str, Any]:
    """What the file sets for this command, by parameter; names that no command has are refused."""
    with open(path, "rb") as file:
        settings = tomllib.load(file)
    common = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    tables = {name: value for name, value in settings.items() if isinstance(value, dict)}
    commands = getattr(ctx.find_root().command, "commands", {})
    own, known = tables.get(ctx.info_name or "", {}), _names(ctx.command)
    everywhere = set().union(*(_names(command) for command in commands.values()), known)
    for name in [*(n for n in common if n not in everywhere), *(n for n in own if n not in known)]:
        raise click.BadParameter(f"{path}: there is no option {name!r}.")
    for name in tables:
        if name not in commands:
            raise click.BadParameter(f"{path}: there is no command {name!r} for the table [{name}].")
    return {
        known[name].name or "": _checked(known[name], f"{path}: {name}", value)
        for name, value in (common | own).items()
        if name in known
    }


def _names(command: click.Command) -> dict[str, click.Parameter]:
    """The parameters of a command by the names they may have in a file: without dashes in front, - or _ within."""
    names = {}
    for parameter in command.params:
        for name in [*parameter.opts, parameter.name or ""]:
            names[name.lstrip("-")] = names[name.lstrip("-").replace("-", "_")] = parameter
    return names


def _checked(option: click.Parameter, what: str, value: Any) -> Any:
    """The value as the option takes it; click would convert numbers to text and would not name the file."""
    many, flag = bool(getattr(option, "multiple", False)), bool(getattr(option, "is_flag", False))
    parts = value if many and isinstance(value, list) else [value]
    for part in parts:
        if flag != isinstance(part, bool) or isinstance(part, list | dict):
            kind = option.type.name
            needed = "true or false" if flag else f"a list of {kind}s" if many else f"one {kind}"
        elif isinstance(option.type, click.types.StringParamType | click.Path) and not isinstance(part, str):
            needed = "text in quotes"
        elif isinstance(option.type, click.types.IntParamType) and not isinstance(part, int):
            needed = "a whole number"
        else:
            needed = ""
        if needed:
            raise click.BadParameter(f"{what} is {part!r}; it must be {needed}.")
        try:
            option.type.convert(part, option, None)
        except click.BadParameter as error:
            raise click.BadParameter(f"{what} is {part!r}: {error.message}") from error
    return parts if many else value
