"""What one pass over the neighbours tells about a data set beside its labels.

    scan.py         scan: one audit, then from its lists of neighbours a Finding of each kind; Scan holds them
      finding.py    Finding: rows or groups, a score for every row, a sentence, a frame; how each kind is found

Nothing here looks at pairs of rows again: lists, values and copies are those of the audit.
"""

from nearworth.findings.finding import Finding
from nearworth.findings.scan import Scan, scan

__all__ = ["Finding", "Scan", "scan"]
