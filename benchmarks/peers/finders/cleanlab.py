"""cleanlab: self-confidence, `find_label_issues` and `num_label_issues`, on votes of neighbours or
on a model.
"""

from __future__ import annotations

import numpy as np
from finding import Case, Found

DISTRIBUTION = "cleanlab"
K = 10


def issues(case: Case, probs: np.ndarray) -> Found:
    from cleanlab.count import num_label_issues
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    quality = get_label_quality_scores(case.y, probs, method="self_confidence")
    listed = find_label_issues(case.y, probs, return_indices_ranked_by="self_confidence", n_jobs=1)
    return Found((-quality).tolist(), listed.tolist(), float(num_label_issues(case.y, probs)))


def neighbours(case: Case) -> Found:
    """Shares of the labels of the ten nearest other rows, Euclidean."""
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=K).fit(case.X).kneighbors(return_distance=False)
    return issues(case, np.eye(case.n_classes)[case.y[near]].mean(axis=1))


def model(case: Case) -> Found:
    return issues(case, case.probs)


WAYS = {"cleanlab knn": neighbours, "cleanlab lr": model}
