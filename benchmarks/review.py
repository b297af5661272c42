"""What a review is worth: simulated reviewers on labels that people or rules really got wrong.

    python benchmarks/review.py --data FOLDER [--case exact] [--repetitions 300] [--held-back]

Audits run once, and their qualities are kept in --cache. For each set 20, 50 and 100 rows are drawn
and judged 300 times: by an exact reviewer, with the errors shuffled (a ranking worth nothing), by
one who errs in 5 %, in steps (20, then 30, then 50), and with sixty further rows, twenty at a time.
Sets marked as held back were not looked at while the constants of review.py were chosen.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import nearworth as nw
from nearworth.audit.error_count import Review

HELD_BACK = ("youtube", "catdog random3")
CASES = ("exact", "shuffled", "careless", "steps", "further")
KINDS = ("aggregate", "worst", "random1", "random2", "random3")


def sets(data: Path):
    """Name, features, given labels and which of them are wrong."""
    read = lambda name: np.load(data / f"{name}.npz", allow_pickle=False)  # noqa: E731
    for name, file in (("yoruba", read("yoruba_news")), ("youtube", read("youtube_spam"))):
        yield name, file["X"], file["y_given"], file["y_given"] != file["y_true"]
    roman = read("roman_numerals_probabilities")
    for model in ("resnet18", "swin"):
        logs = np.log(roman[f"{model}_pred_probs"].clip(1e-6))
        yield (
            f"roman {model}",
            logs,
            roman[f"{model}_y_given"],
            roman[f"{model}_is_error"].astype(bool),
        )
    images, people = read("cifar10_catdog_features"), read("cifar10n_labels")
    X, index = images["x_train"].astype(np.float32), images["index_train"]
    for kind in KINDS:
        given, true = people[f"y_{kind}"][index], people["y_clean"][index]
        known = np.isin(given, np.unique(true))
        yield f"catdog {kind}", X[known], given[known], (given != true)[known]
        if kind in ("aggregate", "worst", "random2"):
            yield f"ten labels {kind}", X, given, given != true
    digits, judged = read("mnist"), read("label_errors_test_sets")
    wrong = np.zeros(len(digits["y_test"]), dtype=bool)
    wrong[judged["mnist_index"][judged["mnist_votes"][:, 0] < 3]] = True
    yield (
        "mnist",
        digits["x_test"].reshape(len(wrong), -1).astype(np.float32),
        digits["y_test"],
        wrong,
    )


def audits(data: Path, cache: Path, held_back: bool):
    """Name, order, quality, agreement and errors of each set."""
    cache.mkdir(parents=True, exist_ok=True)
    for name, X, y, wrong in sets(data):
        if (name in HELD_BACK) != held_back:
            continue
        path = cache / f"{name}.npz"
        if not path.exists():
            audit = nw.audit_labels(X, y)
            np.savez(path, order=audit.order, quality=audit.quality, agreement=audit.agreement)
        kept = np.load(path)
        yield name, kept["order"], kept["quality"], kept["agreement"], wrong


def repeat(found, wrong, steps, repetitions, mistakes=0.0):
    """Reviews of so many rows, step by step: estimates, intervals, lists."""
    order, quality, agreement = found
    lines = []
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        review = Review.begin(order, quality, agreement, steps[0])
        for number, size in enumerate(steps):
            review = review.finer(size) if number else review
            rows = review.draw(size, rng)
            answers = wrong[rows] ^ (rng.random(len(rows)) < mistakes)
            review = review.answered(rows, answers)
        count, listed = review.n_errors(), review.suspects(0.1)
        lines.append((count.estimate, count.lower, count.upper, listed.sum(), wrong[listed].sum()))
    return np.array(lines, dtype=float)


def best_list(order, wrong, precision=0.9):
    """Errors in the longest list, worst first, that has the precision: what hindsight finds."""
    hits = np.cumsum(wrong[order])
    within = np.flatnonzero(hits >= precision * np.arange(1, len(hits) + 1))
    return int(hits[within[-1]]) if len(within) else 0


def describe(lines, wrong, best):
    true = wrong.sum()
    estimate, lower, upper, size, hits = lines.T
    kept = hits >= 0.9 * size - 1e-9
    share = f"{hits.mean() / best:.2f}" if best else "-"
    return (
        f"{np.median(np.abs(estimate - true)) / true:.2f} | {estimate.mean() / true - 1:+.2f} |"
        f" {np.mean((lower <= true) & (true <= upper)):.3f} | {np.median(upper - lower) / true:.2f}"
        f" | {kept.mean():.3f} | {hits.mean():.0f} / {best} | {share} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path("review-cache"))
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--rows", type=int, nargs="*", default=[20, 50, 100])
    parser.add_argument("--only", nargs="*", help="Names of sets.")
    parser.add_argument("--case", choices=CASES, default="exact")
    parser.add_argument("--held-back", action="store_true")
    given = parser.parse_args()
    print(
        "| set | wrong | judged | off by (median) | bias | covered | width | list kept | found /"
        " best | |"
    )
    print("|" + "---|" * 10)
    for name, *found, wrong in audits(given.data, given.cache, given.held_back):
        if given.only and name not in given.only:
            continue
        if given.case == "shuffled":
            wrong = np.random.default_rng(0).permutation(wrong)
        for n in given.rows:
            in_steps = np.diff([0, *(size for size in given.rows if size <= n)]).tolist()
            steps = {"steps": in_steps, "further": (n, 20, 20, 20)}.get(given.case, (n,))
            mistakes = 0.05 if given.case == "careless" else 0.0
            lines = repeat(found, wrong, steps, given.repetitions, mistakes)
            told = describe(lines, wrong, best_list(found[0], wrong))
            print(f"| {name} | {wrong.sum()} of {len(wrong)} | {n} | {told}", flush=True)


if __name__ == "__main__":
    main()
