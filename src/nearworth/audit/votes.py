"""Votes: what the labels of other rows say about each row, in both directions.

The value of row i under label c is the sum over validation points t of worth(rank of i for t)
[label of t is c], plus terms that do not depend on its own label. That sum is the reverse vote for
label c: the votes of all points that have i as a neighbour, each with the weight that the Shapley
value gives to the rank of i. The forward vote is that of the neighbours of i, with the same
weights. A row never votes about itself.

Of very many classes evidence has columns: for those with most votes about a row, most first, and
one for all others. Which classes have columns must not depend on the row's own label, or the
columns would tell it.

Rows that are copies of each other, exactly or nearly, must not vouch for each other's labels.
Identical rows are found whatever their number; a row that went through 32-bit floats is identical
to what it was. A near-copy is far nearer than the density around it explains: with r the distance
to the 20th other row and m the dimension in which distances grow, the chance that a row of smooth
data has another one within t * r is about 19 t^m. The threshold t makes that `CHANCE`, and is never
above `NEAREST`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from nearworth._common.types import (
    BoolMatrix,
    BoolVector,
    FloatMatrix,
    FloatVector,
    IntMatrix,
    IntVector,
)
from nearworth.neighbors.distances import Converted, blocks, first_duplicates
from nearworth.neighbors.keys import Keys

ANGULAR = ("cosine", "correlation")  # metrics that grow with the square of a small difference
MEASURED = 2**22  # numbers of queries looked at together
# votes added to every row, shared out as the classes are; K nearest neighbours together have one
SMOOTHING = 1.0
MOST_COLUMNS = 64  # classes up to which each has one
N_COLUMNS = 32  # else: so many, the last for all others
AT_ONCE = 2**20  # rows x classes whose votes are counted together then
LEAST_SHARE, TIES = 1e-12, 1e-9  # the second: shares that differ by less count as equal
AROUND = 20  # which neighbour gives the scale of distances around a row
CHANCE, NEAREST = 5e-4, 0.03
# Share of the rows that have near-copies from which on these are left out of values too, at twice
# the time.
VALUED = 0.01
TINY = 1e-300
# Times as many identical rows as chance explains, up to which these are cells of a coarse table: on
# 46 tables that was below 1.6 or above 11. Rows, and numbers, that are looked at to find the column
# that tells most rows apart.
BY_CHANCE, SAMPLED, SAMPLED_NUMBERS = 5.0, 2_000, 2**22


@dataclass(frozen=True)
class Voters:
    """The nearest training rows of each query (-1 where there are fewer), their keys, and the
    weights of their votes.

    The weight of a rank is 1 / max(K, rank); rows at equal distance share the mean of their
    weights.
    """

    rows: npt.NDArray[np.int32]
    keys: FloatMatrix
    weights: FloatMatrix
    first: npt.NDArray[np.bool_] | None = (
        None  # of its group in the list; None where each row is a group of its own
    )
    distances: FloatMatrix | None = (
        None  # to the nearest of them, as far as anything reads them: see `measured`
    )

    @classmethod
    def of(cls, rows: npt.NDArray[np.int32], keys: FloatMatrix, n_neighbors: int) -> Voters:
        return cls(rows, keys, np.where(rows < 0, 0.0, rank_weights(keys, n_neighbors)))

    def measured(self, keys: Keys, queries: Any, n_neighbors: int) -> Voters:
        """With the distances of the metric to the nearest voters; inner products have none, and
        stay keys.
        """
        near = self.keys[:, : max(AROUND, n_neighbors)]
        if keys.has_distances:
            step = max(1, MEASURED // max(1, keys.width))
            starts = range(0, len(near), step)
            parts = [keys.as_distances(near[s : s + step], queries[s : s + step]) for s in starts]
            near = np.concatenate(parts)
        return replace(self, distances=near)

    @property
    def nearest(self) -> tuple[npt.NDArray[np.int32], FloatMatrix]:
        """The nearest voters and their distances."""
        assert self.distances is not None
        return self.rows[:, : self.distances.shape[1]], self.distances

    def lengths(self, metric: Any) -> FloatMatrix:
        """Distances to the nearest voters, in proportion to small differences."""
        distances = self.nearest[1]
        return np.sqrt(distances) if metric in ANGULAR else distances

    def without_own_group(self, group: IntVector, n_neighbors: int) -> Voters:
        """Without voters of the query's own group; the others move up."""
        own = (group[self.rows] == group[: len(self.rows), None]) & (self.rows >= 0)
        some = np.flatnonzero(own.any(axis=1))
        if not len(some):
            return self
        rows, keys = self.rows.copy(), self.keys.copy()
        rows[some], keys[some] = _moved_up(own[some], rows[some], keys[some])
        return Voters.of(rows, keys, n_neighbors)

    def with_one_vote_per_group(self, group: IntVector, n_neighbors: int) -> Voters:
        """Rows of one group share one vote, at the rank of the first of them."""
        groups = np.where(self.rows >= 0, group[self.rows], -1 - np.arange(self.rows.shape[1]))
        order = np.argsort(groups, axis=1, kind="stable")
        ordered = np.take_along_axis(groups, order, 1)
        new = np.insert(ordered[:, 1:] != ordered[:, :-1], 0, True, axis=1)
        number = np.cumsum(new) - 1  # of the groups of all lists together
        first, weights = np.empty(order.shape, dtype=bool), np.empty(order.shape)
        np.put_along_axis(first, order, new, 1)
        by_rank = rank_weights(_moved_up(~first, self.rows, self.keys)[1], n_neighbors)
        at_first = np.take_along_axis(by_rank, np.cumsum(first, axis=1) - 1, 1)
        shared = np.take_along_axis(at_first, order, 1)[new] / np.bincount(number)
        np.put_along_axis(weights, order, shared[number].reshape(order.shape), 1)
        weights[self.rows < 0] = 0.0
        return Voters(self.rows, self.keys, weights, first, self.distances)

    def with_equal_weights(self, counts: IntMatrix) -> FloatMatrix:
        """Votes of the same total weight, shared equally: far neighbours count as near ones, chance
        matters less.
        """
        weight = self.weights.sum() / max(1, np.count_nonzero(self.rows >= 0))
        sums = np.cumsum(np.repeat([0.0, weight], [1, counts.max()]))  # as if added one by one
        return np.asarray(sums[counts])

    def part(self, start: int, stop: int) -> Voters:
        """About some queries only."""
        return Voters(self.rows[start:stop], self.keys[start:stop], self.weights[start:stop])

    def forward(self, codes: IntVector, n_classes: int) -> Votes:
        """Votes of its neighbours about each query (queries x classes)."""
        present = self.rows >= 0
        cells = codes[self.rows] + n_classes * np.arange(len(self.rows))[:, None]
        return self._count(cells[present], present, (len(self.rows), n_classes))

    def reverse(
        self, query_codes: IntVector, n_train: int, n_classes: int, first: int = 0
    ) -> Votes:
        """Votes about training rows of the queries that have them as a neighbour (training rows x
        classes).

        About so many rows from row `first` on. Queries with code -1, a label that no class has, do
        not vote.
        """
        about = (self.rows >= first) & (self.rows < first + n_train) & (query_codes >= 0)[:, None]
        cells = (self.rows[about] - np.int64(first)) * n_classes
        cells += np.broadcast_to(query_codes[:, None], about.shape)[about]
        return self._count(cells, about, (n_train, n_classes))

    def label_counts(
        self, queries: IntVector, codes: IntVector, n_classes: int, size: int
    ) -> IntMatrix:
        """How many of the `size` nearest rows of some queries have each label."""
        rows, keys = self.rows[queries], self.keys[queries]
        if self.first is not None:
            rows, keys = _moved_up(~self.first[queries], rows, keys)
        some = Voters(rows[:, :size], keys[:, :size], self.weights[queries, :size])
        return some.forward(codes, n_classes).counts

    def _count(self, cells: IntVector, counted: BoolMatrix, shape: tuple[int, int]) -> Votes:
        """Sums of weights by cell, and how many there are, of the votes that are counted."""
        sums = np.bincount(cells, self.weights[counted], shape[0] * shape[1]).astype(np.float64)
        return Votes(sums.reshape(shape), np.bincount(cells, minlength=sums.size).reshape(shape))


class Votes(NamedTuple):
    """Sums of the voters' weights and numbers of voters, by row and class."""

    weights: FloatMatrix
    counts: IntMatrix


def _moved_up(
    left_out: Any, rows: npt.NDArray[np.int32], keys: FloatMatrix
) -> tuple[Any, FloatMatrix]:
    """Lists in which those left out are missing at the end, and the others keep their order."""
    order = np.argsort(left_out, axis=1, kind="stable")
    missing, rows, keys = (np.take_along_axis(lists, order, 1) for lists in (left_out, rows, keys))
    return np.where(missing, -1, rows), np.where(missing, np.inf, keys)


def rank_weights(keys: FloatMatrix, n_neighbors: int) -> FloatMatrix:
    """1 / max(K, rank) for lists in order of their keys; equal keys share the mean of their ranks'
    weights.
    """
    by_rank = 1.0 / np.maximum(n_neighbors, np.arange(1, keys.shape[1] + 1))
    weights = np.tile(by_rank, (len(keys), 1))
    same = keys[:, 1:] == keys[:, :-1]
    tied = same.any(axis=1)
    if tied.any():
        blocks = np.cumsum(np.insert(~same[tied], 0, True, axis=1)) - 1
        means = np.bincount(blocks, weights[tied].ravel()) / np.bincount(blocks)
        weights[tied] = means[blocks].reshape(-1, keys.shape[1])
    return weights


def vote_shares(votes: FloatMatrix, priors: FloatVector) -> FloatMatrix:
    """Shares of the classes in each row's votes, smoothed towards the shares of the classes among
    all rows.
    """
    total = votes.sum(axis=1, keepdims=True) + SMOOTHING
    return np.asarray((votes + SMOOTHING * priors) / total)


@dataclass(frozen=True, eq=False)
class Columns:
    """The classes that columns stand for, by row, and the given label among them."""

    classes: IntMatrix  # without the last column
    codes: IntVector  # classes of the given labels
    given: IntVector  # their columns
    rows: FloatMatrix  # share of all rows that the classes of each column have

    @classmethod
    def of_most(cls, shares: FloatMatrix, codes: IntVector, priors: FloatVector) -> Columns:
        """For the classes with the largest shares of the votes, largest first."""
        size = N_COLUMNS - 1
        most = np.argpartition(shares, -size, axis=1)[:, -size:]
        order = np.argsort(-np.take_along_axis(shares, most, 1), axis=1, kind="stable")
        classes = np.take_along_axis(most, order, 1)
        is_given = classes == codes[:, None]
        given = np.where(is_given.any(axis=1), is_given.argmax(axis=1), size)
        return cls(classes, codes, given, _with_others(priors[classes]))

    @property
    def part(self) -> FloatVector:
        """How much of the last column the given label is, if it is there."""
        priors = np.bincount(self.codes) / len(self.codes)
        return np.asarray(priors[self.codes] / self.rows[:, -1])

    def take(self, shares: FloatMatrix) -> FloatMatrix:
        """Shares of the columns, from those of all classes, which add up to one."""
        return _with_others(np.take_along_axis(shares, self.classes, 1))

    def best(self, shares: FloatMatrix) -> tuple[IntVector, IntVector]:
        """The column with the largest share, not the last, and its class."""
        columns = shares[:, :-1].argmax(axis=1)
        return columns, self.classes[np.arange(len(columns)), columns]

    def put_back(self, shares: FloatMatrix, priors: FloatVector) -> FloatMatrix:
        """Shares of all classes. The last column is the given label, if that is there, else what
        others share.
        """
        every, rows = np.tile(priors, (len(shares), 1)), np.arange(len(shares))
        other = self.given == self.classes.shape[1]
        np.put_along_axis(every, self.classes, 0.0, 1)
        every[other] = 0.0
        every[rows[other], self.codes[other]] = 1.0
        every *= shares[:, -1:] / every.sum(axis=1, keepdims=True)
        np.put_along_axis(every, self.classes, shares[:, :-1], 1)
        return every


def _with_others(shares: FloatMatrix) -> FloatMatrix:
    return np.column_stack([shares, np.maximum(1.0 - shares.sum(axis=1), LEAST_SHARE)])


def vote_evidence(
    voters: Voters,
    codes: IntVector,
    labels: IntVector,
    among: Voters,
    reverse_of: Callable[[int, int], Votes],
    trusted: Any = None,
) -> tuple[list[FloatMatrix], Columns | None]:
    """Kinds of evidence about rows: shares of forward votes, of reverse votes, of both, and of both
    with equal weights.

    Those of trusted points (voters and labels) come last. Rows have the labels `codes`, their
    voters `labels`, and `reverse_of` has the reverse votes about the rows from one to another.
    Equal weights are the mean of those `among` audited rows. If classes are very many, the evidence
    has columns, for those with the largest shares of both votes.
    """
    priors = np.bincount(labels) / len(labels)

    def shares_of(start: int, stop: int) -> list[FloatMatrix]:
        forward, reverse = (
            voters.part(start, stop).forward(labels, len(priors)),
            reverse_of(start, stop),
        )
        equal = among.with_equal_weights(forward.counts) + among.with_equal_weights(reverse.counts)
        kinds = [forward.weights, reverse.weights, forward.weights + reverse.weights, equal]
        if trusted is not None:
            kinds.append(trusted[0].reverse(trusted[1], stop - start, len(priors), start).weights)
        return [vote_shares(votes, priors) for votes in kinds]

    if len(priors) <= MOST_COLUMNS:
        return shares_of(0, len(codes)), None
    # Of classes with equal shares, that whose rows have the most votes on others comes first,
    # whatever they are called.
    ranks = zip(among.rows.T, among.weights.T, strict=True)
    cast: Any = sum(np.bincount(labels[rows], weights, len(priors)) for rows, weights in ranks)
    first = 1.0 + TIES * cast / max(1.0, cast.max())
    kinds: list[list[FloatMatrix]] = []
    parts, step = [], max(1, AT_ONCE // len(priors))
    for start in range(0, len(codes), step):
        stop = min(start + step, len(codes))
        shares = shares_of(start, stop)
        parts.append(Columns.of_most(shares[2] * first, codes[start:stop], priors))
        kinds.append([parts[-1].take(share) for share in shares])
    fields = zip(
        *((part.classes, part.codes, part.given, part.rows) for part in parts), strict=True
    )
    columns = Columns(*(np.concatenate(field) for field in fields))
    return [np.concatenate(kind) for kind in zip(*kinds, strict=True)], columns


@dataclass(frozen=True)
class Copies:
    """`group[i]` is the group of row i; most groups have one row. `threshold` is t, 0 for exact
    copies only.
    """

    group: IntVector
    threshold: float = 0.0
    nearness: FloatVector | None = (
        None  # of near-copies: 1 - distance to the nearest row / that to the 20th
    )
    _: KW_ONLY
    # the same for rows that are identical, to the features and in what they were made from
    identical: IntVector

    @cached_property
    def groups(self) -> list[IntVector]:
        """The rows of each group of two or more, in the order of their first rows."""
        return groups_of_two(self.group)

    def among(self, rows: npt.NDArray[np.bool_]) -> Copies:
        """The same groups where these rows are a mask of more rows, the others of which have no
        copies.
        """

        def spread(group: IntVector) -> IntVector:
            every: IntVector = group.max() + 1 + np.arange(len(rows))
            every[rows] = group
            return every

        return replace(self, group=spread(self.group), identical=spread(self.identical))

    def contradictions(self, labels: npt.NDArray[Any]) -> list[IntVector]:
        """Identical rows with different labels: at least one of them is wrong. Near-copies may
        differ for a reason.
        """
        return disagreeing(groups_of_two(self.identical), labels)

    @property
    def have_copies(self) -> npt.NDArray[np.bool_]:
        return np.asarray(np.bincount(self.group)[self.group] > 1)

    def are_many_beyond(self, exact: Copies | None) -> bool:
        """Whether many rows have more copies here than there are exact ones."""
        sizes = np.bincount(self.group)[self.group]
        return bool(
            (sizes > (1 if exact is None else np.bincount(exact.group)[exact.group])).mean()
            > VALUED
        )

    def fewest_errors(self, labels: npt.NDArray[Any]) -> int:
        """How many labels are wrong at least, if copies have one true label."""
        most = (
            np.unique(labels[rows], return_counts=True)[1].max()
            for rows in self.contradictions(labels)
        )
        return sum(len(rows) for rows in self.contradictions(labels)) - int(sum(most))


def groups_of_two(group: IntVector) -> list[IntVector]:
    """The rows of each group of two or more, in the order of their first rows."""
    order = np.argsort(group, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    return sorted((part for part in parts if len(part) > 1), key=lambda part: int(part[0]))


def disagreeing(groups: list[IntVector], labels: npt.NDArray[Any]) -> list[IntVector]:
    """The groups whose rows have different labels."""
    return [rows for rows in groups if (labels[rows] != labels[rows[0]]).any()]


def agree(group: IntVector, labels: npt.NDArray[Any]) -> bool:
    """Whether most groups have one label: then these were labelled, and are wrong, as a whole."""
    groups = groups_of_two(group)
    return 2 * len(disagreeing(groups, labels)) < len(groups)


def first_copies(*parts: Any) -> IntVector:
    """For each row of all parts (X, or X and X_val), the number of the first one that is identical.

    A row is also identical to its own rounding to 32 bits, if that is among the rows.
    """
    first = first_duplicates(*parts)
    if any(scipy.sparse.issparse(part) or part.dtype.kind != "f" for part in parts):
        return first
    rounded = [Converted(part, _single) for part in parts]
    pairs = (
        (part, *block)
        for part, single in zip(parts, rounded, strict=True)
        for block in blocks(single)
    )
    is_single = np.concatenate(
        [(part[start : start + len(rows)] == rows).all(axis=1) for part, start, rows in pairs]
    )
    if is_single.all() or not is_single.any():
        return first
    first_rounded = first_duplicates(*rounded)
    return np.where(np.isin(first_rounded, first_rounded[is_single]), first_rounded, first)


def _single(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        return rows.astype(np.float32)


def exact_copies(first: IntVector, X: Any) -> Copies | None:
    """Groups of identical rows, from the first row like each; None where there are none, or no more
    than by chance.

    Rows of zeros, such as texts without a known word, are no copies: they have nothing in common
    that is known.
    """
    empty = np.concatenate([np.ravel((rows != 0).sum(axis=1)) == 0 for _, rows in blocks(X)])
    first = np.where(empty, np.arange(len(first)), first)
    if len(np.unique(first)) in (1, len(first)) or meet_by_chance(first, X, empty):
        return None
    group = np.unique(first, return_inverse=True)[1]
    return Copies(group, identical=group)


def meet_by_chance(first: IntVector, X: Any, empty: BoolVector) -> bool:
    """Whether rows are identical about as often as chance explains: their columns have few
    different values.

    Rows that differ in one column only, the one that tells most rows apart, show how often: as
    often as they would be identical if they had two values of that column by lot. How often two are
    equal is asked of rows that differ in the others, for copies are equal in all; half a pair more
    allows for few. `empty` rows are no copies.
    """
    sparse, size = (
        scipy.sparse.issparse(X),
        max(2, min(len(first), SAMPLED, SAMPLED_NUMBERS // X.shape[1])),
    )
    some = X[np.linspace(0, len(first) - 1, size).astype(np.intp)]
    sample = np.sort(some.toarray() if sparse else some, axis=0)
    finest = int((sample[1:] != sample[:-1]).sum(axis=0).argmax())

    def without_finest(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        rows = np.array(rows)
        rows[:, finest] = 0
        return rows

    others = X[:, np.arange(X.shape[1]) != finest] if sparse else Converted(X, without_finest)
    other, column = (
        first_duplicates(others),
        (X[:, [finest]].toarray() if sparse else X[:, finest]).ravel(),
    )
    none, every = (n * (n - 1.0) for n in (int(empty.sum()), len(first)))
    identical, alike = _pairs(first), _pairs(np.where(empty, first, other))
    by_lot = (
        max(0.0, _pairs(column) - identical - none) + 1.0
    )  # of pairs that differ in other columns
    return identical * (every - _pairs(other) - by_lot) <= BY_CHANCE * (alike - identical) * by_lot


def _pairs(group: npt.NDArray[Any]) -> float:
    """How often two rows have the same entry, each pair counted twice."""
    counts = np.unique(group, return_counts=True)[1]
    return float((counts * (counts - 1.0)).sum())


def near_copies(
    rows: npt.NDArray[np.integer[Any]], distances: FloatMatrix, exact: Copies | None
) -> Copies | None:
    """The same with near-copies, from the nearest rows of each row (-1 where there are fewer); None
    if there are none.

    Exact copies must not be among the nearest.
    """
    n_rows, size = distances.shape
    rows = rows[:, :size]
    if size < 2 or (distances < 0).any():  # inner products are no distances
        return exact
    found = np.where(rows >= 0, distances, np.inf)
    scale = around(found)
    threshold = near_threshold(found)
    least = np.minimum(scale[:, None], scale[rows])
    near = (found > 0) & (found <= threshold * least)
    if not near.any():
        return exact
    of_row, number = np.nonzero(near)
    exact_group = np.arange(n_rows) if exact is None else exact.group
    edges = exact_group[of_row], exact_group[rows[of_row, number]]
    joined = connected_components(
        coo_array((np.ones(len(of_row)), edges), shape=(n_rows, n_rows)), directed=False
    )[1]
    group = np.unique(joined[exact_group], return_inverse=True)[1]
    nearness = np.where(near.any(axis=1), 1.0 - found[:, 0] / np.maximum(scale, TINY), 0.0)
    identical = np.arange(n_rows) if exact is None else exact.identical
    copies = Copies(group, threshold, nearness, identical=identical)
    return copies if group.any() else exact  # one group of all rows says nothing


def joined(groups: IntVector | None, copies: Copies | None) -> IntVector | None:
    """Groups that were given and groups of copies as one: rows that any of them joins are
    together.
    """
    if groups is None or copies is None:
        return groups if copies is None else copies.group
    n_groups = int(groups.max()) + 1
    size = n_groups + int(copies.group.max()) + 1
    edges = coo_array((np.ones(len(groups)), (groups, n_groups + copies.group)), shape=(size, size))
    together = np.unique(
        connected_components(edges, directed=False)[1][groups], return_inverse=True
    )[1]
    return together if together.any() else groups  # one group of all rows says nothing


def near_threshold(distances: FloatMatrix) -> float:
    """t, from lists of distances in order (infinity where there are fewer)."""
    last = min(AROUND, distances.shape[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        growth = np.log(distances[:, last - 1] / distances[:, (last - 1) // 2])
    growth = growth[np.isfinite(growth)]
    middle = float(np.median(growth)) if len(growth) else 0.0
    # The dimension in which distances grow: twice as many neighbours are 2^(1/m) times as far.
    dimension = max(1.0, np.log(last / ((last - 1) // 2 + 1)) / middle) if middle > 0.0 else 1.0
    return min(NEAREST, float((CHANCE / (AROUND - 1)) ** (1.0 / dimension)))


def around(distances: FloatMatrix) -> FloatVector:
    """The scale of distances around each row: the distance to the 20th, or the last of fewer."""
    some = distances[:, :AROUND]
    return np.asarray(np.where(np.isfinite(some), some, 0.0).max(axis=1))
