"""SelfClean: its cleaner on given features, with the cosine distance it uses and with Euclidean distances.

The list is that of `auto_cleaning=True`. Distances are held in memory instead of a file, which is faster. It clips
distances to 0..1, so for Euclidean ones the rows are scaled to fit; its score is a ratio of distances.
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
    "memory_profiler",
}


def clean(case: Case, X: np.ndarray | None = None, **how: Any) -> Found:
    from selfclean.cleaner.issue_manager import IssueTypes
    from selfclean.cleaner.selfclean_cleaner import SelfCleanCleaner

    cleaner = SelfCleanCleaner(memmap=False, auto_cleaning=True, log_level="ERROR", cleaner_kwargs={}, **how)
    cleaner.fit(emb_space=case.X if X is None else X, labels=case.y)
    found = cleaner.predict([IssueTypes.LABEL_ERRORS]).get_issues("label_errors")
    score = np.empty(len(case.y))
    score[found["indices"]] = -np.asarray(found["scores"], dtype=float)
    return Found(score.tolist(), np.asarray(found["indices"])[found["auto_issues"]].tolist())


def euclidean(case: Case) -> Found:
    centred = case.X - case.X.mean(axis=0)
    longest = 2 * np.sqrt((centred**2).sum(axis=1).max())
    return clean(case, centred / longest, distance_function_name="euclidean_distances")


WAYS = {"selfclean": clean, "selfclean euclidean": euclidean}
