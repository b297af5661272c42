"""The fitted training set, and one problem: validation points against training points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatVector, IntVector, Task, Ties
from nearworth._common.warnings import warn_user
from nearworth.games.classification import ClassificationGame
from nearworth.games.regression import RegressionGame
from nearworth.inputs.features import Features, check_features, check_same_features, fingerprint
from nearworth.inputs.parameters import parse_bytes
from nearworth.inputs.sources import open_pair
from nearworth.inputs.targets import Classes, check_classes, check_targets, check_weights
from nearworth.neighbors.duplicates import first_duplicates, first_equal
from nearworth.neighbors.keys import Keys, make_keys

PRECOMPUTED = "precomputed"
INTERRUPT_EVERY = 2**28  # differences after which a run looks whether it should stop
LEAST_TRIAL, TRIAL_ENTRIES = 2048, 2**20  # rows and numbers of a file that a trial reads into memory


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Validation points against training points, complete and checked.

    With `leave_one_out`, the validation points are the training points, or those of `rows`, and each takes no part in
    its own game.
    """

    keys: Keys
    game: Any  # a ClassificationGame or a RegressionGame
    labels: npt.NDArray[Any]
    queries: Any
    query_labels: npt.NDArray[Any]
    weights: FloatVector
    ties: Ties
    leave_one_out: bool = False
    rows: IntVector | None = None

    @property
    def n_train(self) -> int:
        return len(self.labels)

    @property
    def n_val(self) -> int:
        return len(self.query_labels)

    def self_index(self, query: int) -> int:
        """The training point that takes no part in the game of a query; -1 if all do."""
        return int(self.self_rows(query)) if self.leave_one_out else -1

    def self_rows(self, queries: Any) -> Any:
        """The training points that some validation points (a number, numbers or a slice) are, with leave_one_out."""
        return queries if self.rows is None else self.rows[queries]

    def some(self, queries: IntVector) -> Problem:
        """The same training points against these validation points only."""
        return replace(
            self,
            queries=self.queries[queries],
            query_labels=self.query_labels[queries],
            weights=self.weights[queries],
            rows=queries if self.leave_one_out else None,
        )

    def interruptible(self, batch: int) -> int:
        """How many queries of a batch get exact keys before a run looks whether it should stop."""
        if self.keys.streamed:  # one pass over the file for the whole batch
            return batch
        return min(batch, max(1, INTERRUPT_EVERY // (self.n_train * int(self.queries.shape[1]))))

    def exact_keys(self, start: int, stop: int, batch: int) -> Iterator[tuple[int, FloatVector]]:
        """Exact keys of queries one after the other, made a few at a time so that a run can be interrupted."""
        step = self.interruptible(batch)
        for a in range(start, stop, step):
            yield from enumerate(self.keys(self.queries[a : min(a + step, stop)]), start=a)


@dataclass(frozen=True, kw_only=True)
class TrainingSet:
    """Training points with their geometry and labels (codes of classes, or targets): what `fit` leaves behind."""

    task: Task
    metric: Any
    metric_params: Mapping[str, Any] | None
    features: Features | None  # None if metric="precomputed" and fit got no distances
    keys: Keys
    labels: npt.NDArray[Any]
    classes: Classes | None
    fingerprint: str

    @property
    def n_rows(self) -> int:
        return len(self.labels)

    def game(self, parameters: Mapping[str, Any], n_players: int) -> Callable[[], ClassificationGame | RegressionGame]:
        """A picklable factory of the game that the parameters ask for, among so many players."""
        k, utility, semivalue = int(parameters["n_neighbors"]), parameters["utility"], _plain(parameters["semivalue"])
        if self.classes is None:
            return partial(RegressionGame, n_players, k, utility, semivalue)
        n_classes = self.n_classes(parameters["n_classes"])
        return partial(ClassificationGame, n_players, k, n_classes, utility, semivalue)

    def n_classes(self, given: int | None) -> int:
        """C of the utility: as given, else the number of distinct training labels."""
        assert self.classes is not None
        seen = len(self.classes.labels)
        if given is not None and given < seen:
            raise ValueError(
                f"n_classes={given} is smaller than the {seen} distinct labels in y. Give {seen} or more, or None."
            )
        return seen if given is None else int(given)

    def problem(self, X_val: Any, y_val: Any, sample_weight: Any, parameters: Mapping[str, Any]) -> Problem:
        """These training points and a validation set; without one, each training point against all the others."""
        if (X_val is None) != (y_val is None):
            missing, given = ("X_val", "y_val") if X_val is None else ("y_val", "X_val")
            raise ValueError(
                f"{given} was given without {missing}. Give both, or neither to value the training set on itself."
            )
        if X_val is None:
            return self._self_problem(sample_weight, parameters)
        if not _plain_arrays(X_val, y_val):
            X_val, y_val = open_pair(X_val, y_val, ("X_val", "y_val"), budget(parameters))
        queries = self._check_queries(X_val)
        return Problem(
            keys=self.keys,
            game=self.game(parameters, self.n_rows)(),
            labels=self.labels,
            queries=queries.data,
            query_labels=self._check_query_labels(y_val, queries.n_rows),
            weights=check_weights(sample_weight, queries.n_rows),
            ties=parameters["ties"],
        )

    def _self_problem(self, sample_weight: Any, parameters: Mapping[str, Any]) -> Problem:
        if self.features is None:
            raise ValueError(
                "value() without a validation set needs distances between training points: "
                "fit(D, y) with D training x training."
            )
        if self.n_rows == 1:
            raise ValueError(
                "value() without a validation set needs at least 2 training points; there is 1. Give X_val and y_val."
            )
        return Problem(
            keys=self.keys,
            game=self.game(parameters, self.n_rows - 1)(),
            labels=self.labels,
            queries=self.features.data,
            query_labels=self.labels,
            weights=check_weights(sample_weight, self.n_rows),
            ties=parameters["ties"],
            leave_one_out=True,
        )

    def trial(self, n_points: int, n_queries: int, parameters: Mapping[str, Any]) -> Problem:
        """A smaller problem of the same kind: some training points as queries against some of all."""
        if self.keys.streamed:
            n_points = min(n_points, max(LEAST_TRIAL, TRIAL_ENTRIES // self.keys.width))
        rows = np.unique(np.linspace(0, self.n_rows - 1, min(n_points, self.n_rows)).astype(np.intp))
        some = rows[:: max(1, len(rows) // n_queries)][:n_queries]
        if self.metric == PRECOMPUTED:
            keys, queries = self.keys, np.random.default_rng(0).random((len(some), len(rows)))
        else:
            assert self.features is not None
            data = self.features.data
            keys, queries = make_keys(data[rows], self.metric, self.metric_params), data[some]
        return Problem(
            keys=keys,
            game=self.game(parameters, len(rows))(),
            labels=self.labels[rows],
            queries=queries,
            query_labels=self.labels[some],
            weights=np.ones(len(some)),
            ties=parameters["ties"],
        )

    def first_duplicates(self, weights: FloatVector) -> IntVector:
        """For each training point the first one with the same row, label and weight."""
        if self.features is None or self.metric == PRECOMPUTED:
            return np.arange(self.n_rows)
        return first_equal(first_duplicates(self.features.data), self.labels, weights)

    def _check_queries(self, X_val: Any) -> Features:
        if self.metric == PRECOMPUTED:
            queries = check_features(X_val, "X_val")
            _refuse_sparse_distances(queries, "X_val")
            if queries.n_columns != self.n_rows:
                raise ValueError(
                    "X_val must hold distances, one row per validation point and one column per training point "
                    f"({self.n_rows}); got shape {queries.data.shape}."
                )
            return queries
        assert self.features is not None
        queries = check_features(X_val, "X_val", allow_nan=self.metric == "nan_euclidean")
        if queries.is_sparse and not self.features.is_sparse:
            raise TypeError("X_val is sparse, but X in fit was not. Use X_val.toarray(), or fit on a sparse X.")
        if self.features.is_sparse and not queries.is_sparse:
            raise TypeError("X_val is dense, but X in fit was sparse. Use scipy.sparse.csr_array(X_val).")
        warning = check_same_features(self.features, queries, "X_val")
        if warning:
            warn_user(warning)
        return queries

    def _check_query_labels(self, y_val: Any, n_rows: int) -> npt.NDArray[Any]:
        if self.classes is None:
            return check_targets(y_val, "y_val", n_rows)
        codes, unseen = self.classes.encode(y_val, "y_val", n_rows)
        if unseen:
            count = int(np.count_nonzero(codes < 0))
            warn_user(
                f"y_val has {count} {'label' if count == 1 else 'labels'} that no training point carries "
                f"({', '.join(map(repr, unseen[:5]))}{', ...' * (len(unseen) > 5)}); "
                f"{'it matches' if count == 1 else 'they match'} nothing."
            )
        return codes


def make_training_set(X: Any, y: Any, parameters: Mapping[str, Any]) -> TrainingSet:
    """Check the training set and build its geometry."""
    task, metric = parameters["task"], parameters["metric"]
    if not _plain_arrays(X, y):
        X, y = open_pair(X, y, ("X", "y"), budget(parameters))
    features = _check_training_features(X, metric)
    n_rows = None if features is None else features.n_rows
    classes = None if task == "regression" else check_classes(y, "y", n_rows)
    labels: npt.NDArray[Any] = check_targets(y, "y", n_rows) if classes is None else classes.codes
    if features is not None and metric == PRECOMPUTED and features.n_columns != features.n_rows:
        raise ValueError(
            f"X must hold distances between training points, {n_rows} x {n_rows}; got shape {features.data.shape}."
        )
    data = None if features is None else features.data
    return TrainingSet(
        task=task,
        metric=metric,
        metric_params=parameters["metric_params"],
        features=features,
        keys=make_keys(data, metric, parameters["metric_params"]),
        labels=labels,
        classes=classes,
        fingerprint=fingerprint(data, labels, None if classes is None else classes.labels.tolist()),
    )


def _plain_arrays(*parts: Any) -> bool:
    """Whether nothing is to be opened: no path, frame, dataset or memory map."""
    return all(type(part) is np.ndarray for part in parts)


def budget(parameters: Mapping[str, Any]) -> int | None:
    """The bytes that `max_memory` allows, None if it is not given."""
    given = parameters["max_memory"]
    return None if given is None else parse_bytes("max_memory", given)


def _check_training_features(X: Any, metric: Any) -> Features | None:
    if metric != PRECOMPUTED:
        return check_features(X, "X", allow_nan=metric == "nan_euclidean")
    if X is None:
        return None
    features = check_features(X, "X")
    _refuse_sparse_distances(features, "X")
    return features


def _refuse_sparse_distances(features: Features, name: str) -> None:
    if features.is_sparse:
        raise TypeError(f"{name} is sparse, but metric='precomputed' needs every distance. Use {name}.toarray().")


def _plain(semivalue: Any) -> Any:
    return semivalue if isinstance(semivalue, str) else ("beta", float(semivalue[1]), float(semivalue[2]))
