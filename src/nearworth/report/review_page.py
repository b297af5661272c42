"""The page for judging rows that were drawn by chance, one at a time."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from nearworth._common.types import IntVector
from nearworth._version import __version__
from nearworth.report.content import Content, Rows
from nearworth.report.page import inert_json, policy_for

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
    data["key"] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    assets = (files("nearworth.report") / name for name in ("review.html.j2", "review.css", "review.js"))
    template, style, script = (asset.read_text(encoding="utf-8") for asset in assets)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(
        policy=policy_for(script, style),
        style=Markup(style),  # ours, not the data's
        script=Markup(script),
        data=inert_json(data),
        rows=rows,
        n_drawn=len(drawn),
        n_rows=len(audit),
        blind=blind,
        version=__version__,
    )
