"""Compiles the C library of `native/` when a wheel is built or an editable install is made.

One shared library for each set of instructions, all in src/nearworth/_common/; `_common/native.py`
loads the best that the processor has. The compiler is $CC, cc, gcc or clang; where none of them
works, ziglang from the package index. Where that cannot be had either, or with NEARWORTH_NATIVE=0,
the package is built without compiled code: nearworth then runs its numpy forms, and says so when
first used.

`python hatch_build.py` compiles without installing anything; a folder and flags for the compiler
may follow.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
TARGET = ROOT / "src" / "nearworth" / "_common"
SUFFIX = {"win32": "dll", "darwin": "dylib"}.get(sys.platform, "so")
FLAGS = ["-std=c11", "-O3", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math"]
FLAGS += [
    "-Wall",
    "-Wextra",
    "-Werror=vla",
    "-Wno-psabi",
]  # vectors are passed inside the library only
# Only the product of single precision may contract a * b + c: its error is bounded either way.
CONTRACTED = {"product.c"}
AVX2 = ["-mavx2", "-mfma", "-mbmi", "-mbmi2"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512"]
X86 = {"x86_64", "amd64"}
# The package index has ziglang for these; to ask for it elsewhere would make the install fail.
ZIG_MACHINES = X86 | {"aarch64", "arm64", "riscv64", "ppc64le", "s390x"}


class CompilerError(Exception):
    """There is no compiler, or it fails."""


def machines() -> list[str]:
    """The processors to compile for: this one, or what ARCHFLAGS names on macOS."""
    flags = shlex.split(os.environ.get("ARCHFLAGS", "")) if sys.platform == "darwin" else []
    return [name for name in flags if name != "-arch"] or [platform.machine().lower()]


def variants() -> dict[str, list[str]]:
    """The libraries to make, with the flags of each."""
    on_x86 = set(machines()) <= X86
    return (
        {"baseline": [], "avx2": [*AVX2, "-mtune=haswell"], "avx512": AVX512}
        if on_x86
        else {"baseline": []}
    )


def find_compiler() -> list[str]:
    """The command of a C compiler that works, with the flags that it needs on this platform."""
    if os.environ.get("NEARWORTH_NATIVE") == "0":
        raise CompilerError("NEARWORTH_NATIVE is 0")
    position = [] if sys.platform == "win32" else ["-fPIC"]
    for name in filter(None, [os.environ.get("CC"), "cc", "gcc", "clang"]):
        command = [*shlex.split(name), *position]
        if sys.platform == "darwin":
            command += [part for machine in machines() for part in ("-arch", machine)]
        if "zig" in name:
            command.append("-mcpu=baseline")
        if shutil.which(command[0]) and works(command):
            return command
    if importlib.util.find_spec("ziglang"):
        # Zig compiles for the processor at hand unless it is told not to.
        return [sys.executable, "-m", "ziglang", "cc", *position, "-mcpu=baseline"]
    raise CompilerError("no C compiler was found")


def works(compiler: Sequence[str]) -> bool:
    """Whether a compiler makes a shared library: some lack the headers, some only offer to install
    themselves.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "try.c")
        source.write_text(
            "#include <math.h>\n#include <stdint.h>\ndouble f(double x) { return sqrt(x); }\n"
        )
        command = [*compiler, "-shared", str(source), "-o", f"{source}.{SUFFIX}"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def checksum() -> int:
    """Of the declarations in native.py, as the loader computes it."""
    for node in ast.parse((TARGET / "native.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DECLARATIONS":
            return zlib.crc32(ast.literal_eval(node.value).encode())
    raise ValueError("native.py has no DECLARATIONS")


def run(command: Sequence[str]) -> None:
    """Run a compiler, with its warnings in the log."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.stderr:
        print(done.stderr, file=sys.stderr)
    if done.returncode:
        raise CompilerError(f"{shlex.join(command)} failed: {done.stderr[-500:]}")


def compile_library(
    compiler: Sequence[str], target: Path = TARGET, extra: Sequence[str] = ()
) -> list[Path]:
    """Compile all variants into a folder, several files at once; returns the libraries."""
    define = f"-DDECLARATIONS={checksum()}u"
    compiling, linking = [], []
    with tempfile.TemporaryDirectory() as folder:
        for variant, instructions in variants().items():
            library = Path(folder, f"libnearworth-{variant}.{SUFFIX}")
            objects = []
            for source in sorted((ROOT / "native").glob("*.c")):
                objects.append(str(Path(folder, f"{source.stem}-{variant}.o")))
                contract = (
                    "-ffp-contract=fast" if source.name in CONTRACTED else "-ffp-contract=off"
                )
                flags = [*FLAGS, *instructions, contract, define, *extra]
                compiling.append([*compiler, *flags, "-c", str(source), "-o", objects[-1]])
            mathematics = [] if sys.platform == "win32" else ["-lm"]
            linking.append(
                [*compiler, *extra, "-shared", *objects, "-o", str(library), *mathematics]
            )
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(run, compiling))
            list(pool.map(run, linking))
        return [install(Path(command[command.index("-o") + 1]), target) for command in linking]


def install(library: Path, target: Path) -> Path:
    """Copy a library, and rename: a process that has the old one loaded keeps it."""
    copy = shutil.copyfile(library, target / f"{os.getpid()}-{library.name}")
    return copy.replace(target / library.name)


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a script
    pass
else:

    class NativeLibrary(BuildHookInterface[Any]):
        """The build hook."""

        PLUGIN_NAME = "custom"

        def dependencies(self) -> list[str]:
            """Ziglang, where it is needed and can be had."""
            try:
                find_compiler()
            except CompilerError:
                wanted = os.environ.get("NEARWORTH_NATIVE") != "0" and sys.platform in (
                    "linux",
                    "darwin",
                    "win32",
                )
                return ["ziglang"] if wanted and set(machines()) <= ZIG_MACHINES else []
            return []

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
            """Compile, and mark the wheel as one for this platform."""
            if self.target_name != "wheel":
                return
            try:
                compiler = find_compiler()
                self.app.display_info(
                    f"nearworth: compiling {', '.join(variants())} with {shlex.join(compiler)}"
                )
                libraries = compile_library(compiler)
            except CompilerError as error:
                self.app.display_warning(
                    f"nearworth: NO COMPILED CODE, everything will be much slower: {error}"
                )
                return
            # One wheel for every Python version, for this platform only.
            platform_tag = self.build_config.builder.get_best_matching_tag().rsplit("-", 1)[1]
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag}"
            build_data["artifacts"] += [path.relative_to(ROOT).as_posix() for path in libraries]


if __name__ == "__main__":
    try:
        folder, *flags = [Path(sys.argv[1]), *sys.argv[2:]] if sys.argv[1:] else [TARGET]
        print(*compile_library(find_compiler(), folder, flags), sep="\n")
    except CompilerError as error:
        sys.exit(str(error))
