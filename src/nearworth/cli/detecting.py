"""nearworth detect: which labels are probably wrong, and what they should be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth._common.types import IntVector
from nearworth._version import __version__
from nearworth.cli.data import Data, Wanted, load
from nearworth.cli.telling import print_json, tell, tell_compiling, tell_data
from nearworth.tables.errors import InputError
from nearworth.tables.write import STDOUT, check_output, records, write_columns

if TYPE_CHECKING:  # the audit loads compiled code, which an error about the input need not wait for
    from nearworth.audit.result import LabelAudit


def detect(
    wanted: Wanted, parameters: dict[str, Any], selection: dict[str, Any], output: str, force: bool, dry_run: bool,
    quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Read, audit, write the suspects. `selection` are the keywords of `LabelAudit.suspects` that were given."""
    check_output(output, force, inputs=(wanted.train, wanted.validation))
    found = find(wanted, parameters, selection, dry_run, quiet)
    if found is None:
        return
    data, audit = found
    suspects = audit.suspects(**selection)
    columns = suspect_columns(data, audit, suspects)
    if as_json:
        rows = {"rows": records(columns)} if output == STDOUT else {"output": output}
        print_json(summary(data, audit, suspects, selection) | rows)
    if output != STDOUT or not as_json:
        write_columns(columns, output)
    where = f" They are in {output}" if len(suspects) else f" {output} has a header only"
    tell(f"{headline(audit, suspects, selection)}{'' if output == STDOUT else where}", quiet)


def find(
    wanted: Wanted, parameters: dict[str, Any], selection: dict[str, Any], dry_run: bool, quiet: bool
) -> tuple[Data, LabelAudit] | None:
    """The data and their audit; nothing on a dry run."""
    rule = selection.get("rule")
    if "fraction" in selection and "max_fdr" in selection:
        raise InputError("--fraction and --max-fdr were both given. Give one of them.")
    if "max_fdr" in selection and rule is not None:
        raise InputError(f"--max-fdr and --rule {rule} were both given. Give one of them.")
    if "fraction" in selection and rule not in (None, "ranking"):
        raise InputError(f"--fraction has no meaning with --rule {rule}, which finds its own.")
    data = load(wanted)
    tell_data(data, quiet)
    if dry_run:
        tell("Dry run: nothing was computed or written.", quiet)
        return None
    from nearworth.audit.audit import audit_labels

    tell_compiling(quiet)
    return data, audit_labels(data.X, data.y, X_val=data.X_val, y_val=data.y_val, **parameters)


def suspect_columns(data: Data, audit: LabelAudit, suspects: IntVector) -> dict[str, Any]:
    """One line per suspect, worst first."""
    names = {name: _take(column, suspects) for name, column in data.names().items()}
    return names | {
        "given": _take(data.y, suspects),
        "suggested": _take(audit.suggested, suspects),
        "quality": audit.quality[suspects],
        "value": audit.value[suspects],
        "why": [audit.why(int(row)) for row in suspects],
    }


def headline(audit: LabelAudit, suspects: IntVector, selection: dict[str, Any]) -> str:
    """What was found, in one sentence or two."""
    n_suspects, rule, count = len(suspects), audit.describe_selection(selection), audit.n_errors
    text = f"{n_suspects:,} of {len(audit):,} labels {'is' if n_suspects == 1 else 'are'} suspect ({rule})."
    if not n_suspects:
        text = f"No suspects among {len(audit):,} labels ({rule}). {audit.explain_empty(selection)}".rstrip()
    verb = "is" if f"{count.estimate:.0f}" == "1" else "are"
    text += f" About {count.estimate:,.0f} {verb} estimated to be wrong ({count.lower:,.0f} to {count.upper:,.0f})."
    if audit.valuation.error_bound:
        text += f" Values are certain to within {audit.valuation.error_bound:.2g}."
    return text


def summary(
    data: Data, audit: LabelAudit, suspects: IntVector, selection: dict[str, Any], command: str = "detect"
) -> dict[str, Any]:
    """The same for programs."""
    count = audit.n_errors
    return {
        "command": command,
        "version": __version__,
        "n_train": len(audit),
        "n_suspects": len(suspects),
        "selection": selection,
        "n_errors": {"estimate": float(count.estimate), "lower": float(count.lower), "upper": float(count.upper)},
        "error_bound": float(audit.valuation.error_bound),
        "columns": data.columns,
    }


def _take(column: Any, rows: Any) -> Any:
    taken = column.take(rows) if hasattr(column, "chunks") else column[rows]
    return taken.tolist() if isinstance(taken, np.ndarray) and taken.dtype.kind == "O" else taken
