"""Docta: SimiFeat by vote and by rank, with the estimate of the noise (HOC) that the rank uses, and
its bare score.

Settings are those of its published configuration for tables (k = 10, 51 rounds of nine tenths of
the rows, 1,501 steps of HOC), but for the size of samples, which is not limited. Its report scores
listed rows only; the others come last. The bare score is the one it computes in each round, here
for all rows at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from finding import Case, Found

DISTRIBUTION = "docta.ai"
UNRELATED = {"torchvision", "transformers", "open_clip", "sentence_transformers", "PIL", "seaborn"}
HOC = {"max_step": 1501, "T0": None, "p0": None, "lr": 0.1, "num_rounds": 50, "sample_size": None}
HOC |= {"already_2nn": False, "device": "cpu"}


def settings(case: Case, method: str) -> tuple[Any, Any]:
    from docta.datasets.customize import CustomizedDataset
    from docta.utils.config import Config

    detect = {"num_epoch": 51, "sample_size": None, "k": 10, "name": "simifeat", "method": method}
    chosen = {"num_classes": case.n_classes, "details": False, "hoc_cfg": HOC, "detect_cfg": detect}
    rows = CustomizedDataset(
        case.X.astype(np.float32), case.y.astype(np.int64), np.arange(len(case.y))
    )
    return Config(chosen), rows


def simifeat(case: Case, method: str) -> Found:
    import torch
    from docta.apis.detect import DetectLabel
    from docta.core.report import Report

    np.random.seed(0)  # noqa: NPY002 - the generator it draws from
    torch.manual_seed(0)
    config, rows = settings(case, method)
    report = Report()
    DetectLabel(config, rows, report=report).detect()
    listed = [int(row) for row, _ in report.detection["label_error"]]
    score = np.zeros(len(case.y))
    for row, doubt in report.detection["label_error"]:
        score[row] = doubt
    if method == "mv":
        return Found(score.tolist(), listed)
    kept = float((np.ravel(report.diagnose["p_clean"]) * np.diag(report.diagnose["T"])).sum())
    return Found(score.tolist(), listed, len(case.y) * (1 - kept))


def vote(case: Case) -> Found:
    return simifeat(case, "mv")


def rank(case: Case) -> Found:
    return simifeat(case, "rank")


def bare_score(case: Case) -> Found:
    import torch
    from docta.core.knn import count_knn_distribution, get_score

    config, rows = settings(case, "mv")
    counts = count_knn_distribution(config, rows, np.arange(len(case.y)), k=10, norm="l2")
    return Found(get_score(counts, torch.tensor(rows.label)).numpy().astype(float).tolist())


WAYS = {"docta vote": vote, "docta rank": rank, "docta score": bare_score}
