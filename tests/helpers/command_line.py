"""What tests of the command line share: a small table, the command as a process, one line of
complaint.
"""

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
WRONG = (4, 31, 62)


def environment():
    """For a process that finds this package."""
    return os.environ | {"PYTHONPATH": str(Path(nw.__file__).parents[1])}


def installed(*arguments, cwd=None, stdout=subprocess.PIPE, user=None):
    """The command as a process of its own."""
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
    """Three clusters with a label each, a category, and names."""
    label = np.arange(n) % 3
    place = rng.normal(size=(n, 2)) * 0.3 + 4.0 * np.column_stack([label, label == 1])
    given = label.copy()
    given[list(wrong)] = (given[list(wrong)] + 1) % 3
    species = np.array(["iris", "rose", "tulip"])
    return {
        "name": [f"flower {i}" for i in range(n)],
        "length": place[:, 0].round(3),
        "width": place[:, 1].round(3),
        "garden": [("north", "south")[i % 2] for i in range(n)],
        "species": species[given].tolist(),
    }, species[label].tolist()


def write_csv(path, columns, delimiter=","):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def one_line(err):
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("nearworth: ")
    return lines[0]
