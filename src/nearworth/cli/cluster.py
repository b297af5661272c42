"""Where `--cluster` leads: a Dask cluster that is there already, or one of this machine for the time of a run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import click

LOCAL = "local"
PATIENCE = 10  # seconds to wait for a scheduler
# Dask gives memory back to the system above 64 kB and samples its workers' stacks: half as much CPU time again.
QUICK = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    "distributed.worker.profile.enabled": False,
}


@contextmanager
def cluster_client(cluster: str | None, n_jobs: int | None) -> Iterator[Any]:
    """A Dask client to work with, None without a cluster; what was started is ended, whatever happens."""
    if cluster is None:
        yield None
        return
    dask, _ = _import_dask()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what went wrong is told in one line, and once
    with ExitStack() as stack:
        place = stack.enter_context(local_cluster(n_jobs)) if cluster == LOCAL else cluster
        try:
            client = stack.enter_context(dask.Client(place, timeout=PATIENCE))
        except ValueError as error:
            raise ValueError(f"--cluster must be {LOCAL} or the address of a Dask scheduler: {error}") from error
        except OSError as error:
            raise OSError(f"--cluster: no Dask scheduler answers at {cluster!r} ({error}).") from error
        try:
            yield client
        except RuntimeError as error:
            raise click.ClickException(str(error)) from error


def threads_of(cluster: str | None, n_jobs: int | None) -> int | None:
    """Threads of a task: with `local`, --jobs are its workers."""
    return 1 if cluster == LOCAL else n_jobs


def local_cluster(n_jobs: int | None) -> Any:
    """One process of one thread per core; memory is bounded by --max-memory, and mapped files need no bound."""
    from nearworth.engine.plan import usable_threads

    distributed, config = _import_dask()
    with config.set(QUICK):
        return distributed.LocalCluster(
            n_workers=usable_threads(n_jobs),
            threads_per_worker=1,
            dashboard_address=None,
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )


def _import_dask() -> tuple[Any, Any]:
    try:
        import dask.config
        import distributed
    except ImportError as error:
        raise ImportError("--cluster needs Dask: pip install 'nearworth[dask]'") from error
    return distributed, dask.config
