"""nearworth plan, of a file: what its valuation would need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nearworth.cli.data import Wanted, load
from nearworth.tables.read import count_rows


def plan_of_file(wanted: Wanted, parameters: dict[str, Any]) -> Any:
    """The plan of `nearworth value` on this file; of the validation file nothing but the number of rows is needed."""
    n_val = None if wanted.validation is None else count_rows(wanted.validation)
    data = load(replace(wanted, validation=None))
    from nearworth.estimator import KNNShapley

    est = KNNShapley(**parameters, standard_errors=True).fit(data.X, data.y)
    return est.plan(len(data.y) if n_val is None else n_val)
