"""Classes too small to judge, and groups of rows that make the score alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearworth._common.types import IntVector
from nearworth.audit.result import LabelAudit
from nearworth.findings.finding import Finding, counted, joined, shares
from nearworth.inputs.targets import check_classes

FEWEST = 2  # times K rows of a class, below which rows of other classes have most votes on its labels
MOST_OF_SCORE = 0.5  # of the groups' positive values, in a group with a smaller share of the rows


def find_imbalance(audit: LabelAudit, groups: Any) -> Finding:
    """Small classes, the smallest first, then the group that makes most of the score; scores are those of classes."""
    scores, found, says = np.zeros(len(audit)), dict[str, IntVector](), []
    if audit.classes is not None:
        k, (labels, codes) = audit._estimator.n_neighbors, np.unique(audit.given, return_inverse=True)
        counts = np.bincount(codes)
        scores = np.maximum(0.0, 1.0 - counts / (FEWEST * k))[codes]
        order = np.argsort(counts, kind="stable")
        found |= {f"class {labels[c]}": np.flatnonzero(codes == c) for c in order if counts[c] < FEWEST * k}
        small = counted(len(found), "class", "classes")
        says.append(f"{small} with fewer than {FEWEST * k} rows, {int((counts <= k).sum())} with {k} or fewer")
    if groups is not None:
        named = check_classes(groups, "groups", len(audit))
        made = shares(np.bincount(named.codes, audit.value).astype(np.float64))
        rows, name = np.flatnonzero(named.codes == made.argmax()), f"group {named.labels[made.argmax()]}"
        if made.max() > max(MOST_OF_SCORE, of_rows := len(rows) / len(audit)):
            found[name] = rows
            says.append(f"{name} makes {made.max():.0%} of the score with {of_rows:.0%} of the rows")
    which = np.repeat([*found], [len(rows) for rows in found.values()]).astype(str)
    columns, members = {"of": which}, list(found.values())
    return Finding(rows=joined(members), scores=scores, says="; ".join(says), groups=members, columns=columns)
