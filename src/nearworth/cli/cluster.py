"""`--cluster`: a Dask cluster that runs already, or one on this machine for the time of a run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import click

LOCAL = "local"
PATIENCE = 10  # seconds to wait for a scheduler
# Dask returns memory to the system above 64 kB and samples its workers' stacks, which costs half as much CPU again.
QUICK = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    "distributed.worker.profile.enabled": False,
}


@contextmanager
def cluster_client(cluster: str | None, n_jobs: int | None) -> Iterator[Any]:
    """A Dask client, or None without a cluster; clusters that were started here end here."""
    if cluster is None:
        yield None
        return
    distributed, _ = _import_dask()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # errors are printed once, as one line
    with ExitStack() as stack:
        address = stack.enter_context(local_cluster(n_jobs)) if cluster == LOCAL else cluster
        try:
            client = stack.enter_context(distributed.Client(address, timeout=PATIENCE))
        except ValueError as error:
            raise ValueError(f"--cluster must be {LOCAL} or the address of a Dask scheduler: {error}") from error
        except OSError as error:
            raise OSError(f"--cluster: no Dask scheduler answers at {cluster!r} ({error}).") from error
        try:
            yield client
        except RuntimeError as error:
            raise click.ClickException(str(error)) from error


def local_cluster(n_jobs: int | None) -> Any:
    """One process with one thread per core; --max-memory bounds the memory, mapped files need no bound."""
    from nearworth._common.memory import usable_threads

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
