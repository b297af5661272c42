"""Values by owner, for people who pay for data: payments, statements, and two periods compared."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from nearworth._common.frames import html_table, make_frame
from nearworth._common.text import cell, one_line, refuse_alike
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.inputs.parameters import one_of
from nearworth.results.sums import GAME, SELF, Origin

# The name of the one who makes the model, among owners in payments.
ANALYST = "analyst"
ROWS_AS_PLAYERS = "sum over rows, each a player"
NOT_EXACT = "Values are not exact: totals lie between `lower` and `upper` of each owner."
# Owners named in a message.
MAX_NAMED_OWNERS = 10
# A sum of values that is less than this share of their sizes may be nothing but rounding errors.
MAX_ROUNDING_SHARE = Fraction(1, 10**12)
# Larger whole numbers are not all 64-bit floats.
MAX_CENTS = 2**53

Amount: TypeAlias = int | float | str | Decimal
NegativeRule: TypeAlias = Literal["zero", "charge", "error"]


class OwnerValue(NamedTuple):
    """The value of one owner's rows together.

    Attributes
    ----------
    total : float
        The value.
    standard_error : float
        Standard error of `total` over the validation sample, with the covariances between rows.
        NaN when it is not known.
    share : float
        The part of the value of all rows. NaN when these have the value 0.
    n_rows : int
        Number of rows.
    lower : float
        Certified lower end of `total`, which it equals where values are exact.
    upper : float
        Certified upper end of `total`, which it equals where values are exact.
    """

    total: float
    standard_error: float
    share: float
    n_rows: int
    lower: float
    upper: float


# An owner that had or has no rows.
NO_ROWS = OwnerValue(0.0, math.nan, 0.0, 0, 0.0, 0.0)


class Statement(dict[str, Any]):
    """A statement for one owner. It prints as text, and `json.dumps` takes it as it is.

    Notes
    -----
    The entries are `owner`, `rows` (their number), `value`, `standard_error` and `share` where they
    are known, and `how` (what the players were). With a budget there are also `budget`, `payment`
    and `payment_rules`. `parameters`, `version`, `training_fingerprint` and
    `validation_fingerprint` identify the computation, as in `Origin`.
    """

    def __str__(self) -> str:
        width = max(map(len, self))
        lines = []
        for name, entry in self.items():
            title = name.replace("_", " ")
            lines.append(f"{title:<{width}}  {one_line(_as_text(name, entry))}")
        return "\n".join(lines)


def _as_text(name: str, entry: Any) -> str:
    """An entry of a statement, given its name, for people."""
    if isinstance(entry, dict):
        return ", ".join(f"{key} {value}" for key, value in entry.items() if value is not None)
    if isinstance(entry, list):
        sets = ["the rows themselves, in turn" if item == SELF else str(item) for item in entry]
        return ", ".join(sets)
    if name == "share":
        return f"{entry:.2%}"
    if name in ("budget", "payment"):
        return f"{float(entry):,.2f}"
    if isinstance(entry, float):
        return f"{entry:.6g}"
    return str(entry)


class Change(NamedTuple):
    """An owner in two periods.

    Attributes
    ----------
    status : {"joined", "withdrew", "stayed"}
        Whether it has rows in the later period only, in the earlier period only, or in both.
    before : OwnerValue
        Its value in the earlier period. Without rows it is 0, with a standard error of NaN.
    now : OwnerValue
        Its value in the later period. Without rows it is 0, with a standard error of NaN.
    """

    status: str
    before: OwnerValue
    now: OwnerValue


class Comparison(dict[Any, Change]):
    """A mapping from owners to their `Change` between two periods. Prints as a table.

    Attributes
    ----------
    reasons : list of str
        What else is different between the periods, such as parameters or data.
    """

    def __init__(self, changes: Mapping[Any, Change], reasons: list[str]) -> None:
        super().__init__(changes)
        self.reasons = reasons

    def __repr__(self) -> str:
        lines = []
        for owner, (status, before, now) in self.items():
            n_rows = f"{before.n_rows:,} -> {now.n_rows:,} rows"
            total = f"total {before.total:.6g} -> {now.total:.6g}"
            share = f"share {before.share:.1%} -> {now.share:.1%}"
            lines.append(f"{cell(owner):<12} {status:<8}  {n_rows},  {total},  {share}")
        lines += [f"changed: {one_line(reason)}" for reason in self.reasons]
        return "\n".join(lines)


class OwnerValues(Mapping[Any, OwnerValue]):
    """A mapping from owners to their `OwnerValue`, in order of first appearance.

    Made by `Valuation.sum_by`, `KNNShapley.value_owners` and `OwnerValues.from_json`. It prints as
    a table and cannot be changed.

    Attributes
    ----------
    how : str
        What the players were, in words.
    origin : Origin
        Which data and parameters the values come from.
    """

    def __init__(
        self,
        values: Mapping[Any, OwnerValue],
        backend: str | None = None,
        *,
        how: str = ROWS_AS_PLAYERS,
        origin: Origin | None = None,
        composite: Callable[[], OwnerValues] | None = None,
    ) -> None:
        self.how = how
        self.origin = Origin() if origin is None else origin
        self._values: dict[Any, OwnerValue] = dict(values)
        self._backend = backend
        # Makes the values of the composite game, for `payments(analyst=True)`.
        self._composite = composite

    def __getitem__(self, owner: Any) -> OwnerValue:
        return self._values[owner]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getstate__(self) -> dict[str, Any]:
        # The function that makes the composite values holds all data.
        return self.__dict__ | {"_composite": None}

    def payments(
        self, budget: Amount, negative: NegativeRule = "zero", analyst: bool = False
    ) -> dict[Any, float]:
        """Split a budget by value, to the cent.

        Amounts are rounded down, and the cents left over go to the largest remainders.

        Parameters
        ----------
        budget : int, float, str or Decimal
            An amount of money with at most two decimal places.
        negative : {"zero", "charge", "error"}
            Owners of negative value get nothing ("zero") or pay for it ("charge"), or there is an
            error.
        analyst : bool, default=False
            Also pay the one who makes the model, as owner "analyst": its share of the composite
            game, in which owners without an analyst are worth nothing. Needs
            `KNNShapley.value_owners` with semivalue="shapley", and a second run.

        Returns
        -------
        dict
            An amount for each owner. The amounts add up to the budget.
        """
        one_of("zero", "charge", "error")("negative", negative)
        totals = {owner: value.total for owner, value in self.items()}
        if analyst:
            totals = self._totals_with_analyst(totals)
        harmful = [owner for owner, total in totals.items() if total < 0]
        if harmful and negative == "error":
            raise ValueError(
                f"negative='error': owner {harmful[0]!r} has a negative value. Use 'zero' or"
                " 'charge'."
            )
        if negative == "zero":
            totals = {owner: max(total, 0.0) for owner, total in totals.items()}
        cents = _split_cents(in_cents(budget), [Fraction(total) for total in totals.values()])
        return {owner: cent / 100 for owner, cent in zip(totals, cents, strict=True)}

    def _totals_with_analyst(self, totals: Mapping[Any, float]) -> dict[Any, float]:
        """Totals of the composite game, in which the analyst has what owners lose to it."""
        if self._composite is None:
            raise ValueError(
                "analyst=True needs exact Shapley values as value_owners returned them, not saved"
                " ones."
            )
        if ANALYST in map(one_line, totals):
            raise ValueError(f"analyst=True: an owner is called {ANALYST!r} already. Rename it.")
        composite = {owner: value.total for owner, value in self._composite().items()}
        return {**composite, ANALYST: sum(totals.values()) - sum(composite.values())}

    def statement(
        self,
        owner: Any,
        budget: Amount | None = None,
        *,
        negative: NegativeRule = "zero",
        analyst: bool = False,
    ) -> Statement:
        """Make a statement for one owner: its value, how that was computed, and its payment.

        Parameters
        ----------
        owner : any
            A key of this mapping.
        budget : int, float, str or Decimal, optional
            The amount to split between all owners. None for a statement without a payment.
        negative, analyst
            As in `payments`.

        Returns
        -------
        Statement

        Raises
        ------
        KeyError
            If there is no such owner.
        """
        payments = None
        if budget is not None:
            payments = self.payments(budget, negative, analyst)
        rules = {"negative": negative, "analyst": analyst}
        return self.statement_of(owner, budget, payments, rules)

    def statement_of(
        self,
        owner: Any,
        budget: Amount | None,
        payments: Mapping[Any, float] | None,
        rules: Mapping[str, Any],
    ) -> Statement:
        """Make a statement from payments that were computed once for all owners.

        Parameters
        ----------
        owner : any
            A key of this mapping.
        budget : int, float, str or Decimal, or None
        payments : dict or None
            What `payments` returned. None without a budget.
        rules : dict
            The keyword arguments that `payments` was called with.

        Returns
        -------
        Statement
        """
        if owner not in self:
            names = ", ".join(map(repr, list(self)[:MAX_NAMED_OWNERS]))
            raise KeyError(f"There is no owner {owner!r}. The owners are {names}.")
        value = self[owner]
        statement = Statement(owner=owner, rows=value.n_rows, value=value.total)
        # JSON has no NaN, so what is not known is left out.
        if not math.isnan(value.standard_error):
            statement["standard_error"] = value.standard_error
        if not math.isnan(value.share):
            statement["share"] = value.share
        if budget is not None:
            assert payments is not None
            statement["budget"] = in_cents(budget) / 100
            statement["payment"] = payments[owner]
            statement["payment_rules"] = {"negative": "zero", "analyst": False, **rules}
        statement["how"] = self.how
        statement["parameters"] = dict(self.origin.parameters)
        statement["version"] = self.origin.version
        statement["training_fingerprint"] = self.origin.training
        statement["validation_fingerprint"] = self.origin.validation_fingerprints
        return statement

    def compare(self, earlier: OwnerValues) -> Comparison:
        """Compare with an earlier period: who joined, who withdrew, and what else is different.

        Owners are matched by their text, because an owner 7 is "7" in a file.

        Parameters
        ----------
        earlier : OwnerValues

        Returns
        -------
        Comparison
            A mapping from every owner of the two periods to its `Change`.
        """
        refuse_alike(self, "owners")
        refuse_alike(earlier, "earlier")
        owner_by_text = {str(owner): owner for owner in self}
        before = {owner_by_text.get(str(owner), owner): value for owner, value in earlier.items()}
        changes = {}
        for owner in dict.fromkeys([*before, *self]):
            if owner not in before:
                status = "joined"
            elif owner not in self:
                status = "withdrew"
            else:
                status = "stayed"
            changes[owner] = Change(status, before.get(owner, NO_ROWS), self.get(owner, NO_ROWS))
        return Comparison(changes, self._other_differences(earlier))

    def _other_differences(self, earlier: OwnerValues) -> list[str]:
        """What is different from an earlier period apart from the owners, in words."""
        reasons = []
        if self.how != earlier.how:
            reasons.append(f"how values are computed ({earlier.how}; now {self.how})")
        reasons += earlier.origin.differences(self.origin, GAME)
        if earlier.origin.validation_fingerprints != self.origin.validation_fingerprints:
            reasons.append("the validation set")
        return reasons

    def to_json(self) -> str:
        """Write everything as JSON, for `from_json`. Owners become text."""
        refuse_alike(self, "owners")
        owners = {}
        for owner, value in self.items():
            # JSON has no NaN.
            owners[str(owner)] = [None if math.isnan(number) else number for number in value]
        origin = self.origin.to_json()
        return json.dumps({"how": self.how, "origin": origin, "owners": owners}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> OwnerValues:
        """Read text that `to_json` wrote, to compare with."""
        description = json.loads(text)
        values = {}
        for owner, numbers in description["owners"].items():
            values[owner] = OwnerValue._make(math.nan if x is None else x for x in numbers)
        origin = Origin.from_json(description["origin"])
        return cls(values, how=description["how"], origin=origin)

    def to_frame(self, backend: str | None = None) -> Any:
        """Make a frame with one row per owner.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default the library that X came in, else one that is installed.

        Returns
        -------
        frame
            The columns are `owner` and the fields of `OwnerValue`, without `lower` and `upper`
            where values are exact.
        """
        columns: dict[str, list[Any]] = {"owner": list(self)}
        for field in OwnerValue._fields:
            if self._is_exact and field in ("lower", "upper"):
                continue
            columns[field] = [getattr(value, field) for value in self.values()]
        return make_frame(columns, backend, self._backend)

    @property
    def _is_exact(self) -> bool:
        return not any(value.lower < value.upper for value in self.values())

    def __repr__(self) -> str:
        rows = self._printed_rows()
        width = max(len(name) for name, *_ in rows)
        lines = [
            f"{name:<{width}}  {n_rows:>8}  {total:>12}  {error:>10}  {share:>7}"
            for name, n_rows, total, error, share in rows
        ]
        if not self._is_exact:
            lines.append(NOT_EXACT)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = self._printed_rows()
        if not self._is_exact:
            rows.append((NOT_EXACT,))
        return html_table(rows)

    def _printed_rows(self) -> list[tuple[str, ...]]:
        """The cells of the printed table, the header first."""
        rows: list[tuple[str, ...]] = [("owner", "rows", "total", "std. error", "share")]
        for owner, value in self.items():
            rows.append(
                (
                    cell(owner),
                    f"{value.n_rows:,}",
                    f"{value.total:.6g}",
                    f"{value.standard_error:.2g}",
                    f"{value.share:.1%}",
                )
            )
        return rows


def in_cents(budget: Amount) -> int:
    """An amount of money as whole cents. Raises ValueError if it is none."""
    with suppress(InvalidOperation, OverflowError):
        cents = Decimal(str(budget)) * 100
        if cents >= 0 and cents == int(cents):
            return int(cents)
    raise ValueError(
        f"budget must be an amount of money, not negative, such as 10000 or 99.95; got {budget!r}."
    )


def _split_cents(cents: int, weights: Sequence[Fraction]) -> list[int]:
    """Whole cents in proportion to the weights, which add up to `cents`.

    Parts are rounded down. Then one more cent goes to each of the largest remainders.
    """
    total = sum(weights)
    if total <= 0 or total < MAX_ROUNDING_SHARE * sum(map(abs, weights)):
        raise ValueError(
            "payments: the values to pay for add up to nothing, so that there is no share to"
            " pay by."
        )
    exact = [cents * weight / total for weight in weights]
    whole = [math.floor(amount) for amount in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])
    n_left = cents - sum(whole)
    for i in by_remainder[:n_left]:
        whole[i] += 1
    if max(map(abs, whole)) > MAX_CENTS:
        raise ValueError(
            "budget: amounts beyond 90 million million cannot be told to the cent. Use a larger"
            " unit."
        )
    return whole


def owner_values_from_rows(
    labels: Sequence[Any],
    codes: IntVector,
    row_intervals: FloatMatrix,
    errors: FloatVector | None,
    *,
    backend: str | None = None,
    how: str = ROWS_AS_PLAYERS,
    origin: Origin | None = None,
) -> OwnerValues:
    """Values of owners as sums of the values of their rows.

    Parameters
    ----------
    labels : sequence of length M
        The owners.
    codes : array of shape (N,)
        The owner of row i is labels[codes[i]].
    row_intervals : array of shape (3, N)
        Values of rows, their lower and their upper ends.
    errors : array of shape (M,) or None
        Standard errors of the totals, where they are known.
    backend, how, origin
        As in OwnerValues.
    """
    sums = [np.bincount(codes, row_values, len(labels)) for row_values in row_intervals]
    intervals: FloatMatrix = np.stack(sums).astype(np.float64)
    return owner_values_from_totals(
        labels, codes, intervals, errors, backend=backend, how=how, origin=origin
    )


def owner_values_from_totals(
    labels: Sequence[Any],
    codes: IntVector,
    intervals: FloatMatrix,
    errors: FloatVector | None,
    *,
    backend: str | None = None,
    how: str = ROWS_AS_PLAYERS,
    origin: Origin | None = None,
    composite: Callable[[], OwnerValues] | None = None,
) -> OwnerValues:
    """Values of owners from their totals.

    Parameters
    ----------
    labels, codes, errors
        As in `owner_values_from_rows`.
    intervals : array of shape (3, M)
        Totals of the owners, their lower and their upper ends.
    backend, how, origin, composite
        As in OwnerValues.
    """
    totals, lower, upper = intervals
    unknown = np.full(len(labels), np.nan)
    overall = totals.sum()
    shares = totals / overall if overall != 0 else unknown
    if errors is None:
        errors = unknown
    n_rows = np.bincount(codes, minlength=len(labels))
    columns = (totals, errors, shares, n_rows, lower, upper)
    by_owner = zip(*(column.tolist() for column in columns), strict=True)
    values = {label: OwnerValue(*fields) for label, fields in zip(labels, by_owner, strict=True)}
    return OwnerValues(values, backend, how=how, origin=origin, composite=composite)
