"""The one door: every input is checked here, once, and what comes out can be trusted.

    parameters.py   the table of constructor parameters and what each may be
    features.py     X in any form -> a numeric matrix with names
    pairs.py        X and y that lie elsewhere: files, datasets, a column of a frame
    targets.py      y in any form -> codes of classes, or real targets; weights, row numbers
    warning.py      warnings that point at the user's own line
    fingerprint.py  a short hash that says whether two inputs were the same

Every message names the argument, says what was found and what to do about it.
"""
