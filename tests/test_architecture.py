"""The layers know each other only as the design allows."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import nearworth

SOURCE = Path(nearworth.__file__).parent
FOUNDATION = {"_typing", "_version"}
# Layer -> what it may import from the package, itself aside.
ALLOWED = {
    "_typing": set(),
    "_version": set(),
    "_compile": set(),
    "_memory": set(),
    "sources": FOUNDATION | {"_memory"},
    "_files": FOUNDATION,
    "_sealed": {"_files"},
    "_frames": FOUNDATION,
    "_validation": FOUNDATION | {"sources"},
    "_generators": FOUNDATION | {"_validation"},
    "games": FOUNDATION,
    "neighbors": FOUNDATION | {"_compile", "_files", "_validation", "sources"},
    "engine": FOUNDATION | {"_compile", "_files", "_memory", "_sealed", "_validation", "games", "neighbors", "sources"},
    "utilities": {"games"},
    "owners": {"_frames"},
    "plots": FOUNDATION,
    "detection": FOUNDATION | {"_validation"},
    "valuation": FOUNDATION | {"_files", "_frames", "_validation", "detection", "engine", "owners", "plots"},
    "training": FOUNDATION | {"_validation", "games", "neighbors", "engine"},
    "searching": FOUNDATION | {"engine", "games", "neighbors"},
    "runs": FOUNDATION | {"_validation", "engine", "valuation"},
    "estimators": FOUNDATION
    | {"_validation", "engine", "games", "neighbors", "runs", "searching", "training", "valuation"},
    "audit": FOUNDATION
    | {
        "_frames",
        "_validation",
        "detection",
        "engine",
        "estimators",
        "games",
        "plots",
        "valuation",
        "findings",
        "report",
    },
    "curves": FOUNDATION | {"_frames", "_generators", "_validation", "plots"},
    "datasets": FOUNDATION | {"_generators", "_validation"},
    "paper": FOUNDATION | {"_files", "_validation", "datasets", "detection", "estimators"},
    "tables": FOUNDATION | {"_files", "_validation", "sources"},
    "testing": FOUNDATION | {"neighbors"},
    "benchmarking": FOUNDATION | {"engine", "estimators"},
    "planning": FOUNDATION | {"engine", "estimators"},
    "merging": FOUNDATION | {"_files", "engine", "valuation"},
    "findings": FOUNDATION | {"detection"},
    "report": FOUNDATION | {"_files", "findings"},
    "commands": FOUNDATION
    | {
        "_files",
        "_validation",
        "audit",
        "datasets",
        "engine",
        "estimators",
        "findings",
        "report",
        "tables",
        "valuation",
    },
    "__main__": {"cli"},
    "cli": FOUNDATION | {"merging", "planning", "benchmarking", "commands", "findings", "paper"},
}
# games: rank space, nothing but numpy. Optional libraries may not be needed by anything.
OUTSIDE = {"games": {"numpy"}}


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_arrows_point_one_way():
    for path in SOURCE.rglob("*.py"):
        if path.name == "__init__.py" and path.parent == SOURCE:
            continue
        for module in imports(path):
            parts = module.split(".")
            if parts[0] == "nearworth":
                assert parts[1] in ALLOWED[layer(path)] | {layer(path)}, f"{path.name} must not import {module}"
            elif layer(path) in OUTSIDE and parts[0] not in sys.stdlib_module_names:
                assert parts[0] in OUTSIDE[layer(path)], f"{path.name} must not import {module}"


def test_every_layer_is_in_the_table():
    assert {layer(p) for p in SOURCE.rglob("*.py")} - {"__init__"} == set(ALLOWED)


def test_import_is_light():
    """Nothing heavy is loaded by the import itself."""
    code = "import sys, nearworth; print(*{m.split('.')[0] for m in sys.modules})"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    )
    heavy = {"sklearn", "scipy", "numba", "pandas", "polars", "pyarrow", "matplotlib", "tqdm", "click", "faiss"}
    assert not loaded & heavy


def test_optional_libraries_are_imported_in_one_place_each():
    homes = {"faiss": "faiss_search.py", "distributed": "cluster.py", "ray": "ray_executor.py", "fsspec": "remote.py"}
    homes["zarr"] = "chunked.py"
    for library, home in homes.items():
        assert [path.name for path in SOURCE.rglob("*.py") if library in set(imports(path))] == [home]


def test_every_public_name_exists_and_is_documented():
    for name in nearworth.__all__:
        value = getattr(nearworth, name)
        assert name == "__version__" or value.__doc__
    assert dir(nearworth) == sorted(nearworth.__all__)


def test_unknown_names_are_attribute_errors():
    assert not hasattr(nearworth, "knn_shaply")
