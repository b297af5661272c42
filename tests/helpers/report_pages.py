"""Audits to write pages about, and what a page holds."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import numpy as np

import nearworth as nw
from nearworth.audit.error_count import ErrorCount
from nearworth.audit.result import LabelAudit
from nearworth.audit.votes import Voters, rank_weights

# Texts that would run a script or a formula if they were not inert.
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}",
    '"><svg onload=alert(1)>',
    '=HYPERLINK("http://evil")',
    "\u2028alert(1)",
    "<!--<script>",
    "javascript:alert(1)",
    "&lt;b&gt;",
]


def made_up(rng, n, n_suspects, labels):
    """An audit of random results, without data behind it, of any size."""
    labels = np.array(labels, dtype=object)
    codes = rng.integers(0, len(labels), n)
    quality = rng.uniform(0.5, 1.0, n)
    suspects = rng.choice(n, n_suspects, replace=False)
    quality[suspects] = np.sort(rng.uniform(0.0, 0.4, n_suspects))
    neighbors = rng.integers(0, n, (n, 10)).astype(np.int32)
    distances = np.tile(np.arange(10.0), (n, 1))
    return LabelAudit(
        given=labels[codes],
        quality=quality,
        agreement=rng.uniform(size=n),
        suggested=labels[(codes + 1) % len(labels)],
        confidence=rng.uniform(size=n),
        # The list of suspects has all errors, so that no other row is doubtful.
        n_errors=ErrorCount(n_suspects, n_suspects / 2, n_suspects),
        valuation=SimpleNamespace(values=rng.normal(size=n) / n, error_bound=0.0),
        classes=labels,
        _voters=Voters(neighbors, distances, rank_weights(distances, 10), distances=distances),
        _estimator=nw.KNNShapley(10),
    )


def embedded(page):
    """The data that the script of a page reads."""
    pattern = r'<script type="application/json" id="data">(.*?)</script>'
    return json.loads(re.search(pattern, page, re.DOTALL).group(1))
