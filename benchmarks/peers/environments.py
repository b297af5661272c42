"""The peers, their pinned versions, and a virtual environment of its own for each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LISTING = (
    "import json, importlib.metadata as m; print(json.dumps({d.name: d.version for d in"
    " m.distributions()}))"
)


class SetupError(RuntimeError):
    """An environment cannot be had; the message is the reason shown in the table."""


@dataclass(frozen=True)
class Game:
    """What is computed: the original utility with K neighbours, for validation points or for each
    other.
    """

    name: str
    n_neighbors: int
    leave_one_out: bool = False


K5 = Game("exact, K = 5", 5)
K1 = Game("exact, K = 1", 1)
ALL_BUT_ONE = Game("no validation set, K = 5", 5, leave_one_out=True)


@dataclass(frozen=True)
class Peer:
    """One package: its adapter is `adapters/<name>.py`, `steps` are the arguments of successive
    `pip install`.
    """

    name: str
    title: str
    game: Game
    pythons: tuple[str, ...] = ()
    steps: tuple[tuple[str, ...], ...] = ()
    note: str = ""

    @property
    def pins(self) -> dict[str, str]:
        """Distribution -> version, for everything pinned."""
        pinned = (word.split("==") for step in self.steps for word in step if "==" in word)
        return {canonical(name): version for name, version in pinned}


def sciences(numpy: str, pandas: str, scipy: str) -> tuple[str, ...]:
    """The libraries below most peers."""
    return f"numpy=={numpy}", f"pandas=={pandas}", f"scipy=={scipy}", "scikit-learn==1.9.1"


NUMPY_1 = sciences("1.26.4", "3.0.6", "1.17.1")
NUMPY_2 = sciences("2.4.6", "3.1.1", "1.17.1")
NUMPY_2_5 = sciences("2.5.4", "3.1.1", "1.18.1")
TORCH = ("torch==2.13.0",)
USED_BY_OPENDATAVAL = ("matplotlib", "pyyaml", "requests", "torcheval==0.0.7", "tqdm", "typer")

PEERS = (
    Peer(
        "opendataval",
        "OpenDataVal",
        K5,
        pythons=("3.11",),
        steps=(TORCH, (*NUMPY_1, *USED_BY_OPENDATAVAL), ("--no-deps", "opendataval==1.3.0")),
        note=(
            "32-bit distances; runs on a newer torch than it asks for, with stand-ins for imports"
            " unrelated to this"
        ),
    ),
    Peer("pydvl", "pyDVL", K5, ("3.11", "3.12"), ((*NUMPY_1, "joblib==1.6.0", "pyDVL==0.10.0"),)),
    Peer(
        "shapiq",
        "shapiq",
        K5,
        pythons=("3.12",),
        steps=((*NUMPY_2_5, "shapiq==1.6.0"),),
        note="explains one validation point at a time; the mean is ours",
    ),
    Peer(
        "dattri",
        "dattri",
        K5,
        pythons=("3.11", "3.12"),
        steps=(TORCH, ("numpy==2.4.6", "dattri==0.3.0")),
        note="32-bit distances and values, one row of them per validation point; the mean is ours",
    ),
    Peer(
        "datascope",
        "datascope",
        K1,
        pythons=("3.11",),
        steps=((*NUMPY_1, "datascope==0.0.32"),),
        note=(
            "fast for K = 1 only; its empty set is worth something, which moves all values by one"
            " constant"
        ),
    ),
    Peer(
        "cleanlab",
        "cleanlab",
        ALL_BUT_ONE,
        pythons=("3.11", "3.12"),
        steps=((*NUMPY_2, "cleanlab==2.9.0"),),
        note=(
            "another quantity: its values stop at the K nearest, and its scores are mapped back"
            " from 0..1"
        ),
    ),
)
GAMES = (K5, K1, ALL_BUT_ONE)
OURS = tuple(Peer("nearworth", "nearworth", game) for game in GAMES)


def interpreter(peer: Peer, cache: Path) -> Path:
    """Python of an environment that has what is pinned, built if need be."""
    if not peer.steps:
        return Path(sys.executable)
    folder = cache / "environments" / peer.name
    python = folder / "bin" / "python"
    if missing(peer, python):
        build(peer, folder, python)
    if lacking := missing(peer, python):
        raise SetupError(f"installed, but without {', '.join(lacking)}")
    return python


def missing(peer: Peer, python: Path) -> list[str]:
    """Pinned distributions the environment does not have in that version."""
    found: dict[str, str] = {}
    if python.exists():
        listing = subprocess.run(
            [python, "-c", LISTING], check=True, capture_output=True, text=True
        ).stdout
        found = {
            canonical(name): version.split("+")[0] for name, version in json.loads(listing).items()
        }
    return [
        f"{name}=={version}" for name, version in peer.pins.items() if found.get(name) != version
    ]


def build(peer: Peer, folder: Path, python: Path) -> None:
    """A fresh environment with the peer in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    commands = [[base_python(peer.pythons), "-m", "venv", str(folder)]]
    commands += [[str(python), "-m", "pip", "install", "--quiet", *step] for step in peer.steps]
    for command in commands:
        print("  ", " ".join(command[1:]), flush=True)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SetupError(f"pip {command[3]} failed: {last_line(done.stderr)}")


def base_python(versions: tuple[str, ...]) -> str:
    """The first interpreter on this machine that runs and is of a wanted version."""
    for version in versions:
        for candidate in candidates(version):
            asked = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
            answer = subprocess.run(asked, capture_output=True, text=True)
            if answer.stdout.strip() == version:
                return candidate
    raise SetupError(f"needs Python {' or '.join(versions)}, not found on this machine")


def candidates(version: str) -> Iterator[str]:
    """Where a Python of that version may be."""
    yield sys.executable
    if found := shutil.which(f"python{version}"):
        yield found
    managed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from (str(path) for path in sorted(managed.glob(f"{version}.*/bin/python")))


def canonical(distribution: str) -> str:
    """Names of distributions as the package index compares them."""
    return distribution.lower().replace("_", "-").replace(".", "-")


def last_line(text: str) -> str:
    """What a failed process said last, usually the reason."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no message"])[-1][:200]
