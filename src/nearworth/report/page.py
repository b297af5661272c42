"""The page itself: template, style and script in one file, with a policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from nearworth._common.files import atomic_write
from nearworth._version import __version__
from nearworth.report import pictures
from nearworth.report.content import Content, Rows, project

if TYPE_CHECKING:
    from nearworth.audit.result import LabelAudit


def write_report(audit: LabelAudit, rows: Rows, path: str | os.PathLike[str], selection: Mapping[str, Any]) -> None:
    """Write the report of an audit to one HTML file."""
    page = render_report(audit, rows, selection).encode()
    with atomic_write(path) as file:
        file.write(page)


def render_report(audit: LabelAudit, rows: Rows, selection: Mapping[str, Any] | None = None) -> str:
    """The report as HTML; `selection` are the keywords of `LabelAudit.suspects`."""
    content = Content(audit, rows, selection or {})
    data = content.suspects_data()
    drawn = _draw(content)
    if "map" in drawn:
        data["place"] = drawn["map"]["positions"][: len(content.listed)].round(1).tolist()
    data["key"] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    template, style, script = (_asset(name) for name in ("page.html.j2", "page.css", "page.js"))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(
        policy=policy_for(script, style),
        style=Markup(style),  # ours, not the data's
        script=Markup(script),
        data=inert_json(data),
        audit=audit,
        content=content,
        rows=rows,
        pictures=drawn,
        frame=pictures,
        rule=audit.describe_selection(content.selection),
        version=__version__,
    )


def inert_json(data: Any) -> Markup:
    r"""JSON that can stand in a script element: no character of it can end the element or begin a comment.

    >>> str(inert_json("</script>"))
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _draw(content: Content) -> dict[str, dict[str, Any]]:
    audit, suspects, chosen = content.audit, content.suspects, content.rows_to_draw()
    suspect, quality, value = np.isin(chosen, suspects), audit.quality[chosen], audit.value[chosen]
    # Where no rule sets the quality that suspects are below, it is that of the best suspect.
    threshold = max(audit.quality[suspects].tolist(), default=None) if content.selection else audit.ISSUE
    trimmed = np.clip(value, *np.percentile(value, [0.1, 99.9]))
    drawn = {
        "quality": pictures.histogram(audit.quality, threshold),
        "values": pictures.boxes(content.values_by_class()),
        "agreement": pictures.scatter(np.column_stack([audit.agreement[chosen], trimmed]), quality, suspect),
    }
    X = content.rows.X
    if X is not None and X.shape[1] > 1:
        drawn["map"] = pictures.scatter(project(X, chosen), quality, suspect)
    return drawn


def _asset(name: str) -> str:
    return (files("nearworth.report") / name).read_text(encoding="utf-8")


def policy_for(script: str, style: str) -> str:
    """A content security policy that allows this script and this style by their hashes, and no address."""
    allowed = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
    return allowed + "img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
