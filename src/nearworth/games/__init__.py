"""Game theory in rank space: what each rank is worth, given the labels in rank order.

    coefficients.py    the sequences of every semivalue
    ties.py            sums over blocks of tied ranks
    classification.py  the closed form for matches                 (uses coefficients, ties)
    regression.py      the closed form for squared errors          (uses the linear form of classification)
    intervals.py       ranks in unknown order: mean values, sharp intervals      (uses coefficients)
    rate_curve.py      what the unranked points probably look like               (uses intervals)
    truncation.py      classification from the k nearest ranks, and how many certify an error
                                                           (uses intervals, rate_curve, classification)
    utilities.py       the four utilities, from their definitions  (not used by the modules above)
    oracle.py          a semivalue from all 2^n subsets            (not used by the modules above)

Only numpy, no geometry, no files. The last two modules are the definition that the others are tested against. The
engine runs the same closed forms in compiled loops with the coefficients made here, and is tested against these.
"""
