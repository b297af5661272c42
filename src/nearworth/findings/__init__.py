"""What one pass over the neighbours tells about a data set beside its labels.

    scan.py         scan: one audit, then from its lists of neighbours a Finding of each kind; Scan holds them
      finding.py    Finding: rows or groups, a score for every row, a sentence, a frame
      copied.py     duplicates, conflicts, and validation rows that are in the training set
      outliers.py   rows far from all others
      imbalance.py  classes too small to judge, groups that make the score alone

Nothing here looks at pairs of rows again: lists, values and copies are those of the audit.
"""

from nearworth.findings.finding import Finding
from nearworth.findings.scan import Scan, scan

__all__ = ["Finding", "Scan", "scan"]
