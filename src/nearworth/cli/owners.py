"""nearworth owners: what the rows of each owner are worth, what each is paid, and a statement for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nearworth as nw
from nearworth.cli.data import prepare, write_results
from nearworth.cli.options import pop_model, print_message
from nearworth.tables import InputError
from nearworth.tables.write import FORMATS, STDOUT, check_output, write_bytes


def owners(
    *, output: str, force: bool, as_json: bool, owner_column: str, budget: str | None, negative: str, analyst: bool,
    earlier: str | None, **given: Any,
) -> None:  # fmt: skip
    model, rules = pop_model(given), dict[str, Any](negative=negative, analyst=analyst)
    check_output(output, force, (*FORMATS, ".html"), inputs=(given["train"], given["validation"], earlier))
    before = None if earlier is None else _read_earlier(earlier)
    data = prepare(**given, id_column=owner_column, id_option="--owner-column")
    est = nw.KNNShapley(**model, task=data.task, standard_errors=True, random_state=0).fit(data.X, data.y)
    values = est.value_owners(data.rows.ids.take(data.numbers).to_pylist(), data.X_val, data.y_val)
    comparison = None if before is None else values.compare(before)
    payments = {} if budget is None else values.payments(budget, **rules)
    paid = [f"{owner}: {amount:.2f}" for owner, amount in payments.items()]
    print_message("\n".join([str(values), *paid, *([] if comparison is None else [str(comparison)])]))
    suffix = Path(output).suffix.lower()
    if suffix == ".html":
        from nearworth.report.page import render_statements

        page = render_statements(values, Path(given["train"]).name, budget, comparison, rules)
        write_bytes(output, lambda file: file.write(page.encode()))
    elif suffix == ".json":
        write_bytes(output, lambda file: file.write(values.to_json().encode()))
    if suffix in (".html", ".json") and not as_json:
        return
    columns = _columns(values, payments)
    summary = {"command": "owners", "how": values.how, "payments": {str(k): v for k, v in payments.items()}}
    write_results(columns, summary, STDOUT if suffix in (".html", ".json") else output, as_json)


def _columns(values: nw.OwnerValues, payments: dict[Any, float]) -> dict[str, Any]:
    frame = values.to_frame("pyarrow")
    columns = {name: frame[name] for name in frame.column_names}
    return columns | ({"payment": [payments[owner] for owner in values]} if payments else {})


def _read_earlier(path: str) -> nw.OwnerValues:
    try:
        return nw.OwnerValues.from_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is no .json that `nearworth owners` wrote.") from error
