"""What the command line costs beside the valuation itself, against the targets of
docs/command-line.md.

python benchmarks/command_line.py [help] [audit] [report] [demo]

Each part runs the command as users do, in a process of its own. `demo` makes a fresh virtual
environment, installs the package from this checkout, and times the first run; `report` needs
chromium, chromedriver and selenium.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from nearworth.tables.dataset import Dataset

ROOT = Path(__file__).parents[1]
START = "from nearworth.cli import main; main(prog_name='nearworth')"
ROWS, COLUMNS = 50_000, 100
REPORT_ROWS, REPORT_SUSPECTS = 100_000, 2_000

# The process that reads, prepares, writes; the audit is replaced by one that costs nothing and
# finds as much.
WITHOUT_VALUATION = """
import sys, time, resource
import numpy as np
import nearworth.audit.audit as audit
from types import SimpleNamespace

def no_audit(X, y, **parameters):
    n = len(y)
    zero, some = np.zeros(n), np.arange(n // 20)
    count = SimpleNamespace(estimate=0.0, lower=0.0, upper=0.0)
    return type("NoAudit", (), dict(
        quality=zero, value=zero, suggested=y, n_errors=count,
        valuation=SimpleNamespace(error_bound=0.0),
        suspects=lambda self: some, describe_selection=lambda self, selection: "none",
        why=lambda self, row: "of its 10 nearest rows 10 are this", __len__=lambda self: n,
    ))()

audit.audit_labels = no_audit
from nearworth.cli import main
try:
    main(sys.argv[1:], prog_name="nearworth")
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print("USED", used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, file=sys.stderr)
"""


def help_cost() -> None:
    """CPU seconds of `nearworth --help`, the least of ten."""
    seconds = min(cpu([sys.executable, "-c", START, "--help"]) for _ in range(10))
    print(f"nearworth --help: {seconds:.3f} s CPU (wanted: 0.2)")


def cpu(command: list[str], **how: Any) -> float:
    """CPU seconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **how)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def audit_cost(folder: Path) -> None:
    """CPU and peak memory of everything in `audit` but the valuation; memory also beyond that of a
    tiny file.
    """
    large, tiny = _measure(folder, ROWS), _measure(folder, 100)
    matrix = 8 * ROWS * COLUMNS
    print(
        f"audit on a {ROWS:,} x {COLUMNS} CSV, all but the valuation: {large[0]:.1f} s CPU"
        f" (wanted: 10); peak {(large[1] - tiny[1]) / matrix:.1f} x the matrix of"
        f" {matrix / 1e6:.0f} MB (wanted: below 4) beyond the {tiny[1] / 1e6:.0f} MB that Python"
        " and its libraries take for a tiny file"
    )


def _measure(folder: Path, n_rows: int) -> tuple[float, float]:
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, COLUMNS)).round(4)
    labels = np.array(["cat", "dog", "cow"])[rng.integers(0, 3, n_rows)]
    pa_csv.write_csv(
        pa.table({f"x{i}": X[:, i] for i in range(COLUMNS)} | {"label": labels}),
        folder / "large.csv",
    )
    command = [
        sys.executable,
        "-c",
        WITHOUT_VALUATION,
        "audit",
        "large.csv",
        "-t",
        "label",
        "-o",
        "s.csv",
        "--overwrite",
    ]
    used = []
    for _ in range(3):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        used.append([float(part) for part in done.stderr.split("USED")[1].split()])
    seconds, peak = np.min(used, axis=0)
    return float(seconds), float(peak)


def report_cost(folder: Path) -> None:
    """Size of a large report, and the time from opening it to the first fifty suspects on the
    screen.
    """
    sys.path.insert(0, str(ROOT / "tests"))
    from selenium import webdriver

    from helpers.report_pages import made_up
    from nearworth.report.page import render_report

    rng = np.random.default_rng(0)
    audit = made_up(rng, REPORT_ROWS, REPORT_SUSPECTS, [f"class {i}" for i in range(10)])
    cells = {f"column {i}": rng.normal(size=REPORT_ROWS).round(4) for i in range(16)}
    ids = np.array([f"row number {i}" for i in range(REPORT_ROWS)], dtype=object)
    began = time.process_time()
    page = render_report(
        audit,
        Dataset(rng.normal(size=(REPORT_ROWS, 20)), "label", id_name="id", ids=ids, cells=cells),
    ).encode()
    made = time.process_time() - began
    (folder / "report.html").write_bytes(page)
    options = webdriver.ChromeOptions()
    options.binary_location = os.environ.get("CHROMIUM") or shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    driver = os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")
    browser = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=driver)
    )
    try:
        ready = []
        for _ in range(5):
            browser.get((folder / "report.html").as_uri())
            ready.append(
                int(browser.execute_script("return document.documentElement.dataset.ready"))
            )
    finally:
        browser.quit()
    print(
        f"report of {REPORT_ROWS:,} rows, {REPORT_SUSPECTS:,} suspects, 16 columns: made in"
        f" {made:.1f} s CPU, {len(page) / 1e6:.2f} MB (wanted: below 5), usable"
        f" {min(ready) / 1e3:.2f} to {max(ready) / 1e3:.2f} s after opening (wanted: 1)"
    )


def demo_cost(folder: Path) -> None:
    """Wall-clock time of the README's first command in a fresh environment, installs excluded."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    subprocess.run([str(folder / "venv/bin/pip"), "install", "--quiet", str(ROOT)], check=True)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"HOME": str(folder)}
    command = [str(folder / "venv/bin/nearworth"), "demo"]
    for what in ("first", "second"):
        began = time.perf_counter()
        used = cpu(command, cwd=folder, env=env)
        spent = time.perf_counter() - began
        print(
            f"nearworth demo, {what} run in a fresh environment: {spent:.1f} s (wanted: 60),"
            f" {used:.1f} s CPU"
        )


def main() -> None:
    wanted = sys.argv[1:] or ["help", "audit", "report", "demo"]
    print(
        json.dumps(
            {"python": sys.version.split()[0], "cores": os.cpu_count(), "load": os.getloadavg()[0]}
        )
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "help" in wanted:
            help_cost()
        for part, run in (("audit", audit_cost), ("report", report_cost), ("demo", demo_cost)):
            if part in wanted:
                run(folder)


if __name__ == "__main__":
    main()
