"""Options from a TOML file: for all commands at the top, for one in its own table."""

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
    settings = _load(path)
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
    chosen = {known[name]: _checked(ctx.command, known[name], name, value, path)
              for name, value in (common | own).items() if name in known}  # fmt: skip
    ctx.default_map = {**(ctx.default_map or {}), **chosen}


def _load(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{path}: is not TOML: {error}") from error


def _checked(command: click.Command, parameter: str, name: str, value: Any, path: str) -> Any:
    """The value as the option takes it; a wrong type is refused with the file's name, not the command line's."""
    option = next(p for p in command.params if p.name == parameter)
    many = bool(getattr(option, "multiple", False))
    parts = value if many and isinstance(value, list) else [value]
    for part in parts:
        if getattr(option, "is_flag", False) != isinstance(part, bool) or isinstance(part, list | dict):
            wanted = "true or false" if getattr(option, "is_flag", False) else _wanted(option, many)
            raise click.BadParameter(f"{path}: {name} is {part!r}; it must be {wanted}.")
        if isinstance(option.type, click.types.StringParamType | click.Path) and not isinstance(part, str):
            raise click.BadParameter(f"{path}: {name} is {part!r}; it must be text in quotes.")
        if isinstance(option.type, click.types.IntParamType) and not isinstance(part, int):
            raise click.BadParameter(f"{path}: {name} is {part!r}; it must be a whole number.")
        try:
            option.type.convert(part, option, None)
        except click.BadParameter as error:
            raise click.BadParameter(f"{path}: {name} is {part!r}: {error.message}") from error
    return parts if many else value


def _wanted(option: click.Parameter, many: bool) -> str:
    return f"a list of {option.type.name}s" if many else f"one {option.type.name}"


def _names(command: click.Command) -> dict[str, str]:
    """How the options of a command may be written in a file, and their parameter names."""
    names = {}
    for parameter in command.params:
        for spelling in [*parameter.opts, parameter.name or ""]:
            names[spelling.lstrip("-")] = parameter.name or ""
            names[spelling.lstrip("-").replace("-", "_")] = parameter.name or ""
    return names
