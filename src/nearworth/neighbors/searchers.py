"""What a searcher is: the contract, the form of its answers, the checks that searchers share, and
the simplest of them.

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

MISSING = -1


class Neighbours(NamedTuple):
    """Training points near some queries, nearest first: what every search returns.

    `rows` are their row numbers and `keys` their distances, or an increasing function of them; both
    are (queries, k). Where fewer were found, a line ends in MISSING and infinity. Equal keys are
    ties.
    """

    rows: npt.NDArray[Any]
    keys: FloatMatrix

    @classmethod
    def empty(cls, n_queries: int, k: int, dtype: Any = np.intp) -> Neighbours:
        return cls(np.full((n_queries, k), MISSING, dtype=dtype), np.full((n_queries, k), np.inf))

    @property
    def sizes(self) -> IntVector:
        return np.asarray(np.count_nonzero(self.rows >= 0, axis=1))

    def starts(self, ties: Ties) -> BoolMatrix:
        """Whether a block of tied points begins at each rank; by index, every point is a block of
        its own.
        """
        starts = np.ones(self.keys.shape, dtype=bool)
        if ties == "average":
            np.not_equal(self.keys[:, 1:], self.keys[:, :-1], out=starts[:, 1:])
        return starts

    def part(self, queries: IntVector | slice) -> Neighbours:
        """Those of some queries; a copy, unless they are a slice."""
        return Neighbours(self.rows[queries], self.keys[queries])

    def first(self, sizes: IntVector) -> Neighbours:
        """The first points of each query, as many as `sizes` says."""
        beyond = np.arange(self.rows.shape[1]) >= sizes[:, None]
        return Neighbours(np.where(beyond, MISSING, self.rows), np.where(beyond, np.inf, self.keys))

    def resized(self, k: int) -> Neighbours:
        """Cut to k columns, or filled up to them."""
        more = ((0, 0), (0, max(0, k - self.rows.shape[1])))
        rows = np.pad(self.rows[:, :k], more, constant_values=MISSING)
        return Neighbours(rows, np.pad(self.keys[:, :k], more, constant_values=np.inf))

    def without(self, excluded: IntVector) -> Neighbours:
        """One column less: without one given training point per query, or without the last where
        that is not listed.
        """
        drop = self.rows == excluded[:, None]
        drop[~drop.any(axis=1), -1] = True
        shape = len(self.rows), self.rows.shape[1] - 1
        return Neighbours(self.rows[~drop].reshape(shape), self.keys[~drop].reshape(shape))


class Searcher:
    """Finds the nearest training points by Euclidean distance. This is all that a valuation asks of
    a searcher.

    Only `fit` and `search` are required. Any object with these two methods is a searcher; it need
    not inherit from this class, whose other members are the defaults. A valuation calls them in
    this order, from one thread::

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
    """A text that is equal for searchers that give equal answers, to the bit. Without it there are
    no checkpoints.
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
        """What can be said before any work is done on these training points. It prints itself; None
        for nothing.
        """
        return None

    def search_numbered(self, numbers: IntVector, Q: Any, k: int) -> tuple[Any, Any]:  # noqa: ARG002
        """`search(Q, k)` of the validation points with these numbers, which only a precomputed
        graph looks at.
        """
        return self.search(Q, k)


class _Adapter(Searcher):
    """A searcher of another class: its own members, and the defaults for those that it lacks."""

    def __init__(self, searcher: Any) -> None:
        self._searcher, self.name = searcher, type(searcher).__name__
        for member in (
            "fit",
            "search",
            "prepare",
            "fingerprint",
            "predict",
            "on_fail",
            "random_state",
        ):
            if hasattr(searcher, member):
                setattr(self, member, getattr(searcher, member))

    @property
    def tuning(self) -> Any:  # type: ignore[override]
        return getattr(self._searcher, "tuning", None)  # read late, because `prepare` sets it


def as_searcher(searcher: Any) -> Searcher:
    """A searcher with every member of the contract, made from any object with `fit` and
    `search`.
    """
    return searcher if isinstance(searcher, Searcher) else _Adapter(searcher)


def check_answer(
    indices: Any, distances: Any, n_train: int, k: int, *, n_queries: int, searcher: Any
) -> Neighbours:
    """The answer of a searcher in our types, or a ValueError that says what is wrong with it."""
    found, far = np.asarray(indices), np.asarray(distances)
    wrong = _wrong(found, far, n_train, (n_queries, k))
    if wrong is not None:
        name = as_searcher(searcher).name
        raise ValueError(
            f"{name}.search returned {wrong}. See nearworth.testing.check_searcher to find out why."
        )
    return Neighbours(
        found.astype(np.intp), np.where(found == MISSING, np.inf, far.astype(np.float64))
    )


def _wrong(
    found: npt.NDArray[Any], far: npt.NDArray[Any], n_train: int, shape: tuple[int, int]
) -> str | None:
    for name, given, kinds, numbers in (
        ("indices", found, "iu", "whole"),
        ("distances", far, "iuf", "real"),
    ):
        if given.shape != shape:
            return f"{name} of shape {given.shape} instead of {shape}"
        if given.dtype.kind not in kinds:
            return f"{name} of type {given.dtype} instead of {numbers} numbers"
    missing, ordered = found == MISSING, np.sort(found, axis=1)
    wrong = {
        f"an index outside 0..{n_train - 1}": (found < MISSING) | (found >= n_train),
        "a neighbour after -1": missing[:, :-1] & ~missing[:, 1:],
        "a distance that is not finite": ~missing & ~np.isfinite(far),
        "a farther point before a nearer one": ~missing[:, 1:] & (far[:, 1:] < far[:, :-1]),
        "a neighbour twice": (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != MISSING),
    }
    for what, where in wrong.items():
        if where.any():
            return f"{what}, for query {np.argwhere(where)[0, 0]} of its batch"
    return None


class GraphSearch(Searcher):
    """A k-nearest-neighbour graph: row q holds the neighbours of validation point q, or of training
    point q.

    Parameters
    ----------
    indices, distances
        Arrays (points, neighbours) in any order, -1 where there are fewer neighbours.

    Examples
    --------
    >>> graph = GraphSearch([[2, 0], [1, -1]], [[0.5, 0.1], [0.2, np.inf]])
    >>> graph.search([[0.0], [1.0]], 1)[0].tolist()
    [[0], [1]]
    """

    def __init__(self, indices: Any, distances: Any) -> None:
        found, far = np.asarray(indices), np.asarray(distances)
        if found.ndim != 2 or found.shape != far.shape:
            raise ValueError(
                f"indices and distances must be matrices of one shape; got {found.shape} and"
                f" {far.shape}."
            )
        order = np.lexsort((found, np.where(found == MISSING, np.inf, far)), axis=1)
        found, far = (
            np.take_along_axis(found, order, axis=1),
            np.take_along_axis(far, order, axis=1),
        )
        limit, (n_queries, k) = int(found.max(initial=MISSING)) + 1, found.shape
        self._found = check_answer(found, far, limit, k, n_queries=n_queries, searcher=self)
        self._columns: int | None = None  # training points, if a matrix says how many

    @classmethod
    def from_csr(cls, graph: Any) -> Self:
        """From a sparse matrix of distances, (points, training points), as scikit-learn and
        cleanlab make them.

        What is stored counts, zeros included: a stored zero is a duplicate, an absent entry no
        neighbour.
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
        there = np.arange(counts.max(initial=0)) < counts[:, None]
        indices, distances = Neighbours.empty(*there.shape)
        indices[there], distances[there] = csr.indices, csr.data
        found = cls(indices, distances)
        found._columns = csr.shape[1]
        return found

    def fit(self, X: Any) -> Self:
        """Check that the graph speaks of these training points."""
        known = (
            int(self._found.rows.max(initial=MISSING)) + 1
            if self._columns is None
            else self._columns
        )
        if len(X) < known or self._columns not in (None, len(X)):
            raise ValueError(
                f"the graph speaks of {known} training points, but X has {len(X)} rows."
            )
        return self

    def fingerprint(self) -> str:
        """A hash of the graph."""
        return fingerprint(*self._found)

    def search(self, Q: Any, k: int) -> Neighbours:
        """The answers to all points of the graph, which Q must be, in its order: the graph knows no
        others.
        """
        if len(Q) != len(self._found.rows):
            raise ValueError(
                f"the graph has {len(self._found.rows)} rows and Q has {len(Q)}. Give all its"
                " points."
            )
        return self._found.resized(k)

    def search_numbered(self, numbers: IntVector, Q: Any, k: int) -> Neighbours:  # noqa: ARG002 - it knows no points
        if len(numbers) and numbers.max() >= len(self._found.rows):
            raise ValueError(
                f"point {numbers.max()} is not in a graph of {len(self._found.rows)} rows."
            )
        return self._found.part(numbers).resized(k)


def as_points(data: Any) -> npt.NDArray[Any]:
    """Checked training points, all in memory, in a type that kernels read: no 16-bit floats, no
    foreign byte order.
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
