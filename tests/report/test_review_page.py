"""The page for judging rows, as a file and in a real browser where there is one."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import nearworth as nw
from helpers.browser import Page, downloaded, errors_in_console, network_requests
from helpers.report_pages import HOSTILE, embedded, made_up
from nearworth.datasets import noisy_digits
from nearworth.report.page import render_report, render_review
from nearworth.tables.dataset import Dataset


def page_of(audit, rng, drawn, **options):
    text = np.array([HOSTILE[i % len(HOSTILE)] for i in range(len(audit))], dtype=object)
    rows = Dataset(
        rng.normal(size=(len(audit), 3)),
        HOSTILE[1],
        id_name=HOSTILE[3],
        ids=text,
        cells={HOSTILE[0]: text},
        source=HOSTILE[0],
    )
    return render_review(audit, rows, np.array(drawn), 7, **options)


def row_shown(browser):
    found = re.search(r"[Rr]ow ([\d,]+)", browser.find_element("css selector", ".dhead").text)
    return int(found.group(1).replace(",", ""))


def inert(text):
    return f"'{text}" if text.startswith("=") else text


def test_rows_come_in_the_order_they_were_drawn(rng):
    audit = made_up(rng, 200, 20, HOSTILE)
    content = embedded(page_of(audit, rng, [5, 190, 17]))
    assert content["row"] == [5, 190, 17]
    assert [content["labels"][code] for code in content["given"]] == audit.given[
        [5, 190, 17]
    ].tolist()
    assert (content["seed"], content["blind"], content["ofRows"]) == (7, False, 200)


def test_cells_are_inert_and_nothing_comes_from_outside(rng):
    page = page_of(made_up(rng, 200, 20, HOSTILE), rng, range(30))
    assert page.count("<script") == page.count("</script") == 2
    for text in ("<img src=x", "<svg onload", "<script>alert", "<!--<script"):
        assert text not in page
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert "default-src 'none'" in unescape(page)
    assert " style=" not in page


def test_judging_by_keys(browser, tmp_path, rng):
    audit = made_up(rng, 200, 20, HOSTILE)
    page = tmp_path / "review.html"
    page.write_text(page_of(audit, rng, [5, 190, 17, 60]))
    browser.get(page.as_uri())
    keys = lambda text: browser.find_element("css selector", "body").send_keys(text)  # noqa: E731
    shown = lambda: row_shown(browser)  # noqa: E731
    progress = lambda: browser.find_element("id", "count").text  # noqa: E731

    assert shown() == 5
    assert "Nearest rows".upper() in browser.find_element("id", "detail").text.upper()
    for key, following in (("w", 190), ("r", 17), ("s", 60)):
        keys(key)
        assert shown() == following
    assert progress() == "3 of 4 judged: 1 wrong, 1 right, 1 skipped"
    keys("u")
    assert shown() == 17
    assert progress().startswith("2 of 4 judged: 1 wrong, 1 right, 0 skipped")
    browser.refresh()
    assert shown() == 17
    keys("w")
    keys("w")
    assert "4 of 4 judged: 3 wrong" in progress()
    browser.find_element("id", "export").click()
    assert (
        "--review review-4-seed7.csv" in browser.find_element("css selector", "dialog .code").text
    )
    browser.find_element("id", "csv").click()
    with open(downloaded(tmp_path / "review-4-seed7.csv"), newline="") as file:
        exported = list(csv.DictReader(file))
    assert [(r["row"], r["decision"]) for r in exported] == [
        ("5", "wrong"),
        ("17", "wrong"),
        ("60", "wrong"),
        ("190", "right"),
    ]
    assert [r["label"] for r in exported] == ["", "", "", inert(audit.given[190])]
    assert {(r["asked"], r["seed"], r["of_rows"]) for r in exported} == {("4", "7", "200")}
    assert not [cell for row in exported for cell in row.values() if cell.startswith(("=", "@"))]
    assert not network_requests(browser)
    assert not errors_in_console(browser)
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('button, input, progress, canvas')].filter(e =>"
        " e.checkVisibility()).filter(e => !(e.textContent.trim() || e.ariaLabel || (e.labels &&"
        " e.labels.length))).length"
    )
    assert unnamed == 0


def test_blind_judging_shows_the_evidence_afterwards(browser, tmp_path, rng):
    audit = made_up(rng, 200, 20, ["a", "b"])
    page = tmp_path / "review.html"
    page.write_text(page_of(audit, rng, [5, 190], blind=True))
    browser.get(page.as_uri())
    detail = lambda: browser.find_element("id", "detail").text.upper()  # noqa: E731
    assert "NEAREST ROWS" not in detail()
    assert "PROBABILITY" not in detail()
    browser.find_element("css selector", "[data-keep=wrong]").click()
    assert row_shown(browser) == 5
    assert "NEAREST ROWS" in detail()
    assert browser.switch_to.active_element.get_attribute("data-keep") == "wrong"
    browser.find_element("css selector", "[data-keep=further]").click()
    assert row_shown(browser) == 190
    assert "NEAREST ROWS" not in detail()
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 400, "height": 900, "deviceScaleFactor": 1, "mobile": True},
    )
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 400


def sheet(page):
    return re.search(r"<style>(.*?)</style>", page, re.S).group(1)


def test_both_pages_have_one_style_and_one_script(browser, tmp_path, rng):
    audit = made_up(rng, 200, 20, ["a", "b"])
    rows = Dataset(rng.normal(size=(200, 3)), "kind", cells={"size": np.arange(200)})
    pages = [render_report(audit, rows), render_review(audit, rows, np.arange(9), 0)]
    assert sheet(pages[0]) == sheet(pages[1])
    assert pages[0].rpartition("<script>")[2] == pages[1].rpartition("<script>")[2]
    looks = []
    for page in pages:
        shown = Page(browser, tmp_path, page)
        look = (
            "(s => [s.fontFamily, s.fontSize, s.backgroundColor,"
            " s.borderRadius])(getComputedStyle(%s))"
        )
        parts = ("body", ".top", ".brand", "#export", ".verdict", ".cmp .self", ".actions", "kbd")
        looks.append([shown.run(look % f"document.querySelector({part!r})") for part in parts])
    assert looks[0] == looks[1]


@pytest.fixture(scope="module")
def digits():
    data = noisy_digits()
    audit = nw.audit_labels(data.X, data.y, n_neighbors=10)
    drawn = audit.review_sample(20)
    return audit, drawn, Dataset(X=data.X, target="digit", image_shape=(8, 8), source="digits.csv")


def test_keys_mean_the_same_as_on_the_report(browser, tmp_path, digits):
    audit, drawn, rows = digits
    named = {}
    for name, html in (
        ("report", render_report(audit, rows)),
        ("review", render_review(audit, rows, drawn, 0)),
    ):
        page = Page(browser, tmp_path, html)
        page.click("#help")
        keys = [
            [kbd.text for kbd in e.find_elements("css selector", "kbd")]
            for e in page.all("dialog dt")
        ]
        said = [e.text for e in page.all("dialog dd")]
        named[name] = {key: words for group, words in zip(keys, said, strict=True) for key in group}
        page.keys("\ue00c")
    same = named["report"].keys() & named["review"].keys()
    assert same == {"K", "C", "O", "S", "U", "J", "\N{DOWNWARDS ARROW}", "N", "E", "Esc", "?"}
    assert all(named["report"][key] == named["review"][key] for key in same - {"K", "C", "O"})
    assert "keep" in named["report"]["K"]
    assert "keep" in named["review"]["K"]
    assert {"R", "K", "W", "S", "U", "J", "O", "E", "?"} <= {
        kbd.text for kbd in page.all(".keys kbd")
    }  # on the page

    page.keys("k")  # keeps the label, and is no step back
    assert (page.row(), page.text("#count")) == (
        drawn[1],
        "1 of 20 judged: 0 wrong, 1 right, 0 skipped",
    )
    page.keys("jj")
    assert page.row() == drawn[3]
    page.keys("J")
    assert page.row() == drawn[2]
    page.keys("d/g")  # of no use here
    assert page.text("#count").startswith("1 of 20")
    page.keys("e")
    assert page.one("#dialog").is_displayed()


def test_a_wrong_row_may_be_given_its_label(browser, tmp_path, digits):
    audit, drawn, rows = digits
    page = Page(browser, tmp_path, render_review(audit, rows, drawn, 0))
    other = str((int(audit.given[drawn[0]]) + 1) % 10)
    page.keys("o")
    assert page.run("document.activeElement.id") == "other"
    page.one(f"#other option[value='{other}']").click()
    assert page.row() == drawn[1]
    page.keys("ws")
    made = page.saved(name="review-20-seed0")
    assert [(made[row]["decision"], made[row]["label"]) for row in drawn[:2]] == [
        ("wrong", other),
        ("wrong", ""),
    ]
    assert page.all("#list .item") == []  # one row at a time
    assert len(page.all(".pair canvas")) == 2


def test_rows_judged_wrong_come_first_and_ask_for_a_label(browser, tmp_path, digits):
    audit, drawn, rows = digits
    audit.review_sample(20)
    right = np.sort(drawn)[5:]
    judged = audit.reviewed(drawn, ~np.isin(drawn, right))
    judged = replace(
        judged, quality=np.where(judged.quality < 0.5, 0.0, judged.quality)
    )  # others look as bad
    content = embedded(render_report(judged, rows))
    assert content["wasWrong"] == content["row"][:5]
    assert sorted(content["wasWrong"]) == np.sort(drawn)[:5].tolist()
    assert not np.isin(right, content["row"]).any()
    page = Page(browser, tmp_path, render_report(judged, rows))
    assert "choose its label" in page.text(".verdict")
    assert page.text(".why").startswith("Judged wrong in the review: choose its label.")
    assert "probability" not in page.text(".why")
    assert "How sure" not in page.text("#detail")
    assert [e.text for e in page.all("#inner .asked")] == ["wrong"] * 5
    assert "judged wrong in the review" in page.one("#item-0").get_attribute("aria-label")
    assert "The first 5 were judged wrong in the review and need a label." in page.text("#subline")
    assert page.one("#actions .solid").text.startswith("Change")
    page.keys("jjjjj")
    assert "Wrong with a probability" in page.text(".why")


def test_of_two_classes_a_wrong_row_has_the_other(browser, tmp_path, rng):
    audit = made_up(rng, 200, 20, ["a", "b"])
    page = Page(browser, tmp_path, page_of(audit, rng, [5, 190]))
    page.keys("wr")
    made = page.saved(name="review-2-seed7")
    other = {"a": "b", "b": "a"}[audit.given[5]]
    assert (made[5]["decision"], made[5]["label"]) == ("wrong", other)
    assert (made[190]["decision"], made[190]["label"]) == ("right", audit.given[190])
