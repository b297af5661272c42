"""nearworth review, and --review of detect and report: rows to judge, and what the answers say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearworth.cli.data import Data
from nearworth.cli.options import print_message
from nearworth.tables import InputError
from nearworth.tables.read import read
from nearworth.tables.write import STDOUT, check_output, write_bytes

if TYPE_CHECKING:
    from nearworth.audit.result import LabelAudit

NEEDED = ("row", "given", "decision", "asked", "seed", "of_rows")
ANSWERS = ("right", "wrong", "skip")


def review(*, number: int, seed: int, blind: bool, output: str, force: bool, **given: Any) -> None:
    from nearworth.cli.detect import audited
    from nearworth.report.page import render_review

    check_output(output, force, (".html", ".htm"), (given["train"], given["validation"], *given["review"]))
    if output == STDOUT:
        raise InputError("-o -: the page goes to a file; give a name that ends in .html.")
    data, audit = audited(given)
    drawn = audit.review_sample(number, random_state=seed)
    page = render_review(audit, data.rows, drawn, seed, blind=blind).encode()
    write_bytes(output, lambda file: file.write(page))
    print_message(f"{number:,} of {len(audit):,} rows to judge: open {output} in a browser, judge, and export.")


def answered(audit: LabelAudit, data: Data, reviews: tuple[str, ...]) -> LabelAudit:
    """The audit with the decisions of one review after the other, each drawn anew as its page was."""
    for path in reviews:
        records = read(path, text_only=True).table.to_pylist()
        rows, is_wrong, number, seed = _decisions(path, records, data)
        drawn = audit.review_sample(number, random_state=seed)
        strange = np.setdiff1d(rows, drawn)
        if len(strange):
            raise InputError(
                f"{path}: row {strange[0]} is not among the {number:,} rows of this review. Give the options and, in "
                "their order, the earlier reviews that its page was made with."
            )
        audit = audit.reviewed(rows, is_wrong)
    return audit


def _decisions(path: str, records: list[dict[str, Any]], data: Data) -> tuple[Any, Any, int, int]:
    """Rows judged, whether they are wrong, and how many rows were drawn with which seed."""
    from nearworth.report.cells import id_text

    absent = [name for name in NEEDED if records and name not in records[0]]
    if absent or not records:
        raise InputError(
            f"{path}: {f'has no column {absent[0]!r}' if absent else 'is empty'}; export it from the page."
        )
    numbers = range(len(data.y)) if data.rows.numbers is None else data.rows.numbers.tolist()
    position = {number: index for index, number in enumerate(numbers)}  # of a row of the file among those audited
    n_rows = data.rows.of_rows or len(data.y)
    texts = [{name: str(record[name]).strip() for name in NEEDED} for record in records]
    for text in texts:
        if not all(text[name].isdecimal() for name in ("row", "asked", "seed", "of_rows")):
            raise InputError(f"{path}: row {text['row']!r} has no number where one is needed; export it from the page.")
        if text["decision"] not in ANSWERS:
            raise InputError(
                f"{path}: the decision on row {text['row']} is {text['decision']!r}; use right, wrong, skip."
            )
        row = int(text["row"])
        if int(text["of_rows"]) != n_rows or row not in position or id_text(data.y[position[row]]) != text["given"]:
            raise InputError(
                f"{path}: row {row} was {text['given']!r} among {text['of_rows']} rows when it was judged. Is it the "
                "file that the page was made from?"
            )
    judged = [text for text in texts if text["decision"] != "skip"]
    if not judged or len({(text["asked"], text["seed"]) for text in texts}) > 1:
        raise InputError(
            f"{path}: holds no judged row, or decisions of several reviews; give each file its own --review."
        )
    rows = np.array([position[int(text["row"])] for text in judged])
    wrong = np.array([text["decision"] == "wrong" for text in judged])
    return rows, wrong, int(texts[0]["asked"]), int(texts[0]["seed"])
