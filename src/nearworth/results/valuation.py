"""The result: what every training row is worth, how sure that is, and where it came from."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.files import Arrays, read_archive, write_archive
from nearworth._common.frames import index_from_bytes, index_to_bytes, make_frame
from nearworth._common.text import one_line
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.inputs.targets import check_owners
from nearworth.results.detection import Detection, detect
from nearworth.results.owners import OwnerValues, sum_by_owner
from nearworth.results.plots import plot_values
from nearworth.results.sums import MOMENT_ARRAYS, Moments, Origin, Partial, check_shapes, tree_of
from nearworth.results.typical_error import TypicalError

# Parameters that a valuation describes itself by.
SHOWN = ("task", "utility", "semivalue", "n_neighbors", "metric", "aggregate")


def _by_row(name: str) -> Any:
    return lambda valuation, other: getattr(operator, name)(valuation.values, np.asarray(other))


@dataclass(frozen=True, eq=False, repr=False)
class Valuation:
    """Values of all training rows. Made by `KNNShapley.value` and `Valuation.load`.

    Two valuations of the same training set on different validation sets add up, by their weights,
    to the valuation on both: `a + b`.
    """

    moments: Moments
    origin: Origin
    _: KW_ONLY
    contributions: FloatMatrix | None = None
    contribution_rows: IntVector | None = None
    backend: str | None = None
    index: Any = None  # of the training rows, where X was a frame of pandas
    confidence: float = 1.0  # probability that the certificate holds
    # what a searcher found and missed (SearchReport); None where every distance was computed
    search: Any = None
    partial: Partial | None = (
        None  # the running sums, for `continue_from`; None where they are lost
    )
    resumed: int = 0  # validation points whose values came from a checkpoint
    _typical_error: TypicalError | Callable[[], TypicalError] | None = None
    _moments_by_group: Callable[[IntVector], Moments] | None = None

    @cached_property
    def values(self) -> FloatVector:
        """Value of each training row (N,): the mean over the validation points, or their sum if
        asked for.
        """
        return self.moments.total / (self.moments.weight / self._scale)

    @cached_property
    def standard_errors(self) -> FloatVector | None:
        """Standard error of each value over the validation sample; None when not asked for."""
        return self._errors_of(self.moments)

    @cached_property
    def lower(self) -> FloatVector:
        """Certified lower end of each value."""
        return self._end(0)

    @cached_property
    def upper(self) -> FloatVector:
        """Certified upper end of each value."""
        return self._end(1)

    @cached_property
    def error_bound(self) -> float:
        """Largest possible distance from a value to the true one, method error only; 0.0 when
        exact.
        """
        if self.moments.ends is None:
            return 0.0
        return float(np.maximum(self.values - self.lower, self.upper - self.values).max())

    @property
    def typical_error(self) -> float | None:
        """Root mean square over the rows of the error of a value, method error only; 0.0 when
        exact.

        An estimate, from 64 to 256 validation points drawn at random that are also valued exactly.
        Where every distance was computed that is done when it is first asked for, and needs the
        data: None after save or pickle, unless it was asked for before, and after addition.
        """
        return None if (estimate := self._estimate()) is None else estimate.root

    @property
    def typical_error_interval(self) -> tuple[float, float] | None:
        """Where the root mean square error lies, in about 95 % of all samples; (0.0, 0.0) when
        exact.
        """
        return None if (estimate := self._estimate()) is None else estimate.interval

    def describe_error(self) -> str:
        """How far values may be off, in a sentence; nothing when they are exact."""
        if self.moments.ends is None:
            return ""
        typical = (
            "" if self._known_error is None else f"; their typical error is {self._estimate()}"
        )
        return f"Values are certain to within {self.error_bound:.2g}{self._confidence}{typical}."

    @property
    def _confidence(self) -> str:
        return "" if self.confidence == 1.0 else f" with {self.confidence:.0%} confidence"

    def _estimate(self) -> TypicalError | None:
        """The typical error, on the scale of the values; made if it can be."""
        if callable(self._typical_error):
            object.__setattr__(self, "_typical_error", self._typical_error())
        return self._known_error and self._known_error.times(self._scale)

    @property
    def _known_error(self) -> TypicalError | None:
        """The typical error of mean values, if it is there without further work."""
        if self.moments.ends is None:
            return TypicalError(0.0, 0.0)
        return None if callable(self._typical_error) else self._typical_error

    def _end(self, which: int) -> FloatVector:
        if self.moments.ends is None:
            return self.values
        end = self.moments.ends[which] / (self.moments.weight / self._scale)
        # With tail="paper", values may leave their interval.
        return np.asarray(
            np.minimum(end, self.values) if which == 0 else np.maximum(end, self.values)
        )

    @property
    def n_train(self) -> int:
        """Number of training rows."""
        return self.origin.n_train

    @property
    def n_val(self) -> int:
        """Number of validation points."""
        return self.origin.n_val

    def __len__(self) -> int:
        return self.n_train

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype=dtype)

    def __getitem__(self, rows: Any) -> Any:
        """Values of some rows, as `values` gives them; rows are numbered from 0, whatever the index
        of a frame.
        """
        return self.values[rows]

    # Row by row, as arrays are compared: v < 0 is a mask. Only + is about valuations as a whole.
    __lt__, __le__, __gt__, __ge__, __eq__, __ne__ = map(
        _by_row, ("lt", "le", "gt", "ge", "eq", "ne")
    )
    __hash__ = object.__hash__

    @cached_property
    def ranking(self) -> IntVector:
        """Row numbers, most valuable first; rows of equal value in their order."""
        return np.argsort(-self.values, kind="stable")

    def top(self, k: int = 10) -> IntVector:
        """Row numbers of the k most valuable rows, best first."""
        return self.ranking[:k]

    def bottom(self, k: int = 10) -> IntVector:
        """Row numbers of the k least valuable rows, worst first."""
        return np.argsort(self.values, kind="stable")[:k]

    def detect(self, rule: str = "ranking", *, fraction: float | None = None) -> Detection:
        """Flag rows of suspiciously low value: `Detection` with mask, threshold and rule.

        "ranking" flags the lowest `fraction` of the rows (0.1 unless given), "cluster" those below
        the lower of two 2-means centres, "lower-cluster" the whole lower cluster. Always strictly
        below the threshold: rows that tie with it are not flagged.
        """
        return detect(self.values, rule, fraction=fraction)

    def plot(self, ax: Any = None, *, bins: int = 50) -> Any:
        """Histogram of the values on matplotlib axes, made if not given.

        Needs matplotlib: pip install 'nearworth[plot]'.
        """
        over = (
            f"{self.n_val:,} validation points"
            if not self.origin.is_leave_one_out
            else "the other rows"
        )
        return plot_values(
            self.values, f"value ({self.origin.parameters['aggregate']} over {over})", ax, bins
        )

    def sum_by(self, owners: Any) -> OwnerValues:
        """What the rows of each owner are worth: owner -> total, standard error, share, n_rows,
        lower, upper.

        `owners` holds one label per training row. Where standard errors were asked for, those of
        the totals are exact, covariances included, and cost one more run over the validation
        points. A valuation that was loaded or added up has lost its data and gives NaN there.
        """
        labels, codes = check_owners(owners, self.n_train)
        errors = (
            None
            if self._moments_by_group is None
            else self._errors_of(self._moments_by_group(codes))
        )
        intervals = np.stack([self.values, self.lower, self.upper])
        return sum_by_owner(labels, codes, intervals, errors, self.backend, origin=self.origin)

    def to_frame(self, backend: str | None = None) -> Any:
        """A frame with `row`, `value`, `lower` and `upper` if not exact, `standard_error` if known,
        and `rank` from 1.

        `backend` is "pandas", "polars" or "pyarrow"; by default the library that X came in, else
        one that is installed. A frame of pandas has the index that X had.
        """
        columns: dict[str, Any] = {"row": np.arange(self.n_train), "value": self.values.copy()}
        if self.moments.ends is not None:
            columns |= {"lower": self.lower.copy(), "upper": self.upper.copy()}
        if self.standard_errors is not None:
            columns["standard_error"] = self.standard_errors.copy()
        columns["rank"] = np.searchsorted(np.sort(-self.values), -self.values) + 1
        return make_frame(columns, backend, self.backend, self.index)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a numpy archive with a JSON description and a checksum; no pickle, atomically. No
        contributions.
        """
        write_archive(path, "valuation", *self.to_archive())

    def to_archive(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """A description for JSON, and arrays."""
        numbers, arrays = self.moments.numbers, self.moments.arrays | index_to_bytes(self.index)
        arrays["values"] = (
            self.values
        )  # for readers without this package; load makes them from the sums
        description: dict[str, Any] = {
            "origin": self.origin.to_json(),
            "sums": numbers,
            "backend": self.backend,
        }
        description |= {"confidence": self.confidence, "typical_error": self._known_error}
        return description, arrays

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Valuation:
        """Read what `save` wrote; a damaged file is a ValueError."""
        return read_archive(path, "valuation", cls.from_archive)

    @classmethod
    def from_archive(cls, description: dict[str, Any], arrays: Arrays) -> Valuation:
        origin = Origin.from_json(description["origin"])
        sums: dict[str, Any] = {name: arrays[name] for name in MOMENT_ARRAYS if name in arrays}
        check_shapes(sums)
        moments = Moments(*description["sums"], **sums)
        if (moments.total.size, moments.count) != (
            origin.n_train,
            origin.n_val,
        ) or not moments.weight > 0:
            raise ValueError("its sums are not those of its training and validation points.")
        backend, confidence, typical = (
            description[name] for name in ("backend", "confidence", "typical_error")
        )
        known = set(SHOWN) <= origin.parameters.keys() and isinstance(backend, str | None)
        if not known or not 0 <= confidence <= 1 or (typical and not np.isfinite(typical).all()):
            raise ValueError("its description is not complete.")
        error, index = (
            TypicalError(*typical) if typical else None,
            index_from_bytes(arrays, origin.n_train),
        )
        return cls(
            moments,
            origin,
            backend=backend,
            index=index,
            confidence=confidence,
            _typical_error=error,
        )

    @classmethod
    def from_partial(cls, partial: Partial) -> Valuation:
        """The valuation of a part that holds all validation points, such as one merged from parts
        made by hand.
        """
        origin, ranges = partial.origin, partial.ranges
        if len(ranges) != 1 or ranges[0][0] != 0:
            raise ValueError(
                f"Validation points are missing. This is a {partial!r}; merge the other parts"
                " first."
            )
        if origin.search is not None or origin.is_leave_one_out:
            raise ValueError(
                "This part is a checkpoint of a run that only value(checkpoint=...) can finish."
            )
        return cls(tree_of(partial).finish(), origin, partial=partial)

    def __add__(self, other: Any) -> Valuation:
        if not isinstance(other, Valuation):
            return NotImplemented
        origin, moments = self.origin.followed_by(other.origin), self.moments + other.moments
        confidence = max(0.0, self.confidence + other.confidence - 1.0)  # both must hold
        return Valuation(
            moments, origin, backend=self.backend, index=self.index, confidence=confidence
        )

    def __reduce__(self) -> Any:
        names = (
            "contributions",
            "contribution_rows",
            "backend",
            "index",
            "confidence",
            "search",
            "partial",
            "resumed",
        )
        kept = {name: getattr(self, name) for name in names} | {"_typical_error": self._known_error}
        return functools.partial(Valuation, **kept), (self.moments, self.origin)

    @property
    def _scale(self) -> float:
        """What a mean is multiplied by to give a value."""
        return self.moments.weight if self.origin.parameters["aggregate"] == "sum" else 1.0

    def _errors_of(self, moments: Moments) -> FloatVector | None:
        errors = moments.standard_errors()
        return None if errors is None else errors * self._scale

    def __repr__(self) -> str:
        task, utility, semivalue, k, metric, aggregate = (
            self.origin.parameters[name] for name in SHOWN
        )
        values, exact = self.values, self.moments.ends is None
        worst, best = int(values.argmin()), int(values.argmax())
        on = (
            "each other (leave-one-out)"
            if self.origin.is_leave_one_out
            else f"{self.n_val:,} validation points"
        )
        certificate = (
            "0 (exact)" if exact else f"{self.error_bound:.3g} (certified{self._confidence})"
        )
        known = {} if exact or self._known_error is None else {"typically": str(self._estimate())}
        meaning = " = utility of all - utility of none"
        lines = {
            "Valuation": f"{self.n_train:,} training points on {on}",
            "game": (
                f"{task}, {utility} utility, {semivalue}, K = {k}, {metric}, {aggregate} over"
                " validation points"
            ),
            "total": f"{values.sum():.6g}" + (meaning if semivalue == "shapley" and exact else ""),
            "range": (
                f"{values[worst]:.4g} (row {worst}) to {values[best]:.4g} (row {best}), mean"
                f" {values.mean():.4g}"
            ),
            "negative": f"{np.count_nonzero(values < 0):,} of {self.n_train:,} rows",
            "error bound": certificate,
        } | known
        return "\n".join(f"{name:<11} {one_line(text)}" for name, text in lines.items())
