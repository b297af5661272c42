"""Compare every bit of what two revisions compute: python tests/helpers/same_bits.py REVISION.

A change of prose must not change a number. Golden tests cannot show that: they allow rounding. This
program computes the golden configurations and `audits` below with the working tree and with
REVISION, compiled and with the numpy forms, and compares the results bit for bit. It prints each
array that differs and ends with exit code 1 if there is one.

Each revision runs its own copy of this file if it has one, so that public names may change in
between. The names of configurations and arrays must then stay the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
TREE = HERE.parents[2]
MODES = ("compiled", "numpy")


def main(revision: str) -> int:
    """Compare the working tree with a revision; the exit code."""
    n_different = 0
    with tempfile.TemporaryDirectory() as folder:
        old_tree = Path(folder, "old")
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", old_tree, revision],
            cwd=TREE,
            check=True,
        )
        try:
            for tree in (old_tree, TREE):
                subprocess.run([sys.executable, "hatch_build.py"], cwd=tree, check=True)
            for mode in MODES:
                old = computed_by(old_tree, mode, Path(folder, "old.npz"))
                new = computed_by(TREE, mode, Path(folder, "new.npz"))
                differing = differences(old, new)
                n_different += len(differing)
                print(f"{mode}: {len(old)} arrays, {len(differing)} differ")
                for line in differing:
                    print(f"  {line}")
        finally:
            remove = ["git", "worktree", "remove", "--force", old_tree]
            subprocess.run(remove, cwd=TREE, check=True)
    return int(n_different > 0)


def computed_by(tree: Path, mode: str, output: Path) -> dict[str, np.ndarray]:
    """All arrays by name, as the code of `tree` computes them in a process of its own."""
    script = tree / HERE.relative_to(TREE)
    if not script.exists():
        script = HERE
    paths = [str(tree / "src"), str(tree / "tests"), str(tree / "benchmarks")]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
    environment.pop("NEARWORTH_NATIVE", None)
    if mode == "numpy":
        environment["NEARWORTH_NATIVE"] = "0"
    subprocess.run([sys.executable, script, "--record", output], env=environment, check=True)
    with np.load(output, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def differences(old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> list[str]:
    """One line for each array that is missing, new, or has other bits."""
    lines = [f"{name}: missing" for name in old if name not in new]
    lines += [f"{name}: not in the old revision" for name in new if name not in old]
    for name in old:
        if name not in new:
            continue
        before = old[name]
        after = new[name]
        same_form = before.dtype == after.dtype and before.shape == after.shape
        if same_form and before.tobytes() == after.tobytes():
            continue
        if same_form and before.dtype.kind == "f":
            apart = np.nanmax(np.abs(before - after), initial=0.0)
            lines.append(f"{name}: differs by up to {apart:.3g}")
        else:
            lines.append(f"{name}: differs")
    return lines


def record(output: Path) -> None:
    """Compute the golden configurations and `audits`, and store all arrays in one file."""
    from golden.configurations import CONFIGURATIONS, compute

    arrays: dict[str, np.ndarray] = {}
    for name in CONFIGURATIONS:
        with tempfile.TemporaryDirectory() as folder:
            for array, numbers in compute(name, Path(folder)).items():
                arrays[f"{name} | {array}".replace("/", " per ")] = numbers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, numbers in audits():
            assert name not in arrays
            arrays[name] = numbers
    np.savez(output, **arrays)


def audits() -> Iterator[tuple[str, np.ndarray]]:
    """Audits of awkward data, in more variants than the golden configurations have."""
    import nearworth as nw

    rng = np.random.default_rng(3)
    for n_classes in (2, 3, 10, 80):
        X, true = _blobs(rng, 700, n_classes)
        y = nw.add_label_noise(true, 0.12, random_state=1)
        labels = np.unique(y)
        random_probs = rng.dirichlet(np.ones(len(labels)), len(y))
        good_probs = 0.5 * random_probs + 0.5 * (y[:, None] == labels)
        yield from _fields(f"{n_classes} classes", nw.audit_labels(X, y))
        audit = nw.audit_labels(X, y, pred_probs=good_probs)
        yield from _fields(f"{n_classes} classes, good probabilities", audit)
        audit = nw.audit_labels(X, y, pred_probs=random_probs)
        yield from _fields(f"{n_classes} classes, random probabilities", audit)
        audit = nw.audit_labels(X, y, groups=np.arange(700) // 4, sources=np.arange(700) // 2)
        yield from _fields(f"{n_classes} classes, groups", audit)

    X, true = _blobs(rng, 500, 3)
    y = nw.add_label_noise(true, 0.1, random_state=1)
    yield from _fields("models", nw.audit_labels(X, y, models="auto", n_jobs=1))
    with_validation = nw.audit_labels(X[:400], y[:400], X_val=X[400:], y_val=y[400:])
    yield from _fields("validation set", with_validation)
    yield "validation set, explanation", np.array([str(with_validation.explain(3))])

    # Near and exact duplicates, some of them with another label.
    relabeled = (y[:60] + (np.arange(60) % 7 == 0)) % 3
    X_copies = np.vstack([X, X[:120] + 1e-9, X[:60]])
    y_copies = np.concatenate([y, y[:120], relabeled])
    copies = nw.audit_labels(X_copies, y_copies)
    yield from _fields("duplicates", copies)
    yield "duplicates, explanation", np.array([str(copies.explain(3))])
    probs = rng.dirichlet(np.ones(3), len(y_copies))
    audit = nw.audit_labels(X_copies, y_copies, pred_probs=probs)
    yield from _fields("duplicates, probabilities", audit)
    audit = nw.audit_labels(X_copies, y_copies, max_memory="2MB")
    yield from _fields("duplicates, little memory", audit)
    audit = nw.audit_labels(X_copies, y_copies, metric="cosine")
    yield from _fields("duplicates, cosine", audit)
    audit = nw.audit_labels(X, y).check(X_copies[500:], y_copies[500:])
    yield from _fields("check", audit)
    scan = nw.scan(X_copies[:500], y_copies[:500], X_val=X_copies[500:], y_val=y_copies[500:])
    yield "scan", np.array(scan.summary().split("\n"))

    targets = X[:, 0] * 2 + rng.normal(size=500)
    targets[::9] += 4
    audit = nw.audit_labels(X, targets, task="regression")
    yield from _fields("regression", audit)
    yield from _fields("regression, check", audit.check(X[:50] + 0.1, targets[:50]))
    audit = nw.audit_labels(X, targets, task="regression", predictions=X[:, 0] * 2)
    yield from _fields("regression, predictions", audit)

    overlapping = rng.normal(size=(60, 3))
    audit = nw.audit_labels(overlapping, np.arange(60) < 5, pred_probs=np.full((60, 2), 0.5))
    yield from _fields("no signal", audit)
    between = np.abs(X[:, None, 0] - X[None, :, 0])
    yield from _fields("precomputed", nw.audit_labels(between, y, metric="precomputed"))
    yield from _fields("manhattan", nw.audit_labels(X, y, metric="manhattan"))


def _fields(name: str, audit: Any) -> Iterator[tuple[str, np.ndarray]]:
    """What an audit gives to its user."""
    numbers = ("quality", "agreement", "confidence", "suggested_range", "value")
    for field in numbers:
        array = getattr(audit, field)
        if array is not None:
            yield f"{name}, {field}", np.asarray(array)
    count = audit.n_errors
    estimate = np.nan if count.estimate is None else count.estimate
    yield f"{name}, n_errors", np.array([estimate, count.lower, count.upper])
    yield f"{name}, suggested", np.array([str(label) for label in audit.suggested])
    yield f"{name}, order", audit.order
    yield f"{name}, suspects", audit.suspects(max_fdr=0.2)
    yield f"{name}, reasons", np.array([audit.why(row) for row in range(0, len(audit), 37)])


def _blobs(rng: np.random.Generator, n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of overlapping normal distributions in five dimensions, and their classes."""
    classes = rng.integers(0, n_classes, n)
    centers = 2.0 * rng.normal(size=(n_classes, 5))
    return rng.normal(size=(n, 5)) + centers[classes], classes


if __name__ == "__main__":
    if sys.argv[1] == "--record":
        record(Path(sys.argv[2]))
    else:
        sys.exit(main(sys.argv[1]))
