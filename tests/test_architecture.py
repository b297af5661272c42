"""Folders import each other only as the design allows, and each has a map of its modules."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import nearworth

SOURCE = Path(nearworth.__file__).parent
# Folders, and the folders they may import. A folder never imports one that is further down.
ARROWS = {
    "_common": "",
    "inputs": "_common",
    "games": "_common",
    "neighbors": "_common inputs",
    "results": "_common inputs",
    "engine": "_common inputs games neighbors results",
    "root": "_common inputs games neighbors results engine",
    "tables": "_common inputs",
    "report": "_common results",
    "audit": "_common inputs games neighbors results engine root tables report",
    "cli": "_common inputs games neighbors results engine root tables report audit",
}
# Optional libraries, and the one module that imports each.
OPTIONAL = {
    "faiss": "faiss_search",
    "distributed": "value",
    "zarr": "sources",
    "openpyxl": "read",
    "dp_accounting": "rules",
}


def part_of(path: Path) -> str:
    """The folder of a module, or "root" for a module beside the folders."""
    first = path.relative_to(SOURCE).parts[0]
    return first if (SOURCE / first).is_dir() else "root"


def imports(path: Path, *, at_run_time: bool = True):
    """Modules that a file imports, those for type checkers aside."""
    tree = ast.parse(path.read_text())
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if at_run_time and node in for_types:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_arrows_point_one_way():
    for path in SOURCE.rglob("*.py"):
        if path.parent == SOURCE and path.name.startswith("__"):
            continue
        allowed = {*ARROWS[part_of(path)].split(), part_of(path), "_version"}
        for module in imports(path):
            name, *rest = module.split(".")
            if name == "nearworth" and rest:
                target = SOURCE / rest[0]
                used = rest[0] if target.is_dir() or rest[0] == "_version" else "root"
                assert used in allowed, f"{path.relative_to(SOURCE)} must not import {module}"


def test_the_table_lists_every_part_and_no_arrow_points_down():
    parts = list(ARROWS)
    assert {part_of(path) for path in SOURCE.rglob("*.py")} == set(parts)
    for number, (part, allowed) in enumerate(ARROWS.items()):
        assert set(allowed.split()) <= set(parts[:number]), part
    assert len(parts) <= 14


def test_games_need_nothing_but_numpy():
    for path in (SOURCE / "games").glob("*.py"):
        for module in imports(path):
            name = module.split(".")[0]
            assert name in {"numpy", "nearworth"} or name in sys.stdlib_module_names, (
                f"{path.name} imports {module}"
            )


@pytest.mark.parametrize(
    "folder", [SOURCE, *sorted(p for p in SOURCE.iterdir() if (p / "__init__.py").exists())]
)
def test_every_folder_opens_with_an_essay_that_names_its_modules(folder):
    essay = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    assert essay is not None
    here = {path.name for path in folder.glob("*.py")} - {
        "__init__.py",
        "__main__.py",
        "_version.py",
    }
    if folder == SOURCE:
        here |= {f"{path.name}/" for path in folder.iterdir() if (path / "__init__.py").exists()}
    named = {word.strip("`,.:;()") for word in essay.split()}
    assert here <= named, f"not in the essay of {folder.name}: {sorted(here - named)}"
    listed = {word for word in named if word.endswith(".py") and "/" not in word}
    assert listed <= here, f"no longer there: {sorted(listed - here)}"


def test_no_two_modules_or_public_classes_share_a_name():
    """A command in cli/ is named after what it runs, so its module may be too."""
    classes = {}
    modules = {}
    for path in SOURCE.rglob("*.py"):
        if not path.name.startswith("__") and path.parent.name != "cli":
            modules.setdefault(path.stem, []).append(path)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes.setdefault(node.name, []).append(path)
    shared = [paths for names in (modules, classes) for paths in names.values() if len(paths) > 1]
    assert not shared


def test_import_is_light():
    """Nothing heavy is loaded by the import itself."""
    code = "import sys, nearworth; print(*{m.split('.')[0] for m in sys.modules})"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.split()
    )
    heavy = {
        "sklearn",
        "scipy",
        "pandas",
        "polars",
        "pyarrow",
        "matplotlib",
        "tqdm",
        "click",
        "faiss",
    }
    assert not loaded & heavy


@pytest.mark.parametrize(
    ("call", "not_needed"),
    [
        (
            "KNNShapley().fit(X, y).value(X, y)",
            "scipy sklearn pandas polars pyarrow narwhals joblib threadpoolctl tqdm",
        ),
        (
            "audit_labels(X, y).suspects()",
            "sklearn pandas polars pyarrow narwhals joblib scipy.stats tqdm",
        ),
    ],
)
def test_a_first_call_loads_no_more_than_it_needs(call, not_needed):
    """scikit-learn, and pandas which it loads where it is installed, take a second."""
    data = (
        "import sys, numpy as np, nearworth as nw; X = np.random.default_rng(0).normal(size=(80,"
        " 3)); y = X[:, 0] > 0"
    )
    code = f"{data}; nw.{call}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not set(done.stdout.split()) & set(not_needed.split())


def test_optional_libraries_are_imported_in_one_place_each():
    for library, home in OPTIONAL.items():
        assert [path.stem for path in SOURCE.rglob("*.py") if library in set(imports(path))] == [
            home
        ]


def test_every_public_name_exists_and_is_documented():
    for name in nearworth.__all__:
        value = getattr(nearworth, name)
        assert name == "__version__" or value.__doc__
    assert dir(nearworth) == sorted(nearworth.__all__)


def test_type_checkers_see_every_public_name():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    imported = [
        alias for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    assert sorted(alias.name for alias in imported if alias.asname == alias.name) == sorted(
        nearworth.__all__
    )


def test_unknown_names_are_attribute_errors():
    assert not hasattr(nearworth, "knn_shaply")


def test_constructors_of_many_fields_take_keywords():
    """Named tuples aside, which kernels need, and KNNShapley, whose parameters may be given in
    their order.
    """
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef) or "NamedTuple" in map(ast.unparse, node.bases):
                continue
            if node.name == "KNNShapley":
                continue
            fields = [ast.unparse(field) for field in node.body if isinstance(field, ast.AnnAssign)]
            keywords = "_: KW_ONLY" in fields or any(
                "kw_only=True" in ast.unparse(d) for d in node.decorator_list
            )
            assert len(fields) <= 6 or keywords, f"{path.relative_to(SOURCE)}: {node.name}"


def test_no_test_module_imports_another():
    """What they share is in tests/helpers/ or in a conftest.py, so each file can be read alone."""
    tests = Path(__file__).parent
    test_modules = {path.stem for path in tests.rglob("test_*.py")} | {"conftest"}
    for path in tests.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            imported = {alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                imported |= set(node.module.split("."))
            shared = test_modules & {part for name in imported for part in name.split(".")}
            assert not shared, f"{path.relative_to(tests)} imports {sorted(shared)}"


def test_the_essay_of_the_helpers_names_each_of_them():
    folder = Path(__file__).parent / "helpers"
    essay = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    named = {line.split()[1].rstrip(":") for line in essay.splitlines() if line.startswith("- ")}
    assert named == {path.name for path in folder.glob("*.py")} - {"__init__.py"}
