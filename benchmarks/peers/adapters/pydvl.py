"""pyDVL: KNNShapleyValuation around scikit-learn's classifier, parallel by joblib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import parallel_config
from pydvl.valuation.dataset import Dataset
from pydvl.valuation.methods.knn_shapley import KNNShapleyValuation
from sklearn.neighbors import KNeighborsClassifier

if TYPE_CHECKING:
    from harness import Task, Work


def prepare(task: Task) -> Work:
    train, validation = Dataset(task.X, task.y), Dataset(task.X_val, task.y_val)

    def work() -> Any:
        model = KNeighborsClassifier(n_neighbors=task.n_neighbors)
        with parallel_config(n_jobs=task.threads):
            result = KNNShapleyValuation(model, validation, progress=False).fit(train).result
        values = np.empty(len(train))
        values[result.indices] = result.values
        return values

    return work
