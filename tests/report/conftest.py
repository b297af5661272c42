"""Pages in a browser, and the audit that several of them show."""

from __future__ import annotations

import numpy as np
import pytest

import nearworth as nw
from helpers.browser import Page, errors_in_console
from helpers.report_pages import made_up
from nearworth.datasets import noisy_digits
from nearworth.report.page import render_report
from nearworth.tables.dataset import Dataset


@pytest.fixture(scope="session")
def digits():
    """The digits with wrong labels, and their audit."""
    data = noisy_digits()
    return data, nw.audit_labels(data.X, data.y, n_neighbors=10)


@pytest.fixture
def show(browser, tmp_path):
    """Open the report of an audit. No error may stand in the console in the end."""

    def open_report(audit, rows, decided=(), suggestions=None, **selection):
        html = render_report(audit, rows, selection, decided=decided, suggestions=suggestions)
        return Page(browser, tmp_path, html)

    yield open_report
    assert not errors_in_console(browser)


@pytest.fixture
def images(show, digits):
    """The report of the digits, with an image of each row."""
    data, audit = digits
    return show(audit, Dataset(X=data.X, target="digit", image_shape=(8, 8), source="digits.csv"))


@pytest.fixture
def table(show, rng):
    """Thirty listed rows of three classes, with a number and a word each."""
    audit = made_up(rng, 200, 30, ["a", "b", "c"])
    words = np.array(["red", "blue"], dtype=object)[np.arange(200) % 2]
    cells = {"size": np.arange(200) * 10, "colour": words}
    return show(audit, Dataset(rng.normal(size=(200, 3)), "kind", cells=cells))
