"""The page for judging rows that were drawn by chance, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.types import IntVector
from nearworth.report.content import Content, Rows
from nearworth.report.page import asset, rendered

if TYPE_CHECKING:
    from nearworth.audit.result import LabelAudit


class Drawn(Content):
    """What the page shows about the rows to judge, in their order."""

    def __init__(self, audit: LabelAudit, rows: Rows, drawn: IntVector) -> None:
        self.audit, self.rows, self.listed = audit, rows, drawn
        self.of_classes = audit.suggested_range is None
        self.labels = np.unique(audit.given)


def render_review(audit: LabelAudit, rows: Rows, drawn: IntVector, seed: int, *, blind: bool = False) -> str:
    """The page as HTML; with `blind`, what the audit says about a row is shown once the row is judged."""
    data: dict[str, Any] = Drawn(audit, rows, drawn).suspects_data() | {"seed": seed, "blind": blind}
    return rendered("review", asset("review.js"), data, rows=rows, n_drawn=len(drawn), n_rows=len(audit), blind=blind)
