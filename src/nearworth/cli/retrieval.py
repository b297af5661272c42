"""nearworth retrieval: what each document is worth to the answers drawn from it."""

from __future__ import annotations

from typing import Any

import nearworth as nw
from nearworth.cli.data import write_results
from nearworth.cli.options import print_message
from nearworth.tables.write import check_output


def retrieval(
    *, run: str, qrels: str, n_neighbors: int, semivalue: Any, output: str, force: bool, as_json: bool
) -> None:
    check_output(output, force, inputs=(run, qrels))
    values = nw.value_retrieval(run, qrels, n_neighbors, semivalue)
    print_message(str(values))
    harmful = values.harmful(10)
    for document, queries in harmful.items():
        print_message(f"{document} hurts {', '.join(list(queries)[:5])}{', ...' * (len(queries) > 5)}")
    frame = values.to_frame("pyarrow")
    summary = {"command": "retrieval", "n_queries": len(values.queries), "error_bound": values.error_bound}
    columns = {name: frame[name] for name in frame.column_names}
    write_results(columns, summary | {"harmful": harmful}, output, as_json)
