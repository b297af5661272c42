"""nearworth detect: which labels are probably wrong, and what they should be."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearworth._version import __version__
from nearworth.audit.findings import Findings, Selection, findings_of
from nearworth.cli.data import Data, prepare
from nearworth.cli.messages import tell, write_results
from nearworth.cli.options import pop_model
from nearworth.tables.errors import InputError
from nearworth.tables.writing import STDOUT, check_output


def detect(*, output: str, force: bool, dry_run: bool, quiet: bool, as_json: bool, **given: Any) -> None:
    """Read, audit, write the suspects."""
    check_output(output, force, inputs=(given["train"], given["validation"]))
    selection = pop_selection(given)
    found = find(pop_model(given), selection, dry_run, quiet, **given)
    if found is None:
        return
    data, findings = found
    write_results(suspect_columns(data, findings), summary(data, findings, selection), output, as_json)
    where = f" They are in {output}" if len(findings.suspects) else f" {output} has a header only"
    tell(f"{headline(data, findings)}{'' if output == STDOUT else where}", quiet)


def pop_selection(given: dict[str, Any]) -> Selection:
    """Take the rule for listing rows out of the options; contradictions are refused before files are read."""
    selection = Selection(given.pop("rule"), given.pop("fraction"), given.pop("max_fdr"))
    if selection.fraction is not None and selection.max_fdr is not None:
        raise InputError("--fraction and --max-fdr were both given. Give one of them.")
    if selection.max_fdr is not None and selection.rule is not None:
        raise InputError(f"--max-fdr and --rule {selection.rule} were both given. Give one of them.")
    if selection.fraction is not None and selection.rule not in (None, "ranking"):
        raise InputError(f"--fraction has no meaning with --rule {selection.rule}, which finds its own.")
    return selection


def find(
    model: dict[str, Any], selection: Selection, dry_run: bool, quiet: bool, **given: Any
) -> tuple[Data, Findings] | None:
    """The data and what an audit finds in them; nothing on a dry run."""
    data = prepare(dry_run, quiet, **given)
    return None if data is None else (data, audit(data.X, data.y, data.X_val, data.y_val, selection, model))


def audit(X: Any, y: Any, X_val: Any, y_val: Any, selection: Selection, parameters: dict[str, Any]) -> Findings:
    """Audit the labels and list suspects."""
    from nearworth.audit.labels import audit_labels

    return findings_of(audit_labels(X, y, X_val=X_val, y_val=y_val, **parameters), selection)


def suspect_columns(data: Data, findings: Findings) -> dict[str, Any]:
    """One line per suspect, worst first."""
    rows = findings.suspects
    names = {name: _take(column, rows) for name, column in data.names().items()}
    return names | {
        "given": _take(data.y, rows),
        "suggested": _take(findings.suggested, rows),
        "quality": findings.quality[rows],
        "value": findings.value[rows],
        "why": [findings.why(int(row)) for row in rows],
    }


def headline(data: Data, findings: Findings) -> str:
    """What was found, in one sentence or two."""
    n_suspects = len(findings.suspects)
    text = f"{n_suspects:,} of {len(data.y):,} labels {'is' if n_suspects == 1 else 'are'} suspect ({findings.rule})."
    if not n_suspects:
        text = f"No suspects among {len(data.y):,} labels ({findings.rule}). {findings.why_none()}".rstrip()
    if findings.n_errors is not None:
        estimate, lower, upper = findings.n_errors
        verb = "is" if f"{estimate:.0f}" == "1" else "are"
        text += f" About {estimate:,.0f} {verb} estimated to be wrong ({lower:,.0f} to {upper:,.0f})."
    if findings.error_bound:
        text += f" Values are certain to within {findings.error_bound:.2g}."
    return text


def summary(data: Data, findings: Findings, selection: Selection, command: str = "detect") -> dict[str, Any]:
    """The same for programs."""
    return {
        "command": command,
        "version": __version__,
        "n_train": len(data.y),
        "n_suspects": len(findings.suspects),
        "selection": selection.asked(),
        "n_errors": None
        if findings.n_errors is None
        else dict(zip(("estimate", "lower", "upper"), findings.n_errors, strict=True)),
        "error_bound": findings.error_bound,
        "columns": data.columns,
    }


def _take(column: Any, rows: Any) -> Any:
    taken = column.take(rows) if hasattr(column, "chunks") else column[rows]
    return taken.tolist() if isinstance(taken, np.ndarray) and taken.dtype.kind == "O" else taken
