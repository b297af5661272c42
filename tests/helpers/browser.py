"""A headless Chromium, and a page in it by what a person sees and does."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import time

import pytest

ENTER = "\ue007"
TAB = "\ue004"
ESCAPE = "\ue00c"
DOWN = "\ue015"
UP = "\ue013"
RIGHT = "\ue014"


def launch(folder):
    """A headless Chromium with its profile in `folder`. The test is skipped where there is none.

    The browser and its driver are those on the path, or those that the environment variables
    CHROMIUM and CHROMEDRIVER name.
    """
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="selenium is not installed: the browser tests need it"
    )
    binary = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    driver = os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip(
            "no chromium with chromedriver here: install them, or set CHROMIUM and CHROMEDRIVER"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1300,1000"):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={folder / 'profile'}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=driver)
    )


def save_downloads_in(browser, folder):
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)}
    )


def errors_in_console(browser):
    """Messages of errors since the console was read last."""
    entries = browser.get_log("browser")
    return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]


def network_requests(browser):
    """Addresses beyond this machine that were asked for since the log was read last."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    return [url for url in urls if url.startswith(("http", "ws", "ftp"))]


def wait(condition):
    """The result of `condition()` as soon as it is true. Browsers take their time."""
    for _ in range(200):
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def downloaded(path):
    """The path of a file as soon as its download is complete."""
    # Chromium reserves the name with an empty file and replaces that in the end.
    wait(lambda: path.exists() and path.stat().st_size > 0)
    return path


class Page:
    """A page in a browser, by what a person sees and does."""

    def __init__(self, browser, folder, html):
        self.browser = browser
        self.folder = folder
        (folder / "report.html").write_text(html, encoding="utf-8")
        for made in [*folder.glob("decisions*"), *folder.glob("review-*")]:
            made.unlink()
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.get((folder / "report.html").as_uri())
        browser.execute_script("localStorage.clear()")
        browser.refresh()

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def one(self, selector):
        return self.browser.find_element("css selector", selector)

    def text(self, selector):
        return " ".join(self.one(selector).text.split())

    def said(self):
        return self.one("#toast").get_attribute("textContent")

    def click(self, selector):
        self.one(selector).click()

    def keys(self, text):
        for key in text:
            self.browser.switch_to.active_element.send_keys(key)

    def run(self, script):
        return self.browser.execute_script(f"return {script}")

    def row(self):
        return int(re.search(r"[Rr]ow ([\d,]+)", self.text(".dhead")).group(1).replace(",", ""))

    def saved(self, kind="csv", name="decisions"):
        """The decisions that Export writes, by row."""
        self.click("#export")
        self.click(f"#{kind}")
        path = downloaded(self.folder / f"{name}.{kind}")
        if kind == "json":
            return {record["row"]: record for record in json.loads(path.read_text())["decisions"]}
        with open(path, newline="") as file:
            return {int(record["row"]): record for record in csv.DictReader(file)}
