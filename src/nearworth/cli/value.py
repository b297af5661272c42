"""nearworth value, owners, retrieval, plan and merge: values of rows, of owners and of documents,
and their cost.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

# its names load when first used, so that bad files are refused before scikit-learn is imported
import nearworth as nw
from nearworth._common.text import lines, one_line, refuse_alike
from nearworth.cli.data import Data, load, prepare, print_json, write_results
from nearworth.cli.options import pop_model, print_message, progress
from nearworth.tables import InputError, listed
from nearworth.tables.read import count_rows
from nearworth.tables.write import FORMATS, STDOUT, check_output, write_bytes, write_columns

TRIED_SECONDS, TRIED_ROWS = 2.0, 4_096  # of an audit; indexes are asked about 1,024 rows at a time
PATIENCE = 10  # seconds to wait for a scheduler


def value(
    *,
    output: str,
    force: bool,
    as_json: bool,
    checkpoint: str | None,
    cluster: str | None,
    scratch: str | None,
    **given: Any,
) -> None:
    model = pop_model(given)
    check_output(output, force, inputs=(given["train"], given["validation"]))
    data = prepare(**given)
    est = nw.KNNShapley(
        **model, task=data.task, standard_errors=True, random_state=0, progress=progress
    )
    est.fit(data.X, data.y)
    with cluster_client(cluster) as client:
        valuation = est.value(
            data.X_val, data.y_val, checkpoint=checkpoint, executor=client, scratch=scratch
        )
    if valuation.resumed:
        resumed = f"{valuation.resumed:,} of {valuation.n_val:,} validation points"
        print_message(f"{resumed} came from {one_line(checkpoint)}")
    print_message(str(valuation))
    made = valuation.origin
    summary = {
        "command": "value",
        "version": made.version,
        "parameters": dict(made.parameters),
        "n_train": made.n_train,
        "n_validation": made.n_val,
        "validation": "self" if made.is_leave_one_out else "given",
        "error_bound": valuation.error_bound,
        "typical_error": valuation.typical_error,
        "negative": int((valuation.values < 0).sum()),
        "columns": data.columns,
    }
    write_results(
        data.names(data.rows.numbers) | value_columns(valuation), summary, output, as_json
    )
    if output != STDOUT:
        print_message(f"Values of {len(data.y):,} rows are in {one_line(output)}")


def value_columns(valuation: nw.Valuation) -> dict[str, Any]:
    """value, standard_error and rank of every row; certified bounds where values are not exact."""
    frame, bounds = (
        valuation.to_frame("pyarrow"),
        ("lower", "upper") if valuation.error_bound > 0 else (),
    )
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
    logging.getLogger("distributed").setLevel(
        logging.CRITICAL
    )  # errors are printed once, as one line
    try:
        client = distributed.Client(address, timeout=PATIENCE)
    except (ValueError, OSError) as error:
        raise OSError(f"--cluster: no Dask scheduler answers at {address!r} ({error}).") from error
    with client:
        try:
            yield client
        except RuntimeError as error:
            raise click.ClickException(str(error)) from error


def owners(
    *,
    output: str,
    force: bool,
    as_json: bool,
    owner_column: str,
    budget: str | None,
    negative: str,
    analyst: bool,
    **given: Any,
) -> None:
    from nearworth.report.page import render_statements
    from nearworth.results.owners import in_cents

    if budget is not None:
        in_cents(budget)  # refused before anything is computed
    model, rules = pop_model(given), dict[str, Any](negative=negative, analyst=analyst)
    check_output(output, force, (*FORMATS, ".html"), inputs=(given["train"], given["validation"]))
    data = prepare(**given, id_column=owner_column)
    est = nw.KNNShapley(**model, task=data.task, standard_errors=True, random_state=0).fit(
        data.X, data.y
    )
    names = data.rows.ids.take(data.rows.numbers).to_pylist()
    named = [name is not None and str(name).strip() for name in names]
    if missing := [
        int(row) for row, name in zip(data.rows.numbers, named, strict=True) if not name
    ]:
        problem = (
            f"{given['train']}: --owner-column {owner_column} names no owner in rows"
            f" {listed(missing)}."
        )
        raise InputError(f"{problem} Name one, or leave these rows out of the file.")
    refuse_alike(
        dict.fromkeys(names), f"{one_line(given['train'])}: the owner column {owner_column!r}"
    )
    values = est.value_owners(names, data.X_val, data.y_val)
    payments = {} if budget is None else values.payments(budget, **rules)
    print_message(
        "\n".join(
            [
                str(values),
                *(f"{one_line(owner)}: {amount:.2f}" for owner, amount in payments.items()),
            ]
        )
    )
    frame, suffix = values.to_frame("pyarrow"), Path(output).suffix.lower()
    if payments:
        rows = [row | {"payment": payments[row["owner"]]} for row in frame.to_pylist()]
        if analyst:  # a text among owners that may be numbers
            rows.append({"owner": "analyst", "payment": payments["analyst"]})
            rows = [row | {"owner": str(row["owner"])} for row in rows]
        frame = type(frame).from_pylist(rows)
    summary = {
        "command": "owners",
        "how": values.how,
        "payments": {str(k): v for k, v in payments.items()},
    }
    if suffix not in (".html", ".json"):
        write_results(frame, summary, output, as_json)
        return
    if suffix == ".html":
        text = render_statements(values, Path(given["train"]).name, budget, rules)
    else:
        text = json.dumps(
            json.loads(values.to_json()) | {"payments": summary["payments"]}, indent=1
        )
    write_bytes(output, lambda file: file.write(text.encode()))
    if as_json:
        print_json(summary | {"output": output})
    print_message(f"They are in {one_line(output)}")


def retrieval(
    *,
    run: str,
    qrels: str,
    n_neighbors: int,
    semivalue: Any,
    output: str,
    force: bool,
    as_json: bool,
) -> None:
    check_output(output, force, inputs=(run, qrels))
    values = nw.value_retrieval(run, qrels, n_neighbors, semivalue)
    print_message(str(values))
    harmful = values.harmful(10)
    for document, queries in harmful.items():
        hurt = ", ".join(map(one_line, list(queries)[:5]))
        print_message(f"{one_line(document)} hurts {hurt}{', ...' * (len(queries) > 5)}")
    summary = {
        "command": "retrieval",
        "n_queries": len(values.queries),
        "error_bound": values.error_bound,
    }
    write_results(values.to_frame("pyarrow"), summary | {"harmful": harmful}, output, as_json)


def plan(*, purpose: str, validation: str | None, **given: Any) -> None:
    model = pop_model(given)
    data = load(**given)
    if purpose == "detect":
        plan_audit(data, model)
        return
    est = nw.KNNShapley(**model, task=data.task, standard_errors=True).fit(data.X, data.y)
    click.echo(lines(est.plan(len(data.y) if validation is None else count_rows(validation))))


def plan_audit(data: Data, model: dict[str, Any]) -> None:
    """Print how long an audit takes by each way to find neighbours, from the first seconds of
    one.
    """
    from nearworth.cli.detect import INDEX_ERROR, MANY_ROWS, resolve_search
    from nearworth.engine.plan import readable_time

    n_rows, task, ways = len(data.y), data.task, {"every distance": dict[str, Any](search="exact")}
    if task == "classification" and model["metric"] == "euclidean":
        ways["an index (faiss)"] = {"search": "faiss", "max_error": INDEX_ERROR}
    taken = resolve_search(model | {"search": "auto"}, n_rows, task)["search"]
    click.echo(
        f"An audit of {n_rows:,} rows of {data.X.shape[1]:,} numbers, from its first seconds on"
        " this machine:"
    )
    for name, search in ways.items():
        if search["search"] == "faiss" and not find_spec("faiss"):
            click.echo(f"  {name:<18} not installed: pip install 'nearworth[faiss]'")
            continue
        setup, per_row = _try_audit(data, model | search)
        default = (
            f"  (the default, from {MANY_ROWS:,} rows on an index)"
            if search["search"] == taken
            else ""
        )
        click.echo(f"  {name:<18} about {readable_time(setup + per_row * n_rows)}{default}")


class _EnoughError(Exception):
    """Ends a trial."""


def _try_audit(data: Data, model: dict[str, Any]) -> tuple[float, float]:
    """Seconds before the first row, and for each row."""
    marks = [(0, time.perf_counter())]

    def watch(done: int, _total: int) -> None:
        marks.append((done, time.perf_counter()))
        rows, seconds = done - marks[1][0], marks[-1][1] - marks[1][1]
        if seconds >= TRIED_SECONDS and rows >= (TRIED_ROWS if model["search"] == "faiss" else 1):
            raise _EnoughError

    with suppress(_EnoughError):
        nw.audit_labels(data.X, data.y, task=data.task, **model, progress=watch)
    (first, begun), (last, ended) = marks[1], marks[-1]
    return begun - marks[0][1], (ended - begun) / max(1, last - first)


def merge(parts: tuple[str, ...], output: str, force: bool) -> None:
    check_output(output, force, (".npz", ".csv", ".parquet"), parts)
    first, *others = [nw.Partial.load(path) for path in parts]
    valuation = nw.Valuation.from_partial(first.merge(others))
    if Path(output).suffix.lower() == ".npz":
        valuation.save(output)
    else:
        write_columns(valuation.to_frame("pyarrow"), output)
    click.echo(lines(repr(valuation)))
