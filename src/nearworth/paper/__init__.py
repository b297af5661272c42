"""The paper's experiment: Table 1 of Wang & Jia (2023), finding wrong labels by low values.

    for row in table1("folder with the data"):
        print(row)

table.py      holds the digits of the paper and runs one row after the other: a split, values, scores
protocol.py   makes the training and validation sets as the authors' code did
"""

from nearworth.paper.protocol import Split, make_split
from nearworth.paper.table import CELLS, HEADER, LEGEND, PRINTED, Row, agreement, judge, table1, write_json

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
