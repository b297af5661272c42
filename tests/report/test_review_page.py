"""The page for judging rows, as a file and in a real browser where there is one."""

from __future__ import annotations

import csv
import re
from html import unescape

import numpy as np

from nearworth.report.content import Rows
from nearworth.report.page import render_review
from report.test_page import HOSTILE, browser, downloaded, requests  # noqa: F401  (browser is a fixture)
from report_pages import embedded, made_up


def page_of(audit, rng, drawn, **options):
    text = np.array([HOSTILE[i % len(HOSTILE)] for i in range(len(audit))], dtype=object)
    rows = Rows(
        rng.normal(size=(len(audit), 3)),
        HOSTILE[1],
        id_name=HOSTILE[3],
        ids=text,
        cells={HOSTILE[0]: text},
        source=HOSTILE[0],
    )
    return render_review(audit, rows, np.array(drawn), 7, **options)


def test_rows_come_in_the_order_they_were_drawn(rng):
    audit = made_up(rng, 200, 20, HOSTILE)
    content = embedded(page_of(audit, rng, [5, 190, 17]))
    assert content["row"] == [5, 190, 17]
    assert [content["labels"][code] for code in content["given"]] == audit.given[[5, 190, 17]].tolist()
    assert (content["seed"], content["blind"], content["ofRows"]) == (7, False, 200)


def test_cells_are_inert_and_nothing_comes_from_outside(rng):
    page = page_of(made_up(rng, 200, 20, HOSTILE), rng, range(30))
    assert page.count("<script") == page.count("</script") == 2
    for text in ("<img src=x", "<svg onload", "<script>alert", "<!--<script"):
        assert text not in page
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert "default-src 'none'" in unescape(page)
    assert " style=" not in page


def test_judging_by_keys(browser, tmp_path, rng):  # noqa: F811
    audit = made_up(rng, 200, 20, HOSTILE)
    page = tmp_path / "review.html"
    page.write_text(page_of(audit, rng, [5, 190, 17, 60]))
    browser.get(page.as_uri())
    keys = lambda text: browser.find_element("css selector", "body").send_keys(text)  # noqa: E731
    shown = lambda: browser.find_element("css selector", "#detail h3").text.partition(" \u2013")[0]  # noqa: E731
    progress = lambda: browser.find_element("id", "progress").text  # noqa: E731

    assert shown() == "Row 5"
    assert "Nearest rows".upper() in browser.find_element("id", "detail").text.upper()
    for key, following in (("w", "Row 190"), ("r", "Row 17"), ("s", "Row 60")):
        keys(key)
        assert shown() == following
    assert progress() == "3 of 4 judged: 1 wrong, 1 right, 1 skipped"
    keys("u")
    assert shown() == "Row 17"
    assert progress().startswith("2 of 4 judged: 1 wrong, 1 right, 0 skipped")
    browser.refresh()
    assert shown() == "Row 17"
    keys("w")
    keys("w")
    assert "4 of 4 judged: 3 wrong" in progress()
    browser.find_element("id", "csv").click()
    with open(downloaded(tmp_path / "decisions.csv"), newline="") as file:
        exported = list(csv.DictReader(file))
    assert [(r["row"], r["decision"]) for r in exported] == [
        ("5", "wrong"),
        ("17", "wrong"),
        ("60", "wrong"),
        ("190", "right"),
    ]
    assert {(r["asked"], r["seed"], r["of_rows"]) for r in exported} == {("4", "7", "200")}
    assert not [cell for row in exported for cell in row.values() if cell.startswith(("=", "@"))]
    assert [url for url in requests(browser) if url.startswith(("http", "ws", "ftp"))] == []
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('button, input, progress, canvas')]"
        ".filter(e => !(e.textContent.trim() || e.ariaLabel || (e.labels && e.labels.length))).length"
    )
    assert unnamed == 0


def test_blind_judging_shows_the_evidence_afterwards(browser, tmp_path, rng):  # noqa: F811
    audit = made_up(rng, 200, 20, ["a", "b"])
    page = tmp_path / "review.html"
    page.write_text(page_of(audit, rng, [5, 190], blind=True))
    browser.get(page.as_uri())
    detail = lambda: browser.find_element("id", "detail").text.upper()  # noqa: E731
    assert "NEAREST ROWS" not in detail()
    browser.find_element("css selector", "[data-kind=wrong]").click()
    assert "ROW 5" in detail()
    assert "NEAREST ROWS" in detail()
    assert browser.switch_to.active_element.get_attribute("data-kind") == "wrong"
    browser.find_element("id", "open").click()
    assert "ROW 190" in detail()
    assert "NEAREST ROWS" not in detail()
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 400, "height": 900, "deviceScaleFactor": 1, "mobile": True}
    )
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
