"""What a run gives: sums over validation points, and what is made of them.

sums.py       Leaf, Moments: sums over a few validation points, and over sets of them;
              Partial: these along a fixed binary tree; merged, saved, loaded
              Origin: which data and parameters sums belong to, and whether two may be added
typical_error.py  TypicalError: the root mean square error of approximate values, estimated from a
sample valuation.py  Valuation: values, standard errors, certified intervals
(uses all the others) detection.py  rules that turn values into suspects owners.py     totals by
owner plots.py      pictures for notebooks: the one place that knows matplotlib

    engine.run ----> Leaf ----> Moments ----> Partial ----> Valuation ----> Detection, OwnerValues,
    plots
                                                 |              |
                                                 +---- Origin --+
"""
