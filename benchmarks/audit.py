"""How well `audit_labels` finds wrong labels, against what else one might do with the same
neighbours.

    python benchmarks/audit.py --data FOLDER [--cleanlab PYTHON] [--rows 3000] [--quick] [--json
    FILE] python benchmarks/audit.py --time 20000x32 50000x128

FOLDER holds the .npz files of benchmarks/paper.py (and wine_quality_white.npz,
label_errors_test_sets.npz). PYTHON is an interpreter that can import cleanlab; without it
cleanlab's own rows are left out. --quick leaves out all that needs logistic regression.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import paper  # beside this file

import nearworth as nw
from nearworth.audit.votes import Voters, vote_shares
from nearworth.cli.bench import Blobs

KINDS, FRACTIONS, ASKED = ("uniform", "class-dependent"), (0.05, 0.1, 0.2, 0.4), (0.1, 0.2, 0.3)
K = 10
TABLES = ("2dplanes", "apsfail", "click", "cpu", "creditcard", "fraud", "phoneme", "pol", "wind")
OTHER = """
import sys, numpy as np
from scipy.sparse import csr_matrix
from cleanlab.data_valuation import data_shapley_knn
from cleanlab.rank import get_label_quality_scores
cases, out = np.load(sys.argv[1]), {}
for name in sorted({key.split("|")[0] for key in cases.files}):
    y, near, knn, lr = (cases[f"{name}|{part}"] for part in ("y", "near", "knn", "lr"))
    n, k = near.shape
    ranks = np.tile(np.arange(1.0, k + 1), n)
    graph = csr_matrix((ranks, near.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    out[f"{name}|cleanlab data_shapley_knn"] = data_shapley_knn(y, knn_graph=graph, k=k)
    out[f"{name}|cleanlab label quality, same KNN"] = get_label_quality_scores(y, knn)
    out[f"{name}|cleanlab label quality, logistic regression"] = get_label_quality_scores(y, lr)
np.savez(sys.argv[2], **out)
"""


def load(folder: Path, n_rows: int, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Subsamples of the classification datasets; tables standardised, labels as codes."""
    sets = {}
    for name in (*TABLES, "wine", "mnist", "fmnist", "cifar10"):
        if name == "wine":
            with np.load(folder / "wine_quality_white.npz") as file:
                X, y = file["X"], file["y"]
        else:
            data = paper.load(name, folder, balance=False)
            X, y = data.X, data.y
        rows = np.random.default_rng(seed).permutation(len(y))[:n_rows]
        X, y = X[rows].astype(np.float64), np.unique(y[rows], return_inverse=True)[1]
        if name not in ("mnist", "fmnist", "cifar10"):
            X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
        sets[name] = X, y
    return sets


def average_precision(wrong: np.ndarray, score: np.ndarray) -> float:
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(wrong, -score))


def logistic_probabilities(X: np.ndarray, y: np.ndarray, n_classes: int) -> np.ndarray:
    """Out-of-sample class probabilities; classes too small for five folds count with their
    share.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    sizes = np.bincount(y, minlength=n_classes)
    enough = sizes[y] >= 5
    found = np.tile(sizes / len(y), (len(y), 1))
    kept = np.unique(y[enough])
    model = LogisticRegression(max_iter=200, tol=1e-2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found[np.ix_(enough, kept)] = cross_val_predict(
            model, X[enough], y[enough], cv=5, method="predict_proba"
        )
    return found / found.sum(axis=1, keepdims=True)


def simple_scores(audit: nw.LabelAudit, y: np.ndarray, n_classes: int) -> dict[str, np.ndarray]:
    """What one can do with values and neighbours without a model: all that was tried."""
    near, value, rows = audit._voters, audit.value, np.arange(len(y))
    distances = np.sqrt(near.keys[:, :K])
    closeness = 1.0 - 0.5 * (distances / np.maximum(distances[:, -1:], 1e-12)) ** 2
    same = y[near.rows[:, :K]] == y[:, None]
    agreement = (closeness * same).sum(axis=1) / closeness.sum(axis=1)
    priors = np.bincount(y, minlength=n_classes) / len(y)
    forward, reverse = (
        near.forward(y, n_classes).weights,
        near.reverse(y, len(y), n_classes).weights,
    )
    both = vote_shares(forward + reverse, priors)
    trust = both[rows, y] / both.max(axis=1)
    trusting = Voters(near.rows, near.keys, near.weights * trust[near.rows])
    trusted = Voters(near.rows, near.keys, near.weights * trust[:, None])
    votes = trusting.forward(y, n_classes).weights + trusted.reverse(y, len(y), n_classes).weights
    again = vote_shares(votes, priors)
    rivals = reverse.copy()
    rivals[rows, y] = -np.inf
    return {
        "value alone": value,
        "agreement alone, 10 nearest": agreement,
        "agreement alone, 100 by rank": audit.agreement,
        "sum of z-scores": z_score(value) + z_score(agreement),
        "sum of z-scores within classes": z_within(value, y) + z_within(agreement, y),
        "value if relabelled": reverse[rows, y] - rivals.max(axis=1),
        "share of reverse votes": vote_shares(reverse, priors)[rows, y],
        "share of both votes": both[rows, y],
        "share of both votes over class share": both[rows, y] / priors[y],
        "share of both votes, doubtful voters count less": again[rows, y],
    }


def z_score(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / (values.std() + 1e-12)


def z_within(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = np.empty(len(y))
    for label in np.unique(y):
        out[y == label] = z_score(values[y == label])
    return out


def knn_probabilities(audit: nw.LabelAudit, y: np.ndarray, n_classes: int) -> np.ndarray:
    votes = np.stack(
        [(y[audit._voters.rows[:, :K]] == c).mean(axis=1) for c in range(n_classes)], axis=1
    )
    return votes / votes.sum(axis=1, keepdims=True)


def false_alarms(audit: nw.LabelAudit, wrong: np.ndarray) -> list[dict[str, float]]:
    """For each share asked: the share measured, errors found, and errors the best threshold in
    hindsight finds.
    """
    order, out = audit.order, []
    shares = np.cumsum(~wrong[order]) / np.arange(1, len(order) + 1)
    for asked in ASKED:
        listed = audit.suspects(max_fdr=asked)
        within = np.flatnonzero(shares <= asked)
        best = int(wrong[order[: within[-1] + 1]].sum()) if len(within) else 0
        measured = float((~wrong[listed]).mean()) if len(listed) else 0.0
        out.append(
            {"asked": asked, "measured": measured, "found": int(wrong[listed].sum()), "best": best}
        )
    return out


def calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = 10) -> float:
    cell = np.minimum((confidence * bins).astype(int), bins - 1)
    parts = [(cell == b) for b in range(bins) if (cell == b).any()]
    return float(sum(abs(confidence[p].mean() - right[p].mean()) * p.mean() for p in parts))


def run(sets: dict, seed: int, cleanlab: str | None, quick: bool = False) -> list[dict]:
    rows, cases = [], {}
    for name, (X, clean) in sets.items():
        n_classes = int(clean.max()) + 1
        for kind in KINDS:
            for fraction in FRACTIONS:
                y = nw.add_label_noise(clean, fraction, kind, seed)
                wrong = y != clean
                audit = nw.audit_labels(X, y, n_neighbors=K)
                scores = simple_scores(audit, y, n_classes) | {"audit_labels": audit.quality}
                if not quick:
                    probabilities = logistic_probabilities(X, y, n_classes)
                    helped = nw.audit_labels(
                        X, y, n_neighbors=K, pred_probs=_columns(probabilities, np.unique(y))
                    )
                    scores["self-confidence, logistic regression"] = probabilities[
                        np.arange(len(y)), y
                    ]
                    scores["audit_labels with pred_probs"] = helped.quality
                    cases |= {
                        f"{len(rows)}|y": y,
                        f"{len(rows)}|near": audit._voters.rows[:, :K],
                        f"{len(rows)}|knn": knn_probabilities(audit, y, n_classes),
                        f"{len(rows)}|lr": probabilities,
                    }
                row = {"dataset": name, "kind": kind, "fraction": fraction, "wrong": wrong}
                row["ap"] = {
                    method: average_precision(wrong, score) for method, score in scores.items()
                }
                rows.append(row | measured(audit, clean, wrong))
        print(name, "done", flush=True)
    if cleanlab and not quick:
        add_cleanlab(rows, cases, cleanlab)
    for row in rows:
        del row["wrong"]
    return rows


def measured(audit: nw.LabelAudit, clean: np.ndarray, wrong: np.ndarray) -> dict:
    """How sure the audit may be: lists, suggestions, calibration, number of errors."""
    return {
        "false_alarms": false_alarms(audit, wrong),
        "suggested_right": float((audit.suggested == clean)[wrong].mean()),
        "calibration_error": calibration_error(audit.confidence, audit.suggested == clean),
        "n_wrong": int(wrong.sum()),
        "n_errors": [audit.n_errors.estimate, audit.n_errors.lower, audit.n_errors.upper],
    }


def _columns(probabilities: np.ndarray, present: np.ndarray) -> np.ndarray:
    chosen = probabilities[:, present]
    return chosen / chosen.sum(axis=1, keepdims=True)


def add_cleanlab(rows: list[dict], cases: dict, python: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "cases.npz", Path(folder) / "scores.npz"
        np.savez(paths[0], **cases)
        subprocess.run([python, "-c", OTHER, *map(str, paths)], check=True)
        with np.load(paths[1]) as found:
            for key in found.files:
                number, method = key.split("|")
                rows[int(number)]["ap"][method] = average_precision(
                    rows[int(number)]["wrong"], found[key]
                )


def judged_by_people(folder: Path) -> dict:
    """MNIST's test images: those whose given label lost the vote of five people, in the audit's
    order.
    """
    data = paper.load("mnist", folder)
    with np.load(folder / "label_errors_test_sets.npz") as file:
        index, votes = file["mnist_index"], file["mnist_votes"]
    lost = index[votes[:, 0] < votes[:, 1:].max(axis=1)]
    audit = nw.audit_labels(data.X_test, data.y_test, n_neighbors=K)
    places = np.empty(len(audit), dtype=int)
    places[audit.order] = np.arange(1, len(audit) + 1)
    value_places = np.empty(len(audit), dtype=int)
    value_places[np.argsort(audit.value)] = np.arange(1, len(audit) + 1)
    return {
        "rows": len(audit),
        "lost": len(lost),
        "places": sorted(places[lost].tolist()),
        "places_by_value": sorted(value_places[lost].tolist()),
        "n_errors": str(audit.n_errors),
    }


def human_labels(folder: Path, n_rows: int, seed: int) -> dict:
    """Cats and dogs of CIFAR-10 as people labelled them (CIFAR-10N), where they said cat or dog."""
    with np.load(folder / "cifar10_catdog_features.npz") as file:
        X, y, index = (
            file["x_train"].astype(np.float64),
            file["y_train"].astype(int),
            file["index_train"],
        )
    out = {}
    with np.load(folder / "cifar10n_labels.npz") as file:
        for name in ("y_aggregate", "y_random1", "y_worst"):
            said = file[name][index]
            rows = np.flatnonzero((said == 3) | (said == 5))
            rows = np.random.default_rng(seed).permutation(rows)[:n_rows]
            given = (said[rows] == 5).astype(int)
            wrong = given != y[rows]
            audit = nw.audit_labels(X[rows], given, n_neighbors=K)
            scores = simple_scores(audit, given, 2) | {"audit_labels": audit.quality}
            found = {
                method: round(average_precision(wrong, score), 3)
                for method, score in scores.items()
            }
            out[name] = {"wrong": int(wrong.sum()), "n_errors": str(audit.n_errors), "ap": found}
    return out


def targets(folder: Path, n_rows: int, seed: int) -> list[dict]:
    """Regression: targets moved by one to three standard deviations, or exchanged between rows."""
    out = []
    for name in ("california_housing", "bike_sharing_hour", "wine_quality_white"):
        with np.load(folder / f"{name}.npz") as file:
            X, clean = file["X"].astype(np.float64), file["y"].astype(np.float64)
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(clean))[:n_rows]
        X, clean = (X[rows] - X[rows].mean(axis=0)) / X[rows].std(axis=0), clean[rows]
        for kind in ("moved", "exchanged"):
            for fraction in (0.05, 0.1, 0.2):
                y, some = (
                    clean.copy(),
                    rng.choice(len(clean), round(fraction * len(clean)), replace=False),
                )
                shift = rng.choice([-1, 1], len(some)) * rng.uniform(1, 3, len(some)) * clean.std()
                y[some] = clean[some] + shift if kind == "moved" else np.roll(clean[some], 1)
                wrong = y != clean
                audit = nw.audit_labels(X, y, n_neighbors=K, task="regression")
                near = audit._voters.rows[:, :K]
                scores = {
                    "value alone": audit.value,
                    "residual alone": -np.abs(y - y[near].mean(axis=1)),
                    "audit_labels": audit.quality,
                }
                inside = (audit.suggested_range[:, 0] <= clean) & (
                    clean <= audit.suggested_range[:, 1]
                )
                row = {
                    "dataset": name,
                    "kind": kind,
                    "fraction": fraction,
                    "in_range": float(inside.mean()),
                }
                row["ap"] = {
                    method: average_precision(wrong, score) for method, score in scores.items()
                }
                out.append(
                    row | {"false_alarms": false_alarms(audit, wrong), "n_wrong": int(wrong.sum())}
                )
    return out


def target_table(rows: list[dict]) -> str:
    methods = list(rows[0]["ap"])
    lines = [
        "| dataset | errors | " + " | ".join(methods) + " | true target in range |",
        "|" + "---|" * (len(methods) + 3),
    ]
    for row in rows:
        cells = " | ".join(f"{row['ap'][method]:.3f}".lstrip("0") for method in methods)
        lines.append(
            f"| {row['dataset']} | {row['fraction']:.0%} {row['kind']} | {cells} |"
            f" {row['in_range']:.0%} |"
        )
    means = " | ".join(
        f"{np.mean([row['ap'][method] for row in rows]):.3f}".lstrip("0") for method in methods
    )
    lists = [alarm for row in rows for alarm in row["false_alarms"]]
    kept = np.mean([alarm["measured"] <= alarm["asked"] + 0.05 for alarm in lists])
    lines.append(f"| mean | | {means} | {np.mean([row['in_range'] for row in rows]):.0%} |")
    return "\n".join([*lines, "", f"max_fdr kept (+0.05) in {kept:.0%} of {len(lists)} lists"])


def timing(n: int, d: int) -> dict:
    """CPU time of an audit against that of the leave-one-out valuation alone, of the classes of
    `nearworth bench`.
    """
    data = Blobs.make(n, 0, d)
    nw.audit_labels(data.X[:1000], data.y[:1000])  # load what is loaded once
    valued = lambda: nw.KNNShapley(K, n_jobs=1).fit(data.X, data.y).value()  # noqa: E731
    audited = lambda: nw.audit_labels(data.X, data.y, n_neighbors=K, n_jobs=1)  # noqa: E731
    seconds: list[list[float]] = [[], []]
    for number, work in [(0, valued), (1, audited)] * 2:
        start = time.process_time()
        work()
        seconds[number].append(time.process_time() - start)
    value, audit = map(min, seconds)
    return {"rows": n, "columns": d, "value": value, "audit": audit, "ratio": audit / value}


def table(rows: list[dict]) -> str:
    methods = sorted(rows[0]["ap"], key=lambda m: -np.mean([row["ap"][m] for row in rows]))
    settings = [(kind, fraction) for kind in KINDS for fraction in FRACTIONS]
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    head = [
        "method",
        "mean",
        *(f"{kind[:1]} {fraction:.0%}" for kind, fraction in settings),
        *names,
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for method in methods:
        cells = [np.mean([row["ap"][method] for row in rows])]
        cells += [
            np.mean([r["ap"][method] for r in rows if (r["kind"], r["fraction"]) == s])
            for s in settings
        ]
        cells += [
            np.mean([r["ap"][method] for r in rows if r["dataset"] == name]) for name in names
        ]
        lines.append(
            f"| {method} | " + " | ".join(f"{cell:.3f}".lstrip("0") for cell in cells) + " |"
        )
    return "\n".join(lines)


def lists_of(rows: list[dict]) -> list[dict]:
    """All max_fdr lists; `worth_while` where the best threshold in hindsight finds at least one
    error in twenty.
    """
    return [
        alarm
        | {
            "honest": alarm["measured"] <= alarm["asked"] + 0.05,
            "half": alarm["found"] >= 0.5 * alarm["best"],
            "worth_while": alarm["best"] >= 0.05 * row["n_wrong"],
        }
        for row in rows
        for alarm in row["false_alarms"]
    ]


def share_covered(rows: list[dict]) -> float:
    return float(
        np.mean([row["n_errors"][1] <= row["n_wrong"] <= row["n_errors"][2] for row in rows])
    )


def miscount(rows: list[dict]) -> float:
    """Where there is an estimate."""
    told = [row for row in rows if row["n_errors"][0] is not None]
    off = [abs(row["n_errors"][0] - row["n_wrong"]) / row["n_wrong"] for row in told]
    return float(np.median(off)) if off else float("nan")


def line(name: str, rows: list[dict]) -> str:
    """One line of the tables below."""
    lists = lists_of(rows)
    worth_while = [alarm["half"] for alarm in lists if alarm["worth_while"]]
    return " | ".join(
        [
            f"| {name}",
            f"{np.mean([alarm['honest'] for alarm in lists]):.0%}",
            f"{np.mean([alarm['half'] for alarm in lists]):.0%}",
            f"{np.mean(worth_while):.0%}" if worth_while else "none",
            f"{sum(alarm['found'] for alarm in lists)} / {sum(alarm['best'] for alarm in lists)}",
            f"{share_covered(rows):.0%}",
            f"{miscount(rows):.0%}",
            f"{np.mean([row['calibration_error'] for row in rows]):.3f} |",
        ]
    )


def summary(rows: list[dict]) -> str:
    lists = lists_of(rows)
    mnist = [
        r for r in rows if (r["dataset"], r["kind"], r["fraction"]) == ("mnist", "uniform", 0.1)
    ]
    lines = [
        (
            f"- max_fdr kept (+0.05): {np.mean([alarm['honest'] for alarm in lists]):.1%} of"
            f" {len(lists)} lists"
        ),
        (
            "- at least half of the best in hindsight:"
            f" {np.mean([alarm['half'] for alarm in lists]):.1%} of lists,"
            f" {sum(alarm['found'] for alarm in lists) / sum(alarm['best'] for alarm in lists):.1%}"
            " of all such errors"
        ),
        (
            f"- n_errors within its interval: {share_covered(rows):.1%} of {len(rows)} settings; "
            f"estimates in {sum(row['n_errors'][0] is not None for row in rows)}, "
            f"off by {miscount(rows):.0%} of the true number (median)"
        ),
        (
            "- expected calibration error: mean"
            f" {np.mean([r['calibration_error'] for r in rows]):.3f}, below 0.05 in"
            f" {np.mean([r['calibration_error'] < 0.05 for r in rows]):.1%}"
        ),
    ]
    lines += [
        f"- MNIST, 10 % uniform: suggested labels right for {row['suggested_right']:.1%} of the"
        f" flipped, calibration error {row['calibration_error']:.3f}"
        for row in mnist
    ]
    head = (
        "| | lists within max_fdr + 0.05 | half of the best | same, where the best finds 5 % of the"
        " errors | "
    )
    lines += [
        "",
        head + "errors found / best | n_errors in interval | n_errors off by | calibration error |",
        "|" + "---|" * 8,
    ]
    lines += [
        line(name, [r for r in rows if r["dataset"] == name])
        for name in dict.fromkeys(r["dataset"] for r in rows)
    ]
    for kind in KINDS:
        for fraction in FRACTIONS:
            some = [r for r in rows if (r["kind"], r["fraction"]) == (kind, fraction)]
            lines.append(line(f"{fraction:.0%} {kind}", some))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cleanlab")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--time",
        nargs="*",
        default=[],
        help="only time audits of so many rows and columns: 20000x32",
    )
    parser.add_argument("--quick", action="store_true", help="without logistic regression")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.time:
        print(*(timing(*map(int, size.split("x"))) for size in options.time), sep="\n")
        return
    rows = run(
        load(options.data, options.rows, options.seed),
        options.seed,
        options.cleanlab,
        options.quick,
    )
    people = judged_by_people(options.data)
    human = human_labels(options.data, options.rows, options.seed)
    moved = targets(options.data, options.rows, options.seed)
    print(table(rows), summary(rows), people, human, target_table(moved), sep="\n\n")
    if options.json:
        found = {"settings": rows, "people": people, "human": human, "targets": moved}
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
