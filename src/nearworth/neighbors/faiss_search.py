"""Nearest neighbors through faiss: which index, its search effort, and true distances in the end.

An index is asked for more points than wanted (`overfetch`), and these are ranked by true distances.
So codes of a few bits per number, which faiss scans many times faster than the numbers, are as good
as needed. faiss works in 32 bits: points are centered and brought to a scale where squares fit, and
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

# With "auto", an index of fewer points is "Flat", and one of so many points has lists.
FLAT_POINTS = 20_000
LISTS_POINTS = 500_000
# Fewer columns than this are not coded.
CODED_COLUMNS = 8
MAX_CODES = 64
# Points that an index is trained on, at least and for each of its lists, and rounds of k-means.
TRAINING_ROWS = 16_384
TRAINING_PER_LIST = 64
TRAINING_ROUNDS = 10
# Candidates of a walk (HNSW).
MIN_EF = 16
# Points fetched for a query.
MAX_FETCHED = 16_384
# Points fetched on top, because 32 bits confuse a few at the border.
SPARE_POINTS = 8
# Points added to an index at a time.
ROWS_AT_ONCE = 2**16
# Scaled coordinates are cut here, so that their squares fit into 32 bits.
MAX_COORDINATE = 1e15
# The recall of a sample may be too high by chance by so many standard errors.
STANDARD_ERRORS = 2.0


@dataclass(eq=False)
class FaissSearch(IndexSearch):
    """Neighbors from a faiss index, ranked by true distances.

    Parameters
    ----------
    factory
        Text for `faiss.index_factory`, such as "Flat", "HNSW32", "IVF256,Flat" or "PQ32x4fs".
        "auto" takes an index by the number of training points.
    recall
        Share of the neighbors that should be found. The efforts are raised until a sample of
        queries has it: lists visited (IVF), and points fetched per point asked for.
    n_threads
        Threads of building and searching; None for all usable cores.
    """

    factory: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check = condition(lambda v: isinstance(v, str), 'text such as "auto", "Flat" or "HNSW32"')
        check("factory", self.factory)

    def fingerprint(self) -> str:
        """A hash of the index and the efforts: equal ones give equal answers."""
        return fingerprint(self.tuning.parameters, import_faiss().serialize_index(self._index))

    def _build(self) -> None:
        faiss = import_faiss()
        points = self._points
        self._center = points.mean(axis=0, dtype=np.float64)
        ends = np.stack([points.min(axis=0), points.max(axis=0)])
        spread = float(np.abs(ends - self._center).max())
        self._scale_exponent = -int(np.frexp(spread)[1])
        self._factory = self.factory
        if self.factory == "auto":
            self._factory = automatic_factory(*points.shape)

        n_threads = faiss.omp_get_max_threads()
        try:
            self._index = faiss.index_factory(points.shape[1], self._factory)
            faiss.omp_set_num_threads(usable_threads(self.n_threads))
            self._fill_index()
        except RuntimeError as error:
            reason = str(error).splitlines()[0].split("Error: ")[-1][:200]
            size = f"{len(points):,} points of {points.shape[1]} columns"
            raise ValueError(
                f"factory={self._factory!r} does not work for {size}: {reason}"
            ) from error
        finally:
            # The number of threads is that of the whole process.
            faiss.omp_set_num_threads(n_threads)

    def _fill_index(self) -> None:
        """Train the index on a sample of the points, and add all of them."""
        points = self._points
        n_training = TRAINING_ROWS
        ivf_index = import_faiss().try_extract_index_ivf(self._index)
        if ivf_index is not None:
            n_training = max(n_training, TRAINING_PER_LIST * ivf_index.nlist)
            ivf_index.cp.niter = TRAINING_ROUNDS
            # Without this, faiss warns of small samples.
            ivf_index.cp.min_points_per_centroid = 1
        size = min(n_training, len(points))
        # A fixed seed makes results repeatable.
        rows = np.random.default_rng(0).choice(len(points), size, replace=False)
        self._index.train(self._as_singles(points[np.sort(rows)]))
        for start in range(0, len(points), ROWS_AT_ONCE):
            self._index.add(self._as_singles(points[start : start + ROWS_AT_ONCE]))

    def _tune(self, k: int, queries: Any) -> Tuning:
        """Double the effort that helps most, until the sample has the recall beyond chance."""
        sample = self._sample(k, queries, np.random.default_rng(0))
        max_effort = {"overfetch": max(1, MAX_FETCHED // k)}
        lists = import_faiss().try_extract_index_ivf(self._index)
        if lists is not None:
            max_effort["nprobe"] = lists.nlist

        trials = [self._try(sample, dict.fromkeys(max_effort, 1))]
        while trials[-1].min_recall < self.recall:
            effort = trials[-1].effort
            raised = []
            for name, limit in max_effort.items():
                if effort[name] < limit:
                    raised.append(effort | {name: 2 * effort[name]})
            if not raised:
                # The best there is; more effort than it needs would not find more.
                best = max(trials, key=lambda trial: trial.tuning.recall)
                return best.tuning
            options = [self._try(sample, option) for option in raised]
            trials.append(max(options, key=lambda trial: trial.tuning.recall))
        return trials[-1].tuning

    def _try(self, sample: Sample, effort: dict[str, int]) -> _Trial:
        parameters = {"factory": self._factory} | effort
        # `_nearest` reads the effort there.
        self.tuning = Tuning(parameters=parameters, k=sample.k, wanted=self.recall)
        recalls = sample.recall_of(self)
        mean = float(recalls.mean())
        min_recall = mean - STANDARD_ERRORS * float(recalls.std()) / np.sqrt(len(recalls))
        return _Trial(effort, min_recall, replace(self.tuning, recall=mean))

    def _nearest(self, queries: FloatMatrix, k: int) -> Neighbours:
        """The k nearest by true distance, of more that faiss takes for the nearest.

        -1 where there are fewer.
        """
        faiss = import_faiss()
        effort = self.tuning.parameters
        count = min(len(self._points), effort["overfetch"] * k + SPARE_POINTS)
        space = faiss.ParameterSpace()
        if "nprobe" in effort:
            space.set_index_parameter(self._index, "nprobe", effort["nprobe"])
        elif "HNSW" in self._factory:
            space.set_index_parameter(self._index, "efSearch", max(MIN_EF, count))
        # In this thread of our own, one of several that search.
        faiss.omp_set_num_threads(1)
        _, rows = self._index.search(self._as_singles(queries), count)
        return self._truth.order(queries, np.asarray(rows, dtype=np.intp)).resized(k)

    def _as_singles(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Centered and scaled rows in 32 bits."""
        # A query too far out finds nothing in particular.
        with np.errstate(over="ignore"):
            scaled = np.ldexp(rows - self._center, self._scale_exponent)
            scaled = np.clip(scaled, -MAX_COORDINATE, MAX_COORDINATE)
        return np.ascontiguousarray(scaled, dtype=np.float32)


@dataclass(frozen=True)
class _Trial:
    """The recall of an effort.

    Attributes
    ----------
    effort : dict
        Lists visited and points fetched per point asked for, by the names of faiss.
    min_recall : float
        The recall less its standard errors.
    tuning : Tuning
        The effort with its recall.
    """

    effort: dict[str, int]
    min_recall: float
    tuning: Tuning


def automatic_factory(n_train: int, n_columns: int) -> str:
    """The factory text of an index for so many points.

    It has all points if they are few, and lists of points if columns are few. Else it has codes of
    4 bits, in lists if there are many points.
    """
    n_lists = 2 ** round(np.log2(np.sqrt(n_train) / 4))
    if n_train < FLAT_POINTS:
        return "Flat"
    if n_columns < CODED_COLUMNS:
        return f"IVF{4 * n_lists},Flat"

    columns_per_code = max(2, -(-n_columns // MAX_CODES))
    n_codes = -(-n_columns // columns_per_code)
    width = n_codes * columns_per_code
    padding = f"Pad{width}," if width > n_columns else ""
    lists = f"IVF{n_lists}," if n_train >= LISTS_POINTS else ""
    return f"{padding}{lists}PQ{n_codes}x4fs"


def import_faiss() -> Any:
    """The library, or an error that says how to install it."""
    try:
        # Its wrappers use what Python is about to drop.
        with warnings.catch_warnings(action="ignore"):
            import faiss
    except ImportError as error:
        raise ImportError(
            "FaissSearch needs faiss, which is not installed: pip install 'nearworth[faiss]'"
        ) from error
    return faiss
