"""nearworth value, plan and merge: the value of every row, what computing it needs, and parts put together."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

import nearworth as nw  # its names load when first used, so that bad files are refused before scikit-learn is imported
from nearworth._common.memory import usable_threads
from nearworth.cli.data import load, prepare, write_results
from nearworth.cli.options import pop_model, print_message
from nearworth.tables import InputError
from nearworth.tables.read import count_rows
from nearworth.tables.write import STDOUT, check_output, write_columns

LOCAL = "local"
PATIENCE = 10  # seconds to wait for a scheduler
# Dask returns memory to the system above 64 kB and samples its workers' stacks, which costs half as much CPU again.
QUICK = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    "distributed.worker.profile.enabled": False,
}


def value(
    *, output: str, force: bool, as_json: bool, checkpoint: str | None, checkpoint_interval: float,
    cluster: str | None, scratch: str | None, **given: Any,
) -> None:  # fmt: skip
    model = pop_model(given)
    check_output(output, force, inputs=(given["train"], given["validation"]))
    data = prepare(**given)
    workers = model["n_jobs"]
    if cluster == LOCAL:
        model["n_jobs"] = 1  # --jobs are workers of one thread each
    est = nw.KNNShapley(**model, task=data.task, standard_errors=True, random_state=0).fit(data.X, data.y)
    with cluster_client(cluster, workers) as client:
        valuation = est.value(
            data.X_val, data.y_val, checkpoint=checkpoint, checkpoint_interval=checkpoint_interval, executor=client,
            scratch=scratch,
        )  # fmt: skip
    if valuation.resumed:
        print_message(f"{valuation.resumed:,} of {valuation.n_val:,} validation points came from {checkpoint}")
    summary = _summary(valuation) | {"columns": data.columns}
    print_message(str(valuation))
    write_results(data.names() | value_columns(valuation), summary, output, as_json)
    if output != STDOUT:
        print_message(f"Values of {len(data.y):,} rows are in {output}")


def value_columns(valuation: nw.Valuation) -> dict[str, Any]:
    """value, standard_error and rank of every row; certified bounds where values are not exact."""
    frame, bounds = valuation.to_frame("pyarrow"), ("lower", "upper") if valuation.error_bound > 0 else ()
    return {name: frame[name] for name in ("value", "standard_error", *bounds, "rank")}


def _summary(valuation: nw.Valuation) -> dict[str, Any]:
    made = valuation.origin
    return {
        "command": "value",
        "version": made.version,
        "parameters": dict(made.parameters),
        "n_train": made.n_train,
        "n_validation": made.n_val,
        "validation": "self" if made.is_leave_one_out else "given",
        "error_bound": valuation.error_bound,
        "typical_error": valuation.typical_error,
        "negative": int((valuation.values < 0).sum()),
    }


@contextmanager
def cluster_client(cluster: str | None, n_jobs: int | None) -> Iterator[Any]:
    """A Dask client, or None without a cluster; clusters that were started here end here."""
    if cluster is None:
        yield None
        return
    try:
        import dask.config
        import distributed
    except ImportError as error:
        raise ImportError("--cluster needs Dask: pip install 'nearworth[dask]'") from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # errors are printed once, as one line
    where: dict[str, Any] = {"address": cluster, "timeout": PATIENCE}
    if cluster == LOCAL:  # one process per core; --max-memory bounds the memory, mapped files need no bound
        where = {"n_workers": usable_threads(n_jobs), "threads_per_worker": 1, "memory_limit": 0}
        where |= {"dashboard_address": None, "silence_logs": logging.CRITICAL}
    try:
        with dask.config.set(QUICK):
            client = distributed.Client(**where)
    except ValueError as error:
        raise ValueError(f"--cluster must be {LOCAL} or the address of a Dask scheduler: {error}") from error
    except OSError as error:
        raise OSError(f"--cluster: no Dask scheduler answers at {cluster!r} ({error}).") from error
    with client:
        try:
            yield client
        except RuntimeError as error:
            raise click.ClickException(str(error)) from error


def plan(*, what: tuple[str, ...], columns: int, classes: int, standard_errors: bool, **given: Any) -> None:
    model = pop_model(given)
    n_train = None
    if len(what) == 1:  # the plan of `nearworth value`; only the number of validation rows matters
        validation = given.pop("validation")
        n_val = None if validation is None else count_rows(validation)
        data = load(what[0], **given)
        X, y, task, standard_errors = data.X, data.y, data.task, True
    elif len(what) == 2 and all(size.isdecimal() and int(size) > 0 for size in what):
        for name in ("target", "validation", "id_column", "ignore", "features"):
            if given[name]:
                raise click.UsageError(f"--{name.split('_')[0]} is about a file; sizes take -d and --classes.")
        n_train, n_val = map(int, what)
        X, y = _random_rows(n_train, columns, classes)
        task = given["task"] or "classification"
    else:
        raise click.UsageError(f"{' '.join(what)!r} is neither one file nor two sizes, N_TRAIN and N_VAL.")
    est = nw.KNNShapley(**model, task=task, standard_errors=standard_errors).fit(X, y)
    click.echo(est.plan(len(y) if n_val is None else n_val, n_train=n_train))


def _random_rows(n_rows: int, n_features: int, n_classes: int) -> tuple[Any, Any]:
    """As many random rows as a trial needs, at most `n_rows`."""
    from nearworth.engine.plan import TRIAL_POINTS

    rng, n = np.random.default_rng(0), min(n_rows, TRIAL_POINTS, max(64, 2**25 // n_features))
    return rng.normal(size=(n, n_features)), rng.integers(0, n_classes, n)


def merge(parts: tuple[str, ...], output: str, force: bool) -> None:
    if output == STDOUT:
        raise InputError("-o -: merged values go to a file; give a name.")
    check_output(output, force, (".npz", ".csv", ".parquet"), parts)
    first, *others = [nw.Partial.load(path) for path in parts]
    valuation = nw.Valuation.from_partial(first.merge(others))
    if Path(output).suffix.lower() == ".npz":
        valuation.save(output)
    else:
        write_columns(valuation.to_frame("pyarrow"), output)
    click.echo(repr(valuation))
