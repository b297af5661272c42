"""Compiles the C library of `native/` when a wheel is built or an editable install is made.

One shared library for each set of instructions, all in src/nearworth/_common/; `_common/native.py` loads the best that
the processor has. The compiler is $CC, cc, gcc or clang, or ziglang from the package index where there is none.
`python hatch_build.py` compiles without installing anything.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
TARGET = ROOT / "src" / "nearworth" / "_common"
FLAGS = ["-std=c11", "-O3", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-Wall", "-Wextra", "-Werror=vla"]
# Only the product of single precision may contract a * b + c: its error is bounded either way.
CONTRACTED = {"product.c"}
VARIANTS = {"baseline": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    VARIANTS |= {
        "avx2": ["-mavx2", "-mfma", "-mbmi", "-mbmi2", "-mtune=haswell"],
        "avx512": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mbmi2", "-mprefer-vector-width=512"],
    }
SUFFIX = {"win32": "dll", "darwin": "dylib"}.get(sys.platform, "so")


def find_compiler() -> list[str] | None:
    """The command of a C compiler, or None."""
    names = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    for name in filter(None, names):
        command = name.split()
        if shutil.which(command[0]):
            return command
    try:
        import ziglang  # noqa: F401
    except ImportError:
        return None
    return [sys.executable, "-m", "ziglang", "cc"]


def compile_library(compiler: list[str], target: Path = TARGET, extra: list[str] | None = None) -> list[Path]:
    """Compile all variants into a folder; returns the libraries."""
    sources = sorted((ROOT / "native").glob("*.c"))
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for variant, instructions in VARIANTS.items():
            objects, commands = [], []
            for source in sources:
                built = Path(folder) / f"{source.stem}-{variant}.o"
                contract = "fast" if source.name in CONTRACTED else "off"
                flags = [*FLAGS, *instructions, *(extra or []), f"-ffp-contract={contract}"]
                commands.append([*compiler, *flags, "-c", str(source), "-o", str(built)])
                objects.append(str(built))
            for command in [subprocess.Popen(command) for command in commands]:
                if command.wait():
                    raise RuntimeError(f"the C compiler failed: {command.args!r}")
            library = target / f"libnearworth-{variant}.{SUFFIX}"
            link = [*compiler, "-shared", *(extra or []), *objects, "-o", str(library)]
            subprocess.run([*link, *([] if sys.platform == "win32" else ["-lm"])], check=True)
            made.append(library)
    return made


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a script
    pass
else:

    class NativeLibrary(BuildHookInterface[Any]):
        """The build hook."""

        PLUGIN_NAME = "custom"

        def dependencies(self) -> list[str]:
            return [] if find_compiler() else ["ziglang"]

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
            if self.target_name != "wheel":
                return
            compiler = find_compiler()
            if compiler is None:
                raise RuntimeError("no C compiler was found")
            import sysconfig

            tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{tag}"
            build_data["artifacts"] += [str(path.relative_to(ROOT)) for path in compile_library(compiler)]


if __name__ == "__main__":
    found = find_compiler()
    if found is None:
        sys.exit("no C compiler was found")
    print(*compile_library(found), sep="\n")
