"""dattri: KNNShapleyAttributor over data loaders, one row of values per validation point; we take
the mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from dattri.algorithm.data_shapley import KNNShapleyAttributor
from torch.utils.data import DataLoader, TensorDataset

if TYPE_CHECKING:
    from harness import Task, Work

BATCH = 4096


def prepare(task: Task) -> Work:
    torch.set_num_threads(task.threads)
    train, validation = loader(task.X, task.y), loader(task.X_val, task.y_val)

    def work() -> Any:
        attributor = KNNShapleyAttributor(k_neighbors=task.n_neighbors)
        return attributor.attribute(train, validation).double().mean(dim=0).numpy()

    return work


def loader(X: Any, y: Any) -> DataLoader[Any]:
    data = TensorDataset(torch.tensor(X, dtype=torch.float32), torch.tensor(y))
    return DataLoader(data, batch_size=BATCH, shuffle=False)
