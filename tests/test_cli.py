"""The installed command."""

from __future__ import annotations

import re
import subprocess
import sys

import nearworth


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-c", "from nearworth.cli import main; main(prog_name='nearworth')", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_demo_finds_most_of_the_wrong_labels():
    done = run("demo")
    assert (done.returncode, done.stderr) == (0, "")
    found, precision = re.search(r"120 least valuable rows, (\d+) are wrong: (\d+)% precision", done.stdout).groups()
    assert int(found) >= 100
    assert int(precision) >= 85


def test_version_and_help():
    assert run("--version").stdout.strip() == f"nearworth, version {nearworth.__version__}"
    assert "demo" in run("--help").stdout
    assert run("demo", "-k", "0").returncode == 2


def test_bench_speed_prints_its_table():
    done = run("bench", "speed", "--quick")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 8
    assert all(re.search(r"\d+\.\d+ +\d+\.\d+ +\d+\.\d+   ", line) for line in lines[1:])
