"""nearworth value, plan and merge: the value of every row, what computing it needs, and parts put together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

import nearworth as nw  # its names load when first used, so that bad files are refused before scikit-learn is imported
from nearworth.cli.cluster import LOCAL, cluster_client
from nearworth.cli.data import load, prepare
from nearworth.cli.messages import print_message, write_results
from nearworth.cli.options import pop_model
from nearworth.tables import InputError
from nearworth.tables.read import count_rows
from nearworth.tables.write import STDOUT, check_output, write_columns


def value(
    *, output: str, force: bool, dry_run: bool, quiet: bool, as_json: bool, checkpoint: str | None,
    checkpoint_interval: float, cluster: str | None, scratch: str | None, **given: Any,
) -> None:  # fmt: skip
    """Read, value, write."""
    model = pop_model(given)
    check_output(output, force, inputs=(given["train"], given["validation"]))
    data = prepare(dry_run, quiet, **given)
    if data is None:
        return
    workers = model["n_jobs"]
    if cluster == LOCAL:
        model["n_jobs"] = 1  # --jobs are workers of one thread each
    est = nw.KNNShapley(**model, standard_errors=True, random_state=0).fit(data.X, data.y)
    with cluster_client(cluster, workers) as client:
        valuation = est.value(
            data.X_val, data.y_val, checkpoint=checkpoint, checkpoint_interval=checkpoint_interval, executor=client,
            scratch=scratch,
        )  # fmt: skip
    if valuation.resumed:
        print_message(f"{valuation.resumed:,} of {valuation.n_val:,} validation points came from {checkpoint}", quiet)
    print_message(str(valuation), quiet)
    summary = _summary(valuation) | {"columns": data.columns}
    write_results(data.names() | value_columns(valuation), summary, output, as_json)
    if output != STDOUT:
        print_message(f"Values of {len(data.y):,} rows are in {output}", quiet)


def value_columns(valuation: nw.Valuation) -> dict[str, Any]:
    """value, standard_error and rank of every row; certified bounds where values are not exact."""
    values = valuation.values
    columns: dict[str, Any] = {"value": values, "standard_error": valuation.standard_errors}
    if valuation.error_bound > 0:
        columns |= {"lower": valuation.lower, "upper": valuation.upper}
    return columns | {"rank": np.searchsorted(np.sort(-values), -values) + 1}


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
        "negative": int((valuation.values < 0).sum()),
    }


def plan(*, what: tuple[str, ...], columns: int, classes: int, standard_errors: bool, **given: Any) -> nw.Plan:
    """The plan of `nearworth value` on a file, or on data of which only the shape is known."""
    model = pop_model(given)
    if len(what) == 2 and all(size.isdecimal() and int(size) > 0 for size in what):
        about = {"target": "--target", "validation": "--validation", "id_column": "--id", "ignore": "--ignore",
                 "features": "--features"}  # fmt: skip
        for name, option in about.items():
            if given[name]:
                raise click.UsageError(f"{option} is about a file; sizes take -d and --classes.")
        n_train, n_val = map(int, what)
        return _plan_of_sizes(n_train, n_val, columns, classes, model | {"standard_errors": standard_errors})
    if len(what) > 1:
        raise click.UsageError(f"{' '.join(what)!r} is neither one file nor two sizes, N_TRAIN and N_VAL.")
    validation = given.pop("validation")  # only its number of rows matters
    counted = None if validation is None else count_rows(validation)
    data = load(what[0], **given)
    est = nw.KNNShapley(**model, standard_errors=True).fit(data.X, data.y)
    return est.plan(len(data.y) if counted is None else counted)


def _plan_of_sizes(n_train: int, n_val: int, n_features: int, n_classes: int, model: dict[str, Any]) -> nw.Plan:
    from nearworth.engine.plan import TRIAL_POINTS

    rng = np.random.default_rng(0)
    n_tried = min(n_train, TRIAL_POINTS, max(64, 2**25 // n_features))
    X, y = rng.normal(size=(n_tried, n_features)), rng.integers(0, n_classes, n_tried)
    return nw.KNNShapley(**model).fit(X, y).plan(n_val, n_train=n_train)


def merge(parts: tuple[str, ...], output: str, force: bool) -> nw.Valuation:
    """Merge saved parts, in any order, and write the values: .npz holds everything, .csv and .parquet a table."""
    if output == STDOUT:
        raise InputError("-o -: merged values go to a file; give a name.")
    check_output(output, force, (".npz", ".csv", ".parquet"), parts)
    first, *others = [nw.Partial.load(path) for path in parts]
    valuation = nw.Valuation.from_partial(first.merge(others))
    if Path(output).suffix.lower() == ".npz":
        valuation.save(output)
    else:
        table = valuation.to_frame("pyarrow")
        write_columns({name: table[name] for name in table.column_names}, output)
    return valuation
