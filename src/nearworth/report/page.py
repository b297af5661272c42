"""The pages: template, style and script in one file each, with a policy that allows nothing
else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from nearworth._common.files import atomic_write
from nearworth._common.text import cell, one_line
from nearworth._common.types import IntVector
from nearworth._version import __version__
from nearworth.report.content import Content, Suggestions

if TYPE_CHECKING:
    from nearworth.audit.result import LabelAudit
    from nearworth.audit.scan import Finding
    from nearworth.results.owners import OwnerValues
    from nearworth.tables.dataset import Dataset

# One script, in parts: each may use what those before it define.
SCRIPTS = (
    "dom",
    "words",
    "rows",
    "decisions",
    "lists",
    "filters",
    "items",
    "charts",
    "compare",
    "detail",
    "actions",
    "map",
    "summary",
    "panels",
    "dialogs",
    "files",
    "start",
)


def write_report(
    audit: LabelAudit,
    rows: Dataset,
    path: str | os.PathLike[str],
    selection: Mapping[str, Any] | None = None,
    findings: Mapping[str, Finding] | None = None,
) -> None:
    """Write the report of an audit to one HTML file; arguments as in `render_report`."""
    with atomic_write(path) as file:
        file.write(render_report(audit, rows, selection, findings).encode())


def render_report(
    audit: LabelAudit,
    rows: Dataset,
    selection: Mapping[str, Any] | None = None,
    findings: Mapping[str, Finding] | None = None,
    *,
    decided: Any = (),
    suggestions: Suggestions | None = None,
) -> str:
    """The report as HTML.

    `selection` are the keywords of `LabelAudit.suspects`, `findings` those of a scan. `decided` are
    audited rows that were decided on before, which are not listed. `suggestions` are labels for
    rows that have none.
    """
    content = Content(
        audit, rows, selection or {}, findings, decided=decided, suggestions=suggestions
    )
    data = content.page_data()
    return rendered(
        "web/page",
        SCRIPTS,
        data,
        review=False,
        audit=audit,
        rows=rows,
        rule=_rule_of_list(content),
        empty=audit.explain_empty(content.selection),
        findings=content.findings,
    )


def _rule_of_list(content: Content) -> str:
    """By which rule the listed rows were chosen."""
    audit = content.audit
    n_suspects = len(content.suspects)
    n_likely = int(audit.is_label_issue[content.suspects].sum())
    # Without a selection the list may go on beyond rows that are likely wrong.
    if not content.selection and n_likely < n_suspects:
        doubtful = f"the most doubtful rows, {n_likely:,} of {n_suspects:,}"
        return f"{doubtful} more likely wrong than right"
    return audit.describe_selection(content.selection)


def render_review(
    audit: LabelAudit, rows: Dataset, drawn: IntVector, seed: int, *, blind: bool = False
) -> str:
    """The page for reviewing rows that were drawn with a seed, as HTML.

    With `blind` the page shows what was found about a row only once the row is reviewed.
    """
    data = Content(audit, rows, {}, listed=drawn).shown()
    data |= {"seed": seed, "blind": blind, "review": True}
    return rendered(
        "web/page",
        SCRIPTS,
        data,
        review=True,
        audit=audit,
        rows=rows,
        rule="",
        empty="",
        findings={},
    )


def render_statements(
    owners: OwnerValues, source: str, budget: Any, rules: Mapping[str, Any]
) -> str:
    """The page with what each owner is told; `rules` are those of `OwnerValues.payments`."""
    payments = None if budget is None else owners.payments(budget, **rules)
    source = one_line(source)
    sections = {f"Owners of {source}": f"{owners}\n\n{one_line(owners.how)}"}
    if payments:
        lines = [f"{amount:>14,.2f}  {cell(owner)}" for owner, amount in payments.items()]
        sections["Payments"] = "\n".join(lines)
    for owner in owners:
        statement = owners.statement_of(owner, budget, payments, rules)
        sections[f"Statement for {one_line(owner)}"] = str(statement)
    return rendered("statements", (), {}, source=source, sections=sections)


def rendered(name: str, scripts: tuple[str, ...], data: dict[str, Any], **context: Any) -> str:
    """One file from a template, a style sheet, a script and the data that the script reads.

    The data gets a `key` of its own, by which a browser keeps what people decide on this page.
    `context` is what the template reads besides.
    """
    style = asset(f"{name}.css")
    script = ""
    if scripts:
        # All parts are in one function, so that the page has no global names.
        parts = "".join(asset(f"web/{part}.js") for part in scripts)
        script = f'"use strict";\n(() => {{\n{parts}}})();\n'
    data["key"] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]

    # The policy allows this script and this style by their hashes, and no address.
    sources = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    policy = f"{sources}; img-src data:; base-uri 'none'; form-action 'none'"
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(asset(f"{name}.html.j2"))
    return template.render(
        policy=policy,
        # Our own texts are markup as they are; everything else is escaped.
        style=Markup(style),
        script=Markup(script),
        data=inert_json(data),
        listed=data,
        version=__version__,
        **context,
    )


def inert_json(data: Any) -> Markup:
    r"""JSON that can stand in a script element: no character of it can end the element or begin a
    comment.

    >>> str(inert_json("</script>"))
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def asset(name: str) -> str:
    """A template, style sheet or script of this package."""
    return files("nearworth.report").joinpath(*name.split("/")).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
