"""Every number and name on a page, in a real browser, against the results in Python.

The tables have rows without a label, copies, groups, one class, two rows, numbers as targets, and
several of these at once. The results are those of a frame, whose rows are numbered as in the file.
"""

from __future__ import annotations

import csv
import json
import re
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import nearworth as nw
from helpers.browser import downloaded, errors_in_console
from helpers.report_pages import embedded, made_up
from nearworth.report import content
from nearworth.report.page import render_report
from nearworth.tables.dataset import Dataset
from nearworth.tables.labels import Target

DASH = "\N{EN DASH}"

RECORDER = """
  // Keeps what is drawn on each canvas since it was last cleared.
  const context = CanvasRenderingContext2D.prototype;
  const keep = (name, note) => {
    const original = context[name];
    context[name] = function (...given) {
      if (name === "scale") this.canvas.drawn = [];
      if (this.canvas.drawn) this.canvas.drawn.push(note(this, given));
      return original.apply(this, given);
    };
  };
  keep("scale", () => ["scale"]);
  keep("arc", (_, [x, y]) => ["arc", x, y]);
  keep("moveTo", (_, [x, y]) => ["move", x, y]);
  keep("lineTo", (_, [x, y]) => ["line", x, y]);
  keep("fill", (one) => ["fill", one.fillStyle]);
"""
READER = """
  const texts = (selector, within = document) =>
    [...within.querySelectorAll(selector)].map((each) =>
      (each.innerText || "").replace(/\\s+/g, " ").trim());
  const attribute = (selector, name) =>
    [...document.querySelectorAll(selector)].map((each) => each.getAttribute(name));
  const press = (key) =>
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const chosen = () =>
    Number(texts(".dhead span")[0].match(/[Rr]ow ([\\d,]+)/)[1].replaceAll(",", ""));
  const drawing = (canvas) => {
    const { width, height } = canvas.getBoundingClientRect();
    return { width, height, steps: canvas.drawn };
  };
  const screen = () => ({
    row: chosen(),
    head: texts(".dhead span")[0],
    verdict: texts(".verdict")[0],
    why: texts(".why")[0],
    buttons: texts("#actions button"),
    others: texts("#other option").slice(1),
    columns: texts(".cmp thead th"),
    labels: texts(".cmp .target td"),
    cells: [...document.querySelectorAll(".cmp tbody tr:not(.target)")].map((line) =>
      texts("td", line)),
    near: attribute(".near button", "aria-label"),
    cards: texts(".pair header b"),
    strip: attribute(".strip svg", "aria-label"),
    item: texts(".item[aria-selected=true] .meta")[0],
    tile: attribute(".item.tile[aria-selected=true]", "aria-label")[0],
    map: [...document.querySelectorAll(".rail canvas")].map(drawing)[0],
    pixels: [...document.querySelectorAll(".pair canvas")].map((canvas) =>
      [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data].filter(
        (_, i) => i % 4 === 0)),
  });
"""
READ_LIST = (
    READER
    + """
  const screens = [];
  for (let k = 0; k < arguments[0]; k++) {
    screens.push(screen());
    press("j");
  }
  return screens;
"""
)
DECIDE = (
    READER
    + """
  // Another button for each row, in turn; after each the page goes on to the next open row.
  const pressed = [];
  const seen = new Set();
  for (let k = 0; k < arguments[0]; k++) {
    const row = chosen();
    if (seen.has(row)) break;
    seen.add(row);
    const buttons = [...document.querySelectorAll("#actions button")];
    const deciding = buttons.filter((each) => !/Change…/.test(each.textContent));
    const button = deciding[k % deciding.length];
    const words = button.textContent.replace(/\\s+/g, " ").trim();
    button.click();
    pressed.push({ row, words, toast: document.getElementById("toast").textContent });
  }
  return pressed;
"""
)

FILTER = (
    READER
    + """
  // Each label or suggestion that can be chosen: what the choice says, and how many rows it leaves.
  const left = [];
  for (const name of ["Given label", "Suggested label"]) {
    const selector = `select[aria-label="${name}"]`;
    const found = document.querySelector(selector);
    for (const { value, text } of found ? [...found.options].slice(1) : []) {
      const box = document.querySelector(selector);
      box.value = value;
      box.dispatchEvent(new Event("change"));
      left.push([text, texts("#count")[0]]);
      document.getElementById("clear").click();
    }
  }
  return left;
"""
)


@dataclass
class Table:
    """A table whose rows lie in three places far from one another."""

    frame: pd.DataFrame
    place: np.ndarray
    groups: bool = False

    @property
    def target(self):
        return "size"

    @property
    def missing(self):
        return np.flatnonzero(self.frame["size"].isna())

    @property
    def labeled(self):
        return np.flatnonzero(self.frame["size"].notna())


def make_table(
    rng,
    n=80,
    *,
    missing=0,
    copies=0,
    regression=False,
    classes=3,
    groups=False,
    text=False,
    pixels=False,
):
    place = rng.integers(0, 3, n) if n > 4 else np.array([0, 1, 2, 1])
    if pixels:
        X = 10.0 * rng.normal(size=(3, 9))[place] + rng.normal(size=(n, 9))
        columns = {f"pixel_{j}": X[:, j].round(3) for j in range(9)}
    else:
        centers = np.array([[38.0, 18, 181, 3700], [47, 15, 217, 5000], [60, 25, 160, 1900]])
        X = centers[place] + rng.normal(size=(n, 4)) * [2.5, 1, 6, 300]
        names = ("bill", "depth", "flipper", "mass")
        columns = {name: X[:, j].round(2) for j, name in enumerate(names)}
    if regression:
        label = (10.0 * place + rng.normal(size=n)).round(2) + 20.0
        wrong = rng.choice(n, n // 12, replace=False)
        label[wrong] = (label[wrong] * 3).round(2)
    else:
        names = np.array(["Small", "Large", "Medium"], dtype=object)[:classes]
        label = names[place % classes]
        wrong = rng.choice(n, n // 12, replace=False)
        label[wrong] = names[rng.integers(0, classes, len(wrong))]
    frame = pd.DataFrame(columns)
    if text:
        frame.insert(
            0,
            "note",
            [f"The bird of number {i} was seen by the sea near mark {i * 7}." for i in range(n)],
        )
    if groups:
        frame["island"] = [f"island {i}" for i in rng.integers(0, 25, n)]
    frame["size"] = label
    if copies:
        twins = rng.choice(n, copies, replace=False)
        frame = pd.concat(
            [frame.iloc[: n // 2], frame.iloc[twins], frame.iloc[n // 2 :]], ignore_index=True
        )
        place = np.concatenate([place[: n // 2], place[twins], place[n // 2 :]])
        for k in range(n // 2, n // 2 + copies, 2):  # every other copy has another label
            others = [each for each in pd.unique(frame["size"]) if each != frame.at[k, "size"]]
            frame.at[k, "size"] = others[0] if others else frame.at[k, "size"]
    if missing:
        without = rng.choice(len(frame), missing, replace=False) if n > 4 else np.array([1, 3])
        frame.loc[without, "size"] = None if not regression else np.nan
        frame.loc[0, "size"] = frame["size"].dropna().iloc[0]
        frame.loc[1, "size"] = (
            None if not regression else np.nan
        )  # so that later numbers differ from the first on
    return Table(frame, place, groups)


KINDS = {
    "all labeled": {},
    "missing": {"missing": 18},
    "missing and copies": {"missing": 18, "copies": 8},
    "missing, copies and groups": {"missing": 18, "copies": 8, "groups": True},
    "text, missing": {"missing": 20, "text": True},
    "regression": {"regression": True},
    "regression, missing and copies": {"regression": True, "missing": 18, "copies": 8},
    "two classes, missing": {"classes": 2, "missing": 18},
    "two rows": {"n": 4, "missing": 2},
}


SAMPLE = 12


@pytest.fixture(autouse=True)
def small_sample(monkeypatch):
    """Neighbors are outside of the sample, as in large tables, and come after the rows without a
    label.
    """
    monkeypatch.setattr(content, "SAMPLE", SAMPLE)


@pytest.fixture
def visit(browser):
    """Open a page; in the end, no error may stand in the console."""
    recorder = browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": RECORDER}
    )

    def open_page(path):
        browser.get(Path(path).as_uri())
        browser.execute_script("localStorage.clear()")
        browser.refresh()
        return browser

    yield open_page
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", recorder)
    assert not errors_in_console(browser)


def open_tab(browser, name):
    browser.execute_script(f"document.getElementById('tab-{name}').click()")


def read(browser, selector):
    return " ".join(
        browser.find_element("css selector", selector).get_attribute("textContent").split()
    )


def exported(browser, folder, name="decisions.csv"):
    browser.execute_script("document.getElementById('export').click()")
    browser.execute_script("document.getElementById('csv').click()")
    with open(downloaded(folder / name), newline="") as file:
        return {int(record["row"]): record for record in csv.DictReader(file)}


def words(label):
    """A label as the page writes it."""
    if isinstance(label, str):
        return label
    return f"{label:,.6g}" if abs(label) < 1e5 else f"{label:,.0f}"


def percent(share):
    share = round(share, 4)
    if share > 0.99:
        return "more than 99%"
    return "less than 1%" if share < 0.01 else f"{int(100 * share + 0.5)}%"


def short(share):
    return percent(share).replace("more than ", ">").replace("less than ", "<")


def is_regression(table):
    return table.frame["size"].dtype.kind == "f"


def number(text):
    return float(text.replace(",", ""))


def near_of(results, row):
    """The nearest rows that a page shows."""
    return results.nearest(row)[:10]


def partner_first(near, suggested):
    """The neighbors in the order of the table: the nearest one with the suggested label, then the
    others.
    """
    first = next((n for n in near if n.label == suggested), near[0])
    return [first, *(n for n in near if n is not first)]


def check_cells(table, screen, near):
    """The cells of the row and of those beside it are those of the file."""
    columns = [name for name in table.frame.columns if name not in ("size", "note")]
    assert len(screen["cells"]) == len(columns)
    for name, line in zip(columns, screen["cells"], strict=True):
        rows = (
            [screen["row"], *(n.row for n in near)]
            if "note" not in table.frame
            else [screen["row"], near[0].row]
        )
        for text, row in zip(line, rows, strict=True):
            cell = table.frame.at[row, name]
            text = text.lstrip("▲▼≠ ")
            assert (
                text == cell
                if isinstance(cell, str)
                else float(text) == pytest.approx(cell, rel=1e-5)
            )


def check_beside(table, screen, near, own):
    """The neighbors by number and label: columns of a table, cards and choices of texts."""
    ordered = partner_first(near, screen["suggested"]) if near else []
    if "note" in table.frame:
        assert screen["cards"] == ["This row", f"Row {ordered[0].row:,}"]
        assert screen["near"] == [f"Row {n.row:,}, labelled {words(n.label)}" for n in near]
    else:
        assert screen["columns"][1:] == [f"Row {n.row:,}" for n in ordered]
        labels = [text.lstrip("✓= ") for text in screen["labels"]]
        assert labels == [own, *(words(n.label) for n in ordered)]
    check_cells(table, screen, ordered)


def expected_buttons(given, suggested):
    keep = [f"Keep {words(given)} K"]
    change = "Change… C" if suggested is None else f"Change to {words(suggested)} C"
    both = [*keep, change] if suggested is None else [change, *keep]
    return [*both, "Delete row D", "Skip S"]


def check_labels(table, results, browser, page):
    """Every listed row: heading, sentence, buttons, neighbors, list item and small map."""
    listed = page["row"]
    screens = browser.execute_script(READ_LIST, len(listed))
    assert [screen["row"] for screen in screens] == listed
    for k, screen in enumerate(screens):
        row = screen["row"]
        assert screen["head"] == f"Row {row:,} · {k + 1} of {len(listed)}"
        given = results.given[row]
        doubt = 1 - results.quality[row]
        near = near_of(results, row)
        sentence = f"Wrong with a probability of {percent(doubt)}. "
        assert screen["why"].startswith(sentence.strip())
        assert screen["item"].endswith(short(doubt))
        if results.classes is None:
            check_target(table, results, screen)
        else:
            suggested = results.suggested[row] if results.suggested[row] != given else None
            screen["suggested"] = suggested
            best = "in doubt" if suggested is None else f"looks like {suggested}"
            assert screen["verdict"] == f"Labelled {given} {DASH} {best}"
            assert screen["buttons"] == expected_buttons(given, suggested)
            assert set(screen["others"]) == {*results.classes} - {given}
            arrow = given if suggested is None else f"{given}→{suggested}"
            assert screen["item"].startswith(arrow)
            assert (
                screen["why"]
                == (sentence + twin(table, results, row) + counted(near, given, suggested)).strip()
            )
            check_beside(table, screen, near, given)
        if "map" in screen:
            check_small_map(results, screen, page, near)


def twin(table, results, row):
    """What is said about identical rows with another label."""
    features = table.frame.drop(columns="size")
    same = (features == features.loc[row]).all(axis=1) & table.frame["size"].notna()
    unlike = np.flatnonzero(same & (table.frame["size"] != results.given[row]))
    if not len(unlike):
        return ""
    more = f", {len(unlike) - 1} more otherwise" if len(unlike) > 1 else ""
    return f"Identical row {unlike[0]} is labelled {table.frame.at[unlike[0], 'size']}{more}. "


def counted(near, given, suggested):
    if not near:
        return ""
    labels = Counter(n.label for n in near)
    rows = "1 nearest row" if len(near) == 1 else f"{len(near)} nearest rows"
    own = labels[given] or "none"
    if suggested is None:
        return f"Of its {rows} {own} {'is' if labels[given] == 1 else 'are'} labelled {given}."
    verb = "is" if labels[suggested] == 1 else "are"
    return f"{labels[suggested]} of its {rows} {verb} labelled {suggested}, {own} {given}."


def check_target(table, results, screen):
    """Numbers are rounded to about a hundredth of the range that is shown with them."""
    row = screen["row"]
    low, high = results.suggested_range[row]
    fine = 0.06 * (high - low) + 0.01
    found = re.search(r"Rows like it mostly lie between (\S+) and (\S+)\.$", screen["why"])
    assert [number(text) for text in found.groups()] == pytest.approx([low, high], abs=fine)
    given, typical = re.search(r"given (\S+), typical (\S+)$", screen["strip"][0]).groups()
    assert number(given) == pytest.approx(table.frame.at[row, "size"], rel=1e-5)
    assert results.given[row] == table.frame.at[row, "size"]
    assert number(typical) == pytest.approx(results.suggested[row], abs=fine)
    in_doubt = number(typical) == number(given)
    best = "in doubt" if in_doubt else f"rows like it are near {typical}"
    assert screen["verdict"] == f"Given {given} {DASH} {best}"
    assert screen["buttons"] == expected_buttons(
        number(given), None if in_doubt else number(typical)
    )
    screen["suggested"] = number(typical)
    check_beside(table, screen, near_of(results, row), given)


def places_of(page):
    """Where each shown row is drawn, None for those without a label."""
    return dict(zip(page["row"] + page["more"]["row"], page["place"], strict=True))


def on_small_map(place, drawing):
    width = drawing["width"] - 20
    height = drawing["height"] - 20
    return 10 + place[0] / 1000 * width, 10 + (1 - place[1] / 1000) * height


def discs(drawing):
    """Where discs are filled and in which color, in the order in which they are drawn."""
    found = []
    at = None
    for kind, *rest in drawing["steps"]:
        if kind == "arc":
            at = rest
        elif kind == "fill" and at is not None:
            found.append((*at, *rest))
            at = None
    return found


def check_small_map(results, screen, page, near):
    """All labeled rows are drawn, and lines lead from the row to its neighbors."""
    drawing = screen["map"]
    place = places_of(page)
    drawn = discs(drawing)
    n_labeled = int((~np.isnan(results.quality)).sum())
    assert len(drawn) == n_labeled + len(near)
    steps = drawing["steps"]
    lines = [
        (a[1:], b[1:])
        for a, b in zip(steps, steps[1:], strict=False)
        if (a[0], b[0]) == ("move", "line")
    ]
    own = on_small_map(place[screen["row"]], drawing)
    expected = [on_small_map(place[n.row], drawing) for n in near]
    for (start, end), there in zip(
        lines, expected, strict=False
    ):  # the outline of the diamond follows
        assert start == pytest.approx(own, abs=1e-6)
        assert end == pytest.approx(there, abs=1e-6)
    diamond = lines[len(near)]
    assert diamond[0] == pytest.approx((own[0], own[1] - 8), abs=1e-6)
    color = {(round(x, 6), round(y, 6)): fill for x, y, fill in drawn[:n_labeled]}
    for (x, y, fill), there in zip(drawn[n_labeled:], expected, strict=True):
        assert (x, y) == pytest.approx(there, abs=1e-6)
        assert color[round(x, 6), round(y, 6)] == fill


def check_places(table, page):
    """Rows that lie together are drawn together: the nearest on the map lies in the same one of the
    three places.
    """
    rows = [row for row, place in places_of(page).items() if place is not None]
    assert set(rows).isdisjoint(table.missing.tolist())
    where = np.array([places_of(page)[row] for row in rows], dtype=float)
    gaps = ((where[:, None] - where) ** 2).sum(axis=2) + np.eye(len(rows)) * 1e12
    alike = table.place[rows] == table.place[rows][gaps.argmin(axis=1)]
    assert alike.mean() > 0.95


def check_large_map(table, results, browser, page):
    """As many points of each color as rows of that class, rings for listed rows, and names that are
    right.
    """
    open_tab(browser, "map")
    drawing = browser.execute_script(
        READER + "return drawing(document.querySelector('.mapbox canvas'))"
    )
    drawn = discs(drawing)
    assert len(drawn) == len(table.labeled)
    note = read(browser, ".mapnote")
    assert "rows are drawn" not in note
    unlabeled = "target" if results.classes is None else "label"
    assert (f"Rows without a {unlabeled} are not drawn." in note) == bool(len(table.missing))
    if results.classes is not None:
        counts = Counter(table.frame["size"].dropna())
        legend = browser.execute_script(
            READER
            + "return [texts('.legend .name'), texts('.legend .n'), attribute('.legend circle',"
            " 'fill')]"
        )
        assert dict(zip(legend[0], map(int, legend[1]), strict=True)) == counts
        fills = Counter(fill for _, _, fill in drawn)
        assert {name: fills[fill] for name, _, fill in zip(*legend, strict=True)} == counts
    hover = (
        "const c = document.querySelector('.mapbox canvas'), b ="
        " c.getBoundingClientRect();c.dispatchEvent(new PointerEvent('pointermove', {clientX: b.x +"
        " arguments[0], clientY: b.y + arguments[1], bubbles: true})); return"
        " document.querySelector('.hover').textContent"
    )
    place = places_of(page)
    rows = [row for row in place if place[row] is not None]
    spots = np.array([on_large_map(place[row], drawing) for row in rows])
    every = np.array([(x, y) for x, y, _ in drawn])
    n_told = 0
    for row, spot in zip(rows, spots, strict=True):
        gaps = np.sort(((every - spot) ** 2).sum(axis=1))
        assert gaps[0] < 1e-6
        if n_told < 12 and (len(gaps) == 1 or gaps[1] > 100):
            n_told += 1
            told = browser.execute_script(hover, *map(float, spot))
            label = "size " if results.classes is None else "labelled "
            assert f"Row {row:,} {label}{words(results.given[row])}" in told
            if (
                row in page["row"]
                and results.classes is not None
                and results.suggested[row] != results.given[row]
            ):
                assert f"Looks like {results.suggested[row]}. Click to review." in told
    assert n_told >= min(len(rows), 2)


def on_large_map(place, drawing):
    width = drawing["width"] - 80
    height = drawing["height"] - 80
    wide = min(width, 1.5 * height)
    return (drawing["width"] - wide) / 2 + place[0] / 1000 * wide, 40 + (
        1 - place[1] / 1000
    ) * height


def check_unlabeled(table, results, browser, page):
    """Rows without a label: what is suggested, by whom, and what the buttons say."""
    assert sorted(page["unlabelled"]["row"]) == table.missing.tolist()
    open_tab(browser, "unlabelled")
    screens = browser.execute_script(READ_LIST, len(table.missing))
    assert sorted(screen["row"] for screen in screens) == table.missing.tolist()
    known = table.frame.loc[table.labeled, "size"]
    for screen in screens:
        row = screen["row"]
        suggested, probability = results.unlabelled[row]
        screen["suggested"] = suggested
        if results.classes is None:
            assert screen["verdict"] == f"No target {DASH} rows like it are near {words(suggested)}"
            assert screen["buttons"][:2] == [f"Change to {words(suggested)} C", "Keep unlabelled K"]
        else:
            assert screen["verdict"] == f"No label {DASH} looks like {suggested}"
            assert screen["why"].startswith(f"With a probability of {percent(probability)}. ")
            assert screen["buttons"] == [
                f"Call it {suggested} C",
                "Keep unlabelled K",
                "Delete row D",
                "Skip S",
            ]
            assert set(screen["others"]) == {*results.classes}
            assert screen["item"] == f"no label→{suggested} {short(probability)}"
        if "note" not in table.frame:
            rows = [
                int(text.removeprefix("Row ").replace(",", "")) for text in screen["columns"][1:]
            ]
            assert len(rows) == min(10, len(table.labeled))
            own, *labels = (text.lstrip("✓= ") for text in screen["labels"])
            assert own == DASH
            assert labels == [words(known[neighbor]) for neighbor in rows]
            assert (table.place[rows] == table.place[row]).mean() >= (
                0.8 if len(table.frame) > 20 else 0
            )
            near = [nw.audit.explain.Neighbour(r, known[r], 0.0) for r in rows]
            check_cells(table, screen, near)


def check_filters(browser, name):
    """A filter leaves as many rows as it says."""
    open_tab(browser, name)
    for choice, count in browser.execute_script(FILTER):
        assert count.split(" of ")[0] == re.search(r"\((\d+)\)$", choice).group(1)


def check_finding_tabs(table, found, browser):
    """Copies and outliers: the rows of the scan, those beside each, and their labels."""
    for name in ("duplicates", "outliers"):
        finding = getattr(found, name)
        assert len(finding)
        open_tab(browser, name)
        screens = browser.execute_script(READ_LIST, len(finding))
        check_filters(browser, name)
        assert [screen["row"] for screen in screens] == finding.rows.tolist()
        for screen in screens:
            row = screen["row"]
            label = words(table.frame.at[screen["row"], "size"])
            assert screen["verdict"].startswith(f"{label} {DASH} ")
            assert screen["item"].startswith(label)
            assert f"Keep {label} K" in screen["buttons"]
            if name == "outliers":
                continue
            group = next(group for group in finding.groups if row in group)
            others = [other for other in group.tolist() if other != row]
            assert all(f"Row {other}" in screen["why"] for other in others[:3])
            assert screen["columns"][1:] == [f"Row {other}" for other in others]
            labels = {words(table.frame.at[each, "size"]) for each in group.tolist()}
            assert ("They disagree" in screen["why"]) == (len(labels) > 1)


def check_summary(table, browser):
    n_missing = len(table.missing)
    n_labeled = len(table.labeled)
    noun = "target" if is_regression(table) else "label"
    with_label = f", {n_labeled} with a {noun}" if n_missing else ""
    assert read(browser, ".source").endswith(f" {n_missing + n_labeled} rows{with_label}")
    assert f"of {n_labeled} {noun}s" in read(browser, "#headline")
    said = (
        f"{n_missing} row has no {noun}." if n_missing == 1 else f"{n_missing} rows have no {noun}."
    )
    assert (said in read(browser, "#subline")) == bool(n_missing)


def check_classes(table, results, browser, page):
    if results.classes is None:
        open_tab(browser, "classes")
        return
    open_tab(browser, "classes")
    lines = browser.execute_script(
        READER
        + "const lines = [...document.querySelectorAll('.plain tbody tr')];"
        + "return lines.map((line) => [...texts('th', line), ...texts('.num', line)])"
    )
    listed = Counter(table.frame.loc[page["row"], "size"])
    expected = {
        name: (count, listed[name]) for name, count in Counter(table.frame["size"].dropna()).items()
    }
    assert {name: (int(rows), int(many.split(" ")[0])) for name, rows, many in lines} == expected
    pairs = Counter((results.given[row], results.suggested[row]) for row in page["row"])
    told = browser.execute_script(READER + "return attribute('.matrix button', 'aria-label')")
    matrix = {f"{n} labelled {a}, suggested {b}" for (a, b), n in pairs.items() if a != b}
    assert set(told) == matrix


DECISIONS = {
    "Keep": "confirm",
    "Delete": "remove",
    "Skip": "skip",
    "Change": "relabel",
    "Call": "relabel",
}


def decide(browser, lists, name_of="Row {:,}".format):
    """Press a button for each row of each list: what was pressed last for each row, and in which
    list.
    """
    made = {}
    for name, count in lists:
        open_tab(browser, name)
        pressed = browser.execute_script(DECIDE, count)
        assert pressed
        for one in pressed:
            decision = DECISIONS[one["words"].split(" ")[0]]
            label = (
                re.sub(r"^(Change to|Call it|Keep) | [A-Z]$", "", one["words"])
                if decision != "remove"
                else ""
            )
            made[one["row"]] = (decision, label, name)
            if "decided" not in one["toast"]:
                verb = {"confirm": "kept", "remove": "deleted", "skip": "skipped"}.get(
                    decision, f"changed to {label}"
                )
                assert one["toast"].startswith(f"{name_of(one['row'])} {verb}.")
    return made


def check_export(table, made, records):
    """What was pressed is what is exported, with the label that the file has."""
    assert list(records) == sorted(made)
    for row, (decision, label, name) in made.items():
        record = records[row]
        given = table.frame.at[row, "size"]
        assert (record["decision"], record["found_as"]) == (decision, name)
        assert record["of_rows"] == str(len(table.frame))
        if pd.isna(given):
            assert record["given"] == ""
        else:
            assert type(given)(record["given"]) == given
        if decision == "relabel":
            new = record["label"]
            assert label == (words(float(new)) if is_regression(table) else new)
        if decision in ("confirm", "skip"):
            assert record["label"] == record["given"]


def check_applied(table, records, path):
    """The file that `nearworth apply` writes has these labels, and not the rows removed."""
    expected = table.frame.copy()
    for row, record in records.items():
        if record["decision"] == "relabel":
            label = record["label"]
            expected.at[row, "size"] = float(label) if is_regression(table) else label
    expected = expected.drop(
        [row for row, record in records.items() if record["decision"] == "remove"]
    )
    written = pd.read_csv(path)
    pd.testing.assert_frame_equal(written, expected.reset_index(drop=True), check_dtype=False)


@pytest.mark.parametrize("kind", KINDS)
def test_the_report_of_a_file(kind, command, visit, tmp_path, rng):
    table = make_table(rng, **KINDS[kind])
    table.frame.to_csv(tmp_path / "birds.csv", index=False)
    options = ["--groups", "island"] if table.groups else []
    if is_regression(table):
        options += ["--task", "regression"]
    code, _, err = command("report", "birds.csv", "-t", "size", "-o", "birds.html", *options)
    assert code == 0, err
    results = results_of(table)
    page = embedded((tmp_path / "birds.html").read_text())
    assert page["row"] == results.top_doubtful().tolist()
    browser = visit(tmp_path / "birds.html")
    check_summary(table, browser)
    check_labels(table, results, browser, page)
    check_classes(table, results, browser, page)
    check_filters(browser, "labels")
    check_large_map(table, results, browser, page)
    if (
        len(table.frame) > 20 and "note" not in table.frame
    ):  # texts that differ in each row have no place
        check_places(table, page)
    lists = [("labels", len(page["row"]))] if page["row"] else []
    if len(table.missing):
        check_unlabeled(table, results, browser, page)
        check_filters(browser, "unlabelled")
        lists.append(("unlabelled", len(table.missing)))
    if lists:
        made = decide(browser, lists)
        records = exported(browser, tmp_path)
        check_export(table, made, records)
        code, _, err = command("apply", "decisions.csv", "birds.csv", "-o", "clean.csv")
        assert code == 0, err
        check_applied(table, records, tmp_path / "clean.csv")


def results_of(table):
    """The audit of the frame, whose row numbers are those of the file."""
    groups = table.frame["island"].to_numpy() if table.groups else None
    task = "regression" if is_regression(table) else None
    frame = table.frame.drop(columns="island") if table.groups else table.frame
    return quiet(nw.audit_labels, frame, "size", n_neighbors=10, groups=groups, task=task)


def quiet(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows without a label
        return function(*arguments, **options)


@pytest.fixture
def scanned(rng):
    """A table and validation rows: labels missing in both, copies, an outlier, and rows that are in
    both.
    """
    table = make_table(rng, missing=18, copies=8)
    frame = table.frame
    has_copies = frame.drop(columns="size").duplicated(keep=False)
    alone, *both = table.labeled[~has_copies[table.labeled]][[20, 30, 40]].tolist()
    frame.loc[alone, ["bill", "depth", "flipper", "mass"]] = [900.0, 900, 9000, 90000]
    shared = frame.loc[both]
    others = make_table(rng, 30, missing=8).frame
    trusted = pd.concat([others.iloc[:20], shared, others.iloc[20:]], ignore_index=True)
    return table, trusted


def check_leakage(table, trusted, found, browser):
    """Rows that are also validation rows, each with the number that it has there."""
    open_tab(browser, "leakage")
    screens = browser.execute_script(READ_LIST, len(found.leakage))
    assert len(screens) == 2
    for screen in screens:
        other = int(re.search(r"as row (\d+) of the validation set", screen["why"]).group(1))
        pd.testing.assert_series_equal(
            table.frame.loc[screen["row"]], trusted.loc[other], check_names=False, check_dtype=False
        )
        assert (
            screen["verdict"]
            == f"{table.frame.at[screen['row'], 'size']} {DASH} also in the validation set"
        )


def check_scan(table, trusted, found, browser, page):
    assert page["row"] == found.labels.top_doubtful().tolist()
    check_summary(table, browser)
    check_labels(table, found.labels, browser, page)
    check_finding_tabs(table, found, browser)
    check_leakage(table, trusted, found, browser)
    check_large_map(table, found.labels, browser, page)


def test_the_page_of_a_scan_of_files(command, visit, tmp_path, scanned):
    table, trusted = scanned
    table.frame.to_csv(tmp_path / "birds.csv", index=False)
    trusted.to_csv(tmp_path / "trusted.csv", index=False)
    found = quiet(nw.scan, table.frame, "size", X_val=trusted, y_val="size", n_neighbors=10)
    code, out, err = command(
        "scan",
        "birds.csv",
        "--validation",
        "trusted.csv",
        "-t",
        "size",
        "-o",
        "birds.html",
        "--json",
    )
    assert code == 0, err
    printed = json.loads(out)
    for name in ("duplicates", "outliers", "leakage"):
        assert printed[name] == getattr(found, name).rows.tolist()
    page = embedded((tmp_path / "birds.html").read_text())
    browser = visit(tmp_path / "birds.html")
    check_scan(table, trusted, found, browser, page)
    lists = [
        (name, len(page["findings"][name]["rows"]))
        for name in ("duplicates", "outliers", "leakage")
    ]
    made = decide(browser, lists)
    check_export(table, made, exported(browser, tmp_path))


def test_the_pages_of_a_frame(visit, tmp_path, scanned):
    table, trusted = scanned
    found = quiet(nw.scan, table.frame, "size", X_val=trusted, y_val="size", n_neighbors=10)
    found.report(tmp_path / "birds.html")
    page = embedded((tmp_path / "birds.html").read_text())
    browser = visit(tmp_path / "birds.html")
    check_scan(table, trusted, found, browser, page)
    check_export(
        table, decide(browser, [("labels", len(page["row"]))]), exported(browser, tmp_path)
    )


def test_the_leaks_of_a_frame_are_rows_of_the_validation_frame(scanned):
    table, trusted = scanned
    leakage = quiet(
        nw.scan, table.frame, "size", X_val=trusted, y_val="size", n_neighbors=10
    ).leakage
    assert len(leakage) == 2
    assert len(leakage.scores) == len(trusted)
    assert np.isnan(leakage.scores).tolist() == trusted["size"].isna().tolist()
    rows = table.frame.loc[leakage.columns["training_row"]].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        rows, trusted.loc[leakage.rows].reset_index(drop=True), check_dtype=False
    )


def test_images_are_those_of_their_rows(command, visit, tmp_path, rng):
    table = make_table(rng, 80, missing=20, pixels=True)
    table.frame.to_csv(tmp_path / "birds.csv", index=False)
    code, _, err = command(
        "report",
        "birds.csv",
        "-t",
        "size",
        "-o",
        "birds.html",
        "--image-shape",
        "3x3",
        "--features",
        "pixel_*",
    )
    assert code == 0, err
    page = embedded((tmp_path / "birds.html").read_text())
    browser = visit(tmp_path / "birds.html")
    pixels = table.frame.filter(like="pixel_").to_numpy()
    for name, count in (("labels", len(page["row"])), ("unlabelled", len(table.missing))):
        open_tab(browser, name)
        for screen in browser.execute_script(READ_LIST, count):
            other = int(screen["cards"][1].removeprefix("Row "))
            for row, shown in zip((screen["row"], other), screen["pixels"], strict=True):
                alike = [np.corrcoef(shown, line)[0, 1] for line in pixels]
                assert int(np.argmax(alike)) == row
                assert alike[row] > 0.999
            assert screen["tile"].startswith(f"Row {screen['row']}: ")
            near = [
                re.fullmatch(r"Row (\d+), labelled (\w+)", text).groups() for text in screen["near"]
            ]
            assert all(table.frame.at[int(row), "size"] == label for row, label in near)


def test_the_sample_is_of_rows_with_a_label(command, visit, tmp_path, rng):
    table = make_table(rng, 60, missing=20)
    table.frame.to_csv(tmp_path / "birds.csv", index=False)
    code, _, err = command("report", "birds.csv", "-t", "size", "-o", "birds.html")
    assert code == 0, err
    browser = visit(tmp_path / "birds.html")
    browser.execute_script("document.getElementById('sample').click()")
    screens = browser.execute_script(READ_LIST, SAMPLE)
    rows = {screen["row"] for screen in screens}
    assert len(rows) == SAMPLE
    assert rows <= set(table.labeled.tolist())
    for screen in screens:
        given = table.frame.at[screen["row"], "size"]
        assert screen["verdict"] == f"Is {given} right?"
        assert f"Keep {given} K" in screen["buttons"]
        assert f"holds for all {len(table.labeled)} rows with a label." in screen["why"]
        assert screen["columns"] == [f"Row {screen['row']}"]
        check_cells(table, screen, [])


def test_a_review_of_rows_with_a_label(command, visit, tmp_path, rng):
    table = make_table(rng, missing=18, copies=8)
    table.frame.to_csv(tmp_path / "birds.csv", index=False)
    code, _, err = command("review", "birds.csv", "-t", "size", "-n", "12", "-o", "review.html")
    assert code == 0, err
    results = results_of(table)
    drawn = results.review_sample(12, random_state=0)
    page = embedded((tmp_path / "review.html").read_text())
    assert page["row"] == drawn.tolist()
    browser = visit(tmp_path / "review.html")
    screens = browser.execute_script(READ_LIST, 12)
    assert [screen["row"] for screen in screens] == drawn.tolist()
    for k, screen in enumerate(screens):
        given = results.given[screen["row"]]
        assert screen["head"] == f"Row {screen['row']} · {k + 1} of 12"
        assert screen["verdict"] == f"Is {given} right?"
        best = results.suggested[screen["row"]]
        screen["suggested"] = best if best != given else None
        check_beside(table, screen, near_of(results, screen["row"]), given)
    browser.execute_script(READER + "for (let k = 0; k < 12; k++) press('k'); press('j');")
    seed = page["seed"]
    records = exported(browser, tmp_path, f"review-12-seed{seed}.csv")
    assert sorted(records) == sorted(drawn.tolist())
    assert {row: record["given"] for row, record in records.items()} == dict(
        zip(drawn.tolist(), results.given[drawn], strict=True)
    )
    code, _, err = command(
        "audit",
        "birds.csv",
        "-t",
        "size",
        "--review",
        f"review-12-seed{seed}.csv",
        "-o",
        "suspects.csv",
    )
    assert code == 0, err


def test_one_class(visit, tmp_path, rng):
    """An audit refuses one class; a page of one still opens."""
    audit = made_up(rng, 40, 6, ["Small"])
    has_label = ~np.isin(np.arange(44), [0, 3, 9, 20])
    labels = Target(audit.given, "classification", has_label)
    rows = Dataset(rng.normal(size=(44, 3)), "size", labels=labels)
    (tmp_path / "birds.html").write_text(render_report(audit, rows))
    page = embedded((tmp_path / "birds.html").read_text())
    browser = visit(tmp_path / "birds.html")
    numbers = np.delete(np.arange(44), [0, 3, 9, 20])
    screens = browser.execute_script(READ_LIST, 6)
    assert (
        [screen["row"] for screen in screens] == page["row"] == numbers[audit.suspects()].tolist()
    )
    for labeled, screen in zip(audit.suspects().tolist(), screens, strict=True):
        assert screen["verdict"] == f"Labelled Small {DASH} in doubt"
        assert screen["buttons"] == expected_buttons("Small", None)
        first, *others = (f"Row {numbers[n.row]}" for n in audit.nearest(labeled))
        assert screen["columns"][1:] == [first, *(other for other in others if other != first)]
    open_tab(browser, "map")
    open_tab(browser, "classes")
    open_tab(browser, "about")


def test_the_list_without_scripts_and_the_table_name_rows_of_the_file(command, tmp_path, rng):
    """Identical rows with another label are named by their rows of the file, in the page and in
    what audit writes.
    """
    table = make_table(rng, missing=18, copies=8)
    table.frame.to_csv(tmp_path / "birds.csv", index=False)
    assert command("report", "birds.csv", "-t", "size", "-o", "birds.html")[0] == 0
    assert command("audit", "birds.csv", "-t", "size", "-o", "suspects.csv")[0] == 0
    page = embedded((tmp_path / "birds.html").read_text())
    reasons = dict(zip(page["row"], page["why"], strict=True))
    with open(tmp_path / "suspects.csv", newline="") as file:
        reasons_in_table = {
            int(r["row"]): r["why"] for r in csv.DictReader(file) if r["status"] == "suspect"
        }
    results = results_of(table)
    n_named = 0
    for row, reason in [*reasons.items(), *reasons_in_table.items()]:
        assert reason == results.why(row)
        if named := re.search(r"identical row (\d+) is '?(\w+)", reason):
            n_named += 1
            twin_row = int(named.group(1))
            label = named.group(2)
            assert table.frame.at[twin_row, "size"] == label
            assert (
                table.frame.drop(columns="size")
                .loc[twin_row]
                .equals(table.frame.drop(columns="size").loc[row])
            )
    assert n_named


def test_names_of_rows_and_rows_decided_before(command, visit, tmp_path, rng):
    """Rows are named by their ids; a second page counts all rows without a label, and lists those
    still open.
    """
    table = make_table(rng, missing=18)
    names = [f"bird-{7 * row}" for row in range(len(table.frame))]
    table.frame.insert(0, "name", names)
    table.frame.to_csv(tmp_path / "birds.csv", index=False)
    asked = ["report", "birds.csv", "-t", "size", "--id", "name", "-o", "birds.html", "--overwrite"]
    code, _, err = command(*asked)
    assert code == 0, err
    n_missing = len(table.missing)
    page = embedded((tmp_path / "birds.html").read_text())
    browser = visit(tmp_path / "birds.html")
    for tab, count in (("labels", len(page["row"])), ("unlabelled", n_missing)):
        open_tab(browser, tab)
        for k, screen in enumerate(browser.execute_script(READ_LIST, count)):
            assert (
                screen["head"]
                == f"{names[screen['row']]} · row {screen['row']} · {k + 1} of {count}"
            )
            rows = [names.index(name) for name in screen["columns"][1:]]
            _, *labels = (text.lstrip("✓= ") for text in screen["labels"])
            assert labels == table.frame.loc[rows, "size"].tolist()
    decide(browser, [("unlabelled", n_missing)], names.__getitem__)
    records = exported(browser, tmp_path)
    assert {row: record["id"] for row, record in records.items()} == {
        row: names[row] for row in table.missing
    }
    code, _, err = command("apply", "decisions.csv", "birds.csv", "-o", "clean.csv")
    assert code == 0, err

    code, _, err = command(*asked)
    assert code == 0, err
    still_open = [row for row, record in records.items() if record["decision"] == "skip"]
    page = embedded((tmp_path / "birds.html").read_text())
    assert sorted(page["unlabelled"]["row"]) == still_open
    browser = visit(tmp_path / "birds.html")
    n_before = n_missing - len(still_open)
    said = f"{n_missing} rows have no label. {n_before} of them were decided before."
    assert said in read(browser, "#subline")
    assert read(browser, "#tab-unlabelled") == f"Unlabelled {len(still_open)}"
