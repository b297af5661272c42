"""The command line: arguments in, calls out. Nothing heavy is imported before a command runs.

shell.py      errors to one line and an exit code
config.py     options from a TOML file
options.py    options that several commands share
auditing.py   value, detect, report, apply, demo: from data to corrected data
measuring.py  plan, merge, bench: what work needs, work in parts, this machine
"""

from __future__ import annotations

import click

from nearworth._version import __version__
from nearworth.cli.auditing import apply, demo, detect, report, value
from nearworth.cli.measuring import bench, merge, plan
from nearworth.cli.shell import Shell


@click.group(cls=Shell, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nearworth")
def main() -> None:
    """What each training row is worth to a nearest-neighbour model, and which labels are wrong.

    \b
    nearworth demo                                            see it work
    nearworth detect train.csv --target label -o suspects.csv   which labels are wrong
    nearworth report train.csv --target label -o report.html    look at them and decide
    nearworth apply decisions.csv train.csv -o cleaned.csv      correct them
    nearworth value train.csv --target label -o values.csv      what every row is worth
    """  # noqa: D301


for command in (value, detect, report, apply, demo, plan, merge, bench):
    main.add_command(command)
