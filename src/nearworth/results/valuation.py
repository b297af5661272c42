"""Valuation, the result of a run: values of the training rows, their errors and their origin."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nearworth._common.files import Arrays, read_archive, write_archive
from nearworth._common.frames import index_from_bytes, index_to_bytes, make_frame
from nearworth._common.text import one_line
from nearworth._common.types import BoolVector, FloatMatrix, FloatVector, IntVector
from nearworth.inputs.targets import check_owners
from nearworth.results.detection import Detection, detect
from nearworth.results.owners import OwnerValues, owner_values_from_rows
from nearworth.results.plots import plot_values
from nearworth.results.sums import (
    MOMENT_ARRAYS,
    Moments,
    Origin,
    Partial,
    check_shapes,
    tree_of,
)
from nearworth.results.typical_error import TypicalError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nearworth.engine.truncate import SearchReport

# Parameters that `repr` and `plot` read. A file without them holds no valuation.
DESCRIBING_PARAMETERS = ("task", "utility", "semivalue", "n_neighbors", "metric", "aggregate")
# Fields beside `moments` and `origin` that a pickle keeps.
PICKLED_FIELDS = (
    "contributions",
    "contribution_rows",
    "backend",
    "index",
    "confidence",
    "search",
    "partial",
    "resumed",
)
# Rows of `Moments.ends`.
LOWER = 0
UPPER = 1


@dataclass(frozen=True, eq=False, repr=False)
class Valuation:
    """Values of all training rows. Made by `KNNShapley.value` and `Valuation.load`.

    Two valuations of one training set on different validation sets add up, by their weights, to
    the valuation on both: `a + b`, or `sum([a, b, c])`. Comparisons such as `v < 0` are by row, as
    those of arrays, and `v[rows]` are values of rows. Rows are numbered from 0.

    Attributes
    ----------
    values : ndarray of shape (N,)
        The value of each training row.
    standard_errors : ndarray of shape (N,) or None
        Standard error of each value over the validation sample.
    lower : ndarray of shape (N,)
        Certified lower end of each value.
    upper : ndarray of shape (N,)
        Certified upper end of each value.
    error_bound : float
        The largest possible error of a value. 0.0 where values are exact.
    typical_error : float or None
        Estimated root mean square error of a value.
    typical_error_interval : (float, float) or None
        A 95% confidence interval of `typical_error`.
    confidence : float
        Probability that `lower`, `upper` and `error_bound` hold. 1.0 where they are certain.
    order : ndarray of shape (N,)
        Row numbers, highest value first.
    n_train : int
        Number of training rows.
    n_val : int
        Number of validation points.
    contributions : ndarray of shape (validation points, chosen rows) or None
        The value of each chosen row for each single validation point, where it was asked for.
    contribution_rows : ndarray or None
        Numbers of the chosen rows.
    origin : Origin
        Version, parameters and fingerprints of the data.
    search : SearchReport or None
        What a searcher found and missed. None where every distance was computed.
    partial : Partial or None
        The running sums, for `continue_from`. None after `load`, after addition and with a
        searcher.
    resumed : int
        Number of validation points whose values came from a checkpoint.
    backend : str or None
        The library of the frame that X was: "pandas", "polars" or "pyarrow".
    index : pandas.Index or None
        The index of X, if it was a frame of pandas.
    moments : Moments
        The sums over validation points that the values are made from.
    """

    moments: Moments
    origin: Origin
    _: KW_ONLY
    contributions: FloatMatrix | None = None
    contribution_rows: IntVector | None = None
    backend: str | None = None
    index: Any = None
    confidence: float = 1.0
    search: SearchReport | None = None
    partial: Partial | None = None
    resumed: int = 0
    _typical_error: TypicalError | Callable[[], TypicalError] | None = None
    _moments_by_group: Callable[[IntVector], Moments] | None = None

    @cached_property
    def values(self) -> FloatVector:
        """The value of each training row, shape (N,).

        It is the mean over the validation points, or their sum with aggregate="sum".
        """
        return self.moments.total / (self.moments.weight / self._scale)

    @cached_property
    def standard_errors(self) -> FloatVector | None:
        """Standard error of each value over the validation sample. None when not asked for."""
        return self._errors_of(self.moments)

    @cached_property
    def lower(self) -> FloatVector:
        """Certified lower end of each value."""
        # Without ends the values are exact, and their own bounds.
        if self.moments.ends is None:
            return self.values
        # With tail="paper", values may leave their interval.
        return np.asarray(np.minimum(self._mean_end(LOWER), self.values))

    @cached_property
    def upper(self) -> FloatVector:
        """Certified upper end of each value."""
        if self.moments.ends is None:
            return self.values
        return np.asarray(np.maximum(self._mean_end(UPPER), self.values))

    def _mean_end(self, end: int) -> FloatVector:
        """One row of `Moments.ends` on the scale of the values, shape (N,)."""
        assert self.moments.ends is not None
        return np.asarray(self.moments.ends[end] / (self.moments.weight / self._scale))

    @cached_property
    def error_bound(self) -> float:
        """The largest possible distance from a value to the true one.

        It is the error of the method alone, and 0.0 where values are exact.
        """
        if self.moments.ends is None:
            return 0.0
        return float(np.maximum(self.values - self.lower, self.upper - self.values).max())

    @property
    def typical_error(self) -> float | None:
        """Root mean square over the rows of the error of a value, 0.0 where values are exact.

        It is the error of the method alone. The estimate comes from 64 to 256 random validation
        points that are also valued exactly. Where every distance was computed this is done when it
        is first asked for, and needs the data. It is then None after save or pickle, unless it was
        asked for before, and after addition.
        """
        estimate = self._estimate_error()
        return None if estimate is None else estimate.root

    @property
    def typical_error_interval(self) -> tuple[float, float] | None:
        """Interval that has the root mean square error in about 95% of all samples.

        It is (0.0, 0.0) where values are exact.
        """
        estimate = self._estimate_error()
        return None if estimate is None else estimate.interval

    def describe_error(self) -> str:
        """How far values may be off, in a sentence. Empty where they are exact."""
        if self.moments.ends is None:
            return ""
        typical = ""
        if self._known_error is not None:
            typical = f"; their typical error is {self._estimate_error()}"
        return (
            f"Values are certain to within {self.error_bound:.2g}{self._with_confidence}{typical}."
        )

    @property
    def _with_confidence(self) -> str:
        """The confidence as the end of a phrase. Empty where bounds are certain."""
        return "" if self.confidence == 1.0 else f" with {self.confidence:.0%} confidence"

    def _estimate_error(self) -> TypicalError | None:
        """The typical error on the scale of the values, estimated now if it is not known yet."""
        if callable(self._typical_error):
            object.__setattr__(self, "_typical_error", self._typical_error())
        known = self._known_error
        return None if known is None else known.times(self._scale)

    @property
    def _known_error(self) -> TypicalError | None:
        """The typical error of mean values, if it is known without further work."""
        if self.moments.ends is None:
            return TypicalError(0.0, 0.0)
        return None if callable(self._typical_error) else self._typical_error

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

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy:
            return np.array(self.values, dtype=dtype)
        return np.asarray(self.values, dtype=dtype)

    def __getitem__(self, rows: Any) -> Any:
        """Values of some rows, by anything that indexes an array."""
        return self.values[rows]

    # Comparisons are by row, so that v < 0 is a mask. Valuations as a whole can only be added.

    def __lt__(self, other: npt.ArrayLike) -> BoolVector:
        return np.asarray(self.values < np.asarray(other))

    def __le__(self, other: npt.ArrayLike) -> BoolVector:
        return np.asarray(self.values <= np.asarray(other))

    def __gt__(self, other: npt.ArrayLike) -> BoolVector:
        return np.asarray(self.values > np.asarray(other))

    def __ge__(self, other: npt.ArrayLike) -> BoolVector:
        return np.asarray(self.values >= np.asarray(other))

    def __eq__(self, other: npt.ArrayLike) -> BoolVector:  # type: ignore[override]
        return np.asarray(self.values == np.asarray(other))

    def __ne__(self, other: npt.ArrayLike) -> BoolVector:  # type: ignore[override]
        return np.asarray(self.values != np.asarray(other))

    __hash__ = object.__hash__

    @cached_property
    def order(self) -> IntVector:
        """Row numbers, highest value first. Rows of equal value keep their order."""
        return np.argsort(-self.values, kind="stable")

    def top(self, n: int = 10) -> IntVector:
        """Row numbers of the `n` most valuable rows, best first."""
        return self.order[:n]

    def bottom(self, n: int = 10) -> IntVector:
        """Row numbers of the `n` least valuable rows, worst first."""
        return np.argsort(self.values, kind="stable")[:n]

    def detect(self, rule: str = "ranking", *, fraction: float | None = None) -> Detection:
        """Flag rows of suspiciously low value.

        Rows are flagged if their value is strictly below a threshold, so rows that tie with it are
        not flagged.

        Parameters
        ----------
        rule : {"ranking", "cluster", "lower-cluster"}
            "ranking" flags the lowest `fraction` of the rows. "cluster" flags rows below the lower
            of two 2-means centers, "lower-cluster" the whole lower cluster.
        fraction : float, optional
            The share to flag with rule="ranking", 0.1 by default.

        Returns
        -------
        Detection
        """
        return detect(self.values, rule, fraction=fraction)

    def plot(self, ax: Axes | None = None, *, bins: int = 50) -> Axes:
        """Draw a histogram of the values.

        Needs matplotlib: pip install 'nearworth[plot]'.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw. By default on the axes of a new figure.
        bins : int, default=50

        Returns
        -------
        matplotlib axes
        """
        points = f"{self.n_val:,} validation points"
        if self.origin.is_leave_one_out:
            points = "the other rows"
        title = f"value ({self.origin.parameters['aggregate']} over {points})"
        return plot_values(self.values, title, ax, bins)

    def sum_by(self, owners: npt.ArrayLike | Sequence[Any]) -> OwnerValues:
        """Add up the values of each owner's rows.

        Parameters
        ----------
        owners : array, series or list of shape (N,)
            The owner of each training row, any label.

        Returns
        -------
        OwnerValues
            A mapping from owners to totals. Where standard errors were asked for, those of the
            totals include covariances, and cost one more run over the validation points. They are
            NaN for a valuation that was loaded or added up, because it has lost its data.
        """
        labels, codes = check_owners(owners, self.n_train)
        errors = None
        if self._moments_by_group is not None:
            errors = self._errors_of(self._moments_by_group(codes))
        row_intervals = np.stack([self.values, self.lower, self.upper])
        return owner_values_from_rows(
            labels, codes, row_intervals, errors, backend=self.backend, origin=self.origin
        )

    def to_frame(self, backend: str | None = None) -> Any:
        """Make a frame with one row per training row.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default the library that X came in, else one that is installed.

        Returns
        -------
        frame
            The columns are `row`, `value`, `lower` and `upper` if values are not exact,
            `standard_error` if it is known, and `rank` from 1. A frame of pandas has the index
            that X had.
        """
        columns: dict[str, Any] = {"row": np.arange(self.n_train), "value": self.values.copy()}
        if self.moments.ends is not None:
            columns["lower"] = self.lower.copy()
            columns["upper"] = self.upper.copy()
        if self.standard_errors is not None:
            columns["standard_error"] = self.standard_errors.copy()
        # Equal values share the rank of the first of them.
        columns["rank"] = np.searchsorted(np.sort(-self.values), -self.values) + 1
        return make_frame(columns, backend, self.backend, self.index)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a numpy archive with a JSON description and checksums, without pickle.

        The file appears only when it is complete. It does not hold contributions.
        """
        description, arrays = self.to_archive()
        write_archive(path, "valuation", description, arrays)

    def to_archive(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What an archive holds: a description for JSON, and arrays by name."""
        description = {
            "origin": self.origin.to_json(),
            "sums": self.moments.numbers,
            "backend": self.backend,
            "confidence": self.confidence,
            "typical_error": self._known_error,
        }
        arrays = self.moments.arrays | index_to_bytes(self.index)
        # For readers without this package. `load` computes them from the sums.
        arrays["values"] = self.values
        return description, arrays

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Valuation:
        """Read a file that `save` wrote. Raises ValueError if it is damaged."""
        return read_archive(path, "valuation", cls.from_archive)

    @classmethod
    def from_archive(cls, description: dict[str, Any], arrays: Arrays) -> Valuation:
        """The valuation that `to_archive` described. Raises if it is damaged."""
        origin = Origin.from_json(description["origin"])
        sums: dict[str, Any] = {name: arrays[name] for name in MOMENT_ARRAYS if name in arrays}
        check_shapes(sums)
        moments = Moments(*description["sums"], **sums)
        sizes = (moments.total.size, moments.count)
        if sizes != (origin.n_train, origin.n_val) or not moments.weight > 0:
            raise ValueError("its sums are not those of its training and validation points.")

        backend = description["backend"]
        confidence = description["confidence"]
        typical_error = description["typical_error"]
        has_parameters = set(DESCRIBING_PARAMETERS) <= origin.parameters.keys()
        if not has_parameters or not isinstance(backend, str | None) or not 0 <= confidence <= 1:
            raise ValueError("its description is not complete.")
        if typical_error and not np.isfinite(typical_error).all():
            raise ValueError("its description is not complete.")
        return cls(
            moments,
            origin,
            backend=backend,
            index=index_from_bytes(arrays, origin.n_train),
            confidence=confidence,
            _typical_error=TypicalError(*typical_error) if typical_error else None,
        )

    @classmethod
    def from_partial(cls, partial: Partial) -> Valuation:
        """Make the valuation of a part that holds all validation points.

        Parameters
        ----------
        partial : Partial
            Usually merged from parts that `KNNShapley.partial` made.

        Returns
        -------
        Valuation

        Raises
        ------
        ValueError
            If validation points are missing, or the part is an unfinished checkpoint.
        """
        origin = partial.origin
        ranges = partial.ranges
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
        # The origin refuses what does not belong together, so that it comes first.
        origin = self.origin.followed_by(other.origin)
        return Valuation(
            self.moments + other.moments,
            origin,
            backend=self.backend,
            index=self.index,
            # Both certificates must hold, so that the probabilities of failure add up.
            confidence=max(0.0, self.confidence + other.confidence - 1.0),
        )

    def __radd__(self, other: Any) -> Valuation:
        # `sum` begins with the number 0.
        if isinstance(other, int) and other == 0:
            return self
        return NotImplemented

    def __reduce__(self) -> Any:
        fields: dict[str, Any] = {name: getattr(self, name) for name in PICKLED_FIELDS}
        fields["_typical_error"] = self._known_error
        return functools.partial(Valuation, **fields), (self.moments, self.origin)

    @property
    def _scale(self) -> float:
        """The factor from a mean over validation points to a value."""
        return self.moments.weight if self.origin.parameters["aggregate"] == "sum" else 1.0

    def _errors_of(self, moments: Moments) -> FloatVector | None:
        """Standard errors on the scale of the values."""
        errors = moments.standard_errors()
        return None if errors is None else errors * self._scale

    def __repr__(self) -> str:
        lines = {
            "Valuation": f"{self.n_train:,} training points on {self._describe_points()}",
            "game": self._describe_game(),
            "total": self._describe_total(),
            "range": self._describe_range(),
            "negative": f"{np.count_nonzero(self.values < 0):,} of {self.n_train:,} rows",
            "error bound": self._describe_bound(),
        }
        if self.moments.ends is not None and self._known_error is not None:
            lines["typically"] = str(self._estimate_error())
        return "\n".join(f"{name:<11} {one_line(text)}" for name, text in lines.items())

    def _describe_points(self) -> str:
        if self.origin.is_leave_one_out:
            return "each other (leave-one-out)"
        return f"{self.n_val:,} validation points"

    def _describe_game(self) -> str:
        """The parameters that define the values, in a line."""
        parameters = self.origin.parameters
        neighbors = f"K = {parameters['n_neighbors']}"
        # With a radius, K has no meaning.
        if parameters.get("radius") is not None:
            neighbors = f"radius = {parameters['radius']}"
        terms = [
            parameters["task"],
            f"{parameters['utility']} utility",
            parameters["semivalue"],
            neighbors,
        ]
        if parameters.get("weights") is not None:
            terms.append(f"weights = {parameters['weights']}")
        terms += [parameters["metric"], f"{parameters['aggregate']} over validation points"]
        return ", ".join(map(str, terms))

    def _describe_total(self) -> str:
        total = f"{self.values.sum():.6g}"
        is_exact = self.moments.ends is None
        if is_exact and self.origin.parameters["semivalue"] == "shapley":
            return f"{total} = utility of all - utility of none"
        return total

    def _describe_range(self) -> str:
        values = self.values
        worst = int(values.argmin())
        best = int(values.argmax())
        lowest = f"{values[worst]:.4g} (row {worst})"
        highest = f"{values[best]:.4g} (row {best})"
        return f"{lowest} to {highest}, mean {values.mean():.4g}"

    def _describe_bound(self) -> str:
        if self.moments.ends is None:
            return "0 (exact)"
        return f"{self.error_bound:.3g} (certified{self._with_confidence})"
