"""Finding wrong labels: nearworth, cleanlab, SelfClean and Docta on the same rows, each in an
environment of its own.

    python benchmarks/peers/label_errors.py --data FOLDER                 # all; builds three
    environments first python benchmarks/peers/label_errors.py --data FOLDER --only docta    #
    renews this package, keeps the others python benchmarks/peers/label_errors.py --table
    # prints the tables of docs/peers.md again

FOLDER is the one of `benchmarks/real_noise.py`, whose rows, features and seeds these are: eight
sets with labels that people or rules really got wrong, and four with a tenth of the labels changed
at random. On the two entries that were kept back while the audit was built (HELD_OUT there), the
other packages are run and nearworth is not: its one run is in docs/audit-measurements.md.

Every package gets the same features, so its own way to make features from images is not measured.
`finders/<name>.py` says what is called and with which settings; `finding.py` runs it, on one
thread, after a warm-up on 200 rows. Logistic regression ("lr") is cross-validated once and given to
all that take probabilities. SelfClean and Docta are installed without most of what they depend on,
with stand-ins for imports unrelated to labels (torchvision, transformers).

Measured: average precision (AP) of the ranking, rows and precision of the list, the number of
errors told, CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
sys.path[:0] = [str(SOURCE), str(HERE.parent)]

from environments import NUMPY_2, TORCH, Game, Peer, SetupError, interpreter, last_line  # noqa: E402

RESULTS = HERE / "label_errors.json"
GAME = Game("wrong labels", 10)
PLOTS = (
    "matplotlib",
    "SciencePlots",
    "seaborn",
    "loguru",
    "tqdm",
    "pyyaml",
)  # what SelfClean imports at once
PACKAGES = (
    Peer("nearworth", "nearworth", GAME),
    Peer("cleanlab", "cleanlab", GAME, ("3.11", "3.12"), ((*NUMPY_2, "cleanlab==2.9.0"),)),
    Peer(
        "selfclean",
        "SelfClean",
        GAME,
        ("3.11",),
        (TORCH, (*NUMPY_2, *PLOTS), ("--no-deps", "selfclean==0.0.39")),
    ),
    Peer(
        "docta",
        "Docta",
        GAME,
        ("3.11",),
        (TORCH, (*NUMPY_2, "addict", "yapf", "tqdm"), ("--no-deps", "docta.ai==0.3")),
    ),
)
NAMES = {"real": "real", "uniform": "planted"}
PLANTED = ("mnist 10% u", "phoneme 10% u", "wine 10% u", "creditcard 10% u")
TABLES = ("phoneme", "wine", "creditcard")
ONE_RUN = {  # of nearworth on the entries kept back, as in docs/audit-measurements.md
    "youtube_spam": {
        "nearworth": {"ap": 0.603, "told": [None, 2, 261]},
        "nearworth lr": {"ap": 0.618},
    },
    "cifar10n random3": {
        "nearworth": {"ap": 0.602, "told": [None, 0, 448]},
        "nearworth lr": {"ap": 0.615},
    },
}
SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
RANKINGS = {
    "nearworth": "nearworth",
    "nearworth lr": "nearworth, with LR",
    "nearworth auto": 'nearworth, `models="auto"`',
    "cleanlab knn": "cleanlab, KNN",
    "cleanlab lr": "cleanlab, LR",
    "selfclean": "SelfClean",
    "docta score": "Docta, score",
    "docta rank": "Docta, report",
}
LISTS = {
    "nearworth": "nearworth",
    "cleanlab knn": "cleanlab, KNN",
    "cleanlab lr": "cleanlab, LR",
    "selfclean": "SelfClean",
    "docta vote": "Docta, vote",
    "docta rank": "Docta, rank",
}
COUNTS = {
    "nearworth": "nearworth",
    "cleanlab knn": "cleanlab, KNN",
    "cleanlab lr": "cleanlab, LR",
    "docta rank": "Docta, HOC",
}


def cases(folder: Path) -> Iterator[Any]:
    from real_noise import real, uniform

    yield from real(folder, 2000)
    yield from (case for case in uniform(folder, 2000) if case.name in PLANTED)


def file_name(name: str) -> str:
    return name.replace("%", "").replace(" ", "_")


def save_cases(folder: Path, cache: Path) -> dict[str, dict[str, Any]]:
    """The cases as every package reads them, those kept back in a folder apart; their truth stays
    here.
    """
    from real_noise import HELD_OUT, probabilities

    truth = {}
    shutil.rmtree(cache / "cases", ignore_errors=True)
    for part in ("open", "kept back", "probabilities"):
        (cache / "cases" / part).mkdir(parents=True, exist_ok=True)
    for case in cases(folder):
        probs = probabilities(case, ["lr"], cache / "cases" / "probabilities")["lr"]
        part, name = "kept back" if case.name in HELD_OUT else "open", file_name(case.name)
        table = case.name.split()[0] in TABLES
        np.savez(
            cache / "cases" / part / f"{name}.npz", X=case.X, y=case.y, probs=probs, table=table
        )
        truth[name] = {
            "name": case.name,
            "kind": case.kind,
            "wrong": case.wrong,
            "kept back": case.name in HELD_OUT,
        }
    return truth


def found(peer: Peer, folder: Path, cache: Path) -> dict[str, Any]:
    """What the package finds in the cases of a folder, in its own environment."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "found.json"
        command = [
            interpreter(peer, cache),
            "-P",
            HERE / "finding.py",
            HERE / "finders" / f"{peer.name}.py",
            folder,
            out,
        ]
        kept = {
            key: value
            for key, value in os.environ.items()
            if key not in ("PYTHONHOME", "PYTHONPATH")
        }
        ours = {"PYTHONPATH": str(SOURCE)} if peer.name == "nearworth" else {}
        environment = kept | dict.fromkeys(SINGLE, "1") | ours
        done = subprocess.run(
            [str(word) for word in command], env=environment, capture_output=True, text=True
        )
        (cache / f"{peer.name}.log").write_text(done.stdout + done.stderr)
        if done.returncode:
            raise SetupError(last_line(done.stderr))
        report: dict[str, Any] = json.loads(out.read_text())
    return report


def judged(item: dict[str, Any], wrong: np.ndarray) -> dict[str, Any]:
    """The measures of one way on one case."""
    from sklearn.metrics import average_precision_score

    if "problem" in item:
        return item
    kept: dict[str, Any] = {
        "ap": round(float(average_precision_score(wrong, item["score"])), 4),
        "cpu": round(item["cpu"], 2),
    }
    if item["listed"] is not None:
        kept |= {"listed": len(item["listed"]), "right": int(wrong[item["listed"]].sum())}
    if item["undefined"]:
        kept["undefined"] = item["undefined"]
    told = (item["count"], item["lower"], item["upper"])
    return kept | {"told": [None if number is None else round(number, 1) for number in told]}


def measure(folder: Path, cache: Path, only: list[str]) -> dict[str, Any]:
    """Results of the file, with those of the packages asked for renewed."""
    truth = save_cases(folder, cache)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"versions": {}, "cases": {}}
    for name, about in truth.items():
        entry = results["cases"].setdefault(name, {"ways": {}})
        entry |= {"name": about["name"], "kind": about["kind"], "kept back": about["kept back"]}
        entry |= {"rows": len(about["wrong"]), "wrong": int(about["wrong"].sum())}
    for peer in PACKAGES:
        if peer.name not in only:
            continue
        print(peer.title, flush=True)
        for part in ("open", "kept back") if peer.name != "nearworth" else ("open",):
            report = found(peer, cache / "cases" / part, cache)
            results["versions"][peer.name] = {
                "version": report["version"],
                "date": date.today().isoformat(),
            }
            for name, ways in report["cases"].items():
                some = {
                    way: judged(item, truth[name]["wrong"])
                    for way, item in ways.items()
                    if item is not None
                }
                results["cases"][name]["ways"] |= some
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return results


def tables(results: dict[str, Any]) -> Iterator[str]:
    """The three tables of the page."""
    entries = sorted(
        results["cases"].values(),
        key=lambda entry: (entry["kind"] == "uniform", entry["kept back"]),
    )
    yield from table(entries, RANKINGS, show_ap)
    for kind, kept_back in (("real", False), ("uniform", False)):
        some = [
            entry for entry in entries if entry["kind"] == kind and entry["kept back"] is kept_back
        ]
        means = (
            f"{np.mean([entry['ways'][way]['ap'] for entry in some]):.3f}"[1:]
            if has_all(some, way)
            else ""
            for way in RANKINGS
        )
        yield f"| mean of {len(some)} {NAMES[kind]} |  | " + " | ".join(means) + " |"
    yield ""
    yield from table(entries, LISTS, show_list)
    yield ""
    yield from table(entries, COUNTS, show_count)
    yield ""
    for way in dict.fromkeys(way for entry in entries for way in entry["ways"]):
        done = [
            entry["ways"][way]
            for entry in entries
            if way in entry["ways"] and not entry["kept back"]
        ]
        scores = [item["ap"] for item in done if "ap" in item]
        seconds = sum(item.get("cpu", 0.0) for item in done)
        yield f"{way}: CPU {seconds:.1f} s, mean AP {np.mean(scores):.3f} of {len(scores)}"


def has_all(entries: list[dict[str, Any]], way: str) -> bool:
    return all("ap" in entry["ways"].get(way, {}) for entry in entries)


def table(entries: list[dict[str, Any]], columns: dict[str, str], show: Any) -> Iterator[str]:
    yield "| data | wrong | " + " | ".join(columns.values()) + " |"
    yield "|---" * (len(columns) + 2) + "|"
    for entry in entries:
        ways = entry["ways"] | ONE_RUN.get(entry["name"], {})
        cells = (show(ways[way]) if way in ways else "" for way in columns)
        mark = " *" if entry["kept back"] else ""
        yield (
            f"| {entry['name']}{mark} | {entry['wrong']:,} of {entry['rows']:,} | "
            + " | ".join(cells)
            + " |"
        )


def show_ap(item: dict[str, Any]) -> str:
    return "failed" if "problem" in item else f"{item['ap']:.3f}".removeprefix("0")


def show_list(item: dict[str, Any]) -> str:
    if "problem" in item:
        return "failed"
    if "listed" not in item:
        return ""
    share = f" ({item['right'] / item['listed']:.2f})".replace("(0", "(") if item["listed"] else ""
    return f"{item['listed']:,}{share}"


def show_count(item: dict[str, Any]) -> str:
    if "problem" in item:
        return "failed"
    count, lower, upper = item["told"]
    middle = "-" if count is None else f"{count:.0f}"
    return middle if lower is None else f"{middle}, {lower:.0f} to {upper:.0f}"


def main() -> None:
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[peer.name for peer in PACKAGES],
        default=[p.name for p in PACKAGES],
    )
    parser.add_argument(
        "--table", action="store_true", help="print the last result and measure nothing"
    )
    parser.add_argument("--cache", type=Path, default=home / "nearworth" / "peers" / "label errors")
    options = parser.parse_args()
    if not options.table and options.data is None:
        parser.error("--data FOLDER is needed")
    results = (
        json.loads(RESULTS.read_text())
        if options.table
        else measure(options.data, options.cache, options.only)
    )
    print(*tables(results), sep="\n")


if __name__ == "__main__":
    main()
