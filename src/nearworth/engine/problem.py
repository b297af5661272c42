"""The fitted training set, and one problem: validation points against training points."""

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
from nearworth.results.sums import CHUNK

PRECOMPUTED = "precomputed"
GEOMETRY = ("task", "metric", "metric_params")  # parameters that shape a training set
NOBODY: IntVector = np.zeros(0, dtype=np.intp)
FEW_GAMES = 5  # sizes of groups whose games are kept
INTERRUPT_EVERY = 2**28  # differences after which a run looks whether it should stop
TRIAL_POINTS, TRIAL_QUERIES = 32_768, 64
LEAST_TRIAL, TRIAL_ENTRIES = (
    2048,
    2**20,
)  # rows and numbers of a file that a trial reads into memory


@dataclass(frozen=True)
class Groups:
    """Rows that may not vote for each other: the group of each training point and of each
    validation point (or -1).
    """

    of_training: IntVector
    of_queries: IntVector

    @cached_property
    def _members(self) -> list[IntVector]:
        order = np.argsort(self.of_training, kind="stable")
        return [*np.split(order, np.cumsum(np.bincount(self.of_training))[:-1]), NOBODY]

    def members(self, query: int) -> IntVector:
        """The training points in the group of a validation point."""
        return self._members[int(self.of_queries[query])]  # -1 is the last: nobody

    def some(self, queries: Any) -> Groups:
        return Groups(self.of_training, self.of_queries[queries])


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Validation points against the points of a training set, complete and checked, and the
    parameters of the user.

    With `leave_one_out`, the validation points are the training points, or those of `rows`, and
    each takes no part in its own game. With `groups`, the whole group of a validation point takes
    no part.
    """

    training: TrainingSet
    parameters: Mapping[str, Any]
    game_without: Callable[[int], Any]  # the game of all training points but so many
    labels: npt.NDArray[Any]  # of the training points
    queries: Any
    query_labels: npt.NDArray[Any]
    weights: FloatVector
    leave_one_out: bool = False
    rows: IntVector | None = None
    positions: IntVector | None = (
        None  # of the validation points in the whole run; None: 0, 1, 2, ...
    )
    groups: Groups | None = None
    rule: Any = None  # another game than that of all rows by rank; see Rule in rules.py

    @property
    def keys(self) -> Keys:
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
        """How many players are valued: the training points, unless a rule says otherwise."""
        return self.n_train if self.rule is None else self.rule.n_values or self.n_train

    @property
    def game(self) -> Any:
        """The game of a validation point outside of all groups; see TrainingSet.game."""
        return self.game_without(int(self.leave_one_out))

    def excluded(self, query: int) -> IntVector:
        """The training points that take no part in the game of a query."""
        if self.groups is not None:
            return self.groups.members(query)
        return np.array([self.self_rows(query)]) if self.leave_one_out else NOBODY

    def runs(self, start: int, stop: int) -> Iterator[tuple[int, int, IntMatrix]]:
        """Queries in a row with equally many excluded points: where they begin and end, and the
        points of each.
        """
        if self.groups is None:
            selves = (
                np.arange(start, stop)[:, None]
                if self.rows is None
                else self.rows[start:stop, None]
            )
            yield start, stop, selves[:, : int(self.leave_one_out)]
            return
        for size, run in groupby(range(start, stop), key=lambda query: len(self.excluded(query))):
            queries = list(run)
            excluded = np.array([self.excluded(query) for query in queries]).reshape(
                len(queries), size
            )
            yield queries[0], queries[-1] + 1, excluded

    def self_rows(self, queries: Any) -> Any:
        """The training points that some validation points (a number, numbers or a slice) are, with
        leave_one_out.
        """
        return queries if self.rows is None else self.rows[queries]

    def position(self, query: int) -> int:
        """The position of a validation point in the whole run, whatever part of it this problem
        is.
        """
        return query if self.positions is None else int(self.positions[query])

    def some(self, queries: IntVector) -> Problem:
        """The same training points against these validation points only."""
        return replace(
            self,
            queries=self.queries[queries],
            query_labels=self.query_labels[queries],
            weights=self.weights[queries],
            rows=queries if self.leave_one_out else None,
            groups=self.groups and self.groups.some(queries),
            positions=queries if self.positions is None else self.positions[queries],
        )

    def interruptible(self, batch: int) -> int:
        """How many queries of a batch get exact keys before a run looks whether it should stop."""
        if self.keys.streamed:  # one pass over the file for the whole batch
            return batch
        return min(batch, max(1, INTERRUPT_EVERY // (self.n_train * int(self.queries.shape[1]))))

    @property
    def has_quick_leaves(self) -> bool:
        """Whether a run is interrupted soon enough if it stops after a leaf only."""
        return not self.keys.streamed and self.interruptible(CHUNK) == CHUNK


@dataclass(frozen=True, kw_only=True)
class TrainingSet:
    """Training points with their geometry and labels (codes of classes, or targets): what `fit`
    leaves behind.
    """

    task: Task
    metric: Any
    metric_params: Mapping[str, Any] | None
    features: Features | None  # None if metric="precomputed" and fit got no distances
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
        """The ClassificationGame or RegressionGame that the parameters ask for, among so many
        players.
        """
        k, utility, semivalue = (
            int(parameters["n_neighbors"]),
            parameters["utility"],
            parameters["semivalue"],
        )
        if not isinstance(semivalue, str):
            semivalue = tuple(semivalue)
            if semivalue[0] == "sizes" and semivalue[1] >= n_players:
                raise ValueError(
                    f"semivalue={semivalue!r} needs that many others; there are {n_players - 1}."
                )
        if self.task == "regression":
            return RegressionGame(n_players, k, utility, semivalue)
        return ClassificationGame(
            n_players, k, self.n_classes(parameters["n_classes"]), utility, semivalue
        )

    @cached_property
    def _n_seen(self) -> int:
        return int(self.labels.max()) + 1

    def n_classes(self, given: int | None) -> int:
        """C of the utility: as given, else the number of distinct training labels."""
        seen = self._n_seen
        if given is not None and given < seen:
            raise ValueError(
                f"n_classes={given} is smaller than the {seen} distinct labels in y. Give more, or"
                " None."
            )
        return seen if given is None else int(given)

    def problem(
        self,
        X_val: Any,
        y_val: Any,
        sample_weight: Any,
        parameters: Mapping[str, Any],
        groups: Any = None,
    ) -> Problem:
        """These training points and a validation set; without one, each training point against all
        the others.
        """
        if (X_val is None) != (y_val is None):
            raise ValueError(
                "X_val and y_val go together: give both, or neither to value the training set on"
                " itself."
            )
        if X_val is None:
            if self.features is None:
                raise ValueError(
                    "value() without X_val needs distances between training points: fit(D, y)."
                )
            if self.n_rows == 1:
                raise ValueError(
                    "value() without X_val needs at least 2 training points. Give X_val and y_val."
                )
            queries, labels = self.features, self.labels
        else:
            X_val, y_val = open_pair(X_val, y_val, ("X_val", "y_val"), budget(parameters))
            queries = self._check_queries(X_val)
            labels = self._check_query_labels(y_val, queries.data.shape[0])
        weights = check_weights(sample_weight, len(labels))
        problem = self.problem_of(
            queries.data, labels, weights, parameters, leave_one_out=X_val is None
        )
        return (
            problem
            if groups is None
            else replace(problem, groups=self._check_groups(groups, problem))
        )

    def _check_groups(self, groups: Any, problem: Problem) -> Groups:
        if problem.leave_one_out:
            groups = groups, groups
        elif not isinstance(groups, tuple) or len(groups) != 2:
            raise ValueError(
                "groups must be a pair: groups of the training rows and groups of the validation"
                " rows."
            )
        names = check_classes(groups[0], "groups", self.n_rows)
        codes, _ = names.encode(groups[1], "groups", problem.n_val)
        if len(names.labels) == 1 and (codes == 0).any():
            raise ValueError(
                "groups: all training rows are in one group, so that nothing predicts its rows."
                " Give two."
            )
        return Groups(names.codes.astype(np.intp), codes.astype(np.intp))

    def problem_of(
        self,
        queries: Any,
        query_labels: Any,
        weights: Any,
        parameters: Mapping[str, Any],
        leave_one_out: bool = False,
    ) -> Problem:
        """These training points and validation points that are checked already, with labels as
        codes.
        """
        game_without = lru_cache(FEW_GAMES)(
            lambda n_excluded: self.game(parameters, self.n_rows - n_excluded)
        )
        game_without(int(leave_one_out))  # made here, or each thread would make it
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

    def trial(self, parameters: Mapping[str, Any], n_points: int = TRIAL_POINTS) -> Problem:
        """A smaller problem of the same kind: some training points as queries against some of
        all.
        """
        if self.keys.streamed:
            n_points = min(n_points, max(LEAST_TRIAL, TRIAL_ENTRIES // self.keys.width))
        rows = np.unique(
            np.linspace(0, self.n_rows - 1, min(n_points, self.n_rows)).astype(np.intp)
        )
        some = rows[:: max(1, len(rows) // TRIAL_QUERIES)][:TRIAL_QUERIES]
        if self.metric == PRECOMPUTED:
            features, queries = None, np.random.default_rng(0).random((len(some), len(rows)))
        else:
            assert self.features is not None
            features, queries = Features(self.features.data[rows]), self.features.data[some]
        smaller = replace(self, features=features, labels=self.labels[rows])
        return smaller.problem_of(queries, self.labels[some], np.ones(len(some)), parameters)

    def first_duplicates(self, *columns: npt.NDArray[Any]) -> IntVector:
        """For each training point the first one with the same row and the same entries in these
        columns.
        """
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
        if self.classes is None:
            return check_targets(y_val, "y_val", n_rows)
        codes, unseen = self.classes.encode(y_val, "y_val", n_rows)
        if unseen:
            count, names = (
                int((codes < 0).sum()),
                ", ".join(map(repr, unseen[:5])) + ", ..." * (len(unseen) > 5),
            )
            what = f"{count} label{'s' * (count > 1)} that no training point carries"
            warn_user(f"y_val has {what} ({names}); they match nothing.")
        return codes


def make_training_set(X: Any, y: Any, parameters: Mapping[str, Any]) -> TrainingSet:
    """Check the training set and build its geometry."""
    task, metric = parameters["task"], parameters["metric"]
    X, y = open_pair(X, y, ("X", "y"), budget(parameters))
    features = None if metric == PRECOMPUTED and X is None else _check_points(X, "X", metric)
    n_rows = None if features is None else features.data.shape[0]
    classes = None if task == "regression" else check_classes(y, "y", n_rows)
    labels: npt.NDArray[Any] = check_targets(y, "y", n_rows) if classes is None else classes.codes
    if features is not None and metric == PRECOMPUTED and features.data.shape[1] != n_rows:
        raise ValueError(
            f"X must be {n_rows} x {n_rows} distances between training points; got"
            f" {features.data.shape}."
        )
    data, names = features and features.data, None if classes is None else classes.labels.tolist()
    geometry = {name: parameters[name] for name in GEOMETRY}
    hashed = fingerprint(data, labels, names)
    return TrainingSet(
        **geometry, features=features, labels=labels, classes=classes, fingerprint=hashed
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
    given = parameters["max_memory"]
    return None if given is None else parse_bytes("max_memory", given)
