"""nearworth: what each training point is worth to a nearest-neighbour model, exactly.

    est = nearworth.KNNShapley(n_neighbors=5).fit(X, y)
    valuation = est.value(X_val, y_val)
    valuation.values                      # one number per training row
    valuation.bottom(20)                  # the rows that hurt most

Names load when first used: importing the package costs next to nothing beyond numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nearworth._version import __version__

if TYPE_CHECKING:
    from nearworth import datasets, paper, testing, utilities
    from nearworth.audit.labels import audit_labels
    from nearworth.audit.result import LabelAudit
    from nearworth.curves import RemovalCurve, removal_curve
    from nearworth.datasets.noise import add_label_noise
    from nearworth.engine.plan import Plan
    from nearworth.estimator import KNNShapley, knn_shapley
    from nearworth.games.oracle import exact_shapley
    from nearworth.neighbors.faiss_search import FaissSearch
    from nearworth.neighbors.graph import GraphSearch
    from nearworth.neighbors.lsh import LSHSearch
    from nearworth.results.detection import Detection
    from nearworth.results.origin import Origin
    from nearworth.results.owners import OwnerValue, OwnerValues
    from nearworth.results.partial import Partial
    from nearworth.results.valuation import Valuation
    from nearworth.tables.preparing import TablePreparer

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
    "Partial": "nearworth.results.partial",
    "Plan": "nearworth.engine.plan",
    "RemovalCurve": "nearworth.curves",
    "TablePreparer": "nearworth.tables.preparing",
    "Valuation": "nearworth.results.valuation",
    "add_label_noise": "nearworth.datasets.noise",
    "audit_labels": "nearworth.audit.labels",
    "exact_shapley": "nearworth.games.oracle",
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
