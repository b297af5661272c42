"""From values to decisions: which labels are wrong, what they should be, how sure we are, and why.

    audit.py           audit_labels; rows that arrive later; rows without a label. First the checks
                       and one pass over all pairs, then for labels:
      votes.py         What neighbors suggest about a row, and what a row's label does to others.
                       Very many classes. Duplicates, which never count as evidence for one
                       another.
      noise_model.py   One model of votes and wrong labels at a given level of noise.
      minimum.py       The minimum of a loss, to rounding: where fits end must not depend on the
                       processor.
      noise_level.py   How likely each level of noise is, and the model averaged over the levels:
                       P(label is right).
      predictions.py   What predicts the given labels: out-of-fold models, a bound on the errors,
                       and the order that uses them.
      error_count.py   How many labels are wrong, and lists with few false positives: by the model,
                       or by a review.
    audit.py           And for continuous targets:
      target_model.py  The same questions for targets.
    result.py          LabelAudit, the result.
      export.py        The result in files: tasks for other tools, their answers, and an archive of
                       all of it.
      explain.py       Explanation: a row's neighbors, its effect on others, its value under other
                       labels.
    scan.py            What else the lists of neighbors show: duplicates, conflicts, outliers,
                       leaks, imbalance.

The evidence of a row never holds its own label, so it is fair to judge that label by it.
"""
