"""The rules of the page, each in a real browser: keys, undo, bulk, sample, empty states, wording,
export.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import nearworth as nw
from helpers.browser import DOWN, ENTER, ESCAPE, RIGHT, UP, Page, errors_in_console, wait
from helpers.report_pages import made_up
from nearworth.audit.error_count import ErrorCount
from nearworth.cli.arguments import ApplyOptions, OutputOptions
from nearworth.cli.decisions import apply
from nearworth.report.content import Suggestions
from nearworth.report.page import render_report
from nearworth.tables import InputError
from nearworth.tables.dataset import Dataset
from nearworth.tables.labels import Target
from nearworth.tables.read import read
from nearworth.tables.write import write_columns


def test_a_key_is_the_first_letter_of_the_word_on_its_button(images, digits):
    _, audit = digits
    first = audit.suspects()[:4].tolist()
    buttons = images.all("#actions button")
    assert [b.text.replace("\n", " ") for b in buttons] == [
        f"Change to {audit.suggested[first[0]]} C",
        f"Keep {audit.given[first[0]]} K",
        "Delete row D",
        "Skip S",
    ]
    assert all(
        b.text[0] == b.text[-1] == b.get_attribute("aria-keyshortcuts").upper() for b in buttons
    )
    assert len(images.all("#actions .solid")) == 1
    images.keys("ckds")
    assert images.row() == audit.suspects()[4]  # after each decision the next open row
    assert [s.text for s in images.all("#inner .stamp")] == [
        "Changed",
        "Kept",
        "Deleted",
        "Skipped",
    ]
    assert images.text("#count") == f"4 of {len(audit.suspects())} decided"
    assert images.text("#export") == "Export 4"
    assert (
        images.one("#meter").get_attribute("aria-label")
        == "1 changed, 1 kept, 1 deleted, 1 skipped"
    )
    made = images.saved()
    assert [made[row]["decision"] for row in first] == ["relabel", "confirm", "remove", "skip"]


def test_content_first_and_the_row_beside_its_neighbour(images, digits):
    _, audit = digits
    row = int(audit.suspects()[0])
    given = audit.given[row]
    suggested = audit.suggested[row]
    assert images.text(".verdict") == f"Labelled {given} \N{EN DASH} looks like {suggested}"
    near = audit.nearest(row)
    count = sum(n.label == suggested for n in near)
    assert f"{count} of its 10 nearest rows are labelled {suggested}" in images.text(".why")
    partner = next(n.row for n in near if n.label == suggested)
    titles = lambda: [b.text for b in images.all(".pair header b")]  # noqa: E731
    assert titles() == ["This row", f"Row {partner:,}"]
    assert len(images.all(".pair canvas")) == 2
    assert len(images.all(".near button")) == 10
    images.click(".near button:nth-child(7)")
    assert titles() == ["This row", f"Row {near[6].row:,}"]
    pressed = [b.get_attribute("aria-pressed") for b in images.all(".near button")]
    assert pressed == ["true" if k == 6 else "false" for k in range(10)]
    assert images.browser.switch_to.active_element.get_attribute("data-keep") == "near-6"
    images.keys("j")
    assert titles()[1] != f"Row {near[6].row:,}"  # pinned for that row only


def test_undo_takes_back_step_by_step_even_after_a_reload(table):
    rows = []
    for key in "ckd":
        rows.append(table.row())
        table.keys(key)
    table.browser.refresh()
    assert table.text("#count") == "3 of 30 decided"
    for expected in reversed(rows):
        table.keys("u")
        assert table.row() == expected
    assert table.text("#count") == "0 of 30 decided"
    assert not table.one("#undo").is_enabled()
    table.keys("u")
    assert table.said() == "Nothing to undo."
    for _ in rows:
        table.keys("U")
    assert table.text("#count") == "3 of 30 decided"
    table.keys("U")
    assert table.said() == "Nothing to redo."
    table.click("#undo")
    table.keys("s")  # a new decision ends what could be done again
    table.keys("U")
    assert table.said() == "Nothing to redo."


def test_undo_goes_to_the_row_whatever_hides_it(table):
    row = table.row()
    table.keys("k")
    table.one("#search").send_keys("no such words")
    assert table.text("#inner").startswith("Nothing matches. 30 rows are hidden by the filters.")
    table.click("#tab-about")
    table.keys("u")
    assert table.row() == row
    assert table.run("document.body.dataset.tab") == "labels"
    assert table.one("#search").get_attribute("value") == ""
    assert table.text("#count") == "0 of 30 decided"


def test_a_list_that_scrolls_may_be_left_at_once(table):
    """The list is drawn in the next frame, when a tab without a list may be open."""
    open_about = "document.querySelector('#tab-about').click()"
    scroll = "document.querySelector('#list').dispatchEvent(new Event('scroll'))"
    next_frame = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
    table.browser.execute_async_script(f"{scroll}; {open_about}; {next_frame}")
    assert table.run("document.body.dataset.tab") == "about"


def test_decisions_are_forgotten_from_a_panel_too(table):
    table.keys("k")
    table.click("#tab-about")
    table.click("#export")
    is_forget = "button => button.textContent.startsWith('Forget')"
    table.run(f"[...document.querySelectorAll('dialog button')].find({is_forget}).click()")
    assert table.said().startswith("Forgotten.")
    table.click("#tab-labels")
    assert table.text("#count") == "0 of 30 decided"


def test_bulk_is_of_open_listed_rows_and_one_step(table):
    first = table.row()
    table.keys("d")
    label = table.run(
        "document.querySelector('select[aria-label=\"Given label\"]').options[1].text"
    )
    listed = int(re.search(r"\((\d+)\)", label).group(1))
    choose = (
        "const s = document.querySelector('select[aria-label=\"Given label\"]'); s.selectedIndex"
        " = 1;"
    )
    table.browser.execute_script(choose + "s.dispatchEvent(new Event('change'))")
    assert table.text("#count") == f"{listed} of 30 listed"
    n_open = int(re.search(r"\d+", table.text("#bulk")).group())
    assert n_open in (listed, listed - 1)
    table.click("#bulk")
    assert table.text("#dialog-title") == f"Decide {n_open} rows at once"
    assert "open rows your filters list" in table.text("dialog")
    assert table.browser.switch_to.active_element.text == f"Change all {n_open}"
    table.keys(ENTER)
    assert table.said().startswith(f"{n_open} rows changed.")
    table.click("#clear")
    assert table.text("#count") == f"{n_open + 1} of 30 decided"
    table.keys("u")
    assert table.text("#count") == "1 of 30 decided"
    assert table.saved()[first]["decision"] == "remove"


def test_nothing_listed_nothing_to_decide(show, rng):
    page = show(made_up(rng, 60, 0, ["a", "b"]), Dataset(rng.normal(size=(60, 2))))
    assert page.text("#inner").startswith(
        "No label looks wrong. That is good news, not a proof: see About"
    )
    assert not page.all("#actions button")
    page.keys("ckds")
    page.keys("e")
    assert page.said() == "Nothing decided yet. Decide a row first: C, K, D or S."
    assert page.text("#export") == "Export"


def test_an_empty_list_says_why(show, rng):
    page = show(made_up(rng, 60, 5, ["a", "b"]), Dataset(rng.normal(size=(60, 2))), max_fdr=0.001)
    assert (
        page.text("#inner")
        == "No row is listed. No list can promise at most 0.1 % false alarms here: --fraction 0.05"
        " lists the worst; a review of 100 rows says how many are wrong."
    )


def test_one_and_many(show, rng):
    page = show(made_up(rng, 60, 1, ["a", "b"]), Dataset(rng.normal(size=(60, 2))))
    page.keys("k")
    assert page.said() == "The 1 row listed is decided. Export takes them with you."
    page.keys("e")
    assert page.text("#dialog-title") == "Export 1 decision"
    page.keys(ESCAPE)
    page.one("#search").send_keys("zzz")
    assert "1 row is hidden by the filters." in page.text("#inner")


def test_the_end_of_the_list(table):
    table.keys("k" * 30)
    assert table.said() == "All 30 rows listed are decided. Export takes them with you."
    assert table.text("#tab-labels") == "Labels 0"
    assert not table.one("#bulk").is_enabled()


def test_filters_search_and_clear(table):
    table.keys("ck")
    table.keys("/")
    assert table.browser.switch_to.active_element.get_attribute("id") == "search"
    table.keys("red")
    shown = [item.text for item in table.all("#inner .item")]
    assert shown
    assert all("red" in item for item in shown)
    table.keys(ESCAPE)  # leaves the field: keys decide again
    assert table.browser.switch_to.active_element.get_attribute("id") == "list"
    table.click("#clear")
    assert not table.one("#clear").is_displayed()
    decision = "const s = document.querySelector('select[aria-label=Decision]'); s.value = 'keep';"
    table.browser.execute_script(decision + "s.dispatchEvent(new Event('change'))")
    assert table.text("#count") == "1 of 30 listed"
    table.click("#clear")
    assert table.text("#count") == "2 of 30 decided"


def test_notes_stay_with_their_row_and_are_found(table):
    row = table.row()
    table.keys("n")
    table.keys("a blurred scan, kds")  # keys are text here
    table.keys(ESCAPE)
    table.keys("j")
    assert table.one("#note").get_attribute("value") == ""
    table.browser.refresh()
    table.one("#search").send_keys("blurred")
    assert table.row() == row
    table.keys(ESCAPE)
    table.keys("k")
    assert table.saved()[row]["note"] == "a blurred scan, kds"


def test_differences_from_the_row_are_marked(table):
    own = float(table.text(".cmp tbody tr:nth-child(2) .self"))
    size = [c.text for c in table.all(".cmp tbody tr:nth-child(2) td:not(.self)")]
    assert len(size) == 10
    for cell in size:  # the median distance from the median of 0, 10 ... 1990 is 500
        value = float(cell.split()[-1])
        sign = "▲ " if value - own > 500 else "▼ " if own - value > 500 else ""
        assert cell == sign + f"{value:.0f}"
    colour = table.text(".cmp tbody tr:nth-child(3) .self")
    others = [c.text for c in table.all(".cmp tbody tr:nth-child(3) td:not(.self)")]
    assert set(others) <= {colour, "≠ red" if colour == "blue" else "≠ blue"}
    fifth = table.all(".cmp thead button")[4].text
    table.all(".cmp thead button")[4].click()
    assert table.all(".cmp thead button")[0].text == fifth
    assert table.all(".cmp thead button")[0].get_attribute("aria-pressed") == "true"


def test_shared_words_are_marked(show, rng):
    audit = made_up(rng, 100, 5, ["a", "b"])
    animals = np.array(["zebra", "tiger", "otter", "horse"], dtype=object)[np.arange(100) % 4]
    said = np.array(
        [f"Yesterday we saw one {a} running very quickly past our house." for a in animals],
        dtype=object,
    )
    page = show(
        audit, Dataset(rng.normal(size=(100, 2)), cells={"said": said, "n": np.arange(100)})
    )
    assert page.one(".pair .prose").text == said[page.row()]
    for _ in range(5):
        marked = {m.text for m in page.all(".pair .side1:first-child mark")}
        own, other = (set(p.text.rstrip(".").split()) for p in page.all(".pair .prose"))
        assert {"Yesterday", "running", "quickly", "house"} <= marked <= own & other
        page.keys("j")
    assert page.text(".cmp tbody tr:nth-child(2) th") == "n"  # the other cells follow


def test_another_label(table):
    row = table.row()
    given = table.text(".verdict .old")
    options = [o.text for o in table.all("#other option")][1:]
    assert set(options) == {"a", "b", "c"} - {given}
    last = "const s = document.getElementById('other'); s.selectedIndex = 2;"
    table.browser.execute_script(last + "s.dispatchEvent(new Event('change'))")
    assert table.said().startswith(f"Row {row} changed to {options[1]}.")
    assert table.saved()[row]["label"] == options[1]


def test_many_classes(show, rng):
    names = [f"class {i}" for i in range(40)]
    audit = made_up(rng, 400, 60, names)
    page = show(audit, Dataset(rng.normal(size=(400, 2))))
    row = page.row()
    page.keys("o")
    page.keys("nonsense" + ENTER)
    assert page.said() == "No class is called nonsense."
    page.one("#other").clear()
    page.keys("o")
    page.keys("class 7" + ENTER)
    assert page.saved()[row]["label"] == "class 7"
    page.click("#tab-classes")
    assert not page.all(".matrix")
    pairs = page.all(".cols > .card:last-child tbody tr")
    assert len(pairs) == 20
    given = page.text(".cols > .card:last-child tbody th")
    suggested = page.text(".cols > .card:last-child tbody td")
    pairs[0].find_element("css selector", "button").click()
    assert {item.text.split("\n")[0] for item in page.all(".item .labels")} == {
        f"{given}→{suggested}"
    }


def test_a_number_of_the_matrix_lists_its_rows(images, digits):
    _, audit = digits
    images.click("#tab-classes")
    number = images.one(".matrix button")
    count, given, suggested = re.fullmatch(
        r"(\d+) labelled (\d), suggested (\d)", number.get_attribute("aria-label")
    ).groups()
    rows = audit.suspects()
    among = (audit.given[rows] == int(given)) & (audit.suggested[rows] == int(suggested))
    assert int(count) == among.sum()
    number.click()
    assert images.text("#count") == f"{count} of {len(rows)} listed"
    assert images.row() == rows[among][0]


def test_numbers_as_targets(show, rng):
    X = rng.normal(size=(400, 3))
    y = (200_000 + 50_000 * X[:, 0]).round(-2)
    y[:10] *= 9
    audit = nw.audit_labels(X, y, n_neighbors=10, task="regression")
    page = show(audit, Dataset(X, "price"))
    row = page.row()
    assert page.text(".verdict").startswith(
        f"Given {y[row]:,.0f} \N{EN DASH} rows like it are near "
    )
    suggested = page.text(".verdict .new")
    assert re.fullmatch(r"\d{2,3},\d00", suggested)
    assert "Rows like it mostly lie between" in page.text(".why")
    assert page.one(".strip svg").get_attribute("aria-label").endswith(f"typical {suggested}")
    assert page.text("#tab-classes") == "Distribution"
    assert (
        page.text("#headline") == f"About {audit.n_errors.estimate:.0f} of 400 targets look wrong."
    )
    ends = (
        f"At least {int(audit.n_errors.lower)}, at most {int(np.ceil(audit.n_errors.upper))} if"
        " right targets scatter"
    )
    assert page.text("#subline").startswith(ends)
    page.keys("c")
    other = page.row()
    page.keys("o")
    page.keys("123.5" + ENTER)
    made = page.saved()
    assert made[row]["label"] == suggested.replace(",", "")
    assert float(made[row]["given"]) == y[row]
    assert (made[other]["decision"], made[other]["label"]) == ("relabel", "123.5")
    page.click("#tab-classes")
    assert len(page.all(".card svg")) == 2


def test_the_summary_says_how_many_of_those_listed_are_likely_wrong(show, rng):
    for n_suspects, said in ((0, "None is"), (1, "1 is"), (3, "3 are")):
        audit = replace(
            made_up(rng, 90, n_suspects, ["a", "b"]), n_errors=ErrorCount(None, 0.0, 60.0)
        )
        page = show(audit, Dataset(rng.normal(size=(90, 2))))
        assert page.text("#headline") == "At most 60 of 90 labels look wrong."
        assert (
            f"{said} more likely wrong than right; the 50 most doubtful are listed."
            in page.text("#subline")
        )


def test_the_sample_is_judged_blind_and_its_range_is_the_headline(images):
    assert images.text("#headline").endswith("of 1,198 labels look wrong.")
    assert images.text("#headline").startswith("At least ")
    assert " if the commonest label around a row is right." in images.text("#subline")
    assert not images.all("#tab-sample")
    assert images.text("#sample") == "Review 100 rows to know how many"
    images.click("#sample")
    assert images.text(".verdict").startswith("Is ")
    assert not images.all(".near button, .pair .side1:nth-child(2), .new, .box svg")
    assert not images.one("#bulk").is_displayed()
    assert images.text("#actions button").startswith("Keep")
    images.keys("k" * 19)
    assert images.text("#headline").endswith("look wrong.")
    images.keys("d")
    assert images.text("#sample") == "Go on: 20 of 100 reviewed"
    # Wilson: 1 of 20.
    low = 0.0088 * 1198
    high = 0.2361 * 1198
    assert (
        images.text("#headline")
        == f"Between {int(low)} and {int(high) + 1} of 1,198 labels are wrong."
    )
    images.keys("u")
    assert images.text("#headline").endswith("look wrong.")
    images.browser.refresh()
    assert images.text("#tab-sample") == "Sample 81"


def test_keys_of_the_review_work_in_the_sample(images, digits):
    """As on the page of nearworth review; elsewhere they do nothing."""
    images.keys("rw")
    assert images.text("#count").startswith("0 of")
    images.click("#help")
    assert "R" not in [kbd.text for kbd in images.all("dialog dt kbd")]
    images.keys(ESCAPE)
    images.click("#sample")
    drawn = images.run("JSON.parse(document.getElementById('data').textContent).sample")
    images.keys("rw")
    assert images.text("#count") == "2 of 100 decided"
    assert (
        images.one("#meter").get_attribute("aria-label")
        == "0 changed, 1 kept, 0 deleted, 0 skipped, 1 wrong"
    )
    images.keys("?")
    assert {"R", "W"} <= {kbd.text for kbd in images.all("dialog dt kbd")}
    images.keys(ESCAPE)
    images.click("#actions [data-keep=wrong]")
    images.click("#export")
    assert "nearworth review" in images.text("dialog")
    images.keys(ESCAPE)
    made = images.saved()
    given = str(digits[1].given[drawn[0]])
    assert [(made[row]["decision"], made[row]["label"]) for row in drawn[:3]] == [
        ("confirm", given),
        ("wrong", ""),
        ("wrong", ""),
    ]


def test_what_is_listed_is_said(show, rng):
    """Rows that are worth a look are not called more likely wrong than right."""
    audit = made_up(rng, 200, 20, ["a", "b"])
    about = lambda page: (page.click("#tab-about"), page.text("#panel"))[1]  # noqa: E731
    assert "Listed: more likely wrong than right." in about(show(audit, Dataset()))
    more = replace(audit, n_errors=ErrorCount(None, 0.0, 30.0))
    assert "Listed: the most doubtful rows, 20 of 30 more likely wrong than right." in about(
        show(more, Dataset())
    )
    none = replace(more, quality=np.maximum(audit.quality, 0.6))
    assert "Listed: the most doubtful rows, 0 of 30 more likely" in about(show(none, Dataset()))
    page = show(replace(none, n_errors=ErrorCount(None, 0.0, 1.0)), Dataset())
    assert "None is more likely wrong than right; the most doubtful one is listed." in page.text(
        "#subline"
    )
    assert "Listed: none." in about(
        show(replace(none, n_errors=ErrorCount(None, 0.0, 0.0)), Dataset())
    )


def test_bulk_decisions_do_not_count_as_a_review(images):
    images.click("#bulk")
    images.keys(ENTER)
    images.click("#sample")
    assert images.text("#sample") == "Go on: 0 of 100 reviewed"
    assert images.text("#tab-sample") == "Sample 100"


def test_one_decision_per_row_across_lists(images, digits):
    _, audit = digits
    images.click("#sample")
    drawn = images.run("JSON.parse(document.getElementById('data').textContent).sample")
    row = next(row for row in drawn if row in audit.suspects())
    images.one("#search").send_keys(str(row))
    wait(lambda: images.row() == row)
    images.keys(ESCAPE)
    images.keys("k")
    images.click("#tab-labels")
    assert images.text("#count") == f"1 of {len(audit.suspects())} decided"
    made = images.saved()
    assert (list(made), made[row]["found_as"]) == ([row], "sample")


def test_focus_survives_a_decision(table):
    table.browser.execute_script("document.querySelector('[data-keep=keep]').focus()")
    table.keys(ENTER)
    assert table.browser.switch_to.active_element.get_attribute("data-keep") == "keep"
    assert table.text("#count") == "1 of 30 decided"
    table.keys(ENTER)
    assert table.text("#count") == "2 of 30 decided"


def test_what_a_screen_reader_needs(table):
    chosen = lambda: table.one("#list").get_attribute("aria-activedescendant")  # noqa: E731
    table.browser.execute_script("document.getElementById('list').focus()")
    table.keys(DOWN + "j")
    assert chosen() == "item-2"
    table.keys(UP + "J" + "J")
    assert chosen() == "item-0"
    option = table.one("#item-1")
    values = [
        option.get_attribute(name)
        for name in ("role", "aria-posinset", "aria-setsize", "aria-selected")
    ]
    assert values == ["option", "2", "30", "false"]
    table.browser.execute_script("document.getElementById('tab-labels').focus()")
    table.keys(RIGHT)
    assert table.browser.switch_to.active_element.get_attribute("id") == "tab-map"
    assert table.one("#panel").get_attribute("aria-labelledby") == "tab-map"
    assert table.one("#toast").get_attribute("aria-live") == "polite"
    for tab in ("map", "classes", "about", "labels"):
        table.click(f"#tab-{tab}")
        assert (
            table.run(
                "[...document.querySelectorAll('button, input, select, textarea, svg[role=img],"
                " canvas')].filter(e => !(e.textContent.trim() || e.ariaLabel || (e.labels &&"
                " e.labels.length))).length"
            )
            == 0
        )


def test_keys_are_listed(table):
    table.keys("?")
    assert [k.text for k in table.all("dialog dt")][:5] == ["C", "K", "D", "S", "U"]
    table.keys("k")  # no decision behind a dialog
    table.click("#shortcuts")
    table.click("dialog .row button")
    assert not table.one("dialog").is_displayed()
    table.browser.refresh()
    table.keys("k")  # letters are no keys any more
    assert table.text("#count") == "0 of 30 decided"
    table.click("#help")
    table.click("#shortcuts")
    table.keys(ESCAPE)
    table.keys("k")
    assert table.text("#count") == "1 of 30 decided"


def test_grid_and_list(images):
    assert images.all(".item.tile")
    images.keys("g")
    assert not images.all(".item.tile")
    assert images.all(".item.line canvas")


def test_light_and_dark(table):
    paper = lambda: table.run("getComputedStyle(document.body).backgroundColor")  # noqa: E731
    light = paper()
    table.click("#theme")
    dark = paper()
    assert dark != light
    table.browser.refresh()
    assert paper() == dark
    table.click("#theme")
    assert paper() == light
    assert not re.search(
        r"light-dark\(|color-mix\(", table.run("document.querySelector('style').textContent")[2000:]
    )


def test_on_a_phone_list_and_row_are_two_screens(table):
    table.browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True},
    )
    table.browser.refresh()

    def seen():
        return table.one("#list").is_displayed(), table.one("#detail").is_displayed()

    assert seen() == (True, False)
    table.run(
        "document.getElementById('item-1').click()"
    )  # it is drawn anew when the size has settled
    assert seen() == (False, True)
    solid = table.one("#actions .solid").rect
    page = table.one("#actions").rect
    assert solid["width"] > 0.9 * page["width"]
    table.click("[data-keep=keep]")
    assert seen() == (False, True)
    table.keys("o")
    focused = table.browser.switch_to.active_element
    table.browser.execute_script(
        "dispatchEvent(new Event('resize'))"
    )  # as when the keyboard comes up
    time.sleep(0.2)
    assert table.browser.switch_to.active_element == focused
    table.click(".backer")
    assert seen() == (True, False)


def test_on_paper(show, rng):
    page = show(made_up(rng, 900, 400, ["a", "b"]), Dataset(rng.normal(size=(900, 2))))
    page.keys("k")
    page.browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert len(page.all("#printed tbody tr")) == 300
    lines = page.run(
        "[...document.querySelectorAll('#printed tbody tr:first-child td')].map((c) =>"
        " c.textContent)"
    )
    assert lines[4] == "Kept"
    assert (
        page.run("document.querySelector('#printed h2').textContent")
        == "Labels, 400 rows, the first 300 of them"
    )


def test_a_row_on_the_map_is_opened(images):
    images.click("#tab-map")
    row, x, y = images.run(
        "(() => { const d = JSON.parse(document.getElementById('data').textContent);const c ="
        " document.querySelector('.mapbox canvas');const W = c.clientWidth, H = c.clientHeight,"
        " wide = Math.min(W - 80, (H - 80) * 1.5), [x, y] = d.place[5];return [d.row[5], (W - wide)"
        " / 2 + x / 1000 * wide - W / 2, 40 + (1 - y / 1000) * (H - 80) - H / 2]; })()"
    )
    from selenium.webdriver import ActionChains

    canvas = images.one(".mapbox canvas")
    ActionChains(images.browser).move_to_element_with_offset(canvas, round(x), round(y)).perform()
    assert "Click to review" in images.text(".hover")
    ActionChains(images.browser).click().perform()
    assert images.row() == row


def test_a_browser_without_memory_says_so(table):
    table.browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument",
        {
            "source": (
                "if (location.hash === '#full') Storage.prototype.setItem = () => { throw new"
                " Error('full'); }"
            )
        },
    )
    assert not table.one("#storage").is_displayed()
    table.browser.get(table.browser.current_url + "#full")
    table.browser.refresh()
    assert table.one("#storage").is_displayed()
    table.keys("k")
    assert table.text("#count") == "1 of 30 decided"


def test_without_scripts_the_list_is_readable(table):
    table.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    table.browser.refresh()
    lines = table.all(".plainly tbody tr")
    tools = table.one(".tools")
    assert len(lines) == 30
    assert lines[0].is_displayed()
    assert not tools.is_displayed()
    table.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_forgetting_can_be_undone(table):
    table.keys("cc")
    table.keys("e")
    table.click("dialog .quiet")
    assert table.text("#count") == "0 of 30 decided"
    table.keys("u")
    assert table.text("#count") == "2 of 30 decided"


def test_blanks_at_the_ends_of_labels_are_seen(show, rng):
    page = show(made_up(rng, 60, 9, ["a ", "b"]), Dataset(rng.normal(size=(60, 2))))
    assert "“a ”" in page.one(".verdict").text


def apply_decisions(decisions, train, output):
    """`nearworth apply`, whose errors are raised here."""
    options = ApplyOptions(
        decisions=str(decisions),
        train=str(train),
        target=None,
        keep=False,
        write=OutputOptions(output=str(output), overwrite=False),
    )
    apply(options)


def test_decisions_are_what_apply_reads(show, tmp_path, digits):
    data, audit = digits
    write_columns(
        {f"p{i}": data.X[:, i] for i in range(64)} | {"digit": data.y}, str(tmp_path / "train.csv")
    )
    page = show(audit, Dataset(X=data.X, target="digit"))
    first = page.row()
    page.keys("cks")
    for kind in ("csv", "json"):
        made = page.saved(kind)
        assert [record["decision"] for record in made.values()].count("relabel") == 1
        assert {int(record["of_rows"]) for record in made.values()} == {len(data.y)}
        apply_decisions(
            tmp_path / f"decisions.{kind}", tmp_path / "train.csv", tmp_path / f"{kind}.cleaned.csv"
        )
        expected = data.y.copy()
        expected[first] = audit.suggested[first]
        assert (
            read(tmp_path / f"{kind}.cleaned.csv").table["digit"].to_pylist() == expected.tolist()
        )


def test_exported_ids_are_checked(show, tmp_path, digits):
    data, audit = digits
    first = audit.suspects()[0]
    ids = np.array([f"=digit {i}, 'x'" for i in range(len(data.y))], dtype=object)
    write_columns(
        {"a": data.X[:, 0], "digit": data.y, "name": pa.array(ids)}, str(tmp_path / "train.csv")
    )
    turned = {
        "a": data.X[:, 0],
        "digit": data.y,
        "name": pa.array(ids[::-1]),
    }  # each label where it was
    write_columns(turned, str(tmp_path / "turned.csv"))
    page = show(audit, Dataset(X=data.X, target="digit", id_name="name", ids=ids))
    page.keys("c")
    for kind in ("csv", "json"):
        page.saved(kind)
        made = tmp_path / f"decisions.{kind}"
        out = tmp_path / f"{kind}.csv"
        with pytest.raises(InputError, match=f"row {first} should have the id .=digit {first},"):
            apply_decisions(made, tmp_path / "turned.csv", out)
        apply_decisions(made, tmp_path / "train.csv", out)


def test_a_tab_for_each_kind_of_finding(show, browser, tmp_path, rng):
    """Copies, outliers and leaks: clicked, read, decided, exported and applied."""
    X = rng.normal(size=(120, 6))
    X[7] = 40.0
    X, y = (
        np.concatenate([X, X[:3]]),
        np.concatenate([(X[:, 0] > 0).astype(int), (X[:3, 0] > 0).astype(int)]),
    )
    y[122] = 1 - y[2]
    found = nw.scan(
        X, y, X_val=np.concatenate([X[20:22], rng.normal(size=(30, 6))]), y_val=np.arange(32) % 2
    )
    page = Page(
        browser,
        tmp_path,
        render_report(found.labels, Dataset(X=X, source="a.csv"), {}, found.findings()),
    )
    tabs = [tab.text.split()[0] for tab in page.all("#tabs [role=tab]")]
    assert tabs[:4] == ["Labels", "Duplicates", "Outliers", "Leakage"]
    assert "Also: 6 copies, 1 outlier and 2 rows shared" in page.text("#subline")
    page.click("#tab-duplicates")
    assert [int(item.get_attribute("data-i")) for item in page.all("#inner .item")] == [*range(6)]
    assert page.text(".why") == "The same as Row 120, in everything that is compared."
    assert "there more than once" in page.text(".verdict")
    page.keys("kdkkd")  # 0 kept, 120 deleted, 1 kept, 121 kept, 2 deleted
    assert page.row() == 122
    assert "They disagree: 0 and 1." in page.text(".why") or "They disagree: 1 and 0." in page.text(
        ".why"
    )
    page.click("#tab-outliers")
    assert page.row() == 7
    assert "far from every other row" in page.text(".verdict")
    page.keys("d")
    page.click("#tab-leakage")
    assert page.text(".why").startswith("The same as row 0 of the validation set.")
    page.keys("u")  # undo goes back to the outlier, in its tab
    assert page.run("document.body.dataset.tab") == "outliers"
    made = page.saved()
    assert {row: made[row]["decision"] for row in made} == {
        0: "confirm",
        1: "confirm",
        2: "remove",
        120: "remove",
        121: "confirm",
    }
    assert made[120]["found_as"] == "duplicates"
    assert "Duplicates: 6 rows" in page.run("document.getElementById('made').content.textContent")
    assert not errors_in_console(browser)


def without_labels(rng, n=6):
    """Rows without a label, which look like the second class."""
    near = rng.integers(0, 200, (n, 10))
    suggested = np.array(["b"] * n, dtype=object)
    return Suggestions(
        np.arange(200, 200 + n), suggested, np.linspace(0.9, 0.4, n), near, np.ones((n, 10))
    )


def test_rows_without_a_label_are_a_list_of_their_own(show, rng):
    audit = made_up(rng, 200, 30, ["a", "b", "c"])
    rows = Dataset(
        rng.normal(size=(206, 2)),
        "kind",
        cells={"size": np.arange(206)},
        labels=Target(audit.given, "classification", np.arange(206) < 200),
    )
    page = show(audit, rows, decided=[1, 2], suggestions=without_labels(rng))
    assert "2 rows were judged before and are not asked again." in page.text("#subline")
    assert "6 rows have no label." in page.text("#subline")
    assert page.text("#tab-unlabelled") == "Unlabelled 6"
    page.click("#tab-unlabelled")
    assert page.text(".verdict") == "No label \N{EN DASH} looks like b"
    assert page.text(".why").startswith("With a probability of 90%.")
    buttons = [b.text.replace("\n", " ") for b in page.all("#actions button")]
    assert buttons == ["Call it b C", "Keep unlabelled K", "Delete row D", "Skip S"]
    page.keys("ckd")
    made = page.saved()
    assert [(m["given"], m["decision"], m["label"], m["found_as"]) for m in made.values()] == [
        ("", "relabel", "b", "unlabelled"),
        ("", "confirm", "", "unlabelled"),
        ("", "remove", "", "unlabelled"),
    ]
    assert list(made) == [200, 201, 202]
    page.click("#tab-map")  # they have no place there
    assert page.all(".mapbox canvas")


def test_the_accessibility_tree_has_names_and_states(table):
    """What Chromium tells a screen reader: every control has a name, the list its place, the toast
    is announced.
    """
    browser = table.browser
    browser.execute_cdp_cmd("Accessibility.enable", {})
    try:
        nodes = [
            n
            for n in browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
            if not n["ignored"]
        ]
    finally:
        browser.execute_cdp_cmd("Accessibility.disable", {})
    role = lambda node: node["role"]["value"]  # noqa: E731
    named = (
        "button",
        "tab",
        "option",
        "listbox",
        "combobox",
        "textbox",
        "searchbox",
        "image",
        "region",
        "article",
    )
    assert [role(n) for n in nodes if role(n) in named and not n["name"].get("value")] == []
    one = {
        name: [n for n in nodes if role(n) == name]
        for name in ("tablist", "listbox", "main", "banner", "article")
    }
    assert {name: len(found) for name, found in one.items()} == dict.fromkeys(one, 1)
    assert sum(role(n) == "status" for n in nodes) >= 2
    selected = [
        n
        for n in nodes
        if role(n) == "option"
        and {"selected": True} in [{p["name"]: p["value"].get("value")} for p in n["properties"]]
    ]
    assert len([n for n in selected if n["name"]["value"] not in ("Surest first",)]) >= 1
    assert sum(role(n) == "heading" for n in nodes) >= 2


def test_a_large_matrix_has_all_the_room(show, rng):
    page = show(
        made_up(rng, 520, 60, [chr(65 + i) for i in range(26)]), Dataset(rng.normal(size=(520, 2)))
    )
    page.click("#tab-classes")
    matrix = page.one(".matrix").rect
    box = page.one(".cols > .card:last-child").rect
    assert matrix["width"] <= box["width"]
    assert box["y"] < page.one(".cols > .card:first-child").rect["y"]


def test_texts_that_no_two_rows_share_are_not_marked(show, rng):
    names = np.array([f"name {i}" for i in range(100)], dtype=object)
    page = show(
        made_up(rng, 100, 5, ["a", "b"]), Dataset(rng.normal(size=(100, 2)), cells={"name": names})
    )
    assert not page.all(".cmp .far")
