"""One page with what each owner is told: all owners, what changed, then a statement for each. No script."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from nearworth._version import __version__
from nearworth.report.page import policy_for
from nearworth.results.owners import Comparison, OwnerValues

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid #8886; border-radius: 6px; padding: 1rem; }
section { break-inside: avoid; margin-top: 2rem; }
"""


def render_statements(
    owners: OwnerValues, source: str, budget: Any, comparison: Comparison | None, rules: Mapping[str, Any]
) -> str:
    """The page as HTML; `rules` are those of `OwnerValues.payments`."""
    payments = {} if budget is None else owners.payments(budget, **rules)
    parts = {f"Owners of {source}": f"{owners}\n\n{owners.how}"}
    if payments:
        parts["Payments"] = "\n".join(f"{amount:>14,.2f}  {owner}" for owner, amount in payments.items())
    if comparison is not None:
        parts["Since the earlier period"] = str(comparison)
    for owner in owners:
        statement = owners.statement(owner)
        if payments:
            statement |= {"budget": budget, "payment": f"{payments[owner]:.2f}"}
        parts[f"Statement for {owner}"] = str(statement)
    sections = (
        f"<section><h2>{escape(title)}</h2><pre>{escape(text)}</pre></section>" for title, text in parts.items()
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy_for("", STYLE))}">'
        f"<title>Owners of {escape(source)}</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(sections)
        + f"\n<p>nearworth {__version__}</p></body></html>\n"
    )
