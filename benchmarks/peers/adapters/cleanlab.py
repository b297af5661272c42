"""cleanlab: data_shapley_knn, every point valued by all the others; scores in 0 to 1 are mapped
back by 2 s - 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cleanlab.data_valuation import data_shapley_knn

if TYPE_CHECKING:
    from harness import Task, Work


def prepare(task: Task) -> Work:
    def work() -> Any:
        scores = data_shapley_knn(task.y, features=task.X, k=task.n_neighbors, metric="euclidean")
        return 2.0 * scores - 1.0

    return work
