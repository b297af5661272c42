"""Payments to the cent, statements and comparisons."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import pytest

import nearworth as nw
from helpers.definition import defined_values, utility_function
from nearworth.results.owners import OwnerValue, OwnerValues


def owners_of(totals):
    overall = sum(totals.values())
    return OwnerValues(
        {
            name: OwnerValue(total, math.nan, total / overall, 1, total, total)
            for name, total in totals.items()
        }
    )


def in_cents(payments):
    cents = [round(100 * amount) for amount in payments.values()]
    assert [cent / 100 for cent in cents] == list(payments.values())
    return cents


def test_payments_add_up_to_the_cent(rng):
    for _ in range(300):
        totals = dict(enumerate(rng.normal(size=rng.integers(1, 9)) * 10.0 ** rng.integers(-8, 8)))
        budget = int(rng.integers(0, 10**6)) / 100
        if max(totals.values()) > 0:
            paid = in_cents(owners_of(totals).payments(budget))
            assert sum(paid) == round(100 * budget)
            positive = sum(total for total in totals.values() if total > 0)
            for cent, total in zip(paid, totals.values(), strict=True):
                assert abs(cent - 100 * budget * max(total, 0.0) / positive) < 1
        if sum(totals.values()) > 1e-3 * max(map(abs, totals.values())):
            assert sum(in_cents(owners_of(totals).payments(budget, negative="charge"))) == round(
                100 * budget
            )


def test_the_left_over_cents_go_to_the_largest_remainders():
    assert owners_of({"a": 1.0, "b": 1.0, "c": 1.0}).payments(1) == {
        "a": 0.34,
        "b": 0.33,
        "c": 0.33,
    }
    assert owners_of({"a": 1.0, "b": 2.0}).payments(0.01) == {"a": 0.0, "b": 0.01}
    assert owners_of({"a": 1.0, "b": 5.0}).payments(Decimal("0.05")) == {"a": 0.01, "b": 0.04}


def test_negative_values():
    owners = owners_of({"a": 3.0, "b": -1.0})
    assert owners.payments(100) == {"a": 100.0, "b": 0.0}
    assert owners.payments(100, negative="charge") == {"a": 150.0, "b": -50.0}
    with pytest.raises(ValueError, match="owner 'b'"):
        owners.payments(100, negative="error")
    assert owners_of({"a": 3.0}).payments(100, negative="error") == {"a": 100.0}
    with pytest.raises(ValueError, match="no share to pay by"):
        owners_of({"a": -1.0}).payments(100)
    with pytest.raises(ValueError, match="negative='none'"):
        owners.payments(100, negative="none")


@pytest.mark.parametrize("budget", [-1, 0.001, "much", math.nan, True, None, math.inf])
def test_amounts_that_cannot_be_paid(budget):
    with pytest.raises(ValueError, match="budget must be an amount"):
        owners_of({"a": 1.0}).payments(budget)


@pytest.fixture
def problem(rng):
    y = np.array([0, 1] * 4)
    q = np.array([0, 1])
    X = rng.normal(size=(8, 2)) + 9.0 * y[:, None]
    Q = rng.normal(size=(2, 2)) + 9.0 * q[:, None]
    return X, y, np.array(list("aabbccca")), Q, q


def test_the_analyst_is_paid_by_the_composite_game(problem):
    X, y, names, Q, q = problem
    est = nw.KNNShapley(2, utility="original").fit(X, y)
    owners = est.value_owners(names, Q, q)
    expected = np.zeros(4)
    for point, label in zip(Q, q, strict=True):
        game = utility_function(
            "classification",
            "original",
            ((X - point) ** 2).sum(1).tolist(),
            y.tolist(),
            label,
            2,
            2,
        )
        rows = [np.flatnonzero(names == name).tolist() for name in "abc"]

        def with_analyst(members, rows=rows, game=game):
            return (
                game(tuple(sorted(i for o in members if o < 3 for i in rows[o])))
                if 3 in members
                else 0
            )

        expected += defined_values(with_analyst, 4, "shapley") / 2
    paid = owners.payments(1000, negative="charge", analyst=True)
    assert list(paid) == ["a", "b", "c", "analyst"]
    np.testing.assert_allclose(list(paid.values()), 1000 * expected / expected.sum(), atol=0.01)
    assert sum(in_cents(paid)) == 100_000
    composite = (
        nw.KNNShapley(2, utility="original", semivalue="composite")
        .fit(X, y)
        .value_owners(names, Q, q)
    )
    np.testing.assert_allclose(
        [value.total for value in composite.values()], expected[:3], atol=1e-13
    )
    for other in (composite, pickle.loads(pickle.dumps(owners)), est.value(Q, q).sum_by(names)):
        with pytest.raises(ValueError, match="analyst=True needs"):
            other.payments(1000, analyst=True)
    with pytest.raises(ValueError, match="called 'analyst' already"):
        est.value_owners(np.where(names == "a", "analyst", names), Q, q).payments(10, analyst=True)


def test_a_statement_says_how_and_from_what(problem):
    X, y, names, Q, q = problem
    owners = nw.KNNShapley(2, standard_errors=True).fit(X, y).value_owners(names, Q, q)
    statement = owners.statement("a", budget=50, negative="zero")
    assert statement["rows"] == 3
    assert statement["payment"] == owners.payments(50, "zero")["a"]
    assert statement["parameters"]["n_neighbors"] == 2
    assert statement["training_fingerprint"] == owners.origin.training
    assert json.loads(json.dumps(statement)) == statement
    assert "payment" in str(statement)
    assert "payment" not in owners.statement("b")
    with pytest.raises(KeyError, match="no owner 'z'"):
        owners.statement("z")


def test_two_periods_compared(problem):
    X, y, names, Q, q = problem
    est = nw.KNNShapley(2).fit(X, y)
    earlier = OwnerValues.from_json(est.value_owners(names, Q, q).to_json())
    assert est.value_owners(names, Q, q).compare(earlier).reasons == []
    later = (
        nw.KNNShapley(3)
        .fit(X[2:], y[2:])
        .value_owners(np.where(names == "c", "d", names)[2:], Q[:1], q[:1])
    )
    changes = later.compare(earlier)
    assert {owner: change.status for owner, change in changes.items()} == {
        "a": "stayed",
        "b": "stayed",
        "c": "withdrew",
        "d": "joined",
    }
    assert (changes["a"].before.n_rows, changes["a"].now.n_rows) == (3, 1)
    assert changes["d"].before.total == 0.0
    told = " ".join(changes.reasons)
    assert "n_neighbors" in told
    assert "training" in told
    assert "validation" in told
    assert "withdrew" in repr(changes)


def test_owners_that_are_numbers_are_the_same_owners_in_a_file(problem):
    X, y, _, Q, q = problem
    owners = nw.KNNShapley(2).fit(X, y).value_owners(np.arange(8) % 3, Q, q)
    changes = owners.compare(OwnerValues.from_json(owners.to_json()))
    assert {owner: change.status for owner, change in changes.items()} == {
        0: "stayed",
        1: "stayed",
        2: "stayed",
    }


def test_what_is_not_known_is_no_number_in_json(problem):
    """NaN is no JSON: a standard error from one validation point, a share of nothing."""
    X, y, names, Q, _ = problem
    est = nw.KNNShapley(2, utility="original", standard_errors=True).fit(X, y)
    with pytest.warns(UserWarning, match="no training point carries"):
        owners = est.value_owners(names, Q[:1], [7])
    json.dumps(json.loads(owners.to_json()), allow_nan=False)
    assert math.isnan(OwnerValues.from_json(owners.to_json())["a"].standard_error)
    assert "share" not in json.loads(json.dumps(owners.statement("a"), allow_nan=False))


def test_a_statement_names_the_rules_of_its_payment(problem):
    X, y, names, Q, q = problem
    owners = nw.KNNShapley(2).fit(X, y).value_owners(names, Q, q)
    assert owners.statement("a", 50)["payment_rules"] == {"negative": "zero", "analyst": False}
    assert "negative charge, analyst True" in str(
        owners.statement("a", 50, negative="charge", analyst=True)
    )


def test_amounts_that_floats_cannot_tell_to_the_cent():
    with pytest.raises(ValueError, match="cannot be told to the cent"):
        owners_of({"a": 1.0, "b": 2.0}).payments(10**16)
    with pytest.raises(ValueError, match="cannot be told to the cent"):
        owners_of({"a": 1.0, "b": -0.999999}).payments(10**13, negative="charge")
    with pytest.raises(ValueError, match="no share to pay by"):  # what is left is rounding
        owners_of({"a": 0.3, "b": -0.1, "c": -0.2 + 1e-17}).payments(100, negative="charge")


def test_the_page_of_many_owners_is_made_at_once(monkeypatch):
    from nearworth.report.page import render_statements

    owners = owners_of({f"o{i}": 1.0 for i in range(50)})
    calls = []
    payments = OwnerValues.payments
    monkeypatch.setattr(
        OwnerValues,
        "payments",
        lambda *given, **rules: calls.append(1) or payments(*given, **rules),
    )
    assert "Statement for o49" in render_statements(owners, "train.csv", 100, {})
    assert len(calls) == 1


def test_validation_rows_that_are_training_rows_are_warned_of(rng):
    X = rng.normal(size=(60, 2))
    y = rng.integers(0, 2, 60)
    with pytest.warns(UserWarning, match="40 of 40 rows are training rows too") as told:
        nw.KNNShapley(2).fit(X, y).value_owners(np.arange(60) % 3, X[:40], y[:40]).payments(
            1, analyst=True
        )
    assert len(told) == 1


@pytest.mark.parametrize(
    "owners",
    [[7, "7", 7, "7", "a", "a"], ["b\n", r"b\n", "a", "a", "a", "a"], [True, "True", *"aabb"]],
)
def test_owners_that_print_alike_are_refused(owners):
    labels = np.array(owners, dtype=object)
    est = nw.KNNShapley(2).fit(np.arange(6.0)[:, None], [0, 1, 0, 1, 0, 1])
    with pytest.raises(
        ValueError, match="^owner_of_row: .* print alike. Write them alike if they are the same"
    ):
        est.value_owners(labels, [[0.5]], [0])
    with pytest.raises(ValueError, match="^owner_of_row: .* print alike"):
        est.plan(3, owner_of_row=labels)
    with pytest.raises(ValueError, match="^owners: .* print alike"):
        est.value([[0.5]], [0]).sum_by(owners)
    made = owners_of(dict.fromkeys(owners, 1.0))
    with pytest.raises(ValueError, match="^owners: .* print alike"):
        made.to_json()
    with pytest.raises(ValueError, match="^earlier: .* print alike"):
        owners_of({"a": 1.0}).compare(made)


def test_json_has_every_owner():
    made = owners_of({7: 1.0, "8": 2.0, "a": 3.0, ("b", 1): 4.0})
    assert len(OwnerValues.from_json(made.to_json())) == len(made)


def test_a_name_makes_neither_lines_nor_cells():
    name = "bob\n      5,000.00  mallory   9   0.5\x1b[1m"
    made = owners_of({"alice": 1.0, name: 3.0})
    shown = r"bob\n \x20\x20\x20\x20\x205,000.00 \x20mallory \x20\x209 \x20\x200.5\x1b[1m"
    header, *rows = repr(made).splitlines()
    assert len(header.split("  ")[0]) == len("owner")
    assert [row.split("  ")[0] for row in rows] == ["alice", shown]
    html = made._repr_html_()
    assert html.count("<tr>") == 3
    assert html.count("<td") == 3 * 4
    statement = str(made.statement(name, 100))
    assert [line.split("  ")[0] for line in statement.splitlines()] == [
        line.split("  ")[0] for line in str(made.statement("alice", 100)).splitlines()
    ]
    assert "\x1b" not in statement
    assert "\x1b" not in repr(made.compare(owners_of({name: 1.0})))
    assert len(repr(made.compare(owners_of({name: 1.0}))).splitlines()) == 2


def test_owner_values_are_read_like_a_mapping_and_cannot_be_changed():
    owners = owners_of({"a": 1.0, "b": 3.0})
    assert isinstance(owners, Mapping)
    assert list(owners) == list(owners.keys()) == ["a", "b"]
    assert [value.total for value in owners.values()] == [1.0, 3.0]
    assert dict(owners.items()) == dict(owners)
    assert {**owners} == dict(owners)
    assert repr(pickle.loads(pickle.dumps(owners))) == repr(owners)
    assert owners.get("c") is None
    assert "c" not in owners
    with pytest.raises(KeyError):
        owners["c"]
    for name in ("pop", "popitem", "clear", "update", "setdefault"):
        assert not hasattr(owners, name)
    with pytest.raises(TypeError):
        owners["c"] = owners["a"]
    with pytest.raises(TypeError):
        del owners["a"]
