"""Runs one finder of wrong labels inside the package's own environment: `python -P finding.py
FINDER CASES OUT`.

It runs under every package's interpreter, so it needs numpy and the standard library only. A finder
is a file with `WAYS`, functions by name that take a `Case` and return a `Found`, and, if need be,
`UNRELATED`: packages that are imported by the one measured and have nothing to do with labels.
Empty modules stand in for these.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

WARM_UP = 200  # rows of the first case, so that imports and compilation do not count


@dataclass(frozen=True)
class Case:
    """Rows, given labels as codes, out-of-fold probabilities of a model, and whether X is a
    table.
    """

    X: np.ndarray
    y: np.ndarray
    probs: np.ndarray
    table: bool

    @property
    def n_classes(self) -> int:
        return self.probs.shape[1]

    def small(self) -> Case:
        return Case(self.X[:WARM_UP], self.y[:WARM_UP], self.probs[:WARM_UP], self.table)


@dataclass(frozen=True)
class Found:
    """How suspicious each row is, higher is worse; a list, a number of errors, and rows without a
    score, if told.
    """

    score: list[float] | None = None
    listed: list[int] | None = None
    count: float | None = None
    lower: float | None = None
    upper: float | None = None
    undefined: int | None = None


class StandIns(MetaPathFinder, Loader):
    """Any module of the unrelated packages, empty."""

    def __init__(self, unrelated: set[str]) -> None:
        self.unrelated = unrelated

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        return (
            ModuleSpec(name, self, is_package=True)
            if name.split(".")[0] in self.unrelated
            else None
        )

    def create_module(self, spec: ModuleSpec) -> Any:
        module = MagicMock(name=spec.name)
        module.__name__, module.__spec__, module.__path__ = spec.name, spec, []
        return module

    def exec_module(self, module: Any) -> None:
        pass


def load(path: Path) -> Case:
    with np.load(path) as file:
        return Case(file["X"], file["y"], file["probs"], bool(file["table"]))


def timed(way: Any, case: Case) -> dict[str, Any] | None:
    """What was found and the CPU time of finding it; None where the way does not apply."""
    start = time.process_time()
    try:
        found = way(case)
    except Exception as problem:
        traceback.print_exc()
        return {"problem": f"{type(problem).__name__}: {problem}"[:200]}
    return None if found is None else asdict(found) | {"cpu": time.process_time() - start}


def main() -> None:
    finder, folder, out = (Path(word) for word in sys.argv[1:4])
    sys.modules["finding"] = sys.modules["__main__"]
    loaded = runpy.run_path(str(finder))
    sys.meta_path.insert(0, StandIns(loaded.get("UNRELATED", set())))
    results: dict[str, Any] = {"version": metadata.version(loaded["DISTRIBUTION"]), "cases": {}}
    for k, path in enumerate(sorted(folder.glob("*.npz"))):
        case = load(path)
        if k == 0:
            for way in loaded["WAYS"].values():
                timed(way, case.small())
        results["cases"][path.stem] = {
            name: timed(way, case) for name, way in loaded["WAYS"].items()
        }
        out.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
