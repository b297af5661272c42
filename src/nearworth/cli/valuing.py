"""nearworth value: what every row is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth.cli.cluster import cluster_client, threads_of
from nearworth.cli.data import Wanted, load
from nearworth.cli.telling import print_json, tell, tell_compiling, tell_data
from nearworth.tables.write import STDOUT, check_output, records, write_columns

if TYPE_CHECKING:
    from nearworth.results.valuation import Valuation


def value(
    wanted: Wanted,
    parameters: dict[str, Any],
    output: str,
    force: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    checkpoint: str | None,
    checkpoint_interval: float,
    cluster: str | None,
    scratch: str | None,
) -> None:
    """Read, value, write."""
    check_output(output, force, inputs=(wanted.train, wanted.validation))
    data = load(wanted)
    tell_data(data, quiet)
    if dry_run:
        tell("Dry run: nothing was computed or written.", quiet)
        return
    tell_compiling(quiet)
    from nearworth.estimator import KNNShapley

    workers = parameters["n_jobs"]
    parameters["n_jobs"] = threads_of(cluster, workers)
    est = KNNShapley(**parameters, task=wanted.task, standard_errors=True, random_state=0)  # type: ignore[arg-type]
    est.fit(data.X, data.y)
    with cluster_client(cluster, workers) as client:
        kept = {"checkpoint": checkpoint, "checkpoint_interval": checkpoint_interval}
        valuation = est.value(data.X_val, data.y_val, **kept, executor=client, scratch=scratch)  # type: ignore[arg-type]
    if valuation.resumed:
        tell(f"{valuation.resumed:,} of {valuation.n_val:,} validation points came from {checkpoint}", quiet)
    tell(str(valuation), quiet)
    columns = data.names() | value_columns(valuation)
    if as_json:
        rows = {"rows": records(columns)} if output == STDOUT else {"output": output}
        print_json(_summary(valuation) | {"columns": data.columns} | rows)
    if output != STDOUT or not as_json:
        write_columns(columns, output)
    if output != STDOUT:
        tell(f"Values of {len(data.y):,} rows are in {output}", quiet)


def value_columns(valuation: Valuation) -> dict[str, Any]:
    """value, standard_error and rank of every row; certified ends where values are not exact."""
    values = valuation.values
    columns: dict[str, Any] = {"value": values, "standard_error": valuation.standard_errors}
    if valuation.error_bound > 0:
        columns |= {"lower": valuation.lower, "upper": valuation.upper}
    return columns | {"rank": np.searchsorted(np.sort(-values), -values) + 1}


def _summary(valuation: Valuation) -> dict[str, Any]:
    made = valuation.origin
    return {
        "command": "value",
        "version": made.version,
        "parameters": dict(made.parameters),
        "n_train": made.n_train,
        "n_validation": made.n_val,
        "validation": "self" if made.is_leave_one_out else "given",
        "error_bound": valuation.error_bound,
        "negative": int((valuation.values < 0).sum()),
    }
