"""Sums over validation points that have the same bits however the work was divided.

    Leaf      running sums over up to CHUNK consecutive validation points, added in their order
    Moments   what a finished leaf, or a set of leaves, contributes
    SumTree   leaves added pairwise along a fixed binary tree
    Origin    which data and parameters sums belong to, and so whether two may be combined
    Partial   a SumTree with its Origin: what users merge, save and continue

Validation points are numbered, and so are leaves: leaf i has the points from i * CHUNK on. A node
of the tree holds 2^level leaves, the first of which has a multiple of 2^level as its number, and
is always left child plus right child. A tree keeps the largest complete nodes it has. Work done in
order therefore needs memory for log2(leaves) nodes, and trees may be merged in any order and
grouping. The last leaf may be short: it stays apart, as running sums, so that further points can be
added to it.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from fractions import Fraction
from functools import reduce
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearworth._common.files import Arrays, check_arrays, read_archive, write_archive
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.inputs.features import fingerprint

# Validation points of a leaf.
CHUNK = 64

# Arrays of Moments, and arrays with one number per training point of a Leaf with standard errors.
# These are their names in saved files also.
MOMENT_ARRAYS = ("total", "centre", "spread", "ends")
SPREAD_ARRAYS = ("total", "shift", "first", "second")
# Arrays that are matrices have this many rows. All others are vectors.
N_ARRAY_ROWS = {"ends": 2, "sums": 3, "near": 3, "far": 3}

# Stands for the fingerprint of validation points that are the training points themselves.
SELF = "self"
# How messages name fields of Origin that hold a fingerprint, which is of no use to a reader.
FIELD_NAMES = {
    "training": "the training data",
    "validation": "the validation data",
    "weights": "the weights",
}


@dataclass(frozen=True)
class Moments:
    """What a set of validation points contributes to the values, phi, and to their spread.

    Sums around a center do not cancel, as sums of squares do. A point of weight zero takes part in
    `count` only.

    Attributes
    ----------
    count : int
        Number of validation points.
    positive : int
        Number of those with a positive weight.
    weight : float
        Sum of the weights w.
    weight_squares : float
        Sum of w^2.
    error : float
        Sum of w times the largest error of each point's phi, where one number bounds the errors of
        all training points. 0.0 where phi is exact or `ends` are known.
    total : array of shape (N,)
        Sum of w phi.
    centre : array of shape (N,) or None
        Mean of phi under the weights w^2. None without standard errors.
    spread : array of shape (N,) or None
        Sum of w^2 (phi - centre)^2. None without standard errors.
    ends : array of shape (2, N) or None
        Sums of w times the lower and the upper end of phi. None where phi is exact or `error`
        bounds it.
    """

    count: int
    positive: int
    weight: float
    weight_squares: float
    error: float = 0.0
    _: KW_ONLY
    total: FloatVector
    centre: FloatVector | None = None
    spread: FloatVector | None = None
    ends: FloatMatrix | None = None

    def __add__(self, other: Moments) -> Moments:
        arrays: dict[str, Any] = {"total": self.total + other.total}
        if self.centre is not None and other.centre is not None:
            assert self.spread is not None
            assert other.spread is not None
            squares = self.weight_squares + other.weight_squares
            share = other.weight_squares / squares if squares > 0 else 0.0
            shift = other.centre - self.centre
            arrays["centre"] = self.centre + share * shift
            between = (share * self.weight_squares) * shift**2
            arrays["spread"] = self.spread + other.spread + between
        if self.ends is not None or other.ends is not None:
            arrays["ends"] = self._total_ends() + other._total_ends()
        numbers = [mine + theirs for mine, theirs in zip(self.numbers, other.numbers, strict=True)]
        return Moments(*numbers, **arrays)

    def _total_ends(self) -> FloatMatrix:
        """Both ends of the total, shape (2, N). They are equal where phi is exact."""
        if self.ends is None:
            return np.stack([self.total, self.total])
        return self.ends

    def with_ends(self) -> Moments:
        """The same with both ends of each sum, where so far only `error` is known."""
        if not self.error:
            return self
        ends = np.stack([self.total - self.error, self.total + self.error])
        return replace(self, ends=ends, error=0.0)

    def take(self, rows: IntVector) -> Moments:
        """The moments of these training points, in this order."""
        arrays: dict[str, Any] = {name: array[..., rows] for name, array in self.arrays.items()}
        return replace(self, **arrays)

    def standard_errors(self) -> FloatVector | None:
        """Standard error of the weighted mean of phi over the validation points, shape (N,).

        None without a spread, NaN for a single validation point.
        """
        if self.centre is None or self.spread is None:
            return None
        if self.positive < 2:
            return np.full(self.total.shape, np.nan)
        mean = self.total / self.weight
        around_mean = self.weight_squares * (self.centre - mean) ** 2
        squares = np.maximum(self.spread, 0.0) + around_mean
        correction = self.positive / (self.positive - 1)
        return np.asarray(np.sqrt(correction * squares) / self.weight)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that are not None, by name."""
        by_name = {name: getattr(self, name) for name in MOMENT_ARRAYS}
        return {name: array for name, array in by_name.items() if array is not None}

    @property
    def numbers(self) -> list[Any]:
        """The fields that are single numbers, in their order."""
        return [self.count, self.positive, self.weight, self.weight_squares, self.error]


class Leaf:
    """Running sums over consecutive validation points, added in their order.

    Attributes
    ----------
    n_points, n_positive, weight, weight_squares, error
        `count`, `positive`, `weight`, `weight_squares` and `error` of Moments.
    arrays : dict
        "total" has the sum of w phi. With standard errors, "shift" has the phi of the first point,
        and "first" and "second" have the sums of w^2 (phi - shift) and of w^2 (phi - shift)^2,
        which do not cancel. With truncated values, "sums" of shape (3, N) has the total and both
        of its ends, and "near" and "far" have what it takes to continue them.
    """

    def __init__(self, n_train: int, *, spread: bool) -> None:
        self.n_points = 0
        self.n_positive = 0
        self.weight = 0.0
        self.weight_squares = 0.0
        self.error = 0.0
        names = SPREAD_ARRAYS if spread else ("total",)
        self.arrays: dict[str, npt.NDArray[Any]] = {name: np.zeros(n_train) for name in names}

    @classmethod
    def restored(cls, numbers: Sequence[Any], arrays: Arrays) -> Leaf:
        """A leaf with these `numbers` and copies of these `arrays`."""
        leaf = cls(0, spread=False)
        leaf.n_points, leaf.n_positive, leaf.weight, leaf.weight_squares, leaf.error = numbers
        leaf.arrays = {name: array.copy() for name, array in arrays.items()}
        return leaf

    @staticmethod
    def bytes(n_train: int, *, spread: bool, with_ends: bool) -> int:
        """Memory of a leaf, or of its moments."""
        n_vectors = len(SPREAD_ARRAYS) if spread else 1
        if with_ends:
            n_vectors += 2
        return 8 * n_train * n_vectors

    @property
    def numbers(self) -> list[Any]:
        """The attributes that are single numbers, in the order of `Moments.numbers`."""
        return [self.n_points, self.n_positive, self.weight, self.weight_squares, self.error]

    @property
    def total(self) -> FloatVector:
        """Sum of w phi, shape (N,). Callers add to it in place."""
        return self.arrays["total"]

    @contextmanager
    def reordered(self, order: npt.NDArray[Any], positions: npt.NDArray[Any]) -> Iterator[Leaf]:
        """The leaf with its training points in another order, until the `with` block ends.

        Training point `order[i]` stands at position i, and `positions` is the inverse of `order`.
        """
        names = [name for name in SPREAD_ARRAYS if name in self.arrays]
        # Without points all sums are zero, in any order.
        if self.n_points:
            self.arrays |= {name: self.arrays[name][order] for name in names}
        yield self
        self.arrays |= {name: self.arrays[name].take(positions) for name in names}

    def add_values(self, values: FloatVector, weight: float) -> None:
        """Add one validation point, given the value phi of each training point, shape (N,)."""
        is_first = self.n_positive == 0
        self.count(np.array([weight]))
        if "shift" not in self.arrays:
            self.total[:] += weight * values
            return
        total, shift, first, second = (self.arrays[name] for name in SPREAD_ARRAYS)
        if is_first:
            shift[:] = values
        deviations = values - shift
        total += weight * values
        weighted = weight * weight * deviations
        first += weighted
        second += weighted * deviations

    def widen(self, error: float) -> None:
        """Add to the bound on the error of the total."""
        self.error += error

    def count(self, weights: FloatVector, errors: FloatVector | None = None) -> None:
        """Count validation points whose values are added to `total` elsewhere.

        Parameters
        ----------
        weights : array of shape (points,)
        errors : array of shape (points,), optional
            The largest error of each point's values.
        """
        # Python adds one number after the other, so that batches of any size give the same bits.
        for weight in weights.tolist():
            self.n_points += 1
            self.n_positive += weight > 0
            self.weight += weight
            self.weight_squares += weight * weight
        if errors is not None:
            for error in (weights * errors).tolist():
                self.widen(error)

    def moments(self) -> Moments:
        """The sums as Moments, which are around the mean instead of the first point."""
        arrays: dict[str, Any] = {"total": self.arrays["total"]}
        if "shift" in self.arrays:
            first = self.arrays["first"]
            mean = first / self.weight_squares if self.weight_squares > 0 else first
            arrays["centre"] = self.arrays["shift"] + mean
            arrays["spread"] = np.maximum(self.arrays["second"] - mean * first, 0.0)
        if "sums" in self.arrays:
            arrays["total"] = self.arrays["sums"][0]
            arrays["ends"] = self.arrays["sums"][1:]
        return Moments(*self.numbers, **arrays)


class ValidationSet(NamedTuple):
    """Validation points that were valued in one call.

    Attributes
    ----------
    start : int
        Number of the first one among all validation points.
    n_points : int
    fingerprint : str
        Hash of the data, or `SELF`.
    """

    start: int
    n_points: int
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Which data and parameters values come from. Empty fields are not known.

    Attributes
    ----------
    version : str
        The version of nearworth.
    parameters : dict
        The parameters of `KNNShapley` that values depend on, as JSON can hold them.
    n_train : int
        Number of training points.
    n_classes : int or None
        Number of classes. None for regression.
    training : str
        Fingerprint of the training data.
    validation : tuple of (start, n_points, fingerprint)
        The validation sets: the number of the first point, how many points, and a fingerprint of
        the data. The fingerprint is "self" where training points were valued on each other.
    standard_errors : bool
        Whether standard errors were computed.
    ranked : int or None
        How many neighbors were ranked. None for all.
    tail : str or None
        What stands for unranked points. None where all were ranked.
    search : str or None
        What a searcher must be to find the same neighbors again. None for exact search.
    weights : str or None
        Fingerprint of weights that are not part of a validation set.
    n_val : int
        Number of validation points.
    is_leave_one_out : bool
        Whether the training points were valued on each other.
    validation_fingerprints : list of str
        The fingerprint of each validation set.
    """

    version: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    n_train: int = 0
    n_classes: int | None = None
    training: str = ""
    validation: tuple[ValidationSet, ...] = ()
    standard_errors: bool = False
    ranked: int | None = None
    tail: str | None = None
    search: str | None = None
    weights: str | None = None

    @property
    def n_val(self) -> int:
        """Number of validation points."""
        return sum(validation_set.n_points for validation_set in self.validation)

    @property
    def is_leave_one_out(self) -> bool:
        """Whether the training points were valued on each other."""
        return SELF in self.validation_fingerprints

    @property
    def validation_fingerprints(self) -> list[str]:
        """The fingerprint of each validation set."""
        return [validation_set.fingerprint for validation_set in self.validation]

    def differences(self, other: Origin, names: Sequence[str]) -> list[str]:
        """The fields among `names` in which two origins differ, in words.

        Parameters
        ----------
        other : Origin
        names : sequence of str
            Names of fields: GAME, PARTS or RUN below.
        """
        descriptions = []
        for name in names:
            mine = getattr(self, name)
            theirs = getattr(other, name)
            if name == "parameters":
                keys = [key for key in {*mine, *theirs} if mine.get(key) != theirs.get(key)]
                descriptions += [
                    f"{key}: {mine.get(key)!r} and {theirs.get(key)!r}" for key in sorted(keys)
                ]
            elif mine != theirs:
                descriptions.append(FIELD_NAMES.get(name, f"{name}: {mine!r} and {theirs!r}"))
        return descriptions

    def shares_validation(self, other: Origin) -> bool:
        """Whether the two have a validation set in common."""
        return not set(self.validation_fingerprints).isdisjoint(other.validation_fingerprints)

    def merge(self, others: Sequence[Origin]) -> Origin:
        """The origin of the whole that these are parts of. Raises ValueError if they are not."""
        for other in others:
            different = self.differences(other, PARTS)
            if different:
                raise ValueError(
                    f"These parts do not belong together; they differ in {'; '.join(different)}."
                )
        by_start: dict[int, ValidationSet] = {}
        for origin in (self, *others):
            for validation_set in origin.validation:
                by_start[validation_set.start] = validation_set
        return replace(self, validation=tuple(by_start[start] for start in sorted(by_start)))

    def followed_by(self, other: Origin) -> Origin:
        """The origin of two valuations added up: points of `other` are numbered after these.

        Raises ValueError if training data or parameters differ, or if a validation set is in both.
        """
        different = self.differences(other, GAME)
        if different:
            raise ValueError(
                f"These valuations cannot be combined; they differ in {'; '.join(different)}."
            )
        if self.shares_validation(other):
            raise ValueError(
                "These valuations share a validation set, whose points would count twice."
            )
        later = [
            validation_set._replace(start=validation_set.start + self.n_val)
            for validation_set in other.validation
        ]
        return replace(
            self,
            validation=(*self.validation, *later),
            standard_errors=self.standard_errors and other.standard_errors,
        )

    def to_json(self) -> dict[str, Any]:
        """The fields by name, for `json.dumps`."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Origin:
        """The origin that `to_json` gave, after `json.loads`."""
        validation = tuple(ValidationSet(*entries) for entries in fields["validation"])
        return cls(**{**fields, "validation": validation})


# Fields of Origin that must agree between valuations to be added, between parts to be merged, and
# between a checkpoint and the run that resumes it.
GAME = ("parameters", "training")
PARTS = tuple(name for name in Origin.__dataclass_fields__ if name != "validation")
RUN = (*PARTS, "validation")


class SumTree:
    """Sums of leaves along a fixed binary tree: the same bits in any order of adding and merging.

    Attributes
    ----------
    notes : dict
        Arrays about single validation points. They are saved, and never merged.
    """

    def __init__(self) -> None:
        # By the number of the first leaf. The number of points determines the level of a node. A
        # Leaf among them is short, and the last one.
        self._nodes: dict[int, Moments | Leaf] = {}
        self.notes: dict[str, npt.NDArray[Any]] = {}

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The validation points that are in, as ranges: first and one past the last."""
        joined: list[tuple[int, int]] = []
        for first, stop in sorted(_spans(self._nodes)):
            if joined and joined[-1][1] == first:
                first = joined.pop()[0]
            joined.append((first, stop))
        return joined

    @property
    def n_points(self) -> int:
        """Number of validation points that are in."""
        return sum(stop - first for first, stop in _spans(self._nodes))

    def add_leaf(self, number: int, leaf: Leaf) -> None:
        """Add a leaf. A short one stays open, and no leaf may come after it."""
        is_complete = leaf.n_points == CHUNK
        self._add({number: leaf.moments() if is_complete else leaf})

    def absorb(self, other: SumTree) -> None:
        """Add all leaves of another tree."""
        self._add(other._nodes)

    def without_open_leaf(self) -> tuple[SumTree, Leaf | None]:
        """A tree of the complete leaves, and the short leaf if there is one."""
        tree = SumTree()
        open_leaf = None
        for first, node in self._nodes.items():
            if isinstance(node, Leaf):
                open_leaf = node
            else:
                tree._nodes[first] = node
        return tree, open_leaf

    def attach(self, notes: Mapping[str, Any]) -> None:
        """Save these arrays with the sums from now on.

        Arrays of the same names that were loaded with the sums are first copied into them.
        """
        for name, note in notes.items():
            note[...] = self.notes.get(name, note)
            self.notes[name] = note

    def finish(self) -> Moments:
        """The sum over all points, of the nodes from left to right."""
        # As moments, the short leaf becomes part of larger nodes where its siblings are there.
        closed = SumTree()
        for first, node in self._nodes.items():
            closed._insert(first, node.moments() if isinstance(node, Leaf) else node)
        ordered: Any = [node for _, node in sorted(closed._nodes.items())]
        total: Moments = reduce(operator.add, ordered)
        return total.with_ends()

    def to_archive(self) -> tuple[list[list[Any]], dict[str, npt.NDArray[Any]]]:
        """For each node its first leaf and its numbers, and all arrays by their names in a file."""
        nodes = sorted(self._nodes.items())
        arrays = {f"note-{name}": note for name, note in self.notes.items()}
        for first, node in nodes:
            arrays |= {f"{first}-{name}": array for name, array in node.arrays.items()}
        return [[first, node.numbers] for first, node in nodes], arrays

    @classmethod
    def from_archive(cls, nodes: Sequence[Sequence[Any]], arrays: Arrays) -> SumTree:
        """The tree that `to_archive` described. Raises ValueError for nodes that no tree has."""
        tree = cls()
        for first, numbers in nodes:
            tree._add({first: _read_node(first, numbers, _with_prefix(f"{first}-", arrays))})
        tree.notes = _with_prefix("note-", arrays)
        return tree

    def _add(self, nodes: Mapping[int, Moments | Leaf]) -> None:
        """Add nodes by their first leaf.

        Raises ValueError if a validation point were in two nodes, or if a node that is not the last
        ended within a leaf.
        """
        spans = sorted([*_spans(self._nodes), *_spans(nodes)], key=lambda span: (span[0], -span[1]))
        end = 0
        for first, stop in spans:
            if first < end:
                raise ValueError(
                    f"Validation points {first} to {stop - 1} are in more than one part."
                )
            if end % CHUNK:
                rule = f"Every part but the last must hold a multiple of {CHUNK} points"
                raise ValueError(f"{rule}; one ends before {end}.")
            end = stop
        for first, node in nodes.items():
            self._insert(first, node)

    def _insert(self, first: int, node: Moments | Leaf) -> None:
        """Add a node, as part of a larger one if its sibling is there."""
        size = _n_leaves(node.numbers)
        # Siblings differ in one bit of their first leaf. That bit is set for the right one.
        sibling = self._nodes.get(first ^ size)
        if isinstance(node, Leaf) or not isinstance(sibling, Moments):
            self._nodes[first] = node
            return
        if _n_leaves(sibling.numbers) != size:
            self._nodes[first] = node
            return
        del self._nodes[first ^ size]
        parent = sibling + node if first & size else node + sibling
        self._insert(first & ~size, parent)


class Partial:
    """Sums over a part of the validation points. Made by `KNNShapley.partial` and `Partial.load`.

    Parts of one origin merge in any order and grouping to the same bits.
    `Valuation.from_partial` makes the values once all validation points are in.

    Attributes
    ----------
    origin : Origin
        Which data and parameters the sums belong to.
    ranges : list of (int, int)
        The validation points that are in, as ranges: first and one past the last.
    n_points : int
        Number of validation points that are in.

    Examples
    --------
    >>> import nearworth as nw
    >>> X, y = [[0.0], [1.0], [2.0]], ["a", "b", "a"]
    >>> est = nw.KNNShapley(n_neighbors=1).fit(X, y)
    >>> part = est.partial([[0.2]], ["a"])
    >>> part
    Partial: validation points 0 to 0
    >>> nw.Valuation.from_partial(part).values.round(4)
    array([ 0.6667, -0.3333,  0.1667])
    """

    def __init__(self, origin: Origin | None = None, tree: SumTree | None = None) -> None:
        self.origin = Origin() if origin is None else origin
        self._tree = SumTree() if tree is None else tree

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The validation points that are in, as ranges: first and one past the last."""
        return self._tree.ranges

    @property
    def n_points(self) -> int:
        """Number of validation points that are in."""
        return self._tree.n_points

    def merge(self, others: Partial | Iterable[Partial]) -> Partial:
        """Put this part and others together.

        Parameters
        ----------
        others : Partial or iterable of Partial
            Parts with the same training data and parameters.

        Returns
        -------
        Partial
            A new part. The merged ones stay as they are.

        Raises
        ------
        ValueError
            If data or parameters differ, or a validation point is in two parts.
        """
        parts = [self]
        if isinstance(others, Partial):
            parts.append(others)
        else:
            parts.extend(others)
        merged = Partial(self.origin.merge([part.origin for part in parts[1:]]))
        for part in parts:
            merged._tree.absorb(part._tree)
        return merged

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a numpy archive with checksums, by which `load` recognizes damage.

        The file appears only when it is complete.
        """
        nodes, arrays = self._tree.to_archive()
        write_archive(path, "part", {"origin": self.origin.to_json(), "sums": nodes}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Partial:
        """Read a file that `save` wrote. Raises ValueError if it is damaged."""
        return read_archive(path, "part", cls._from_archive)

    @classmethod
    def _from_archive(cls, description: dict[str, Any], arrays: Arrays) -> Partial:
        origin = Origin.from_json(description["origin"])
        return cls(origin, SumTree.from_archive(description["sums"], arrays))

    def __repr__(self) -> str:
        ranges = ", ".join(f"{first:,} to {stop - 1:,}" for first, stop in self.ranges)
        return f"Partial: validation points {ranges or 'none yet'}"


def tree_of(partial: Partial) -> SumTree:
    """The sums inside a part, for the engine. Users of the package do not need them."""
    return partial._tree


def _n_leaves(numbers: Sequence[Any]) -> int:
    """Number of leaves of a node, rounded up, from the numbers of its Moments or Leaf."""
    return -(-int(numbers[0]) // CHUNK)


def _spans(nodes: Mapping[int, Moments | Leaf]) -> list[tuple[int, int]]:
    """The first validation point of each node and one past its last."""
    return [(CHUNK * first, CHUNK * first + node.numbers[0]) for first, node in nodes.items()]


def _with_prefix(prefix: str, arrays: Arrays) -> dict[str, Any]:
    """The arrays whose names begin with the prefix, by the remainder of their names."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _read_node(first: int, numbers: Sequence[Any], arrays: Arrays) -> Moments | Leaf:
    """A node of a saved tree. Raises ValueError where no tree could have such a node."""
    check_shapes(arrays)
    n_points = numbers[0]
    n_leaves = -(-n_points // CHUNK)
    is_complete = n_points == CHUNK * n_leaves
    is_node = n_leaves == 1 or (is_complete and n_leaves.bit_count() == 1)
    # Python would look for a number that is no int in every place of the range.
    if not is_node or not isinstance(first, int) or first not in range(0, 2**62, n_leaves):
        raise ValueError(
            f"it has {n_points} validation points from leaf {first} on, which are no node."
        )
    if not is_complete:
        return Leaf.restored(numbers, arrays)
    by_name: dict[str, Any] = {**arrays}
    return Moments(*numbers, **by_name)


def check_shapes(arrays: Arrays) -> None:
    """Raise ValueError for arrays that are not those of Moments or of a Leaf."""
    n_train = arrays["total"].size
    shapes: dict[str, tuple[int, ...]] = {}
    for name, array in arrays.items():
        n_columns = n_train
        if name == "far":
            # One column per class.
            n_columns = array.shape[-1]
        shapes[name] = (N_ARRAY_ROWS[name], n_columns) if name in N_ARRAY_ROWS else (n_columns,)
    check_arrays(arrays, shapes)


def describe(value: Any) -> Any:
    """A parameter as JSON can hold it, the same in every process."""
    if callable(value):
        return _describe_function(value)
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return fingerprint(value)
    if isinstance(value, np.generic):
        return value.item()
    return value


def _describe_function(function: Any) -> str:
    """Module and name of a function, and a hash of its code that tells it from others so named."""
    body = repr(function)
    code = getattr(function, "__code__", None)
    if code is not None:
        # The repr of a nested function's code has its address, which differs between processes.
        constants = [repr(item) for item in code.co_consts if not isinstance(item, CodeType)]
        closure = [describe(cell.cell_contents) for cell in function.__closure__ or ()]
        defaults = function.__defaults__
        body = fingerprint(code.co_code, code.co_names, constants, defaults, closure)[:8]
    module = getattr(function, "__module__", "")
    name = getattr(function, "__qualname__", "")
    return f"{module}.{name}#{body}"
