"""Values by owner, for people who pay for data: payments to the cent, statements, two periods
compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np

from nearworth._common.frames import html_table, make_frame
from nearworth._common.text import cell, one_line, refuse_alike
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth.inputs.parameters import one_of
from nearworth.results.sums import GAME, Origin

ANALYST = "analyst"
NOT_EXACT = "Values are not exact: totals lie between `lower` and `upper` of each owner."


class OwnerValue(NamedTuple):
    """What one owner's rows are worth together.

    `standard_error` is that of the total over the validation sample (covariances between rows
    included), NaN when it is not known; `share` is the part of the value of all rows. The total
    certainly lies between `lower` and `upper`, and equals both where values are exact.
    """

    total: float
    standard_error: float
    share: float
    n_rows: int
    lower: float
    upper: float


class Statement(dict[str, Any]):
    """What one owner is told; prints as text, and `json.dumps` takes it as it is."""

    def __str__(self) -> str:
        width = max(map(len, self))
        return "\n".join(
            f"{name.replace('_', ' '):<{width}}  {one_line(_plainly(name, self[name]))}"
            for name in self
        )


def _plainly(name: str, entry: Any) -> str:
    if isinstance(entry, dict):
        return ", ".join(f"{key} {value}" for key, value in entry.items() if value is not None)
    if isinstance(entry, list):
        return ", ".join(
            "the rows themselves, in turn" if part == "self" else str(part) for part in entry
        )
    if name == "share":
        return f"{entry:.2%}"
    if name in ("budget", "payment"):
        return f"{float(entry):,.2f}"
    return f"{entry:.6g}" if isinstance(entry, float) else str(entry)


class Change(NamedTuple):
    """An owner in two periods: "joined", "withdrew" or "stayed", and what it had before and has
    now.
    """

    status: str
    before: OwnerValue
    now: OwnerValue


class Comparison(dict[Any, Change]):
    """Owner -> Change; `reasons` says what else is different between the periods. Prints as a
    table.
    """

    def __init__(self, changes: Mapping[Any, Change], reasons: list[str]) -> None:
        super().__init__(changes)
        self.reasons = reasons

    def __repr__(self) -> str:
        lines = [
            f"{cell(owner):<12} {status:<8}  {before.n_rows:,} -> {now.n_rows:,} rows,  total"
            f" {before.total:.6g} -> {now.total:.6g},  share {before.share:.1%} -> {now.share:.1%}"
            for owner, (status, before, now) in self.items()
        ]
        return "\n".join([*lines, *(f"changed: {one_line(reason)}" for reason in self.reasons)])


class OwnerValues(dict[Any, OwnerValue]):
    """Owner -> OwnerValue, in order of first appearance; prints as a table.

    `how` says in words what the players were, `origin` which data and parameters the values come
    from.
    """

    def __init__(
        self,
        rows: Mapping[Any, OwnerValue],
        backend: str | None = None,
        *,
        how: str = "sum over rows, each a player",
        origin: Origin | None = None,
        composite: Callable[[], OwnerValues] | None = None,
    ) -> None:
        super().__init__(rows)
        self._backend, self.how, self.origin, self._composite = (
            backend,
            how,
            origin or Origin(),
            composite,
        )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_composite": None}  # which needs the data

    def payments(
        self,
        budget: Any,
        negative: Literal["zero", "charge", "error"] = "zero",
        analyst: bool = False,
    ) -> dict[Any, float]:
        """Split a budget by value, to the cent: owner -> amount. The amounts add up to the budget.

        Amounts are rounded down, and the cents left over go to the largest remainders. Owners of
        negative value get nothing ("zero"), pay for it ("charge"), or are an error. With
        `analyst=True` the entry "analyst" is the share of the one who makes the model: of the
        composite game, in which owners without an analyst are worth nothing (needs
        `KNNShapley.value_owners` with semivalue="shapley", and a second run).
        """
        one_of("zero", "charge", "error")("negative", negative)
        totals = {owner: value.total for owner, value in self.items()}
        if analyst:
            totals = self._with_analyst(totals)
        harmful = [owner for owner, total in totals.items() if total < 0]
        if harmful and negative == "error":
            raise ValueError(
                f"negative='error': owner {harmful[0]!r} has a negative value. Use 'zero' or"
                " 'charge'."
            )
        if negative == "zero":
            totals = {owner: max(total, 0.0) for owner, total in totals.items()}
        cents = _split(in_cents(budget), [Fraction(total) for total in totals.values()])
        return {owner: cent / 100 for owner, cent in zip(totals, cents, strict=True)}

    def _with_analyst(self, totals: Mapping[Any, float]) -> dict[Any, float]:
        if self._composite is None:
            raise ValueError(
                "analyst=True needs exact Shapley values as value_owners returned them, not saved"
                " ones."
            )
        if ANALYST in map(one_line, totals):
            raise ValueError(f"analyst=True: an owner is called {ANALYST!r} already. Rename it.")
        data = {owner: value.total for owner, value in self._composite().items()}
        return {**data, ANALYST: sum(totals.values()) - sum(data.values())}

    def statement(self, owner: Any, budget: Any = None, **rules: Any) -> Statement:
        """What to tell one owner: rows, value, share, payment if there is a budget, how and from
        what it was computed.

        `rules` are those of `payments`.
        """
        return self.statement_of(
            owner, budget, None if budget is None else self.payments(budget, **rules), rules
        )

    def statement_of(
        self, owner: Any, budget: Any, payments: Any, rules: Mapping[str, Any]
    ) -> Statement:
        """The same from the `payments` of the budget, made once for all owners."""
        if owner not in self:
            raise KeyError(
                f"There is no owner {owner!r}. The owners are"
                f" {', '.join(map(repr, list(self)[:10]))}."
            )
        value, origin = self[owner], self.origin
        told: dict[str, Any] = {"owner": owner, "rows": value.n_rows, "value": value.total}
        if not math.isnan(value.standard_error):
            told["standard_error"] = value.standard_error
        if not math.isnan(value.share):
            told["share"] = value.share
        if budget is not None:
            told |= {"budget": in_cents(budget) / 100, "payment": payments[owner]}
            told["payment_rules"] = {"negative": "zero", "analyst": False, **rules}
        told |= {"how": self.how, "parameters": dict(origin.parameters), "version": origin.version}
        told["training_fingerprint"] = origin.training
        told["validation_fingerprint"] = [each.fingerprint for each in origin.validation]
        return Statement(told)

    def compare(self, earlier: OwnerValues) -> Comparison:
        """These owners and those of an earlier period: who joined, who withdrew, what changed and
        what else did.
        """
        nothing, changes = OwnerValue(0.0, math.nan, 0.0, 0, 0.0, 0.0), {}
        refuse_alike(self, "owners")
        refuse_alike(earlier, "earlier")
        names = {str(owner): owner for owner in self}  # an owner 7 is "7" in a file
        before = {names.get(str(owner), owner): value for owner, value in earlier.items()}
        for owner in dict.fromkeys([*before, *self]):
            status = (
                "joined" if owner not in before else "withdrew" if owner not in self else "stayed"
            )
            changes[owner] = Change(status, before.get(owner, nothing), self.get(owner, nothing))
        reasons = (
            []
            if self.how == earlier.how
            else [f"how values are computed ({earlier.how}; now {self.how})"]
        )
        reasons += earlier.origin.differences(self.origin, GAME)
        if [each.fingerprint for each in earlier.origin.validation] != [
            x.fingerprint for x in self.origin.validation
        ]:
            reasons.append("the validation set")
        return Comparison(changes, reasons)

    def to_json(self) -> str:
        """All of it as text, for `from_json`; owners become text."""
        refuse_alike(self, "owners")
        owners = {
            str(owner): [None if x != x else x for x in value] for owner, value in self.items()
        }
        return json.dumps(
            {"how": self.how, "origin": self.origin.to_json(), "owners": owners}, indent=1
        )

    @classmethod
    def from_json(cls, text: str) -> OwnerValues:
        """What `to_json` wrote, to compare with."""
        known = json.loads(text)
        told = {
            owner: (math.nan if x is None else x for x in value)
            for owner, value in known["owners"].items()
        }
        rows = {owner: OwnerValue._make(value) for owner, value in told.items()}
        return cls(rows, how=known["how"], origin=Origin.from_json(known["origin"]))

    def to_frame(self, backend: str | None = None) -> Any:
        """A pandas, polars or pyarrow frame with one row per owner."""
        columns: dict[str, list[Any]] = {"owner": list(self)}
        for field in OwnerValue._fields[: None if self._inexact else -2]:
            columns[field] = [getattr(row, field) for row in self.values()]
        return make_frame(columns, backend, self._backend)

    @property
    def _inexact(self) -> bool:
        return any(row.lower < row.upper for row in self.values())

    def __repr__(self) -> str:
        rows = self._printed_rows()
        width = max(len(name) for name, *_ in rows)
        lines = [
            f"{name:<{width}}  {n_rows:>8}  {total:>12}  {error:>10}  {share:>7}"
            for name, n_rows, total, error, share in rows
        ]
        if self._inexact:
            lines.append(NOT_EXACT)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = self._printed_rows()
        return html_table([*rows, (NOT_EXACT,)] if self._inexact else rows)

    def _printed_rows(self) -> list[tuple[str, ...]]:
        """The cells of the printed table, the header first."""
        rows: list[tuple[str, ...]] = [("owner", "rows", "total", "std. error", "share")]
        for owner, (total, error, share, n_rows, _, _) in self.items():
            rows.append(
                (cell(owner), f"{n_rows:,}", f"{total:.6g}", f"{error:.2g}", f"{share:.1%}")
            )
        return rows


def in_cents(budget: Any) -> int:
    with suppress(InvalidOperation, OverflowError):
        cents = Decimal(str(budget)) * 100
        if cents >= 0 and cents == int(cents):
            return int(cents)
    raise ValueError(
        f"budget must be an amount of money, not negative, such as 10000 or 99.95; got {budget!r}."
    )


def _split(cents: int, weights: Sequence[Fraction]) -> list[int]:
    """Whole cents in proportion to the weights: rounded down, then one more for the largest
    remainders.
    """
    total = sum(weights)
    if total <= 0 or total * 10**12 < sum(map(abs, weights)):  # or no more than rounding errors
        raise ValueError(
            "payments: the values to pay for add up to nothing, so that there is no share to"
            " pay by."
        )
    exact = [cents * weight / total for weight in weights]
    whole = [math.floor(amount) for amount in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])
    for i in by_remainder[: cents - sum(whole)]:
        whole[i] += 1
    if max(map(abs, whole)) > 2**53:
        raise ValueError(
            "budget: amounts beyond 90 million million cannot be told to the cent. Use a larger"
            " unit."
        )
    return whole


def sum_by_owner(
    labels: Sequence[Any], codes: IntVector, values: FloatMatrix, *about: Any, **more: Any
) -> OwnerValues:
    """`of_totals` from the values of rows and their ends (3, N); the owner of a row is
    labels[codes[row]].
    """
    totals: FloatMatrix = np.stack([np.bincount(codes, row, len(labels)) for row in values]).astype(
        np.float64
    )
    return of_totals(labels, codes, totals, *about, **more)


def of_totals(
    labels: Sequence[Any],
    codes: IntVector,
    intervals: FloatMatrix,
    errors: FloatVector | None,
    backend: str | None = None,
    **about: Any,
) -> OwnerValues:
    """From the totals of the owners, their lower and their upper ends (3, M); `about` goes to
    OwnerValues.
    """
    totals, lower, upper = intervals
    overall = totals.sum()
    errors = np.full(len(labels), np.nan) if errors is None else errors
    shares = totals / overall if overall != 0 else np.full(len(labels), np.nan)
    columns = (totals, errors, shares, np.bincount(codes, minlength=len(labels)), lower, upper)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return OwnerValues(
        {label: OwnerValue(*row) for label, row in zip(labels, rows, strict=True)}, backend, **about
    )
