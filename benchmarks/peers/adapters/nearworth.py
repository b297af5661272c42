"""nearworth, the checkout this file belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearworth import KNNShapley

if TYPE_CHECKING:
    from harness import Task, Work


def prepare(task: Task) -> Work:
    n_jobs = 1 if task.threads == 1 else None

    def work() -> Any:
        est = KNNShapley(task.n_neighbors, utility="original", n_jobs=n_jobs, progress=False).fit(
            task.X, task.y
        )
        return (est.value() if task.X_val is None else est.value(task.X_val, task.y_val)).values

    return work
