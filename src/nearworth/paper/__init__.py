"""The paper's experiment: Table 1 of Wang & Jia (2023), finding wrong labels by low values.

    for row in table1("folder with the data"):
        print(row)

`protocol` makes the training and validation sets as the authors' code did, `printed` holds the digits of the paper and
judges ours against them, `table` runs one row after the other.
"""

from nearworth.paper.printed import CELLS, PRINTED, judge
from nearworth.paper.protocol import Split, make_split
from nearworth.paper.table import HEADER, LEGEND, Row, agreement, table1, write_json

__all__ = [
    "CELLS",
    "HEADER",
    "LEGEND",
    "PRINTED",
    "Row",
    "Split",
    "agreement",
    "judge",
    "make_split",
    "table1",
    "write_json",
]
