"""Nearest neighbours through faiss: which index, how hard it tries, and true distances in the end.

An index is asked for more points than wanted (`overfetch`), and these are ranked by true distances. So codes of a few
bits per number, which faiss scans many times faster than the numbers, are as good as needed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from nearworth._common.files import atomic_write
from nearworth._common.types import FloatVector
from nearworth.inputs.fingerprint import fingerprint
from nearworth.inputs.parameters import whole_number
from nearworth.neighbors.certify import Sample, recall_by_distance
from nearworth.neighbors.faiss_index import Effort, FaissIndex, import_faiss
from nearworth.neighbors.search import (
    MISSING,
    Answer,
    Searcher,
    TrueDistances,
    check_points,
    check_queries,
    check_share,
    usable_threads,
)

FLAT_POINTS, LISTS_POINTS, CODED_COLUMNS, MOST_CODES = 20_000, 500_000, 8, 64
SAMPLED_QUERIES, PRINTED_ROWS = 128, 1000
MOST_OVERFETCH, MOST_EF = 64, 8192
SCAN, RANK = 1.0, 200.0  # nanoseconds to scan a code, and to rank a point fetched
SPARE = 8  # points fetched on top, because 32 bits confuse a few at the border
BLOCK, PART = 2048, 64  # queries per fetch, and per thread that ranks what was fetched
FORMAT = 1
PARAMETERS = (
    "factory", "recall", "nprobe", "ef_search", "overfetch", "ef_construction", "n_candidates", "n_threads",
)  # fmt: skip


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
        self.nprobe, self.ef_search, self.overfetch = nprobe, ef_search, overfetch
        self.ef_construction, self.n_candidates, self.n_threads = ef_construction, n_candidates, n_threads
        for name in ("nprobe", "ef_search", "overfetch", "ef_construction", "n_candidates", "n_threads"):
            whole_number(1, or_none=True)(name, getattr(self, name))
        self.factory, self.recall = factory, recall
        self.tuning: FaissTuning | None = None
        self._index: FaissIndex | None = None
        self._effort: Effort | None = None
        self._built_for: str | None = None  # what the data of a loaded index looked like

    def __repr__(self) -> str:
        return f"FaissSearch({self.factory!r}, recall={self.recall})"

    def fit(self, X: Any) -> Self:
        """Build the index; or, if it was loaded, check that it belongs to these points."""
        points = check_points(X)
        self._truth = TrueDistances(points)
        if self._built_for is not None:
            if _print_of(points) != self._built_for:
                raise ValueError(
                    f"this index was saved for other training points than these of shape {points.shape}. "
                    "Fit a new FaissSearch on them."
                )
            return self
        self.tuning = self._effort = None
        self._build(next(self._factories()))
        return self if self.n_candidates is None else self.prepare(self.n_candidates)

    def prepare(self, k: int, queries: Any = None) -> Self:
        """Choose the efforts for k neighbours, from a sample of the queries or of training points among themselves.

        Under "auto", an index that cannot reach the recall gives way to a more faithful one.
        """
        whole_number(1)("k", k)
        sample = self._sample(k, queries)
        for factory in self._factories():
            if self._built.factory != factory:
                self._build(factory)
            self.tuning = self._tune(sample)
            if self.tuning.warning is None:
                break
        assert self.tuning is not None
        self._effort = self.tuning.effort
        return self

    def search(self, Q: Any, k: int) -> Answer:
        """About the k nearest by true distance; -1 where the index finds fewer."""
        points = self._truth.points
        queries = check_queries(Q, points.shape[1], k)
        if self._effort is None:
            self.prepare(k)
        assert self._effort is not None
        count = min(len(points), self._effort.overfetch * k + SPARE)
        indices, keys = np.full((len(queries), k), MISSING, dtype=np.intp), np.full((len(queries), k), np.inf)
        threads = usable_threads(self.n_threads)
        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(queries), BLOCK):
                block = queries[start : start + BLOCK]
                found = self._built.fetch(block, count, self._effort, threads)
                parts = range(0, len(block), PART)
                ranked = pool.map(
                    lambda a, b=block, f=found: self._truth.order(b[a : a + PART], f[a : a + PART]), parts
                )
                for a, (nearest, squares) in zip(parts, ranked, strict=True):
                    rows = slice(start + a, start + a + len(nearest))
                    indices[rows, :count], keys[rows, :count] = nearest[:, :k], squares[:, :k]
        return indices, self._truth.unsquared(queries, keys)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index, its efforts and what its data look like to a file, whole or not at all."""
        built = self._built
        about = {
            "format": FORMAT,
            "parameters": {name: getattr(self, name) for name in PARAMETERS},
            "factory": built.factory,
            "scale": built.scale,
            "padded": built.padded,
            "tuning": None if self.tuning is None else asdict(self.tuning),
            "built_for": _print_of(self._truth.points),
        }
        with atomic_write(path) as file:
            np.savez(file, index=built.to_bytes(), centre=built.centre, about=np.array(json.dumps(about)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """What `save` wrote. `fit` it to the same training points, which are not in the file."""
        import_faiss()
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                about = json.loads(str(archive["about"]))
                index, centre = FaissIndex.index_from_bytes(archive["index"]), archive["centre"]
        except (KeyError, ValueError, RuntimeError, BadZipFile, EOFError) as error:
            raise ValueError(f"{os.fspath(path)!r} is not an index that FaissSearch.save wrote ({error}).") from error
        if about["format"] != FORMAT:
            raise ValueError(f"{os.fspath(path)!r} has format {about['format']}; this version reads {FORMAT}.")
        loaded = cls(**about["parameters"])
        loaded._index = FaissIndex(index, about["factory"], centre, about["scale"], about["padded"])
        loaded._built_for = about["built_for"]
        if about["tuning"] is not None:
            loaded._effort = Effort(**about["tuning"].pop("effort"))
            loaded.tuning = FaissTuning(**about["tuning"], effort=loaded._effort)
        return loaded

    def fingerprint(self) -> str:
        """A hash of the index and the efforts: equal ones give equal answers."""
        digest = hashlib.blake2b(self._built.to_bytes().data, digest_size=16)
        digest.update(repr(self._effort).encode())
        return digest.hexdigest()

    @property
    def _built(self) -> FaissIndex:
        if self._index is None:
            raise ValueError("FaissSearch has no index yet. Call fit(X) first.")
        return self._index

    def _build(self, factory: str) -> None:
        points, threads = self._truth.points, usable_threads(self.n_threads)
        padded = _codes(points.shape[1])[1] if self.factory == "auto" else points.shape[1]
        self._index = FaissIndex.build(
            points, factory, padded=padded, threads=threads, ef_construction=self.ef_construction
        )

    def _factories(self) -> Iterator[str]:
        """The index asked for; or by size, the fastest first."""
        n_train, n_columns = self._truth.points.shape
        lists = 2 ** round(np.log2(np.sqrt(n_train) / 4))
        codes, _ = _codes(n_columns)
        if self.factory != "auto":
            yield self.factory
        elif n_train < FLAT_POINTS:
            yield "Flat"
        else:
            if n_columns >= CODED_COLUMNS:
                yield f"IVF{lists},PQ{codes}x4fs" if n_train >= LISTS_POINTS else f"PQ{codes}x4fs"
            yield f"IVF{4 * lists},Flat"

    def _sample(self, k: int, queries: Any) -> Sample:
        points, rng = self._truth.points, np.random.default_rng(0)
        if queries is None:
            return Sample.of_training(points, k, SAMPLED_QUERIES, rng)
        rows = check_queries(queries, points.shape[1], k)
        some = np.sort(rng.choice(len(rows), min(SAMPLED_QUERIES, len(rows)), replace=False))
        return Sample.of_queries(points, rows[some], k)

    def _tune(self, sample: Sample) -> FaissTuning:
        """The cheapest effort whose recall on the sample is clearly enough, else the one that finds most."""
        best: tuple[float, FaissTuning] | None = None
        most: FaissTuning | None = None
        for effort, cost in self._efforts(sample.k):
            if best is not None and cost >= best[0]:
                break
            for tried, found in self._try(sample, effort):
                spread = 2.0 * float(found.std()) / np.sqrt(len(found))
                mean = float(found.mean())
                tuning = FaissTuning(self._built.factory, sample.k, tried, mean, len(found), self.recall)
                total = cost + RANK * sample.k * tried.overfetch
                if mean - spread >= self.recall and (best is None or total < best[0]):
                    best = total, tuning
                if most is None or mean > most.recall:
                    most = tuning
        assert most is not None
        return most if best is None else best[1]

    def _efforts(self, k: int) -> Iterator[tuple[Effort, float]]:
        """From least to most, and what scanning costs each time."""
        built, n_train = self._built, len(self._truth.points)
        if built.n_lists is not None:
            probes = (
                (self.nprobe,) if self.nprobe is not None else _doubling(max(1, built.n_lists // 64), built.n_lists)
            )
            for nprobe in probes:
                yield Effort(nprobe=nprobe), SCAN * n_train * nprobe / built.n_lists
        elif built.is_graph:
            for ef in (self.ef_search,) if self.ef_search is not None else _doubling(max(16, k), max(MOST_EF, k)):
                yield Effort(ef_search=ef), float(ef)
        else:
            yield Effort(), SCAN * n_train

    def _try(self, sample: Sample, effort: Effort) -> Iterator[tuple[Effort, FloatVector]]:
        """Recall of every overfetch, which one search with the largest tells."""
        given = self.overfetch if self.overfetch is not None else None if self._built.is_coded else 1
        factors = list(_doubling(1, MOST_OVERFETCH)) if given is None else [given]
        n_train, threads = len(self._truth.points), usable_threads(self.n_threads)
        itself = int(sample.rows is not None)
        count = min(n_train, factors[-1] * (sample.k + itself) + SPARE)
        found = self._built.fetch(sample.queries, count, effort, threads)
        keys = sample.truth.keys(sample.queries, found)
        if sample.rows is not None:
            keys[found == sample.rows[:, None]] = np.inf
        for factor in factors:
            fetched = keys[:, : factor * (sample.k + itself) + SPARE]
            yield replace(effort, overfetch=factor), recall_by_distance(fetched, sample.keys)


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


def _print_of(points: npt.NDArray[Any]) -> str:
    """A hash of the shape and of some rows: enough to notice other data, cheap enough for any."""
    rows = np.linspace(0, len(points) - 1, min(PRINTED_ROWS, len(points))).astype(np.intp)
    return fingerprint(points[rows], points.shape)
