"""The report as a file, and in a real browser where there is one."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import nearworth as nw
from helpers.browser import downloaded, errors_in_console, network_requests, wait
from helpers.report_pages import HOSTILE, embedded, made_up
from nearworth.audit.error_count import ErrorCount
from nearworth.report import content
from nearworth.report.page import SCRIPTS, inert_json, render_report
from nearworth.tables.dataset import Dataset


def test_the_page_says_what_was_found(digits):
    data, audit = digits
    found = embedded(
        render_report(audit, Dataset(X=data.X, target="digit", image_shape=(8, 8), source="digits"))
    )
    assert found["row"] == audit.suspects().tolist()
    assert [found["labels"][c] for c in found["given"]] == [
        str(data.y[r]) for r in audit.suspects()
    ]
    assert found["near"][0] == [
        [n[0], found["labels"].index(str(n[1])), pytest.approx(n[2], rel=1e-2)]
        for n in audit.nearest(int(audit.suspects()[0]))
    ]
    assert found["nListed"] == len(audit.suspects())
    assert found["errorsSaid"] == str(audit.n_errors)
    assert found["errors"][0] <= audit.n_errors.lower
    assert audit.n_errors.upper <= found["errors"][1]
    assert sum(found["certainty"]) == sum(rows for rows, _ in found["classes"]) == len(audit)
    assert [listed for _, listed in found["classes"]] == np.bincount(
        data.y[audit.suspects()], minlength=10
    ).tolist()
    assert set(found["images"]) >= {str(row) for row in found["row"] + found["sample"]}


def test_without_scripts_there_is_a_list(digits):
    data, audit = digits
    page = render_report(audit, Dataset(X=data.X, target="digit", source="digits"))
    listed = unescape(re.search(r"<noscript>(.*?)</noscript>", page, re.S).group(1))
    assert re.findall(r"<tr><td>(\d+)</td>", listed) == [str(row) for row in audit.suspects()]
    assert str(audit.n_errors) in listed
    assert all(audit.why(int(row)) in listed for row in audit.suspects())
    assert f"{len(audit.suspects())} rows are listed" in listed
    assert "counted from 0" in listed


def test_the_parts_of_the_script_are_all_used():
    folder = Path(content.__file__).parent / "web"
    assert {path.stem for path in folder.glob("*.js")} == set(SCRIPTS)
    for path in folder.glob("*.js"):
        assert "innerHTML" not in path.read_text()


def test_nothing_comes_from_outside(digits):
    data, audit = digits
    page = render_report(audit, Dataset(X=data.X))
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert "default-src 'none'" in unescape(page)
    assert " style=" not in page
    assert not re.search(r"\son\w+=", page.split("<script")[0])


def test_cells_are_inert(rng):
    audit = made_up(rng, 200, 20, HOSTILE)
    cells = {HOSTILE[0]: np.array([HOSTILE[i % len(HOSTILE)] for i in range(200)], dtype=object)}
    rows = Dataset(
        rng.normal(size=(200, 3)),
        HOSTILE[1],
        id_name=HOSTILE[3],
        ids=cells[HOSTILE[0]],
        cells=cells,
        source=HOSTILE[0],
        notes=HOSTILE,
    )
    page = render_report(audit, rows)
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    for text in ("<img src=x", "<svg onload", "<script>alert", "<!--<script"):
        assert text not in page
    assert set(embedded(page)["cells"][0]) <= set(HOSTILE)
    assert set(embedded(page)["labels"]) == set(HOSTILE)


def test_json_is_inert():
    text = str(inert_json({"a": "</script>&\u2028\u2029<!--"}))
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"a": "</script>&\u2028\u2029<!--"}


@pytest.mark.long
def test_large_reports_stay_small(rng):
    """100,000 rows and 2,000 suspects, with texts of 2,000 characters or with twenty columns."""
    audit = made_up(rng, 100_000, 2_000, [f"class {i}" for i in range(10)])
    X = rng.normal(size=(100_000, 20))
    words = np.array(["alpha", "beta", "gamma", "delta", "of", "and"], dtype=object)
    texts = [" ".join(words[rng.integers(0, 6, 420)])[:2_000] for _ in range(200)]
    prose = {
        "said": np.array(
            [f"{row} {texts[row % 200]}"[:2_000] for row in range(100_000)], dtype=object
        )
    }
    page = render_report(audit, Dataset(X, cells=prose))
    assert len(page.encode()) < 8_000_000
    assert all(len(cells[0]) >= 1_900 for cells in embedded(page)["cells"])  # those listed in full
    columns = {f"column {i}": rng.normal(size=100_000).round(4) for i in range(20)}
    assert len(render_report(audit, Dataset(X, cells=columns)).encode()) < 8_000_000


def test_from_the_api(tmp_path, rng):
    X = rng.normal(size=(60, 4))
    found = nw.audit_labels(X, np.where(X[:, 0] > 0, "yes", "no"), n_neighbors=5)
    found.report(
        tmp_path / "labels.html",
        target="answer",
        ids=np.arange(60),
        image_shape=(2, 2),
        fraction=0.1,
    )
    shown = embedded((tmp_path / "labels.html").read_text())
    assert shown["row"] == found.suspects(fraction=0.1).tolist()
    assert shown["imageShape"] == [2, 2]
    targets = nw.audit_labels(X, X[:, 0], n_neighbors=5, task="regression")
    targets.report(tmp_path / "targets.html", fraction=0.1)
    shown = embedded((tmp_path / "targets.html").read_text())
    assert shown["nClasses"] == 0
    assert [float(shown["labels"][c]) for c in shown["given"]] == pytest.approx(
        X[shown["row"], 0], rel=1e-4
    )


def test_columns_of_a_frame_keep_their_names(tmp_path, rng):
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["height", "width"])
    found = nw.audit_labels(frame, np.where(frame["height"] > 0, "yes", "no"), n_neighbors=5)
    found.report(tmp_path / "labels.html", fraction=0.1)
    shown = embedded((tmp_path / "labels.html").read_text())
    assert shown["cellNames"] == ["height", "width"]
    row = shown["row"][0]
    assert [float(cell) for cell in shown["cells"][0]] == pytest.approx(
        frame.iloc[row].tolist(), rel=1e-4
    )


def test_doubtful_rows_are_listed_where_labels_may_be_wrong(rng):
    audit = replace(made_up(rng, 90, 2, ["a", "b"]), n_errors=ErrorCount(None, 0.0, 60.0))
    page = embedded(render_report(audit, Dataset(rng.normal(size=(90, 2)))))
    assert page["row"] == audit.order[:50].tolist()
    assert page["nListed"] == 50
    page = embedded(render_report(audit, Dataset(rng.normal(size=(90, 2))), {"max_fdr": 0.0}))
    assert page["row"] == []


@pytest.mark.parametrize("n_suspects", [0, 1])
def test_few_suspects(rng, n_suspects):
    page = render_report(
        made_up(rng, 30, n_suspects, ["a", "b"]), Dataset(rng.normal(size=(30, 2)))
    )
    assert len(embedded(page)["row"]) == n_suspects
    assert ("No suspects (more likely wrong than right)." in page) == (n_suspects == 0)
    assert ("1 row is listed, worst first" in page) == (n_suspects == 1)


@pytest.mark.parametrize("width", [400, 1300])
def test_nothing_is_wider_than_the_screen(browser, tmp_path, rng, width):
    names = ["a label that is rather long and has no end" * 3, "b", "c"]
    audit = made_up(rng, 300, 60, names)
    cells = {"words" * 20: np.array(["x" * 300] * 300, dtype=object)}
    page = tmp_path / "report.html"
    page.write_text(
        render_report(
            audit, Dataset(rng.normal(size=(300, 3)), "t" * 90, cells=cells, source="s" * 200)
        )
    )
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": True},
    )
    browser.get(page.as_uri())
    for tab in ("labels", "map", "classes", "about"):
        browser.find_element("id", f"tab-{tab}").click()
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.find_element("id", "tab-labels").click()
    browser.find_element("id", "item-0").click()
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script("return document.getElementById('scrolls').scrollWidth") <= width


def test_hostile_cells_in_a_browser(browser, tmp_path, rng):
    audit = made_up(rng, 200, 20, HOSTILE)
    text = np.array([HOSTILE[i % len(HOSTILE)] for i in range(200)], dtype=object)
    rows = Dataset(
        rng.normal(size=(200, 3)),
        HOSTILE[1],
        id_name=HOSTILE[3],
        ids=text,
        cells={HOSTILE[0]: text, HOSTILE[2]: np.array([" ".join(HOSTILE)] * 200, dtype=object)},
        source=HOSTILE[0],
        notes=HOSTILE,
    )
    page = tmp_path / "report.html"
    page.write_text(render_report(audit, rows), encoding="utf-8")
    browser.get(page.as_uri())
    for tab in ("map", "classes", "about", "labels"):
        browser.find_element("id", f"tab-{tab}").click()
    for _ in range(20):
        browser.find_element("css selector", "body").send_keys("c")
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    browser.find_element("id", "export").click()
    browser.find_element("id", "csv").click()
    with open(downloaded(tmp_path / "decisions.csv"), newline="") as file:
        exported = list(csv.reader(file))
    assert len(exported) == 21
    assert not [cell for row in exported for cell in row if cell.startswith(("=", "@"))]
    assert not network_requests(browser)
    assert not errors_in_console(browser)
    assert browser.title.startswith("Labels of </script>")


@pytest.mark.long
def test_large_report_is_usable_at_once(browser, tmp_path, rng):
    """Two thousand rows are listed, and only those that can be seen are drawn."""
    audit = made_up(rng, 100_000, 2_000, [f"class {i}" for i in range(10)])
    page = tmp_path / "report.html"
    page.write_text(render_report(audit, Dataset(rng.normal(size=(100_000, 20)))))
    browser.get(page.as_uri())
    wait(lambda: browser.execute_script("return document.documentElement.dataset.ready"))
    drawn = browser.find_elements("css selector", "#inner .item")
    assert 10 <= len(drawn) <= 40
    assert drawn[0].get_attribute("aria-setsize") == "2000"
    browser.execute_script("document.getElementById('list').scrollTop = 64 * 1500")
    wait(lambda: browser.find_elements("id", "item-1502"))
    assert len(browser.find_elements("css selector", "#inner .item")) <= 40
