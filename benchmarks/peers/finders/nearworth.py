"""nearworth: `audit_labels` with its defaults, with the probabilities of a model, and with
models="auto" on tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from finding import Case, Found

DISTRIBUTION = "nearworth"


def audit(case: Case, **how: Any) -> Found:
    import nearworth as nw

    done = nw.audit_labels(case.X, case.y, progress=False, **how)
    score = np.empty(len(case.y))
    score[done.order] = -np.arange(len(case.y), dtype=float)
    count = done.n_errors
    return Found(score.tolist(), done.suspects().tolist(), count.estimate, count.lower, count.upper)


def with_probabilities(case: Case) -> Found:
    return audit(case, pred_probs=case.probs[:, np.unique(case.y)])


def with_models(case: Case) -> Found | None:
    return audit(case, models="auto") if case.table else None


def cosine(case: Case) -> Found:
    return audit(case, metric="cosine")


WAYS = {
    "nearworth": audit,
    "nearworth lr": with_probabilities,
    "nearworth auto": with_models,
    "nearworth cosine": cosine,
}
