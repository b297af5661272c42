"""The report as a file, and in a real browser where there is one."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import time
from html import unescape

import numpy as np
import pyarrow as pa
import pytest

import nearworth as nw
from nearworth.cli.apply import apply
from nearworth.datasets import noisy_digits
from nearworth.report.content import Rows
from nearworth.report.page import inert_json, render_report
from nearworth.tables import InputError
from nearworth.tables.read import read
from nearworth.tables.write import write_columns
from report_pages import embedded, made_up

HOSTILE = [
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "{{ 7 * 7 }}", '"><svg onload=alert(1)>',
    "=HYPERLINK(\"http://evil\")", "\u2028alert(1)", "<!--<script>", "javascript:alert(1)", "&lt;b&gt;",
]  # fmt: skip


def apply_decisions(decisions, train, output):
    """`nearworth apply`, whose errors are raised here."""
    files = {"decisions": str(decisions), "train": str(train), "output": str(output)}
    apply(**files, target=None, force=False, verbatim=False)


@pytest.fixture(scope="module")
def digits():
    data = noisy_digits()
    return data, nw.audit_labels(data.X, data.y, 10)


def test_the_page_says_what_was_found(digits):
    data, audit = digits
    page = render_report(audit, Rows(X=data.X, target="digit", image_shape=(8, 8), source="digits"))
    content = embedded(page)
    assert content["row"] == audit.suspects().tolist()
    assert [content["labels"][c] for c in content["given"]] == [str(data.y[r]) for r in audit.suspects()]
    assert content["near"][0] == [
        [n[0], content["labels"].index(str(n[1])), pytest.approx(n[2], rel=1e-3)]
        for n in audit.nearest(int(audit.suspects()[0]))
    ]
    assert page.count("<svg") == 4
    assert f"{len(audit.suspects()):,} rows are listed" in page


def bars(page):
    """Left end and whether it is drawn as suspect, of each bar of the quality picture."""
    found = re.findall(r'<rect class="(bar[^"]*)" [^>]*><title>[\d,]+ rows from (\d+)%', page)
    return [(int(low), "suspect" in kind) for kind, low in found]


def test_the_line_is_where_the_rule_says(digits):
    data, audit = digits
    place = lambda page: re.search(r'class="threshold" x1="([\d.]+)"', page).group(1)  # noqa: E731
    page = render_report(audit, Rows(X=data.X))
    half = re.search(r'x="([\d.]+)"[^>]*><title>[\d,]+ rows from 50%', page).group(1)
    assert place(page) == half
    assert all(suspect == (low < 50) for low, suspect in bars(page))
    assert float(place(render_report(audit, Rows(X=data.X), {"fraction": 0.004}))) < float(half)
    assert 'class="threshold"' not in render_report(audit, Rows(X=data.X), {"fraction": 0.0})


def test_the_page_says_what_its_numbers_mean(digits):
    data, audit = digits
    page = render_report(audit, Rows(X=data.X))
    meaning = "Agreement: share of the votes of the 100 nearest rows for the given label, nearer ones counting more."
    assert meaning in page.split("<script")[0]
    assert embedded(page)["agreementIs"] == meaning
    assert "counted from 0" in page


def test_nothing_comes_from_outside(digits):
    data, audit = digits
    page = render_report(audit, Rows(X=data.X))
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert "default-src 'none'" in unescape(page)
    assert " style=" not in page
    assert not re.search(r"\son\w+=", page.split("<script")[0])


def test_cells_are_inert(rng):
    audit = made_up(rng, 200, 20, HOSTILE)
    cells = {HOSTILE[0]: np.array([HOSTILE[i % len(HOSTILE)] for i in range(200)], dtype=object)}
    rows = Rows(
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


def test_json_is_inert():
    text = str(inert_json({"a": "</script>&\u2028\u2029<!--"}))
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"a": "</script>&\u2028\u2029<!--"}


def test_large_reports_stay_small(rng):
    audit = made_up(rng, 100_000, 2_000, [f"class {i}" for i in range(10)])
    cells = {f"column {i}": rng.normal(size=100_000).round(4) for i in range(20)}
    began = time.process_time()
    page = render_report(audit, Rows(rng.normal(size=(100_000, 20)), cells=cells))
    assert len(page.encode()) < 5_000_000
    assert time.process_time() - began < 10


def test_from_the_api(tmp_path, rng):
    X = rng.normal(size=(60, 4))
    found = nw.audit_labels(X, np.where(X[:, 0] > 0, "yes", "no"), n_neighbors=5)
    found.report(tmp_path / "labels.html", target="answer", ids=np.arange(60), image_shape=(2, 2), fraction=0.1)
    content = embedded((tmp_path / "labels.html").read_text())
    assert content["row"] == found.suspects(fraction=0.1).tolist()
    assert content["imageShape"] == [2, 2]
    targets = nw.audit_labels(X, X[:, 0], n_neighbors=5, task="regression")
    targets.report(tmp_path / "targets.html", fraction=0.1)
    content = embedded((tmp_path / "targets.html").read_text())
    assert content["nClasses"] == 0
    assert [float(content["labels"][c]) for c in content["given"]] == pytest.approx(X[content["row"], 0], rel=1e-4)


@pytest.mark.parametrize("n_suspects", [0, 1])
def test_few_suspects(rng, n_suspects):
    page = render_report(made_up(rng, 30, n_suspects, ["a", "b"]), Rows(rng.normal(size=(30, 2))))
    assert len(embedded(page)["row"]) == n_suspects
    assert ("No suspects (more likely wrong than right)." in page) == (n_suspects == 0)
    assert ("1 row is listed below" in page) == (n_suspects == 1)


def chromium():
    """Where the browser and its driver are: on the path, or as CHROMIUM and CHROMEDRIVER say."""
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    return browser, os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")


@pytest.fixture
def browser(tmp_path):
    """A headless Chromium that saves downloads in `tmp_path`."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: the browser tests need it")
    binary, driver = chromium()
    if not binary or not driver:
        pytest.skip("no chromium with chromedriver here: install them, or set CHROMIUM and CHROMEDRIVER")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1300,1000"):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={tmp_path / 'profile'}")
    options.add_experimental_option("prefs", {"download.default_directory": str(tmp_path)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    yield opened
    opened.quit()


def requests(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def cells(browser, column):
    return [e.text for e in browser.find_elements("css selector", f"#body tr td:nth-child({column})")]


def downloaded(path):
    for _ in range(100):
        if path.exists():
            return path
        time.sleep(0.05)
    raise AssertionError(f"{path.name} was not downloaded")


def test_review_in_a_browser(browser, tmp_path, digits):
    data, audit = digits
    table = {f"p{i}": data.X[:, i] for i in range(64)} | {"digit": data.y}
    write_columns(table, str(tmp_path / "train.csv"))
    page = tmp_path / "report.html"
    page.write_text(render_report(audit, Rows(X=data.X, target="digit")))
    browser.get(page.as_uri())
    click = lambda selector: browser.find_element("css selector", selector).click()  # noqa: E731
    keys = lambda text: browser.find_element("css selector", "body").send_keys(text)  # noqa: E731

    assert cells(browser, 1) == [str(r) for r in audit.suspects()[:50]]
    click("#heads th:nth-child(1) button")
    assert cells(browser, 1) == [str(r) for r in np.sort(audit.suspects())[:50]]
    click("#heads th:nth-child(1) button")
    assert cells(browser, 1) == [str(r) for r in np.sort(audit.suspects())[::-1][:50]]
    browser.execute_script("document.getElementById('given').selectedIndex = 1;"
                           "document.getElementById('given').dispatchEvent(new Event('input'))")  # fmt: skip
    assert set(cells(browser, 2)) == {"0"}
    click("#body tr:nth-child(1)")
    first = int(cells(browser, 1)[0])
    keys("r")
    second = int(cells(browser, 1)[1])
    keys("c")
    assert cells(browser, 6)[:2] == [f"changed to {audit.suggested[first]}", "kept"]
    browser.refresh()
    assert "2 of" in browser.find_element("id", "progress").text
    assert "1 kept, 1 changed" in browser.find_element("id", "progress").text
    click("#csv")
    click("#json")
    made = downloaded(tmp_path / "decisions.csv")
    with open(made) as file:
        rows = {int(r["row"]): r for r in csv.DictReader(file)}
    assert set(rows) == {first, second}
    assert (rows[first]["decision"], rows[second]["decision"]) == ("relabel", "confirm")
    assert {r["of_rows"] for r in rows.values()} == {str(len(data.y))}
    for name in ("decisions.csv", "decisions.json"):
        downloaded(tmp_path / name)
        out = tmp_path / f"{name}.cleaned.csv"
        apply_decisions(tmp_path / name, tmp_path / "train.csv", out)
        expected = data.y.copy()
        expected[first] = audit.suggested[first]
        assert read(out).table["digit"].to_pylist() == expected.tolist()
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_exported_ids_are_checked(browser, tmp_path, digits):
    data, audit = digits
    first = audit.suspects()[0]
    ids = np.array([f"=digit {i}, 'x'" for i in range(len(data.y))], dtype=object)
    write_columns({"a": data.X[:, 0], "digit": data.y, "name": pa.array(ids)}, str(tmp_path / "train.csv"))
    turned = {"a": data.X[:, 0], "digit": data.y, "name": pa.array(ids[::-1])}  # each label where it was
    write_columns(turned, str(tmp_path / "turned.csv"))
    page = tmp_path / "report.html"
    page.write_text(render_report(audit, Rows(X=data.X, target="digit", id_name="name", ids=ids)))
    browser.get(page.as_uri())
    browser.find_element("css selector", "body").send_keys("r")
    for kind in ("csv", "json"):
        browser.find_element("id", kind).click()
        made, out = downloaded(tmp_path / f"decisions.{kind}"), tmp_path / f"{kind}.csv"
        with pytest.raises(InputError, match=f"row {first} should have the id .=digit {first},"):
            apply_decisions(made, tmp_path / "turned.csv", out)
        apply_decisions(made, tmp_path / "train.csv", out)


def test_keyboard_alone_and_paper(browser, tmp_path, digits):
    data, audit = digits
    page = tmp_path / "report.html"
    page.write_text(render_report(audit, Rows(X=data.X, target="digit", image_shape=(8, 8))))
    browser.get(page.as_uri())
    focused = lambda: browser.switch_to.active_element  # noqa: E731
    shown = lambda: browser.find_element("css selector", "#detail h3").text  # noqa: E731
    second, third = audit.suspects()[1:3]

    browser.execute_script("document.querySelector('#body tr:nth-child(2) button').focus()")
    focused().send_keys("\ue007")  # enter
    assert shown() == f"Row {second}"
    assert focused().text == str(second)
    focused().send_keys("\ue015")  # arrow down
    assert shown() == f"Row {third}"
    assert focused().text == str(third)
    assert f"Row {third}: given" in browser.find_element("id", "said").get_attribute("textContent")
    browser.execute_script("document.querySelector('#detail [data-kind=skip]').focus()")
    focused().send_keys("\ue007")
    assert cells(browser, 7)[2] == "skipped"
    assert focused().get_attribute("data-kind") == "skip"

    browser.execute_script("document.activeElement.blur()")
    before = shown()
    browser.find_element("css selector", "body").send_keys("\ue015")
    assert shown() == before  # the page scrolls instead
    browser.execute_script("document.getElementById('shortcuts').checked = false")
    browser.find_element("css selector", "body").send_keys("j")
    assert shown() == before

    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert len(cells(browser, 1)) == len(audit.suspects())
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert len(cells(browser, 1)) == 50
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('button, input, select, svg[role=img], canvas')]"
        ".filter(e => !(e.textContent.trim() || e.ariaLabel || (e.labels && e.labels.length))).length"
    )
    assert unnamed == 0


@pytest.mark.parametrize("width", [400, 1300])
def test_nothing_is_wider_than_the_screen(browser, tmp_path, rng, width):
    names = ["a label that is rather long and has no end" * 3, "b", "c"]
    audit = made_up(rng, 300, 60, names)
    cells = {"words" * 20: np.array(["x" * 300] * 300, dtype=object)}
    page = tmp_path / "report.html"
    page.write_text(render_report(audit, Rows(rng.normal(size=(300, 3)), "t" * 90, cells=cells, source="s" * 200)))
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": True}
    )
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_hostile_cells_in_a_browser(browser, tmp_path, rng):
    audit = made_up(rng, 200, 20, HOSTILE)
    text = np.array([HOSTILE[i % len(HOSTILE)] for i in range(200)], dtype=object)
    rows = Rows(
        rng.normal(size=(200, 3)),
        HOSTILE[1],
        id_name=HOSTILE[3],
        ids=text,
        cells={HOSTILE[0]: text},
        source=HOSTILE[0],
        notes=HOSTILE,
    )
    page = tmp_path / "report.html"
    page.write_text(render_report(audit, rows))
    browser.get(page.as_uri())
    assert len(cells(browser, 1)) == 20
    for _ in range(20):
        browser.find_element("css selector", "body").send_keys("r")
    browser.find_element("id", "csv").click()
    with open(downloaded(tmp_path / "decisions.csv"), newline="") as file:
        exported = list(csv.reader(file))
    assert len(exported) == 21
    assert not [cell for row in exported for cell in row if cell.startswith(("=", "@"))]
    assert [url for url in requests(browser) if url.startswith(("http", "ws", "ftp"))] == []
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert browser.title.startswith("Labels of </script>")


def test_large_report_is_usable_at_once(browser, tmp_path, rng):
    audit = made_up(rng, 100_000, 2_000, [f"class {i}" for i in range(10)])
    page = tmp_path / "report.html"
    page.write_text(render_report(audit, Rows(rng.normal(size=(100_000, 20)))))
    browser.get(page.as_uri())
    ready = int(browser.execute_script("return document.documentElement.dataset.ready"))
    assert len(cells(browser, 1)) == 50
    assert ready < 3000  # milliseconds; a third of it on a quiet machine
