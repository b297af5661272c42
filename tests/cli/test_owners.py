"""nearworth owners."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nearworth as nw
from helpers.command_line import flowers, one_line, write_csv
from nearworth.tables.read import read


def make(tmp_path, rng):
    columns, _ = flowers(rng, wrong=(4, 31))
    columns["seller"] = [
        ("<b>north</b>", "south", "=east()")[i % 3] for i in range(len(columns["name"]))
    ]
    trusted = flowers(rng, 30)[0]
    del columns["name"], trusted["name"]
    write_csv(tmp_path / "train.csv", columns)
    write_csv(tmp_path / "trusted.csv", trusted)
    return columns


def test_owners_gives_what_the_api_gives(command, tmp_path, rng):
    columns = make(tmp_path, rng)
    arguments = (
        "owners",
        "train.csv",
        "-t",
        "species",
        "--owner",
        "seller",
        "--validation",
        "trusted.csv",
    )
    code, out, err = command(*arguments, "--budget", "10000", "-o", "owners.csv")
    assert (code, out) == (0, "")
    table = read("owners.csv").table
    preparer = nw.TablePreparer()
    features = ["length", "width", "garden"]
    X = preparer.fit_transform(read("train.csv").table.select(features))
    other = read("trusted.csv").table
    est = nw.KNNShapley(5, standard_errors=True).fit(X, columns["species"])
    expected = est.value_owners(
        columns["seller"], preparer.transform(other.select(features)), other["species"].to_pylist()
    )
    np.testing.assert_allclose(
        table["total"], [value.total for value in expected.values()], rtol=1e-12
    )
    np.testing.assert_allclose(table["payment"], list(expected.payments(10000).values()))
    assert "3 owners" not in err.splitlines()[0]
    assert "<b>north</b>" in err


def test_the_page_holds_statements_and_no_markup_of_the_data(command, tmp_path, rng):
    make(tmp_path, rng)
    arguments = ("owners", "train.csv", "-t", "species", "--owner", "seller")
    given = ["--validation", "trusted.csv", "--budget", "100.01", "--analyst", "-o", "page.html"]
    code, _, err = command(*arguments, *given)
    assert code == 0, err
    page = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;north" in page
    assert "<b>" not in page
    assert "Content-Security-Policy" in page
    assert "analyst" in page
    assert "fingerprint" in page
    assert "http://" not in page
    assert "https://" not in page


def test_json_on_stdout(command, tmp_path, rng):
    make(tmp_path, rng)
    code, out, _ = command(
        "owners",
        "train.csv",
        "-t",
        "species",
        "--owner",
        "seller",
        "--budget",
        "1",
        "--json",
    )
    assert code == 0
    told = json.loads(out)
    assert round(sum(told["payments"].values()), 2) == 1
    assert {row["owner"] for row in told["rows"]} == set(told["payments"])


def test_what_is_refused(command, tmp_path, rng):
    make(tmp_path, rng)
    arguments = ("owners", "train.csv", "-t", "species")
    code, _, err = command(*arguments, "--owner", "saler")
    assert code == 2
    assert "no column 'saler'; it has" in one_line(err)
    code, _, err = command(*arguments, "--owner", "seller", "--budget", "lots", "--quiet")
    assert code == 2
    assert "budget must be an amount" in one_line(err)


def test_owners_as_json_are_read_back(command, tmp_path, rng):
    make(tmp_path, rng)
    assert (
        command("owners", "train.csv", "-t", "species", "--owner", "seller", "-o", "may.json")[0]
        == 0
    )
    assert len(nw.OwnerValues.from_json((tmp_path / "may.json").read_text())) == 3


def test_rows_without_an_owner_are_refused(command, tmp_path, rng):
    columns = make(tmp_path, rng)
    columns["seller"][3] = columns["seller"][7] = ""
    write_csv(tmp_path / "train.csv", columns)
    code, _, err = command(
        "owners", "train.csv", "-t", "species", "--owner", "seller", "-o", "o.html"
    )
    assert code == 2
    assert "--owner seller names no owner in rows 3, 7." in err
    assert not (tmp_path / "o.html").exists()


def test_the_page_of_statements_is_named_and_readable(command, tmp_path, rng):
    make(tmp_path, rng)
    arguments = (
        "owners",
        "train.csv",
        "-t",
        "species",
        "--owner",
        "seller",
        "--budget",
        "100",
    )
    code, _, err = command(*arguments, "-o", "o.html")
    assert code == 0
    assert err.splitlines()[-1].endswith("o.html")
    page = (tmp_path / "o.html").read_text()
    assert "the rows themselves, in turn" in page
    assert "n_candidates" not in page  # parameters that were not given


def test_owners_may_be_numbers_and_none_is_zero(command, tmp_path, rng):
    columns = make(tmp_path, rng)
    columns["seller"] = [i % 3 for i in range(len(columns["seller"]))]
    write_csv(tmp_path / "train.csv", columns)
    arguments = (
        "owners",
        "train.csv",
        "-t",
        "species",
        "--owner",
        "seller",
        "--validation",
        "trusted.csv",
    )
    code, _, err = command(*arguments, "-o", "o.csv")
    assert code == 0, err
    assert read("o.csv").table["owner"].to_pylist() == [0, 1, 2]
    assert command(*arguments, "--budget", "99.99", "--analyst", "-o", "paid.csv")[0] == 0
    paid = read("paid.csv").table
    assert paid["owner"].to_pylist() == ["0", "1", "2", "analyst"]
    assert round(sum(paid["payment"].to_pylist()), 2) == 99.99


def test_payments_are_in_json_files_too(command, tmp_path, rng):
    make(tmp_path, rng)
    arguments = (
        "owners",
        "train.csv",
        "-t",
        "species",
        "--owner",
        "seller",
        "--validation",
        "trusted.csv",
    )
    assert command(*arguments, "--budget", "10", "-o", "may.json")[0] == 0
    text = (tmp_path / "may.json").read_text()
    assert round(sum(json.loads(text)["payments"].values()), 2) == 10
    assert len(nw.OwnerValues.from_json(text)) == 3


def test_a_wrong_budget_is_refused_before_anything_is_read(command):
    code, _, err = command(
        "owners", "none.csv", "-t", "species", "--owner", "seller", "--budget", "10,000"
    )
    assert code == 2
    assert "such as 10000 or 99.95; got '10,000'" in one_line(err)


def test_owners_that_print_alike_are_refused_with_their_file_and_column(command, tmp_path, rng):
    columns = make(tmp_path, rng)
    columns["seller"] = [
        ("bob\nsmith", r"bob\nsmith", "carol")[i % 3] for i in range(len(columns["seller"]))
    ]
    write_csv(tmp_path / "train.csv", columns)
    code, out, err = command(
        "owners", "train.csv", "-t", "species", "--owner", "seller", "-o", "o.json"
    )
    assert (code, out) == (2, "")
    message = err.splitlines()[-1]
    assert message.startswith("nearworth: train.csv: the owner column 'seller': ")
    assert message.endswith("Write them alike if they are the same, or rename one of them.")
    assert not (tmp_path / "o.json").exists()


@pytest.mark.parametrize("name", ["o.json", "o.html", "o.csv"])
def test_nothing_is_printed_on_stdout_unasked(command, tmp_path, rng, name):
    make(tmp_path, rng)
    arguments = (
        "owners",
        "train.csv",
        "-t",
        "species",
        "--owner",
        "seller",
        "--budget",
        "5",
        "-o",
        name,
    )
    code, out, _ = command(*arguments)
    assert (code, out) == (0, "")
    code, out, _ = command(*arguments, "--overwrite", "--json")
    assert code == 0
    assert json.loads(out)["output"] == name
