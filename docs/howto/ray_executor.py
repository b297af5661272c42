"""Ray tasks as an executor. The only place that knows Ray."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from nearworth.inputs.parameters import whole_number


class RayExecutor(Executor):
    """Ray behind the interface of `concurrent.futures`: `est.value(..., executor=nw.RayExecutor())`.

    Uses the cluster that `ray.init(...)` connected to. Without one it calls `ray.init()`, which connects to RAY_ADDRESS
    or starts Ray on this machine, and `shutdown` ends that again.

    Parameters
    ----------
    num_cpus
        Cores that each task reserves; give KNNShapley as many in n_jobs.
    max_retries
        How often a task is done again whose worker or node died; -1 for ever.
    options
        Further options of `ray.remote`, such as memory, resources or scheduling_strategy.
    """

    def __init__(self, num_cpus: int = 1, max_retries: int = 3, **options: Any) -> None:
        whole_number(1)("num_cpus", num_cpus)
        whole_number(-1)("max_retries", max_retries)
        self._ray = _import_ray()
        self._began = not self._ray.is_initialized()
        if self._began:
            self._ray.init()
        self._num_cpus, self._closed = num_cpus, False
        self._task = self._ray.remote(num_cpus=num_cpus, max_retries=max_retries, **options)(_call)
        self._waiting: set[Future[Any]] = set()

    @property
    def _max_workers(self) -> int:
        """How many tasks fit into the cluster as it is now."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1) // self._num_cpus))

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task; cancelling its future cancels it on the cluster."""
        if self._closed:
            raise RuntimeError("cannot submit to a RayExecutor that was shut down")
        reference = self._task.remote(function, args, kwargs)
        ours: Future[Any] = Future()
        self._waiting.add(ours)
        ours.add_done_callback(partial(self._settle, reference))
        reference.future().add_done_callback(partial(_pass_on, ours))
        return ours

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks, and end Ray if it was begun here."""
        self._closed = True
        for future in list(self._waiting):
            if cancel_futures:
                future.cancel()
            elif wait or self._began:
                future.exception()
        if self._began:
            self._ray.shutdown()

    def _settle(self, reference: Any, future: Future[Any]) -> None:
        self._waiting.discard(future)
        if future.cancelled():
            self._ray.cancel(reference)


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def _pass_on(ours: Future[Any], theirs: Future[Any]) -> None:
    """Give the outcome of a task to whoever waits; an error as it was raised, without Ray around it."""
    if ours.cancelled() or not ours.set_running_or_notify_cancel():
        return
    error = theirs.exception()
    if error is None:
        ours.set_result(theirs.result())
    else:
        cause = getattr(error, "cause", None)
        ours.set_exception(cause if isinstance(cause, Exception) else error)


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError("RayExecutor needs Ray: pip install 'nearworth[ray]'") from error
    return ray
