"""SelfClean: its cleaner on given features, with the cosine distance it uses and with Euclidean
distances.

The list is that of `auto_cleaning=True`. Distances are held in memory instead of a file, which is
faster. It clips distances to 0..1, so for Euclidean ones the rows are scaled to fit; its score is a
ratio of distances.

A row with copies of both its own and another label has the score 0/0, and one such row can disturb
the order of all the others. "selfclean" is the order as it is returned; "selfclean repaired" takes
its scores with 1/2 in these places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from finding import Case, Found

DISTRIBUTION = "selfclean"
UNRELATED = {
    "torchvision",
    "transformers",
    "torchmetrics",
    "torchinfo",
    "einops",
    "skimage",
    "wandb",
}


def issues(case: Case, X: np.ndarray, **how: Any) -> dict[str, np.ndarray]:
    from selfclean.cleaner.issue_manager import IssueTypes
    from selfclean.cleaner.selfclean_cleaner import SelfCleanCleaner

    cleaner = SelfCleanCleaner(
        memmap=False, auto_cleaning=True, log_level="ERROR", cleaner_kwargs={}, **how
    )
    cleaner.fit(emb_space=X, labels=case.y)
    found = cleaner.predict([IssueTypes.LABEL_ERRORS]).get_issues("label_errors")
    return {name: np.asarray(part) for name, part in found.items()}


def as_returned(found: dict[str, np.ndarray]) -> Found:
    order = found["indices"]
    score = np.empty(len(order))
    score[order] = -np.arange(len(order), dtype=float)
    undefined = int(np.isnan(found["scores"]).sum())
    return Found(score.tolist(), order[found["auto_issues"]].tolist(), undefined=undefined)


def cosine(case: Case) -> Found:
    return as_returned(issues(case, case.X))


def repaired(case: Case) -> Found:
    found = issues(case, case.X)
    score = np.empty(len(case.y))
    score[found["indices"]] = -np.nan_to_num(found["scores"].astype(float), nan=0.5)
    return Found(score.tolist())


def euclidean(case: Case) -> Found:
    centred = case.X - case.X.mean(axis=0)
    longest = 2 * np.sqrt((centred**2).sum(axis=1).max())
    return as_returned(
        issues(case, centred / longest, distance_function_name="euclidean_distances")
    )


WAYS = {"selfclean": cosine, "selfclean repaired": repaired, "selfclean euclidean": euclidean}
