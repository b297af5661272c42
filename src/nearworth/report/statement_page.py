"""One page with what each owner is told: all owners in a table, then a statement for each. No script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from nearworth._version import __version__
from nearworth.report.page import policy_for
from nearworth.results.owners import ANALYST, Comparison, OwnerValues

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { padding: .25rem .8rem; border-bottom: 1px solid #8886; }
.n { text-align: right; font-variant-numeric: tabular-nums; } th { text-align: left; vertical-align: top; }
section { break-inside: avoid; margin-top: 2.5rem; } td { overflow-wrap: anywhere; } pre { overflow-x: auto; }
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}"><title>Owners of {{ source }}</title>
<style>{{ style }}</style></head><body>
<h1>What the rows of each owner are worth</h1>
<p>{{ source }}: {{ how }}.</p>
<table><tr><th>owner</th><th class="n">rows</th><th class="n">value</th><th class="n">standard error</th>
<th class="n">share</th>{% if payments %}<th class="n">payment</th>{% endif %}</tr>
{% for owner, row in owners.items() %}
<tr><td>{{ owner }}</td><td class="n">{{ row.n_rows }}</td><td class="n">{{ "%.6f" % row.total }}</td>
<td class="n">{{ "%.2g" % row.standard_error }}</td><td class="n">{{ "%.1f %%" % (100 * row.share) }}</td>
{% if payments %}<td class="n">{{ "%.2f" % payments[owner] }}</td>{% endif %}</tr>
{% endfor %}
{% if analyst in payments %}<tr><td>analyst</td><td></td><td></td><td></td><td></td>
<td class="n">{{ "%.2f" % payments[analyst] }}</td></tr>{% endif %}
</table>
{% if comparison %}<h2>Since the earlier period</h2><pre>{{ comparison }}</pre>{% endif %}
{% for statement in statements %}
<section><h2>{{ statement.owner }}</h2><table>
{% for name, entry in statement.items() %}
<tr><th>{{ name.replace("_", " ") }}</th><td>{{ entry }}</td></tr>
{% endfor %}
</table></section>
{% endfor %}
<p>nearworth {{ version }}</p></body></html>
"""


def render_statements(
    owners: OwnerValues, source: str, budget: Any, comparison: Comparison | None, rules: Mapping[str, Any]
) -> str:
    """The page as HTML; `rules` are those of `OwnerValues.payments`."""
    payments = {} if budget is None else owners.payments(budget, **rules)
    statements = [owners.statement(owner) for owner in owners]
    for statement in statements if payments else ():
        statement |= {"budget": budget, "payment": f"{payments[statement['owner']]:.2f}"}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(PAGE).render(
        policy=policy_for("", STYLE),
        style=Markup(STYLE),  # ours, not the data's
        source=source,
        how=owners.how,
        owners=owners,
        payments=payments,
        analyst=ANALYST if payments.keys() - owners.keys() else None,
        comparison=comparison,
        statements=statements,
        version=__version__,
    )
