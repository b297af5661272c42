"""The answer of an audit, which the page and the command line read directly.

A `selection` is what was asked of `LabelAudit.suspects`, as keywords: {} or {"max_fdr": 0.1} or
{"rule": "cluster"}.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from nearworth._common.files import read_archive, write_archive
from nearworth._common.frames import html_table, make_frame
from nearworth._common.text import one_line
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth._common.warnings import warn_user
from nearworth.audit.error_count import ErrorCount, Precision, Review, cautious, longest_list
from nearworth.audit.explain import EFFECTS, Effect, Explanation, Neighbour, effects_of, plain, show
from nearworth.audit.export import Answers, export, pack, read_answers, unpack
from nearworth.audit.noise_level import Posterior
from nearworth.audit.predictions import with_quality
from nearworth.audit.target_model import TargetModel
from nearworth.audit.votes import Columns, Copies, Voters
from nearworth.estimator import KNNShapley
from nearworth.inputs.features import Features, as_narwhals
from nearworth.inputs.parameters import as_generator, condition, is_real, is_whole, whole_number
from nearworth.inputs.sources import open_pair
from nearworth.results.detection import DEFAULT_FRACTION, detect
from nearworth.results.plots import plot_audit
from nearworth.results.valuation import Valuation
from nearworth.tables import number_of

if TYPE_CHECKING:
    from nearworth.tables.dataset import Dataset

SHOWN = 10  # rows in a notebook
WORTH_A_LOOK = 50  # rows that a page shows at least, if so many labels may be wrong
BY_ROW = (
    "quality",
    "agreement",
    "confidence",
    "suggested_range",
    "_for_lists",
    "given",
    "suggested",
)
check_share = condition(
    lambda share: is_real(share) and 0 <= share <= 1, "a number from 0 to 1", ValueError
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LabelAudit:
    """Which labels are suspicious, what they should be, how sure we are; one entry per row in every
    array.

    Attributes
    ----------
    quality : array
        Probability that the given label (or target) is right, under the model of `docs/audit.md`.
        Higher is better.
    value : array
        Shapley value of each row, on the validation set if one was given, else on all the other
        rows.
    agreement : array
        Share of the neighbours' votes for the given label, nearer ones counting more (regression: 1
        / (1 + distance from what neighbours suggest, in units of its usual size)).
    suggested : array
        The label that the evidence favours when the given one is not counted: mostly they are the
        same. For regression, what neighbours suggest.
    confidence : array
        Probability that `suggested` is right, the given label counted; for regression, that the
        true target is in `suggested_range`.
    suggested_range : array of shape (N, 2) or None
        For regression: where the true target would be nine times in ten.
    n_errors : ErrorCount
        How many labels are wrong: at least `lower`, at most `upper` under an assumption that it
        names, and an estimate where the data tell one.
    label_probabilities : array of shape (N, C) or None
        Probability of each class, in the order of `classes`, given the evidence and the given
        label. Of more than 64 classes it is made when asked for, and takes 8 bytes for each row and
        class.
    copies : Copies or None
        Groups of rows that are the same or nearly so, which do not vote for each other; None if
        there are none.
    index : pandas.Index or None
        Index of the rows, where X was a frame of pandas.
    notes : tuple of str
        What was done about the labels of a frame.

    Of a frame, every row has an entry: those without a label have NaN for a quality and a value,
    None for a given label, and their suggestion in `suggested` and `confidence`. Rows are numbered
    as in the frame everywhere.
    """

    ISSUE: ClassVar[float] = (
        0.5  # a label is called an issue when it is more likely wrong than right
    )

    given: npt.NDArray[Any]
    quality: FloatVector
    agreement: FloatVector
    suggested: npt.NDArray[Any]
    confidence: FloatVector
    n_errors: ErrorCount
    valuation: Valuation
    classes: npt.NDArray[Any] | None = None
    suggested_range: FloatMatrix | None = None
    copies: Copies | None = None
    index: Any = None
    notes: tuple[str, ...] = ()
    _probabilities: FloatMatrix | None = None  # of the rows with a label, by class
    _columns: Columns | None = None  # or by these, of very many classes
    _frame: Dataset | None = None  # that X was, prepared: `check` prepares others alike
    _groups: IntVector | None = (
        None  # of the valuation: rows of one group did not vote for each other
    )
    _witness: IntVector | None = None  # rows of one of these groups share one vote
    _for_lists: FloatVector | None = None  # quality as max_fdr lists read it
    _model: Posterior | TargetModel | None = (
        None  # of the votes, which `check` applies to other rows
    )
    _audited: LabelAudit | None = (
        None  # the audit that these rows were checked against: its rows are the voters
    )
    _voters: Voters
    _estimator: KNNShapley
    _validation: tuple[Any, Any] = (None, None)
    _validation_labelled: npt.NDArray[np.bool_] | None = (
        None  # which validation rows have a label, of a frame
    )
    _trusted: Voters | None = None  # the nearest rows of the validation rows
    _first: IntVector | None = (
        None  # the first row that is identical to each; None for checked rows
    )
    _review: Review | None = None
    _draws: list[tuple[Review, IntVector]] = field(
        default_factory=list
    )  # at most one: what review_sample drew last

    def __len__(self) -> int:
        return len(self.quality)

    @property
    def value(self) -> FloatVector:
        return self._spread(self.valuation.values)

    @cached_property
    def _rows(self) -> IntVector:
        """The rows that have a label."""
        return np.flatnonzero(~np.isnan(self.quality))

    def _spread(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Numbers of the rows with a label as numbers of all rows, NaN for the others."""
        every = np.full((len(self), *values.shape[1:]), np.nan)
        every[self._rows] = values
        return every

    def _entries(self, rows: Any) -> Any:
        """Where rows are among those with a label."""
        if np.isnan(self.quality[rows]).any():
            raise ValueError(
                "A row without a label cannot be judged; audit.unlabelled has a suggestion for it."
            )
        return np.searchsorted(self._rows, rows)

    @property
    def _known(self) -> LabelAudit:
        """The audit of the rows with a label alone, numbered among themselves."""
        if len(self._rows) == len(self):
            return self
        some: dict[str, Any] = {name: array[self._rows] for name, array in self.by_row.items()}
        groups = (
            {n: getattr(self.copies, n)[self._rows] for n in ("group", "identical")}
            if self.copies
            else {}
        )
        copies = self.copies and replace(self.copies, **groups)
        return replace(self, **some, copies=copies, index=self.valuation.index)

    @property
    def by_row(self) -> dict[str, Any]:
        """The arrays with an entry for each row that there are."""
        return {name: array for name in BY_ROW if (array := getattr(self, name)) is not None}

    @property
    def unlabelled(self) -> dict[int, tuple[Any, float]]:
        """Rows of the frame without a label: row number -> suggested label, probability of it (NaN
        for targets).
        """
        rows = np.flatnonzero(np.isnan(self.quality)).tolist()
        return {row: (plain(self.suggested[row]), float(self.confidence[row])) for row in rows}

    @property
    def label_probabilities(self) -> FloatMatrix | None:
        found = self._probabilities
        if found is not None and self._columns is not None:
            codes = (self._audited or self)._columns.codes  # type: ignore[union-attr]
            found = self._columns.put_back(found, np.bincount(codes) / len(codes))
        return None if found is None else self._spread(found)

    @property
    def order(self) -> IntVector:
        """All rows that have a label, most doubtful first.

        Rows of equal quality are in the order of their values (targets: of their agreement), then
        of their row numbers. After a review, they are in the order of before.
        """
        tie = self.value if self.classes is not None else self.agreement
        if self._review is not None:
            tie = self._spread(np.argsort(self._review.order).astype(np.float64))
        order = np.lexsort((tie, self.quality))
        return order[: len(self._rows)]  # NaN comes last

    @property
    def contradictions(self) -> list[IntVector]:
        """Groups of identical rows with different labels (row numbers): at least one label of each
        is wrong.
        """
        return (
            []
            if self.copies is None or self.classes is None
            else self.copies.contradictions(self.given)
        )

    def describe_copies(self) -> str:
        """Copies and contradictions in a sentence; nothing where there are none."""
        if self.copies is None:
            return ""
        n_rows, n_against = sum(map(len, self.copies.groups)), len(self.contradictions)
        against = (
            f"; identical rows in {number_of('group', n_against)} have different labels"
            if n_against
            else ""
        )
        groups = number_of("group", len(self.copies.groups))
        return (
            f"{n_rows:,} rows in {groups} are copies, exact or near, and do not vote for each"
            f" other{against}."
        )

    @property
    def is_label_issue(self) -> npt.NDArray[np.bool_]:
        """Rows whose label is more likely wrong than right."""
        return np.asarray(self.quality < self.ISSUE)

    def suspects(
        self,
        *,
        fraction: float | None = None,
        rule: str | None = None,
        max_fdr: float | None = None,
        index: bool = False,
    ) -> Any:
        """Row numbers, worst first. Give at most one of the first three.

        Parameters
        ----------
        fraction : float
            The worst share of all rows.
        rule : {"ranking", "cluster", "lower-cluster"}
            A rule of `Valuation.detect`, applied to `quality`; "ranking" is the worst `fraction`, a
            tenth unless given.
        max_fdr : float
            As many rows as possible with an expected share of false alarms of at most this, on the
            cautious side. Holds as far as the model of wrong labels does: see `docs/audit.md`.
            After a review it rests on the answers: all rows judged wrong and the worst of the
            others, with at most this share of false alarms nine times in ten.
        index : bool, default=False
            Labels of the index of the pandas frame instead of row numbers, for
            `df.drop(index=...)`.

        Without any: the rows whose label is more likely wrong than right.
        """
        if index:
            rows = self.suspects(fraction=fraction, rule=rule, max_fdr=max_fdr)
            if self.index is None:
                raise ValueError(
                    "These rows have no index: X was no frame of pandas. Use suspects() for row"
                    " numbers."
                )
            if n_others := int(self.index.isin(self.index[rows]).sum()) - len(rows):
                same = (
                    f"{n_others:,} more rows have the same index labels: drop(index=...) would drop"
                    " them too"
                )
                warn_user(f"{same}. Use df.iloc and the row numbers of suspects() instead.")
            return self.index[rows]
        if rule == "ranking":
            fraction, rule = DEFAULT_FRACTION if fraction is None else fraction, None
        asked = {"fraction": fraction, "rule": rule, "max_fdr": max_fdr}
        named = [name for name, what in asked.items() if what is not None]
        if len(named) > 1:
            raise ValueError(
                f"{' and '.join(named)} were given, which each decide alone. Give one of them."
            )
        order = self.order
        if fraction is not None:
            check_share("fraction", fraction)
            return order[: int(round(fraction * len(order), 6))]
        if max_fdr is not None:
            check_share("max_fdr", max_fdr)
            if self._review is not None:
                return order[self._review.suspects(max_fdr)[self._entries(order)]]
            if self._for_lists is None:
                return order[: longest_list(self.quality[order], max_fdr, extra=1.0)]
            return order[
                : longest_list(cautious(self._for_lists[order], self.given[order]), max_fdr)
            ]
        return order[
            self.is_label_issue[order] if rule is None else detect(self.quality[order], rule).mask
        ]

    def top_doubtful(self) -> IntVector:
        """The suspects; where they are few, the most doubtful rows as well, as far as there may be
        wrong labels.

        Errors that people make where classes meet look like overlap, but they are the worst by
        rank.
        """
        return self.order[
            : max(len(self.suspects()), min(WORTH_A_LOOK, math.ceil(self.n_errors.upper)))
        ]

    def review_sample(self, n: int, random_state: Any = 0) -> IntVector:
        """Rows to judge, in random order, drawn with known chances: judge all of them and call
        `reviewed`.

        Rows are drawn from up to fourteen strata by quality, doubtful ones with a higher chance. Of
        an audit that was reviewed before: further rows, most of them where the number of wrong
        labels is least certain and among those that a list with `max_fdr=0.1` may have.
        """
        whole_number(1)("n", n)
        known = self._known
        n_left = len(known) if (before := self._review) is None else int((~before.judged).sum())
        if n > n_left:
            raise ValueError(
                f"n={n:,} rows to judge were asked for, but {n_left:,} are left. Ask for fewer."
            )
        made = known.order, known.quality, known.agreement
        review = Review.begin(*made, n) if before is None else before.finer(n)
        rows = self._rows[review.draw(n, as_generator(random_state))]
        self._draws[:] = [(review, rows)]
        return rows

    def reviewed(self, rows: Any, is_wrong: Any) -> LabelAudit:
        """The same audit, its count and lists resting on answers about the rows that
        `review_sample` drew last.

        `is_wrong` has True or False for each of `rows`. Rows you could not judge may be left out,
        as if they had not been drawn.
        """
        judged, wrong = np.asarray(rows), np.asarray(is_wrong)
        drawn = self._draws[0][1] if self._draws else ()
        if (
            judged.ndim != 1
            or not 0 < len(judged) == len(np.unique(judged))
            or not np.isin(judged, drawn).all()
        ):
            raise ValueError(
                "rows must be rows that the last review_sample of this audit drew, one at least,"
                " each of them once. Call review_sample first, with the n and random_state they"
                " were drawn with."
            )
        if (
            wrong.shape != judged.shape
            or wrong.dtype.kind not in "biu"
            or not np.isin(wrong, (0, 1)).all()
        ):
            each = f"each of the {len(judged):,} rows"
            raise ValueError(
                f"is_wrong must hold True or False for {each}; leave out those you cannot judge."
            )
        review = self._draws[0][0].answered(
            self._entries(judged.astype(np.intp)), wrong.astype(bool)
        )
        return replace(
            self, **self._by_answers(review), n_errors=review.n_errors(), _review=review, _draws=[]
        )

    def _by_answers(self, review: Review) -> dict[str, Any]:
        """How likely labels are right, given the answers, and suggestions that agree with that."""
        known, columns, found = self._known, self._columns, dict[str, Any]()
        quality, right = 1.0 - review.likely_wrong(), review.judged & ~review.wrong
        suggested, confidence, certain = (
            known.suggested.copy(),
            known.confidence.copy(),
            right.copy(),
        )
        suggested[right], confidence[right] = known.given[right], 1.0
        for rows in known.contradictions:
            for label in known.given[rows[right[rows]]][
                :1
            ]:  # was judged right: others of identical rows are wrong
                others = rows[(known.given[rows] != label) & ~right[rows]]
                quality[others], suggested[others], certain[others] = 0.0, label, True
        if self._probabilities is not None and self.classes is not None:
            own = np.searchsorted(self.classes, known.given) if columns is None else columns.given
            shares = found["_probabilities"] = with_quality(self._probabilities, own, quality)
            best = shares.argmax(axis=1) if columns is None else columns.best(shares)[1]
            unlikely = (
                (suggested == known.given)
                & (best != (own if columns is None else columns.codes))
                & ~certain
            )
            suggested[unlikely] = self.classes[best[unlikely]]
            at = to = np.searchsorted(self.classes, suggested)
            if columns is not None:
                at = np.where(right, own, (columns.classes == to[:, None]).argmax(axis=1))
            shares[certain] = np.arange(shares.shape[1]) == at[certain, None]
            confidence = shares[np.arange(len(at)), at]
        by_row = {"quality": quality, "suggested": suggested, "confidence": confidence}
        if known.suggested_range is not None:
            widest = [
                end(known.suggested_range, known.given[:, None]) for end in (np.minimum, np.maximum)
            ]
            widened = np.stack([widest[0][:, 0], widest[1][:, 1]], axis=1)
            by_row["suggested_range"] = np.where(right[:, None], widened, known.suggested_range)
        for name, array in by_row.items():
            found[name] = getattr(self, name).copy()
            found[name][self._rows] = array
        return found

    @property
    def judged_wrong(self) -> IntVector:
        """The rows that were judged wrong in a review."""
        return self._rows[:0] if self._review is None else self._rows[self._review.wrong]

    def precision(self, rows: Any = None, **selection: Any) -> Precision:
        """Share of wrong labels in a list, with limits, from the answers of a review.

        The list is a result of `suspects`, any other `rows` chosen without knowing the answers, or
        that of a selection (fraction, rule or max_fdr).
        """
        if self._review is None:
            raise ValueError(
                "precision rests on answers: call review_sample, judge the rows, and call reviewed"
                " first."
            )
        listed = np.zeros(len(self), dtype=bool)
        chosen = self.suspects(**selection) if rows is None else np.asarray(rows)
        listed[chosen if chosen.size else []] = True
        return self._review.precision(listed[self._rows])

    def check(self, X_new: Any, y_new: Any) -> LabelAudit:
        """Rows that arrived later, judged against the audited ones without auditing these again.

        Of a frame and the name of its label column, rows are prepared like those of the audited
        frame. Each new row is judged on its own, as if it alone had been added; new rows do not
        vote for each other. `value` is what a new row is worth, among the new ones, for predicting
        the audited rows. Predictions and models of the audit have no part in it. For audits with
        features and without X_val.
        """
        from nearworth.audit.audit import check_rows, place_in_frame

        self._need_data("check")
        frame = None
        if self._frame is None:
            X_new, y_new = open_pair(X_new, y_new, ("X_new", "y_new"), None)
        else:
            from nearworth.tables.load import load_like

            further = load_like(self._frame, X_new, y_new, "X_new")
            frame, X_new, y_new = further.dataset, further.X, further.y
        checked = replace(check_rows(self._known, X_new, y_new), notes=(), _audited=self, _draws=[])
        return checked if frame is None else place_in_frame(checked, frame)

    def explain(self, i: int) -> Explanation:
        """Why row i has the quality it has: an object that prints itself.

        What the row does to others, and its value under other labels, take two more passes over all
        pairs.
        """
        self._need_data("explain")
        row = self._row(i)
        X_val, y_val = self._validation
        on_others, under = effects_of(
            self._estimator, int(self._entries(row)), X_val, y_val, self._groups
        )
        on_others = np.nan_to_num(self._spread(on_others)) if y_val is None else on_others
        others, order = (
            self.given if y_val is None else np.asarray(y_val),
            np.argsort(on_others, kind="stable"),
        )
        hurt, helped = (
            [
                Effect(int(r), plain(others[r]), float(on_others[r]))
                for r in some[:EFFECTS]
                if sign * on_others[r] > 0
            ]
            for some, sign in ((order, -1), (order[::-1], 1))
        )
        labels = [] if self.classes is None else [plain(label) for label in self.classes]
        bounds = None if self.suggested_range is None else tuple(self.suggested_range[row].tolist())
        return Explanation(
            row=row,
            label=plain(self.given[row]),
            suggested=plain(self.suggested[row]),
            probability_right=float(self.quality[row]),
            confidence=float(self.confidence[row]),
            value=float(self.value[row]),
            value_by_label=dict(zip(labels, under.tolist(), strict=True)),
            neighbors=self.nearest(row),
            helped=helped,
            hurt=hurt,
            others="other rows" if y_val is None else "validation points",
            why=self.why(row),
            suggested_range=bounds,
        )

    def why(self, row: int, numbers: Any = None) -> str:
        """One line about a row's label, from its neighbours alone: costs nothing, so every suspect
        can have it.

        Other rows are named by their row numbers, or by the `numbers` that rows have elsewhere,
        such as in a file.
        """
        row = self._row(row)
        doubt = 1 - self.quality[row]
        if np.isnan(doubt):
            return f"it has no label; {show(plain(self.suggested[row]))} is suggested"
        if self._review is not None and self._review.judged[self._entries(row)]:
            return (
                f"judged {'wrong' if self._review.wrong[self._entries(row)] else 'right'} in the"
                " review"
            )
        sure = (
            "more than 99%"
            if doubt > 0.99
            else "less than 1%"
            if doubt < 0.01
            else f"about {doubt:.0%}"
        )
        wrong = f"wrong with a probability of {sure}"
        if self.suggested_range is not None:
            low, high = map(show, self.suggested_range[row].tolist())
            return f"rows like it are mostly between {low} and {high}; {wrong}"
        near = [neighbour.label for neighbour in self.nearest(row)]
        given, suggested = plain(self.given[row]), plain(self.suggested[row])
        same, others = (sum(bool(label == other) for other in near) for label in (given, suggested))
        there = (
            f"{others} {'is' if others == 1 else 'are'} {show(suggested)}, "
            if suggested != given
            else ""
        )
        if len(unlike := self.unlike(row)):
            more = f" and {len(unlike) - 1:,} more have another label" if len(unlike) > 1 else ""
            named = unlike[0] if numbers is None else numbers[unlike[0]]
            wrong = f"identical row {named} is {show(plain(self.given[unlike[0]]))}{more}; {wrong}"
        return (
            f"of its {len(near)} nearest rows {there}{same} {'is' if same == 1 else 'are'}"
            f" {show(given)}; {wrong}"
        )

    def unlike(self, row: int) -> IntVector:
        """The rows that are identical to this one and have another label."""
        if self.copies is None or self.classes is None:
            return self._rows[:0]
        same = np.flatnonzero(self.copies.identical == self.copies.identical[row])
        return np.asarray(same[self.given[same] != self.given[row]])

    def _row(self, i: Any) -> int:
        if not is_whole(i) or not -len(self) <= i < len(self):
            raise ValueError(f"i must be a row number, 0 to {len(self) - 1}; got {i!r}.")
        return int(i) % len(self)

    def nearest(self, row: int) -> list[Neighbour]:
        """The K nearest other rows of a row, nearest first."""
        place = self._entries(row)
        rows, distances = (
            lists[place, : self._estimator.n_neighbors] for lists in self._voters.nearest
        )
        voters = self._audited or self
        found = zip(voters._rows[rows].tolist(), distances.tolist(), rows.tolist(), strict=True)
        return [
            Neighbour(number, plain(voters.given[number]), d)
            for number, d, place in found
            if place >= 0
        ]

    @staticmethod
    def describe_selection(selection: Mapping[str, Any]) -> str:
        """How suspects were chosen, in words."""
        words = [f"{name.replace('_', '-')} {value}" for name, value in selection.items()]
        return ", ".join(words) or "more likely wrong than right"

    def explain_empty(self, selection: Mapping[str, Any]) -> str:
        """Why a list may be empty, and what to do: no list keeps the promise, or the data cannot
        tell.
        """
        look = "--fraction 0.05 lists the worst; a review of 100 rows says how many are wrong."
        if (max_fdr := selection.get("max_fdr")) is not None:
            return f"No list can promise at most {100 * max_fdr:.3g} % false alarms here: {look}"
        return "" if selection or self.n_errors.upper < 1 else f"That is no proof: {look}"

    @property
    def _features(self) -> Features:
        features = self._estimator.training_set_.features
        assert features is not None  # else no row would have a neighbour
        return features

    def to_frame(self, backend: str | None = None) -> Any:
        """One line per row, with columns `is_label_issue` and `label_score` named as in cleanlab
        beside ours.

        `backend` as in `Valuation.to_frame`; a frame of pandas has the index that X had.
        """
        columns = {
            "row": np.arange(len(self)),
            "given_label": self.given.tolist(),
            "suggested_label": self.suggested.tolist(),
            "confidence": self.confidence,
            "quality": self.quality,
            "value": self.value,
            "agreement": self.agreement,
            "is_label_issue": self.is_label_issue,
            "label_score": self.quality,
        }
        if self.suggested_range is not None:
            columns |= {
                "suggested_low": self.suggested_range[:, 0],
                "suggested_high": self.suggested_range[:, 1],
            }
        return make_frame(columns, backend, self.valuation.backend, self.index)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the data to a file: no pickle, a checksum, atomically."""
        write_archive(path, "audit", *pack(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LabelAudit:
        """Read what `save` wrote; a damaged file is a ValueError. `explain`, `check` and `report`
        need the data.
        """
        return cls(**read_archive(path, "audit", unpack))

    def _need_data(self, what: str) -> None:
        if self._audited is not None or not hasattr(self._estimator, "training_set_"):
            problem = (
                f"{what} is for audited rows and needs the data: not for checked rows or a loaded"
                " audit"
            )
            raise ValueError(
                f"{problem}. Audit all rows again; why(i), nearest(i) and to_frame() work here too."
            )

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        target: str | None = None,
        ids: Any = None,
        image_shape: tuple[int, ...] | None = None,
        title: str = "",
        findings: Any = None,
        **selection: Any,
    ) -> None:
        """Write one HTML page to look at the suspects, decide on each, and export the decisions.

        The page needs nothing else and sends nothing anywhere. `target` is what the labels are
        called, by default as in the frame, or "label": `nearworth apply` looks for this column.
        `ids` has a name for each row. With an `image_shape`, (height, width) or (height, width,
        channels), rows are shown as images. `findings` are those of a scan, for further tabs. The
        selection (fraction, rule or max_fdr) is that of `suspects`.
        """
        from nearworth.report import write_report
        from nearworth.tables.dataset import Dataset

        self._need_data("report")
        X = None if self._estimator.metric == "precomputed" else self._features.data
        id_name = None if ids is None else "id"
        if (series := as_narwhals(ids, "ids")) is not None:
            ids = series.to_arrow()
        names = None if X is None else self._features.names
        target = target or ("label" if self._frame is None else self._frame.target)
        dataset = replace(
            Dataset(X) if self._frame is None else self._frame,
            target=target,
            id_name=id_name,
            ids=ids,
            names=names,
            image_shape=image_shape,
            source=title,
        )
        write_report(self._known, dataset, path, selection, findings)

    def export(
        self,
        tool: str,
        path: Any,
        *,
        rows: Any = None,
        target: str = "label",
        content: Any = None,
        **selection: Any,
    ) -> None:
        """Write rows for another tool: "label-studio", "argilla", "fiftyone" (JSON), "cleanlab" or
        "csv".

        The rows are those given, such as a `review_sample`, or `suspects` of the selection.
        `content` is what people shall see: a mapping of names (such as "text" or "image") to a
        value for each row; `target` names the question.
        """
        chosen = self.suspects(**selection) if rows is None else np.asarray(rows, dtype=np.intp)
        export(self, tool, path, chosen, target, content or {})

    def read_answers(
        self, tool: str, path: str | os.PathLike[str], *, target: str = "label"
    ) -> Answers:
        """What people answered there: rows and is_wrong for `reviewed`, and save(path) for
        `nearworth apply`.
        """
        return read_answers(self, tool, path, target)

    def plot(self, ax: Any = None, *, bins: int = 40) -> Any:
        """Histogram of quality, suspects hatched; returns matplotlib axes."""
        return plot_audit(self.quality, self.ISSUE, ax, bins)

    def __repr__(self) -> str:
        n, classes = len(self._rows), self.classes
        kind = (
            number_of("target", n)
            if classes is None
            else f"{number_of('label', n)} in {len(classes)} classes"
        )
        issues = (
            f"{int(self.is_label_issue.sum()):,} more likely wrong than right; wrong in all"
            f" {self.n_errors}"
        )
        about = f"LabelAudit of {kind}: {issues}", self.describe_copies().rstrip("."), *self.notes
        return one_line(". ".join(filter(None, about)))

    def _repr_html_(self) -> str:
        worst = self.suspects()[:SHOWN]
        columns = [
            worst if self.index is None else self.index[worst],
            self.given[worst],
            self.suggested[worst],
        ]
        rows = [
            [*row, f"{quality:.3f}"]
            for *row, quality in zip(*columns, self.quality[worst], strict=True)
        ]
        return html_table(
            rows,
            ("worst rows", "given", "suggested", "probability right") if rows else (),
            repr(self),
        )
