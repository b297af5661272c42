"""A short run of the fuzzer, with the libraries as they are, and with libraries that watch every
access to memory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fuzz_native
from helpers.variants import variants_here
from nearworth._common import native

ROOT = Path(__file__).parents[1]
SANITIZERS = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Werror"]


def fuzz(variant, n_cases, **variables):
    command = [
        sys.executable,
        str(ROOT / "tests" / "fuzz_native.py"),
        "--seed",
        "0",
        "--cases",
        str(n_cases),
    ]
    return subprocess.run(
        command,
        env=os.environ | {"NEARWORTH_NATIVE": variant} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_function_is_driven():
    assert set(fuzz_native.MAKERS) == set(native.DECLARED)


@pytest.mark.parametrize("variant", variants_here()[1:])
def test_no_case_fails(variant):
    done = fuzz(variant, 40)
    assert done.returncode == 0, done.stderr
    assert f"{variant}: 40 rounds" in done.stdout


def libasan(compiler):
    """The library of AddressSanitizer, which must be loaded before Python."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the sanitizers are loaded by LD_PRELOAD, which is for Linux")
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not there")
    named = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout
    if not Path(named.strip()).is_absolute():
        pytest.skip(f"{compiler} comes without AddressSanitizer")
    return named.strip()


@pytest.mark.long
def test_no_access_is_out_of_bounds_and_nothing_is_undefined(tmp_path):
    """One test for all variants, because the libraries take half a minute to make."""
    watch = {"LD_PRELOAD": libasan("gcc"), "NEARWORTH_NATIVE_FOLDER": str(tmp_path)}
    watch |= {
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }  # Python itself leaks
    command = [sys.executable, str(ROOT / "hatch_build.py"), str(tmp_path), *SANITIZERS]
    subprocess.run(command, check=True, env=os.environ | {"CC": "gcc"})
    for variant in variants_here()[1:]:
        done = fuzz(variant, 40, **watch)
        assert done.returncode == 0, done.stderr
        assert f"{variant}: 40 rounds" in done.stdout
