"""The page itself: template, style and script in one file, with a policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from nearworth._common.files import atomic_write
from nearworth._common.types import IntVector
from nearworth._version import __version__
from nearworth.report import content, svg
from nearworth.report.content import Rows

if TYPE_CHECKING:
    from nearworth.audit.result import LabelAudit

NO_SELECTION: Mapping[str, Any] = MappingProxyType({})


def write_report(
    audit: LabelAudit, rows: Rows, path: str | os.PathLike[str], selection: Mapping[str, Any] = NO_SELECTION
) -> None:
    """Write the report of an audit to one HTML file."""
    page = render_report(audit, rows, selection).encode()
    with atomic_write(path) as file:
        file.write(page)


def render_report(audit: LabelAudit, rows: Rows, selection: Mapping[str, Any] = NO_SELECTION) -> str:
    """The report as HTML; `selection` are the keywords of `LabelAudit.suspects`."""
    suspects = audit.suspects(**selection)
    data = content.suspects_data(audit, suspects, rows)
    pictures = _pictures(audit, suspects, audit.threshold(selection), rows, data)
    data["key"] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    data["agreementIs"] = agreement_is(audit)
    style, script = _asset("page.css"), _asset("page.js")
    page: str = _template().render(
        policy=_policy(style, script),
        style=Markup(style),  # ours, not the data's
        script=Markup(script),
        data=inert_json(data),
        summary=content.summary(audit, suspects, selection, rows),
        classes=content.class_table(audit, suspects),
        matrix=content.matrix(audit, suspects),
        pictures=pictures,
        rows=rows,
        n_rows=len(audit),
        n_suspects=len(data["row"]),
        agreement=data["agreementIs"],
        rule=audit.describe_selection(selection),
        version=__version__,
    )
    return page


def inert_json(data: Any) -> Markup:
    r"""JSON that can stand in a script element: no character of it can end the element or begin a comment.

    >>> str(inert_json("</script>"))
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _pictures(
    audit: LabelAudit, suspects: IntVector, threshold: float | None, rows: Rows, data: dict[str, Any]
) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "quality": svg.histogram(audit.quality, threshold),
        "values": svg.boxes(content.values_by_class(audit, suspects)),
    }
    chosen = content.rows_to_draw(audit, suspects)
    suspect, quality = np.isin(chosen, suspects), audit.quality[chosen]
    value = audit.value[chosen]
    trimmed = np.clip(value, *np.percentile(value, [0.1, 99.9]))
    of_votes = "share of neighbours' votes for the label, nearer ones count more"
    drawn["agreement"], _ = svg.scatter(
        np.column_stack([audit.agreement[chosen], trimmed]),
        quality,
        suspect,
        title="Value against agreement",
        description="Each row; suspects are crosses.",
        x=of_votes if audit.suggested_range is None else "agreement with what neighbours suggest",
        y="value",
    )
    if rows.X is not None and rows.X.shape[1] > 1:
        drawn["map"], positions = svg.scatter(
            content.project(rows.X, chosen),
            quality,
            suspect,
            title="Map of the rows",
            description="Two principal components; suspects are crosses.",
            x="first principal component",
            y="second principal component",
            ticks=False,
        )
        data["place"] = positions[: len(data["row"])].round(1).tolist()
    return drawn


def agreement_is(audit: LabelAudit) -> str:
    """What agreement means, to compare it with the few neighbours shown."""
    if audit.suggested_range is not None:
        return "Agreement: 1 / (1 + distance from what neighbours suggest, in units of its usual size)."
    return (
        f"Agreement: share of the votes of the {audit.n_voters:,} nearest rows for the given label, "
        "nearer ones counting more."
    )


def _policy(style: str, script: str) -> str:
    """Allow this script and this style by their hashes, and no address."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _asset(name: str) -> str:
    return (files("nearworth.report") / name).read_text(encoding="utf-8")


@cache
def _template() -> Any:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["percent"] = lambda share: f"{share:.1%}"
    environment.filters["thousands"] = lambda number: f"{number:,}"
    return environment.from_string(_asset("page.html.j2"))
