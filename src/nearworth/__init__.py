"""nearworth: what each training point is worth to a nearest-neighbour model, exactly.

    est = nearworth.KNNShapley(n_neighbors=5).fit(X, y)
    valuation = est.value(X_val, y_val)
    valuation.values                      # one number per training row
    valuation.bottom(20)                  # the rows that hurt most

Names load when first used: importing the package costs next to nothing beyond numpy.

The layout. There are no import cycles between folders: `tests/test_architecture.py` has the arrows in one table.

    estimator.py    KNNShapley: parameters in, calls out
    inputs/         the one place where inputs are checked: parameters, X and y in any form, files
    engine/         TrainingSet -> Problem -> Method -> Plan -> run -> Valuation: engine/value.py has that sequence,
                    engine/classify.py shows how one query is valued
    games/          what a rank is worth: coefficients, closed forms, ties, the definition; numpy only
    neighbors/      which points are near: keys, distances, products, exact search, indexes; never sees a label
    results/        what a run gives: sums, Partial, Valuation, Detection, owners, plots

    audit/          which labels are wrong: votes, a model of noise, LabelAudit
    tables/         the user's tables: read, prepare, write       report/    a LabelAudit as one page to look at
    datasets/       data to try things on, and label noise        paper/     the experiment of Wang & Jia 2023
    cli/            the command line, on top of everything        _common/   what every part may use

    utilities.py, testing.py    the four utilities as plain functions; checks for searchers of your own
    curves.py                   what is lost when rows are removed by value

Read first: `engine/__init__.py` for the objects, `engine/value.py`, then `engine/classify.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nearworth._version import __version__

if TYPE_CHECKING:
    from nearworth import datasets, paper, testing, utilities
    from nearworth.audit.audit import audit_labels
    from nearworth.audit.result import LabelAudit
    from nearworth.curves import RemovalCurve, removal_curve
    from nearworth.datasets.noise import add_label_noise
    from nearworth.engine.plan import Plan
    from nearworth.estimator import KNNShapley, knn_shapley
    from nearworth.games.definition import exact_shapley
    from nearworth.neighbors.faiss_search import FaissSearch
    from nearworth.neighbors.graph import GraphSearch
    from nearworth.neighbors.lsh import LSHSearch
    from nearworth.results.detection import Detection
    from nearworth.results.origin import Origin
    from nearworth.results.owners import OwnerValue, OwnerValues
    from nearworth.results.sums import Partial
    from nearworth.results.valuation import Valuation
    from nearworth.tables.prepare import TablePreparer

_HOME = {
    "Detection": "nearworth.results.detection",
    "FaissSearch": "nearworth.neighbors.faiss_search",
    "GraphSearch": "nearworth.neighbors.graph",
    "KNNShapley": "nearworth.estimator",
    "LSHSearch": "nearworth.neighbors.lsh",
    "LabelAudit": "nearworth.audit.result",
    "Origin": "nearworth.results.origin",
    "OwnerValue": "nearworth.results.owners",
    "OwnerValues": "nearworth.results.owners",
    "Partial": "nearworth.results.sums",
    "Plan": "nearworth.engine.plan",
    "RemovalCurve": "nearworth.curves",
    "TablePreparer": "nearworth.tables.prepare",
    "Valuation": "nearworth.results.valuation",
    "add_label_noise": "nearworth.datasets.noise",
    "audit_labels": "nearworth.audit.audit",
    "exact_shapley": "nearworth.games.definition",
    "knn_shapley": "nearworth.estimator",
    "removal_curve": "nearworth.curves",
}
_MODULES = ("datasets", "paper", "testing", "utilities")

__all__ = [
    "Detection",
    "FaissSearch",
    "GraphSearch",
    "KNNShapley",
    "LSHSearch",
    "LabelAudit",
    "Origin",
    "OwnerValue",
    "OwnerValues",
    "Partial",
    "Plan",
    "RemovalCurve",
    "TablePreparer",
    "Valuation",
    "__version__",
    "add_label_noise",
    "audit_labels",
    "datasets",
    "exact_shapley",
    "knn_shapley",
    "paper",
    "removal_curve",
    "testing",
    "utilities",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"nearworth.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'nearworth' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
