"""A faiss index over training points: building, asking, and turning it into bytes. The one place that imports faiss.

faiss works in 32 bits, so points are centred and brought to a scale where squares fit before it sees them. What it
calls distances are not used beyond choosing whom to look at.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import FloatMatrix, FloatVector, IntMatrix

ROWS_AT_ONCE = 2**16
TRAINING_ROWS, TRAINING_PER_LIST, TRAINING_ROUNDS, THREADED_LISTS = 16_384, 64, 10, 2048
CODES = re.compile(r"PQ|SQ|RQ|LSH|PCA|ITQ|AQ|RaBitQ|ZnLattice|PRQ|LSQ")  # indexes that do not keep the numbers


@dataclass(frozen=True)
class Effort:
    """How hard to try: lists visited, candidates of a walk through a graph, points fetched per point asked for."""

    nprobe: int | None = None
    ef_search: int | None = None
    overfetch: int = 1


@dataclass(frozen=True)
class FaissIndex:
    """A built index, and how points were changed for it."""

    index: Any
    factory: str
    centre: FloatVector
    scale: int  # binary exponent
    padded: int  # columns, with zeros added where codes need a round number

    @classmethod
    def build(
        cls, points: npt.NDArray[Any], factory: str, *, padded: int, threads: int, ef_construction: int | None = None
    ) -> FaissIndex:
        """Train an index on some of the points and add all of them."""
        faiss = import_faiss()
        centre = points.mean(axis=0, dtype=np.float64)
        spread = float(np.abs(np.stack([points.min(axis=0), points.max(axis=0)]) - centre).max())
        try:
            built = cls(faiss.index_factory(padded, factory), factory, centre, -int(np.frexp(spread)[1]), padded)
            few_lists = (built.n_lists or 0) < THREADED_LISTS
            with _threads(faiss, 1 if few_lists else threads):  # small k-means lose time with threads
                built._train(faiss, points, ef_construction)
            with _threads(faiss, threads):
                for start in range(0, len(points), ROWS_AT_ONCE):
                    built.index.add(built._narrow(points[start : start + ROWS_AT_ONCE]))
        except RuntimeError as error:
            reason = str(error).splitlines()[0].split("Error: ")[-1][:200]
            raise ValueError(
                f"factory={factory!r} does not work for {len(points):,} points of {padded} columns: {reason}"
            ) from error
        return built

    @property
    def n_lists(self) -> int | None:
        """Number of lists of an IVF index."""
        ivf = import_faiss().try_extract_index_ivf(self.index)
        return None if ivf is None else int(ivf.nlist)

    @property
    def is_graph(self) -> bool:
        """Whether the points themselves, not the centres of lists, form an HNSW graph."""
        return "HNSW" in self.factory and "IVF" not in self.factory

    @property
    def is_coded(self) -> bool:
        """Whether the index keeps rounded points only."""
        return CODES.search(self.factory) is not None

    def fetch(self, queries: FloatMatrix, count: int, effort: Effort, threads: int) -> IntMatrix:
        """About the nearest points of each query, -1 where there are fewer; by faiss' distances."""
        faiss = import_faiss()
        space = faiss.ParameterSpace()
        if effort.nprobe is not None:
            space.set_index_parameter(self.index, "nprobe", effort.nprobe)
        if effort.ef_search is not None:
            space.set_index_parameter(self.index, "efSearch", max(effort.ef_search, count))
        found = np.empty((len(queries), count), dtype=np.intp)
        with _threads(faiss, threads):
            for start in range(0, len(queries), ROWS_AT_ONCE):
                rows = slice(start, start + ROWS_AT_ONCE)
                found[rows] = self.index.search(self._narrow(queries[rows]), count)[1]
        return found

    def to_bytes(self) -> npt.NDArray[np.uint8]:
        """The index alone."""
        return np.asarray(import_faiss().serialize_index(self.index))

    @staticmethod
    def index_from_bytes(data: npt.NDArray[np.uint8]) -> Any:
        """What `to_bytes` gave."""
        return import_faiss().deserialize_index(np.ascontiguousarray(data))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "index": self.to_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "index": self.index_from_bytes(state["index"])})

    def _train(self, faiss: ModuleType, points: npt.NDArray[Any], ef_construction: int | None) -> None:
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


def import_faiss() -> ModuleType:
    """The library, or how to get it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its wrappers use what Python is about to drop
            import faiss
    except ImportError as error:
        raise ImportError("FaissSearch needs faiss, which is not installed: pip install 'nearworth[faiss]'") from error
    return faiss  # type: ignore[no-any-return]


@contextmanager
def _threads(faiss: ModuleType, count: int) -> Iterator[None]:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
