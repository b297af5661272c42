"""The command as a process: usage, help, interruption, pipes, exit codes."""

from __future__ import annotations

import platform
import re
import signal
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import scipy
import sklearn

import nearworth
from helpers.command_line import START, environment, flowers, installed, one_line, write_csv
from nearworth._common import native
from nearworth.cli import main

ROOT = Path(__file__).parents[2]


def test_usage_is_one_line_too(command):
    for arguments in (
        ["value"],
        ["value", "a.csv", "--what"],
        ["audit", "a.csv", "-k", "0"],
        ["valeu"],
    ):
        code, out, err = command(*arguments)
        assert code == 2
        assert out == ""
        assert "--help" in one_line(err)


def test_the_installed_command(tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    done = installed("value", "train.csv", "-t", "species", "--id", "name", cwd=tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 91
    assert "Traceback" not in done.stderr


def test_help_loads_little_and_has_examples():
    """What makes the command slow to start is what it imports: of the packages it depends on, only
    click.
    """
    code = (
        "import sys; from nearworth.cli import main\n"
        "try: main(['--help'], prog_name='nearworth')\n"
        "except SystemExit: pass\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {
        re.match(r"[\w-]+", each).group().replace("-", "_") for each in project["dependencies"]
    }
    needed = {{"scikit_learn": "sklearn"}.get(name, name) for name in needed}
    assert {"click", "numpy", "sklearn", "pyarrow"} <= needed
    assert loaded & needed == {"click"}
    every = [
        one
        for command in main.commands.values()
        for one in getattr(command, "commands", {"": command}).values()
    ]
    assert all("nearworth " in one.help for one in every), [
        one.name for one in every if "nearworth " not in one.help
    ]


def test_completion(tmp_path):
    env = environment() | {
        "_NEARWORTH_COMPLETE": "bash_complete",
        "COMP_WORDS": "nearworth re",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(START, capture_output=True, text=True, check=False, env=env)
    assert {line.split(",")[1] for line in done.stdout.split()} == {"report", "retrieval", "review"}


def test_every_command_on_data_takes_the_same_model():
    model = {
        "n_neighbors",
        "task",
        "metric",
        "utility",
        "semivalue",
        "search",
        "max_error",
        "max_memory",
        "n_jobs",
    }
    table = {
        "target",
        "validation",
        "id_column",
        "ignore",
        "features",
        "max_categories",
        "strict",
        "na_values",
        "exact_labels",
    }
    for name in ("value", "audit", "report", "plan"):
        assert model | table <= {parameter.name for parameter in main.commands[name].params}, name
    for name in ("value", "audit", "report"):
        assert {"dry_run", "quiet", "overwrite", "as_json"} <= {
            p.name for p in main.commands[name].params
        }, name


def test_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "nearworth", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: python -m nearworth")


def test_version_and_help():
    first, second, third = installed("--version").stdout.splitlines()
    assert first == f"nearworth {nearworth.__version__} (kernels: {native.variant()})"
    assert second.startswith(f"Python {platform.python_version()} on ")
    assert (
        f"numpy {np.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__}"
        in third
    )
    assert "demo" in installed("--help").stdout
    assert installed("demo", "--seed", "-1").returncode == 2


def test_interrupted(tmp_path, rng):
    np.savez(tmp_path / "a.npz", X=rng.normal(size=(60_000, 64)), y=np.arange(60_000) % 3)
    running = subprocess.Popen(
        [*START, "audit", "a.npz", "-o", "v.csv"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(),
    )
    assert "60,000 rows" in running.stderr.readline()
    time.sleep(1.0)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_a_reader_that_has_seen_enough(tmp_path, rng):
    np.savez(tmp_path / "a.npz", X=rng.normal(size=(5_000, 1)), y=np.arange(5_000) % 2)
    with subprocess.Popen(
        [*START, "value", "a.npz", "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(),
    ) as running:
        assert "value" in running.stdout.readline()
        running.stdout.close()
        assert running.wait(timeout=60) == 0
        assert running.stderr.read() == ""


def test_an_internal_error_is_one_line_too(command, tmp_path, monkeypatch):
    def fail(_options):
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("nearworth.cli.decisions.apply", fail)
    code, out, err = command("apply", "d.csv", "t.csv", "-o", "c.csv")
    assert (code, out) == (1, "")
    assert (
        "internal error, please report it: ZeroDivisionError: a b (NEARWORTH_DEBUG=1 shows more)"
        in one_line(err)
    )
    monkeypatch.setenv("NEARWORTH_DEBUG", "1")
    assert "Traceback" in command("apply", "d.csv", "t.csv", "-o", "c.csv")[2]


def test_a_cluster_that_fails_is_one_line(command, tmp_path, rng, monkeypatch):
    class Client(ThreadPoolExecutor):
        """A client of a cluster whose workers fail."""

        def __init__(self, _address, timeout):
            assert timeout > 0
            super().__init__(1)

        def submit(self, *_):
            return super().submit(int, "no\nnumber")

    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=Client))
    np.savez(tmp_path / "a.npz", X=rng.normal(size=(60, 2)), y=np.arange(60) % 2)
    code, out, err = command("value", "a.npz", "-q", "--cluster", "tcp://127.0.0.1:1")
    assert (code, out) == (1, "")
    assert "A worker failed on " in one_line(err)
    assert "ValueError: invalid literal" in err
    assert "internal error" not in err
    assert "AttributeError" not in err


def help_of(*arguments):
    done = subprocess.run(
        [*START, *arguments, "--help"], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_help_lists_commands_by_task():
    text = help_of()
    tasks = re.findall(r"^(\w[\w ]+):\n((?:  .*\n)+)", text, flags=re.M)
    named = {task: re.findall(r"^  (\w+) ", lines, flags=re.M) for task, lines in tasks}
    options = named.pop("Options")
    assert options == []
    assert named == {
        "Clean labels": ["audit", "report", "review", "scan", "check", "apply"],
        "Value data": ["value", "retrieval"],
        "Pay contributors": ["owners"],
        "More": ["demo", "plan"],
    }
    shown = [name for names in named.values() for name in names]
    hidden = {name for name, command in main.commands.items() if command.hidden}
    assert {*shown} | hidden == {*main.commands}
    assert hidden == {"merge", "bench"}
    # No summary is cut or wrapped.
    assert all(f"  {main.commands[name].short_help}\n" in text for name in shown)
    assert all(len(main.commands[name].short_help) < 45 for name in shown)


def test_help_of_a_command_lists_options_in_sections():
    text = help_of("report")
    titles = ["Input:", "Suspects (default: ", "Output:", "Advanced:"]
    places = [text.index(f"\n{title}") for title in titles]
    assert places == sorted(places)
    assert text.index("--target") < places[1] < text.index("--fraction SHARE") < places[2]
    assert places[2] < text.index("\n  --overwrite ") < places[3] < text.index("\n  -k N ")


def test_help_shows_every_option_once():
    """With its text, which no option lacks."""
    for name, command in main.commands.items():
        if name == "bench":
            continue
        with command.make_context(name, [], resilient_parsing=True) as context:
            formatter = context.make_formatter()
            command.format_options(context, formatter)
            text = formatter.getvalue()
        options = [each for each in command.params if each.param_type_name == "option"]
        assert all(option.help for option in options), name
        for option in options:
            shown = re.findall(rf"^  (?:-\w, )?{option.opts[-1]}\b", text, flags=re.M)
            by_short_name = re.findall(rf"^  {option.opts[0]}\b", text, flags=re.M)
            assert len(shown or by_short_name) == 1, (name, option.opts)
        assert len(re.findall(r"--help\b", text)) == 1


def test_numbers_out_of_range_are_refused_with_the_range(command):
    code, _, err = command("audit", "a.csv", "-t", "label", "--fraction", "2")
    assert code == 2
    assert "0<=x<=1" in one_line(err)
