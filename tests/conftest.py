"""Shared fixtures. Every random test draws from `rng`.

The environment variable NEARWORTH_TEST_SEED gives the tests other random data.
"""

from __future__ import annotations

import os
import zlib

import numpy as np
import pytest
from hypothesis import settings

from helpers.browser import launch, save_downloads_in

settings.register_profile("nearworth", deadline=None, print_blob=True)
settings.load_profile("nearworth")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes():
    """Give the BLAS of each test process one thread, before the processes start.

    The processes share the cores. OpenBLAS waits busily for its threads, so that one page of the
    documentation took 80 s of processor time instead of 3 s.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator for one test. Its numbers are the same in every run with the same seed."""
    seed = int(os.environ.get("NEARWORTH_TEST_SEED", "0"))
    return np.random.default_rng([seed, zlib.crc32(request.node.nodeid.encode())])


@pytest.fixture
def command(capfd, tmp_path, monkeypatch):
    """Run a command in a folder of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        from nearworth.cli import main

        with pytest.raises(SystemExit) as left:
            main(list(arguments), prog_name="nearworth")
        out, err = capfd.readouterr()
        return left.value.code or 0, out, err

    return run


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """One browser for all tests of a process, because it takes a second to start."""
    opened = launch(tmp_path_factory.mktemp("chromium"))
    yield opened
    opened.quit()


@pytest.fixture
def browser(chromium, tmp_path):
    """The browser with a tab for one test: no emulation, no log and no download of another test."""
    first_tab = chromium.current_window_handle
    chromium.switch_to.new_window("tab")
    save_downloads_in(chromium, tmp_path)
    for log in ("browser", "performance"):
        chromium.get_log(log)
    yield chromium
    chromium.close()
    chromium.switch_to.window(first_tab)
