"""nearworth value, owners, retrieval, plan and merge: values of rows, of owners and of documents,
and their cost.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

# its names load when first used, so that bad files are refused before scikit-learn is imported
import nearworth as nw
from nearworth._common.text import lines, one_line, refuse_alike
from nearworth.cli.arguments import (
    MergeOptions,
    OwnersOptions,
    PlanOptions,
    RetrievalOptions,
    ValueOptions,
)
from nearworth.cli.data import prepare, print_json, write_results
from nearworth.cli.options import print_message, progress
from nearworth.tables import InputError, listed
from nearworth.tables.dataset import Dataset
from nearworth.tables.load import load_files
from nearworth.tables.read import count_rows
from nearworth.tables.write import FORMATS, STDOUT, check_output, write_bytes, write_columns

# A trial of an audit is this long, at least.
MIN_TRIAL_SECONDS = 2.0
# Indexes search for 1,024 rows at a time: these are four such batches.
MIN_TRIAL_ROWS_OF_INDEX = 4_096
# How long a scheduler may take to answer.
MAX_CONNECT_SECONDS = 10
# Documents, and queries for each, that messages name.
HARMFUL_DOCUMENTS = 10
NAMED_QUERIES = 5


def value(options: ValueOptions) -> None:
    output = options.write.output
    check_output(output, options.write.overwrite, inputs=options.data.table.files)
    dataset = prepare(options.data)
    estimator = nw.KNNShapley(
        **options.data.model.keywords(),
        task=dataset.task,
        standard_errors=True,
        random_state=0,
        progress=progress,
    )
    estimator.fit(dataset.X_labeled, dataset.y)
    with cluster_client(options.cluster) as client:
        valuation = estimator.value(
            dataset.X_val,
            dataset.y_val,
            checkpoint=options.checkpoint,
            executor=client,
            scratch=options.scratch,
        )
    if valuation.resumed:
        resumed = f"{valuation.resumed:,} of {valuation.n_val:,} validation points"
        print_message(f"{resumed} came from {one_line(options.checkpoint)}")
    print_message(str(valuation))

    columns = dataset.name_columns(dataset.labeled_rows) | value_columns(valuation)
    write_results(columns, _value_summary(valuation, dataset), output, options.as_json)
    if output != STDOUT:
        print_message(f"Values of {len(dataset.y):,} rows are in {one_line(output)}")


def _value_summary(valuation: nw.Valuation, dataset: Dataset) -> dict[str, Any]:
    origin = valuation.origin
    return {
        "command": "value",
        "version": origin.version,
        "parameters": dict(origin.parameters),
        "n_train": origin.n_train,
        "n_validation": origin.n_val,
        "validation": "self" if origin.is_leave_one_out else "given",
        "error_bound": valuation.error_bound,
        "typical_error": valuation.typical_error,
        "negative": int((valuation.values < 0).sum()),
        "columns": dataset.columns,
    }


def value_columns(valuation: nw.Valuation) -> dict[str, Any]:
    """value, standard_error and rank of every row, and bounds where values are not exact."""
    frame = valuation.to_frame("pyarrow")
    bounds = ("lower", "upper") if valuation.error_bound > 0 else ()
    return {name: frame[name] for name in ("value", "standard_error", *bounds, "rank")}


@contextmanager
def cluster_client(address: str | None) -> Iterator[Any]:
    """A client of a Dask cluster, or None without an address."""
    if address is None:
        yield None
        return
    try:
        import distributed
    except ImportError as error:
        raise ImportError("--cluster needs Dask: pip install 'nearworth[dask]'") from error
    # Errors are printed once, as one line.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=MAX_CONNECT_SECONDS)
    except (ValueError, OSError) as error:
        raise OSError(f"--cluster: no Dask scheduler answers at {address!r} ({error}).") from error
    with client:
        try:
            yield client
        except RuntimeError as error:
            raise click.ClickException(str(error)) from error


def owners(options: OwnersOptions) -> None:
    from nearworth.results.owners import in_cents

    # Bad amounts are refused before anything is computed.
    if options.budget is not None:
        in_cents(options.budget)
    output = options.write.output
    table = options.data.table
    check_output(output, options.write.overwrite, (*FORMATS, ".html"), inputs=table.files)
    dataset = prepare(options.data)
    estimator = nw.KNNShapley(
        **options.data.model.keywords(), task=dataset.task, standard_errors=True, random_state=0
    )
    estimator.fit(dataset.X_labeled, dataset.y)
    owner_of_row = _owner_of_row(dataset, options)
    values = estimator.value_owners(owner_of_row, dataset.X_val, dataset.y_val)

    payments: dict[Any, Any] = {}
    if options.budget is not None:
        payments = values.payments(options.budget, **_payment_rules(options))
    paid = [f"{one_line(owner)}: {amount:.2f}" for owner, amount in payments.items()]
    print_message("\n".join([str(values), *paid]))
    _write_owners(values, payments, options)


def _payment_rules(options: OwnersOptions) -> dict[str, Any]:
    """The keywords of `OwnerValues.payments`."""
    return {"negative": options.negative, "analyst": options.analyst}


def _owner_of_row(dataset: Dataset, options: OwnersOptions) -> list[Any]:
    """The owner of each labeled row. Rows without one, and owners that print alike, are refused."""
    train = options.data.table.train
    owner_of_row = list(dataset.ids.take(dataset.labeled_rows).to_pylist())
    nameless = [
        int(row)
        for row, owner in zip(dataset.labeled_rows, owner_of_row, strict=True)
        if owner is None or not str(owner).strip()
    ]
    if nameless:
        raise InputError(
            f"{train}: --owner {options.owner} names no owner in rows"
            f" {listed(nameless)}. Name one, or leave these rows out of the file."
        )
    refuse_alike(
        dict.fromkeys(owner_of_row),
        f"{one_line(train)}: the owner column {options.owner!r}",
    )
    return owner_of_row


def _write_owners(values: nw.OwnerValues, payments: dict[Any, Any], options: OwnersOptions) -> None:
    """Write the values of owners as a table, as JSON, or as a page of statements."""
    from nearworth.report.page import render_statements

    output = options.write.output
    suffix = Path(output).suffix.lower()
    printed_payments = {str(owner): amount for owner, amount in payments.items()}
    summary = {"command": "owners", "how": values.how, "payments": printed_payments}
    if suffix not in (".html", ".json"):
        table = _owner_table(values, payments, has_analyst=options.analyst)
        write_results(table, summary, output, options.as_json)
        return
    if suffix == ".html":
        source = Path(options.data.table.train).name
        text = render_statements(values, source, options.budget, _payment_rules(options))
    else:
        content = json.loads(values.to_json()) | {"payments": printed_payments}
        text = json.dumps(content, indent=1)
    write_bytes(output, lambda file: file.write(text.encode()))
    if options.as_json:
        print_json(summary | {"output": output})
    print_message(f"They are in {one_line(output)}")


def _owner_table(values: nw.OwnerValues, payments: dict[Any, Any], *, has_analyst: bool) -> Any:
    """The values of owners as an Arrow table, with a column of payments if there are any."""
    table = values.to_frame("pyarrow")
    if not payments:
        return table
    records = [record | {"payment": payments[record["owner"]]} for record in table.to_pylist()]
    if has_analyst:
        records.append({"owner": "analyst", "payment": payments["analyst"]})
        # Owners may be numbers, but one column holds them and the analyst.
        records = [record | {"owner": str(record["owner"])} for record in records]
    return type(table).from_pylist(records)


def retrieval(options: RetrievalOptions) -> None:
    output = options.write.output
    check_output(output, options.write.overwrite, inputs=(options.run, options.qrels))
    values = nw.value_retrieval(options.run, options.qrels, options.n_neighbors, options.semivalue)
    print_message(str(values))
    harmful = values.harmful(HARMFUL_DOCUMENTS)
    for document, queries in harmful.items():
        hurt = ", ".join(map(one_line, list(queries)[:NAMED_QUERIES]))
        dots = ", ..." if len(queries) > NAMED_QUERIES else ""
        print_message(f"{one_line(document)} hurts {hurt}{dots}")
    summary = {
        "command": "retrieval",
        "n_queries": len(values.queries),
        "error_bound": values.error_bound,
        "harmful": harmful,
    }
    write_results(values.to_frame("pyarrow"), summary, output, options.as_json)


def plan(options: PlanOptions) -> None:
    # The rows of the validation file are counted, not read.
    dataset = load_files(replace(options.table, validation=None))
    model = options.model.keywords()
    if options.purpose == "audit":
        plan_audit(dataset, model)
        return
    estimator = nw.KNNShapley(**model, task=dataset.task, standard_errors=True)
    estimator.fit(dataset.X_labeled, dataset.y)
    validation = options.table.validation
    n_val = len(dataset.y) if validation is None else count_rows(validation)
    click.echo(lines(estimator.plan(n_val)))


def plan_audit(dataset: Dataset, model: dict[str, Any]) -> None:
    """Print how long an audit takes by each way to find neighbours, from the first seconds of
    one.
    """
    from nearworth.cli.audit import INDEX_ERROR, MANY_ROWS, resolve_search
    from nearworth.engine.plan import readable_time

    n_rows = len(dataset.y)
    searches: dict[str, dict[str, Any]] = {"every distance": {"search": "exact"}}
    if dataset.task == "classification" and model["metric"] == "euclidean":
        searches["an index (faiss)"] = {"search": "faiss", "max_error": INDEX_ERROR}
    default = resolve_search(model | {"search": "auto"}, n_rows, dataset.task)["search"]

    n_features = dataset.X.shape[1]
    click.echo(
        f"An audit of {n_rows:,} rows of {n_features:,} numbers, from its first seconds on"
        " this machine:"
    )
    for name, search in searches.items():
        if search["search"] == "faiss" and not find_spec("faiss"):
            click.echo(f"  {name:<18} not installed: pip install 'nearworth[faiss]'")
            continue
        trial = _try_audit(dataset, model | search)
        remark = ""
        if search["search"] == default:
            remark = f"  (the default, from {MANY_ROWS:,} rows on an index)"
        click.echo(f"  {name:<18} about {readable_time(trial.seconds_of(n_rows))}{remark}")


class _EnoughError(Exception):
    """Ends a trial."""


@dataclass(frozen=True)
class _Trial:
    """The first seconds of an audit: what it took before the first rows, and then for each row."""

    setup_seconds: float
    seconds_per_row: float

    def seconds_of(self, n_rows: int) -> float:
        """The time of an audit of so many rows."""
        return self.setup_seconds + self.seconds_per_row * n_rows


def _try_audit(dataset: Dataset, model: dict[str, Any]) -> _Trial:
    """Begin an audit, and stop it once its speed is known."""
    start = time.perf_counter()
    marks: list[tuple[int, float]] = []
    min_rows = MIN_TRIAL_ROWS_OF_INDEX if model["search"] == "faiss" else 1

    def watch(done: int, _total: int) -> None:
        now = time.perf_counter()
        marks.append((done, now))
        first_done, first_time = marks[0]
        if now - first_time >= MIN_TRIAL_SECONDS and done - first_done >= min_rows:
            raise _EnoughError

    with suppress(_EnoughError):
        nw.audit_labels(dataset.X_labeled, dataset.y, task=dataset.task, **model, progress=watch)
    first_done, first_time = marks[0]
    last_done, last_time = marks[-1]
    seconds_per_row = (last_time - first_time) / max(1, last_done - first_done)
    return _Trial(first_time - start, seconds_per_row)


def merge(options: MergeOptions) -> None:
    output = options.write.output
    check_output(output, options.write.overwrite, (".npz", ".csv", ".parquet"), options.parts)
    first, *others = [nw.Partial.load(path) for path in options.parts]
    valuation = nw.Valuation.from_partial(first.merge(others))
    if Path(output).suffix.lower() == ".npz":
        valuation.save(output)
    else:
        write_columns(valuation.to_frame("pyarrow"), output)
    click.echo(lines(repr(valuation)))
