"""nearworth: exact Shapley values of training points for nearest-neighbor models.

    est = nearworth.KNNShapley(n_neighbors=5).fit(X, y)
    valuation = est.value(X_val, y_val)
    valuation.values                      # one number per training row
    valuation.bottom(20)                  # the rows that hurt most

Names load when first used: importing the package costs next to nothing beyond numpy.

The folders import each other downwards only: a folder here knows none that is below it.
`tests/test_architecture.py` has the table of what each may import.

    _common/        what every part may use
    inputs/         checks of inputs: parameters, X and y in any form, files
    games/          the worth of a rank: coefficients, closed forms, ties
    neighbors/      keys, distances, exact search and indexes, without any label
    results/        sums over validation points, Valuation, OwnerValues, Detection, plots
    engine/         TrainingSet -> Problem -> Method -> Plan -> run -> Valuation
    tables/         tables of users: read, prepare, write
    report/         the page of a LabelAudit
    audit/          wrong labels: votes, a model of the noise, LabelAudit, scan
    cli/            the command line, on top of everything

The modules beside them:

    estimator.py    KNNShapley: parameters in, calls of the engine out
    retrieval.py    values of documents, by ranked lists and relevance judgments
    testing.py      the definition, from all 2^n subsets, and checks of code of your own
    datasets.py     data to try things on, and label noise

Read first: `engine/__init__.py` for the objects, `engine/value.py` for their sequence, then
`engine/reference.py` for one query.
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
