"""Game theory in rank space: what each rank is worth, given the labels in rank order.

    coefficients.py    the sequences of every semivalue
    ties.py            sums over blocks of tied ranks
    classification.py  the closed form for matches                 (uses coefficients, ties)
    regression.py      the closed form for squared errors          (uses the linear form of classification)
    owned_game.py      classification given rows that are always there         (uses coefficients)
    owner_game.py      classification whose players are owners of rows        (uses coefficients)
    truncation.py      classification from the k nearest ranks: sharp intervals, and how many ranks certify an error
    definition.py      the four utilities as plain functions, and a semivalue from all 2^n subsets

Only numpy, no geometry, no files. The last module uses none of the others: they are tested against it. The engine
runs the same closed forms in compiled loops with the coefficients made here, and is tested against these.
"""
