"""What a run returns: sums over validation points, and what is made of them.

sums.py           Leaf, Moments: sums over a few validation points, and over sets of them
                  SumTree: these along a fixed binary tree
                  Origin: which data and parameters sums belong to
                  Partial: a tree and its origin, merged, saved and loaded
typical_error.py  TypicalError: the root mean square error of approximate values
valuation.py      Valuation: values, standard errors, certified intervals
detection.py      rules that turn values into suspects
owners.py         totals by owner, payments, statements
plots.py          pictures for notebooks; no other module imports matplotlib

engine.run ---> Leaf ---> Moments ---> SumTree ---> Partial ---> Valuation
                                                                     |
                                                     Detection, OwnerValues, plots
"""
