"""The fitted training set, and the problem that a run solves.

A `TrainingSet` is what `fit` leaves behind. A `Problem` adds the validation points and the
parameters of one run; everything is checked when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatVector, IntMatrix, IntVector, Task, Ties
from nearworth._common.warnings import warn_user
from nearworth.games.classification import ClassificationGame
from nearworth.games.regression import RegressionGame
from nearworth.inputs.features import Features, check_features, check_same_features, fingerprint
from nearworth.inputs.parameters import parse_bytes
from nearworth.inputs.sources import open_pair
from nearworth.inputs.targets import Classes, check_classes, check_targets, check_weights
from nearworth.neighbors.distances import first_duplicates, first_equal
from nearworth.neighbors.keys import Keys, make_keys

PRECOMPUTED = "precomputed"

NOBODY: IntVector = np.zeros(0, dtype=np.intp)

# Each number of excluded points needs a game of its own, whose weights take time to compute. With
# groups there may be as many games as sizes of groups, so that only the last few are kept.
MAX_KEPT_GAMES = 5

# The size of a trial, from which the time of the whole run is extrapolated.
MAX_TRIAL_POINTS = 32_768
MAX_TRIAL_QUERIES = 64

# A trial reads its rows of a file into memory: at most so many numbers, unless these would be fewer
# rows than a trial needs.
MAX_TRIAL_NUMBERS_OF_FILE = 2**20
MIN_TRIAL_POINTS_OF_FILE = 2048

MAX_UNSEEN_SHOWN = 5


@dataclass(frozen=True)
class Groups:
    """Groups of rows that may not vote for each other.

    Attributes
    ----------
    of_training : array of shape (N,)
        The group of each training point, counted from 0.
    of_queries : array of shape (Q,)
        The group of each validation point; -1 if no training point is in it.
    """

    of_training: IntVector
    of_queries: IntVector

    @cached_property
    def _members(self) -> list[IntVector]:
        """The training points of each group. The last entry is empty: group -1 has no members."""
        order = np.argsort(self.of_training, kind="stable")
        ends = np.cumsum(np.bincount(self.of_training))
        return [*np.split(order, ends[:-1]), NOBODY]

    def members(self, query: int) -> IntVector:
        """The training points in the group of a validation point."""
        return self._members[int(self.of_queries[query])]

    def subset(self, queries: Any) -> Groups:
        """The groups of some validation points, given by numbers or a slice."""
        return Groups(self.of_training, self.of_queries[queries])


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Validation points to value training points on, checked, with the parameters of the user.

    Validation points are called queries here. N is the number of training points, Q that of
    queries, d that of features.

    Attributes
    ----------
    training : TrainingSet
    parameters : mapping
        The parameters of the estimator, by name.
    game_without : function
        Takes a number of excluded training points, and returns the game of all others.
    labels : array of shape (N,)
        Codes of classes, or targets, of the training points.
    queries : array or sparse array of shape (Q, d)
        With metric="precomputed" these are distances, of shape (Q, N).
    query_labels : array of shape (Q,)
        Codes of classes, or targets, of the queries.
    weights : array of shape (Q,)
        The weights of the queries in the sums.
    leave_one_out : bool
        Whether queries are training points, each of which takes no part in its own game.
    rows : array of shape (Q,) or None
        With leave_one_out, the training points that the queries are; None if query i is point i.
    positions : array of shape (Q,) or None
        The numbers of the queries in the whole run, of which this problem may be a part; None if
        query i is number i.
    groups : Groups or None
        The training points in the group of a query take no part in its game.
    rule : Rule or None
        The game, if it is not that of all rows by rank; see rules.py.
    """

    training: TrainingSet
    parameters: Mapping[str, Any]
    game_without: Callable[[int], Any]
    labels: npt.NDArray[Any]
    queries: Any
    query_labels: npt.NDArray[Any]
    weights: FloatVector
    leave_one_out: bool = False
    rows: IntVector | None = None
    positions: IntVector | None = None
    groups: Groups | None = None
    rule: Any = None

    @property
    def keys(self) -> Keys:
        """What computes the numbers that rank training points by distance."""
        return self.training.keys

    @property
    def ties(self) -> Ties:
        return self.parameters["ties"]  # type: ignore[no-any-return]

    @property
    def n_train(self) -> int:
        return len(self.labels)

    @property
    def n_val(self) -> int:
        return len(self.query_labels)

    @property
    def n_values(self) -> int:
        """The number of players: the training points, unless a rule has other players."""
        if self.rule is None:
            return self.n_train
        return self.rule.n_values or self.n_train

    @property
    def game(self) -> Any:
        """The game of a query that is in no group; see TrainingSet.game."""
        return self.game_without(int(self.leave_one_out))

    def excluded(self, query: int) -> IntVector:
        """The training points that take no part in the game of a query."""
        if self.groups is not None:
            return self.groups.members(query)
        if self.leave_one_out:
            return np.array([self.self_rows(query)])
        return NOBODY

    def runs(self, start: int, stop: int) -> Iterator[tuple[int, int, IntMatrix]]:
        """Consecutive queries with the same number E of excluded points.

        Yields
        ------
        first, end : int
            The queries first..end-1.
        excluded : array of shape (end - first, E)
            The training points that take no part in the game of each.
        """
        if self.groups is None:
            itself = self.self_rows(np.arange(start, stop))[:, None]
            yield start, stop, itself[:, : int(self.leave_one_out)]
            return

        for size, run in groupby(range(start, stop), key=lambda query: len(self.excluded(query))):
            queries = list(run)
            excluded = np.array([self.excluded(query) for query in queries])
            yield queries[0], queries[-1] + 1, excluded.reshape(len(queries), size)

    def self_rows(self, queries: Any) -> Any:
        """With leave_one_out, the training points that some queries are.

        `queries` is a number, an array of numbers or a slice; the result is of the same kind, or
        an array.
        """
        return queries if self.rows is None else self.rows[queries]

    def position(self, query: int) -> int:
        """The number of a query in the whole run, of which this problem may be a part."""
        return query if self.positions is None else int(self.positions[query])

    def some(self, queries: IntVector) -> Problem:
        """The same training points with some of the queries only."""
        return replace(
            self,
            queries=self.queries[queries],
            query_labels=self.query_labels[queries],
            weights=self.weights[queries],
            rows=queries if self.leave_one_out else None,
            groups=None if self.groups is None else self.groups.subset(queries),
            positions=queries if self.positions is None else self.positions[queries],
        )


@dataclass(frozen=True, kw_only=True)
class TrainingSet:
    """Checked training points with their labels and what ranks them: the result of `fit`.

    Attributes
    ----------
    task : {"classification", "regression"}
    metric, metric_params
        As given to the estimator.
    features : Features or None
        The rows, or distances between them with metric="precomputed"; None if that metric got no
        distances between training points.
    labels : array of shape (N,)
        Codes of classes, or targets.
    classes : Classes or None
        The names of the classes; None in regression.
    fingerprint : str
        A hash of the points, the labels and the names of the classes.
    keys : Keys
        Computes the numbers that rank training points by distance.
    """

    task: Task
    metric: Any
    metric_params: Mapping[str, Any] | None
    features: Features | None
    labels: npt.NDArray[Any]
    classes: Classes | None = None
    fingerprint: str = ""
    keys: Keys = field(init=False)

    def __post_init__(self) -> None:
        data = None if self.features is None else self.features.data
        object.__setattr__(self, "keys", make_keys(data, self.metric, self.metric_params))

    @property
    def n_rows(self) -> int:
        return len(self.labels)

    def game(self, parameters: Mapping[str, Any], n_players: int) -> Any:
        """The ClassificationGame or RegressionGame of the parameters, with `n_players` players."""
        n_neighbors = int(parameters["n_neighbors"])
        utility = parameters["utility"]
        semivalue = parameters["semivalue"]
        if not isinstance(semivalue, str):
            semivalue = tuple(semivalue)
            if semivalue[0] == "sizes" and semivalue[1] >= n_players:
                raise ValueError(
                    f"semivalue={semivalue!r} needs that many others; there are {n_players - 1}."
                )
        if self.task == "regression":
            return RegressionGame(n_players, n_neighbors, utility, semivalue)
        n_classes = self.n_classes(parameters["n_classes"])
        return ClassificationGame(n_players, n_neighbors, n_classes, utility, semivalue)

    @cached_property
    def _n_distinct_labels(self) -> int:
        return int(self.labels.max()) + 1

    def n_classes(self, given: int | None) -> int:
        """C of the utility: as given, else the number of distinct training labels."""
        n_distinct = self._n_distinct_labels
        if given is None:
            return n_distinct
        if given < n_distinct:
            raise ValueError(
                f"n_classes={given} is smaller than the {n_distinct} distinct labels in y. Give"
                " more, or None."
            )
        return int(given)

    def problem(
        self,
        X_val: Any,
        y_val: Any,
        sample_weight: Any,
        parameters: Mapping[str, Any],
        groups: Any = None,
    ) -> Problem:
        """The problem of a validation set, checked.

        Without a validation set, each training point is valued on all the others. See
        `KNNShapley.value` for what the arguments may be.
        """
        if (X_val is None) != (y_val is None):
            raise ValueError(
                "X_val and y_val go together: give both, or neither to value the training set on"
                " itself."
            )
        leave_one_out = X_val is None
        if leave_one_out:
            queries = self._own_queries()
            query_labels = self.labels
        else:
            X_val, y_val = open_pair(X_val, y_val, ("X_val", "y_val"), budget(parameters))
            queries = self._check_queries(X_val)
            query_labels = self._check_query_labels(y_val, queries.data.shape[0])
        weights = check_weights(sample_weight, len(query_labels))

        problem = self.problem_of(
            queries.data, query_labels, weights, parameters, leave_one_out=leave_one_out
        )
        if groups is None:
            return problem
        return replace(problem, groups=self._check_groups(groups, problem))

    def _own_queries(self) -> Features:
        """The training points as validation points; refused where there is nothing to learn."""
        if self.features is None:
            raise ValueError(
                "value() without X_val needs distances between training points: fit(D, y)."
            )
        if self.n_rows == 1:
            raise ValueError(
                "value() without X_val needs at least 2 training points. Give X_val and y_val."
            )
        return self.features

    def _check_groups(self, groups: Any, problem: Problem) -> Groups:
        """Groups as codes; with leave_one_out `groups` is one array, else a pair of arrays."""
        if problem.leave_one_out:
            groups = (groups, groups)
        elif not isinstance(groups, tuple) or len(groups) != 2:
            raise ValueError(
                "groups must be a pair: groups of the training rows and groups of the validation"
                " rows."
            )
        of_training, of_queries = groups
        names = check_classes(of_training, "groups", self.n_rows)
        query_codes, _ = names.encode(of_queries, "groups", problem.n_val)
        if len(names.labels) == 1 and (query_codes == 0).any():
            raise ValueError(
                "groups: all training rows are in one group, so that nothing predicts its rows."
                " Give two."
            )
        return Groups(names.codes.astype(np.intp), query_codes.astype(np.intp))

    def problem_of(
        self,
        queries: Any,
        query_labels: Any,
        weights: Any,
        parameters: Mapping[str, Any],
        leave_one_out: bool = False,
    ) -> Problem:
        """The problem of queries that are checked already, with labels as codes."""

        @lru_cache(MAX_KEPT_GAMES)
        def game_without(n_excluded: int) -> Any:
            return self.game(parameters, self.n_rows - n_excluded)

        # Threads that ask for a game at the same time would each make it, so it is made before
        # they start.
        game_without(int(leave_one_out))
        return Problem(
            training=self,
            parameters=parameters,
            game_without=game_without,
            labels=self.labels,
            queries=queries,
            query_labels=query_labels,
            weights=weights,
            leave_one_out=leave_one_out,
        )

    def trial(self, parameters: Mapping[str, Any], n_points: int = MAX_TRIAL_POINTS) -> Problem:
        """A smaller problem of the same kind, from which the time of a run is extrapolated.

        At most `n_points` training points at equal steps, and some of these as queries.
        """
        if self.keys.streamed:
            n_fitting = MAX_TRIAL_NUMBERS_OF_FILE // self.keys.width
            n_points = min(n_points, max(MIN_TRIAL_POINTS_OF_FILE, n_fitting))
        n_points = min(n_points, self.n_rows)
        rows = np.unique(np.linspace(0, self.n_rows - 1, n_points).astype(np.intp))
        step = max(1, len(rows) // MAX_TRIAL_QUERIES)
        query_rows = rows[::step][:MAX_TRIAL_QUERIES]

        features = None
        if self.metric == PRECOMPUTED:
            # Only the time matters, and it does not depend on the distances.
            queries = np.random.default_rng(0).random((len(query_rows), len(rows)))
        else:
            assert self.features is not None
            features = Features(self.features.data[rows])
            queries = self.features.data[query_rows]
        smaller = replace(self, features=features, labels=self.labels[rows])
        weights = np.ones(len(query_rows))
        return smaller.problem_of(queries, self.labels[query_rows], weights, parameters)

    def first_duplicates(self, *columns: npt.NDArray[Any]) -> IntVector:
        """For each training point the first one with the same features and the same `columns`."""
        if self.features is None or self.metric == PRECOMPUTED:
            return np.arange(self.n_rows)
        return first_equal(first_duplicates(self.features.data), *columns)

    def _check_queries(self, X_val: Any) -> Features:
        queries = _check_points(X_val, "X_val", self.metric)
        if self.metric == PRECOMPUTED:
            if queries.data.shape[1] != self.n_rows:
                raise ValueError(
                    f"X_val must be validation points x {self.n_rows} distances; got"
                    f" {queries.data.shape}"
                )
            return queries
        assert self.features is not None
        if queries.is_sparse != self.features.is_sparse:
            raise TypeError(
                "One of X and X_val is sparse. Use X_val.toarray() or"
                " scipy.sparse.csr_array(X_val)."
            )
        check_same_features(self.features, queries, "X_val")
        return queries

    def _check_query_labels(self, y_val: Any, n_rows: int) -> npt.NDArray[Any]:
        """Labels as codes of classes, or targets.

        A label that no training point has is not refused: the user is warned.
        """
        if self.classes is None:
            return check_targets(y_val, "y_val", n_rows)
        codes, unseen = self.classes.encode(y_val, "y_val", n_rows)
        if unseen:
            n_unmatched = int((codes < 0).sum())
            plural = "s" if n_unmatched > 1 else ""
            names = ", ".join(map(repr, unseen[:MAX_UNSEEN_SHOWN]))
            if len(unseen) > MAX_UNSEEN_SHOWN:
                names += ", ..."
            warn_user(
                f"y_val has {n_unmatched} label{plural} that no training point carries ({names});"
                " they match nothing."
            )
        return codes


def make_training_set(X: Any, y: Any, parameters: Mapping[str, Any]) -> TrainingSet:
    """Check the training set and prepare what ranks its points."""
    task = parameters["task"]
    metric = parameters["metric"]
    X, y = open_pair(X, y, ("X", "y"), budget(parameters))

    # With given distances, those between training points are needed only to value the training
    # set on itself.
    features = None
    n_rows = None
    if X is not None or metric != PRECOMPUTED:
        features = _check_points(X, "X", metric)
        n_rows = features.data.shape[0]

    classes = None if task == "regression" else check_classes(y, "y", n_rows)
    labels: npt.NDArray[Any] = check_targets(y, "y", n_rows) if classes is None else classes.codes
    if features is not None and metric == PRECOMPUTED and features.data.shape[1] != n_rows:
        raise ValueError(
            f"X must be {n_rows} x {n_rows} distances between training points; got"
            f" {features.data.shape}."
        )

    data = None if features is None else features.data
    names = None if classes is None else classes.labels.tolist()
    return TrainingSet(
        task=task,
        metric=metric,
        metric_params=parameters["metric_params"],
        features=features,
        labels=labels,
        classes=classes,
        fingerprint=fingerprint(data, labels, names),
    )


def _check_points(X: Any, name: str, metric: Any) -> Features:
    features = check_features(X, name, allow_nan=metric == "nan_euclidean")
    if metric == PRECOMPUTED and features.is_sparse:
        raise TypeError(
            f"{name} is sparse, but metric='precomputed' needs every distance. Use"
            f" {name}.toarray()."
        )
    return features


def budget(parameters: Mapping[str, Any]) -> int | None:
    """The bytes that `max_memory` allows, None if it is not given."""
    max_memory = parameters["max_memory"]
    return None if max_memory is None else parse_bytes("max_memory", max_memory)
