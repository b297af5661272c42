"""What tests of the command line share: small tables, the command as a process, its messages."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import nearworth as nw

START = [sys.executable, "-c", "from nearworth.cli import main; main(prog_name='nearworth')"]
GOOD = "a,b,label\n1,2,x\n2,1,y\n3,2,x\n4,1,y\n"
# Rows of `flowers` that get a wrong label.
WRONG = (4, 31, 62)


def environment():
    """Environment variables for a process that has to find this package."""
    return os.environ | {"PYTHONPATH": str(Path(nw.__file__).parents[1])}


def installed(*arguments, cwd=None, stdout=subprocess.PIPE, user=None):
    """Run the command as a process of its own; the completed process."""
    return subprocess.run(
        [*START, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=cwd,
        env=environment(),
        user=user,
    )


def flowers(rng, n=90, wrong=()):
    """Columns of a table of three species, and the true species of each row.

    Each species is a cluster. The rows `wrong` have the label of the next species.
    """
    codes = np.arange(n) % 3
    centers = 4.0 * np.column_stack([codes, codes == 1])
    sizes = rng.normal(size=(n, 2)) * 0.3 + centers
    given = codes.copy()
    given[list(wrong)] = (given[list(wrong)] + 1) % 3
    species = np.array(["iris", "rose", "tulip"])
    columns = {
        "name": [f"flower {i}" for i in range(n)],
        "length": sizes[:, 0].round(3),
        "width": sizes[:, 1].round(3),
        "garden": [("north", "south")[i % 2] for i in range(n)],
        "species": species[given].tolist(),
    }
    return columns, species[codes].tolist()


def write_csv(path, columns, delimiter=","):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def one_line(err):
    """The message of an error, which has to be a single line."""
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("nearworth: ")
    return lines[0]
