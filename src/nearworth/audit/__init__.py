"""From values to decisions: which labels are wrong, what they should be, how sure we are, and why.

    audit.py             audit_labels, rows that arrive later, rows without a label: checks, one
    pass, then for labels
      votes.py             what neighbours say about a row, and what a row's label does to others;
      very many classes;
                           copies, which must not vouch for each other
      noise_model.py       one model of votes and wrong labels at a given level of noise minimum.py
      the minimum of a loss, to rounding: where fits end must not depend on the processor
      noise_level.py       how likely each level of noise is, and the model averaged over them:
      P(label is right) predictions.py       what predicts the given labels: out-of-fold models; a
      bound on the errors, and the ranking error_count.py       how many labels are wrong, and lists
      with few false alarms: by the model, or by a review
    audit.py             and for continuous targets
      target_model.py      the same questions for continuous targets
    result.py            LabelAudit, the answer
      export.py            the answer in files: tasks for other tools and answers back, and an
      archive of all of it explain.py           Explanation: a row's neighbours, what it does to
      others, its value under other labels
    scan.py              what else the lists of neighbours show: copies, contradictions, outliers,
    leaks, imbalance

The evidence of a row never holds its own label, so it is fair to judge that label by it.
"""
