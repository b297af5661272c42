"""Nearest neighbours through faiss: which index, its search effort, and true distances in the end.

An index is asked for more points than wanted (`overfetch`), and these are ranked by true distances.
So codes of a few bits per number, which faiss scans many times faster than the numbers, are as good
as needed. faiss works in 32 bits: points are centred and brought to a scale where squares fit, and
its own distances only choose what is ranked.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.memory import usable_threads
from nearworth._common.types import FloatMatrix
from nearworth.inputs.features import fingerprint
from nearworth.inputs.parameters import condition
from nearworth.neighbors.exact import IndexSearch, Sample, Tuning
from nearworth.neighbors.searchers import Neighbours

FLAT_POINTS, LISTS_POINTS, CODED_COLUMNS, MOST_CODES = 20_000, 500_000, 8, 64
TRAINING_ROWS, TRAINING_PER_LIST, TRAINING_ROUNDS = 16_384, 64, 10
LEAST_EF, MOST_FETCHED = 16, 16_384  # candidates of a walk (HNSW), points fetched for a query
SPARE = 8  # points fetched on top, because 32 bits confuse a few at the border
ROWS_AT_ONCE = 2**16  # that are added


@dataclass(eq=False)
class FaissSearch(IndexSearch):
    """Neighbours from a faiss index, ranked by true distances.

    Parameters
    ----------
    factory
        Text for `faiss.index_factory`, such as "Flat", "HNSW32", "IVF256,Flat" or "PQ32x4fs".
        "auto" takes an index by the number of training points.
    recall
        Share of the neighbours that should be found. The efforts are raised until a sample of
        queries has it: lists visited (IVF), and points fetched per point asked for.
    n_threads
        Threads of building and searching; None for all usable cores.
    """

    factory: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        condition(lambda v: isinstance(v, str), 'text such as "auto", "Flat" or "HNSW32"')(
            "factory", self.factory
        )

    def fingerprint(self) -> str:
        """A hash of the index and the efforts: equal ones give equal answers."""
        return fingerprint(self.tuning.parameters, import_faiss().serialize_index(self._index))

    def _build(self) -> None:
        faiss, points = import_faiss(), self._points
        self._centre = points.mean(axis=0, dtype=np.float64)
        spread = float(
            np.abs(np.stack([points.min(axis=0), points.max(axis=0)]) - self._centre).max()
        )
        self._scale = -int(np.frexp(spread)[1])
        self._kind = automatic_factory(*points.shape) if self.factory == "auto" else self.factory
        n_training, threads = TRAINING_ROWS, faiss.omp_get_max_threads()
        try:
            self._index = faiss.index_factory(points.shape[1], self._kind)
            lists = faiss.try_extract_index_ivf(self._index)
            if lists is not None:
                n_training = max(n_training, TRAINING_PER_LIST * lists.nlist)
                lists.cp.niter, lists.cp.min_points_per_centroid = TRAINING_ROUNDS, 1
            some = np.random.default_rng(0).choice(
                len(points), min(n_training, len(points)), replace=False
            )
            faiss.omp_set_num_threads(usable_threads(self.n_threads))
            self._index.train(self._narrow(points[np.sort(some)]))
            for start in range(0, len(points), ROWS_AT_ONCE):
                self._index.add(self._narrow(points[start : start + ROWS_AT_ONCE]))
        except RuntimeError as error:
            reason = str(error).splitlines()[0].split("Error: ")[-1][:200]
            size = f"{len(points):,} points of {points.shape[1]} columns"
            raise ValueError(
                f"factory={self._kind!r} does not work for {size}: {reason}"
            ) from error
        finally:
            faiss.omp_set_num_threads(threads)

    def _tune(self, k: int, queries: Any) -> Tuning:
        """The effort that helps most is doubled until the sample has the recall, surely."""
        sample, most = (
            self._sample(k, queries, np.random.default_rng(0)),
            {"overfetch": max(1, MOST_FETCHED // k)},
        )
        lists = import_faiss().try_extract_index_ivf(self._index)
        if lists is not None:
            most["nprobe"] = lists.nlist
        tried = [self._try(sample, dict.fromkeys(most, 1))]
        while tried[-1][0] < self.recall:
            effort = {name: tried[-1][1].parameters[name] for name in most}
            raised = [
                effort | {name: 2 * effort[name]} for name in most if effort[name] < most[name]
            ]
            if not raised:  # the best there is; more effort than it needs would not find more
                return max((tuning for _, tuning in tried), key=lambda tuning: tuning.recall)
            tried.append(
                max((self._try(sample, more) for more in raised), key=lambda each: each[1].recall)
            )
        return tried[-1][1]

    def _try(self, sample: Sample, effort: dict[str, int]) -> tuple[float, Tuning]:
        """The recall of an effort, less two standard errors, and the effort with its recall."""
        self.tuning = Tuning(
            parameters={"factory": self._kind} | effort, k=sample.k, wanted=self.recall
        )
        found = sample.recall_of(self)
        mean = float(found.mean())
        return mean - 2.0 * float(found.std()) / np.sqrt(len(found)), replace(
            self.tuning, recall=mean
        )

    def _nearest(self, queries: FloatMatrix, k: int) -> Neighbours:
        """By true distance, of the points that faiss takes for the nearest: more than k, -1 where
        there are fewer.
        """
        faiss, effort = import_faiss(), self.tuning.parameters
        count = min(len(self._points), effort["overfetch"] * k + SPARE)
        space = faiss.ParameterSpace()
        if "nprobe" in effort:
            space.set_index_parameter(self._index, "nprobe", effort["nprobe"])
        elif "HNSW" in self._kind:
            space.set_index_parameter(self._index, "efSearch", max(LEAST_EF, count))
        faiss.omp_set_num_threads(1)  # in this thread of our own, one of several that search
        fetched = np.asarray(self._index.search(self._narrow(queries), count)[1], dtype=np.intp)
        return self._truth.order(queries, fetched).resized(k)

    def _narrow(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        with np.errstate(over="ignore"):  # a query too far out finds nothing in particular
            scaled = np.clip(np.ldexp(rows - self._centre, self._scale), -1e15, 1e15)
        return np.ascontiguousarray(scaled, dtype=np.float32)


def automatic_factory(n_train: int, n_columns: int) -> str:
    """All points if they are few, lists of points if columns are few; else codes of 4 bits, in
    lists if many.
    """
    lists = 2 ** round(np.log2(np.sqrt(n_train) / 4))
    if n_train < FLAT_POINTS:
        return "Flat"
    if n_columns < CODED_COLUMNS:
        return f"IVF{4 * lists},Flat"
    columns = max(2, -(-n_columns // MOST_CODES))  # of one code
    codes = -(-n_columns // columns)
    padding = f"Pad{codes * columns}," if codes * columns > n_columns else ""
    return (
        f"{padding}IVF{lists},PQ{codes}x4fs"
        if n_train >= LISTS_POINTS
        else f"{padding}PQ{codes}x4fs"
    )


def import_faiss() -> Any:
    """The library, or an error that says how to install it."""
    try:
        with warnings.catch_warnings(
            action="ignore"
        ):  # its wrappers use what Python is about to drop
            import faiss
    except ImportError as error:
        raise ImportError(
            "FaissSearch needs faiss, which is not installed: pip install 'nearworth[faiss]'"
        ) from error
    return faiss
