"""Text of a column is taken for what it stands for, by the column as a whole."""

from __future__ import annotations

import pickle
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

import nearworth as nw
from nearworth.tables.readers import find_reader


def read(*cells, na_values=()):
    column = pa.chunked_array([list(cells)])
    return find_reader(column, na_values)(column).to_pylist()


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["$1,234.50", "-$3.20", "$ 12", "+$1"], [1234.5, -3.2, 12, 1]),
        (["45 %", "7.5%", "?"], [45, 7.5, None]),
        (["1.234,5", "12,5", "3"], [1234.5, 12.5, 3]),
        (["1,234", "12"], [1234, 12]),
        (["12 kg", "3kg", "N/A"], [12, 3, None]),
        (["1 234 567", "12 000", "1'000"], [1234567, 12000, 1000]),
        (["1e5", "-2.5E-3", ".5"], [1e5, -2.5e-3, 0.5]),
        (["1e999", "1", *["2"] * 30], [None, 1, *[2] * 30]),
        (["5 €", "€3"], [5, 3]),
    ],
)
def test_numbers(cells, expected):
    assert read(*cells) == expected


@pytest.mark.parametrize(
    "cells",
    [
        ["12 kg", "3 g"],
        ["192.168.1.1", "10.0.0.1"],
        ["1.2.3", "1.2.4"],
        ["1,2,3", "4,5,6"],
        ["--5", "--6"],
        ["A12", "B7"],
        ["1 Main Street", "2 Main Street"],
        ["555-1234", "555-9999"],
        ["10:30 left", "11:40 left"],
    ],
)
def test_other_texts_with_digits_stay_text(cells):
    assert read(*cells) == cells


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["31/12/2020", "01/02/2021", ""], [datetime(2020, 12, 31), datetime(2021, 2, 1), None]),
        (["12/31/2020", "01/02/2021"], [datetime(2020, 12, 31), datetime(2021, 1, 2)]),
        (["01/02/2021", "03/04/2021"], [datetime(2021, 2, 1), datetime(2021, 4, 3)]),
        (["31.12.20", "1.2.21"], [datetime(2020, 12, 31), datetime(2021, 2, 1)]),
        (
            ["12/31/2020 10:00 PM", "1/2/2021 9:15 AM"],
            [datetime(2020, 12, 31, 22), datetime(2021, 1, 2, 9, 15)],
        ),
        (
            ["2020-12-31T10:00:00.5Z", "2021-01-01T10:00:00+01:00"],
            [datetime(2020, 12, 31, 10), datetime(2021, 1, 1, 10)],
        ),
        (["Jan 3, 2020", "March 4, 2021"], [datetime(2020, 1, 3), datetime(2021, 3, 4)]),
        (["3 Jan 2020", "31-Dec-2021"], [datetime(2020, 1, 3), datetime(2021, 12, 31)]),
    ],
)
def test_dates(cells, expected):
    assert read(*cells) == expected


def test_the_order_of_a_date_is_said():
    for cells in (["01/02/2021", "03/04/2021"], ["13/02/2021", "03/04/2021"]):
        assert find_reader(pa.chunked_array([cells])).words == "day first"
    assert find_reader(pa.chunked_array([["01/13/2021", "03/04/2021"]])).words == "month first"


def test_lists_and_nothing():
    assert read("Yes", "no", "None", "yes") == ["Yes", "no", None, "yes"]
    assert read("[0.1, 2]", "[3 4]", "") == [[0.1, 2.0], [3.0, 4.0], None]
    assert read("a", " ? ", "-", "unknown", "nan", na_values=["Unknown"]) == [
        "a",
        None,
        None,
        None,
        None,
    ]
    numbers = pa.chunked_array([[1.0, -999.0, float("inf"), float("nan")]])
    assert find_reader(numbers, ["-999"])(numbers).to_pylist() == [1.0, None, None, None]


def test_a_few_cells_that_are_no_numbers_are_missing_but_not_many():
    assert read(*["1"] * 39, "broken") == [1.0] * 39 + [None]
    assert read(*["1"] * 15, "broken") == ["1"] * 15 + ["broken"]


def test_free_text_does_not_drown_numbers(rng):
    words = [f"word{i}" for i in range(60)]
    table = pa.table(
        {"text": [" ".join(rng.choice(words, 12)) for _ in range(200)], "a": rng.normal(size=200)}
    )
    preparer = nw.TablePreparer().fit(table)
    matrix = preparer.transform(table)
    assert preparer.describe()[0].startswith(
        "text: free text, 50 components of its 60 words, weighed like 4 numbers"
    )
    assert matrix[:, :50].var(axis=0).sum() == pytest.approx(4)
    assert matrix[:, 50].var() == pytest.approx(1)
    again = pickle.loads(pickle.dumps(preparer))
    np.testing.assert_array_equal(again.transform(table), matrix)
    assert np.isfinite(
        preparer.transform(pa.table({"text": ["", "unseen words only"], "a": [1.0, None]}))
    ).all()


def test_rare_categories_are_grouped_and_names_left_out():
    cells = [f"town {i % 50 if i < 150 else i}" for i in range(200)]
    table = pa.table(
        {"town": cells, "code": [f"c{i}" for i in range(200)], "a": np.arange(200) % 7}
    )
    preparer = nw.TablePreparer(max_categories=30).fit(table)
    town, code, _ = preparer.describe()
    assert (
        town
        == "town: 100 categories, a 0/1 column for each of 29 frequent ones, one for the others"
    )
    assert code == "code: left out: a different text in almost every row, as names and ids have"
    matrix = preparer.transform(table)[:, :30]
    np.testing.assert_array_equal(matrix.sum(axis=1), 1)


def test_missing_numbers_are_filled_and_marked():
    table = pa.table({"a": ["1", "?", "3", "8"] * 5})
    preparer = nw.TablePreparer().fit(table)
    assert preparer.get_feature_names_out().tolist() == ["a", "a is missing"]
    assert preparer.transform(table)[:4, 1].tolist() == [0, 1, 0, 0]
    assert preparer.transform(pa.table({"a": [None, 3.0]}))[:, 1].tolist() == [
        1,
        0,
    ]  # numbers, where training had text


def test_ids_are_left_out_but_measurements_stay(rng):
    ids = rng.permutation(10_000)[:50]
    amounts = rng.permutation(10_000)[:50]
    columns = {"customer_id": ids, "userId": ids, "amount": amounts, "grid": amounts, "index": ids}
    lines = nw.TablePreparer().fit(pa.table(columns)).describe()
    assert [line.partition(": ")[0] for line in lines if "left out" in line] == [
        "customer_id",
        "userId",
        "index",
    ]
