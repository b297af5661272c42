"""Nearest neighbours through faiss: which index, its search effort, and true distances in the end.

An index is asked for more points than wanted (`overfetch`), and these are ranked by true distances. So codes of a few
bits per number, which faiss scans many times faster than the numbers, are as good as needed. faiss works in 32 bits:
points are centred and brought to a scale where squares fit, and its own distances only choose what is ranked.
This is the only module that imports faiss.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nearworth._common.archive import Arrays, read_archive, write_archive
from nearworth._common.memory import usable_threads
from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix
from nearworth.inputs.fingerprint import fingerprint
from nearworth.inputs.parameters import whole_number
from nearworth.neighbors.exact import Sample, TrueDistances, recall_by_distance
from nearworth.neighbors.searchers import (
    MISSING,
    Neighbours,
    Searcher,
    check_points,
    check_queries,
    check_share,
)

FLAT_POINTS, LISTS_POINTS, CODED_COLUMNS, MOST_CODES = 20_000, 500_000, 8, 64
CODES = re.compile(r"PQ|SQ|RQ|LSH|PCA|ITQ|AQ|RaBitQ|ZnLattice|PRQ|LSQ")  # indexes that hold rounded points only
TRAINING_ROWS, TRAINING_PER_LIST, TRAINING_ROUNDS, THREADED_LISTS = 16_384, 64, 10, 2048
SAMPLED_QUERIES, FINGERPRINT_ROWS = 128, 1000
MOST_OVERFETCH, MOST_EF = 64, 8192
SCAN, RANK = 1.0, 200.0  # nanoseconds to scan a code, and to rank a point fetched
SPARE = 8  # points fetched on top, because 32 bits confuse a few at the border
ROWS_AT_ONCE, BLOCK, PART = 2**16, 2048, 64  # rows added, queries per fetch, and per thread that ranks what was fetched
INTEGERS = ("nprobe", "ef_search", "overfetch", "ef_construction", "n_candidates", "n_threads")


@dataclass(frozen=True)
class Effort:
    """Lists visited (IVF), candidates of a walk through a graph (HNSW), points fetched per point asked for."""

    nprobe: int | None = None
    ef_search: int | None = None
    overfetch: int = 1


@dataclass(frozen=True)
class FaissTuning:
    """The effort chosen, and the recall that a sample of queries had with it; prints itself."""

    factory: str
    k: int
    effort: Effort
    recall: float
    n_sampled: int
    wanted: float

    @property
    def warning(self) -> str | None:
        """What the user should know; None if all is well."""
        if self.recall >= self.wanted:
            return None
        return f"the index finds {self.recall:.1%} of the neighbours at its best, {self.wanted:.1%} were asked for"

    def __str__(self) -> str:
        effort = ", ".join(f"{name} {value}" for name, value in asdict(self.effort).items() if value is not None)
        line = f"faiss {self.factory}, {effort}: recall {self.recall:.3f} on {self.n_sampled} queries for K* = {self.k}"
        return f"{line}\n  warning: {self.warning}" if self.warning else line


class FaissSearch(Searcher):
    """Neighbours from a faiss index, ranked by true distances.

    Parameters
    ----------
    factory
        "auto", or what faiss.index_factory understands: "Flat", "HNSW32", "IVF1024,Flat", "IVF256,PQ32x4fs", ...
    recall
        Share of the neighbours that should be found: the efforts are raised until a sample of queries has it.
    nprobe, ef_search, overfetch
        Efforts: lists visited (IVF), candidates of the walk (HNSW), points fetched per point asked for (codes). Each
        is chosen unless given.
    ef_construction
        Candidates per point while an HNSW graph is built; None leaves it to faiss.
    n_candidates
        K*, if `fit` is to choose the efforts. Otherwise `prepare(k)` does, or the first `search`.
    n_threads
        Threads of building and searching; None for all usable cores.
    """

    def __init__(
        self,
        factory: str = "auto",
        *,
        recall: float = 0.95,
        nprobe: int | None = None,
        ef_search: int | None = None,
        overfetch: int | None = None,
        ef_construction: int | None = None,
        n_candidates: int | None = None,
        n_threads: int | None = None,
    ) -> None:
        if not isinstance(factory, str):
            raise TypeError(f'factory must be text such as "auto", "Flat" or "HNSW32"; got {factory!r}.')
        check_share("recall", recall)
        self.factory, self.recall = factory, recall
        self.nprobe, self.ef_search, self.overfetch = nprobe, ef_search, overfetch
        self.ef_construction, self.n_candidates, self.n_threads = ef_construction, n_candidates, n_threads
        for name in INTEGERS:
            whole_number(1, or_none=True)(name, getattr(self, name))
        self.tuning: FaissTuning | None = None
        self._index: FaissIndex | None = None
        self._built_for: str | None = None  # fingerprint of the training points of a loaded index

    def __repr__(self) -> str:
        return f"FaissSearch({self.factory!r}, recall={self.recall})"

    def fit(self, X: Any) -> Self:
        """Build the index; or, if it was loaded, check that it belongs to these points."""
        points = check_points(X)
        self._truth = TrueDistances(points)
        if self._built_for is not None:
            if _fingerprint_of_some(points) != self._built_for:
                raise ValueError(
                    f"this index was saved for other training points than these of shape {points.shape}. "
                    "Fit a new FaissSearch on them."
                )
            return self
        self.tuning = None
        self._build(next(self._factories()))
        return self if self.n_candidates is None else self.prepare(self.n_candidates)

    def prepare(self, k: int, queries: Any = None) -> Self:
        """Choose the efforts for k neighbours, from a sample of the queries or of training points among themselves.

        Under "auto", an index that cannot reach the recall gives way to a more faithful one.
        """
        whole_number(1)("k", k)
        points, rng = self._truth.points, np.random.default_rng(0)
        if queries is None:
            sample = Sample.of_training(points, k, SAMPLED_QUERIES, rng)
        else:
            rows = check_queries(queries, points.shape[1], k)
            some = np.sort(rng.choice(len(rows), min(SAMPLED_QUERIES, len(rows)), replace=False))
            sample = Sample.of_queries(points, rows[some], k)
        for factory in self._factories():
            if self._built.factory != factory:
                self._build(factory)
            self.tuning = self._tune(sample)
            if self.tuning.warning is None:
                break
        return self

    def search(self, Q: Any, k: int) -> Neighbours:
        """About the k nearest by true distance; -1 where the index finds fewer."""
        points, threads = self._truth.points, usable_threads(self.n_threads)
        queries = check_queries(Q, points.shape[1], k)
        if self.tuning is None:
            self.prepare(k)
        assert self.tuning is not None
        effort = self.tuning.effort
        count = min(len(points), effort.overfetch * k + SPARE)
        indices, keys = np.full((len(queries), k), MISSING, dtype=np.intp), np.full((len(queries), k), np.inf)

        def rank(rows: slice) -> None:
            nearest, squares = self._truth.order(queries[rows], found[rows.start - start : rows.stop - start])
            indices[rows, :count], keys[rows, :count] = nearest[:, :k], squares[:, :k]

        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(queries), BLOCK):
                stop = min(start + BLOCK, len(queries))
                found = self._built.fetch(queries[start:stop], count, effort, threads)
                list(pool.map(rank, [slice(a, min(a + PART, stop)) for a in range(start, stop, PART)]))
        return Neighbours(indices, self._truth.unsquared(queries, keys))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index, its efforts and a fingerprint of its data to a file, whole or not at all."""
        state = self._built.__getstate__()
        arrays = {name: state.pop(name) for name in ("index", "centre")}
        about = {
            "parameters": {name: getattr(self, name) for name in ("factory", "recall", *INTEGERS)},
            "index": state,
            "tuning": None if self.tuning is None else asdict(self.tuning),
            "built_for": _fingerprint_of_some(self._truth.points),
        }
        write_archive(path, "faiss index", about, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """What `save` wrote. `fit` it to the same training points, which are not in the file."""
        import_faiss()  # else its absence would be taken for a damaged file
        return read_archive(path, "faiss index", cls._from_archive)

    @classmethod
    def _from_archive(cls, about: dict[str, Any], arrays: Arrays) -> Self:
        loaded = cls(**about["parameters"])
        loaded._index, loaded._built_for = FaissIndex.__new__(FaissIndex), about["built_for"]
        loaded._index.__setstate__(about["index"] | arrays)
        if about["tuning"] is not None:
            loaded.tuning = FaissTuning(**about["tuning"] | {"effort": Effort(**about["tuning"]["effort"])})
        return loaded

    def fingerprint(self) -> str:
        """A hash of the index and the efforts: equal ones give equal answers."""
        digest = hashlib.blake2b(self._built.__getstate__()["index"].data, digest_size=16)
        digest.update(repr(None if self.tuning is None else self.tuning.effort).encode())
        return digest.hexdigest()

    @property
    def _built(self) -> FaissIndex:
        if self._index is None:
            raise ValueError("FaissSearch has no index yet. Call fit(X) first.")
        return self._index

    def _build(self, factory: str) -> None:
        points, threads = self._truth.points, usable_threads(self.n_threads)
        padded = _codes(points.shape[1])[1] if self.factory == "auto" else points.shape[1]
        self._index = FaissIndex(points, factory, padded, threads, self.ef_construction)

    def _factories(self) -> Iterator[str]:
        """The index asked for; or by size, the fastest first."""
        n_train, n_columns = self._truth.points.shape
        lists, (codes, _) = 2 ** round(np.log2(np.sqrt(n_train) / 4)), _codes(n_columns)
        if self.factory != "auto":
            yield self.factory
        elif n_train < FLAT_POINTS:
            yield "Flat"
        else:
            if n_columns >= CODED_COLUMNS:
                yield f"IVF{lists},PQ{codes}x4fs" if n_train >= LISTS_POINTS else f"PQ{codes}x4fs"
            yield f"IVF{4 * lists},Flat"

    def _tune(self, sample: Sample) -> FaissTuning:
        """The cheapest effort whose recall on the sample is clearly enough, else the one that finds most."""
        tried: list[FaissTuning] = []
        best, least = None, np.inf
        for scan, cost in self._efforts(sample.k):
            if cost >= least:
                break
            for effort, found in self._try(sample, scan):
                mean, error = float(found.mean()), float(found.std()) / np.sqrt(len(found))
                tried.append(FaissTuning(self._built.factory, sample.k, effort, mean, len(found), self.recall))
                total = cost + RANK * sample.k * effort.overfetch
                if mean - 2.0 * error >= self.recall and total < least:
                    best, least = tried[-1], total
        return best or max(tried, key=lambda tuning: tuning.recall)

    def _efforts(self, k: int) -> Iterator[tuple[Effort, float]]:
        """From least to most, with the cost of the scan."""
        n_train, n_lists = len(self._truth.points), self._built.n_lists
        if n_lists is not None:
            for nprobe in _doubling(max(1, n_lists // 64), n_lists) if self.nprobe is None else [self.nprobe]:
                yield Effort(nprobe=nprobe), SCAN * n_train * nprobe / n_lists
        elif "HNSW" in self._built.factory:
            for ef in _doubling(max(16, k), max(MOST_EF, k)) if self.ef_search is None else [self.ef_search]:
                yield Effort(ef_search=ef), float(ef)
        else:
            yield Effort(), SCAN * n_train

    def _try(self, sample: Sample, effort: Effort) -> Iterator[tuple[Effort, FloatVector]]:
        """Recall of every overfetch, which one search with the largest tells."""
        coded = CODES.search(self._built.factory) is not None
        factors = [self.overfetch or 1] if self.overfetch or not coded else list(_doubling(1, MOST_OVERFETCH))
        wanted = sample.k + (sample.rows is not None)
        count = min(len(self._truth.points), factors[-1] * wanted + SPARE)
        found = self._built.fetch(sample.queries, count, effort, usable_threads(self.n_threads))
        keys = sample.truth.keys(sample.queries, found)
        if sample.rows is not None:
            keys[found == sample.rows[:, None]] = np.inf
        for factor in factors:
            yield (
                replace(effort, overfetch=factor),
                recall_by_distance(keys[:, : factor * wanted + SPARE], sample.keys),
            )


class FaissIndex:
    """An index over centred and scaled points, with zero columns added where codes need a round number of them."""

    def __init__(
        self, points: npt.NDArray[Any], factory: str, padded: int, threads: int, ef_construction: int | None
    ) -> None:
        faiss = import_faiss()
        self.factory, self.padded, self.centre = factory, padded, points.mean(axis=0, dtype=np.float64)
        spread = float(np.abs(np.stack([points.min(axis=0), points.max(axis=0)]) - self.centre).max())
        self.scale = -int(np.frexp(spread)[1])
        try:
            self.index = faiss.index_factory(padded, factory)
            few_lists = (self.n_lists or 0) < THREADED_LISTS
            with _threads(faiss, 1 if few_lists else threads):  # small k-means lose time with threads
                self._train(faiss, points, ef_construction)
            with _threads(faiss, threads):
                for start in range(0, len(points), ROWS_AT_ONCE):
                    self.index.add(self._narrow(points[start : start + ROWS_AT_ONCE]))
        except RuntimeError as error:
            reason = str(error).splitlines()[0].split("Error: ")[-1][:200]
            raise ValueError(
                f"factory={factory!r} does not work for {len(points):,} points of {padded} columns: {reason}"
            ) from error

    @property
    def n_lists(self) -> int | None:
        """Number of lists of an IVF index."""
        ivf = import_faiss().try_extract_index_ivf(self.index)
        return None if ivf is None else int(ivf.nlist)

    def fetch(self, queries: FloatMatrix, count: int, effort: Effort, threads: int) -> IntMatrix:
        """About the nearest points of each query, -1 where there are fewer; by faiss' distances."""
        faiss = import_faiss()
        space = faiss.ParameterSpace()
        if effort.nprobe is not None:
            space.set_index_parameter(self.index, "nprobe", effort.nprobe)
        if effort.ef_search is not None:
            space.set_index_parameter(self.index, "efSearch", max(effort.ef_search, count))
        with _threads(faiss, threads):
            return np.asarray(self.index.search(self._narrow(queries), count)[1], dtype=np.intp)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "index": np.asarray(import_faiss().serialize_index(self.index))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        index = import_faiss().deserialize_index(np.ascontiguousarray(state["index"]))
        self.__dict__.update({**state, "index": index})

    def _train(self, faiss: Any, points: npt.NDArray[Any], ef_construction: int | None) -> None:
        wanted, ivf = TRAINING_ROWS, faiss.try_extract_index_ivf(self.index)
        if ivf is not None:
            wanted = max(wanted, TRAINING_PER_LIST * ivf.nlist)
            ivf.cp.niter, ivf.cp.min_points_per_centroid = TRAINING_ROUNDS, 1
            ivf.cp.max_points_per_centroid = TRAINING_PER_LIST
        if ef_construction is not None:
            faiss.ParameterSpace().set_index_parameter(self.index, "efConstruction", ef_construction)
        if not self.index.is_trained:
            some = np.random.default_rng(0).choice(len(points), min(wanted, len(points)), replace=False)
            self.index.train(self._narrow(points[np.sort(some)]))

    def _narrow(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        out = np.zeros((len(rows), self.padded), dtype=np.float32)
        with np.errstate(over="ignore"):  # a query too far out finds nothing in particular
            out[:, : rows.shape[1]] = np.clip(np.ldexp(rows - self.centre, self.scale), -1e15, 1e15)
        return out


def import_faiss() -> Any:
    """The library, or an error that says how to install it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its wrappers use what Python is about to drop
            import faiss
    except ImportError as error:
        raise ImportError("FaissSearch needs faiss, which is not installed: pip install 'nearworth[faiss]'") from error
    return faiss


@contextmanager
def _threads(faiss: Any, count: int) -> Iterator[None]:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _codes(n_columns: int) -> tuple[int, int]:
    """How many codes for so many columns, and to how many columns these are padded."""
    each = max(2, -(-n_columns // MOST_CODES))
    codes = -(-n_columns // each)
    return codes, codes * each


def _doubling(first: int, last: int) -> Iterator[int]:
    while first < last:
        yield first
        first *= 2
    yield last


def _fingerprint_of_some(points: npt.NDArray[Any]) -> str:
    """A hash of the shape and of some rows: enough to notice other data, cheap enough for any."""
    rows = np.linspace(0, len(points) - 1, min(FINGERPRINT_ROWS, len(points))).astype(np.intp)
    return fingerprint(points[rows], points.shape)
