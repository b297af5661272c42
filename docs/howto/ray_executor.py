"""Ray tasks as an executor: copy this file, and call `est.value(..., executor=RayExecutor())`.

Uses the cluster that `ray.init(...)` connected to. `options` are those of `ray.remote`, such as
num_cpus (give KNNShapley as many in n_jobs), max_retries, memory or scheduling_strategy.
"""

from concurrent.futures import Executor, Future

import ray


class RayExecutor(Executor):
    """Submits each shard as one Ray task; cancelling a future cancels its task."""

    def __init__(self, num_cpus=1, max_retries=3, **options):
        self._num_cpus = num_cpus
        self._task = ray.remote(num_cpus=num_cpus, max_retries=max_retries, **options)(_call)

    @property
    def _max_workers(self):
        return max(1, int(ray.cluster_resources().get("CPU", 1) // self._num_cpus))

    def submit(self, function, /, *args, **kwargs):
        """Start a task."""
        reference = self._task.remote(function, args, kwargs)
        ours = Future()
        ours.add_done_callback(lambda future: ray.cancel(reference) if future.cancelled() else None)
        reference.future().add_done_callback(lambda theirs: _pass_on(ours, theirs))
        return ours


def _call(function, args, kwargs):
    return function(*args, **kwargs)


def _pass_on(ours, theirs):
    """Hand the result of a task on; an error as it was raised, without Ray around it."""
    if ours.cancelled() or not ours.set_running_or_notify_cancel():
        return
    error = theirs.exception()
    if error is None:
        ours.set_result(theirs.result())
    else:
        cause = getattr(error, "cause", None)
        ours.set_exception(cause if isinstance(cause, Exception) else error)
