"""Shared fixtures. Every random test draws from `rng`; set NEARWORTH_TEST_SEED to try other
data.
"""

from __future__ import annotations

import os
import zlib

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("nearworth", deadline=None, print_blob=True)
settings.load_profile("nearworth")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator of its own for each test, the same in every run unless another seed is asked
    for.
    """
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
