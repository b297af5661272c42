"""The package as it is installed: an sdist with the C sources, a wheel with the compiled library,
and one without.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from nearworth._common import native

pytest.importorskip("hatchling", reason="hatchling, which builds the package, is not installed")
ROOT = Path(__file__).parents[1]


def build(source, target, kind, **variables):
    """Build with hatchling; the one file that it made, and the log."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    done = subprocess.run(
        command, cwd=source, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (made,) = target.iterdir()
    return made, done.stdout + done.stderr


def variant_of(wheel, folder):
    """Unpack a wheel and ask it: (variant, warnings)."""
    zipfile.ZipFile(wheel).extractall(folder)
    code = (
        "import nearworth._common.native as native; print(native.__file__); print(native.variant())"
    )
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("NEARWORTH_NATIVE")
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    path, variant = done.stdout.split()
    assert Path(path).is_relative_to(folder)
    return variant, done.stderr


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The sdist of this checkout, and its content unpacked."""
    made, _ = build(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(made) as archive:
        names = archive.getnames()
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    return [name.split("/", 1)[1] for name in names], unpacked


def test_an_sdist_holds_the_sources_and_nothing_compiled(sdist):
    names, _ = sdist
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "native").iterdir()}
    assert sources <= set(names)
    assert "hatch_build.py" in names
    assert not [name for name in names if name.endswith((".so", ".dylib", ".dll", ".pyc"))]


@pytest.mark.long
def test_a_wheel_from_the_sdist_holds_the_library_for_this_platform(sdist, tmp_path):
    from packaging.tags import sys_tags

    wheel, log = build(sdist[1], tmp_path / "wheel", "wheel")
    assert "NO COMPILED CODE" not in log
    python, abi, platform = wheel.stem.split("-")[-3:]
    assert (python, abi) == ("py3", "none")
    assert platform != "any"
    assert f"py3-none-{platform}" in set(map(str, sys_tags())), "pip would refuse it"
    names = zipfile.ZipFile(wheel).namelist()
    built = {Path(name).name for name in names if "libnearworth" in name}
    assert built == {path.name for path in Path(native.__file__).parent.glob("libnearworth-*")}
    assert not [name for name in names if name.endswith((".c", ".h", ".o"))]
    metadata = (
        zipfile.ZipFile(wheel)
        .read(next(name for name in names if name.endswith(".dist-info/WHEEL")))
        .decode()
    )
    assert "Root-Is-Purelib: false" in metadata
    assert variant_of(wheel, tmp_path / "site") == (native.variant(), "")


def test_without_any_compiler_the_package_still_installs_and_says_so(sdist, tmp_path):
    """Neither one on the path nor ziglang; libraries that lie around from other builds do not
    get in.
    """
    if importlib.util.find_spec("ziglang"):
        pytest.skip("ziglang is installed here")
    wheel, log = build(sdist[1], tmp_path / "wheel", "wheel", PATH=str(tmp_path), CC="")
    assert "NO COMPILED CODE" in log
    assert "no C compiler was found" in log
    assert wheel.name.endswith("-py3-none-any.whl")
    variant, warning = variant_of(wheel, tmp_path / "site")
    assert variant == "numpy"
    assert "nearworth runs without compiled code" in warning


@pytest.fixture
def hook(monkeypatch, tmp_path):
    """hatch_build.py as a module, with an empty path."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("NEARWORTH_NATIVE", raising=False)
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    return module


def make_program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def test_zig_is_a_build_dependency_only_where_no_compiler_works(hook, monkeypatch, tmp_path):
    dependencies = lambda: hook.NativeLibrary.dependencies(None)  # noqa: E731
    assert dependencies() == ["ziglang"]
    make_program(tmp_path / "cc", "#!/bin/sh\necho no headers >&2; exit 1\n")
    assert dependencies() == ["ziglang"]
    make_program(tmp_path / "gcc", "#!/bin/sh\nexit 0\n")
    assert dependencies() == []
    assert hook.find_compiler()[0] == "gcc"
    monkeypatch.setenv("CC", f"{tmp_path / 'gcc'} -v")
    assert hook.find_compiler()[:2] == [str(tmp_path / "gcc"), "-v"]
    for program in ("cc", "gcc"):
        (tmp_path / program).unlink()
    monkeypatch.setattr(hook.platform, "machine", lambda: "vax")
    assert dependencies() == []  # there is none for it: the install must not fail
    monkeypatch.undo()


def test_no_compiler_is_looked_for_when_none_is_wanted(hook, monkeypatch):
    monkeypatch.setenv("NEARWORTH_NATIVE", "0")
    assert hook.NativeLibrary.dependencies(None) == []
    with pytest.raises(hook.CompilerError, match="NEARWORTH_NATIVE is 0"):
        hook.find_compiler()


def test_zig_is_kept_from_using_the_instructions_of_this_processor(hook, monkeypatch):
    monkeypatch.setattr(hook.importlib.util, "find_spec", lambda name: name == "ziglang")
    assert "-mcpu=baseline" in hook.find_compiler()


def test_macos_architectures(hook, monkeypatch):
    monkeypatch.setattr(hook.sys, "platform", "darwin")
    monkeypatch.setattr(hook.platform, "machine", lambda: "arm64")
    assert (hook.machines(), list(hook.variants())) == (["arm64"], ["baseline"])
    monkeypatch.setenv("ARCHFLAGS", "-arch x86_64")
    assert (hook.machines(), list(hook.variants())) == (["x86_64"], ["baseline", "avx2", "avx512"])
    monkeypatch.setenv("ARCHFLAGS", "-arch x86_64 -arch arm64")
    assert list(hook.variants()) == ["baseline"]


def test_a_failing_compiler_is_reported(hook, tmp_path):
    make_program(tmp_path / "cc", "#!/bin/sh\necho 'error: no such instruction' >&2; exit 1\n")
    with pytest.raises(hook.CompilerError, match="no such instruction"):
        hook.compile_library([str(tmp_path / "cc")], tmp_path)
    assert not list(tmp_path.glob("libnearworth*"))
