"""datascope: the neighbour method, which is fast for K = 1 only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from datascope.importance.shapley import ShapleyImportance
from datascope.importance.utility import SklearnModelAccuracy
from sklearn.neighbors import KNeighborsClassifier

if TYPE_CHECKING:
    from harness import Task, Work


def prepare(task: Task) -> Work:
    def work() -> Any:
        utility = SklearnModelAccuracy(KNeighborsClassifier(n_neighbors=task.n_neighbors))
        importance = ShapleyImportance(method="neighbor", utility=utility, nn_k=task.n_neighbors)
        return np.asarray(importance.fit(task.X, task.y).score(task.X_val, task.y_val))

    return work
