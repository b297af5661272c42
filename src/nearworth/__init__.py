"""nearworth: what each training point is worth to a nearest-neighbour model, exactly.

    est = nearworth.KNNShapley(n_neighbors=5).fit(X, y)
    valuation = est.value(X_val, y_val)
    valuation.values                      # one number per training row
    valuation.bottom(20)                  # the rows that hurt most

Names load when first used: importing the package costs next to nothing beyond numpy.

The layout. There are no import cycles between folders: `tests/test_architecture.py` has the arrows
in one table.

    estimator.py    KNNShapley: parameters in, calls out inputs/         the one place where inputs
    are checked: parameters, X and y in any form, files engine/         TrainingSet -> Problem ->
    Method -> Plan -> run -> Valuation: engine/value.py has that sequence,
                    engine/reference.py shows how one query is valued
    games/          what a rank is worth: coefficients, closed forms, ties; numpy only neighbors/
    which points are near: keys, distances, exact search, indexes; never sees a label results/
    what a run gives: sums, Partial, Valuation, Detection, owners, plots

    audit/          which labels are wrong: votes, a model of noise, LabelAudit; scan: duplicates,
    outliers, leaks tables/         the user's tables: read, prepare, write       report/    a
    LabelAudit as one page to look at cli/            the command line, on top of everything
    _common/   what every part may use

    testing.py      the definition, from all 2^n subsets; checks of values and searchers of your own
    retrieval.py    documents valued by ranked lists and relevance judgements
    datasets.py     data to try things on, and label noise

Read first: `engine/__init__.py` for the objects, `engine/value.py`, then `engine/reference.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nearworth._version import __version__ as __version__

if TYPE_CHECKING:
    from nearworth import datasets as datasets
    from nearworth import testing as testing
    from nearworth.audit.audit import audit_labels as audit_labels
    from nearworth.audit.result import LabelAudit as LabelAudit
    from nearworth.audit.scan import scan as scan
    from nearworth.datasets import add_label_noise as add_label_noise
    from nearworth.engine.plan import Plan as Plan
    from nearworth.estimator import KNNShapley as KNNShapley
    from nearworth.estimator import knn_shapley as knn_shapley
    from nearworth.neighbors.faiss_search import FaissSearch as FaissSearch
    from nearworth.neighbors.lsh import LSHSearch as LSHSearch
    from nearworth.neighbors.searchers import GraphSearch as GraphSearch
    from nearworth.results.detection import Detection as Detection
    from nearworth.results.owners import OwnerValues as OwnerValues
    from nearworth.results.sums import Partial as Partial
    from nearworth.results.valuation import Valuation as Valuation
    from nearworth.retrieval import value_retrieval as value_retrieval
    from nearworth.tables.prepare import TablePreparer as TablePreparer
    from nearworth.testing import exact_shapley as exact_shapley
else:  # type checkers read the imports above, which name the same things
    _PUBLIC = {
        "audit.audit": ["audit_labels"],
        "audit.result": ["LabelAudit"],
        "audit.scan": ["scan"],
        "datasets": ["add_label_noise"],
        "engine.plan": ["Plan"],
        "estimator": ["KNNShapley", "knn_shapley"],
        "neighbors.faiss_search": ["FaissSearch"],
        "neighbors.lsh": ["LSHSearch"],
        "neighbors.searchers": ["GraphSearch"],
        "results.detection": ["Detection"],
        "results.owners": ["OwnerValues"],
        "results.sums": ["Partial"],
        "results.valuation": ["Valuation"],
        "retrieval": ["value_retrieval"],
        "tables.prepare": ["TablePreparer"],
        "testing": ["exact_shapley"],
    }
    _HOME = {name: f"nearworth.{module}" for module, names in _PUBLIC.items() for name in names}
    _MODULES = ("datasets", "testing")
    __all__ = sorted(["__version__", *_MODULES, *_HOME])

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'nearworth' has no attribute {name!r}")
        module = import_module(_HOME.get(name, f"nearworth.{name}"))
        globals()[name] = getattr(module, name) if name in _HOME else module
        return globals()[name]

    def __dir__() -> list[str]:
        return __all__
