"""What a searcher is: the contract, the form of its answers, shared checks, a searcher of a graph.

Answers are verified, not trusted: `check_answer` refuses what cannot be right, and `exact.py` ranks
the points found by exact distances and measures how many of the nearest were found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolMatrix, FloatMatrix, IntVector, Ties
from nearworth._common.warnings import warn_user
from nearworth.inputs.features import fingerprint, is_sparse
from nearworth.inputs.parameters import whole_number
from nearworth.neighbors.distances import readable

# Row number where there is no neighbor.
MISSING = -1
# Members of the contract that another class may have.
CONTRACT = ("fit", "search", "prepare", "fingerprint", "predict", "on_fail", "random_state")


class Neighbours(NamedTuple):
    """Training points near some queries, nearest first: what every search returns.

    Where fewer than k were found, a list ends in MISSING and infinity. Equal keys are ties.

    Attributes
    ----------
    rows : array of shape (Q, k)
        Row numbers of training points.
    keys : array of shape (Q, k)
        Their distances, or an increasing function of them.
    """

    rows: npt.NDArray[Any]
    keys: FloatMatrix

    @classmethod
    def empty(cls, n_queries: int, k: int, dtype: Any = np.intp) -> Neighbours:
        rows = np.full((n_queries, k), MISSING, dtype=dtype)
        return cls(rows, np.full((n_queries, k), np.inf))

    @property
    def sizes(self) -> IntVector:
        """How many points each list has."""
        return np.asarray(np.count_nonzero(self.rows >= 0, axis=1))

    def starts(self, ties: Ties) -> BoolMatrix:
        """Whether a block of tied points begins at each rank, shape (Q, k).

        With ties="index", every point is a block of its own.
        """
        starts = np.ones(self.keys.shape, dtype=bool)
        if ties == "average":
            np.not_equal(self.keys[:, 1:], self.keys[:, :-1], out=starts[:, 1:])
        return starts

    def part(self, queries: IntVector | slice) -> Neighbours:
        """The lists of some queries; a copy, unless the queries are a slice."""
        return Neighbours(self.rows[queries], self.keys[queries])

    def first(self, sizes: IntVector) -> Neighbours:
        """The first points of each list, as many as given for it in `sizes`."""
        is_beyond = np.arange(self.rows.shape[1]) >= sizes[:, None]
        rows = np.where(is_beyond, MISSING, self.rows)
        return Neighbours(rows, np.where(is_beyond, np.inf, self.keys))

    def resized(self, k: int) -> Neighbours:
        """Cut to k columns, or filled up to them."""
        padding = ((0, 0), (0, max(0, k - self.rows.shape[1])))
        rows = np.pad(self.rows[:, :k], padding, constant_values=MISSING)
        keys = np.pad(self.keys[:, :k], padding, constant_values=np.inf)
        return Neighbours(rows, keys)

    def without(self, excluded: IntVector) -> Neighbours:
        """One column less: without one given training point per query.

        A list that does not have it loses its last point.
        """
        is_dropped = self.rows == excluded[:, None]
        is_dropped[~is_dropped.any(axis=1), -1] = True
        shape = (len(self.rows), self.rows.shape[1] - 1)
        rows = self.rows[~is_dropped].reshape(shape)
        return Neighbours(rows, self.keys[~is_dropped].reshape(shape))


class Searcher:
    """Finds the nearest training points by Euclidean distance.

    This is all that a valuation asks of a searcher. Only `fit` and `search` are required. Any
    object with these two methods is a searcher. It need not inherit from this class, whose other
    members are the defaults. A valuation calls them in this order, from one thread::

        predict(X, k, n_queries)    only by `KNNShapley.plan`, instead of all others
        fit(X)                      once
        prepare(k, queries)         once
        fingerprint()               once, if there is a checkpoint
        search(Q, k)                often: first the queries of `prepare` again, then all, up to
                                    1,024 at a time

    `k` is one or two more than `n_candidates`: ties show only with the next point, and a query that
    is a training point finds itself. Arrays are dense and finite, of any real type and memory
    layout.
    """

    on_fail: Literal["exact", "partial"] = "exact"
    """Where fewer than `n_candidates` are found: search exactly, or value with what was found."""

    random_state: Any = 0
    """The seed. Must be a number if there is a checkpoint, so that a resumed run finds the same."""

    tuning: Any = None
    """What `prepare` chose, for `Valuation.search`. It prints itself."""

    fingerprint: ClassVar[Callable[[Any], str] | None] = None
    """A text that is equal for searchers that give equal answers, to the bit.

    Without it there are no checkpoints.
    """

    name: str = "Searcher"

    def __init_subclass__(cls) -> None:
        cls.name = cls.__dict__.get("name", cls.__name__)

    def fit(self, X: Any) -> Self:
        """Take the training points, (N, d). A second call replaces the first."""
        raise NotImplementedError

    def search(self, Q: Any, k: int) -> tuple[Any, Any]:
        """Row numbers and distances of the k nearest, both (len(Q), k), nearest first.

        Where fewer were found, the row ends in index -1 and distance infinity. Distances may be any
        increasing function of the true ones.
        """
        raise NotImplementedError

    def prepare(self, k: int, queries: Any = None) -> Any:
        """Choose parameters and build what depends on k. `queries` is a sample of those to come."""

    def predict(self, X: Any, k: int, n_queries: int) -> Any:  # noqa: ARG002 - for those who know more
        """What can be said before any work is done on these training points.

        The result prints itself. None stands for nothing.
        """
        return None

    def search_numbered(self, numbers: IntVector, Q: Any, k: int) -> tuple[Any, Any]:  # noqa: ARG002
        """`search(Q, k)` of the validation points with these numbers.

        Only a precomputed graph looks at the numbers.
        """
        return self.search(Q, k)


class _Adapter(Searcher):
    """A searcher of another class: its own members, and the defaults for those that it lacks."""

    def __init__(self, searcher: Any) -> None:
        self._searcher = searcher
        self.name = type(searcher).__name__
        for member in CONTRACT:
            if hasattr(searcher, member):
                setattr(self, member, getattr(searcher, member))

    @property
    def tuning(self) -> Any:  # type: ignore[override]
        # Read late, because `prepare` sets it.
        return getattr(self._searcher, "tuning", None)


def as_searcher(searcher: Any) -> Searcher:
    """A searcher with every member of the contract, from any object with `fit` and `search`."""
    return searcher if isinstance(searcher, Searcher) else _Adapter(searcher)


def check_answer(
    indices: Any, distances: Any, n_train: int, k: int, *, n_queries: int, searcher: Any
) -> Neighbours:
    """The answer of a searcher in our types, or a ValueError that says what is wrong with it."""
    rows = np.asarray(indices)
    lengths = np.asarray(distances)
    fault = _fault_of_type(rows, lengths, (n_queries, k))
    if fault is None:
        fault = _fault_of_content(rows, lengths, n_train)
    if fault is not None:
        name = as_searcher(searcher).name
        raise ValueError(
            f"{name}.search returned {fault}. See nearworth.testing.check_searcher to find out why."
        )
    keys = np.where(rows == MISSING, np.inf, lengths.astype(np.float64))
    return Neighbours(rows.astype(np.intp), keys)


def _fault_of_type(
    rows: npt.NDArray[Any], distances: npt.NDArray[Any], shape: tuple[int, int]
) -> str | None:
    """What is wrong with the shape or type of an answer."""
    for name, array, kinds, numbers in (
        ("indices", rows, "iu", "whole"),
        ("distances", distances, "iuf", "real"),
    ):
        if array.shape != shape:
            return f"{name} of shape {array.shape} instead of {shape}"
        if array.dtype.kind not in kinds:
            return f"{name} of type {array.dtype} instead of {numbers} numbers"
    return None


def _fault_of_content(
    rows: npt.NDArray[Any], distances: npt.NDArray[Any], n_train: int
) -> str | None:
    """What is wrong with the numbers of an answer, both arrays of shape (Q, k)."""
    is_missing = rows == MISSING
    sorted_rows = np.sort(rows, axis=1)
    is_repeated = (sorted_rows[:, 1:] == sorted_rows[:, :-1]) & (sorted_rows[:, 1:] != MISSING)
    is_nearer = distances[:, 1:] < distances[:, :-1]
    faults = {
        f"an index outside 0..{n_train - 1}": (rows < MISSING) | (rows >= n_train),
        "a neighbour after -1": is_missing[:, :-1] & ~is_missing[:, 1:],
        "a distance that is not finite": ~is_missing & ~np.isfinite(distances),
        "a farther point before a nearer one": ~is_missing[:, 1:] & is_nearer,
        "a neighbour twice": is_repeated,
    }
    for fault, where in faults.items():
        if where.any():
            return f"{fault}, for query {np.argwhere(where)[0, 0]} of its batch"
    return None


class GraphSearch(Searcher):
    """A k-nearest-neighbor graph.

    Row q holds the neighbors of validation point q, or of training point q.

    Parameters
    ----------
    indices, distances
        Arrays (points, neighbors) in any order, -1 where there are fewer neighbors.

    Examples
    --------
    >>> graph = GraphSearch([[2, 0], [1, -1]], [[0.5, 0.1], [0.2, np.inf]])
    >>> graph.search([[0.0], [1.0]], 1)[0].tolist()
    [[0], [1]]
    """

    def __init__(self, indices: Any, distances: Any) -> None:
        rows = np.asarray(indices)
        lengths = np.asarray(distances)
        if rows.ndim != 2 or rows.shape != lengths.shape:
            raise ValueError(
                f"indices and distances must be matrices of one shape; got {rows.shape} and"
                f" {lengths.shape}."
            )

        # Nearest first, equal distances by index, missing ones last.
        order = np.lexsort((rows, np.where(rows == MISSING, np.inf, lengths)), axis=1)
        rows = np.take_along_axis(rows, order, axis=1)
        lengths = np.take_along_axis(lengths, order, axis=1)
        n_queries, k = rows.shape
        n_points = int(rows.max(initial=MISSING)) + 1
        self._lists = check_answer(rows, lengths, n_points, k, n_queries=n_queries, searcher=self)
        # Training points, if a matrix shows how many there are.
        self._n_columns: int | None = None

    @classmethod
    def from_csr(cls, graph: Any) -> Self:
        """From a sparse matrix of distances, (points, training points).

        scikit-learn and cleanlab make such matrices. What is stored counts, zeros included: a
        stored zero is a duplicate, an absent entry no neighbor.
        """
        if not is_sparse(graph):
            raise TypeError(
                f"graph must be a scipy sparse matrix of distances; got {type(graph).__name__}."
            )
        csr = graph.tocsr()
        counts = np.diff(csr.indptr)
        if csr.nnz and counts.max() > 1 and (csr.data == 1).all():
            tied = (
                "every distance in the graph is 1, as in a graph of connections, so all neighbours"
                " are tied"
            )
            warn_user(f"{tied}. scikit-learn makes distances with mode='distance'.")
        is_present = np.arange(counts.max(initial=0)) < counts[:, None]
        indices, distances = Neighbours.empty(*is_present.shape)
        indices[is_present] = csr.indices
        distances[is_present] = csr.data
        searcher = cls(indices, distances)
        searcher._n_columns = csr.shape[1]
        return searcher

    def fit(self, X: Any) -> Self:
        """Check that the graph speaks of these training points."""
        n_points = self._n_columns
        if n_points is None:
            n_points = int(self._lists.rows.max(initial=MISSING)) + 1
        if len(X) < n_points or self._n_columns not in (None, len(X)):
            raise ValueError(
                f"the graph speaks of {n_points} training points, but X has {len(X)} rows."
            )
        return self

    def fingerprint(self) -> str:
        """A hash of the graph."""
        return fingerprint(*self._lists)

    def search(self, Q: Any, k: int) -> Neighbours:
        """The answers to all points of the graph, which Q must be, in its order.

        The graph knows no other points.
        """
        if len(Q) != len(self._lists.rows):
            raise ValueError(
                f"the graph has {len(self._lists.rows)} rows and Q has {len(Q)}. Give all its"
                " points."
            )
        return self._lists.resized(k)

    def search_numbered(self, numbers: IntVector, Q: Any, k: int) -> Neighbours:  # noqa: ARG002 - it knows no points
        if len(numbers) and numbers.max() >= len(self._lists.rows):
            raise ValueError(
                f"point {numbers.max()} is not in a graph of {len(self._lists.rows)} rows."
            )
        return self._lists.part(numbers).resized(k)


def as_points(data: Any) -> npt.NDArray[Any]:
    """Checked training points, all in memory, in a type that kernels read.

    So there are no 16-bit floats and no foreign byte order.
    """
    return readable(np.asanyarray(data))[:]  # type: ignore[no-any-return]


def check_queries(Q: Any, n_columns: int, k: int) -> FloatMatrix:
    """Queries that the user gives to a searcher, or an error that says what they should be."""
    whole_number(1)("k", k)
    queries = np.ascontiguousarray(Q, dtype=np.float64)
    if queries.ndim != 2 or queries.shape[1] != n_columns:
        raise ValueError(
            f"Q must have shape (queries, {n_columns}), as the training points; got"
            f" {queries.shape}."
        )
    if not np.isfinite(queries).all():
        raise ValueError("Q holds numbers that are not finite. Drop these queries or fill them in.")
    return queries
