"""shapiq: one KNNExplainer per class of the validation points, each point explained by itself; we
take the mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from shapiq.explainer.nn.knn import KNNExplainer
from sklearn.neighbors import KNeighborsClassifier

if TYPE_CHECKING:
    from harness import Task, Work


def prepare(task: Task) -> Work:
    n_jobs = None if task.threads == 1 else task.threads

    def work() -> Any:
        model = KNeighborsClassifier(n_neighbors=task.n_neighbors).fit(task.X, task.y)
        total = np.zeros(len(task.y))
        for position, label in enumerate(model.classes_):
            explainer = KNNExplainer(model, class_index=position)
            for explained in explainer.explain_X(task.X_val[task.y_val == label], n_jobs=n_jobs):
                total += explained.get_n_order_values(1)
        return total / len(task.y_val)

    return work
