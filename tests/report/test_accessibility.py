"""The page for people who hear it, or who have fingers instead of a mouse."""

from __future__ import annotations

import pytest

import nearworth as nw
from nearworth.report.page import render_report, render_review
from report.test_rules import Page, browser, digits, images, show, table  # noqa: F401  (fixtures)
from report_pages import made_up


def finish_fading(page):
    """A message that is fading in or out has no contrast that anyone reads."""
    page.browser.execute_script("document.getAnimations().forEach(each => each.finish())")


def problems(page):
    """What axe finds in every tab: kinds of violation and where the first is."""
    axe = pytest.importorskip(
        "axe_core_python.selenium", reason="axe-core-python is not installed"
    ).Axe()
    found, tabs = [], page.all("[role=tab]")
    for number in range(len(tabs)):
        page.all("[role=tab]")[number].click()
        page.browser.execute_script(
            "document.getElementById('toast').style.transition = 'none'"
        )  # may begin to fade
        finish_fading(page)
        violations = axe.run(page.browser)["violations"]
        found += [
            (tabs[number].text, each["id"], each["nodes"][0]["html"][:200]) for each in violations
        ]
    return found


@pytest.fixture
def unguarded(browser):  # noqa: F811
    """The page's policy lets no script in, that of axe included, unless the browser is told to
    ignore it.
    """
    browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    yield
    browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})


@pytest.mark.usefixtures("unguarded")
def test_axe_finds_nothing_in_a_page_of_images(images):  # noqa: F811
    images.keys("ck")
    assert problems(images) == []


@pytest.mark.usefixtures("unguarded")
def test_axe_finds_nothing_in_a_page_of_cells(table):  # noqa: F811
    table.keys("ck")
    assert problems(table) == []


@pytest.mark.usefixtures("unguarded")
def test_axe_finds_nothing_in_a_scan(browser, tmp_path, rng):  # noqa: F811
    X = rng.normal(size=(200, 6))
    X[3], X[7] = X[2], 40.0
    scan = nw.scan(X, (X[:, 0] > 0).astype(int))
    from nearworth.tables.dataset import Dataset

    page = Page(browser, tmp_path, render_report(scan.labels, Dataset(X), {}, scan.findings()))
    assert len(page.all("[role=tab]")) > 4
    assert problems(page) == []


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("blind", [False, True])
def test_axe_finds_nothing_in_a_review(browser, tmp_path, digits, blind):  # noqa: F811
    from axe_core_python.selenium import Axe

    from nearworth.tables.dataset import Dataset

    data, audit = digits
    rows = Dataset(X=data.X, target="digit", image_shape=(8, 8))
    page = Page(
        browser, tmp_path, render_review(audit, rows, audit.review_sample(9), 0, blind=blind)
    )
    for keys in ("", "w", "?"):
        page.keys(keys)
        finish_fading(page)
        found = Axe().run(page.browser)["violations"]
        assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []


def test_two_fingers_zoom_the_map(show, rng):  # noqa: F811
    from nearworth.tables.dataset import Dataset

    page = show(made_up(rng, 200, 30, ["a", "b"]), Dataset(rng.normal(size=(200, 3))))
    page.click("#tab-map")
    canvas = page.one(".mapbox canvas")
    drawn = lambda: page.browser.execute_script("return arguments[0].toDataURL()", canvas)  # noqa: E731
    whole, box = drawn(), canvas.rect
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def touch(kind, *gaps):
        points = [{"x": x + gap, "y": y, "id": i} for i, gap in enumerate(gaps)]
        page.browser.execute_cdp_cmd(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": points}
        )

    touch("touchStart", -20)
    touch("touchStart", -20, 20)
    for gap in (40, 60, 80):
        touch("touchMove", -gap, gap)
    touch("touchEnd")
    assert drawn() != whole
    canvas.send_keys("0")
    assert drawn() == whole
