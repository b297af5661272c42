"""Do the tests notice a fault? Random small faults ("mutants"), one at a time, and the tests of the
part that has it.

    python benchmarks/mutants.py                          # 30 mutants of the whole package
    python benchmarks/mutants.py --count 100 --seed 7     # others
    python benchmarks/mutants.py --only neighbors/lsh.py native/classify.c
    python benchmarks/mutants.py --files 3                # the three most likely test files of each
    python benchmarks/mutants.py --list                   # print the mutants and run nothing

A mutant changes one place: a comparison, an operator, a number, a condition, or a statement that is
left out. Places are drawn by --seed, uniformly over all places of the chosen files. The same seed
on the same code gives the same mutants.

The files of the checkout that git knows are copied to a temporary folder, with the compiled
library. Only the copy is ever changed. A change of C is compiled in the copy.

TESTS says which tests belong to a part. The test file with the name of the module comes first, then
those that import it or name it most often. A mutant meets them file by file until one is red. A
file that turns red has to be green without the change. Else it is left out from then on, and named,
because it would kill every mutant.

    killed     a test failed, or the code could not be imported or compiled
    timeout    the tests of a file did not end within LIMIT, though they do without the change:
               counted as killed
    survived   all were green: either a test is missing, or the change makes no difference
               ("equivalent"). Which of the two it is, a person has to say: the lines are printed

The tests of other parts do not run, so a mutant that survives here may still be killed by the whole
suite. The same is true of files that --files leaves out. Figures are to be compared only between
runs with the same --seed and --files. A mutant takes seconds if the first file kills it, and
minutes if it survives.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path("src/nearworth")
GOLDEN = "tests/test_golden.py"
# Tests of a part, as patterns. The part is the folder below src/nearworth. A module outside of any
# folder has a line of its own, by its name.
TESTS = {
    "_common": ["tests/_common/test_*.py"],
    "audit": ["tests/audit/test_*.py", GOLDEN],
    "cli": ["tests/cli/test_*.py"],
    "engine": ["tests/engine/test_*.py", GOLDEN],
    "games": ["tests/games/test_*.py", GOLDEN],
    "inputs": ["tests/inputs/test_*.py"],
    "neighbors": ["tests/neighbors/test_*.py", GOLDEN],
    "report": ["tests/report/test_*.py"],
    "results": ["tests/results/test_*.py", "tests/engine/test_typical_error.py"],
    "tables": ["tests/tables/test_*.py", "tests/cli/test_data.py", "tests/cli/test_any_table.py"],
    "native": [
        "tests/test_fuzz_native.py",
        "tests/engine/test_*.py",
        "tests/neighbors/test_*.py",
        GOLDEN,
    ],
    "datasets": ["tests/test_label_noise.py", "tests/cli/test_demo.py"],
    "estimator": ["tests/test_estimator.py", "tests/test_values.py"],
    "retrieval": ["tests/test_retrieval.py"],
    "testing": ["tests/test_testing.py", "tests/test_definition.py"],
}
# They need a browser, a cluster or another package, or take minutes, and say little of one place in
# the code.
LEFT_OUT = {
    "tests/audit/test_other_tools.py",
    "tests/report/test_accessibility.py",
    "tests/report/test_review_page.py",
    "tests/report/test_rules.py",
}
# seconds after which the tests of a file are stopped; the slowest take one minute on an idle
# machine
LIMIT = 600.0

OTHER_OPERATOR: dict[type[ast.AST], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.Pow: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
    ast.And: "or",
    ast.Or: "and",
}
OTHER_IN_C = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "&&": "||",
    "||": "&&",
    "+": "-",
    "-": "+",
    "*": "/",
    "/": "*",
    "++": "--",
    "--": "++",
    "+=": "-=",
    "-=": "+=",
    "*=": "/=",
    "/=": "*=",
}
# Operators with blanks around them, which excludes signs and pointers; steps; and numbers.
TOKEN_OF_C = re.compile(
    r"(?<= )(?:<=?|>=?|==|!=|&&|\|\||[-+*/]=?)(?= )|\+\+|--|(?<![\w.])\d+(?:\.\d+)?(?![\w.])"
)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A change of one file: the characters start to stop become `text`."""

    path: Path
    start: int
    stop: int
    text: str

    def applied_to(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.stop :]

    def described(self, source: str) -> str:
        """The lines before and after, as a small patch."""
        line = source.count("\n", 0, self.start)
        last = source.count("\n", 0, self.stop)
        before = source.splitlines()[line : last + 1]
        after = self.applied_to(source).splitlines()[line : line + 1 + self.text.count("\n")]
        changed = [
            *(f"  - {each.strip()}" for each in before),
            *(f"  + {each.strip()}" for each in after),
        ]
        return "\n".join([f"{self.path.as_posix()}:{line + 1}", *changed])


class PythonPlaces(ast.NodeVisitor):
    """Every place of a Python file that can be changed, and what it would become."""

    def __init__(self, path: Path, source: str) -> None:
        self.found: list[Mutant] = []
        self._path = path
        self._source = source
        # ast counts columns in bytes, so places are found in bytes and told in characters.
        self._lines = [0]
        for line in source.encode().splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self.visit(ast.parse(source))

    def _place(self, line: int, column: int) -> int:
        return len(self._source.encode()[: self._lines[line - 1] + column].decode())

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self._place(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self._place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _add(self, start: int, stop: int, text: str) -> None:
        self.found.append(Mutant(path=self._path, start=start, stop=stop, text=text))

    def _change_between(self, left: ast.AST, right: ast.AST, operator: ast.AST) -> None:
        """Another operator between two operands."""
        start, stop = self._span(left)[1], self._span(right)[0]
        between = self._source[start:stop]
        found = re.search(
            r"is\s+not|not\s+in|\b(?:is|in|and|or)\b|\*\*|//|[<>=!]=|[-+*/%<>&|]", between
        )
        if found is not None and type(operator) in OTHER_OPERATOR:
            self._add(start + found.start(), start + found.end(), OTHER_OPERATOR[type(operator)])

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for i, operator in enumerate(node.ops):
            self._change_between(operands[i], operands[i + 1], operator)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._change_between(left, right, node.op)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._change_between(node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start, stop = self._span(node)
            self._add(start, stop, f"bool({self._source[slice(*self._span(node.operand))]})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        start, stop = self._span(node)
        if isinstance(node.value, bool):
            self._add(start, stop, str(not node.value))
        elif isinstance(node.value, int):
            self._add(start, stop, str(node.value + 1))
        elif isinstance(node.value, float):
            self._add(start, stop, repr(2.0 * node.value if node.value else 1.0))

    def _change_condition(self, test: ast.expr) -> None:
        start, stop = self._span(test)
        self._add(start, stop, f"(not ({self._source[start:stop]}))")

    def visit_If(self, node: ast.If) -> None:
        self._change_condition(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._change_condition(node.test)
        self.generic_visit(node)

    def _leave_out(self, node: ast.stmt) -> None:
        self._add(*self._span(node), "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._leave_out(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add(*self._span(node), "pass")  # what is in it is mostly words

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._leave_out(node)

    # Types, messages and decorators are no places.
    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, _node: ast.JoinedStr) -> None:
        return

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (
            *node.args.defaults,
            *(each for each in node.args.kw_defaults if each),
            *node.body,
        ):
            self.visit(part)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)


def places_of_c(path: Path, source: str) -> Iterator[Mutant]:
    """Every operator and number of a C file that can be changed, outside of comments and of the
    preprocessor.
    """
    hidden = [
        found.span()
        for found in re.finditer(r"/\*.*?\*/|^#.*?$|\"[^\"\n]*\"", source, re.DOTALL | re.MULTILINE)
    ]
    for found in TOKEN_OF_C.finditer(source):
        if any(start <= found.start() < stop for start, stop in hidden):
            continue
        token = found.group()
        if token in OTHER_IN_C:
            other = OTHER_IN_C[token]
        elif "." in token:
            other = repr(2.0 * float(token) or 1.0)
        else:
            other = str(int(token) + 1)
        yield Mutant(path=path, start=found.start(), stop=found.end(), text=other)


def find_places(path: Path) -> list[Mutant]:
    source = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix == ".py":
        return PythonPlaces(path, source).found
    return list(places_of_c(path, source))


def sources(only: list[str]) -> list[Path]:
    """Files to change: all, or those whose path contains one of these texts."""
    every = [*(ROOT / SOURCE).rglob("*.py"), *(ROOT / "native").glob("*.[ch]")]
    paths = sorted(path.relative_to(ROOT) for path in every if tests_of(path.relative_to(ROOT)))
    return [path for path in paths if not only or any(part in path.as_posix() for part in only)]


@cache
def tests_of(path: Path) -> list[str]:
    """Test files of a source file, the most likely first."""
    is_c = path.parts[0] == "native"
    part = "native" if is_c else path.relative_to(SOURCE).parts[0].removesuffix(".py")
    found: list[str] = []
    for pattern in TESTS.get(part, []):
        found += sorted(each.relative_to(ROOT).as_posix() for each in ROOT.glob(pattern))
    name = re.compile(rf"\b{path.stem}\b")

    def likelihood(test: str) -> tuple[bool, bool, int]:
        text = (ROOT / test).read_text(encoding="utf-8")
        return (
            test.endswith(f"/test_{path.stem}.py"),
            f"{part}.{path.stem}" in text,
            len(name.findall(text)),
        )

    by_likelihood = sorted(dict.fromkeys(found), key=likelihood, reverse=True)
    return [each for each in by_likelihood if each not in LEFT_OUT]


class Copy:
    """A copy of the checkout in which tests are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._is_green: dict[str, bool] = {}  # of test files, without a change
        known = subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        libraries = (
            each
            for each in (ROOT / SOURCE / "_common").iterdir()
            if each.suffix in (".so", ".dylib", ".dll")
        )
        for name in (*known.splitlines(), *(each.relative_to(ROOT) for each in libraries)):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def run(self, command: list[str], limit: float) -> str:
        """Run a command in the copy: "green", "red" or "timeout"."""
        # No compiled Python: a file that changes twice in a second, and not in length, would count
        # as unchanged.
        settings = {"PYTHONPATH": str(self.folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=self.folder,
            env={**os.environ, **settings},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return "red" if process.wait(timeout=limit) else "green"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)  # with what the test has started
            process.wait()
            return "timeout"

    def test(self, name: str) -> str:
        quiet = ["-q", "-x", "-p", "no:cacheprovider", "--numprocesses=0", "--no-header"]
        return self.run(["-m", "pytest", *quiet, name], LIMIT)

    def write(self, path: Path, text: str) -> bool:
        """Write a source file and compile it if it is C; whether that was possible."""
        (self.folder / path).write_text(text, encoding="utf-8")
        return path.parts[0] != "native" or self.run(["hatch_build.py"], LIMIT) == "green"

    def meet(self, mutant: Mutant, n_files: int | None) -> tuple[str, str]:
        """What becomes of a mutant, and by which file."""
        original = (self.folder / mutant.path).read_text(encoding="utf-8")
        tests = [name for name in tests_of(mutant.path) if self._is_green.get(name, True)]
        try:
            if not self.write(mutant.path, mutant.applied_to(original)):
                return "killed", "the compiler"
            for name in tests[:n_files]:
                outcome = self.test(name)
                if outcome == "green":
                    continue
                if name not in self._is_green:
                    self.write(mutant.path, original)
                    self._is_green[name] = self.test(name) == "green"
                    self.write(mutant.path, mutant.applied_to(original))
                if self._is_green[name]:
                    return ("killed" if outcome == "red" else "timeout"), name
                print(f"left out: {name}, which is not green without a change", flush=True)
            return "survived", ", ".join(tests[:n_files])
        finally:
            self.write(mutant.path, original)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=30, help="mutants (30)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (0)")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="TEXT", help="files whose path contains a text"
    )
    parser.add_argument(
        "--files", type=int, metavar="N", help="test files that a mutant meets, at most (all)"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    options = parser.parse_args()
    places = [place for path in sources(options.only) for place in find_places(path)]
    chosen = random.Random(options.seed).sample(places, min(options.count, len(places)))
    # Before anything runs, so that the checkout may change meanwhile.
    descriptions = [
        mutant.described((ROOT / mutant.path).read_text(encoding="utf-8")) for mutant in chosen
    ]
    print(f"{len(chosen)} of {len(places)} places, seed {options.seed}", flush=True)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="nearworth-mutants-") as folder:
        copy = None if options.list else Copy(Path(folder))
        for number, mutant in enumerate(chosen, start=1):
            outcome, killer = ("", "") if copy is None else copy.meet(mutant, options.files)
            counts[outcome] += 1
            print(f"{number:3} {outcome:9}{killer}\n{descriptions[number - 1]}", flush=True)
    if not options.list:
        noticed = counts["killed"] + counts["timeout"]
        print(
            f"{noticed} of {len(chosen)} killed ({counts['timeout']} by time), {counts['survived']}"
            " survived"
        )


if __name__ == "__main__":
    main()
