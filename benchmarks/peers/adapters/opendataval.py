"""OpenDataVal: KNNShapley on one-hot labels, with stand-ins for imports that have nothing to do
with it.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import torch

if TYPE_CHECKING:
    from harness import Task, Work

UNRELATED = {"torchvision", "geomloss", "pykeops", "transformers", "pandera"}
BATCH = 10_000  # of 32 (its default), 1,000, 4,096 and this, the fastest


class StandIns(MetaPathFinder, Loader):
    """Any module of the unrelated packages, empty."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in UNRELATED else None

    def create_module(self, spec: ModuleSpec) -> Any:
        module = MagicMock(name=spec.name)
        module.__name__, module.__spec__, module.__path__ = spec.name, spec, []
        return module

    def exec_module(self, module: Any) -> None:
        pass


sys.meta_path.insert(0, StandIns())

from opendataval.dataval import KNNShapley  # noqa: E402


def prepare(task: Task) -> Work:
    torch.set_num_threads(task.threads)
    X, X_val = (torch.tensor(a, dtype=torch.float32) for a in (task.X, task.X_val))
    one_hot = torch.eye(int(max(task.y.max(), task.y_val.max())) + 1)
    y, y_val = one_hot[task.y], one_hot[task.y_val]

    def work() -> Any:
        evaluator = KNNShapley(k_neighbors=task.n_neighbors, batch_size=BATCH).input_data(
            X, y, X_val, y_val
        )
        return evaluator.train_data_values().evaluate_data_values()

    return work
