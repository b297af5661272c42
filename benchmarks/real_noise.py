"""The audit on labels that people or rules really got wrong, on planted noise, and on clean data.

    python benchmarks/real_noise.py --data FOLDER [--only real pair uniform clean] [--held-out]
    [--probs lr gb]

FOLDER holds the files of benchmarks/paper.py and those with real noise (yoruba_news, youtube_spam,
roman_numerals_probabilities, cifar10n_labels, label_errors_test_sets). Two entries, `youtube_spam`
and `cifar10n random3`, were kept back while the audit was built, and run only with --held-out.
Out-of-fold probabilities of models are kept in --cache, since they take longer than the audits.

With --tables FOLDER the cases are planted noise, and none, on the tables of a folder that had no
part in any choice.

For each case: average precision (AP) of the ranking without and with `pred_probs` beside that of
the plain self-confidence of these; the stated range of the number of errors; default and max_fdr
lists as rows : precision : share of the errors found (best = that of the longest list in
hindsight).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import nearworth as nw

sys.path.insert(0, str(Path(__file__).parent))
import paper

from audit import average_precision, load

HELD_OUT = ("youtube_spam", "cifar10n random3")
ASKED = (0.1, 0.2)
TABLES = (
    "2dplanes",
    "apsfail",
    "click",
    "cpu",
    "creditcard",
    "fraud",
    "phoneme",
    "pol",
    "wind",
    "wine",
)
CLEAN_ENOUGH = 0.05  # kept: no more false alarms than asked for and this


@dataclass
class Case:
    """Rows, given labels as codes, which of them are wrong, and class probabilities that came with
    the data.
    """

    name: str
    kind: str
    X: np.ndarray
    y: np.ndarray
    wrong: np.ndarray
    probs: dict[str, np.ndarray] = field(default_factory=dict)


def real(folder: Path, n_rows: int) -> Iterator[Case]:
    for name in ("yoruba_news", "youtube_spam"):
        with np.load(folder / f"{name}.npz") as file:
            X, given, true = file["X"].astype(np.float64), file["y_given"], file["y_true"]
        yield Case(name, "real", X, np.unique(given, return_inverse=True)[1], given != true)
    with np.load(folder / "roman_numerals_probabilities.npz") as file:
        for model in ("resnet18", "swin"):
            p = file[f"{model}_pred_probs"].astype(np.float64)
            y, wrong = file[f"{model}_y_given"].astype(int), file[f"{model}_is_error"]
            yield Case(
                f"roman {model}", "real", np.log(np.clip(p, 1e-6, 1)), y, wrong, {"own": _unit(p)}
            )
    yield from _cats_and_dogs(folder, n_rows)
    with np.load(folder / "label_errors_test_sets.npz") as file:
        index, votes = file["mnist_index"], file["mnist_votes"]
    data = paper.load("mnist", folder)
    lost = index[votes[:, 0] < votes[:, 1:].max(axis=1)]
    others = np.setdiff1d(np.random.default_rng(0).permutation(10_000)[:n_rows], index)
    rows = np.sort(np.concatenate([index, others]))
    yield Case(
        "mnist judged",
        "real",
        data.X_test[rows] / 255.0,
        data.y_test[rows].astype(int),
        np.isin(rows, lost),
    )


def _cats_and_dogs(folder: Path, n_rows: int) -> Iterator[Case]:
    with np.load(folder / "cifar10_catdog_features.npz") as file:
        X, true, index = (
            file["x_train"].astype(np.float64),
            file["y_train"].astype(int),
            file["index_train"],
        )
    with np.load(folder / "cifar10n_labels.npz") as file:
        for name in ("aggregate", "random1", "random2", "random3", "worst"):
            said = file[f"y_{name}"][index]
            rows = np.random.default_rng(1).permutation(np.flatnonzero((said == 3) | (said == 5)))[
                :n_rows
            ]
            given = (said[rows] == 5).astype(int)
            yield Case(f"cifar10n {name}", "real", X[rows], given, given != true[rows])


def _digits(n_rows: int = 1000, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(seed).permutation(len(y))[:n_rows]
    return X[rows], y[rows]


def letters(n_rows: int = 2000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Twenty-six classes of a few clusters each that touch: their nearest neighbours agree in about
    nine of ten.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 26
    centres = 1.7 * rng.normal(size=(26, 3, 10))
    X = centres[y, rng.integers(0, 3, n_rows)] + rng.normal(size=(n_rows, 10))
    return X, y


def pair(folder: Path, n_rows: int) -> Iterator[Case]:
    images = load(folder, min(n_rows, 1500), 4)
    sets = {"digits": _digits(), "digits small": _digits(500, 21), "letters": letters()}
    sets |= {
        "letters small": letters(1000, 1),
        "mnist": images["mnist"],
        "fmnist": images["fmnist"],
    }
    for name, (X, y) in sets.items():
        for fraction in (0.1, 0.2):
            given = nw.add_label_noise(y, fraction, "pair", 3)
            yield Case(f"{name} {fraction:.0%} pair", "pair", X, given, given != y)


def uniform(folder: Path, n_rows: int) -> Iterator[Case]:
    for name, (X, y) in load(folder, min(n_rows, 1200), 21).items():
        for kind, fraction in (("uniform", 0.1), ("uniform", 0.3), ("class-dependent", 0.15)):
            given = nw.add_label_noise(y, fraction, kind, 2)
            yield Case(f"{name} {fraction:.0%} {kind[:1]}", "uniform", X, given, given != y)


def clean(folder: Path, n_rows: int) -> Iterator[Case]:
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine

    small = {"cancer": load_breast_cancer, "iris": load_iris, "vines": load_wine}
    sets = load(folder, n_rows, 22) | {"digits": _digits(), "letters": letters()}
    sets |= {name: (_scaled(data().data), data().target) for name, data in small.items()}
    for name, (X, y) in sets.items():
        yield Case(name, "clean", X, y, np.zeros(len(y), dtype=bool))


def tables(folder: Path, n_rows: int) -> Iterator[Case]:
    """Planted noise and none on every table of a folder: npz files with X, standardised, and y."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            rows = np.random.default_rng(1).permutation(len(file["y"]))[: min(n_rows, 1500)]
            X, y = file["X"][rows], np.unique(file["y"][rows], return_inverse=True)[1]
        kinds = [("uniform", 0.1), ("uniform", 0.25), ("class-dependent", 0.15)]
        for kind, fraction in [*kinds, ("pair", 0.2)] if y.max() > 1 else kinds:
            given = nw.add_label_noise(y, fraction, kind, 3)
            yield Case(
                f"{path.stem} {fraction:.0%} {kind[:1]}", f"tables {kind}", X, given, given != y
            )
        yield Case(path.stem, "tables clean", X, y, np.zeros(len(y), dtype=bool))


def _scaled(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)


def _unit(p: np.ndarray) -> np.ndarray:
    return p / p.sum(axis=1, keepdims=True)


def probabilities(case: Case, models: list[str], cache: Path) -> dict[str, np.ndarray]:
    """Those that came with the data, and out-of-fold ones of models, which are kept."""
    found = dict(case.probs)
    for model in models:
        path = cache / f"{case.kind} {case.name} {model} {len(case.y)}.npy".replace("%", "")
        if not path.exists():
            np.save(path, _out_of_fold(case, model))
        found[model] = np.load(path)
    return found


def _out_of_fold(case: Case, model: str) -> np.ndarray:
    from sklearn.decomposition import PCA
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    X, y, n_classes = case.X, case.y, int(case.y.max()) + 1
    if X.shape[1] > 200:
        X = PCA(64, random_state=0).fit_transform(X)
    sizes = np.bincount(y, minlength=n_classes)
    found, enough = np.tile(sizes / len(y), (len(y), 1)), sizes[y] >= 5
    maker = {
        "lr": LogisticRegression(max_iter=300, tol=1e-2),
        "gb": HistGradientBoostingClassifier(max_iter=60, random_state=0),
    }[model]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        some = cross_val_predict(maker, X[enough], y[enough], cv=5, method="predict_proba")
    found[np.ix_(enough, np.unique(y[enough]))] = some
    return _unit(np.clip(found, 1e-9, 1))


def judge(audit: nw.LabelAudit, wrong: np.ndarray) -> dict:
    """AP, the stated number of errors, and lists: default, then as asked."""
    order, total = audit.order, max(1, int(wrong.sum()))
    place = np.empty(len(order))
    place[order] = np.arange(len(order))
    shares = np.cumsum(~wrong[order]) / np.arange(1, len(order) + 1)
    lists = []
    for asked in (None, *ASKED):
        listed = audit.suspects() if asked is None else audit.suspects(max_fdr=asked)
        within = np.flatnonzero(shares <= (asked or 0.5))
        best = int(wrong[order[: within[-1] + 1]].sum()) if len(within) else 0
        right = int((~wrong[listed]).sum())
        lists.append({"asked": asked, "rows": len(listed), "right": right, "best": best})
    count = audit.n_errors
    return {
        "ap": average_precision(wrong, place) if wrong.any() else None,
        "n_errors": [count.estimate, count.lower, count.upper],
        "lists": lists,
        "total": total if wrong.any() else 0,
    }


def run(case: Case, models: list[str], cache: Path, how: dict) -> dict:
    start = time.perf_counter()
    found: dict = {
        "name": case.name,
        "kind": case.kind,
        "rows": len(case.y),
        "wrong": int(case.wrong.sum()),
    }
    plain = nw.audit_labels(case.X, case.y, **how)
    found["none"] = judge(plain, case.wrong)
    found["seconds"] = time.perf_counter() - start
    for model, p in probabilities(case, models, cache).items():
        audit = nw.audit_labels(case.X, case.y, pred_probs=p[:, np.unique(case.y)], **how)
        found[model] = judge(audit, case.wrong)
        own = p[np.arange(len(case.y)), case.y]
        found[model]["self"] = average_precision(case.wrong, own) if case.wrong.any() else None
        if case.wrong.any():
            better = max(
                plain.quality, own, key=lambda scores: average_precision(case.wrong, scores)
            )
            found[model]["chance"] = chance(case.wrong, audit.quality, better)
    return found


def chance(wrong: np.ndarray, *scores: np.ndarray) -> float:
    """Standard error of the difference of two APs, from rows drawn again with replacement."""
    rng, found = np.random.default_rng(0), []
    for _ in range(200):
        rows = rng.integers(0, len(wrong), len(wrong))
        if wrong[rows].any():
            found.append(
                np.subtract(*(average_precision(wrong[rows], each[rows]) for each in scores))
            )
    return float(np.std(found))


def line(found: dict) -> str:
    parts = [f"{found['name']:<22} {found['wrong']:>4}/{found['rows']}"]
    for name, result in found.items():
        if not isinstance(result, dict):
            continue
        estimate, lower, upper = result["n_errors"]
        ap = "" if result["ap"] is None else f"AP {result['ap']:.3f}"
        ap += f" self {result['self']:.3f}" if result.get("self") is not None else ""
        held = "in" if lower <= found["wrong"] <= upper else "OUT"
        middle = "-" if estimate is None else f"{estimate:.0f}"
        lists = " ".join(_show_list(item, found["wrong"]) for item in result["lists"])
        parts.append(f"{name} {ap} n {middle} [{lower:.0f}, {upper:.0f}] {held} | {lists}")
    return " || ".join(parts)


def _show_list(item: dict, total: int) -> str:
    hits = item["rows"] - item["right"]
    if not total:
        return f"{item['rows']}"
    return (
        f"{item['rows']}:{hits / max(1, item['rows']):.2f}:{hits / total:.2f}(best"
        f" {item['best'] / total:.2f})"
    )


def markdown(rows: list[dict]) -> Iterator[str]:
    """The tables of docs/audit-measurements.md, with logistic regression."""
    yield (
        "| data | wrong | AP | AP with logistic regression (its self-confidence) | number of errors"
        " | with logistic regression | default list (right) | max_fdr .1 | max_fdr .2 |\n"
        + "|---" * 9
        + "|"
    )
    for row in rows:
        none, helped = row["none"], row["lr"]
        ends = [
            f"{part['n_errors'][1]:,.0f} to {part['n_errors'][2]:,.0f}" for part in (none, helped)
        ]
        told = "-" if none["n_errors"][0] is None else f"{none['n_errors'][0]:,.0f}"
        lists = [
            f"{each['rows']:,} ({1 - each['right'] / each['rows']:.2f})" if each["rows"] else "0"
            for each in none["lists"]
        ]
        aps = ["", ""]
        if row["wrong"]:
            aps = [f"{none['ap']:.3f}", f"{helped['ap']:.3f} ({helped['self']:.3f})"]
        cells = [
            row["name"],
            f"{row['wrong']:,} of {row['rows']:,}",
            *aps,
            f"{told}, {ends[0]}",
            ends[1],
            *lists,
        ]
        yield "| " + " | ".join(cells).replace("0.", ".") + " |"


def summary(rows: list[dict]) -> Iterator[str]:
    for kind in dict.fromkeys(row["kind"] for row in rows):
        some = [row for row in rows if row["kind"] == kind]
        for how in dict.fromkeys(
            name for row in some for name, part in row.items() if isinstance(part, dict)
        ):
            yield f"{kind}, {how}: {_summary([row for row in some if how in row], how)}"


def _summary(rows: list[dict], how: str) -> str:
    parts = [(row, row[how]) for row in rows]
    if not any(row["wrong"] for row in rows):
        alarms, n = (
            sum(part["lists"][0]["rows"] for _, part in parts),
            sum(row["rows"] for row in rows),
        )
        listed = [sum(part["lists"][k]["rows"] for _, part in parts) for k in (1, 2)]
        return f"{alarms} default alarms in {n} rows ({alarms / n:.2%}), max_fdr {ASKED}: {listed}"
    inside = [part["n_errors"][1] <= row["wrong"] <= part["n_errors"][2] for row, part in parts]
    told = [part["n_errors"][0] for _, part in parts]
    asked = [(row["wrong"], item) for row, part in parts for item in part["lists"][1:]]
    kept = [item["right"] <= (item["asked"] + CLEAN_ENOUGH) * item["rows"] for _, item in asked]
    worth = [item for wrong, item in asked if item["best"] >= 0.2 * wrong]
    empty = np.mean([item["rows"] == 0 for item in worth]) if worth else 0.0
    hits = sum(item["rows"] - item["right"] for _, item in asked)
    text = (
        f"mean AP {np.mean([part['ap'] for _, part in parts]):.4f}; in range {sum(inside)} of"
        f" {len(rows)}, estimates given in {sum(t is not None for t in told)}; lists kept"
        f" {np.mean(kept):.0%} of {len(kept)}, empty where the best finds a fifth: {empty:.0%} of"
        f" {len(worth)}, errors found {hits} of {sum(item['best'] for _, item in asked)}"
    )
    if "self" in parts[0][1]:
        gaps = [part["ap"] - max(part["self"], row["none"]["ap"]) for row, part in parts]
        worst = rows[int(np.argmin(gaps))]["name"]
        text += (
            f"; AP - max(self, none): mean {np.mean(gaps):+.4f}, worst {min(gaps):+.4f} ({worst}), "
        )
        beyond = [
            gap + 0.005 < -2 * part["chance"] for gap, (_, part) in zip(gaps, parts, strict=True)
        ]
        text += f"below -.005 in {sum(gap < -0.005 for gap in gaps)} of {len(gaps)}, "
        text += f"by more than two standard errors in {sum(beyond)}"
    return text


def main() -> None:
    kinds = {"real": real, "pair": pair, "uniform": uniform, "clean": clean}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument(
        "--tables", type=Path, help="a folder of other tables, npz files with X and y, instead"
    )
    parser.add_argument("--only", nargs="*", default=list(kinds), choices=kinds)
    parser.add_argument(
        "--held-out", action="store_true", help="only the entries that were kept back"
    )
    parser.add_argument("--probs", nargs="*", default=["lr"], choices=["lr", "gb"])
    parser.add_argument("--models", help='audit_labels(models=...), for example "auto"')
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "real_noise")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--markdown", action="store_true", help="the tables of the documentation as well"
    )
    options = parser.parse_args()
    kinds["tables"] = tables
    options.cache.mkdir(exist_ok=True)
    how = {"models": options.models} if options.models else {}
    rows = []
    for kind in ["tables"] if options.tables else options.only:
        for case in kinds[kind](options.tables or options.data, options.rows):
            if (case.name in HELD_OUT) is options.held_out:
                rows.append(run(case, options.probs, options.cache, how))
                print(line(rows[-1]), flush=True)
    print(*summary(rows), sep="\n")
    if options.markdown:
        for kind in dict.fromkeys(row["kind"] for row in rows):
            print("", *markdown([row for row in rows if row["kind"] == kind]), sep="\n")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
