"""From values to decisions: which labels are wrong, what they should be, how sure we are, and why.

    labels.audit_labels            the way in: checks, one pass over all pairs, then
      evidence.py                  votes: what neighbours say about a row, what a row's label does to others
      noise.py                     one model of votes and wrong labels at a given level of noise
      shapes.py                    what the spread of votes over the rows says about each level of noise
      levels.py                    that model at several levels: how likely each label is the true one
      errors.py                    how many labels are wrong, and lists with a limited share of false alarms
      residuals.py                 the same questions for continuous targets
    result.LabelAudit              the answer
      explanation.py               why: a row's neighbours, whom it helps and hurts, its value under other labels

The evidence of a row never holds its own label, which makes it fair to judge that label by it.
"""

from nearworth.audit.errors import ErrorCount
from nearworth.audit.explanation import Explanation
from nearworth.audit.labels import audit_labels
from nearworth.audit.result import LabelAudit

__all__ = ["ErrorCount", "Explanation", "LabelAudit", "audit_labels"]
