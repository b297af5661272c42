"""From values to decisions: which labels are wrong, what they should be, how sure we are, and why.

    audit.py             audit_labels: checks, one pass over all pairs, then for labels
      copies.py            rows that are copies of each other, which must not vouch for each other
      votes.py             what neighbours say about a row, and what a row's label does to others; very many classes
      noise_model.py       one model of votes and wrong labels at a given level of noise
      noise_level.py       how likely each level of noise is, and the model averaged over them: P(label is right)
      models.py            what models say that never saw the row: out-of-fold predictions of three of them
      given_labels.py      what predicts the given labels: a bound on the errors, joined with the model for the ranking
      error_count.py       how many labels are wrong, and lists with a limited share of false alarms
    audit.py             and for continuous targets
      target_model.py      the same questions for continuous targets
    result.py            LabelAudit, the answer
      check.py             rows that arrived later, judged against the audited ones; rows without a label
      saved.py             the answer as an archive, and back
      review.py            rows to judge, and what the answers say about the number of errors and about lists
      export.py            suspects as tasks for other tools, and the answers back
      explain.py           Explanation: a row's neighbours, what it does to others, its value under other labels
    scan.py              what the lists of neighbours tell beside: copies, contradictions, outliers, leaks, imbalance

The evidence of a row never holds its own label, so it is fair to judge that label by it.
"""

from nearworth.audit.audit import audit_labels
from nearworth.audit.error_count import ErrorCount
from nearworth.audit.explain import Explanation
from nearworth.audit.result import LabelAudit

__all__ = ["ErrorCount", "Explanation", "LabelAudit", "audit_labels"]
