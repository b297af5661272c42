"""Parts in files to one valuation in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearworth._common.files import atomic_write
from nearworth.results.partial import Partial
from nearworth.results.valuation import Valuation

ENDINGS = (".npz", ".csv", ".parquet")


def merge_files(paths: Sequence[str], output: str) -> Valuation:
    """Merge saved parts, in any order, and write the values: .npz keeps everything, .csv and .parquet a table."""
    check_ending(output)
    parts = [Partial.load(path) for path in paths]
    valuation = Valuation.from_partial(parts[0].merge(parts[1:]))
    if Path(output).suffix == ".npz":
        valuation.save(output)
    else:
        _write_table(valuation, output)
    return valuation


def check_ending(output: str) -> None:
    """Refuse names of files that say nothing about their format."""
    if Path(output).suffix not in ENDINGS:
        raise ValueError(f"{output!r} must end in one of {', '.join(ENDINGS)}.")


def _write_table(valuation: Valuation, output: str) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    table = valuation.to_frame("pyarrow")
    with atomic_write(output) as file:
        if Path(output).suffix == ".csv":
            pyarrow.csv.write_csv(table, file)
        else:
            pyarrow.parquet.write_table(table, file)
