"""Game theory in rank space: what each rank is worth, given the labels in rank order.

    coefficients.py    the sequences of every semivalue
    ties.py            sums over blocks of tied ranks
    classification.py  the closed form for matches                 (uses coefficients, ties)
    regression.py      the closed form for squared errors          (uses the linear form of classification)
    windows.py         extreme sums of losses over a range of ranks
    blocks.py          ranks in unknown order: mean value, sharp interval      (uses windows)
    truncation.py      classification from the k nearest ranks   (uses blocks, rate_curve, classification)
    rate_curve.py      what the unranked probably look like
    candidates.py      how many ranks certify an error            (uses blocks, truncation)
    truncated_regression.py, far_residuals.py       regression from the k nearest ranks, and its bounds
    utilities.py       the four utilities, from their definitions  (used by nobody above)
    oracle.py          a semivalue from all 2^n subsets            (used by nobody above)

Only numpy, no geometry, no files. The last two modules are the definition that the others are tested against. The
engine runs the same closed forms in compiled loops with the coefficients made here, and is tested against these.
"""
