"""The page for people who hear it, or who have fingers instead of a mouse."""

from __future__ import annotations

import pytest

import nearworth as nw
from helpers.browser import Page
from helpers.report_pages import made_up
from nearworth.report.page import render_report, render_review
from nearworth.tables.dataset import Dataset


def finish_fading(page):
    """End all animations, because the contrast of a fading message means nothing."""
    page.browser.execute_script("document.getAnimations().forEach(each => each.finish())")


def violations(page):
    """What axe finds in the page as it stands: kinds of violation, and where the first is."""
    axe = pytest.importorskip(
        "axe_core_python.selenium", reason="axe-core-python is not installed"
    ).Axe()
    results = axe.run(page.browser)["violations"]
    return [(result["id"], result["nodes"][0]["html"][:200]) for result in results]


def violations_in_tabs(page):
    """What axe finds in every tab, with the title of the tab."""
    # The message may begin to fade at any time.
    page.browser.execute_script("document.getElementById('toast').style.transition = 'none'")
    by_tab = []
    for number in range(len(page.all("[role=tab]"))):
        tab = page.all("[role=tab]")[number]
        tab.click()
        finish_fading(page)
        by_tab += [(tab.text, *violation) for violation in violations(page)]
    return by_tab


@pytest.fixture
def unguarded(browser):
    """The browser ignores the page's policy, which lets no script in, that of axe included."""
    browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    yield
    browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})


@pytest.mark.usefixtures("unguarded")
def test_axe_finds_nothing_in_a_page_of_images(images):
    images.keys("ck")
    assert violations_in_tabs(images) == []


@pytest.mark.usefixtures("unguarded")
def test_axe_finds_nothing_in_a_page_of_cells(table):
    table.keys("ck")
    assert violations_in_tabs(table) == []


@pytest.mark.usefixtures("unguarded")
def test_axe_finds_nothing_in_a_scan(browser, tmp_path, rng):
    X = rng.normal(size=(200, 6))
    X[3] = X[2]
    X[7] = 40.0
    scan = nw.scan(X, (X[:, 0] > 0).astype(int))
    page = Page(browser, tmp_path, render_report(scan.labels, Dataset(X), {}, scan.findings()))
    assert len(page.all("[role=tab]")) > 4
    assert violations_in_tabs(page) == []


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("blind", [False, True])
def test_axe_finds_nothing_in_a_review(browser, tmp_path, digits, blind):
    data, audit = digits
    rows = Dataset(X=data.X, target="digit", image_shape=(8, 8))
    page = Page(
        browser, tmp_path, render_review(audit, rows, audit.review_sample(9), 0, blind=blind)
    )
    for keys in ("", "w", "?"):
        page.keys(keys)
        finish_fading(page)
        assert violations(page) == []


def test_two_fingers_zoom_the_map(show, rng):
    page = show(made_up(rng, 200, 30, ["a", "b"]), Dataset(rng.normal(size=(200, 3))))
    page.click("#tab-map")
    canvas = page.one(".mapbox canvas")

    def picture():
        return page.browser.execute_script("return arguments[0].toDataURL()", canvas)

    whole = picture()
    box = canvas.rect
    x = box["x"] + box["width"] / 2
    y = box["y"] + box["height"] / 2

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
    assert picture() != whole
    canvas.send_keys("0")
    assert picture() == whole
